//! What can go wrong with environments and sandboxes.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Something wrong in an environment's folder, with the place in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file, or the folder when a file is missing.
    pub path: PathBuf,
    /// The line in it, from 1.
    pub line: Option<usize>,
    /// What is wrong, and what is expected.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path.display(), self.message),
            None => write!(f, "{}: {}", self.path.display(), self.message),
        }
    }
}

/// Why an environment cannot be had.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the sentences tell the fields")]
pub enum EnvironmentError {
    /// There is none of that name.
    #[error("there is no environment {name:?}")]
    Unknown { name: String, known: Vec<String>, searched: Vec<PathBuf> },
    /// It has no such task.
    #[error("the environment {environment} has no {role} task {name:?}")]
    NoTask { environment: String, role: &'static str, name: String, known: Vec<String> },
    /// Its folder is not right.
    #[error("the environment {name} is not right: {}", sentences(problems))]
    Invalid { name: String, problems: Vec<Problem> },
    /// A file cannot be read or written.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
}

fn sentences(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Why something in a sandbox did not happen. What a command inside does wrong is no error but its result.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the sentences tell the fields")]
pub enum SandboxError {
    /// No sandbox can run here; commands of models never run without one.
    #[error("no sandbox can run this environment here: {}", reasons.join("; "))]
    Unavailable { reasons: Vec<String> },
    /// The image cannot be had or built.
    #[error("the image of {environment} cannot be made: {problem}")]
    Image { environment: String, problem: String },
    /// The sandbox did not start.
    #[error("the sandbox did not start: {problem}")]
    Start { problem: String },
    /// A set-up script failed: the environment is not ready.
    #[error("the set-up of {task} failed ({outcome}): {output}")]
    Setup { task: String, outcome: String, output: String },
    /// A service did not become ready.
    #[error("the service {service} did not become ready: {problem}")]
    Service { service: String, problem: String },
    /// The sandbox is gone: stopped, killed from inside, or over its limits beyond help.
    #[error("the sandbox is gone: {problem}")]
    Gone { problem: String },
    /// A file inside cannot be read or written.
    #[error("{path} in the sandbox: {problem}")]
    File { path: String, problem: String },
    /// A file is larger than asked for.
    #[error("{path} in the sandbox is larger than {limit_bytes} bytes")]
    TooLarge { path: String, limit_bytes: u64 },
    /// A file of the machine cannot be read or written.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
    /// A program of the machine cannot be started.
    #[error("cannot run {program}: {source}")]
    Program { program: String, source: io::Error },
}

impl SandboxError {
    pub(crate) fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { doing, path, source }
    }
}
