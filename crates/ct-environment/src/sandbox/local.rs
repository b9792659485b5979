//! The `local` sandbox: namespaces of this machine, made by bubblewrap.
//!
//! The cell's first process does nothing but wait for its standard input to close, which happens when this process ends,
//! however it ends; with it the kernel kills everything in the process namespace. It has a capability that means nothing in
//! its namespace and that nobody else there has: so it cannot be traced, nor its input be opened and held open.
//!
//! Until then bubblewrap must not be killed, nor fail because nobody reads what it tells: the process that it has just made
//! waits for its word, and would wait for ever. So it tells the number of that process into a file, is in a group of its
//! own, and is given up by closing its input, never by a signal.
//!
//! Commands enter through `nsenter`, so that what one leaves running is there for the next, as on any machine. Each goes
//! through a link that is nowhere but in this cell's file system: should the process number be another's by then, nothing
//! runs.
//!
//! As root, everything runs as a user number that is nobody's, another for each sandbox.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::environment::SandboxSettings;
use crate::error::SandboxError;

use super::cell::{Breaches, CellSpec, FIRST_PROCESS, VARIABLES, start_folder};
use super::cgroup::Group;
use super::exec::{ExecRequest, ExecResult, LimitHit, SHELL};
use super::{filter, watch};

/// The user inside.
const USER: &str = "1000";
/// How long starting may take on a machine that is busy.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Of each temporary file system inside.
const TMP_BYTES_MAX: u64 = 256 << 20;
/// How many files a process may have open.
const OPEN_FILES_MAX: u32 = 1024;
/// The exit code that a command not entered has.
const NOT_ENTERED: i32 = 127;
/// A capability that is asked for in the machine's own namespace alone, so that having it in another means nothing.
const IDLE_CAPABILITY: &str = "CAP_WAKE_ALARM";
/// What bubblewrap tells of a cell is shorter.
const INFO_BYTES_MAX: usize = 4096;

/// How a cell is entered.
#[derive(Debug)]
struct Way {
    /// Its first process, by the number out here.
    first: u32,
    /// That of the cell whose network it shares.
    joined: Option<u32>,
}

/// A running cell.
#[derive(Debug)]
pub(crate) struct Cell {
    child: Child,
    pidfd: OwnedFd,
    way: Way,
    token: String,
    uid: u32,
    /// Where control groups can be made.
    group: Option<Arc<Group>>,
    settings: SandboxSettings,
    pub(crate) workdir: String,
    pub(crate) command_timeout: Duration,
    pub(crate) breaches: Arc<Breaches>,
    watcher: tokio::task::AbortHandle,
}

