//! From an eval log to a run header and trajectory documents.
//!
//! [`HeaderFacts`] holds what is taken from a log's header, [`SampleFacts`] what is taken from one sample in a single
//! streaming pass; the documents are built from these two. Logs are written by many hands and many versions: a field of
//! the wrong type reads as a missing one, a name from another family of logs is looked up where that family keeps it,
//! and only JSON that cannot be walked at all is an error.
//!
//! Cost: a pass looks at each byte of a sample once. Conversations and events are never kept; what is kept has a named
//! limit in [`limits`].

mod blake2s;
mod cost;
mod document;
mod family;
mod header;
mod identity;
mod log;
mod pass;
mod registration;
mod sample;
mod scores;
mod value;

pub use document::trajectory_document;
pub use header::{HeaderFacts, PlanStep, RunOptions, run_header};
pub use identity::{TrajectoryIds, run_id_of, trajectory_id_of};
pub use log::{Converted, convert_json, convert_log, convert_sample, in_order, sample_range};
pub use registration::Registration;
pub use sample::{CallTokens, ModelCalls, SampleFacts, SampleNote, ScoreFacts, ToolCall, limits};

pub(crate) use pass::{glance, usage};
pub(crate) use sample::verdict_score;
pub(crate) use scores::monitor_key;
pub(crate) use value::time_ms;
