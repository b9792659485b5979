//! What is left when the agent is gone: a workspace that can be judged, compared and copied.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::environment::TaskRef;
use crate::error::SandboxError;
use crate::score::{self, ResultFiles, ScoreInput, TaskScore};
use crate::workspace::{self, WorkspaceDiff};

use super::ExecRequest;
use super::cell::Mount;
use super::stage::own;
use super::start::Ground;

/// The longest result file read.
const RESULT_BYTES_MAX: u64 = 64 << 10;

/// A sandbox whose agent is gone.
#[derive(Debug)]
pub struct EndedSandbox {
    ground: Ground,
    lost_log_bytes: Vec<(String, u64)>,
    diff: WorkspaceDiff,
    removed: Vec<String>,
}

impl EndedSandbox {
    pub(super) async fn new(ground: Ground, lost_log_bytes: Vec<(String, u64)>) -> Self {
        let diff = ground.before.compare(&ground.workspace).await;
        let aside = ground.folder.path().join("aside");
        let _ = fs::create_dir(&aside);
        let removed = workspace::tame(&ground.workspace, &aside).await;
        Self { ground, lost_log_bytes, diff, removed }
    }

    /// What the agent changed in the workspace, of files that are text and not too large with their lines.
    #[must_use]
    pub fn diff(&self) -> &WorkspaceDiff {
        &self.diff
    }

    /// What was taken out of the workspace before anything judges it, by path: links that lead out of it (but for those
    /// into `/usr` and the like), pipes, sockets and devices.
    #[must_use]
    pub fn removed(&self) -> &[String] {
        &self.removed
    }

    /// Services whose logs were too long to be kept whole, with the bytes lost.
    #[must_use]
    pub fn lost_log_bytes(&self) -> &[(String, u64)] {
        &self.lost_log_bytes
    }

    /// Copies the workspace out: files and folders only, at most so many bytes. Links are not followed and left out, as is
    /// whatever else is no file; the number of what is left out.
    pub async fn copy_out(&self, to: &Path, limit_bytes: u64) -> Result<u64, SandboxError> {
        workspace::copy_out(&self.ground.workspace, to, limit_bytes).await
    }

    /// Runs what a task tries the agent's work with, if it does, in a fresh cell that shows nothing of the scorer: how it
    /// ended, in words. Its results are as hostile as the workspace.
    async fn try_work(
        &self,
        task: &Path,
        results: &Path,
        timeout: Duration,
    ) -> Result<Option<String>, SandboxError> {
        let ground = &self.ground;
        let stage = ground.host.stage();
        let trial = stage.join(task).join("trial");
        if !trial.join("run.sh").is_file() {
            return Ok(None);
        }
        let mut spec = ground.spec.clone();
        spec.mounts.extend([Mount::read(trial, "/trial"), Mount::write(results, "/results")]);
        let shared = stage.join("shared");
        if shared.is_dir() {
            spec.mounts.push(Mount::read(shared, "/shared"));
        }
        let mut request = ExecRequest::script("/trial/run.sh");
        request.timeout = Some(timeout);
        spec.settings.disk_bytes = ground.room_bytes().await;
        spec.bounded.push(results.to_owned());
        Ok(Some(ground.once(&spec, request).await?.outcome()))
    }

    /// Runs a task's scorer in a fresh cell over a copy of nothing but the workspace: the task's `tests` folder is `/tests`,
    /// the services' logs are `/services`, the answer is `/agent/submission.txt`, all read-only.
    pub async fn score(&self, task: TaskRef<'_>, input: &ScoreInput) -> Result<TaskScore, SandboxError> {
        let ground = &self.ground;
        let started = Instant::now();
        let name = format!("{}-{}", task.role().as_str(), task.task().name);
        let verifier = ground.make(&format!("verifier-{name}"))?;
        let answer = ground.folder.path().join(format!("agent-{name}"));
        fs::create_dir_all(&answer).map_err(SandboxError::io("make", &answer))?;
        if let Some(text) = &input.submission {
            let path = answer.join("submission.txt");
            fs::write(&path, text).map_err(SandboxError::io("write", &path))?;
            own(&path, ground.spec.uid)?;
        }
        let aside = ground.folder.path().join("aside");
        let timeout = Duration::from_secs(task.task().scorer_timeout_seconds);
        let results = ground.make(&format!("results-{name}"))?;
        let tried = self.try_work(&task.task().folder, &results, timeout).await?;
        if tried.is_some() {
            // What was tried is the agent's, too.
            workspace::tame(&ground.workspace, &aside).await;
            workspace::tame(&results, &aside).await;
        }
        let script = ground.host.stage().join(&task.task().scorer);
        let tests = script.parent().map_or_else(PathBuf::new, Path::to_path_buf);
        let mut spec = ground.spec.clone();
        spec.mounts.extend([
            Mount::read(ground.host.stage(), "/environment"),
            Mount::read(tests, "/tests"),
            Mount::write(&verifier, "/logs/verifier"),
            Mount::read(&ground.logs, "/services"),
            Mount::read(answer, "/agent"),
            Mount::read(results, "/results"),
        ]);
        // A workspace that the agent filled to its limit must not be held against the scorer.
        spec.settings.disk_bytes = ground.room_bytes().await;
        spec.bounded.push(verifier.clone());
        let script_name = script.file_name().unwrap_or_default();
        let mut request = ExecRequest::script(Path::new("/tests").join(script_name).to_string_lossy());
        request.timeout = Some(timeout);
        let inside = Path::new("/environment").join(&task.task().folder);
        // Home may be the workspace, where programs find settings that the agent wrote.
        let home = ("HOME".to_owned(), "/tmp".to_owned());
        request.env = vec![("CT_TASK_DIR".to_owned(), inside.to_string_lossy().into_owned()), home];
        request.env.extend(tried.map(|outcome| ("CT_TRIAL".to_owned(), outcome)));
        let result = ground.once(&spec, request).await?;
        let files = ResultFiles {
            json: workspace::read_plain(&verifier, "result.json", RESULT_BYTES_MAX),
            reward: workspace::read_plain(&verifier, "reward.txt", RESULT_BYTES_MAX),
        };
        let outcome = score::outcome(&result, &files, timeout);
        Ok(TaskScore {
            task: task.task().name.clone(),
            role: task.role(),
            outcome,
            duration: started.elapsed(),
        })
    }
}
