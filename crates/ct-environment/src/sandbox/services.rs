//! Services: programs beside the agent, in cells of their own that share its loopback network and nothing else. What one
//! prints goes through a pipe into a file out here, so an agent can add to a log by what it asks for, and never change it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Child;
use tokio::task::JoinHandle;

use crate::environment::Service;
use crate::error::SandboxError;

use super::cell::{Cell, Mount};
use super::start::Ground;
use super::{ExecRequest, exec::SHELL};

/// What is kept of a service's log.
pub(crate) const LOG_BYTES_MAX: u64 = 16 << 20;
/// How much of a log an error shows.
const LOG_SHOWN_BYTES: usize = 2000;
/// The time between two looks at whether a port is open.
const POLL: Duration = Duration::from_millis(20);

/// The services of a sandbox.
#[derive(Debug, Default)]
pub(crate) struct Services(Vec<Running>);

#[derive(Debug)]
struct Running {
    cell: Cell,
    child: Child,
    log: JoinHandle<u64>,
    name: String,
}

impl Services {
    /// Starts all services of an environment, and waits until they are ready.
    pub(crate) async fn start(ground: &Ground, agent: &Cell) -> Result<Self, SandboxError> {
        let mut services = Self::default();
        for service in &ground.host.environment().services {
            let running = Running::start(ground, agent, service).await?;
            services.0.push(running);
            let wait = services.0.last_mut().map(|running| running.ready(agent, service, ground));
            if let Some(wait) = wait {
                wait.await?;
            }
        }
        Ok(services)
    }

    /// Stops them. The name of each whose log was too long to be kept whole, with the bytes lost.
    pub(crate) async fn stop(self) -> Vec<(String, u64)> {
        let mut lost = Vec::new();
        for mut running in self.0 {
            running.cell.kill().await;
            let _ = running.child.kill().await;
            if let Ok(bytes @ 1..) = running.log.await {
                lost.push((running.name, bytes));
            }
        }
        lost
    }
}

impl Running {
    async fn start(ground: &Ground, agent: &Cell, service: &Service) -> Result<Self, SandboxError> {
        let mut spec = ground.spec.clone();
        let state = ground.make(&format!("state-{}", service.name))?;
        let files = ground.host.stage().join("services").join(&service.name);
        let empty = ground.make("nothing")?;
        let files = if files.is_dir() { files } else { empty };
        spec.mounts = vec![Mount::read(files, "/service"), Mount::write(&state, "/state")];
        spec.bounded = vec![state];
        spec.workdir = "/service".to_owned();
        spec.settings.network = false;
        let cell = ground.host.cell(&spec, Some(agent)).await?;
        let mut request = ExecRequest::program([SHELL, "-c", &format!("exec 2>&1; {}", service.command)]);
        request.env = vec![("PORT".to_owned(), service.port.to_string())];
        let failed = |problem: String| SandboxError::Service { service: service.name.clone(), problem };
        let mut child = cell.spawn(&request).await.map_err(|error| failed(error.to_string()))?;
        let path = log_path(ground, &service.name);
        let file = File::create(&path).await.map_err(SandboxError::io("make", &path))?;
        let pipe = child.stdout.take().ok_or_else(|| failed("it has no output".to_owned()))?;
        let log = tokio::spawn(keep(pipe, file));
        Ok(Self { cell, child, log, name: service.name.clone() })
    }

    /// Waits until the port is open, as the kernel's table of the agent's network tells.
    async fn ready(&mut self, agent: &Cell, service: &Service, ground: &Ground) -> Result<(), SandboxError> {
        let started = Instant::now();
        let timeout = Duration::from_secs(service.start_timeout_seconds);
        let failed = |problem: String| {
            let log = std::fs::read(log_path(ground, &service.name)).unwrap_or_default();
            let log =
                String::from_utf8_lossy(&log[log.len().saturating_sub(LOG_SHOWN_BYTES)..]).trim().to_owned();
            SandboxError::Service { service: service.name.clone(), problem: format!("{problem}: {log}") }
        };
        loop {
            let request = ExecRequest::shell("cat /proc/net/tcp /proc/net/tcp6 2>/dev/null || true");
            if listens(&agent.exec(request).await?.stdout.text(), service.port) {
                return Ok(());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(failed(format!("it ended ({status})")));
            }
            if started.elapsed() > timeout {
                return Err(failed(format!(
                    "port {} is not open after {} s",
                    service.port,
                    timeout.as_secs()
                )));
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

/// Where a service's log is kept.
fn log_path(ground: &Ground, name: &str) -> PathBuf {
    ground.logs.join(format!("{name}.log"))
}

/// Whether a table of sockets, as in `/proc/net/tcp`, has a listening one at a port.
fn listens(table: &str, port: u16) -> bool {
    table.lines().any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let local = fields.next().and_then(|address| address.rsplit_once(':'));
        let here = local.is_some_and(|(_, hex)| u16::from_str_radix(hex, 16) == Ok(port));
        here && fields.nth(1) == Some("0A")
    })
}

/// Keeps the beginning of a log; the bytes lost.
async fn keep(mut pipe: impl tokio::io::AsyncRead + Unpin, mut file: File) -> u64 {
    let (mut kept, mut lost) = (0, 0);
    let mut buffer = vec![0; 16 << 10];
    while let Ok(length @ 1..) = pipe.read(&mut buffer).await {
        let room = usize::try_from(LOG_BYTES_MAX - kept).unwrap_or(usize::MAX).min(length);
        if file.write_all(&buffer[..room]).await.is_err() || file.flush().await.is_err() {
            lost += length as u64;
            continue;
        }
        kept += room as u64;
        lost += (length - room) as u64;
    }
    lost
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listening_sockets() {
        let table = "  sl  local_address rem_address   st\n   0: 0100007F:1F90 00000000:0000 0A 0\n   1: 0100007F:0050 0100007F:1F91 01 0\n";
        assert!(listens(table, 8080));
        assert!(!listens(table, 80));
        assert!(!listens(table, 8081));
    }
}
