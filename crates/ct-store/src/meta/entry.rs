//! What lists and counts need of a trajectory document, taken out once when it is pushed.

use std::collections::BTreeSet;

use ct_model::{Outcome, OutcomeCounts, RunId, TaskCounts, TrajectoryDocument, TrajectoryId, TrajectoryRow};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Characters of a description in a list; the document has all of it.
const DESCRIPTION_CHARS_MAX: usize = 300;

/// A trajectory on its way into the store.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// `run_id` is filled in when the run's id is known.
    pub(crate) row: TrajectoryRow,
    pub(crate) has_side: bool,
    /// Where its sample ends in the log.
    pub(crate) range_end: Option<u64>,
    /// The dataset labels of its own.
    #[serde(default)]
    pub(crate) datasets: Vec<String>,
    #[serde(default)]
    pub(crate) models: Vec<String>,
    /// An object. Only when it is not the run's.
    pub(crate) eval_metadata: Option<Box<RawValue>>,
    /// The document as JSON, without `eval_metadata`.
    #[serde(skip)]
    pub(crate) document: String,
}

impl Entry {
    /// Of a document, whose text and `eval_metadata` are filled in elsewhere; `run_id` when it is known.
    pub(crate) fn new(document: &TrajectoryDocument, trajectory_id: TrajectoryId, run_id: RunId) -> Self {
        let range = document.eval_sample_range.as_ref();
        Self {
            row: row(document, trajectory_id, run_id),
            has_side: document.has_side_task(),
            range_end: range.map(|range| range.compressed_start.saturating_add(range.compressed_size)),
            datasets: document.datasets.clone(),
            models: document.models.clone(),
            eval_metadata: None,
            document: String::new(),
        }
    }

    pub(crate) fn main_outcome(&self) -> Outcome {
        Outcome::of(self.row.main_task_success)
    }

    /// Absent without a side task.
    pub(crate) fn side_outcome(&self) -> Option<Outcome> {
        self.has_side.then(|| Outcome::of(self.row.side_task_success))
    }
}

/// The row of a document in a list.
fn row(document: &TrajectoryDocument, trajectory_id: TrajectoryId, run_id: RunId) -> TrajectoryRow {
    let environment = document.environment.as_ref();
    let main_task = document.main_task.as_ref();
    let side_task = document.side_task.as_ref();
    TrajectoryRow {
        trajectory_id,
        run_id,
        eval_sample_id: document.eval_sample_id.clone(),
        epoch: document.epoch,
        environment_id: environment.and_then(|environment| environment.id.clone()),
        main_task_id: main_task.and_then(|task| task.id.clone()),
        side_task_id: side_task.and_then(|task| task.id.clone()),
        environment_description: environment
            .and_then(|environment| short(&environment.short_description, &None)),
        main_task_description: main_task.and_then(|task| short(&task.short_description, &task.description)),
        side_task_description: side_task.and_then(|task| short(&task.short_description, &task.goal)),
        main_task_success: document.main_task_success,
        side_task_success: document.side_task_success,
        max_suspicion_score: document.max_suspicion_score(),
        traj_suspicion_score: None,
        tags: document.tags.clone(),
        time_started: document.timing.as_ref().and_then(|timing| timing.time_started),
        error: document.error.clone(),
        actions_count: document.number_of_actions,
        duration_ms: document.duration_ms(),
        cost_usd: document.cost_usd(),
        authors: document.authors.clone(),
        attempts_mt: document.attempts_mt,
        attempts_st: document.attempts_st,
        attempts_sneaky: document.attempts_sneaky,
    }
}

fn short(short: &Option<String>, long: &Option<String>) -> Option<String> {
    let text = short.as_ref().or(long.as_ref())?;
    match text.char_indices().nth(DESCRIPTION_CHARS_MAX) {
        Some((end, _)) => Some(format!("{}…", &text[..end])),
        None => Some(text.clone()),
    }
}

/// What the trajectories of a run come to.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    pub(crate) trajectories: u64,
    pub(crate) counts: OutcomeCounts,
    pub(crate) environments: BTreeSet<String>,
    pub(crate) main_tasks: BTreeSet<String>,
    pub(crate) side_tasks: BTreeSet<String>,
    pub(crate) models: BTreeSet<String>,
    pub(crate) authors: BTreeSet<String>,
}

impl Sums {
    pub(crate) fn add(&mut self, entry: &Entry) {
        self.trajectories += 1;
        count(&mut self.counts.main, Some(entry.main_outcome()));
        count(&mut self.counts.side, entry.side_outcome());
        self.counts.errored += u64::from(entry.row.error.is_some());
        self.environments.extend(entry.row.environment_id.clone());
        self.main_tasks.extend(entry.row.main_task_id.clone());
        self.side_tasks.extend(entry.row.side_task_id.clone());
        self.authors.extend(entry.row.authors.iter().cloned());
        self.models.extend(entry.models.iter().cloned());
    }
}

pub(crate) fn count(counts: &mut TaskCounts, outcome: Option<Outcome>) {
    match outcome {
        Some(Outcome::Pass) => counts.pass += 1,
        Some(Outcome::Fail) => counts.fail += 1,
        Some(Outcome::Unscored) => counts.unscored += 1,
        None => counts.not_applicable += 1,
    }
}
