//! The `container` sandbox: docker or podman by their command line, as in the user's shell.
//!
//! A container's first process waits for its standard input to close, which happens when this process ends, however it
//! ends; the container is removed with it. An agent may hold that input open, so `leftover.rs` looks after the end, too.
//! Commands run by `exec`, under `timeout` where the image has it, since stopping the client stops nothing inside.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::environment::{Environment, SandboxSettings};
use crate::error::SandboxError;

use super::cell::{Breaches, CellSpec, FIRST_PROCESS, VARIABLES, start_folder};
use super::exec::{ExecRequest, ExecResult, Input, SHELL};
use super::leftover::{self, Guard};
use super::watch;

/// The image of environments that name none: Python and a Debian around it.
const DEFAULT_IMAGE: &str = "docker.io/library/python:3.12-slim";
/// How long starting may take.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// How long fetching an image may take.
const PULL_TIMEOUT: Duration = Duration::from_secs(1800);
/// How long asking about images may take.
const ASK_TIMEOUT: Duration = Duration::from_secs(60);
/// How much later than inside a command is given up out here: a busy machine takes long to get it inside.
const TIMEOUT_GRACE: Duration = Duration::from_secs(20);
/// The exit code of `timeout` when it killed what it ran.
const KILLED_CODE: i32 = 137;
/// What is kept of the answer to a question about images and containers.
const ANSWER_BYTES_MAX: u64 = 64 << 10;
/// Of each temporary file system inside.
const TMP_BYTES_MAX: u64 = 256 << 20;
/// Left alone, podman asks for as many processes and files as there can be, which not every machine lets it have.
const ULIMITS: [&str; 4] = ["--ulimit", "nproc=16384:16384", "--ulimit", "nofile=1024:1024"];
/// What root may do in an environment that needs it.
const ROOT_CAPABILITIES: [&str; 7] =
    ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID"];

/// Docker or podman, with the image of an environment.
#[derive(Debug, Clone)]
pub(crate) struct Engine {
    program: &'static str,
    version: String,
    image: String,
    shell: String,
    has_timeout: bool,
    /// Where the agent works, when the image says so.
    workdir: Option<String>,
    /// What the image holds there.
    workdir_files: Option<PathBuf>,
    /// Where its commands run: some of what they start leaves files where it runs.
    folder: PathBuf,
    /// Removes what is left of the containers when this process is gone.
    guard: Arc<Guard>,
}

impl Engine {
    /// Finds a program that works; the reason why there is none.
    pub(crate) async fn find(environment: &Environment, folder: &Path) -> Result<Self, String> {
        let mut reasons = Vec::new();
        for (program, field) in [("podman", "{{.Client.Version}}"), ("docker", "{{.Server.Version}}")] {
            let mut command = Command::new(program);
            command.current_dir(folder);
            command.args(["version", "--format", field]);
            match super::exec::run(command, Vec::new(), ASK_TIMEOUT, 4096).await {
                Err(_) => reasons.push(format!("{program} is not installed")),
                Ok(result) if !result.success() => {
                    let said = result.stderr.text();
                    let last = said.trim().lines().next_back().unwrap_or("it does not answer");
                    reasons.push(format!("{program} does not work ({last})"));
                }
                Ok(result) => {
                    leftover::remove(program, folder).await;
                    let guard = Guard::start(program, folder).map_err(|error| error.to_string())?;
                    return Ok(Self {
                        program,
                        folder: folder.to_owned(),
                        guard: Arc::new(guard),
                        version: result.stdout.text().trim().to_owned(),
                        image: String::new(),
                        shell: "/bin/sh".to_owned(),
                        has_timeout: false,
                        workdir: Some(environment.sandbox.workdir.clone()).filter(|path| !path.is_empty()),
                        workdir_files: None,
                    });
                }
            }
        }
        Err(reasons.join("; "))
    }

    /// In words.
    pub(crate) fn describe(&self) -> String {
        format!("{} {}, image {}", self.program, self.version, self.image)
    }

