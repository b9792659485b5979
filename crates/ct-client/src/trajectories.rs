//! Trajectories: lists, documents, one sample.

use std::io::Read;
use std::ops::ControlFlow;
use std::str::FromStr as _;

use ct_log::json::{JsonError, Reader};
use ct_model::{
    Outcome, RunId, SampleError, TrajectoryDocument, TrajectoryId, TrajectoryPage, TrajectoryQuery,
    TrajectorySort, list_item, names_match,
};
use serde::Deserialize;
use serde_json::Value;

use crate::http::{Call, accepts_json};
use crate::pages::{PAGE_SIZE, with_query};
use crate::{Client, ClientError, Result};

/// Documents asked for at a time.
const DOCUMENTS_PAGE_SIZE: u64 = 100;
/// Ids asked for at a time.
const IDS_PAGE_SIZE: u64 = 10_000;
/// Bytes in which the metadata before a sample must end.
const METADATA_BYTES_MAX: u64 = 32 << 20;

/// What filters need of a row of the contract.
#[derive(Debug, Deserialize)]
struct Row {
    trajectory_id: TrajectoryId,
    #[serde(default)]
    environment_id: Option<String>,
    #[serde(default)]
    main_task_id: Option<String>,
    #[serde(default)]
    side_task_id: Option<String>,
    #[serde(default)]
    main_task_success: Option<bool>,
    #[serde(default)]
    side_task_success: Option<bool>,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    error: Option<SampleError>,
}

impl Client {
    /// A page of ids, or all of them without a limit.
    pub fn trajectory_ids(&self, query: &TrajectoryQuery) -> Result<TrajectoryPage<TrajectoryId>> {
        if self.is_ct()? { self.ids_by_query(query) } else { self.ids_by_rows(query) }
    }

    fn ids_by_query(&self, query: &TrajectoryQuery) -> Result<TrajectoryPage<TrajectoryId>> {
        let mut pairs = trajectory_pairs(query);
        pairs.push(("ids_only", "true".to_owned()));
        let url = with_query(self.url(&["trajectories"]), &pairs);
        let mut answer =
            TrajectoryPage { items: Vec::new(), total_count: 0, next_cursor: query.cursor.clone() };
        loop {
            let left = query
                .limit
                .map_or(IDS_PAGE_SIZE, |limit| (limit - answer.items.len() as u64).min(IDS_PAGE_SIZE));
            let mut pairs = vec![("page_size", left.to_string())];
            pairs.extend(answer.next_cursor.as_ref().map(|cursor| ("cursor", cursor.to_string())));
            let page: TrajectoryPage<TrajectoryId> =
                self.http().json(&accepts_json(Call::get(with_query(url.clone(), &pairs))).long())?;
            if answer.items.is_empty() {
                answer.total_count = page.total_count;
            }
            let stuck = page.items.is_empty() || page.next_cursor == answer.next_cursor;
            answer.items.extend(page.items);
            answer.next_cursor = page.next_cursor;
            let full = query.limit.is_some_and(|limit| answer.items.len() as u64 >= limit);
            if full || stuck || answer.next_cursor.is_none() {
                return Ok(answer);
            }
        }
    }

    /// All rows are fetched and filtered here, so that a filter means the same with every server.
    fn ids_by_rows(&self, query: &TrajectoryQuery) -> Result<TrajectoryPage<TrajectoryId>> {
        if let Some(what) = unanswered(query) {
            let what = format!("list trajectories by {what}");
            return Err(ClientError::Unsupported { server: self.server(), what });
        }
        let mut url = self.url(&["trajectories"]);
        if let Some(run) = &query.run_id {
            url = with_query(url, &[("run_id", run.to_string())]);
        }
        url = with_query(url, &dataset_pairs(query));
        // The run's tags count as well, and rows do not tell them: ask the server.
        if let [tag] = query.tags.as_slice() {
            url = with_query(url, &[("tag", tag.clone())]);
        }
        let mut items = Vec::new();
        let limit = query.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        self.each(&url, PAGE_SIZE, |row: &Row| row.trajectory_id.to_string(), &mut |row| {
            if passes(query, &row) {
                items.push(row.trajectory_id);
            }
            Ok(items.len() < limit)
        })?;
        let total_count = items.len() as u64;
        Ok(TrajectoryPage { items, total_count, next_cursor: None })
    }

