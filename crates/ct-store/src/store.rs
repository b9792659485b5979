//! The store as callers see it.

use std::io::Read;
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use ct_model::{RunId, RunQuery, TrajectoryDocument, TrajectoryId, TrajectoryQuery};
use jiff::Timestamp;

use crate::error::Result;
use crate::record::{
    CheckProgress, CheckReport, CommitMode, Committed, GcOptions, GcReport, KnownRun, LogFormat, LogHash,
    NewRun, RunEdit, RunPage, RunRecord, StagedLog, TrajectoryPage,
};

/// Tells the time.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// An opened data folder. Shared between threads as it is.
pub struct Store {}

impl Store {
    /// Opens a data folder; makes it, and brings its database up to date, when needed.
    pub fn open(data_dir: &Path) -> Result<Store> {
        let _ = data_dir;
        todo!()
    }

    /// As [`Store::open`], with another clock.
    pub fn open_with_clock(data_dir: &Path, clock: Clock) -> Result<Store> {
        let _ = (data_dir, clock);
        todo!()
    }

    /// The data folder.
    pub fn data_dir(&self) -> &Path {
        todo!()
    }

    /// Starts to store a run. Its temporary files go when the ingest is dropped.
    pub fn begin_ingest(&self) -> Result<Ingest<'_>> {
        todo!()
    }

    /// The run whose id is, or begins with, `prefix`; not a deleted one.
    pub fn resolve_run(&self, prefix: &str) -> Result<RunId> {
        let _ = prefix;
        todo!()
    }

    /// As [`Store::resolve_run`], deleted runs too.
    pub fn resolve_run_with_deleted(&self, prefix: &str) -> Result<RunId> {
        let _ = prefix;
        todo!()
    }

    /// The trajectory whose id is, or begins with, `prefix`; not one of a deleted run.
    pub fn resolve_trajectory(&self, prefix: &str) -> Result<TrajectoryId> {
        let _ = prefix;
        todo!()
    }

    /// Lists runs.
    pub fn runs(&self, query: &RunQuery) -> Result<RunPage> {
        let _ = query;
        todo!()
    }

    /// Everything about a run but its trajectories; of a deleted one too.
    pub fn run(&self, run: &RunId) -> Result<RunRecord> {
        let _ = run;
        todo!()
    }

    /// The documents of a run in the order of its log, one after the other. `f` may stop it.
    pub fn documents(
        &self,
        run: &RunId,
        f: &mut dyn FnMut(TrajectoryDocument) -> ControlFlow<()>,
    ) -> Result<()> {
        let _ = (run, f);
        todo!()
    }

    /// One document.
    pub fn document(&self, trajectory: &TrajectoryId) -> Result<TrajectoryDocument> {
        let _ = trajectory;
        todo!()
    }

    /// Lists trajectories.
    pub fn trajectories(&self, query: &TrajectoryQuery) -> Result<TrajectoryPage> {
        let _ = query;
        todo!()
    }

    /// As [`Store::trajectories`], the ids alone.
    pub fn trajectory_ids(&self, query: &TrajectoryQuery) -> Result<TrajectoryPage<TrajectoryId>> {
        let _ = query;
        todo!()
    }

    /// Changes what users may change of a run.
    pub fn edit_run(&self, run: &RunId, edit: &RunEdit) -> Result<()> {
        let _ = (run, edit);
        todo!()
    }

    /// Hides a run and its trajectories from lists. False: it was deleted already.
    pub fn delete_run(&self, run: &RunId) -> Result<bool> {
        let _ = run;
        todo!()
    }

    /// Undoes [`Store::delete_run`]. False: it was not deleted.
    pub fn restore_run(&self, run: &RunId) -> Result<bool> {
        let _ = run;
        todo!()
    }

    /// Reads everything and compares; with `repair` does what can be done without loss.
    pub fn check(&self, repair: bool, progress: &mut dyn FnMut(CheckProgress)) -> Result<CheckReport> {
        let _ = (repair, progress);
        todo!()
    }

    /// Removes what nothing needs. Busy while an ingest is going on.
    pub fn gc(&self, options: GcOptions) -> Result<GcReport> {
        let _ = options;
        todo!()
    }
}

/// One run on its way into the store.
pub struct Ingest<'s> {
    store: PhantomData<&'s Store>,
}

impl Ingest<'_> {
    /// Copies a log into the data folder while hashing it. `progress` is told the bytes so far.
    pub fn stage_log(
        &mut self,
        source: &mut dyn Read,
        format: LogFormat,
        progress: &mut dyn FnMut(u64),
    ) -> Result<StagedLog> {
        let _ = (source, format, progress);
        todo!()
    }

    /// The run that has these very bytes as its log, now or in an earlier revision.
    pub fn known(&self, hash: &LogHash) -> Result<Option<KnownRun>> {
        let _ = hash;
        todo!()
    }

    /// The runs of the same eval, whatever their bytes; not deleted ones.
    pub fn same_eval(&self, eval_id: &str) -> Result<Vec<RunId>> {
        let _ = eval_id;
        todo!()
    }

    /// Adds a trajectory, in the order of the log. It must have an id.
    pub fn push(&mut self, document: &TrajectoryDocument) -> Result<()> {
        let _ = document;
        todo!()
    }

    /// Makes the run visible with all its trajectories, or nothing of it.
    pub fn commit(self, run: NewRun, mode: CommitMode) -> Result<Committed> {
        let _ = (run, mode);
        todo!()
    }
}
