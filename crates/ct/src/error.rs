//! What can go wrong in a command, as the user sees it, and the one table of exit codes.
//!
//! Lower crates return their own enums; they become a [`CliError`] here and nowhere else, so that one kind of trouble
//! has one exit code and one set of hints.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::Path;

use ct_client::ClientError;
use ct_environment::{EnvironmentError, SandboxError};
use ct_log::LogError;
use ct_model::RunEditError;
use ct_s3::S3Error;
use ct_store::{Conflict, StoreError};
use serde_json::{Value, json};

const LIST_RUNS: &str = "list the runs with: ct runs list --all";

/// What sort of trouble it is. Scripts see it as `kind` in JSON errors, and as the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The command line makes no sense.
    Usage,
    /// What was named does not exist.
    NotFound,
    /// Something different is already there, or the name fits several things.
    Conflict,
    /// Some of several items failed; the others are done.
    Partial,
    /// A log or the store holds something that cannot be used.
    Data,
    /// The operating system refused.
    Io,
    /// Another process is at work on the store.
    Busy,
    /// A server wants a token, another one, or one that may do more.
    Auth,
    /// A server cannot be reached, does not answer as it should, or failed.
    Network,
    /// A mistake in the program.
    Internal,
    /// The reader of standard output went away, as `head` does.
    ClosedPipe,
}

/// An exit code with its meaning, for `--help` and the reference.
pub(crate) struct ExitCode {
    pub(crate) code: u8,
    pub(crate) about: &'static str,
}

/// The exit codes. They do not change.
pub(crate) const EXIT_CODES: &[ExitCode] = &[
    ExitCode { code: 0, about: "done (also when it was done already)" },
    ExitCode { code: 1, about: "failed: unreadable input, an error of the system, a damaged store" },
    ExitCode { code: 2, about: "the command line makes no sense; nothing was done" },
    ExitCode { code: 3, about: "partly done: some items failed and are listed, the others are done" },
    ExitCode { code: 4, about: "what was named does not exist" },
    ExitCode {
        code: 5,
        about: "something different is already there, or a short id fits several; nothing was changed",
    },
    ExitCode { code: 6, about: "a server wants a token, or one that may do more: see ct login" },
    ExitCode { code: 7, about: "a server cannot be reached, or failed; trying again may help" },
];

impl Kind {
    /// The code the process ends with.
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Self::ClosedPipe => 0,
            Self::Data | Self::Io | Self::Busy | Self::Internal => 1,
            Self::Usage => 2,
            Self::Partial => 3,
            Self::NotFound => 4,
            Self::Conflict => 5,
            Self::Auth => 6,
            Self::Network => 7,
        }
    }

    /// The stable name in JSON errors.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Usage => "usage",
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::Partial => "partial",
            Self::Data => "data",
            Self::Io => "io",
            Self::Busy => "busy",
            Self::Auth => "auth",
            Self::Network => "network",
            Self::Internal => "internal",
            Self::ClosedPipe => "closed_pipe",
        }
    }
}

/// An error a command ends with: one sentence, what caused it, and what to type next.
#[derive(Debug)]
pub(crate) struct CliError(Box<Parts>);

/// Apart, so that a result that is seldom an error stays small.
#[derive(Debug)]
struct Parts {
    kind: Kind,
    message: String,
    causes: Vec<String>,
    hints: Vec<String>,
}

