//! Sandboxes: where the commands of agents, set-up scripts and scorers run. Never anywhere else.
//!
//! A *cell* is one confined place (a container, or namespaces of bubblewrap). A [`Sandbox`] is the agent's cell with the
//! workspace, and a cell for each service that shares its loopback network. Set-up scripts run before, scorers after, each
//! in a fresh cell over the same workspace: nothing that an agent leaves behind but the workspace's files reaches a scorer.

mod cell;
mod cgroup;
mod container;
mod ended;
mod exec;
mod files;
mod filter;
mod host;
mod leftover;
mod local;
mod services;
mod stage;
mod start;
mod watch;

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::environment::{MainTask, SideTask, TaskRef};

pub use ended::EndedSandbox;
pub use exec::{Capture, ExecRequest, ExecResult, LimitHit};
pub use host::SandboxHost;
pub(crate) use stage::Folder;
pub use start::Sandbox;

/// The kinds of sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxKind {
    /// A container of docker or podman.
    Container,
    /// Namespaces of this machine, by bubblewrap.
    Local,
}

impl SandboxKind {
    /// As documents and options write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Container => "container",
            Self::Local => "local",
        }
    }
}

/// What a host is to be like, beside what its environment says.
#[derive(Debug, Clone, Default)]
pub struct HostOptions {
    /// This kind and no other.
    pub kind: Option<SandboxKind>,
    /// The image for environments without a Dockerfile, in place of the environment's own.
    pub image: Option<String>,
    /// Where workspaces are made; the system's temporary folder otherwise.
    pub temp_dir: Option<PathBuf>,
}

/// The tasks of one sample.
#[derive(Debug, Clone, Default)]
pub struct Assignment<'a> {
    /// Main tasks.
    pub mains: Vec<&'a MainTask>,
    /// Side tasks.
    pub sides: Vec<&'a SideTask>,
}

impl<'a> Assignment<'a> {
    /// All tasks, main ones first.
    pub fn tasks(&self) -> impl Iterator<Item = TaskRef<'a>> + use<'a, '_> {
        self.mains
            .iter()
            .map(|main| TaskRef::Main(main))
            .chain(self.sides.iter().map(|side| TaskRef::Side(side)))
    }
}

/// How one sandbox is started.
#[derive(Debug, Clone, Default)]
pub struct StartOptions {
    /// Shows the reference solutions of the tasks, read-only, as `/solutions/<role>/<task>` (and the first main task's as
    /// `/solution`): for policies that play them.
    pub solutions: bool,
    /// How long one command may take, in place of what the environment says.
    pub command_timeout: Option<Duration>,
}
