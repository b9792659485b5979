//! Runs: lists, one, edits.

use std::str::FromStr as _;

use ct_model::{
    OutcomeCounts, RunEdit, RunHeader, RunId, RunPage, RunQuery, RunRecord, RunRow, RunSort, RunStatus,
    Values, list_item, names_match,
};
use jiff::Timestamp;
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::http::{Call, accepts_json};
use crate::pages::{PAGE_SIZE, with_query};
use crate::{Client, ClientError, Result};

/// The filters of a query that a server of the contract alone cannot answer, by the names of their options.
pub fn unanswered(query: &RunQuery) -> Vec<&'static str> {
    [
        ("--env", !query.environment.is_empty()),
        ("--main-task", !query.main_task.is_empty()),
        ("--side-task", !query.side_task.is_empty()),
        ("--author", !query.author.is_empty()),
        ("--status", !query.status.is_empty()),
        ("--main-outcome", !query.main_outcome.is_empty()),
        ("--side-outcome", !query.side_outcome.is_empty()),
        ("--deleted", query.include_deleted),
        ("--cursor", query.cursor.is_some()),
        ("--sort main-rate", query.sort == RunSort::MainRate),
        ("--sort status", query.sort == RunSort::Status),
    ]
    .into_iter()
    .filter_map(|(name, used)| used.then_some(name))
    .collect()
}

impl Client {
    /// A page of runs, or all of them without a limit. A server of the contract alone is asked for all headers, which
    /// are filtered here; what they do not tell is refused as [`ClientError::Unsupported`].
    pub fn runs(&self, query: &RunQuery) -> Result<RunPage> {
        if self.is_ct()? { self.runs_by_query(query) } else { self.runs_by_headers(query) }
    }

    fn runs_by_query(&self, query: &RunQuery) -> Result<RunPage> {
        let url = with_query(self.url(&["runs"]), &run_pairs(query));
        let mut answer = RunPage { items: Vec::new(), total_count: 0, next_cursor: query.cursor.clone() };
        let mut page_size = PAGE_SIZE;
        loop {
            let left =
                query.limit.map_or(page_size, |limit| (limit - answer.items.len() as u64).min(page_size));
            let mut pairs = vec![("page_size", left.to_string())];
            pairs.extend(answer.next_cursor.as_ref().map(|cursor| ("cursor", cursor.to_string())));
            let call = accepts_json(Call::get(with_query(url.clone(), &pairs))).long();
            let page: RunPage = match self.http().json(&call) {
                Err(ClientError::TooLong { .. }) if left > 1 => {
                    page_size = left / 2;
                    continue;
                }
                page => page?,
            };
            if answer.items.is_empty() {
                answer.total_count = page.total_count;
            }
            if page.next_cursor.is_some() && (page.items.is_empty() || page.next_cursor == answer.next_cursor)
            {
                return Err(ClientError::Protocol {
                    server: self.server(),
                    problem: "its list of runs repeats itself".to_owned(),
                });
            }
            answer.items.extend(page.items);
            answer.next_cursor = page.next_cursor;
            let full = query.limit.is_some_and(|limit| answer.items.len() as u64 >= limit);
            if full || answer.next_cursor.is_none() {
                return Ok(answer);
            }
        }
    }

    fn runs_by_headers(&self, query: &RunQuery) -> Result<RunPage> {
        let missing = unanswered(query);
        if !missing.is_empty() {
            let what = format!("answer {}", missing.join(", "));
            return Err(ClientError::Unsupported { server: self.server(), what });
        }
        let mut rows = Vec::new();
        self.each_header(&query.tags, &mut |header| {
            if let Some(row) = passes(query, &header).then(|| row_of(header)).flatten() {
                rows.push(row);
            }
            Ok(true)
        })?;
        sort(&mut rows, query);
        let total_count = rows.len() as u64;
        let limit = query.limit.unwrap_or(u64::MAX);
        let rows = rows.into_iter().skip(index(query.skip)).take(index(limit)).collect();
        Ok(RunPage { items: rows, total_count, next_cursor: None })
    }

    /// Headers of all runs that carry the tags, newest first.
    pub fn each_header(&self, tags: &[String], f: &mut dyn FnMut(RunHeader) -> Result<bool>) -> Result<()> {
        let mut url = self.url(&["runs"]);
        // A tag with a comma would be read as two.
        let tags: Vec<&str> = tags.iter().map(String::as_str).filter(|tag| !tag.contains(',')).collect();
        if !tags.is_empty() {
            url = with_query(url, &[("tags_include", tags.join(","))]);
        }
        let key = |header: &RunHeader| header.run_id.as_ref().map_or_else(String::new, ToString::to_string);
        self.each(&url, PAGE_SIZE, key, f)
    }

    /// The header of a run.
    pub fn header(&self, run: &RunId) -> Result<RunHeader> {
        self.http().json(&accepts_json(Call::get(self.url(&["runs", run.as_str()]))).long())
    }

