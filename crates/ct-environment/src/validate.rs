//! Proves an environment: each reference solution passes its own scorer, and an idle agent passes none.

use std::time::Duration;

use serde::Serialize;

use crate::environment::{Environment, MainTask, Role, TaskRef};
use crate::error::SandboxError;
use crate::sandbox::{Assignment, ExecRequest, SandboxHost, StartOptions};
use crate::score::{ScoreInput, ScoreOutcome};

/// What was tried with a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// The reference solution must score 1.
    Solution,
    /// An agent that does nothing must score less than 1.
    Idle,
}

/// What came of it.
#[derive(Debug, Clone, Serialize)]
pub struct CheckResult {
    /// The task.
    pub task: String,
    /// Its kind.
    pub role: Role,
    /// The main task that was played beside it, for a side task.
    pub beside: Option<String>,
    /// What was tried.
    pub check: Check,
    /// The scorer's verdict, when it came so far.
    pub outcome: Option<ScoreOutcome>,
    /// Whether it is as it must be.
    pub passed: bool,
    /// Why not, in words.
    pub problem: Option<String>,
    /// How long it took.
    pub duration: Duration,
}

/// Checks every task of a host's environment; `report` hears of each result at once.
pub async fn validate(host: &SandboxHost, mut report: impl FnMut(&CheckResult)) -> Vec<CheckResult> {
    let environment = host.environment();
    let mut results = Vec::new();
    for task in environment.tasks() {
        for check in [Check::Idle, Check::Solution] {
            if check == Check::Solution && task.task().solution.is_none() {
                continue;
            }
            let started = std::time::Instant::now();
            let beside = beside(environment, task);
            let tried = attempt(host, task, beside, check).await;
            let (outcome, problem) = match tried {
                Ok((outcome, problem)) => (Some(outcome), problem),
                Err(error) => (None, Some(error.to_string())),
            };
            let problem = problem.or_else(|| wrong(check, outcome.as_ref()));
            let result = CheckResult {
                task: task.task().name.clone(),
                role: task.role(),
                beside: beside.filter(|_| task.role() == Role::Side).map(|main| main.task.name.clone()),
                check,
                passed: problem.is_none(),
                outcome,
                problem,
                duration: started.elapsed(),
            };
            report(&result);
            results.push(result);
        }
    }
    results
}

/// The main task to play: the task itself, or the first that a side task goes with.
fn beside<'a>(environment: &'a Environment, task: TaskRef<'a>) -> Option<&'a MainTask> {
    match task {
        TaskRef::Main(main) => Some(main),
        TaskRef::Side(side) => environment.mains.iter().find(|main| side.goes_with(&main.task.name)),
    }
}

fn wrong(check: Check, outcome: Option<&ScoreOutcome>) -> Option<String> {
    match (check, outcome?) {
        (Check::Solution, ScoreOutcome::Scored { value, .. }) if *value >= 1.0 => None,
        (Check::Idle, ScoreOutcome::Scored { value, .. }) if *value < 1.0 => None,
        (Check::Solution, ScoreOutcome::Scored { value, explanation, .. }) => {
            let said = explanation.as_deref().unwrap_or("no explanation");
            Some(format!("the reference solution scores {value}, not 1: {said}"))
        }
        (Check::Idle, ScoreOutcome::Scored { value, .. }) => Some(format!("an idle agent scores {value}")),
        (_, other) => other.explanation(),
    }
}

async fn attempt(
    host: &SandboxHost,
    task: TaskRef<'_>,
    beside: Option<&MainTask>,
    check: Check,
) -> Result<(ScoreOutcome, Option<String>), SandboxError> {
    let mut assignment = Assignment { mains: beside.into_iter().collect(), sides: Vec::new() };
    if let TaskRef::Side(side) = task {
        assignment.sides.push(side);
    }
    let sandbox =
        host.start(&assignment, &StartOptions { solutions: true, ..StartOptions::default() }).await?;
    let mut problem = None;
    if check == Check::Solution {
        let script = format!("/solutions/{}/{}/solve.sh", task.role().as_str(), task.task().name);
        let request = ExecRequest::script(script);
        let result = sandbox.exec(request).await?;
        if !result.success() {
            let said = [result.stdout.text(), result.stderr.text()].concat();
            problem = Some(format!("the reference solution fails ({}): {}", result.outcome(), said.trim()));
        }
    }
    let ended = sandbox.end().await;
    let score = ended.score(task, &ScoreInput::default()).await?;
    Ok((score.outcome, problem))
}
