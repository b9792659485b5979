//! What is written into the log: events as they happen, a sample when it ends, the header at the beginning and the end.
//!
//! The shapes are Inspect's, and within them those of the Control Tower family, so that every viewer and converter of such
//! logs understands them. Model events refer to a pool of messages instead of repeating the conversation each time.

mod events;
mod file;
mod header;
mod ids;
mod sample;

pub(crate) use events::{ModelCall, Recorder, ToolRun, output as output_json, usages_json};
pub(crate) use file::LogFile;
pub(crate) use header::{HeaderParts, LogIds, header, selected_name, start};
pub(crate) use ids::new_id;
pub(crate) use sample::{Ended, SampleParts, error_json};