    /// Where the agent works.
    pub(crate) fn workdir(&self) -> &str {
        self.workdir.as_deref().unwrap_or("/workspace")
    }

    /// Gets or builds the image, and looks at what is in it.
    pub(crate) async fn prepare(
        &mut self,
        environment: &Environment,
        image: Option<&str>,
        stage: &Path,
    ) -> Result<(), SandboxError> {
        let failed = |problem: String| SandboxError::Image { environment: environment.long_name(), problem };
        let settings = &environment.sandbox;
        if let (None, Some(build)) = (image, &settings.build) {
            let folder = stage.join("environment").join(build);
            let digest = crate::digest::digest(&folder).map_err(|error| failed(error.to_string()))?;
            self.image = format!("ct-environment/{}:{}", image_name(&environment.name), &digest[..16]);
            if self.ask(&["image", "inspect", &self.image], ASK_TIMEOUT).await.is_err() {
                let folder = folder.to_string_lossy();
                let timeout = Duration::from_secs(settings.build_timeout_seconds);
                let mut arguments = vec!["build", "--tag", &self.image];
                if self.program == "podman" {
                    arguments.extend(ULIMITS);
                }
                let file = settings.dockerfile.as_ref().map(|file| Path::new(&*folder).join(file));
                let file = file.map(|file| file.to_string_lossy().into_owned());
                if let Some(file) = &file {
                    arguments.extend(["--file", file]);
                }
                arguments.push(&folder);
                self.fetch(&arguments, timeout).await.map_err(failed)?;
            }
        } else {
            self.image = image.or(settings.image.as_deref()).unwrap_or(DEFAULT_IMAGE).to_owned();
            if self.ask(&["image", "inspect", &self.image], ASK_TIMEOUT).await.is_err() {
                self.fetch(&["pull", &self.image], PULL_TIMEOUT).await.map_err(failed)?;
            }
        }
        self.look(settings).await.map_err(failed)?;
        if settings.build.is_some() || settings.image.is_some() {
            self.take_workdir(stage).await.map_err(failed)?;
        }
        Ok(())
    }

    /// Finds the shell, `timeout`, and the programs that must be there.
    async fn look(&mut self, settings: &SandboxSettings) -> Result<(), String> {
        let mut script = String::from("for p in bash timeout \"$@\"; do command -v \"$p\" || echo; done");
        script += "; pwd";
        let mut arguments = vec!["run", "--rm", "--network", "none", "--entrypoint", "/bin/sh"];
        let labels = self.guard.labels();
        arguments.extend(labels.iter().map(String::as_str));
        arguments.extend(ULIMITS);
        arguments.push(&self.image);
        arguments.extend(["-c", &script, "sh"]);
        arguments.extend(settings.commands.iter().map(String::as_str));
        let found = self.ask(&arguments, START_TIMEOUT).await?;
        let mut lines = found.lines();
        if let Some(bash) = lines.next().filter(|line| !line.is_empty()) {
            self.shell = bash.to_owned();
        }
        self.has_timeout = lines.next().is_some_and(|line| !line.is_empty());
        let missing: Vec<&str> = settings
            .commands
            .iter()
            .filter(|_| lines.next().is_none_or(str::is_empty))
            .map(String::as_str)
            .collect();
        if !missing.is_empty() {
            return Err(format!("the image {} lacks {}", self.image, missing.join(", ")));
        }
        if self.workdir.is_none() {
            let folder = lines.next().unwrap_or("/");
            self.workdir = Some(if folder == "/" { "/app".to_owned() } else { folder.to_owned() });
        }
        Ok(())
    }

