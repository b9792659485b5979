//! What can go wrong in a store, by what a caller can do about it.

use std::io;
use std::path::PathBuf;

use ct_model::{
    DatasetKind, DatasetLock, DatasetName, LogHash, LogRef, ObjectKey, RunEditError, RunId, TrajectoryId,
};
use ct_s3::S3Error;

/// Why a store did not do what it was asked. Messages read well after "failed to …:".
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Nothing has this id or prefix.
    #[error("{what} was not found")]
    NotFound {
        /// What was looked for, such as `run 3f2a`.
        what: String,
    },
    /// Several things begin with this prefix.
    #[error("{prefix:?} is ambiguous: it could be {}{}", candidates.join(", "), if *more { ", and others" } else { "" })]
    Ambiguous {
        /// What was given.
        prefix: String,
        /// The first few that begin with it.
        candidates: Vec<String>,
        /// There are others.
        more: bool,
    },
    /// It contradicts what is stored; nothing was changed.
    #[error(transparent)]
    Conflict(#[from] Conflict),
    /// The caller gave something that cannot be stored or asked.
    #[error("{what}")]
    Invalid {
        /// What is wrong.
        what: String,
    },
    /// The caller may not do this.
    #[error("{what}")]
    Forbidden {
        /// What is not theirs.
        what: String,
    },
    /// What arrived is not what was announced.
    #[error("{what} has SHA-256 {found} instead of {expected}")]
    HashDiffers {
        /// What arrived.
        what: String,
        /// As announced.
        expected: LogHash,
        /// Of the bytes that arrived.
        found: LogHash,
    },
    /// A part of an upload is not what was announced.
    #[error("the part from byte {start} on has CRC-32 {found} instead of {expected}")]
    PartDamaged {
        /// Its first byte.
        start: u64,
        /// As announced.
        expected: u32,
        /// Of the bytes that arrived.
        found: u32,
    },
    /// A newer version of this program made the data folder.
    #[error(
        "{} has schema version {found}, made by a newer ct; this one knows versions up to {supported}: \
         use the newer ct, or another data folder",
        path.display()
    )]
    NewerSchema {
        /// The database.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The newest version known here.
        supported: i64,
    },
    /// There is no store in this folder.
    #[error("there is no store in {} yet", path.display())]
    NoStore {
        /// The data folder.
        path: PathBuf,
    },
    /// Nothing can be written to the store.
    #[error("the data folder {} is read-only", path.display())]
    ReadOnly {
        /// The data folder.
        path: PathBuf,
    },
    /// Something of the database still lies beside it, and cannot be taken in because the folder is read-only.
    #[error(
        "the last changes of {} lie beside it in a -wal file, and the folder is read-only: they can be taken in only \
         where the folder can be written",
        path.display()
    )]
    Unsettled {
        /// The database.
        path: PathBuf,
    },
    /// What is stored is not what was once stored.
    #[error("{what} is damaged ({detail})")]
    Corrupt {
        /// What is damaged.
        what: String,
        /// What is wrong with it.
        detail: String,
    },
    /// The file system refused, for example because the disk is full.
    #[error("could not {doing} ({})", path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// With which file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The disk has no room for what is to come.
    #[error("the disk has {free_bytes} bytes free, and {needed_bytes} are needed")]
    NoRoom {
        /// With what is to be left free.
        needed_bytes: u64,
        /// What there is.
        free_bytes: u64,
    },
    /// The source of a log could not be read.
    #[error("could not read the log")]
    Source {
        /// What its reader said.
        source: io::Error,
    },
    /// The bucket with the logs refused, or cannot be reached.
    #[error(transparent)]
    Bucket(#[from] S3Error),
    /// The logs of this store are elsewhere than was said.
    #[error(
        "the logs of this store are in {known}, not in {given}; to bring it to another place: ct store copy"
    )]
    OtherLogs {
        /// What was said.
        given: String,
        /// Where they are.
        known: String,
    },
    /// There is another store, or a copy that was used since.
    #[error("there is another store in {}, or a copy that was changed since: take another folder", path.display())]
    OtherStore {
        /// The data folder.
        path: PathBuf,
    },
    /// Another store has its logs in this place.
    #[error(
        "another store keeps its logs in {place}: take another prefix, or remove {marker} if that store is gone"
    )]
    LogsTaken {
        /// The place.
        place: String,
        /// The object that says so.
        marker: String,
    },
    /// Another process is at work; trying again later helps.
    #[error("{what}; try again when it is done")]
    Busy {
        /// What is going on.
        what: &'static str,
    },
    /// The database failed in a way that is not expected.
    #[error("the database could not {doing}")]
    Database {
        /// What was being done.
        doing: &'static str,
        /// What the database said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// What is in the way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    /// Another run has this trajectory.
    #[error("trajectory {trajectory} of run {run} is already part of run {held_by}")]
    TrajectoryTaken {
        /// The trajectory.
        trajectory: TrajectoryId,
        /// The run that was to have it.
        run: RunId,
        /// The run that has it.
        held_by: RunId,
    },
    /// Two trajectories of the same run have the same id.
    #[error("run {run} has two trajectories named {trajectory}")]
    TrajectoryTwice {
        /// The trajectory.
        trajectory: TrajectoryId,
        /// The run.
        run: RunId,
    },
    /// There is a run of this id, with another log.
    #[error("there is already a run {run}, with another log")]
    RunTaken {
        /// The run.
        run: RunId,
    },
    /// The run is deleted.
    #[error("run {run} is deleted; restore it first")]
    RunDeleted {
        /// The run.
        run: RunId,
    },
    /// A log of this name is there already.
    #[error("there is already a log {key}{}", taken_by(there.as_ref()))]
    ObjectTaken {
        /// Its name.
        key: ObjectKey,
        /// What is there, as far as it is known.
        there: Option<TakenBy>,
    },
    /// The log of the run is the log of another run already.
    #[error("run {run} is there already as run {held_by}{}, from the same log", if *deleted { ", which is deleted" } else { "" })]
    LogTaken {
        /// The run that was to have it.
        run: RunId,
        /// The run that has it.
        held_by: RunId,
        /// That run is deleted, and can be restored.
        deleted: bool,
    },
    /// The run has this trajectory, with another document.
    #[error("trajectory {trajectory} of run {run} is stored already, with another document")]
    DocumentDiffers {
        /// The trajectory.
        trajectory: TrajectoryId,
        /// The run.
        run: RunId,
    },
    /// The run is there, with another header.
    #[error("run {run} is stored already, with another header")]
    HeaderDiffers {
        /// The run.
        run: RunId,
    },
    /// The run is there, and has no such trajectory.
    #[error("run {run} is complete, and has no trajectory {trajectory}")]
    RunComplete {
        /// The run.
        run: RunId,
        /// The trajectory that was to be added.
        trajectory: TrajectoryId,
    },
    /// Bytes of an upload that are there already are others.
    #[error("bytes {start} to {end} of the upload are there already, and are others")]
    PartDiffers {
        /// The first of them.
        start: u64,
        /// Behind the last of them.
        end: u64,
    },
    /// Bytes of an upload have not arrived.
    #[error("the upload is not complete; missing: {}", missing_ranges(missing))]
    UploadIncomplete {
        /// The first of these ranges: start, and behind the end.
        missing: Vec<(u64, u64)>,
    },
    /// Someone else changed the run meanwhile.
    #[error("run {run} was changed meanwhile: it is at version {version}, not {expected}")]
    Changed {
        /// The run.
        run: RunId,
        /// The version that the caller saw.
        expected: u64,
        /// The version it has.
        version: u64,
    },
    /// The dataset takes no new version.
    #[error("dataset {name} is locked{}; unlock it first", by_whom(lock))]
    DatasetLocked {
        /// The dataset.
        name: DatasetName,
        /// By whom, and why.
        lock: DatasetLock,
    },
    /// The dataset has other things in it.
    #[error("dataset {name} is a list of {}, not of {}", plural(*kind), plural(*given))]
    DatasetKind {
        /// The dataset.
        name: DatasetName,
        /// What it is a list of.
        kind: DatasetKind,
        /// What was to come in.
        given: DatasetKind,
    },
    /// Someone else changed the dataset meanwhile.
    #[error("dataset {name} was changed meanwhile: it is at version {version}, not {expected}")]
    DatasetChanged {
        /// The dataset.
        name: DatasetName,
        /// The version that the caller saw; 0: none.
        expected: u64,
        /// The version it has; 0: there is no such dataset.
        version: u64,
    },
    /// There is a user of this name; case makes no difference.
    #[error("there is already a user {username}")]
    UserTaken {
        /// The name.
        username: String,
    },
    /// The user is disabled.
    #[error("user {username} is disabled")]
    UserDisabled {
        /// The name.
        username: String,
    },
}

