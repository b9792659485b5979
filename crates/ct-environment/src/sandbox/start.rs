//! Starting a sandbox, and what can be done with a running one.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::environment::Task;
use crate::error::SandboxError;
use crate::workspace::Snapshot;

use super::cell::{Cell, CellSpec, Mount};
use super::services::Services;
use super::stage::{Folder, copy_tree, own, own_all, sandbox_uid, write_etc};
use super::{Assignment, EndedSandbox, ExecRequest, ExecResult, SandboxHost, StartOptions, files};

/// How long an environment's own set-up script may take.
const ENVIRONMENT_SETUP_TIMEOUT: Duration = Duration::from_secs(300);
/// How much of a failed set-up's output an error shows.
const SETUP_OUTPUT_BYTES: u64 = 8 << 10;

/// More than any disk has, and still a number that all programs take.
const DISK_BYTES_MAX: u64 = 1 << 60;

/// A running sandbox: the place where an agent's commands run. Dropped without [`Sandbox::end`], all of it goes.
#[derive(Debug)]
pub struct Sandbox {
    cell: Cell,
    services: Services,
    ground: Ground,
}

/// What outlives the agent's cell.
#[derive(Debug)]
pub(crate) struct Ground {
    pub(crate) host: SandboxHost,
    pub(crate) spec: CellSpec,
    pub(crate) workspace: PathBuf,
    pub(crate) logs: PathBuf,
    pub(crate) before: Arc<Snapshot>,
    /// Last, so that it goes last.
    pub(crate) folder: Folder,
}

impl Sandbox {
    pub(super) async fn start(
        host: &SandboxHost,
        assignment: &Assignment<'_>,
        options: &StartOptions,
    ) -> Result<Self, SandboxError> {
        let environment = host.environment();
        let folder = Folder::new(host.options().temp_dir.as_deref())?;
        let uid = sandbox_uid();
        let workspace = folder.make("workspace", uid)?;
        if let Some(engine) = host.engine() {
            engine.copy_workdir(&workspace)?;
        }
        let stage = host.stage();
        let files = assignment.tasks().filter_map(|task| task.task().files.as_deref());
        for files in [Path::new("files")].into_iter().chain(files) {
            if stage.join(files).is_dir() {
                copy_tree(&stage.join(files), &workspace)?;
            }
        }
        own_all(&workspace, uid)?;
        let etc = folder.path().join("etc");
        let user = if host.engine().is_some() { uid } else { 1000 };
        write_etc(&etc, &environment.services, user)?;
        let mut settings = environment.sandbox.clone();
        if let Some(timeout) = options.command_timeout {
            settings.command_timeout_seconds = timeout.as_secs().max(1);
        }
        let workdir = host.workdir().to_owned();
        let spec = CellSpec {
            mounts: vec![Mount::write(&workspace, &workdir)],
            bounded: vec![workspace.clone()],
            settings,
            workdir,
            etc,
            uid,
        };
        let logs = folder.path().join("logs");
        std::fs::create_dir(&logs).map_err(SandboxError::io("make", &logs))?;
        let mut ground = Ground { host: host.clone(), spec, workspace, logs, before: Arc::default(), folder };
        ground.set_up(assignment).await?;
        let mut spec = ground.spec.clone();
        if options.solutions {
            spec.mounts.extend(solutions(assignment, &stage));
        }
        let cell = host.cell(&spec, None).await?;
        let services = Services::start(&ground, &cell).await?;
        ground.before = Arc::new(Snapshot::take(&ground.workspace).await);
        Ok(Self { cell, services, ground })
    }

    /// Runs a command as the agent.
    pub async fn exec(&self, request: ExecRequest) -> Result<ExecResult, SandboxError> {
        self.cell.exec(request).await
    }

    /// Where commands start, inside.
    #[must_use]
    pub fn workdir(&self) -> &str {
        self.cell.workdir()
    }

    /// Reads a file inside, as the agent would.
    pub async fn read_file(&self, path: &str, limit_bytes: u64) -> Result<Vec<u8>, SandboxError> {
        files::read(&self.cell, path, limit_bytes).await
    }