    /// Copies what the image has in the working folder, since the workspace will lie over it.
    async fn take_workdir(&mut self, stage: &Path) -> Result<(), String> {
        let name = format!("ct-{}", super::stage::token());
        let labels = self.guard.labels();
        let mut arguments = vec!["create", "--name", &name];
        arguments.extend(labels.iter().map(String::as_str));
        arguments.extend([&*self.image, "/bin/true"]);
        self.ask(&arguments, START_TIMEOUT).await?;
        let target = stage.join("workdir");
        std::fs::create_dir_all(&target).map_err(|error| error.to_string())?;
        let source = format!("{name}:{}/.", self.workdir());
        let copied = self.ask(&["cp", &source, &target.to_string_lossy()], ASK_TIMEOUT).await;
        self.ask(&["rm", "-f", &name], ASK_TIMEOUT).await?;
        // An image need not have the folder.
        self.workdir_files = copied.is_ok().then_some(target);
        Ok(())
    }

    /// Lays what the image has in the working folder into a workspace.
    pub(crate) fn copy_workdir(&self, workspace: &Path) -> Result<(), SandboxError> {
        self.workdir_files.as_ref().map_or(Ok(()), |files| super::stage::copy_tree(files, workspace))
    }

    /// A command of the program.
    fn command(&self) -> std::process::Command {
        let mut command = std::process::Command::new(self.program);
        command.current_dir(&self.folder);
        command
    }

    /// Runs a command of the program; what it printed, or what went wrong.
    async fn ask(&self, arguments: &[&str], timeout: Duration) -> Result<String, String> {
        let mut command = self.command();
        command.args(arguments);
        let result = super::exec::run(command.into(), Vec::new(), timeout, ANSWER_BYTES_MAX).await;
        self.answer(arguments, result)
    }

