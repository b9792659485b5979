//! Uploaded logs, uploads in parts, and documents that wait for their run: the interface that another database can
//! implement.

use ct_model::ObjectKey;
use jiff::Timestamp;

use crate::actor::Actor;
use crate::error::Result;
use crate::record::StoredObject;

/// Where uploads and registrations are kept.
pub(crate) trait UploadStore: Send + Sync {
    /// The log of a name: that of the visible run of this id, else what was uploaded.
    fn object(&self, key: &ObjectKey) -> Result<Option<StoredObject>>;
    /// Fails when the name, or its run's id, is in use.
    fn check_key_is_free(&self, key: &ObjectKey) -> Result<()>;
    /// Adds the log of a name that is free.
    fn add_object(&self, object: &StoredObject, actor: &Actor, now: Timestamp) -> Result<()>;
}
