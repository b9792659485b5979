//! Versioned datasets: the interface that another database can implement.

/// Where datasets are kept.
pub(crate) trait DatasetStore: Send + Sync {}
