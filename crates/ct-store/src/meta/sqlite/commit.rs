//! Makes a run visible, in one transaction.

use std::collections::BTreeSet;

use ct_model::{LogHash, Outcome, RunEdit, RunHeader, RunId, RunStatus, TaskCounts, Values};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, named_params, params};
use sha2::{Digest as _, Sha256};

use super::columns::{put_run, put_trajectory};
use super::postings::{ANY, Changes, ERRORED, Facet, LIVE};
use super::{DbError, datasets, from_json, journal, labels, signed, to_json};
use crate::error::{Conflict, StoreError};
use crate::meta::{Entry, StagedRun, Sums, layer};
use crate::record::{CommitMode, Committed};

type Result<T> = std::result::Result<T, DbError>;

/// Longer values are indexed by their hash, so that no name makes the index large.
const VALUE_BYTES_MAX: usize = 256;

/// The value under which a text is found.
pub(super) fn value(text: &str) -> String {
    if text.len() <= VALUE_BYTES_MAX {
        return text.to_owned();
    }
    format!("sha256 {}", LogHash::from_bytes(Sha256::digest(text.as_bytes()).into()))
}

/// The values under which a path or several joined ones are found: whole, each part, and the last segment of each.
fn path_values(text: &str) -> BTreeSet<String> {
    let parts = std::iter::once(text).chain(text.split('+'));
    let last = |part: &str| part.rsplit('/').next().unwrap_or_default().to_owned();
    let values = parts.flat_map(|part| [part.to_owned(), last(part)]);
    values.filter(|text| !text.is_empty()).map(|text| value(&text)).collect()
}

/// What a run is found by that users can change.
pub(super) fn label_facets(
    policy: Option<&str>,
    task_set: Option<&str>,
    tags: &[String],
) -> Vec<(Facet, String)> {
    let mut facets: Vec<_> =
        policy.iter().flat_map(|text| path_values(text)).map(|v| (Facet::RunPolicy, v)).collect();
    facets.extend(task_set.map(|text| (Facet::RunTaskSet, value(text))));
    facets.extend(tags.iter().map(|tag| (Facet::RunTag, value(tag))));
    facets
}

/// What a run is found by that its log decides.
fn log_facets(sums: &Sums, status: RunStatus) -> Vec<(Facet, String)> {
    let mut facets = vec![(Facet::RunStatus, status.as_str().to_owned())];
    for (facet, texts) in [
        (Facet::RunEnvironment, &sums.environments),
        (Facet::RunMainTask, &sums.main_tasks),
        (Facet::RunSideTask, &sums.side_tasks),
        (Facet::RunModel, &sums.models),
    ] {
        facets.extend(texts.iter().flat_map(|text| path_values(text)).map(|value| (facet, value)));
    }
    facets.extend(sums.authors.iter().map(|author| (Facet::RunAuthor, value(author))));
    for (facet, counts) in
        [(Facet::RunMainOutcome, &sums.counts.main), (Facet::RunSideOutcome, &sums.counts.side)]
    {
        facets.extend(outcomes(counts).map(|outcome| (facet, outcome.as_str().to_owned())));
    }
    facets
}

fn outcomes(counts: &TaskCounts) -> impl Iterator<Item = Outcome> {
    [(Outcome::Pass, counts.pass), (Outcome::Fail, counts.fail), (Outcome::Unscored, counts.unscored)]
        .into_iter()
        .filter_map(|(outcome, count)| (count > 0).then_some(outcome))
}