    /// As [`Engine::ask`], of what goes on for long: it ends with this process, however that ends.
    async fn fetch(&self, arguments: &[&str], timeout: Duration) -> Result<(), String> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", leftover::WATCHED, "sh", self.program]).args(arguments);
        command.current_dir(&self.folder);
        let result = super::exec::run(command, Input::Held, timeout, ANSWER_BYTES_MAX).await;
        self.answer(arguments, result).map(drop)
    }

    /// What the program printed, or what went wrong.
    fn answer(&self, arguments: &[&str], result: Result<ExecResult, SandboxError>) -> Result<String, String> {
        let result = result.map_err(|error| error.to_string())?;
        if result.success() {
            return Ok(result.stdout.text());
        }
        let said = result.stderr.text();
        let lines: Vec<&str> = said.trim().lines().rev().take(8).collect();
        let said = lines.into_iter().rev().collect::<Vec<_>>().join("\n");
        Err(format!("{} {}: {}: {said}", self.program, arguments[0], result.outcome()))
    }

    /// Removing a container.
    fn removing(&self) -> Vec<&str> {
        leftover::removing(self.program).split(' ').collect()
    }

    /// Starts a container; `join` is one whose network it shares.
    pub(crate) async fn start(&self, spec: &CellSpec, join: Option<&Cell>) -> Result<Cell, SandboxError> {
        let name = format!("ct-{}", super::stage::token());
        let mut command = Command::from(self.command());
        self.arguments(&mut command, spec, &name, join);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let failed = |problem: String| SandboxError::Start { problem };
        let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
        let breaches = Arc::new(Breaches::default());
        let killer = (self.clone(), name.clone());
        let process = self.process_file(&name);
        let first = move || std::fs::read_to_string(&process).ok()?.trim().parse().ok();
        let watcher = watch::watch(first, false, spec, breaches.clone(), move || {
            let _ = killer.0.command().args(["exec", &killer.1, "/bin/sh", "-c", "kill -9 -1"]).output();
        });
        let stdout = child.stdout.take();
        let stderr = child.stderr.take();
        let mut cell = Cell {
            engine: self.clone(),
            child,
            name,
            removed: false,
            root: spec.settings.root,
            variables: spec.settings.variables.clone(),
            workdir: spec.workdir.clone(),
            command_timeout: Duration::from_secs(spec.settings.command_timeout_seconds),
            breaches,
            watcher,
        };
        let ready = async {
            let mut line = String::new();
            if let Some(pipe) = stdout {
                let _ = BufReader::new(pipe.take(4096)).read_line(&mut line).await;
            }
            line.trim() == "ready"
        };
        match tokio::time::timeout(START_TIMEOUT, ready).await {
            Ok(true) => Ok(cell),
            Ok(false) => {
                cell.stop().await;
                let mut said = String::new();
                if let Some(pipe) = stderr {
                    let _ = pipe.take(4096).read_to_string(&mut said).await;
                }
                Err(failed(said.trim().to_owned()))
            }
            Err(_) => Err(failed(format!("{} does not start the container in time", self.program))),
        }
    }

    /// Where podman tells the number of a container's first process.
    fn process_file(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.pid"))
    }

    fn arguments(&self, command: &mut Command, spec: &CellSpec, name: &str, join: Option<&Cell>) {
        let settings = &spec.settings;
        command.args(["run", "--interactive", "--rm", "--log-driver", "none", "--name", name]);
        command.args(self.guard.labels());
        if self.program == "podman" {
            command.arg("--pidfile").arg(self.process_file(name));
        }
        match join {
            Some(other) => _ = command.arg("--network").arg(format!("container:{}", other.name)),
            None if settings.network => _ = command.args(["--hostname", "sandbox"]),
            None => _ = command.args(["--network", "none", "--hostname", "sandbox"]),
        }
        let size = settings.disk_bytes.min(TMP_BYTES_MAX);
        command.args(["--cap-drop", "ALL", "--security-opt", "no-new-privileges"]);
        if settings.root {
            command.args(["--user", "0:0"]);
            // Docker takes one at a time.
            command.args(ROOT_CAPABILITIES.iter().flat_map(|capability| ["--cap-add", capability]));
        } else {
            command.arg("--user").arg(format!("{0}:{0}", spec.uid)).arg("--read-only");
            if self.program == "podman" && !rustix::process::getuid().is_root() {
                command.arg("--userns=keep-id");
            }
            // The workspace may be the home.
            if !spec.mounts.iter().any(|mount| mount.inside == "/home/agent") {
                command.arg("--tmpfs").arg(format!("/home/agent:rw,size={size},mode=1777"));
            }
            for file in ["passwd", "group"] {
                command.arg("--volume").arg(format!("{}:/etc/{file}:ro", spec.etc.join(file).display()));
            }
        }
        for folder in ["/tmp", "/var/tmp"] {
            command.arg("--tmpfs").arg(format!("{folder}:rw,size={size},mode=1777"));
        }
        command.arg("--volume").arg(format!("{}:/etc/hosts:ro", spec.etc.join("hosts").display()));
        command.arg("--pids-limit").arg(settings.processes.to_string());
        command.arg("--memory").arg(settings.memory_bytes.to_string());
        command.arg("--memory-swap").arg(settings.memory_bytes.to_string());
        command.arg("--cpus").arg(settings.cpus.to_string());
        command.args(ULIMITS).args(["--ulimit", "core=0"]);
        command.arg("--ulimit").arg(format!("fsize={}", settings.disk_bytes));
        for mount in &spec.mounts {
            let mode = if mount.writable { "rw" } else { "ro" };
            command.arg("--volume").arg(format!("{}:{}:{mode}", mount.host.display(), mount.inside));
        }
        command.args(["--workdir", &spec.workdir, "--entrypoint", "/bin/sh", &self.image, "-c"]);
        command.arg(format!("echo ready; {FIRST_PROCESS}"));
    }
}

/// A running container.
#[derive(Debug)]
pub(crate) struct Cell {
    engine: Engine,
    child: Child,
    name: String,
    removed: bool,
    root: bool,
    variables: Vec<(String, String)>,
    pub(crate) workdir: String,
    pub(crate) command_timeout: Duration,
    pub(crate) breaches: Arc<Breaches>,
    watcher: tokio::task::AbortHandle,
}

