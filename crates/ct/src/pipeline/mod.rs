//! The heavy work behind the commands: logs in, run folders and logs out. Knows stores, logs and documents; knows no
//! flags, no formats and no terminal (but for a [`Progress`] to report to).
//!
//! Errors come as [`CliError`] so that a command can list each failed item with its reason.

mod assemble;
mod folder;
mod input;
mod make;
pub(crate) mod partial;
mod save;
mod transfer;
pub(crate) mod upload;

use std::path::PathBuf;

use ct_log::write::Glob;
use ct_model::{RunEdit, RunId, TrajectoryId};

use crate::error::CliError;

pub(crate) use folder::{download, download_trajectories, log_of, save_dir};
pub(crate) use input::prices;
pub(crate) use make::make_run;
pub(crate) use save::save_log;
pub(crate) use transfer::{pull, push};
pub(crate) use upload::upload_run;

/// What to do with a log whose eval is in the store with other bytes (scores added later, a resumed run).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OtherBytes {
    /// Say so and change nothing.
    Refuse,
    /// Keep the run's id; its old log becomes an earlier revision.
    Replace,
    /// Make a second run.
    AsNew,
}

/// What the command line says about the run to make.
#[derive(Debug, Clone)]
pub(crate) struct MakeOptions {
    pub(crate) run_name: Option<String>,
    pub(crate) policy: Option<String>,
    pub(crate) task_set: Option<String>,
    /// Added to what the log says.
    pub(crate) tags: Vec<String>,
    /// Patterns of score names to leave out of what is made.
    pub(crate) drop_scores: Vec<Glob>,
    /// A rate file.
    pub(crate) prices: Option<PathBuf>,
    pub(crate) other_bytes: OtherBytes,
    /// The run of a server whose log is known to be the one that is replaced.
    pub(crate) over: Option<RunId>,
}

impl MakeOptions {
    /// What the user said goes over what the log says, and does not replace it.
    pub(crate) fn edit(&self) -> RunEdit {
        RunEdit {
            name: self.run_name.clone(),
            policy: self.policy.clone().map(Some),
            task_set: self.task_set.clone().map(Some),
            add_tags: self.tags.clone(),
            ..RunEdit::default()
        }
    }
}

/// How the store came to hold the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MadeStatus {
    /// It is new.
    Created,
    /// The same bytes were there.
    Unchanged,
    /// The same bytes were there, and what the user said about the run was taken in.
    Edited,
    /// The same bytes were there, in a run that was deleted; it is back.
    Restored,
    /// The log of an existing run was replaced.
    Replaced,
}

/// A run that is in the store now.
#[derive(Debug, Clone)]
pub(crate) struct MadeRun {
    pub(crate) status: MadeStatus,
    pub(crate) run_id: RunId,
    pub(crate) name: String,
    pub(crate) trajectories: u64,
    /// What of the log was lost, and why: one sentence each.
    pub(crate) defects: Vec<String>,
}

/// What came of one log.
#[derive(Debug)]
pub(crate) enum Made {
    /// The run is in the store.
    Run(MadeRun),
    /// Nothing was done: these runs hold the same eval with other bytes, and [`OtherBytes::Refuse`] was asked for.
    SameEval { runs: Vec<RunId> },
}

/// A log that was written.
#[derive(Debug, Clone)]
pub(crate) struct SavedLog {
    pub(crate) trajectories: u64,
    pub(crate) defects: Vec<String>,
}

/// What to write of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selection {
    /// These trajectories only, in the run's order; all without.
    pub(crate) trajectories: Option<std::collections::BTreeSet<TrajectoryId>>,
}

/// An item that failed.
#[derive(Debug, Clone)]
pub(crate) struct FailedItem {
    pub(crate) trajectory_id: String,
    pub(crate) path: PathBuf,
    pub(crate) reason: String,
}

/// What was written into a run folder.
#[derive(Debug, Default)]
pub(crate) struct FolderReport {
    /// Files that were not there.
    pub(crate) written: u64,
    /// Files that were right already.
    pub(crate) right: u64,
    /// Files that were wrong and are right now.
    pub(crate) repaired: u64,
    pub(crate) failed: Vec<FailedItem>,
    pub(crate) defects: Vec<String>,
    /// Why a download ended early: the disk is full. The folder is not whole then.
    pub(crate) stopped: Option<CliError>,
}

/// Threads for work that is bound by inflating and parsing.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
