//! One confined place of either kind.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::process::Child;

use crate::environment::SandboxSettings;
use crate::error::SandboxError;

use super::exec::{ExecRequest, ExecResult, LimitHit, OUTPUT_BYTES};
use super::{container, local};

/// A folder or file of the machine, seen inside.
#[derive(Debug, Clone)]
pub(crate) struct Mount {
    pub(crate) host: PathBuf,
    pub(crate) inside: String,
    pub(crate) writable: bool,
}

impl Mount {
    pub(crate) fn read(host: impl Into<PathBuf>, inside: impl Into<String>) -> Self {
        Self { host: host.into(), inside: inside.into(), writable: false }
    }

    pub(crate) fn write(host: impl Into<PathBuf>, inside: impl Into<String>) -> Self {
        Self { host: host.into(), inside: inside.into(), writable: true }
    }
}

/// What a cell is to be.
#[derive(Debug, Clone)]
pub(crate) struct CellSpec {
    pub(crate) settings: SandboxSettings,
    pub(crate) mounts: Vec<Mount>,
    /// Where commands start.
    pub(crate) workdir: String,
    /// `passwd`, `group`, `hosts` and `nsswitch.conf`.
    pub(crate) etc: PathBuf,
    /// The numeric user of this machine that everything inside runs as.
    pub(crate) uid: u32,
    /// Folders whose sizes together may not pass the settings' disk limit.
    pub(crate) bounded: Vec<PathBuf>,
}

/// A cell that runs.
#[derive(Debug)]
pub(crate) enum Cell {
    Local(local::Cell),
    Container(container::Cell),
}

/// What every command inside finds in its environment.
pub(crate) const VARIABLES: [(&str, &str); 6] = [
    ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
    ("HOME", "/home/agent"),
    ("USER", "agent"),
    ("LANG", "C.UTF-8"),
    ("TERM", "dumb"),
    ("TMPDIR", "/tmp"),
];

/// The shell script of a cell's first process, which waits for the end. That it ignores its children's ends makes the
/// kernel clear orphans away. Not every shell can pass that on, nor every `env`.
pub(crate) const FIRST_PROCESS: &str = "exec >/dev/null 2>&1; env --ignore-signal=CHLD true && \
    exec env --ignore-signal=CHLD cat; trap '' CHLD; exec cat";

impl Cell {
    /// Runs one command.
    pub(crate) async fn exec(&self, request: ExecRequest) -> Result<ExecResult, SandboxError> {
        let timeout = request.timeout.unwrap_or_else(|| self.command_timeout());
        let limit = request.output_limit_bytes.unwrap_or(OUTPUT_BYTES);
        let breaches = self.watch().count();
        let mut result = match self {
            Self::Local(cell) => cell.exec(request, timeout, limit).await?,
            Self::Container(cell) => cell.exec(request, timeout, limit).await?,
        };
        if let Some(limit) = self.watch().since(breaches) {
            result.limit_hit = Some(limit);
        }
        Ok(result)
    }

    /// Starts a request's program inside, one that stays. What it prints is piped out.
    pub(crate) async fn spawn(&self, request: &ExecRequest) -> std::io::Result<Child> {
        let mut command = match self {
            Self::Local(cell) => cell.command(request),
            Self::Container(cell) => cell.command(request),
        };
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        match self {
            Self::Local(_) => super::filter::spawn(command).await,
            Self::Container(_) => command.spawn(),
        }
    }

    /// Kills everything inside; what shares its network stays.
    pub(crate) async fn halt(&mut self) {
        match self {
            Self::Local(cell) => cell.halt().await,
            Self::Container(cell) => cell.halt().await,
        }
    }

    /// Kills everything inside, and waits until it is gone.
    pub(crate) async fn kill(self) {
        match self {
            Self::Local(cell) => cell.kill().await,
            Self::Container(cell) => cell.kill().await,
        }
    }

    pub(crate) fn watch(&self) -> &Arc<Breaches> {
        match self {
            Self::Local(cell) => &cell.breaches,
            Self::Container(cell) => &cell.breaches,
        }
    }

    pub(crate) fn workdir(&self) -> &str {
        match self {
            Self::Local(cell) => &cell.workdir,
            Self::Container(cell) => &cell.workdir,
        }
    }

    fn command_timeout(&self) -> Duration {
        match self {
            Self::Local(cell) => cell.command_timeout,
            Self::Container(cell) => cell.command_timeout,
        }
    }
}

/// Where a command starts: `cwd` from the working folder.
pub(crate) fn start_folder(workdir: &str, cwd: Option<&str>) -> String {
    Path::new(workdir).join(cwd.unwrap_or_default()).to_string_lossy().into_owned()
}

/// The limits that a cell's processes were stopped at so far.
#[derive(Debug, Default)]
pub(crate) struct Breaches(std::sync::Mutex<Vec<LimitHit>>);

impl Breaches {
    pub(crate) fn push(&self, limit: LimitHit) {
        if let Ok(mut list) = self.0.lock() {
            list.push(limit);
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.0.lock().map_or(0, |list| list.len())
    }

    pub(crate) fn since(&self, count: usize) -> Option<LimitHit> {
        self.0.lock().ok()?.get(count).copied()
    }
}