/// What a trajectory is found by of its own.
fn entry_facets(entry: &Entry) -> Vec<(Facet, String)> {
    let row = &entry.row;
    let mut facets = Vec::new();
    for (facet, text) in [
        (Facet::TrajectoryEnvironment, &row.environment_id),
        (Facet::TrajectoryMainTask, &row.main_task_id),
        (Facet::TrajectorySideTask, &row.side_task_id),
    ] {
        facets.extend(text.iter().flat_map(|text| path_values(text)).map(|value| (facet, value)));
    }
    facets.extend(model_facets(&entry.models));
    facets.extend(author_facets(&row.authors));
    facets.extend(row.tags.iter().map(|tag| (Facet::TrajectoryTag, value(tag))));
    facets.extend(entry.datasets.iter().map(|dataset| (Facet::TrajectoryDataset, value(dataset))));
    facets.push((Facet::TrajectoryMainOutcome, entry.main_outcome().as_str().to_owned()));
    facets.extend(
        entry.side_outcome().map(|outcome| (Facet::TrajectorySideOutcome, outcome.as_str().to_owned())),
    );
    if row.error.is_some() {
        facets.push((Facet::Trajectory, ERRORED.to_owned()));
    }
    facets
}

pub(super) fn model_facets(models: &[String]) -> impl Iterator<Item = (Facet, String)> {
    let values = models.iter().flat_map(|model| path_values(model));
    values.map(|value| (Facet::TrajectoryModel, value))
}

pub(super) fn author_facets(authors: &[String]) -> impl Iterator<Item = (Facet, String)> {
    authors.iter().map(|author| (Facet::TrajectoryAuthor, value(author)))
}

/// The ids of facets, in order and without repetition.
pub(super) fn ids(
    conn: &Connection,
    changes: &mut Changes,
    facets: impl IntoIterator<Item = (Facet, String)>,
) -> Result<BTreeSet<i64>> {
    facets.into_iter().map(|(facet, value)| changes.id(conn, facet, &value)).collect()
}

/// The ids of what trajectories are found by that their run has: its tags and its dataset label.
pub(super) fn inherited_ids(
    conn: &Connection,
    changes: &mut Changes,
    tags: &[String],
    dataset: Option<&str>,
) -> Result<BTreeSet<i64>> {
    let tags = tags.iter().map(|tag| (Facet::TrajectoryTag, value(tag)));
    ids(conn, changes, tags.chain(dataset.map(|dataset| (Facet::TrajectoryDataset, value(dataset)))))
}

/// A run that is there, as far as changing it needs to know.
pub(super) struct StoredRun {
    pub(super) seq: i64,
    pub(super) created_us: i64,
    pub(super) deleted: bool,
    pub(super) version: i64,
    pub(super) revision: i64,
    pub(super) policy: Option<String>,
    pub(super) task_set: Option<String>,
    pub(super) tags: Vec<String>,
    pub(super) dataset: Option<String>,
    pub(super) recorded: RunHeader,
    pub(super) layer: RunEdit,
    pub(super) facets: BTreeSet<i64>,
}

impl StoredRun {
    pub(super) fn find(conn: &Connection, run: &RunId) -> Result<Option<Self>> {
        let mut find = conn.prepare_cached(
            "SELECT seq, deleted_us IS NOT NULL, version, revision, policy, task_set, tags, recorded, layer, facets, \
                 created_us, dataset \
             FROM runs JOIN run_details ON run = seq WHERE run_id = ?",
        )?;
        let mut rows = find.query([run.as_str()])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let text = |column: usize| row.get_ref(column)?.as_str().map_err(rusqlite::Error::from);
        Ok(Some(Self {
            seq: row.get(0)?,
            created_us: row.get(10)?,
            dataset: row.get(11)?,
            deleted: row.get(1)?,
            version: row.get(2)?,
            revision: row.get(3)?,
            policy: row.get(4)?,
            task_set: row.get(5)?,
            tags: from_json("the tags of a run", text(6)?)?,
            recorded: from_json("the header of a run", text(7)?)?,
            layer: from_json("the edits of a run", text(8)?)?,
            facets: from_json("the filter index", text(9)?)?,
        }))
    }

