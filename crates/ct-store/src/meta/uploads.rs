//! Uploaded logs, uploads in parts, and documents that wait for their run: the interface that another database can
//! implement.

/// Where uploads and registrations are kept.
pub(crate) trait UploadStore: Send + Sync {}
