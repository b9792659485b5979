//! The one place that writes to standard output and standard error.

use std::io::{self, BufWriter, IsTerminal as _, Write};

use serde_json::json;

use super::{Live, Progress, neutral};
use crate::env;
use crate::error::{CliError, Kind};

/// When to use colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How much is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// Results, warnings and errors.
    Quiet,
    /// What a person may want to know.
    Normal,
    /// More about what is done.
    Verbose,
}

/// What is shown where.
#[derive(Debug, Clone)]
pub(crate) struct Printer {
    quiet: bool,
    verbose: bool,
    json: bool,
    stdin_terminal: bool,
    stdout_terminal: bool,
    stderr_terminal: bool,
    stdout_color: bool,
    stderr_color: bool,
    dumb: bool,
}

impl Printer {
    /// Looks at the terminal once. `json`: messages on standard error are JSON too.
    pub(crate) fn new(quiet: bool, verbose: bool, color: ColorChoice, json: bool) -> Self {
        let (stdout_terminal, stderr_terminal) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        let dumb = env::TERM.get().is_some_and(|term| term == "dumb");
        let color_on = |terminal: bool| match color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => terminal && !dumb && env::NO_COLOR.get().is_none(),
        };
        Self {
            quiet,
            verbose,
            json,
            stdin_terminal: io::stdin().is_terminal(),
            stdout_terminal,
            stderr_terminal,
            stdout_color: color_on(stdout_terminal),
            stderr_color: color_on(stderr_terminal),
            dumb,
        }
    }

    /// Whether a person can be asked: both the question and the answer go through a terminal.
    pub(crate) fn can_ask(&self) -> bool {
        self.stdin_terminal && self.stderr_terminal && !self.quiet
    }

    /// How much is said.
    pub(crate) fn level(&self) -> Level {
        match (self.quiet, self.verbose) {
            (true, _) => Level::Quiet,
            (_, true) => Level::Verbose,
            _ => Level::Normal,
        }
    }

    /// Whether standard output is a terminal.
    pub(crate) fn to_terminal(&self) -> bool {
        self.stdout_terminal
    }

    /// Whether standard output takes colour.
    pub(crate) fn color(&self) -> bool {
        self.stdout_color
    }

    /// Standard output, buffered; flush it with [`Printer::flush`].
    #[expect(clippy::unused_self, reason = "whoever writes data holds the printer")]
    pub(crate) fn stdout(&self) -> BufWriter<io::StdoutLock<'static>> {
        BufWriter::with_capacity(64 << 10, io::stdout().lock())
    }

    /// Writes data to standard output.
    pub(crate) fn data(&self, text: &str) -> Result<(), CliError> {
        let mut stdout = self.stdout();
        stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush())
            .map_err(|error| CliError::stdout(&error))
    }

    /// Says something a person may want to know. The text is neutralised here.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            self.message("note", "", text);
        }
    }

    /// Says something only with `--verbose`.
    pub(crate) fn detail(&self, text: &str) {
        if self.verbose {
            self.message("detail", "", text);
        }
    }

    /// Says that something is not as it should be. The text is neutralised here.
    pub(crate) fn warning(&self, text: &str) {
        self.message("warning", "33", text);
    }

    /// Prints an error with its causes and hints.
    pub(crate) fn error(&self, error: &CliError) {
        if error.kind() == Kind::ClosedPipe {
            return;
        }
        let mut text = String::new();
        if self.json {
            text = super::compact(&error.to_json()).unwrap_or_default();
        } else {
            text.push_str(&format!("{} {}\n", self.paint("1;31", "error:"), neutral(error.message())));
            for cause in error.causes() {
                text.push_str(&format!("  {} {}\n", self.paint("2", "because:"), neutral(cause)));
            }
            for hint in error.hints() {
                text.push_str(&format!("{} {}\n", self.paint("36", "hint:"), neutral(hint)));
            }
        }
        Self::stderr(&text);
    }

    /// A progress bar on standard error, hidden when nobody could see it.
    pub(crate) fn progress(&self) -> Progress {
        Progress::new(self.stderr_terminal && !self.quiet && !self.json && !self.dumb)
    }

    /// A progress bar that nobody sees.
    pub(crate) fn silent_progress() -> Progress {
        Progress::new(false)
    }

    /// Lines that are redrawn in place, hidden when nobody could see them.
    pub(crate) fn live(&self) -> Live {
        Live::new(self.stderr_terminal && !self.quiet && !self.json && !self.dumb)
    }

    /// Asks a question on the terminal and reads one line; none at the end of input.
    pub(crate) fn ask(&self, question: &str) -> Result<Option<String>, CliError> {
        debug_assert!(self.can_ask(), "asked without a terminal");
        Self::stderr(&format!("{} ", neutral(question)));
        let mut line = String::new();
        let length = io::stdin()
            .read_line(&mut line)
            .map_err(|error| CliError::new(Kind::Io, "failed to read the answer").because(&error))?;
        Ok((length > 0).then(|| line.trim().to_owned()))
    }

    /// Shows lines that belong to a question, neutralised.
    pub(crate) fn prompt_line(&self, text: &str) {
        debug_assert!(self.can_ask(), "asked without a terminal");
        Self::stderr(&format!("{}\n", neutral(text)));
    }

    fn message(&self, level: &str, color: &str, text: &str) {
        let line = if self.json {
            super::compact(&json!({ level: { "message": text } })).unwrap_or_default()
        } else if color.is_empty() {
            format!("{}\n", neutral(text))
        } else {
            format!("{} {}\n", self.paint(color, &format!("{level}:")), neutral(text))
        };
        Self::stderr(&line);
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.stderr_color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Nothing can be done about a standard error that does not take text.
    fn stderr(text: &str) {
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }
}
