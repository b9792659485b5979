//! What a store takes and gives: plain data.

use std::path::PathBuf;

use ct_model::{LogFormat, LogHash, LogRef, ObjectKey, RunEdit, RunHeader, RunId, RunStatus};
use jiff::Timestamp;
use serde::Serialize;

use crate::actor::Actor;

/// A log that was copied into the data folder and is not part of a run yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StagedLog {
    /// SHA-256 of its bytes.
    pub hash: LogHash,
    /// Its length.
    pub size_bytes: u64,
    /// Its form.
    pub format: LogFormat,
    /// Where it can be read until the ingest ends.
    pub path: PathBuf,
    /// The stored log of the same hash was missing or damaged, and is whole again.
    pub healed: bool,
}

impl StagedLog {
    pub(crate) fn log(&self) -> LogRef {
        LogRef { hash: self.hash.clone(), size_bytes: self.size_bytes, format: self.format }
    }
}

/// A run to which a log already belongs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KnownRun {
    /// The run.
    pub run_id: RunId,
    /// The log is this earlier revision of the run, not its present log.
    pub revision: Option<u64>,
    /// The run is deleted, and can be restored.
    pub deleted: bool,
}

/// A run to be stored. Its trajectories are those that were pushed.
#[derive(Debug, Clone)]
pub struct NewRun {
    /// Its id. [`CommitMode::Replace`] keeps the id of the replaced run instead.
    pub run_id: RunId,
    /// The header as the log says. `run_id`, `created_at` and `trajectory_count` are the store's and are not believed.
    pub header: RunHeader,
    /// Who stores it.
    pub actor: Actor,
    /// What the user said instead, on the command line. It is kept apart from what the log says.
    pub edit: RunEdit,
    /// How the log ended.
    pub status: RunStatus,
    /// `eval.eval_id` of the log.
    pub eval_id: Option<String>,
    /// `eval.created` of the log, as written there.
    pub eval_created: Option<String>,
    /// Where the log came from, such as a file name. Shown, never opened.
    pub source: Option<String>,
    /// What was lost in reading the log, one sentence each.
    pub defects: Vec<String>,
    /// The log.
    pub log: StagedLog,
}

/// What committing a run means for a run that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommitMode {
    /// A run of its own.
    New,
    /// A new revision of this run: the id and what users edited stay, log and trajectories are replaced.
    Replace(RunId),
    /// The run has this very log already; it is converted anew, and nothing becomes an earlier revision.
    Again(RunId),
}

/// What came of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Committed {
    /// There is a new run.
    Created(RunId),
    /// The run has a new log.
    Replaced {
        /// The run.
        run: RunId,
        /// The number under which its earlier log is kept, from 1.
        revision: u64,
    },
    /// The log already is the present log of this run; nothing was changed.
    AlreadyThere(RunId),
}

/// What tells the object of a log from others, in a bucket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogTag {
    /// The entity tag, in quotes.
    pub e_tag: Option<String>,
    /// Its version, where the bucket keeps versions.
    pub version_id: Option<String>,
}

/// A log that can be asked for by its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredObject {
    /// Its name.
    pub key: ObjectKey,
    /// The log.
    pub log: LogRef,
    /// MD5 of its bytes in hex, when it came in one piece.
    pub md5: Option<String>,
    /// What the bucket says of it; empty where logs are files.
    pub tag: LogTag,
}

impl StoredObject {
    /// What tells these bytes from others, in quotes: what the bucket says, else the MD5 of what came in one piece,
    /// else the SHA-256.
    pub fn e_tag(&self) -> String {
        if let Some(tag) = &self.tag.e_tag {
            return tag.clone();
        }
        format!("\"{}\"", self.md5.as_deref().unwrap_or(self.log.hash.as_str()))
    }
}

/// What an upload is of, by which it is found again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UploadOf {
    /// The log that gets this name.
    Key(ObjectKey),
    /// A log whose name follows when it is all there. The text is the client's, and tells its logs apart.
    Unnamed(String),
}

/// What an upload has to become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// The log of this hash. The name is told here when it was not at the beginning.
    Hash(LogHash, Option<ObjectKey>),
    /// Whatever its bytes are; the name goes with their hash.
    Any(LogFormat),
}

/// An upload in parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upload {
    /// Its id.
    pub upload_id: String,
    /// The name that the log gets, when it was told.
    pub key: Option<ObjectKey>,
    /// The length of the log.
    pub size_bytes: u64,
    /// What is there, by where it begins. Parts may overlap.
    pub parts: Vec<UploadPart>,
    /// Some log of this length is stored.
    pub same_size: bool,
}

/// A part of an upload that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadPart {
    /// Its first byte.
    pub start: u64,
    /// Its length.
    pub size_bytes: u64,
    /// Of its bytes.
    pub crc32: u32,
}

/// An upload whose parts go to the bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectUpload {
    /// The length of every part but the last.
    pub part_bytes: u64,
    /// The parts that are there.
    pub parts: Vec<DirectPart>,
}

