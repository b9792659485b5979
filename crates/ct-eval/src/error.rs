//! What ends a run before its time.

use std::io;
use std::path::{Path, PathBuf};

use ct_environment::SandboxError;
use ct_log::LogError;
use ct_log::write::WriteError;

/// Why a run cannot begin, or not go on.
#[derive(Debug, thiserror::Error)]
pub enum EvalError {
    /// Two samples have one id.
    #[error("two samples have the id {id:?}")]
    TwiceTheSame {
        /// The id.
        id: String,
    },
    /// It was stopped before it began.
    #[error("stopped before anything was run")]
    Cancelled,
    /// No sandbox can be had.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// A log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The log cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A log to resume does not say what was to be run.
    #[error("{path} cannot be resumed: {problem}")]
    Resume {
        /// The log.
        path: PathBuf,
        /// What is missing.
        problem: String,
    },
    /// The system refused.
    #[error("failed to {what} {path}")]
    Io {
        /// The action.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A mistake in the program.
    #[error("{0}")]
    Internal(&'static str),
}

impl EvalError {
    pub(crate) fn io(what: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { what, path: path.to_owned(), source }
    }
}
