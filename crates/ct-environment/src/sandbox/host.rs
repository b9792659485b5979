//! A place where sandboxes of one environment can be started.

use std::path::Path;
use std::sync::Arc;

use crate::environment::Environment;
use crate::error::SandboxError;

use super::cell::{Cell, CellSpec};
use super::stage::{Folder, copy_tree};
use super::{Assignment, HostOptions, Sandbox, SandboxKind, StartOptions, container, local};

/// Starts sandboxes for an environment. It has checked that they run here, and has the image if they need one.
#[derive(Debug, Clone)]
pub struct SandboxHost {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    environment: Environment,
    options: HostOptions,
    backend: Backend,
    /// A copy of the environment's folder, which a sandbox's user can read wherever the original is.
    stage: Folder,
}

#[derive(Debug)]
pub(crate) enum Backend {
    Local { version: String },
    Container(container::Engine),
}

impl SandboxHost {
    /// Chooses the kind of sandbox and makes ready what it needs. Without a sandbox there is an error, never a run
    /// without one.
    pub async fn open(environment: &Environment, options: &HostOptions) -> Result<Self, SandboxError> {
        super::stage::remove_left(options.temp_dir.as_deref());
        let stage = Folder::new(options.temp_dir.as_deref())?;
        copy_tree(&environment.folder, &stage.path().join("environment"))?;
        let backend = choose(environment, options, stage.path()).await?;
        let environment = environment.clone();
        let inner = Inner { environment, options: options.clone(), backend, stage };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The kind of its sandboxes.
    #[must_use]
    pub fn kind(&self) -> SandboxKind {
        match &self.inner.backend {
            Backend::Local { .. } => SandboxKind::Local,
            Backend::Container(_) => SandboxKind::Container,
        }
    }

    /// In words, for people: `local (bubblewrap 0.8.0)`, `container (podman 4.3.1, image …)`.
    #[must_use]
    pub fn describe(&self) -> String {
        match &self.inner.backend {
            Backend::Local { version } => format!("local ({version})"),
            Backend::Container(engine) => format!("container ({})", engine.describe()),
        }
    }

    /// The environment.
    #[must_use]
    pub fn environment(&self) -> &Environment {
        &self.inner.environment
    }

    /// Starts a sandbox: files are laid out, set-up scripts run, services are ready.
    pub async fn start(
        &self,
        assignment: &Assignment<'_>,
        options: &StartOptions,
    ) -> Result<Sandbox, SandboxError> {
        Sandbox::start(self, assignment, options).await
    }

    pub(crate) fn options(&self) -> &HostOptions {
        &self.inner.options
    }

    pub(crate) fn engine(&self) -> Option<&container::Engine> {
        match &self.inner.backend {
            Backend::Local { .. } => None,
            Backend::Container(engine) => Some(engine),
        }
    }

    /// Where agents work, inside.
    pub(crate) fn workdir(&self) -> &str {
        let own = || &*self.inner.environment.sandbox.workdir;
        self.engine().map_or_else(own, container::Engine::workdir)
    }

    /// The copy of the environment's folder.
    pub(crate) fn stage(&self) -> std::path::PathBuf {
        self.inner.stage.path().join("environment")
    }

    /// Starts a cell; `join` is one whose network it shares.
    pub(crate) async fn cell(&self, spec: &CellSpec, join: Option<&Cell>) -> Result<Cell, SandboxError> {
        match (&self.inner.backend, join) {
            (Backend::Local { .. }, None) => Ok(Cell::Local(local::Cell::start(spec, None).await?)),
            (Backend::Local { .. }, Some(Cell::Local(other))) => {
                Ok(Cell::Local(local::Cell::start(spec, Some(other)).await?))
            }
            (Backend::Container(engine), None) => Ok(Cell::Container(engine.start(spec, None).await?)),
            (Backend::Container(engine), Some(Cell::Container(other))) => {
                Ok(Cell::Container(engine.start(spec, Some(other)).await?))
            }
            _ => Err(SandboxError::Start { problem: "cells of two kinds have no network in common".into() }),
        }
    }
}

/// Local where the environment needs no image and no network, since it starts at once; else a container.
async fn choose(
    environment: &Environment,
    options: &HostOptions,
    stage: &Path,
) -> Result<Backend, SandboxError> {
    let mut reasons = Vec::new();
    let wanted = |kind| options.kind.is_none_or(|wanted| wanted == kind);
    if wanted(SandboxKind::Local) {
        match local_backend(environment, stage).await {
            Ok(version) => return Ok(Backend::Local { version }),
            Err(reason) => reasons.push(format!("local: {reason}")),
        }
    }
    if wanted(SandboxKind::Container) {
        match container::Engine::find(environment, stage).await {
            Ok(mut engine) => {
                engine.prepare(environment, options.image.as_deref(), stage).await?;
                return Ok(Backend::Container(engine));
            }
            Err(reason) => reasons.push(format!("container: {reason}")),
        }
    }
    Err(SandboxError::Unavailable { reasons })
}

async fn local_backend(environment: &Environment, stage: &Path) -> Result<String, String> {
    let settings = &environment.sandbox;
    if settings.network {
        return Err("the environment asks for the network, which only a container gives".to_owned());
    }
    if (settings.build.is_some() || settings.image.is_some()) && !settings.local {
        return Err("the environment has an image of its own, which only a container gives".to_owned());
    }
    let version = local::probe().await?;
    // A real start is the only proof that the kernel lets one happen.
    let uid = super::stage::sandbox_uid();
    let etc = stage.join("probe-etc");
    super::stage::write_etc(&etc, &[], 1000).map_err(|error| error.to_string())?;
    let spec = CellSpec {
        settings: settings.clone(),
        mounts: Vec::new(),
        workdir: "/tmp".to_owned(),
        etc,
        uid,
        bounded: Vec::new(),
    };
    let cell = local::Cell::start(&spec, None).await.map_err(|error| {
        format!("bubblewrap cannot make namespaces here ({error}); a kernel setting or a container around us may forbid them")
    })?;
    let cell = Cell::Local(cell);
    let mut script = String::new();
    for name in settings.commands.iter().map(|name| quoted(name)) {
        script += &format!("command -v {name} >/dev/null || echo {name}; ");
    }
    let result = cell.exec(super::ExecRequest::program(["/bin/sh", "-c", &format!("{script}:")])).await;
    cell.kill().await;
    let result = result.map_err(|error| error.to_string())?;
    if !result.success() {
        return Err(format!(
            "a command in a sandbox fails ({}): {}",
            result.outcome(),
            result.stderr.text().trim()
        ));
    }
    let missing = result.stdout.text().split_whitespace().collect::<Vec<_>>().join(", ");
    if !missing.is_empty() {
        return Err(format!("the environment needs programs that are not in /usr: {missing}"));
    }
    Ok(version)
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