impl Cell {
    /// Starts a cell; `join` is one whose network it shares.
    pub(crate) async fn start(spec: &CellSpec, join: Option<&Self>) -> Result<Self, SandboxError> {
        let token = super::stage::token();
        let group = Group::make(&spec.settings).map(Arc::new);
        let mut command = match join {
            None => as_user(spec.uid, group.as_deref(), "bwrap"),
            Some(_) => as_user(spec.uid, group.as_deref(), "nsenter"),
        };
        match join {
            None => _ = command.arg("--unshare-net"),
            Some(other) => {
                command.args(["--target", &other.way.first.to_string(), "--user", "--net"]);
                command.args(["--preserve-credentials", "--", "bwrap"]);
            }
        }
        arguments(&mut command, spec, &token);
        let mut command = Command::from(command);
        let failed = |problem: String| SandboxError::Start { problem };
        let info = memfd_create("ct-sandbox", MemfdFlags::CLOEXEC)
            .and_then(|info| Ok((rustix::io::fcntl_dupfd_cloexec(&info, 3)?, info)));
        let (told, info) = info.map_err(|error| failed(error.to_string()))?;
        command.stdin(Stdio::piped()).stdout(told).stderr(Stdio::piped()).process_group(0);
        let mut child =
            command.spawn().map_err(|source| SandboxError::Program { program: "bwrap".into(), source })?;
        let first = tokio::time::timeout(START_TIMEOUT, first_process(&mut child, &info.into())).await;
        let pid = first.map_err(|_| failed("bubblewrap does not answer".into()))?.map_err(failed)?;
        let handle = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let pidfd =
            handle.ok_or_else(|| failed(format!("bubblewrap gave {pid} as a process"))).and_then(|pid| {
                pidfd_open(pid, PidfdFlags::empty()).map_err(|error| failed(error.to_string()))
            })?;
        let breaches = Arc::new(Breaches::default());
        let way = Way { first: pid, joined: join.map(|other| other.way.first) };
        let mut killer = entering(&way, &token, spec.uid, group.as_deref(), &spec.settings);
        killer.args(["/bin/sh", "-c", "kill -9 -1"]);
        let killer = std::sync::Mutex::new(killer);
        let memory = group.is_none();
        let watcher = watch::watch(
            move || Some(pid),
            memory,
            spec,
            breaches.clone(),
            move || {
                let _ = killer.lock().map(|mut killer| killer.status());
            },
        );
        Ok(Self {
            child,
            pidfd,
            way,
            token,
            uid: spec.uid,
            group,
            settings: spec.settings.clone(),
            workdir: spec.workdir.clone(),
            command_timeout: Duration::from_secs(spec.settings.command_timeout_seconds),
            breaches,
            watcher,
        })
    }

    /// The command that runs a request's program inside.
    pub(crate) fn command(&self, request: &ExecRequest) -> Command {
        let mut command = entering(&self.way, &self.token, self.uid, self.group.as_deref(), &self.settings);
        // That no program gets more rights than this comes with the filter of system calls.
        command.args(["/usr/bin/env", "-i", "-C"]);
        command.arg(start_folder(&self.workdir, request.cwd.as_deref()));
        command.args(VARIABLES.map(|(name, value)| format!("{name}={value}")));
        let variables = self.settings.variables.iter().chain(&request.env);
        command.args(variables.map(|(name, value)| format!("{name}={value}")));
        let shell = if Path::new(BASH).exists() { BASH } else { "/bin/sh" };
        command.args(request.argv.iter().map(|word| if word == SHELL { shell } else { word }));
        command.into()
    }

    /// Runs a request's program.
    pub(crate) async fn exec(
        &self,
        request: ExecRequest,
        timeout: Duration,
        output_limit_bytes: u64,
    ) -> Result<ExecResult, SandboxError> {
        let killed = || self.group.as_ref().map_or(0, |group| group.killed());
        let before = killed();
        let command = self.command(&request);
        let run = super::exec::run_started(
            command,
            filter::spawn,
            request.stdin.into(),
            timeout,
            output_limit_bytes,
        );
        let mut result =
            run.await.map_err(|source| SandboxError::Program { program: "nsenter".into(), source })?;
        self.check(&result)?;
        if killed() > before {
            result.limit_hit = Some(LimitHit::Memory);
        }
        Ok(result)
    }

    /// Tells a command that could not enter from one that ended.
    fn check(&self, result: &ExecResult) -> Result<(), SandboxError> {
        let missing =
            !Path::new(&format!("/proc/{}/root{}", self.way.first, enter(&self.token))).is_symlink();
        if missing && result.exit_code.is_none_or(|code| code == 1 || code >= NOT_ENTERED) {
            return Err(SandboxError::Gone { problem: result.stderr.text().trim().to_owned() });
        }
        Ok(())
    }

    /// Kills everything inside, and waits until it is gone.
    pub(crate) async fn kill(mut self) {
        self.halt().await;
    }

    /// Kills everything inside; what shares its network stays.
    pub(crate) async fn halt(&mut self) {
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
        let _ = self.child.wait().await;
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        self.watcher.abort();
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
    }
}

/// The link that every command goes through.
fn enter(token: &str) -> String {
    format!("/run/ct-{token}/enter")
}

