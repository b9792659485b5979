//! Uploaded logs, uploads in parts, and documents that wait for their run: the interface that another database can
//! implement.

use ct_model::convert::Registration;
use ct_model::{ObjectKey, RunId};
use jiff::Timestamp;
use serde_json::Value;

use crate::actor::Actor;
use crate::error::Result;
use crate::meta::Entry;
use crate::record::{NewRun, Registered, StoredObject};

/// Where uploads and registrations are kept.
pub(crate) trait UploadStore: Send + Sync {
    /// The log of a name: that of the visible run of this id, else what was uploaded.
    fn object(&self, key: &ObjectKey) -> Result<Option<StoredObject>>;
    /// Fails when the name, or its run's id, is in use.
    fn check_key_is_free(&self, key: &ObjectKey) -> Result<()>;
    /// Adds the log of a name that is free.
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
}

/// A document on its way in.
#[derive(Debug)]
pub(crate) struct PendingDocument {
    pub(crate) run: RunId,
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
    /// What is compared when a header comes again.
    pub(crate) registered: Value,
}
