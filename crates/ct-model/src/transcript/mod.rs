//! A sample as something to read step by step: an index made in one pass, and the reading of single steps by range.
//!
//! A sample may be larger than memory, so nothing here holds one. [`scan`] walks its JSON once and keeps for each message,
//! call, event, attachment and verdict where it lies and a few numbers: some 50 bytes each. What is shown is read again
//! by range from wherever the sample's JSON can be read at ([`ct_log::source::Source`]), as far as it fits on a screen.
//!
//! **Steps** are what a reader goes through: each message of the conversation but the outputs of tools, which belong to
//! the call they answer; and the model calls that the conversation does not hold, such as those of agents below the
//! main one. **Actions** are the tool calls, numbered from 0 as in the trajectory's document, so that an action's number
//! is the same wherever the same log is read; without a conversation they are the calls of its model calls. Every event
//! of the log belongs to a step: to the one whose model call or tool call it is, else to the one during which it happened.
//!
//! Cost: one pass at the speed of skipping JSON. Memory: the index, see [`limits`].

mod arrange;
mod image;
mod index;
mod part;
mod scan;
mod search;
mod step;
mod whole;

pub use image::image_type;
pub use index::{
    Action, Call, EventEntry, Index, Place, ScoreEntry, Section, Speaker, Step, StepKind, Verdict, limits,
    suspicion_scale,
};
pub use part::{Cut, Part, PartReader, Parts, Picture, Room};
pub use scan::scan;
pub use search::{Hit, Search};
pub use step::{CallView, EventView, Input, ModelCall, ScoreView, StepView, VerdictView};
pub use whole::Whole;
