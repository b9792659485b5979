//! Uploaded logs, uploads in parts, and documents that wait for their run: the interface that another database can
//! implement.

use ct_model::convert::Registration;
use ct_model::{LogHash, ObjectKey, RunId};
use jiff::Timestamp;
use serde_json::Value;

use crate::actor::Actor;
use crate::blob::LogKey;
use crate::error::Result;
use crate::meta::Entry;
use crate::record::{NewRun, Registered, StoredObject, UploadOf, UploadPart};

/// Where uploads and registrations are kept.
pub(crate) trait UploadStore: Send + Sync {
    /// The log of a name: that of the visible run of this id, else what was uploaded.
    fn object(&self, key: &ObjectKey) -> Result<Option<StoredObject>>;
    /// Fails when the name, or its run's id, is in use.
    fn check_key_is_free(&self, key: &ObjectKey) -> Result<()>;
    /// Whether some log has this length.
    fn has_log_of_size(&self, size_bytes: u64) -> Result<bool>;
    /// Forgets the log of a name whose bytes were lost.
    fn forget_object(&self, key: &ObjectKey, hash: &LogHash, now: Timestamp) -> Result<()>;
    /// Adds the log of a name that is free. A power cut may undo it.
    fn add_object(&self, object: &StoredObject, actor: &Actor, now: Timestamp) -> Result<()>;
    /// Whether a run is deleted; absent when there is none.
    fn run_is_deleted(&self, run: &RunId) -> Result<Option<bool>>;
    /// Keeps documents until their run's header is there, and makes that run visible, or changes nothing.
    fn register(
        &self,
        documents: Vec<PendingDocument>,
        header: Option<RegisteredHeader>,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<Registered>;
    /// The upload that this user began of this log.
    fn find_upload(&self, of: &UploadOf, size_bytes: u64, actor: &Actor) -> Result<Option<String>>;
    /// Keeps a new upload under `id`, unless there is one as [`Self::find_upload`] finds it: its id.
    fn begin_upload(
        &self,
        id: &str,
        of: &UploadOf,
        size_bytes: u64,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<String>;
    /// An upload in parts.
    fn upload(&self, id: &str) -> Result<Option<UploadRow>>;
    /// The parts that are there, by where they begin.
    fn upload_parts(&self, id: &str) -> Result<Vec<UploadPart>>;
    /// Counts a part as there. A power cut may undo it.
    fn add_part(&self, id: &str, part: &UploadPart, now: Timestamp) -> Result<()>;
    /// Counts all parts as lost.
    fn forget_parts(&self, id: &str) -> Result<()>;
    /// Adds the log that an upload became. A power cut may undo it.
    fn complete_upload(&self, id: &str, object: &StoredObject, actor: &Actor, now: Timestamp) -> Result<()>;
    /// Removes an upload.
    fn drop_upload(&self, id: &str, actor: &Actor, now: Timestamp) -> Result<()>;
    /// Notes that someone goes on with an upload.
    fn touch_upload(&self, id: &str, now: Timestamp) -> Result<()>;
    /// What the bucket calls an upload whose parts go there.
    fn upload_object(&self, id: &str) -> Result<Option<String>>;
    /// Keeps what the bucket calls an upload, unless something is kept: what is kept.
    fn set_upload_object(&self, id: &str, bucket_upload_id: &str) -> Result<String>;
    /// Forgets what the bucket called an upload.
    fn forget_upload_object(&self, id: &str) -> Result<()>;
    /// The uploads that are not complete and whose parts go to the bucket, with what that calls them.
    fn upload_objects(&self) -> Result<Vec<(String, String)>>;
    /// The uploads that there are, by id.
    fn upload_ids(&self) -> Result<Vec<String>>;
    /// The logs that were uploaded: name, log, length.
    fn object_logs(&self) -> Result<Vec<(String, LogKey, u64)>>;
    /// Forgets what a user sent of a run that it can never become: its documents, and its log when nothing else needs it.
    fn release(&self, run: &RunId, actor: &Actor, now: Timestamp) -> Result<()>;
    /// What nobody touched since a time, and what no run was made of since another; with `remove` it is forgotten.
    fn abandoned(
        &self,
        uploads_before: Timestamp,
        objects_before: Timestamp,
        remove: bool,
        now: Timestamp,
    ) -> Result<Abandoned>;
}

/// A document on its way in.
#[derive(Debug)]
pub(crate) struct PendingDocument {
    pub(crate) run: RunId,
    /// The run that is to get it in place of what it has.
    pub(crate) replaces: Option<RunId>,
    /// The place of its sample in the log.
    pub(crate) position: u64,
    /// With its `eval_metadata`.
    pub(crate) entry: Entry,
    /// Of this document alone.
    pub(crate) sums: Registration,
}

/// A header that makes a run visible.
#[derive(Debug)]
pub(crate) struct RegisteredHeader {
    pub(crate) run: NewRun,
    /// The run that gets its log and documents in place of those it has.
    pub(crate) replaces: Option<RunId>,
    /// What is compared when a header comes again.
    pub(crate) registered: Value,
}

/// An upload in parts.
#[derive(Debug)]
pub(crate) struct UploadRow {
    /// The name that the log gets, when it was told.
    pub(crate) key: Option<ObjectKey>,
    pub(crate) size_bytes: u64,
    pub(crate) created_by: Option<String>,
    /// Of the log that it became.
    pub(crate) hash: Option<LogHash>,
}

/// What was uploaded and never registered, or never completed.
#[derive(Debug, Default)]
pub(crate) struct Abandoned {
    /// Uploads in parts, by id.
    pub(crate) uploads: Vec<String>,
    /// Logs by name, with their length.
    pub(crate) objects: Vec<(String, u64)>,
    /// Runs whose documents wait in vain, with their number.
    pub(crate) pending: Vec<(String, u64)>,
}

impl Abandoned {
    pub(crate) fn is_empty(&self) -> bool {
        self.uploads.is_empty() && self.objects.is_empty() && self.pending.is_empty()
    }
}
