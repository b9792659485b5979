//! Metadata: what is known about runs and trajectories. The interface that another database can implement.
//!
//! Its verbs are those of the domain, each one atomic. It knows logs by their hash and size, and never touches a file
//! of theirs.

mod accounts;
mod comments;
mod datasets;
mod entry;
mod layer;
mod sqlite;
mod uploads;

use std::ops::ControlFlow;
use std::path::Path;

use ct_model::{
    LogFormat, LogHash, RunEdit, RunHeader, RunId, RunPage, RunQuery, RunRecord, TrajectoryDocument,
    TrajectoryId, TrajectoryNumbers, TrajectoryPage, TrajectoryQuery,
};
use jiff::Timestamp;

use crate::actor::Actor;
use crate::blob::LogKey;
use crate::error::Result;
use crate::record::{CommitMode, Committed, Finding, KnownRun, LogTag, NewRun, Totals};

pub(crate) use accounts::{AccountStore, TokenEntry, UserChange, UserSecret};
pub use comments::About;
pub(crate) use comments::{CommentNote, CommentStore, TrajectoryComment};
pub(crate) use datasets::DatasetStore;
pub(crate) use entry::{Entry, Sums};
pub(crate) use sqlite::SqliteStore;
pub(crate) use uploads::{Abandoned, PendingDocument, RegisteredHeader, UploadRow, UploadStore};

/// A run with its trajectories, ready to be stored.
pub(crate) struct StagedRun<'a> {
    pub(crate) run: &'a NewRun,
    pub(crate) sums: &'a Sums,
    /// `eval_metadata` of the documents, an object, but those whose entry has its own.
    pub(crate) eval_metadata: &'a str,
    /// In the order of the log; `sums` says how many.
    pub(crate) entries: &'a mut dyn Iterator<Item = Result<Entry>>,
}

/// A run's claim on a log.
#[derive(Debug)]
pub(crate) struct LogUse {
    pub(crate) run: RunId,
    /// Absent for the present log, else the earlier revision.
    pub(crate) revision: Option<u64>,
    pub(crate) key: LogKey,
    pub(crate) size_bytes: u64,
    pub(crate) deleted_at: Option<Timestamp>,
    /// Where the last sample ends, as its documents say.
    pub(crate) range_end: Option<u64>,
}

/// An id that was found by its beginning.
#[derive(Debug)]
pub(crate) struct Candidate<I> {
    pub(crate) id: I,
    /// The run that it is or belongs to.
    pub(crate) run: RunId,
}

/// An entry of the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AuditMark {
    pub(crate) id: i64,
    pub(crate) made_us: i64,
    pub(crate) action: String,
    pub(crate) subject: String,
}

/// What an audit of the metadata saw.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    pub(crate) runs: u64,
    pub(crate) trajectories: u64,
    pub(crate) findings: Vec<Finding>,
}

/// Where metadata is kept. Paths in what is returned are relative to the data folder.
pub(crate) trait MetaStore: AccountStore + CommentStore + DatasetStore + UploadStore {
    /// The run that has this log, now or in an earlier revision.
    fn run_of_log(&self, hash: &LogHash) -> Result<Option<KnownRun>>;
    /// The runs of an eval that are not deleted, oldest first.
    fn runs_of_eval(&self, eval_id: &str) -> Result<Vec<RunId>>;
    /// Makes a run visible with all its trajectories, or changes nothing.
    fn commit(&self, staged: StagedRun<'_>, mode: &CommitMode, now: Timestamp) -> Result<Committed>;
    /// At most `count_max` runs whose ids begin with `prefix`, in order; `deleted` ones too.
    fn runs_with_prefix(&self, prefix: &str, deleted: bool, count_max: u64) -> Result<Vec<Candidate<RunId>>>;
    /// At most `count_max` trajectories whose ids begin with `prefix`, in order; those of `deleted` runs too.
    fn trajectories_with_prefix(
        &self,
        prefix: &str,
        deleted: bool,
        count_max: u64,
    ) -> Result<Vec<Candidate<TrajectoryId>>>;
    /// Lists runs.
    fn list_runs(&self, query: &RunQuery) -> Result<RunPage>;
    /// As [`MetaStore::list_runs`], the headers as they are shown and the forms of the logs.
    fn list_run_headers(&self, query: &RunQuery) -> Result<RunPage<(RunHeader, LogFormat)>>;
    /// Lists trajectories.
    fn list_trajectories(&self, query: &TrajectoryQuery) -> Result<TrajectoryPage>;
    /// Lists ids of trajectories.
    fn list_trajectory_ids(&self, query: &TrajectoryQuery) -> Result<TrajectoryPage<TrajectoryId>>;
    /// Lists whole documents.
    fn list_documents(&self, query: &TrajectoryQuery) -> Result<TrajectoryPage<TrajectoryDocument>>;
    /// Everything about a run but its trajectories.
    fn run(&self, run: &RunId) -> Result<RunRecord>;
    /// One document.
    fn document(&self, trajectory: &TrajectoryId) -> Result<TrajectoryDocument>;
    /// The documents of a run in the order of its log, of one moment.
    fn documents(&self, run: &RunId, f: &mut dyn FnMut(TrajectoryDocument) -> ControlFlow<()>) -> Result<()>;
    /// What is measured of each of its trajectories, in no order that means something.
    fn numbers(&self, run: &RunId) -> Result<Vec<TrajectoryNumbers>>;
    /// Adds to what users changed, of all of the runs or of none.
    fn edit_runs(&self, runs: &[RunId], edit: &RunEdit, actor: &Actor, now: Timestamp) -> Result<()>;
    /// Hides runs, or shows them again: all, or none. Tells how many changed.
    fn set_deleted(&self, runs: &[RunId], deleted: bool, actor: &Actor, now: Timestamp) -> Result<u64>;
    /// Removes a deleted run for good. False: it is not deleted, or not there.
    fn purge_run(&self, run: &RunId, actor: &Actor, now: Timestamp) -> Result<bool>;
    /// What there is, in numbers.
    fn totals(&self) -> Result<Totals>;
    /// What the bucket said of a log's object when it came to be, or was verified last.
    fn log_tag(&self, key: &LogKey) -> Result<Option<LogTag>>;
    /// Keeps what the bucket says of a log's object.
    fn set_log_tag(&self, key: &LogKey, tag: &LogTag) -> Result<()>;
    /// The last entry of the audit log.
    fn last_audit(&self) -> Result<Option<AuditMark>>;
    /// Whether the audit log has this very entry: then whoever has it, and none later, is an earlier state of this.
    fn has_audit(&self, mark: &AuditMark) -> Result<bool>;
    /// Writes all of it, as it is at one moment, to a file that is not there.
    fn snapshot(&self, path: &Path) -> Result<()>;
    /// Every claim on a log.
    fn log_uses(&self) -> Result<Vec<LogUse>>;
    /// Compares everything that can be derived with what it is derived from.
    fn audit(&self, repair: bool) -> Result<Audit>;
}
