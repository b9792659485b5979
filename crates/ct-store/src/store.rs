//! The store as callers see it.

use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ct_log::source::Source;
use ct_model::{
    LogFormat, LogRef, RunEdit, RunHeader, RunId, RunPage, RunQuery, RunRecord, TrajectoryDocument,
    TrajectoryId, TrajectoryNumbers, TrajectoryPage, TrajectoryQuery,
};
use jiff::Timestamp;

use crate::actor::Actor;
use crate::blob::{LogBucket, LogFolder, LogKey, LogPlace, Logs, WorkFolder};
use crate::error::{Conflict, Result, StoreError};
use crate::meta::{Candidate, MetaStore, SqliteStore};
use crate::ops::{self, FilesLock, Ingest, LiveUploads, LogIndexes, Settling};
use crate::record::{CheckProgress, CheckReport, GcOptions, GcReport, Totals};

/// Tells the time.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The database in a data folder.
pub(crate) const DATABASE: &str = "ct.sqlite";
/// How many ids an ambiguous prefix is explained with.
const CANDIDATES_MAX: u64 = 10;

/// An opened data folder. Threads share it as it is.
pub struct Store {
    data_dir: PathBuf,
    meta: Box<dyn MetaStore>,
    logs: Logs,
    work: WorkFolder,
    log_indexes: LogIndexes,
    live_uploads: LiveUploads,
    settling: Settling,
    clock: Clock,
}

impl Store {
    /// Opens a data folder; makes it, and brings its database up to date, when needed.
    pub fn open(data_dir: &Path) -> Result<Store> {
        Self::open_with_clock(data_dir, Arc::new(Timestamp::now))
    }

    /// As [`Store::open`], with another clock.
    pub fn open_with_clock(data_dir: &Path, clock: Clock) -> Result<Store> {
        Self::open_at(data_dir, clock, LogPlace::Folder)
    }

    /// As [`Store::open`], with the logs in a place that is told. A store keeps its place: another one is an error.
    pub fn open_at(data_dir: &Path, clock: Clock, place: LogPlace) -> Result<Store> {
        make_folder(data_dir).map_err(StoreError::io("make the data folder", data_dir))?;
        let database = data_dir.join(DATABASE);
        let is_new = !matches!(place, LogPlace::Folder) && LogPlace::remembered(data_dir)?.is_none();
        // Of processes that start at once one decides.
        let lock = is_new.then(|| FilesLock::alone(data_dir)).transpose()?;
        // A bucket that cannot be had leaves no database behind.
        let logs =
            if is_new && !database.exists() { Some(logs_at(data_dir, false, place.clone())?) } else { None };
        let meta: Box<dyn MetaStore> = Box::new(SqliteStore::open(&database)?);
        let logs = match logs {
            Some(logs) => logs,
            None => {
                let has_logs = is_new && (!meta.log_uses()?.is_empty() || !meta.object_logs()?.is_empty());
                logs_at(data_dir, has_logs, place)?
            }
        };
        drop(lock);
        Ok(Store {
            data_dir: data_dir.to_owned(),
            meta,
            logs,
            work: WorkFolder::new(data_dir),
            log_indexes: LogIndexes::default(),
            live_uploads: LiveUploads::default(),
            settling: Settling::default(),
            clock,
        })
    }

    /// As [`Store::open`], but never makes one: [`StoreError::NoStore`].
    pub fn open_existing(data_dir: &Path) -> Result<Store> {
        Self::open_existing_at(data_dir, LogPlace::Folder)
    }

    /// As [`Store::open_at`], but never makes one.
    pub fn open_existing_at(data_dir: &Path, place: LogPlace) -> Result<Store> {
        match fs::metadata(data_dir.join(DATABASE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(StoreError::NoStore { path: data_dir.to_owned() })
            }
            _ => Self::open_at(data_dir, Arc::new(Timestamp::now), place),
        }
    }