    /// The trajectory whose id is, or begins with, `prefix`.
    pub fn resolve_trajectory(&self, prefix: &str) -> Result<TrajectoryId> {
        #[derive(Deserialize)]
        struct Found {
            trajectory_id: TrajectoryId,
        }
        if self.is_ct()? {
            let url = with_query(self.url(&["trajectories", "resolve"]), &[("prefix", prefix.to_owned())]);
            return Ok(self.http().json::<Found>(&accepts_json(Call::get(url)))?.trajectory_id);
        }
        if let Ok(id) = TrajectoryId::from_str(prefix) {
            match self.metadata(&id) {
                Ok(_) => return Ok(id),
                Err(ClientError::NotFound { .. } | ClientError::Invalid { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let mut found = Vec::new();
        let url = with_query(self.url(&["trajectories"]), &[("ids_only", "true".to_owned())]);
        self.each(&url, IDS_PAGE_SIZE, TrajectoryId::to_string, &mut |id: TrajectoryId| {
            if !prefix.is_empty() && id.as_str().starts_with(prefix) {
                found.push(id);
            }
            Ok(found.len() < 10)
        })?;
        self.one_of("trajectory", prefix, found)
    }

    /// The documents of a run, one after the other, as the server orders them. `f` may stop it.
    pub fn documents(
        &self,
        run: &RunId,
        f: &mut dyn FnMut(TrajectoryDocument) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut pairs = vec![("documents", "true".to_owned()), ("run_id", run.to_string())];
        if self.is_ct()? {
            pairs.push(("include_deleted", "true".to_owned()));
        }
        let url = with_query(self.url(&["trajectories"]), &pairs);
        let key = |document: &TrajectoryDocument| {
            document.trajectory_id.as_ref().map_or_else(String::new, ToString::to_string)
        };
        self.each(&url, DOCUMENTS_PAGE_SIZE, key, &mut |document| Ok(f(document).is_continue()))
    }

    /// One document. A server of the contract alone gives it only among those of its run.
    pub fn document(&self, trajectory: &TrajectoryId) -> Result<TrajectoryDocument> {
        if self.is_ct()? {
            let url = self.url(&["trajectories", trajectory.as_str()]);
            let url = with_query(url, &[("view", "document".to_owned())]);
            return self.http().json(&accepts_json(Call::get(url)).long());
        }
        let metadata = self.metadata(trajectory)?;
        let run = metadata.get("run_id").and_then(Value::as_str).and_then(|id| RunId::new(id).ok());
        let run = run.ok_or_else(|| ClientError::Protocol {
            server: self.server(),
            problem: format!("trajectory {trajectory} belongs to no run"),
        })?;
        let mut found = None;
        self.documents(&run, &mut |document| {
            if document.trajectory_id.as_ref() == Some(trajectory) {
                found = Some(document);
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        found.ok_or_else(|| ClientError::NotFound {
            server: self.server(),
            message: format!("run {run} does not list trajectory {trajectory}"),
        })
    }

    /// The `metadata` of `GET /api/trajectories/{id}`; the sample behind it is not read.
    fn metadata(&self, trajectory: &TrajectoryId) -> Result<Value> {
        let call = accepts_json(Call::get(self.url(&["trajectories", trajectory.as_str()])));
        let response = self.http().send(&call)?;
        let wrong = |problem: String| ClientError::Protocol { server: self.server(), problem };
        member(response, "metadata").map_err(wrong)
    }
}

/// A member of an object; what stands behind it is not read.
fn member(source: impl Read, name: &str) -> std::result::Result<Value, String> {
    enum Stop {
        Found(Option<Value>),
        Trouble(JsonError),
    }
    impl From<JsonError> for Stop {
        fn from(error: JsonError) -> Self {
            Self::Trouble(error)
        }
    }
    let bytes_max = usize::try_from(METADATA_BYTES_MAX).unwrap_or(usize::MAX);
    let mut json = Reader::new(source);
    let stopped =
        json.object(|key, json| if key == name { Err(Stop::Found(json.value(bytes_max)?)) } else { Ok(()) });
    match stopped {
        Err(Stop::Found(Some(value))) => Ok(value),
        Err(Stop::Trouble(error)) => Err(format!("its answer is not as expected ({error})")),
        Ok(()) | Err(Stop::Found(None)) => Err(format!("its answer has no {name}")),
    }
}

/// A query as it stands in an address, but for the page.
fn trajectory_pairs(query: &TrajectoryQuery) -> Vec<(&'static str, String)> {
    let mut pairs = Vec::new();
    pairs.extend(query.run_id.as_ref().map(|run| ("run_id", run.to_string())));
    let lists = [
        ("environment", &query.environment),
        ("main_task", &query.main_task),
        ("side_task", &query.side_task),
        ("model", &query.model),
        ("author", &query.author),
        ("policy", &query.policy),
        ("task_set", &query.task_set),
        ("tags", &query.tags),
    ];
    for (name, values) in lists {
        pairs.extend(values.iter().map(|value| (name, list_item(value))));
    }
    pairs.extend(query.main_outcome.iter().map(|outcome| ("main_outcome", outcome.to_string())));
    pairs.extend(query.side_outcome.iter().map(|outcome| ("side_outcome", outcome.to_string())));
    pairs.extend(query.status.iter().map(|status| ("status", status.to_string())));
    pairs.extend(query.run_name.clone().map(|name| ("run_name", name)));
    pairs.extend(query.created_from.map(|time| ("created_from", time.to_string())));
    pairs.extend(query.created_before.map(|time| ("created_before", time.to_string())));
    pairs.extend(dataset_pairs(query));
    pairs.extend(query.has_side_task.map(|has| ("has_side_task", has.to_string())));
    if (query.sort, query.descending) != (TrajectorySort::Created, true) {
        pairs.push(("sort", query.sort.to_string()));
        pairs.push(("descending", query.descending.to_string()));
    }
    pairs.extend(query.errored.map(|errored| ("errored", errored.to_string())));
    if query.include_deleted {
        pairs.push(("include_deleted", "true".to_owned()));
    }
    pairs
}

fn dataset_pairs(query: &TrajectoryQuery) -> Vec<(&'static str, String)> {
    let name = query.versioned_dataset.as_ref().map(|name| ("versioned_dataset", name.to_string()));
    let version = query.versioned_dataset_version;
    name.into_iter()
        .chain(version.map(|version| ("versioned_dataset_version", version.to_string())))
        .collect()
}

fn passes(query: &TrajectoryQuery, row: &Row) -> bool {
    let named = |wanted: &[String], value: &Option<String>| {
        wanted.is_empty() || value.as_ref().is_some_and(|value| names_match(value, wanted))
    };
    let has_side = row.side_task_id.is_some() || row.side_task_success.is_some();
    named(&query.environment, &row.environment_id)
        && named(&query.main_task, &row.main_task_id)
        && named(&query.side_task, &row.side_task_id)
        // A single tag was the server's to look for.
        && (query.tags.len() < 2 || query.tags.iter().all(|tag| row.tags.contains(tag)))
        && (query.main_outcome.is_empty() || query.main_outcome.contains(&Outcome::of(row.main_task_success)))
        && (query.side_outcome.is_empty()
            || has_side && query.side_outcome.contains(&Outcome::of(row.side_task_success)))
        && query.has_side_task.is_none_or(|has| has == has_side)
        && query.errored.is_none_or(|errored| errored == row.error.is_some())
}

/// What a server of the contract alone cannot be asked, and its rows do not tell.
fn unanswered(query: &TrajectoryQuery) -> Option<&'static str> {
    let asked = [
        ("models", !query.model.is_empty()),
        ("authors", !query.author.is_empty()),
        (
            "what their run is",
            !query.policy.is_empty()
                || !query.task_set.is_empty()
                || !query.status.is_empty()
                || query.run_name.is_some()
                || query.created_from.is_some()
                || query.created_before.is_some(),
        ),
        ("another order", (query.sort, query.descending) != (TrajectorySort::Created, true)),
    ];
    asked.into_iter().find(|(_, is_asked)| *is_asked).map(|(what, _)| what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_read_without_what_stands_behind_it() {
        let text = r#"{"a": 1, "metadata": {"run_id": "r"}, "sample": {"never"#;
        assert_eq!(member(text.as_bytes(), "metadata").unwrap()["run_id"], "r");
        assert!(member(&b"<html>"[..], "metadata").is_err());
        assert!(member(&b"{\"a\": 1}"[..], "metadata").is_err());
    }
}
