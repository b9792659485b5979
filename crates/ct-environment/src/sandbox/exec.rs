//! One command in a cell: started, fed, watched, its output bounded.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use crate::error::SandboxError;

/// What is kept of each stream unless the request says otherwise.
pub(crate) const OUTPUT_BYTES: u64 = 1 << 20;
/// A command that prints more is stopped.
const FLOOD_BYTES: u64 = 256 << 20;
/// How long streams may stay open after the command's end, by what it left running.
const STRAGGLER_GRACE: Duration = Duration::from_millis(300);

/// A command to run in a sandbox.
#[derive(Debug, Clone, Default)]
pub struct ExecRequest {
    /// The program and its arguments. Not looked at by a shell.
    pub argv: Vec<String>,
    /// What it reads.
    pub stdin: Vec<u8>,
    /// Where it starts; the sandbox's working folder otherwise. Relative paths are relative to that.
    pub cwd: Option<String>,
    /// Variables beside the sandbox's own.
    pub env: Vec<(String, String)>,
    /// How long it may take; the environment's limit otherwise.
    pub timeout: Option<Duration>,
    /// How much of each stream is kept, in bytes: the first half and the last.
    pub output_limit_bytes: Option<u64>,
}

impl ExecRequest {
    /// A shell command (bash where there is one).
    #[must_use]
    pub fn shell(command: impl Into<String>) -> Self {
        Self { argv: vec![SHELL.to_owned(), "-c".to_owned(), command.into()], ..Self::default() }
    }

    /// A shell script inside, whatever its permissions.
    #[must_use]
    pub fn script(path: impl Into<String>) -> Self {
        Self { argv: vec![SHELL.to_owned(), path.into()], ..Self::default() }
    }

    /// A program with arguments.
    #[must_use]
    pub fn program<S: Into<String>>(argv: impl IntoIterator<Item = S>) -> Self {
        Self { argv: argv.into_iter().map(Into::into).collect(), ..Self::default() }
    }
}

/// Stands for the best shell there is.
pub(crate) const SHELL: &str = "@shell";

/// What came of a command.
#[derive(Debug, Clone, Default)]
pub struct ExecResult {
    /// Its exit code; none when a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended it, as far as that is known.
    pub signal: Option<i32>,
    /// Standard output.
    pub stdout: Capture,
    /// Standard error.
    pub stderr: Capture,
    /// It was stopped at its time limit.
    pub timed_out: bool,
    /// It was stopped at another limit.
    pub limit_hit: Option<LimitHit>,
    /// How long it took.
    pub duration: Duration,
}

impl ExecResult {
    /// Whether it ended by itself with exit code 0.
    #[must_use]
    pub fn success(&self) -> bool {
        self.exit_code == Some(0) && !self.timed_out && self.limit_hit.is_none()
    }

    /// How it ended, in words.
    #[must_use]
    pub fn outcome(&self) -> String {
        match (self.limit_hit, self.timed_out, self.exit_code, self.signal) {
            (Some(limit), ..) => limit.to_string(),
            (None, true, ..) => format!("stopped after {:.0} s", self.duration.as_secs_f64()),
            (None, false, Some(code), _) => format!("exit code {code}"),
            (None, false, None, Some(signal)) => format!("killed by signal {signal}"),
            (None, false, None, None) => "killed".to_owned(),
        }
    }
}

/// A limit that stopped a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitHit {
    /// The memory of all processes.
    Memory,
    /// The size of the workspace.
    Disk,
    /// The amount printed.
    Output,
}

impl std::fmt::Display for LimitHit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Memory => "stopped: the memory limit is reached",
            Self::Disk => "stopped: the disk limit is reached",
            Self::Output => "stopped: too much output",
        })
    }
}

/// What a stream gave: all of it, or its beginning and its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capture {
    /// The beginning.
    pub head: Vec<u8>,
    /// The end, when something between is left out.
    pub tail: Vec<u8>,
    /// How much there was.
    pub total_bytes: u64,
}

impl Capture {
    /// How much is left out, in bytes.
    #[must_use]
    pub fn left_out_bytes(&self) -> u64 {
        self.total_bytes - (self.head.len() + self.tail.len()) as u64
    }

    /// As text, with a note where something is left out.
    #[must_use]
    pub fn text(&self) -> String {
        let left_out = self.left_out_bytes();
        let mut text = if left_out == 0 {
            String::from_utf8_lossy(&[self.head.as_slice(), &self.tail].concat()).into_owned()
        } else {
            String::from_utf8_lossy(&self.head).into_owned()
        };
        if left_out > 0 {
            text += &format!("\n[… {left_out} bytes left out …]\n");
            text += &String::from_utf8_lossy(&self.tail);
        }
        text
    }
}

/// Keeps the first and the last half of a limit.
struct Keeper {
    capture: Capture,
    half: usize,
}