    /// As [`Self::find`], when it has to be there and must not be deleted.
    pub(super) fn get_live(conn: &Connection, run: &RunId) -> Result<Self> {
        let found = Self::find(conn, run)?.ok_or_else(|| StoreError::run_not_found(run))?;
        if found.deleted {
            return Err(StoreError::from(Conflict::RunDeleted { run: run.clone() }).into());
        }
        Ok(found)
    }

    /// Takes the run out of every set that it is in.
    pub(super) fn unlist(&self, conn: &Connection, changes: &mut Changes) -> Result<()> {
        let labels = label_facets(self.policy.as_deref(), self.task_set.as_deref(), &self.tags);
        let labels = ids(conn, changes, labels)?;
        for facet_id in labels.iter().chain(&self.facets) {
            changes.remove(*facet_id, self.seq);
        }
        for value in [ANY, LIVE] {
            let facet_id = changes.id(conn, Facet::Run, value)?;
            changes.remove(facet_id, self.seq);
        }
        changes.keys.clear_run(self.seq);
        Ok(())
    }

    /// Takes its trajectories out of every set that they are in.
    pub(super) fn unlist_trajectories(&self, conn: &Connection, changes: &mut Changes) -> Result<()> {
        let mut common = inherited_ids(conn, changes, &self.tags, self.dataset.as_deref())?;
        for value in [ANY, LIVE] {
            common.insert(changes.id(conn, Facet::Trajectory, value)?);
        }
        self.for_each_trajectory(conn, |seq, own| {
            for facet_id in own.union(&common) {
                changes.remove(*facet_id, seq);
            }
            changes.keys.clear(seq);
        })
    }

    /// Tells each trajectory's number and the facets of its own.
    pub(super) fn for_each_trajectory(
        &self,
        conn: &Connection,
        mut f: impl FnMut(i64, BTreeSet<i64>),
    ) -> Result<()> {
        let mut find = conn.prepare_cached("SELECT seq, facets FROM trajectories WHERE run = ?")?;
        let mut rows = find.query([self.seq])?;
        while let Some(row) = rows.next()? {
            let facets = row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
            f(row.get(0)?, from_json("the filter index", facets)?);
        }
        Ok(())
    }
}

/// Takes the next `count` numbers, and returns the last of them.
fn take_numbers(conn: &Connection, name: &str, count: u64) -> Result<i64> {
    let mut take =
        conn.prepare_cached("UPDATE counters SET used = used + ? WHERE name = ? RETURNING used")?;
    Ok(take.query_row(params![signed(count), name], |row| row.get(0))?)
}