    /// Everything about a run, also of a deleted one; `None` from a server of the contract alone.
    pub fn record(&self, run: &RunId) -> Result<Option<RunRecord>> {
        if !self.is_ct()? {
            return Ok(None);
        }
        let url = with_query(
            self.url(&["runs", run.as_str()]),
            &[("view", "record".to_owned()), ("include_deleted", "true".to_owned())],
        );
        self.http().json(&accepts_json(Call::get(url)).long()).map(Some)
    }

    /// The runs of an eval, not deleted ones, oldest first. A `ct` alone answers it.
    pub fn runs_of_eval(&self, eval_id: &str) -> Result<Vec<RunId>> {
        #[derive(Deserialize)]
        struct Found {
            run_ids: Vec<RunId>,
        }
        let url = with_query(self.url(&["runs", "of-eval"]), &[("eval_id", eval_id.to_owned())]);
        Ok(self.http().json::<Found>(&accepts_json(Call::get(url)))?.run_ids)
    }

    /// The run whose id is, or begins with, `prefix`; with `deleted`, also a deleted one.
    pub fn resolve_run(&self, prefix: &str, deleted: bool) -> Result<RunId> {
        #[derive(Deserialize)]
        struct Found {
            run_id: RunId,
        }
        if self.is_ct()? {
            let mut pairs = vec![("prefix", prefix.to_owned())];
            if deleted {
                pairs.push(("include_deleted", "true".to_owned()));
            }
            let url = with_query(self.url(&["runs", "resolve"]), &pairs);
            return Ok(self.http().json::<Found>(&accepts_json(Call::get(url)))?.run_id);
        }
        if let Ok(id) = RunId::from_str(prefix) {
            match self.header(&id) {
                Ok(_) => return Ok(id),
                Err(ClientError::NotFound { .. } | ClientError::Invalid { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let mut found = Vec::new();
        self.each_header(&[], &mut |header| {
            found.extend(header.run_id.filter(|id| !prefix.is_empty() && id.as_str().starts_with(prefix)));
            Ok(found.len() < 10)
        })?;
        self.one_of("run", prefix, found)
    }

    /// The only one of those found.
    pub(crate) fn one_of<I: ToString>(&self, noun: &str, prefix: &str, mut found: Vec<I>) -> Result<I> {
        match (found.len(), found.pop()) {
            (1, Some(id)) => Ok(id),
            (0, _) | (_, None) => Err(ClientError::NotFound {
                server: self.server(),
                message: format!("{noun} {prefix} was not found"),
            }),
            (_, Some(last)) => {
                found.push(last);
                Err(ClientError::Conflict {
                    server: self.server(),
                    message: format!("{prefix} is the beginning of several ids"),
                    candidates: found.iter().map(ToString::to_string).collect(),
                    deleted_run: None,
                })
            }
        }
    }

    /// Changes what users may change of a run, and gives the changed header. The contract has no way to change the task
    /// set.
    pub fn edit_run(&self, run: &RunId, edit: &RunEdit) -> Result<RunHeader> {
        let mut patch = Map::new();
        if let Some(name) = &edit.name {
            patch.insert("name".to_owned(), json!(name));
        }
        let fields =
            [("policy", &edit.policy), ("dataset", &edit.dataset), ("description", &edit.description)];
        for (field, value) in fields {
            if let Some(value) = value {
                patch.insert(field.to_owned(), json!(value));
            }
        }
        if edit.task_set.is_some() {
            let what = "change the task set of a run that is there".to_owned();
            return Err(ClientError::Unsupported { server: self.server(), what });
        }
        if edit.set_tags.is_some() || !edit.add_tags.is_empty() || !edit.remove_tags.is_empty() {
            let mut tags = match &edit.set_tags {
                Some(tags) => tags.clone(),
                None => self.header(run)?.tags,
            };
            tags.retain(|tag| !edit.remove_tags.contains(tag));
            for tag in &edit.add_tags {
                if !tags.contains(tag) {
                    tags.push(tag.clone());
                }
            }
            patch.insert("tags".to_owned(), json!(tags));
        }
        if let Some(comments) = &edit.comments {
            patch.insert("comments".to_owned(), json!(comments));
        }
        let call = Call::new(Method::PATCH, self.url(&["runs", run.as_str()])).json(&Value::Object(patch));
        self.http().json(&accepts_json(call).long())
    }

    /// Hides a run. False: it was deleted already.
    pub fn delete_run(&self, run: &RunId) -> Result<bool> {
        self.needs_ct("delete runs")?;
        self.changed(&Call::new(Method::DELETE, self.url(&["runs", run.as_str()])))
    }

    /// Brings a deleted run back. False: it was not deleted.
    pub fn restore_run(&self, run: &RunId) -> Result<bool> {
        self.needs_ct("restore runs")?;
        self.changed(&Call::new(Method::POST, self.url(&["runs", run.as_str(), "restore"])).repeatable())
    }

    fn changed(&self, call: &Call) -> Result<bool> {
        #[derive(Deserialize)]
        struct Answer {
            changed: bool,
        }
        Ok(self.http().json::<Answer>(call)?.changed)
    }
}

fn index(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// A query as it stands in an address, but for the page.
fn run_pairs(query: &RunQuery) -> Vec<(&'static str, String)> {
    let mut pairs = vec![("view", "row".to_owned())];
    pairs.extend(query.name.clone().map(|name| ("name", name)));
    let lists = [
        ("policy", &query.policy),
        ("task_set", &query.task_set),
        ("environment", &query.environment),
        ("main_task", &query.main_task),
        ("side_task", &query.side_task),
        ("model", &query.model),
        ("author", &query.author),
        ("tags", &query.tags),
    ];
    for (name, values) in lists {
        pairs.extend(values.iter().map(|value| (name, list_item(value))));
    }
    pairs.extend(query.status.iter().map(|status| ("status", status.to_string())));
    pairs.extend(query.main_outcome.iter().map(|outcome| ("main_outcome", outcome.to_string())));
    pairs.extend(query.side_outcome.iter().map(|outcome| ("side_outcome", outcome.to_string())));
    pairs.extend(query.created_from.map(|time| ("created_from", time.to_string())));
    pairs.extend(query.created_before.map(|time| ("created_before", time.to_string())));
    if query.include_deleted {
        pairs.push(("include_deleted", "true".to_owned()));
    }
    pairs.push(("sort", query.sort.as_str().to_owned()));
    pairs.push(("descending", query.descending.to_string()));
    pairs
}

/// Whether a header passes the filters that headers can answer.
fn passes(query: &RunQuery, header: &RunHeader) -> bool {
    let any = |wanted: &[String], value: Option<&str>| {
        wanted.is_empty() || value.is_some_and(|value| names_match(value, wanted))
    };
    let models = header.models.as_deref().unwrap_or_default();
    let created = header.created_at.as_deref().and_then(|text| text.parse::<Timestamp>().ok());
    let name = query.name.as_ref().map(|name| name.to_lowercase());
    name.is_none_or(|name| header.name.to_lowercase().contains(&name))
        && any(&query.policy, header.policy.as_deref())
        && (query.task_set.is_empty()
            || header.task_set.as_ref().is_some_and(|task_set| query.task_set.contains(task_set)))
        && (query.model.is_empty() || models.iter().any(|model| names_match(model, &query.model)))
        && query.tags.iter().all(|tag| header.tags.contains(tag))
        && query.created_from.is_none_or(|from| created.is_some_and(|created| created >= from))
        && query.created_before.is_none_or(|before| created.is_some_and(|created| created < before))
}

/// The row of a header; what it does not tell is empty.
fn row_of(header: RunHeader) -> Option<RunRow> {
    let models = header.models.unwrap_or_default().into_iter().collect();
    Some(RunRow {
        run_id: header.run_id?,
        name: header.name,
        policy: header.policy,
        task_set: header.task_set,
        status: RunStatus::Unknown,
        created_at: header.created_at.and_then(|text| text.parse().ok()).unwrap_or(Timestamp::UNIX_EPOCH),
        tags: header.tags,
        environments: Values::default(),
        main_tasks: Values::default(),
        side_tasks: Values::default(),
        models: Values::from(&models),
        trajectory_count: header.trajectory_count.unwrap_or_default(),
        counts: OutcomeCounts::default(),
        total_cost_usd: header.total_cost_usd,
        cost_incomplete: header.cost_by_model.values().any(Option::is_none),
        deleted_at: None,
    })
}

/// Puts rows, which came newest first, into the order asked for; rows without a value come last.
fn sort(rows: &mut [RunRow], query: &RunQuery) {
    use std::cmp::Ordering;
    if query.sort == RunSort::Created {
        if !query.descending {
            rows.reverse();
        }
        return;
    }
    let turned = |order: Ordering| if query.descending { order.reverse() } else { order };
    let by_text = |a: &Option<String>, b: &Option<String>| match (a, b) {
        (Some(a), Some(b)) => turned(a.to_lowercase().cmp(&b.to_lowercase())),
        (a, b) => a.is_none().cmp(&b.is_none()),
    };
    rows.sort_by(|a, b| match query.sort {
        RunSort::Name => turned(a.name.to_lowercase().cmp(&b.name.to_lowercase())),
        RunSort::Cost => match (a.total_cost_usd, b.total_cost_usd) {
            (Some(a), Some(b)) => turned(a.total_cmp(&b)),
            (a, b) => a.is_none().cmp(&b.is_none()),
        },
        RunSort::Trajectories => turned(a.trajectory_count.cmp(&b.trajectory_count)),
        RunSort::Policy => by_text(&a.policy, &b.policy),
        RunSort::TaskSet => by_text(&a.task_set, &b.task_set),
        RunSort::Created | RunSort::Status | RunSort::MainRate => Ordering::Equal,
    });
}