impl Keeper {
    fn new(limit_bytes: u64) -> Self {
        Self {
            capture: Capture::default(),
            half: usize::try_from(limit_bytes / 2).unwrap_or(usize::MAX).max(1),
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        let Capture { head, tail, total_bytes } = &mut self.capture;
        *total_bytes += bytes.len() as u64;
        let (first, rest) = bytes.split_at(bytes.len().min(self.half - head.len()));
        head.extend_from_slice(first);
        tail.extend_from_slice(rest);
        // Cutting rarely keeps the copying linear.
        if tail.len() > 2 * self.half {
            tail.drain(..tail.len() - self.half);
        }
    }

    fn finish(mut self) -> Capture {
        let tail = &mut self.capture.tail;
        if tail.len() > self.half {
            tail.drain(..tail.len() - self.half);
        }
        self.capture
    }
}

/// What a command's standard input is.
pub(crate) enum Input {
    /// These bytes, and then its end.
    Bytes(Vec<u8>),
    /// Open and empty for as long as the command may run: when it is closed, the command ends itself and what it started.
    Held,
}

impl From<Vec<u8>> for Input {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

/// Kills a process group when dropped: a command whose future is dropped must not run on.
struct Group(Option<Pid>);

impl Group {
    fn kill(&self) {
        if let Some(pid) = self.0 {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs a command of this machine (which enters a cell) to its end or its limits.
pub(crate) async fn run(
    command: Command,
    stdin: impl Into<Input>,
    timeout: Duration,
    output_limit_bytes: u64,
) -> Result<ExecResult, SandboxError> {
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    run_started(command, async |mut command| command.spawn(), stdin.into(), timeout, output_limit_bytes)
        .await
        .map_err(|source| SandboxError::Program { program, source })
}

/// As [`run`], with a way of its own to start the command.
pub(crate) async fn run_started(
    mut command: Command,
    start: impl AsyncFnOnce(Command) -> io::Result<Child>,
    stdin: Input,
    timeout: Duration,
    output_limit_bytes: u64,
) -> io::Result<ExecResult> {
    let started = Instant::now();
    let held = matches!(stdin, Input::Held);
    let empty = matches!(&stdin, Input::Bytes(bytes) if bytes.is_empty());
    command.stdin(if empty { Stdio::null() } else { Stdio::piped() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).kill_on_drop(!held);
    let mut child = start(command).await?;
    let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    let mut group = Group(group.filter(|_| !held));
    let mut input = child.stdin.take();
    if let Input::Bytes(bytes) = stdin
        && let Some(mut pipe) = input.take()
    {
        tokio::spawn(async move {
            // A command need not read what it is given.
            let _ = pipe.write_all(&bytes).await;
        });
    }
    let out = child.stdout.take().map(|pipe| Reader::start(pipe, output_limit_bytes));
    let err = child.stderr.take().map(|pipe| Reader::start(pipe, output_limit_bytes));
    let mut result = ExecResult::default();
    let deadline = tokio::time::sleep(timeout);
    tokio::pin!(deadline);
    let status: ExitStatus = loop {
        let flooded = async {
            loop {
                tokio::time::sleep(Duration::from_millis(50)).await;
                if [&out, &err].into_iter().flatten().any(Reader::flooded) {
                    break;
                }
            }
        };
        tokio::select! {
            status = child.wait() => break status?,
            () = &mut deadline, if !result.timed_out => {
                result.timed_out = true;
                drop(input.take());
                group.kill();
            }
            () = flooded, if result.limit_hit.is_none() => {
                result.limit_hit = Some(LimitHit::Output);
                drop(input.take());
                group.kill();
            }
        }
    };
    // The group's number may be another's from here on, unless members are left; those stay, as a shell's would.
    group.0 = None;
    result.duration = started.elapsed();
    for (reader, capture) in [(out, &mut result.stdout), (err, &mut result.stderr)] {
        if let Some(reader) = reader {
            *capture = reader.finish().await;
        }
    }
    result.exit_code = status.code();
    result.signal = std::os::unix::process::ExitStatusExt::signal(&status);
    Ok(result)
}

/// Reads a stream to its end in the background, keeping what the limit allows.
struct Reader {
    keeper: std::sync::Arc<std::sync::Mutex<Keeper>>,
    task: JoinHandle<()>,
}

impl Reader {
    fn start(mut pipe: impl AsyncRead + Unpin + Send + 'static, limit_bytes: u64) -> Self {
        let keeper = std::sync::Arc::new(std::sync::Mutex::new(Keeper::new(limit_bytes)));
        let kept = keeper.clone();
        let task = tokio::spawn(async move {
            let mut buffer = vec![0; 64 << 10];
            // What is left running may go on printing: it is read and dropped, so that it does not die of a closed pipe.
            while let Ok(length @ 1..) = pipe.read(&mut buffer).await {
                if let Ok(mut keeper) = kept.lock() {
                    keeper.push(&buffer[..length]);
                }
            }
        });
        Self { keeper, task }
    }

    fn flooded(&self) -> bool {
        self.keeper.lock().is_ok_and(|keeper| keeper.capture.total_bytes > FLOOD_BYTES)
    }

    async fn finish(mut self) -> Capture {
        let _ = tokio::time::timeout(STRAGGLER_GRACE, &mut self.task).await;
        let keeper = self.keeper.lock().map(|mut keeper| {
            let half = keeper.half;
            // From here on the reader only empties the pipe.
            std::mem::replace(&mut *keeper, Keeper { capture: Capture::default(), half: half.min(1) })
        });
        keeper.map(Keeper::finish).unwrap_or_default()
    }
}