    /// Writes a file inside, as the agent would; its folders are made.
    pub async fn write_file(&self, path: &str, bytes: &[u8]) -> Result<(), SandboxError> {
        files::write(&self.cell, path, bytes).await
    }

    /// Copies a file or folder of this machine into the sandbox, as the agent would write it.
    pub async fn copy_in(&self, from: &Path, to: &str) -> Result<(), SandboxError> {
        files::copy_in(&self.cell, from, to).await
    }

    /// Kills everything the agent left running, stops the services, and gives what can be judged.
    pub async fn end(mut self) -> EndedSandbox {
        self.cell.halt().await;
        let services = self.services.stop().await;
        // Last, since the services live on its network.
        self.cell.kill().await;
        EndedSandbox::new(self.ground, services).await
    }
}

/// Mounts of the reference solutions.
fn solutions(assignment: &Assignment<'_>, stage: &Path) -> Vec<Mount> {
    let mut mounts = Vec::new();
    for task in assignment.tasks() {
        let Some(folder) = task.task().solution.as_deref().and_then(Path::parent) else { continue };
        if mounts.is_empty() {
            mounts.push(Mount::read(stage.join(folder), "/solution"));
        }
        let inside = format!("/solutions/{}/{}", task.role().as_str(), task.task().name);
        mounts.push(Mount::read(stage.join(folder), inside));
    }
    mounts
}

impl Ground {
    /// Runs the set-up scripts: the environment's, then those of the tasks, each in a fresh cell.
    async fn set_up(&self, assignment: &Assignment<'_>) -> Result<(), SandboxError> {
        let environment = self.host.environment();
        if self.host.stage().join("setup.sh").is_file() {
            let folder = Path::new("");
            self.run_setup(&environment.name, Path::new("setup.sh"), folder, ENVIRONMENT_SETUP_TIMEOUT)
                .await?;
        }
        for task in assignment.tasks() {
            let Task { name, setup, folder, setup_timeout_seconds, .. } = task.task();
            if let Some(script) = setup {
                self.run_setup(name, script, folder, Duration::from_secs(*setup_timeout_seconds)).await?;
            }
        }
        Ok(())
    }

    async fn run_setup(
        &self,
        name: &str,
        script: &Path,
        folder: &Path,
        timeout: Duration,
    ) -> Result<(), SandboxError> {
        let mut spec = self.spec.clone();
        spec.mounts.push(Mount::read(self.host.stage(), "/environment"));
        let mut request = ExecRequest::script(Path::new("/environment").join(script).to_string_lossy());
        request.env =
            vec![("CT_TASK_DIR".to_owned(), Path::new("/environment").join(folder).to_string_lossy().into())];
        request.timeout = Some(timeout);
        request.output_limit_bytes = Some(SETUP_OUTPUT_BYTES);
        let result = self.once(&spec, request).await?;
        if result.success() {
            return Ok(());
        }
        let output = [result.stdout.text(), result.stderr.text()].concat();
        Err(SandboxError::Setup {
            task: name.to_owned(),
            outcome: result.outcome(),
            output: output.trim().to_owned(),
        })
    }

    /// Runs one command in a fresh cell, and takes the cell away.
    pub(crate) async fn once(
        &self,
        spec: &CellSpec,
        request: ExecRequest,
    ) -> Result<ExecResult, SandboxError> {
        let cell = self.host.cell(spec, None).await?;
        let result = cell.exec(request).await;
        cell.kill().await;
        result
    }

    /// A limit for what comes after the agent: what the workspace takes as it is, and as much as the environment allows.
    pub(crate) async fn room_bytes(&self) -> u64 {
        let folders = vec![self.workspace.clone()];
        let counting = tokio::task::spawn_blocking(move || super::watch::folders_bytes(&folders));
        let taken = counting.await.unwrap_or(u64::MAX);
        self.spec.settings.disk_bytes.saturating_add(taken).min(DISK_BYTES_MAX)
    }

    /// A folder that cells may write.
    pub(crate) fn make(&self, name: &str) -> Result<PathBuf, SandboxError> {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(&path).map_err(SandboxError::io("make", &path))?;
        own(&path, self.spec.uid)?;
        Ok(path)
    }
}