/// A command that enters a cell, its limits set; what it runs there is to follow.
fn entering(
    way: &Way,
    token: &str,
    uid: u32,
    group: Option<&Group>,
    settings: &SandboxSettings,
) -> std::process::Command {
    let mut command = as_user(uid, group, "nsenter");
    if let Some(other) = way.joined {
        // The network belongs to the users of the cell that made it, so it is entered with those.
        command.args([
            "--target",
            &other.to_string(),
            "--preserve-credentials",
            "--user",
            "--net",
            "--",
            "nsenter",
        ]);
    } else {
        command.arg("--net");
    }
    command.args(["--target", &way.first.to_string(), "--preserve-credentials"]);
    command.args(["--user", "--mount", "--pid", "--ipc", "--uts", "--"]);
    // From here on inside.
    command.arg(enter(token));
    command.arg(format!("--nproc={}", settings.processes));
    command.arg(format!("--data={}", settings.memory_bytes));
    command.arg(format!("--fsize={}", settings.disk_bytes));
    command.arg(format!("--nofile={OPEN_FILES_MAX}"));
    command.args(["--core=0", "--"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// What whoever started this process left open to it, beside the standard streams: no business of a sandbox. What this process
/// opens itself is closed in those that it starts.
static INHERITED: LazyLock<Vec<u32>> = LazyLock::new(|| {
    const CLOSED_ON_EXEC: u32 = 0o2_000_000;
    let numbers = std::fs::read_dir("/proc/self/fdinfo").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| {
        let number = entry.file_name().to_str()?.parse::<u32>().ok().filter(|number| *number > 2)?;
        let info = std::fs::read_to_string(entry.path()).ok()?;
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
        let flags = u32::from_str_radix(flags.trim(), 8).ok()?;
        (flags & CLOSED_ON_EXEC == 0).then_some(number)
    });
    numbers.collect()
});

const BASH: &str = "/bin/bash";

/// Whether there is something open that only this shell can close: others know one digit.
fn needs_bash() -> bool {
    INHERITED.iter().any(|number| *number > 9)
}

/// A command that runs a program as a user, in a control group if there is one, with nothing of our environment but the
/// search path; its arguments are to follow.
fn as_user(uid: u32, group: Option<&Group>, program: &str) -> std::process::Command {
    // Each program on the way to the one that is wanted takes a millisecond of every command.
    let mut words: Vec<OsString> = Vec::new();
    if group.is_some() || !INHERITED.is_empty() {
        let script = r#"while [ "$1" != -- ]; do
            case $1 in /*) echo 0 >"$1" || exit 125 ;; *) eval "exec $1>&-" ;; esac; shift
            done; shift; exec "$@""#;
        let shell = if needs_bash() { BASH } else { "/bin/sh" };
        words.extend([shell, "-c", script, "sh"].map(OsString::from));
        words.extend(INHERITED.iter().map(|number| OsString::from(number.to_string())));
        words.extend(group.iter().flat_map(|group| group.doors()).map(OsString::from));
        words.push("--".into());
    }
    // Groups are for root to enter; only then it becomes another.
    if rustix::process::getuid().is_root() {
        let uid = uid.to_string();
        let become_user = ["/usr/bin/setpriv", "--reuid", &uid, "--regid", &uid, "--clear-groups", "--"];
        words.extend(become_user.map(OsString::from));
    }
    words.push(program.into());
    let mut command = std::process::Command::new(&words[0]);
    command
        .args(&words[1..])
        .env_clear()
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .current_dir("/");
    command
}

fn arguments(command: &mut std::process::Command, spec: &CellSpec, token: &str) {
    command.args([
        "--unshare-user",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup-try",
    ]);
    command.args(["--uid", USER, "--gid", USER, "--new-session", "--as-pid-1"]);
    command.args(["--cap-drop", "ALL", "--cap-add", IDLE_CAPABILITY]);
    command.args(["--hostname", "sandbox", "--info-fd", "1", "--clearenv"]);
    command.args(["--ro-bind", "/usr", "/usr"]);
    for name in ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"] {
        match std::fs::read_link(name) {
            Ok(target) => _ = command.arg("--symlink").arg(target).arg(name),
            Err(_) => _ = command.args(["--ro-bind-try", name, name]),
        }
    }
    for name in
        ["/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime"]
    {
        command.args(["--ro-bind-try", name, name]);
    }
    for name in super::stage::ETC_FILES {
        command.arg("--ro-bind").arg(spec.etc.join(name)).arg(format!("/etc/{name}"));
    }
    command.args(["--proc", "/proc", "--tmpfs", "/dev"]);
    for name in ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"] {
        command.args(["--dev-bind", name, name]);
    }
    for (target, name) in [("fd", "fd"), ("fd/0", "stdin"), ("fd/1", "stdout"), ("fd/2", "stderr")] {
        command.arg("--symlink").arg(format!("/proc/self/{target}")).arg(format!("/dev/{name}"));
    }
    let size = spec.settings.disk_bytes.min(TMP_BYTES_MAX).to_string();
    for (mode, folder) in
        [("1777", "/tmp"), ("1777", "/var/tmp"), ("1777", "/dev/shm"), ("0700", "/home/agent")]
    {
        command.args(["--perms", mode, "--size", &size, "--tmpfs", folder]);
    }
    for mount in &spec.mounts {
        command.arg(if mount.writable { "--bind" } else { "--ro-bind" }).arg(&mount.host).arg(&mount.inside);
    }
    command.args([
        "--symlink",
        "/usr/bin/prlimit",
        &enter(token),
        "--remount-ro",
        "/dev",
        "--remount-ro",
        "/",
    ]);
    command.args(["--", "/bin/sh", "-c", &format!("echo ready >&2; {FIRST_PROCESS}")]);
}

/// Waits until the cell is made; the number of its first process out here, else what bubblewrap complains about.
async fn first_process(child: &mut Child, info: &File) -> Result<u32, String> {
    let Some(stderr) = child.stderr.take() else { return Err("bubblewrap has no output".to_owned()) };
    // Bubblewrap takes standard output for itself, so the cell reports on the other stream.
    let mut said = String::new();
    let mut stderr = BufReader::new(stderr.take(4096));
    while !said.ends_with("ready\n") {
        match stderr.read_line(&mut said).await {
            Ok(1..) => {}
            _ => return Err(said.trim().to_owned()),
        }
    }
    let mut told = vec![0; INFO_BYTES_MAX];
    let length = info.read_at(&mut told, 0).unwrap_or_default();
    let info = serde_json::from_slice::<serde_json::Value>(&told[..length]).ok();
    let pid = info.as_ref().and_then(|info| u32::try_from(info.get("child-pid")?.as_u64()?).ok());
    pid.ok_or_else(|| "bubblewrap does not tell its process".to_owned())
}

/// Why there can be no local sandbox on this machine, if so; else what there is.
pub(crate) async fn probe() -> Result<String, String> {
    if !cfg!(target_os = "linux") {
        return Err("it needs Linux".to_owned());
    }
    let version = Command::new("bwrap").arg("--version").stdin(Stdio::null()).output().await;
    let version = version.map_err(|_| "bubblewrap is not installed (package bubblewrap)".to_owned())?;
    for program in ["/usr/bin/prlimit", "/usr/bin/setpriv", "/usr/bin/nsenter", "/usr/bin/env"] {
        if !Path::new(program).exists() {
            return Err(format!("{program} is missing (packages util-linux and coreutils)"));
        }
    }
    if needs_bash() && !Path::new(BASH).exists() {
        let open = INHERITED.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        return Err(format!(
            "files are left open to it ({open}) that only bash could close, which is missing"
        ));
    }
    if let Some(problem) = filter::problem() {
        return Err(format!("the kernel takes no filter of system calls ({problem})"));
    }
    Ok(String::from_utf8_lossy(&version.stdout).trim().to_owned())
}