pub(super) fn commit(
    conn: &Connection,
    staged: StagedRun<'_>,
    mode: &CommitMode,
    now: Timestamp,
) -> Result<Committed> {
    let StagedRun { run, sums, eval_metadata, entries } = staged;
    let now_us = now.as_microsecond();
    let holder = conn
        .prepare_cached("SELECT run_id FROM runs WHERE log_hash = ?")?
        .query_row([run.log.hash.as_str()], |row| row.get::<_, String>(0));
    if let Some(holder) = holder.optional()? {
        let holder = super::read::run_id(holder)?;
        if *mode != CommitMode::Again(holder.clone()) {
            return Ok(Committed::AlreadyThere(holder));
        }
    }
    let (run_id, replaced) = match mode {
        CommitMode::New if StoredRun::find(conn, &run.run_id)?.is_some() => {
            return Err(StoreError::from(Conflict::RunTaken { run: run.run_id.clone() }).into());
        }
        CommitMode::New => (&run.run_id, None),
        CommitMode::Replace(run_id) | CommitMode::Again(run_id) => {
            (run_id, Some(StoredRun::get_live(conn, run_id)?))
        }
    };

    let mut recorded = run.header.clone();
    recorded.run_id = None;
    recorded.created_at = None;
    recorded.created_by = None;
    recorded.trajectory_count = Some(sums.trajectories);
    let mut layer = replaced.as_ref().map(|old| old.layer.clone()).unwrap_or_default();
    layer::add(&mut layer, &run.edit)?;
    let shown = layer::apply(&layer, &recorded);

    let mut changes = Changes::default();
    let seq = match &replaced {
        Some(old) => {
            old.unlist(conn, &mut changes)?;
            old.unlist_trajectories(conn, &mut changes)?;
            old.seq
        }
        None => take_numbers(conn, "run", 1)?,
    };
    let version = replaced.as_ref().map_or(1, |old| old.version + 1);
    let revision = replaced.as_ref().map_or(1, |old| old.revision + 1);
    if replaced.is_some() && matches!(mode, CommitMode::Replace(_)) {
        conn.execute(
            "INSERT INTO run_revisions (run, revision, log_hash, log_format, log_size, made_us, replaced_us) \
             SELECT seq, revision, log_hash, log_format, log_size, logged_us, ?2 FROM runs WHERE seq = ?1",
            params![seq, now_us],
        )?;
    }

    let growing = match &replaced {
        Some(old) => growing(conn, old, run.eval_id.as_deref())?,
        None => None,
    };

    // What is kept of a replaced run is what this does not name: its id, and when it was made.
    let mut write = conn.prepare_cached(
        "INSERT INTO runs (seq, run_id, created_us, version, revision, status, name, name_folded, policy, task_set, \
             tags, environments, main_tasks, side_tasks, models, trajectory_count, counts, main_rate, \
             total_cost_usd, cost_incomplete, eval_id, log_hash, log_format, log_size, logged_us, created_by, dataset) \
         VALUES (:seq, :run_id, :now, :version, :revision, :status, :name, :name_folded, :policy, :task_set, \
             :tags, :environments, :main_tasks, :side_tasks, :models, :trajectory_count, :counts, :main_rate, \
             :total_cost_usd, :cost_incomplete, :eval_id, :log_hash, :log_format, :log_size, :now, :created_by, :dataset) \
         ON CONFLICT (seq) DO UPDATE SET version = :version, revision = :revision, status = :status, name = :name, \
             name_folded = :name_folded, policy = :policy, task_set = :task_set, tags = :tags, \
             environments = :environments, main_tasks = :main_tasks, side_tasks = :side_tasks, models = :models, \
             trajectory_count = :trajectory_count, counts = :counts, main_rate = :main_rate, \
             total_cost_usd = :total_cost_usd, cost_incomplete = :cost_incomplete, eval_id = :eval_id, \
             log_hash = :log_hash, log_format = :log_format, log_size = :log_size, logged_us = :now, dataset = :dataset",
    )?;
    write.execute(named_params! {
        ":seq": seq,
        ":run_id": run_id.as_str(),
        ":now": now_us,
        ":version": version,
        ":revision": revision,
        ":status": run.status.as_str(),
        ":name": shown.name,
        ":name_folded": shown.name.to_lowercase(),
        ":policy": shown.policy,
        ":task_set": shown.task_set,
        ":tags": to_json(&shown.tags),
        ":environments": to_json(&Values::from(&sums.environments)),
        ":main_tasks": to_json(&Values::from(&sums.main_tasks)),
        ":side_tasks": to_json(&Values::from(&sums.side_tasks)),
        ":models": to_json(&Values::from(&sums.models)),
        ":trajectory_count": signed(sums.trajectories),
        ":counts": to_json(&sums.counts),
        ":main_rate": sums.counts.main.rate(),
        ":total_cost_usd": recorded.total_cost_usd.filter(|cost| cost.is_finite()),
        ":cost_incomplete": recorded.cost_by_model.values().any(Option::is_none),
        ":eval_id": run.eval_id,
        ":log_hash": run.log.hash.as_str(),
        ":log_format": run.log.format.as_str(),
        ":log_size": signed(run.log.size_bytes),
        ":created_by": run.actor.user,
        ":dataset": shown.dataset,
    })?;

    let created_us = replaced.as_ref().map_or(now_us, |old| old.created_us);
    labels::put(conn, seq, Some((created_us, &shown.name.to_lowercase())))?;

    let facets = ids(conn, &mut changes, log_facets(sums, run.status))?;
    let labels = label_facets(shown.policy.as_deref(), shown.task_set.as_deref(), &shown.tags);
    let mut listed = ids(conn, &mut changes, labels)?;
    listed.extend(&facets);
    for value in [ANY, LIVE] {
        listed.insert(changes.id(conn, Facet::Run, value)?);
    }
    listed.iter().for_each(|facet_id| changes.add(*facet_id, seq));
    put_run(conn, &mut changes, seq, shown.policy.as_deref(), shown.task_set.as_deref(), run.status)?;

    let mut write = conn.prepare_cached(
        "INSERT OR REPLACE INTO run_details \
         (run, recorded, layer, eval_metadata, eval_created, source, defects, facets) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    )?;
    write.execute(params![
        seq,
        to_json(&recorded),
        to_json(&layer),
        eval_metadata,
        run.eval_created,
        run.source,
        to_json(&run.defects),
        to_json(&facets),
    ])?;
    if run.edit != RunEdit::default() {
        super::edit::record(conn, seq, version, &run.edit, now)?;
    }

    let target = Target { run_id, seq, revision, counts_same: growing.is_some() };
    let inherited = inherited_ids(conn, &mut changes, &shown.tags, shown.dataset.as_deref())?;
    let same = write_trajectories(conn, &mut changes, &target, sums.trajectories, inherited, entries)?;
    if growing == Some(same) {
        // Nobody misses a version of an unfinished log when the next one has all of it. Its bytes are collected.
        conn.execute(
            "DELETE FROM run_revisions WHERE run = ?1 AND revision = ?2 - 1",
            params![seq, revision],
        )?;
    }
    datasets::trajectories_go(conn, &mut changes, seq, Some(revision))?;
    conn.execute("DELETE FROM trajectories WHERE run = ? AND revision <> ?", params![seq, revision])?;
    changes.apply(conn)?;
    let action = if replaced.is_some() { "run.replace" } else { "run.register" };
    let detail = serde_json::json!({"log": run.log.hash, "trajectories": sums.trajectories});
    journal::note(conn, &run.actor, now, action, &format!("run {run_id}"), Some(&detail))?;

    Ok(match replaced {
        Some(old) => Committed::Replaced { run: run_id.clone(), revision: super::unsigned(old.revision) },
        None => Committed::Created(run_id.clone()),
    })
}

/// How many trajectories the present version of a run has, if its log was unfinished and is of this eval.
fn growing(conn: &Connection, old: &StoredRun, eval_id: Option<&str>) -> Result<Option<u64>> {
    let mut count = conn.prepare_cached(
        "SELECT (SELECT COUNT(*) FROM trajectories WHERE run = ?1) FROM runs \
         WHERE seq = ?1 AND status = ?2 AND eval_id = ?3",
    )?;
    let started = RunStatus::Started.as_str();
    let found = count.query_row(params![old.seq, started, eval_id], |row| row.get::<_, i64>(0));
    Ok(found.optional()?.map(super::unsigned))
}

/// What tells a sample's bytes from others, of a document.
macro_rules! sample_of {
    ($document:literal) => {
        concat!(
            "json_extract(",
            $document,
            ", '$.eval_sample_range.crc32') || ' ' || json_extract(",
            $document,
            ", '$.eval_sample_range.uncompressedSize')"
        )
    };
}

struct Target<'a> {
    run_id: &'a RunId,
    seq: i64,
    revision: i64,
    /// Whether to count what is the same.
    counts_same: bool,
}

