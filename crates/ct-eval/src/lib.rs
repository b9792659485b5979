//! Runs agents in sandboxed environments and writes their eval logs.
//!
//! Knows environments, models and logs; knows no store, no terminal and no variables of the process: what it needs comes
//! as values, and what happens is told as [`Progress`].

mod agent;
mod error;
mod log;
pub mod model;
mod outcome;
mod policy;
mod resume;
mod run;
mod sample;
mod spec;
mod tool;

pub use error::EvalError;
pub use outcome::{Mean, SampleOutcome, Totals};
pub use policy::{ArgumentInfo, POLICIES, PolicyChoice, PolicyError, PolicyInfo, Replay, Turn};
pub use resume::{Resumable, ResumedSample};
pub use run::{Destination, Progress, SampleKey, Status, Summary, run};
pub use spec::{About, EvalSpec, Limits, SampleSpec};