/// A part of an upload that goes to the bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectPart {
    /// From 1.
    pub number: u64,
    /// Its first byte.
    pub start: u64,
    /// Its length.
    pub size_bytes: u64,
    /// The entity tag of what is there, in quotes: mostly the MD5 of its bytes.
    pub e_tag: Option<String>,
}

/// What came of a registration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Registered {
    /// Documents that were not there before.
    pub added: u64,
    /// Documents that were.
    pub already_there: u64,
    /// The run whose header came with them; it is in lists now.
    pub run_id: Option<RunId>,
}

/// What a store holds, in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Runs, deleted ones too.
    pub runs: u64,
    /// Runs that are deleted.
    pub deleted_runs: u64,
    /// Trajectories of all runs.
    pub trajectories: u64,
    /// Bytes of the present logs of all runs.
    pub logs_size_bytes: u64,
}

/// Something that [`crate::Store::check`] found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What kind of thing it is.
    pub kind: FindingKind,
    /// What it is about, such as a run or a file.
    pub subject: String,
    /// What is wrong with it, in a sentence.
    pub detail: String,
    /// Its size, where it has one.
    pub size_bytes: Option<u64>,
    /// What a repair did about it.
    pub done: Option<String>,
    /// What was done put it right. A damaged log that was set aside is still to be made again from the original.
    pub resolved: bool,
}

/// Kinds of [`Finding`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// A log that a run needs is not there.
    LogMissing,
    /// A log is not what its name says.
    LogDamaged,
    /// A sample is said to lie outside its log.
    RangeOutside,
    /// A count or an index does not agree with the trajectories.
    CountsDiffer,
    /// The database itself is damaged.
    DatabaseDamaged,
    /// A log that no run needs: a leftover, no defect.
    LogUnreferenced,
    /// A file of an interrupted operation: a leftover, no defect.
    TemporaryFile,
    /// A damaged log that a repair set aside: a leftover, no defect.
    SetAside,
    /// A file that does not belong here; it is left alone.
    Stranger,
}

impl FindingKind {
    /// Whether it is untidy only: nothing that is stored is wrong.
    pub fn is_leftover(self) -> bool {
        matches!(self, Self::LogUnreferenced | Self::TemporaryFile | Self::SetAside | Self::Stranger)
    }
}

/// What [`crate::Store::check`] saw.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CheckReport {
    /// Runs looked at, deleted ones too.
    pub runs: u64,
    /// Trajectories looked at.
    pub trajectories: u64,
    /// Logs read to the end.
    pub logs: u64,
    /// Their bytes.
    pub log_bytes: u64,
    /// What was found.
    pub findings: Vec<Finding>,
}

impl CheckReport {
    /// Whether all that is stored is right, or was put right.
    pub fn is_sound(&self) -> bool {
        self.findings.iter().all(|finding| finding.kind.is_leftover() || finding.resolved)
    }
}

/// How far a check is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckProgress {
    /// Bytes of logs read so far.
    pub bytes_done: u64,
    /// Bytes of logs to read.
    pub bytes_total: u64,
}

/// How far a copy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyProgress {
    /// Bytes of logs that are there.
    pub bytes_done: u64,
    /// Bytes of logs to be there.
    pub bytes_total: u64,
}

/// What came of a copy of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CopyReport {
    /// Runs, deleted ones too.
    pub runs: u64,
    /// Logs that were copied.
    pub copied: u64,
    /// Their bytes.
    pub copied_bytes: u64,
    /// Logs that were there already.
    pub there_already: u64,
    /// Logs that are damaged or missing in the store itself.
    pub failures: Vec<CopyFailure>,
}

/// A log that could not be copied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CopyFailure {
    /// Its name in the store.
    pub log: String,
    /// What is wrong with it, in a sentence.
    pub reason: String,
}

/// What [`crate::Store::gc`] may remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GcOptions {
    /// Say what would go, and remove nothing.
    pub dry_run: bool,
    /// Remove runs that were deleted before this time for good; absent: none.
    pub purge_deleted_before: Option<Timestamp>,
}

/// Something that goes in a collection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GcItem {
    /// What kind of thing it is.
    pub kind: GcKind,
    /// A run id, or a path.
    pub subject: String,
    /// Bytes on disk that it frees; for a run 0, its log is an item of its own.
    pub size_bytes: u64,
}

/// Kinds of [`GcItem`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GcKind {
    /// A run deleted long enough ago.
    DeletedRun,
    /// A log that no run needs.
    Log,
    /// An upload that nobody went on with.
    Upload,
    /// A log that was uploaded and never registered: its name, the log is an item of its own.
    UploadedLog,
    /// Documents that were registered, and whose run never was.
    Documents,
    /// A damaged log that was set aside, and has been made again since.
    SetAside,
    /// A file of an interrupted operation.
    TemporaryFile,
}

/// What went, or would go.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct GcReport {
    /// Item by item.
    pub items: Vec<GcItem>,
    /// Nothing was removed.
    pub dry_run: bool,
}

impl GcReport {
    /// All bytes.
    pub fn size_bytes(&self) -> u64 {
        self.items.iter().map(|item| item.size_bytes).sum()
    }
}
