//! Environments of evaluations: folders that describe tasks, sandboxes that agents work on them in, and scorers that judge
//! what came of it.
//!
//! [`Catalog`] finds an [`Environment`]; [`SandboxHost`] makes [`Sandbox`]es for it; an agent's commands run in one; when
//! the agent is done, [`Sandbox::end`] kills what it left running and gives the [`EndedSandbox`], which alone can score.

mod catalog;
mod compose;
mod digest;
mod environment;
mod error;
mod lines;
mod manifest;
mod plain;
mod sandbox;
mod score;
mod shipped;
mod validate;
mod workspace;

pub use catalog::{Catalog, Listing, Place};
pub use environment::{
    Environment, FailureType, MainTask, Pairing, Role, SandboxSettings, Service, SideTask, Task, TaskRef,
};
pub use error::{EnvironmentError, Problem, SandboxError};
pub use sandbox::{
    Assignment, Capture, EndedSandbox, ExecRequest, ExecResult, HostOptions, LimitHit, Sandbox, SandboxHost,
    SandboxKind, StartOptions,
};
pub use score::{ScoreInput, ScoreOutcome, TaskScore};
pub use validate::{Check, CheckResult, validate};
pub use workspace::{ChangeKind, FileChange, WorkspaceDiff};