    /// The data folder.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    pub(crate) fn meta(&self) -> &dyn MetaStore {
        &*self.meta
    }

    /// Whether logs are objects in a bucket.
    pub fn has_bucket(&self) -> bool {
        self.logs.bucket().is_some()
    }

    pub(crate) fn logs(&self) -> &Logs {
        &self.logs
    }

    pub(crate) fn work(&self) -> &WorkFolder {
        &self.work
    }

    pub(crate) fn live_uploads(&self) -> &LiveUploads {
        &self.live_uploads
    }

    pub(crate) fn settling(&self) -> &Settling {
        &self.settling
    }

    pub(crate) fn log_indexes(&self) -> &LogIndexes {
        &self.log_indexes
    }

    /// The time by its clock. As exact as times are kept: what is told of a change at once is what is read of it later.
    pub fn now(&self) -> Timestamp {
        let now = (self.clock)();
        Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
    }

    /// Fails when the logs are in a bucket that nobody can ask, for want of keys. The bucket is not asked.
    pub fn check_logs_open(&self) -> Result<()> {
        self.logs.bucket().map_or(Ok(()), |logs| logs.bucket().map(drop))
    }

    /// Starts to store a run. Its temporary files go when the ingest is dropped.
    pub fn begin_ingest(&self) -> Result<Ingest<'_>> {
        self.check_logs_open()?;
        Ingest::begin(self)
    }

    /// The run whose id is, or begins with, `prefix`; not a deleted one.
    pub fn resolve_run(&self, prefix: &str) -> Result<RunId> {
        let find = |prefix: &str, deleted| self.meta.runs_with_prefix(prefix, deleted, CANDIDATES_MAX + 1);
        resolve("run", prefix, RunId::as_str, find, false)
    }

    /// As [`Store::resolve_run`], deleted runs too.
    pub fn resolve_run_with_deleted(&self, prefix: &str) -> Result<RunId> {
        let find = |prefix: &str, deleted| self.meta.runs_with_prefix(prefix, deleted, CANDIDATES_MAX + 1);
        resolve("run", prefix, RunId::as_str, find, true)
    }

    /// The runs of one eval, whatever their bytes, oldest first; not deleted ones.
    pub fn runs_of_eval(&self, eval_id: &str) -> Result<Vec<RunId>> {
        self.meta.runs_of_eval(eval_id)
    }

    /// The trajectory whose id is, or begins with, `prefix`; not one of a deleted run.
    pub fn resolve_trajectory(&self, prefix: &str) -> Result<TrajectoryId> {
        let find =
            |prefix: &str, deleted| self.meta.trajectories_with_prefix(prefix, deleted, CANDIDATES_MAX + 1);
        resolve("trajectory", prefix, TrajectoryId::as_str, find, false)
    }

    /// Lists runs.
    pub fn runs(&self, query: &RunQuery) -> Result<RunPage> {
        self.meta.list_runs(query)
    }

    /// As [`Store::runs`], the headers as they are shown and the forms of the logs.
    pub fn run_headers(&self, query: &RunQuery) -> Result<RunPage<(RunHeader, LogFormat)>> {
        self.meta.list_run_headers(query)
    }

    /// Everything about a run but its trajectories; of a deleted one too.
    pub fn run(&self, run: &RunId) -> Result<RunRecord> {
        self.meta.run(run)
    }

    /// The file of a log, when logs are files here.
    pub fn log_path(&self, log: &LogRef) -> Option<PathBuf> {
        self.logs.path(&LogKey::from(log))
    }

    /// What a log is called in messages: a path below the data folder, or an address in a bucket.
    pub fn log_name(&self, log: &LogRef) -> String {
        self.logs.name(&LogKey::from(log))
    }

    /// The bytes of a log, by range. In a bucket nothing is asked yet.
    pub fn open_log(&self, log: &LogRef) -> Result<Arc<dyn Source>> {
        self.logs.open(log)
    }

    /// The documents of a run in the order of its log, one after the other and all of one moment. `f` may stop it.
    pub fn documents(
        &self,
        run: &RunId,
        f: &mut dyn FnMut(TrajectoryDocument) -> ControlFlow<()>,
    ) -> Result<()> {
        self.meta.documents(run, f)
    }

    /// What is measured of each trajectory of a run, to some seven digits and in no order that means something. Small: it
    /// takes no look at documents.
    pub fn trajectory_numbers(&self, run: &RunId) -> Result<Vec<TrajectoryNumbers>> {
        self.meta.numbers(run)
    }

    /// One document.
    pub fn document(&self, trajectory: &TrajectoryId) -> Result<TrajectoryDocument> {
        self.meta.document(trajectory)
    }

    /// Lists trajectories.
    pub fn trajectories(&self, query: &TrajectoryQuery) -> Result<TrajectoryPage> {
        self.meta.list_trajectories(query)
    }

    /// As [`Store::trajectories`], the ids alone.
    pub fn trajectory_ids(&self, query: &TrajectoryQuery) -> Result<TrajectoryPage<TrajectoryId>> {
        self.meta.list_trajectory_ids(query)
    }

    /// As [`Store::trajectories`], whole documents.
    pub fn trajectory_documents(
        &self,
        query: &TrajectoryQuery,
    ) -> Result<TrajectoryPage<TrajectoryDocument>> {
        self.meta.list_documents(query)
    }

    /// Changes what users may change of a run. What the log says is kept beside it.
    pub fn edit_run(&self, run: &RunId, edit: &RunEdit, actor: &Actor) -> Result<()> {
        self.edit_runs(std::slice::from_ref(run), edit, actor)
    }

    /// As [`Store::edit_run`], several runs alike: all of them, or none.
    pub fn edit_runs(&self, runs: &[RunId], edit: &RunEdit, actor: &Actor) -> Result<()> {
        self.meta.edit_runs(runs, edit, actor, self.now())
    }

    /// Hides a run and its trajectories from lists. False: it was deleted already.
    pub fn delete_run(&self, run: &RunId, actor: &Actor) -> Result<bool> {
        Ok(self.delete_runs(std::slice::from_ref(run), actor)? > 0)
    }

    /// As [`Store::delete_run`], all of several runs, or none. Tells how many were not deleted already.
    pub fn delete_runs(&self, runs: &[RunId], actor: &Actor) -> Result<u64> {
        self.meta.set_deleted(runs, true, actor, self.now())
    }

    /// Undoes [`Store::delete_run`]. False: it was not deleted.
    pub fn restore_run(&self, run: &RunId, actor: &Actor) -> Result<bool> {
        Ok(self.restore_runs(std::slice::from_ref(run), actor)? > 0)
    }

    /// Undoes [`Store::delete_runs`]. Tells how many were deleted.
    pub fn restore_runs(&self, runs: &[RunId], actor: &Actor) -> Result<u64> {
        self.meta.set_deleted(runs, false, actor, self.now())
    }

    /// What there is, in numbers.
    pub fn totals(&self) -> Result<Totals> {
        self.meta.totals()
    }

    /// Reads everything and compares; with `repair` does what can be done without loss, and is busy during an ingest.
    pub fn check(&self, repair: bool, progress: &mut dyn FnMut(CheckProgress)) -> Result<CheckReport> {
        ops::check(self, repair, progress)
    }

    /// Removes what nothing needs, or says what would go. Busy during an ingest.
    pub fn gc(&self, options: GcOptions) -> Result<GcReport> {
        ops::gc(self, options)
    }
}