impl CliError {
    /// An error of a kind.
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self(Box::new(Parts { kind, message: message.into(), causes: Vec::new(), hints: Vec::new() }))
    }

    /// The command line makes no sense.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Kind::Usage, message)
    }

    /// What was named does not exist.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(Kind::NotFound, message)
    }

    /// Something different is already there.
    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(Kind::Conflict, message)
    }

    /// Some of several items failed.
    pub(crate) fn partial(message: impl Into<String>) -> Self {
        Self::new(Kind::Partial, message)
    }

    /// A log or the store holds something that cannot be used.
    pub(crate) fn data(message: impl Into<String>) -> Self {
        Self::new(Kind::Data, message)
    }

    /// A mistake in the program.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(Kind::Internal, message)
    }

    /// The system refused: `what` is the action, such as `write`, on `path`.
    pub(crate) fn io(what: &str, path: &Path, error: &io::Error) -> Self {
        let kind = match error.kind() {
            io::ErrorKind::NotFound => Kind::NotFound,
            io::ErrorKind::BrokenPipe => Kind::ClosedPipe,
            _ => Kind::Io,
        };
        Self::new(kind, format!("failed to {what} {}", path.display())).because(error)
    }

    /// A log cannot be read, or not whole.
    pub(crate) fn log(path: &Path, error: &LogError) -> Self {
        if let LogError::Io(error) = error {
            return Self::io("read", path, error);
        }
        let converted = Self::data(format!("failed to read {}", path.display())).because(error);
        match error {
            LogError::LfsPointer => converted.hint("fetch the log itself with: git lfs pull"),
            _ => converted,
        }
    }

    /// Writing to standard output failed.
    pub(crate) fn stdout(error: &io::Error) -> Self {
        let kind = if error.kind() == io::ErrorKind::BrokenPipe { Kind::ClosedPipe } else { Kind::Io };
        Self::new(kind, "failed to write to standard output").because(error)
    }

    /// Adds an error and its sources as causes.
    pub(crate) fn because(mut self, error: &dyn Error) -> Self {
        let mut next = Some(error);
        while let Some(error) = next {
            let text = error.to_string();
            // Some errors repeat their source in their own text; say it once.
            if !self.0.causes.last().is_some_and(|last| last.contains(&text)) {
                self.0.causes.push(text);
            }
            next = error.source();
        }
        self
    }

    /// Adds what to do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hints.push(hint.into());
        self
    }

    /// What sort of trouble it is.
    pub(crate) fn kind(&self) -> Kind {
        self.0.kind
    }

    /// The sentence.
    pub(crate) fn message(&self) -> &str {
        &self.0.message
    }

    /// From the nearest cause to the first.
    pub(crate) fn causes(&self) -> &[String] {
        &self.0.causes
    }

    /// What to do about it.
    pub(crate) fn hints(&self) -> &[String] {
        &self.0.hints
    }

    /// The sentence and its causes on one line, for a list of failed items.
    pub(crate) fn reason(&self) -> String {
        let mut text = self.0.message.clone();
        for cause in &self.0.causes {
            text.push_str(": ");
            text.push_str(cause);
        }
        text
    }

    /// The shape of an error under `--format json`.
    pub(crate) fn to_json(&self) -> Value {
        json!({"error": {
            "kind": self.0.kind.name(),
            "message": self.0.message,
            "causes": self.0.causes,
            "hints": self.0.hints,
            "exit_code": self.0.kind.exit_code(),
        }})
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl Error for CliError {}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        let (kind, hint) = match &error {
            StoreError::NotFound { what } if what.starts_with("run") => {
                (Kind::NotFound, Some(LIST_RUNS.to_owned()))
            }
            StoreError::NotFound { what } if what.starts_with("user") => {
                (Kind::NotFound, Some("list the users with: ct users list".to_owned()))
            }
            StoreError::NotFound { what } if what.starts_with("token") => {
                (Kind::NotFound, Some("list the tokens with: ct tokens list --all".to_owned()))
            }
            StoreError::NotFound { .. } => (Kind::NotFound, None),
            StoreError::Ambiguous { .. } => {
                (Kind::Conflict, Some("give more characters of the id".to_owned()))
            }
            StoreError::Conflict(Conflict::RunDeleted { run }) => (Kind::Conflict, Some(bring_back(run))),
            StoreError::Conflict(Conflict::LogTaken { held_by, deleted: true, .. }) => {
                (Kind::Conflict, Some(bring_back(held_by)))
            }
            StoreError::Conflict(Conflict::UserDisabled { username }) => {
                (Kind::Conflict, Some(format!("undo it with: ct users enable {username}")))
            }
            StoreError::Conflict(_) => (Kind::Conflict, None),
            StoreError::Forbidden { .. } => (Kind::Conflict, None),
            StoreError::Invalid { .. } => (Kind::Usage, None),
            StoreError::NewerSchema { .. }
            | StoreError::HashDiffers { .. }
            | StoreError::PartDamaged { .. } => (Kind::Data, None),
            StoreError::Corrupt { .. } => {
                let hint = "the logs are kept apart from the database: move ct.sqlite and the files that begin so away, \
                            then make the runs again with ct runs make on the logs folder beside it (edits of names \
                            and tags are lost, deleted runs come back)";
                (Kind::Data, Some(hint.to_owned()))
            }
            StoreError::NoStore { .. } => {
                (Kind::NotFound, Some("the first run makes it: ct runs make LOG".to_owned()))
            }
            StoreError::ReadOnly { .. } => (Kind::Io, None),
            StoreError::Unsettled { .. } => {
                let hint = "open it once where it can be written, with: ct runs list; or copy the folder and name the \
                            copy with --data-dir";
                (Kind::Io, Some(hint.to_owned()))
            }
            error if error.is_disk_full() => {
                let hint = "free some space; leftovers of interrupted work go with: ct store gc";
                (Kind::Io, Some(hint.to_owned()))
            }
            StoreError::Bucket(_) => {
                let StoreError::Bucket(error) = error else { unreachable!("matched above") };
                return error.into();
            }
            StoreError::OtherLogs { .. } | StoreError::OtherStore { .. } | StoreError::LogsTaken { .. } => {
                (Kind::Conflict, None)
            }
            StoreError::NoRoom { .. } | StoreError::Io { .. } | StoreError::Source { .. } => (Kind::Io, None),
            StoreError::Busy { .. } => (Kind::Busy, None),
            StoreError::Database { .. } => (Kind::Data, None),
        };
        let converted = Self::new(kind, error.to_string());
        let converted = match Error::source(&error) {
            Some(source) => converted.because(source),
            None => converted,
        };
        match hint {
            Some(hint) => converted.hint(hint),
            None => converted,
        }
    }
}

