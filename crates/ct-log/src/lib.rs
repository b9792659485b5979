//! Inspect evaluation logs: open, list, read, repair and write them.
//!
//! Synchronous, without network, and without any idea of runs or stores.

pub mod archive;
mod defect;
pub mod format;
pub mod json;
mod limits;
mod read;
pub mod source;
pub mod write;

pub use archive::{Inflater, StoredRange};
pub use defect::{Defect, DefectKind};
pub use limits::Limits;
pub use read::{Format, Header, Log, LogError, SampleEntry, SampleReader, SummaryRow};