/// What is under a name that is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenBy {
    /// The log.
    pub log: LogRef,
    /// It belongs to the run of this name.
    pub of_run: bool,
    /// Who uploaded it.
    pub by: Option<String>,
}

fn taken_by(there: Option<&TakenBy>) -> String {
    let Some(TakenBy { log, of_run, by }) = there else { return String::new() };
    let what = format!(", of {} bytes with SHA-256 {}", log.size_bytes, log.hash);
    if *of_run {
        return format!("{what}, the one of the run; another log needs another name");
    }
    let by = by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
    format!(
        "{what}, uploaded{by} and of no run yet: another log needs another name, or waits until this one is \
         collected, a day after it came"
    )
}

impl From<RunEditError> for StoreError {
    fn from(error: RunEditError) -> Self {
        Self::invalid(error.to_string())
    }
}

fn by_whom(lock: &DatasetLock) -> String {
    let by = lock.locked_by.as_ref().map(|user| format!(" by {user}")).unwrap_or_default();
    let why = lock.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!("{by}{why}")
}

fn plural(kind: DatasetKind) -> &'static str {
    match kind {
        DatasetKind::Trajectory => "trajectories",
        DatasetKind::Run => "runs",
    }
}

fn missing_ranges(missing: &[(u64, u64)]) -> String {
    let ranges: Vec<_> = missing.iter().map(|(start, end)| format!("bytes {start} to {end}")).collect();
    ranges.join(", ")
}

pub(crate) type Result<T> = std::result::Result<T, StoreError>;

impl StoreError {
    pub(crate) fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { doing, path, source }
    }

    /// Whether there is no room left on the disk.
    pub fn is_disk_full(&self) -> bool {
        let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
        match self {
            Self::NoRoom { .. } => true,
            Self::Io { source, .. } => full.contains(&source.kind()),
            Self::Bucket(error) => matches!(error, S3Error::Full { .. }),
            _ => false,
        }
    }

    pub(crate) fn invalid(what: impl Into<String>) -> Self {
        Self::Invalid { what: what.into() }
    }

    pub(crate) fn dataset_not_found(name: &DatasetName) -> Self {
        Self::NotFound { what: format!("dataset {name}") }
    }

    pub(crate) fn user_not_found(username: &str) -> Self {
        Self::NotFound { what: format!("user {username}") }
    }

    pub(crate) fn run_not_found(run: &RunId) -> Self {
        Self::NotFound { what: format!("run {run}") }
    }
}