/// The logs of a data folder in a place, which has to be that which it remembers; `has_logs`: it needs some already.
pub(crate) fn logs_at(data_dir: &Path, has_logs: bool, place: LogPlace) -> Result<Logs> {
    let known = LogPlace::remembered(data_dir)?;
    let own = || data_dir.join("logs").display().to_string();
    match place {
        LogPlace::Folder => match known {
            Some(known) => Err(StoreError::OtherLogs { given: own(), known: known.to_string() }),
            None => Ok(Logs::Folder(LogFolder::new(data_dir))),
        },
        LogPlace::Bucket(_, address) | LogPlace::Closed(address, _) if known.is_none() && has_logs => {
            Err(StoreError::OtherLogs { given: address.to_string(), known: own() })
        }
        LogPlace::Bucket(config, address) => {
            Ok(Logs::Bucket(LogBucket::of_store(data_dir, Ok(*config), &address, &ops::new_id()?)?))
        }
        LogPlace::Closed(address, problem) => {
            Ok(Logs::Bucket(LogBucket::of_store(data_dir, Err(problem), &address, &ops::new_id()?)?))
        }
    }
}

/// Makes the data folder for its owner alone: it holds the hashes of passwords, and the key that signs addresses. One
/// that is there stays as open as it is.
pub(crate) fn make_folder(data_dir: &Path) -> io::Result<()> {
    if let Some(parent) = data_dir.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(data_dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists || !data_dir.is_dir() => Err(error),
        _ => Ok(()),
    }
}

/// Decides what a prefix stands for. `find` lists what begins with it, in order, with or without what is deleted.
fn resolve<I>(
    what: &str,
    prefix: &str,
    text: impl Fn(&I) -> &str,
    find: impl Fn(&str, bool) -> Result<Vec<Candidate<I>>>,
    with_deleted: bool,
) -> Result<I> {
    if prefix.is_empty() {
        return Err(StoreError::invalid(format!("an empty text names no {what}")));
    }
    match resolve_as_written(what, prefix, &text, &find, with_deleted) {
        // Hashes are written in lower case here, and elsewhere in upper case too.
        Err(error @ StoreError::NotFound { .. })
            if prefix.bytes().any(|byte| byte.is_ascii_uppercase())
                && prefix.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-') =>
        {
            let lower = prefix.to_ascii_lowercase();
            match resolve_as_written(what, &lower, &text, &find, with_deleted) {
                Err(StoreError::NotFound { .. }) => Err(error),
                found => found,
            }
        }
        found => found,
    }
}

fn resolve_as_written<I>(
    what: &str,
    prefix: &str,
    text: &impl Fn(&I) -> &str,
    find: &impl Fn(&str, bool) -> Result<Vec<Candidate<I>>>,
    with_deleted: bool,
) -> Result<I> {
    let find = |deleted| find(prefix, deleted);
    let mut found = find(with_deleted)?;
    // What is exactly meant comes first, whatever else begins with it.
    if found.len() == 1 || found.first().is_some_and(|first| text(&first.id) == prefix) {
        return Ok(found.swap_remove(0).id);
    }
    if !found.is_empty() {
        let told = usize::try_from(CANDIDATES_MAX).unwrap_or(usize::MAX);
        let candidates = found.iter().take(told).map(|candidate| text(&candidate.id).to_owned()).collect();
        let more = found.len() > told;
        return Err(StoreError::Ambiguous { prefix: prefix.to_owned(), candidates, more });
    }
    if let Ok([deleted]) = <[_; 1]>::try_from(if with_deleted { found } else { find(true)? }) {
        return Err(Conflict::RunDeleted { run: deleted.run }.into());
    }
    Err(StoreError::NotFound { what: format!("{what} {prefix}") })
}