impl Cell {
    /// The command that runs a request's program inside.
    pub(crate) fn command(&self, request: &ExecRequest) -> Command {
        self.entering(request, None)
    }

    fn entering(&self, request: &ExecRequest, timeout: Option<Duration>) -> Command {
        let mut command = Command::from(self.engine.command());
        command.arg("exec");
        if !request.stdin.is_empty() {
            command.arg("--interactive");
        }
        command.arg("--workdir").arg(start_folder(&self.workdir, request.cwd.as_deref()));
        for (variable, value) in VARIABLES {
            let value = match variable {
                "HOME" if self.root => "/root",
                "USER" if self.root => "root",
                _ => value,
            };
            command.arg("--env").arg(format!("{variable}={value}"));
        }
        for (variable, value) in self.variables.iter().chain(&request.env) {
            command.arg("--env").arg(format!("{variable}={value}"));
        }
        command.arg(&self.name);
        if let Some(timeout) = timeout
            && self.engine.has_timeout
        {
            command.args(["timeout", "-s", "KILL", &format!("{}", timeout.as_secs_f64())]);
        }
        command.args(request.argv.iter().map(|word| if word == SHELL { &self.engine.shell } else { word }));
        command
    }

    /// Runs a request's program.
    pub(crate) async fn exec(
        &self,
        request: ExecRequest,
        timeout: Duration,
        output_limit_bytes: u64,
    ) -> Result<ExecResult, SandboxError> {
        let command = self.entering(&request, Some(timeout));
        let outer = if self.engine.has_timeout { timeout + TIMEOUT_GRACE } else { timeout };
        let mut result = super::exec::run(command, request.stdin, outer, output_limit_bytes).await?;
        if result.timed_out || result.limit_hit.is_some() {
            // The client is gone, the program is not.
            let _ = self.engine.ask(&["exec", &self.name, "/bin/sh", "-c", "kill -9 -1"], ASK_TIMEOUT).await;
        }
        // What merely took long to get inside was not stopped.
        let killed = result.exit_code == Some(KILLED_CODE);
        result.timed_out |= self.engine.has_timeout && killed && result.duration >= timeout;
        if result.exit_code.is_some_and(|code| code >= 125 || code == 1) && !self.runs().await {
            return Err(SandboxError::Gone { problem: result.stderr.text().trim().to_owned() });
        }
        Ok(result)
    }

    async fn runs(&self) -> bool {
        let asked =
            self.engine.ask(&["inspect", "--format", "{{.State.Running}}", &self.name], ASK_TIMEOUT).await;
        asked.is_ok_and(|text| text.trim() == "true")
    }

    /// Kills everything inside, and waits until it is gone.
    pub(crate) async fn kill(mut self) {
        self.stop().await;
    }

    /// Kills everything inside; what shares its network stays.
    pub(crate) async fn halt(&mut self) {
        let _ = self.engine.ask(&["kill", &self.name], ASK_TIMEOUT).await;
    }

    async fn stop(&mut self) {
        let mut arguments = self.engine.removing();
        arguments.push(&self.name);
        self.removed = self.engine.ask(&arguments, ASK_TIMEOUT).await.is_ok();
        let _ = self.child.wait().await;
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        self.watcher.abort();
        if !self.removed {
            let mut command = self.engine.command();
            command.args(self.engine.removing()).arg(&self.name);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            if let Err(error) = command.spawn() {
                tracing::warn!("cannot remove the container {}: {error}", self.name);
            }
        }
    }
}

/// A name as image tags allow it.
fn image_name(name: &str) -> String {
    let safe = |character: char| {
        if character.is_ascii_alphanumeric() { character.to_ascii_lowercase() } else { '-' }
    };
    let name: String = name.chars().map(safe).collect();
    if name.starts_with(|first: char| first.is_ascii_alphanumeric()) {
        name.trim_end_matches('-').to_owned()
    } else {
        let hash: String =
            Sha256::digest(name.as_bytes()).iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        format!("e{hash}")
    }
}