/// A trajectory that the run had already keeps its number, and so its place in lists. How many did whose sample is the same.
fn write_trajectories(
    conn: &Connection,
    changes: &mut Changes,
    target: &Target<'_>,
    count: u64,
    mut common: BTreeSet<i64>,
    entries: &mut dyn Iterator<Item = crate::error::Result<Entry>>,
) -> Result<u64> {
    for value in [ANY, LIVE] {
        common.insert(changes.id(conn, Facet::Trajectory, value)?);
    }
    // Lists go from the highest number to the lowest, so the first of the log gets the highest.
    let last = take_numbers(conn, "trajectory", count)?;
    let mut find =
        conn.prepare_cached("SELECT seq, run, revision FROM trajectories WHERE trajectory_id = ?")?;
    let mut write = conn.prepare_cached(
        "INSERT INTO trajectories (seq, trajectory_id, run, ordinal, revision, main_success, has_side, side_success, \
             errored, range_end, summary, facets) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12) \
         ON CONFLICT (seq) DO UPDATE SET ordinal = ?4, revision = ?5, main_success = ?6, has_side = ?7, \
             side_success = ?8, errored = ?9, range_end = ?10, summary = ?11, facets = ?12",
    )?;
    let mut write_document = conn.prepare_cached(
        "INSERT OR REPLACE INTO documents (trajectory, document, eval_metadata) VALUES (?, ?, ?)",
    )?;
    let mut is_same = conn.prepare_cached(concat!(
        "SELECT ",
        sample_of!("document"),
        " IS ",
        sample_of!("?2"),
        " AND ",
        sample_of!("?2"),
        " IS NOT NULL FROM documents WHERE trajectory = ?1"
    ))?;
    let mut same = 0;
    for (ordinal, entry) in (0..).zip(entries) {
        let mut entry = entry?;
        let id = entry.row.trajectory_id.clone();
        let found = find.query_row([id.as_str()], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
        });
        let seq = match found.optional()? {
            None => {
                datasets::trajectory_comes(conn, changes, &id, last - ordinal)?;
                last - ordinal
            }
            Some((seq, run, revision)) if run == target.seq && revision != target.revision => {
                if target.counts_same {
                    let found = is_same.query_row(params![seq, entry.document], |row| row.get::<_, bool>(0));
                    same += u64::from(found.optional()?.unwrap_or(false));
                }
                seq
            }
            Some((_, run, _)) => {
                let run_id = target.run_id.clone();
                let conflict = if run == target.seq {
                    Conflict::TrajectoryTwice { trajectory: id, run: run_id }
                } else {
                    let holder =
                        conn.query_row("SELECT run_id FROM runs WHERE seq = ?", [run], |row| row.get(0))?;
                    let held_by = super::read::run_id(holder)?;
                    Conflict::TrajectoryTaken { trajectory: id, run: run_id, held_by }
                };
                return Err(StoreError::from(conflict).into());
            }
        };
        let own = ids(conn, changes, entry_facets(&entry))?;
        own.union(&common).for_each(|facet_id| changes.add(*facet_id, seq));
        put_trajectory(conn, changes, seq, target.seq, &entry.row)?;
        entry.row.run_id = target.run_id.clone();
        write.execute(params![
            seq,
            id.as_str(),
            target.seq,
            ordinal,
            target.revision,
            entry.row.main_task_success,
            entry.has_side,
            entry.row.side_task_success,
            entry.row.error.is_some(),
            entry.range_end.map(signed),
            to_json(&entry.row),
            to_json(&own),
        ])?;
        write_document.execute(params![
            seq,
            entry.document,
            entry.eval_metadata.as_ref().map(|object| object.get())
        ])?;
    }
    Ok(same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_by_their_ends_and_parts() {
        let values = |text| path_values(text).into_iter().collect::<Vec<_>>().join(" ");
        assert_eq!(values("web"), "web");
        assert_eq!(values("linuxarena/web"), "linuxarena/web web");
        assert_eq!(values("x/a+y/b"), "a b x/a x/a+y/b y/b");
        assert_eq!(values("/+"), "+ / /+");
        assert_eq!(values(""), "");
        let long = "é".repeat(VALUE_BYTES_MAX);
        assert_eq!(value(&long).len(), "sha256 ".len() + 64);
    }
}