impl From<RunEditError> for CliError {
    fn from(error: RunEditError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<EnvironmentError> for CliError {
    fn from(error: EnvironmentError) -> Self {
        let list = |names: &[String]| names.join(", ");
        let (kind, hints) = match &error {
            EnvironmentError::Unknown { known, searched, .. } => {
                let folders: Vec<String> =
                    searched.iter().map(|folder| folder.display().to_string()).collect();
                let known = (!known.is_empty()).then(|| format!("there are {}", list(known)));
                let searched = format!("looked for in {} and in the program", folders.join(", "));
                (Kind::NotFound, known.into_iter().chain([searched]).collect())
            }
            EnvironmentError::NoTask { known, .. } if known.is_empty() => (Kind::NotFound, Vec::new()),
            EnvironmentError::NoTask { known, .. } => {
                (Kind::NotFound, vec![format!("there are {}", list(known))])
            }
            EnvironmentError::Invalid { .. } => (Kind::Data, Vec::new()),
            EnvironmentError::Io { .. } => (Kind::Io, Vec::new()),
        };
        hints.into_iter().fold(Self::new(kind, error.to_string()), Self::hint)
    }
}

impl From<SandboxError> for CliError {
    fn from(error: SandboxError) -> Self {
        let kind = match &error {
            SandboxError::Io { .. } | SandboxError::Program { .. } => Kind::Io,
            _ => Kind::Data,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<ClientError> for CliError {
    fn from(error: ClientError) -> Self {
        let (kind, hint) = match &error {
            ClientError::Address { .. } => {
                (Kind::Usage, Some("addresses look like https://viewer.example".to_owned()))
            }
            ClientError::TokenNeeded { server } => {
                (Kind::Auth, Some(format!("sign in with: ct login --url {server}")))
            }
            // One in a variable comes before any login.
            ClientError::Unauthorized { server, .. } => (
                Kind::Auth,
                Some(format!("ct status tells where the token comes from; sign in with: ct login --url {server}")),
            ),
            ClientError::Forbidden { .. } => {
                (Kind::Auth, Some("sign in as someone who may: ct login; ct status tells who you are".to_owned()))
            }
            ClientError::NotFound { message, .. } => {
                (Kind::NotFound, message.starts_with("run ").then(|| LIST_RUNS.to_owned()))
            }
            ClientError::Conflict { deleted_run: Some(run), .. } => {
                (Kind::Conflict, Some(bring_back(run)))
            }
            ClientError::Conflict { candidates, .. } => {
                let hint = format!("give more characters of the id; it may be {}", candidates.join(", "));
                (Kind::Conflict, (!candidates.is_empty()).then_some(hint))
            }
            ClientError::TooLarge { .. } => {
                (Kind::Network, Some("a proxy before the server may set the limit".to_owned()))
            }
            ClientError::Invalid { status: 400, .. } => (Kind::Usage, None),
            ClientError::Invalid { .. } => (Kind::Data, None),
            ClientError::Busy { .. } | ClientError::Server { .. } => {
                (Kind::Network, Some("try again later; what was done is kept".to_owned()))
            }
            ClientError::Unreachable { .. } | ClientError::Timeout { .. } => {
                (Kind::Network, Some("ct status tells which server is used and why; --local does without one".to_owned()))
            }
            ClientError::Tls { .. } => (
                Kind::Network,
                Some("check the address and this machine's clock and certificates (SSL_CERT_FILE names others)".to_owned()),
            ),
            ClientError::Protocol { .. } | ClientError::TooLong { .. } => {
                (Kind::Network, Some("is that the address of a viewer? ct status tells where it comes from".to_owned()))
            }
            ClientError::Redirected { location, .. } => {
                (Kind::Network, Some(format!("use the address it names, if you trust it: {location}")))
            }
            ClientError::Unsupported { .. } => (Kind::Usage, None),
            ClientError::Altered { .. } => (Kind::Data, Some("run it again to fetch it once more".to_owned())),
            ClientError::SourceChanged { .. } => {
                (Kind::Data, Some("run it again when nothing writes to the file".to_owned()))
            }
            ClientError::Io { .. } => (Kind::Io, None),
        };
        let converted = Self::new(kind, error.to_string());
        let converted = match Error::source(&error) {
            Some(source) => converted.because(source),
            None => converted,
        };
        match hint {
            Some(hint) => converted.hint(hint),
            None => converted,
        }
    }
}

fn bring_back(run: impl fmt::Display) -> String {
    format!("bring it back with: ct runs restore {run}")
}

impl From<S3Error> for CliError {
    fn from(error: S3Error) -> Self {
        let kind = match &error {
            S3Error::Address { .. } | S3Error::Config { .. } => Kind::Usage,
            S3Error::NoBucket { .. } | S3Error::NotFound { .. } => Kind::NotFound,
            S3Error::Precondition { .. } => Kind::Conflict,
            S3Error::Keys { .. } | S3Error::Forbidden { .. } => Kind::Auth,
            S3Error::Full { .. } | S3Error::Read { .. } => Kind::Io,
            S3Error::Altered { .. } => Kind::Data,
            _ => Kind::Network,
        };
        let converted = Self::new(kind, error.to_string());
        match Error::source(&error) {
            Some(source) => converted.because(source),
            None => converted,
        }
    }
}

/// The exit codes as a paragraph of `--help`.
pub(crate) fn exit_codes_help() -> String {
    let mut text = String::from("Exit codes:\n");
    for row in EXIT_CODES {
        text.push_str(&format!("  {}  {}\n", row.code, row.about));
    }
    text.truncate(text.trim_end().len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_lists_every_exit_code() {
        let mut table = String::from("| code | meaning |\n| --- | --- |\n");
        for row in EXIT_CODES {
            table.push_str(&format!("| {} | {} |\n", row.code, row.about));
        }
        let page = include_str!("../../../docs/exit-codes.md");
        assert!(page.contains(&table), "docs/exit-codes.md should hold this table:\n{table}");
        for kind in [
            Kind::Usage,
            Kind::NotFound,
            Kind::Conflict,
            Kind::Partial,
            Kind::Data,
            Kind::Io,
            Kind::Busy,
            Kind::Auth,
            Kind::Network,
            Kind::Internal,
            Kind::ClosedPipe,
        ] {
            assert!(EXIT_CODES.iter().any(|row| row.code == kind.exit_code()), "{kind:?}");
            assert!(kind == Kind::ClosedPipe || page.contains(&format!("`{}`", kind.name())), "{kind:?}");
        }
    }

    #[test]
    fn a_cause_already_said_is_not_repeated() {
        let inner = io::Error::other("disk on fire");
        let error = CliError::data("no luck").because(&io::Error::other(inner));
        assert_eq!(error.reason(), "no luck: disk on fire");
    }
}
