//! Comments on trajectories, and the audit log: the interface that another database can implement.

/// Where comments are kept.
pub(crate) trait CommentStore: Send + Sync {}
