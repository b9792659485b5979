//! Inspect evaluation logs: open, list, read, repair and write them.
//!
//! Synchronous, without network, and without any idea of runs or stores.

pub mod json;
