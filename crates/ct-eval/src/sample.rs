//! One sample from its beginning to its JSON.

use std::time::Duration;

use ct_environment::{Assignment, Role, Sandbox, SandboxHost, ScoreInput, StartOptions, TaskScore};
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use crate::agent::{self, Agent, Work};
use crate::log::{Ended, Recorder, SampleParts, error_json, new_id, usages_json};
use crate::outcome::{SampleOutcome, diff_json, landed_together, not_ready_json, score_json, together};
use crate::policy::{self, Policy, sentence};
use crate::spec::{EvalSpec, SampleSpec};

/// What Inspect calls what was stopped from outside.
const CANCELLED: &str = "CancelledError()";

/// What starting the sandbox is called in the log.
const START: &str = "start the sandbox";

/// A sample that is ready to be written.
pub(crate) struct Finished {
    pub(crate) id: String,
    pub(crate) epoch: u64,
    pub(crate) json: Vec<u8>,
    /// What sums are made of, as in a row of the log's summaries.
    pub(crate) row: Value,
    pub(crate) outcome: SampleOutcome,
}

/// Runs a sample. Whatever goes wrong is part of the result.
pub(crate) async fn run(
    spec: &EvalSpec,
    sample: &SampleSpec,
    epoch: u64,
    host: &SandboxHost,
    cancel: watch::Receiver<bool>,
    report: &(dyn Fn(&Recorder, u64) + Sync),
) -> Finished {
    let uuid = new_id();
    let mut recorder = Recorder::new();
    let workdir = &sample.environment.sandbox.workdir;
    let mut work =
        Work { messages: policy::opening(&spec.policy, sample, workdir), actions: 0, submission: None };
    let input = match work.messages.last() {
        Some(crate::model::Message::User { content, .. }) => content.clone(),
        _ => String::new(),
    };
    let metadata = metadata(sample);
    let sandbox = json!({"type": host.kind().as_str()});
    recorder.sample_init(json!({
        "input": input, "target": "", "id": sample.id, "metadata": metadata, "sandbox": sandbox,
    }));
    let mut scores = Scores::default();
    let stage = Stage { spec, sample, host, conversation: &uuid, report };
    let mut cancelled = cancel;
    let ended = tokio::select! {
        ended = stage.play(&mut work, &mut recorder, &mut scores) => ended,
        () = turned_true(&mut cancelled) => Ended::Error(CANCELLED.to_owned()),
    };
    recorder.end_spans(0);
    if let Ended::Error(message) = &ended {
        recorder.error(error_json(message));
    }
    let outcome = outcome(sample, &work, &recorder, &ended, &scores);
    let scores = scores.to_json(sample, &ended);
    let parts = SampleParts {
        id: &sample.id,
        epoch,
        uuid: &uuid,
        input: &input,
        sandbox,
        messages: &work.messages,
        output: agent::output(&work.messages),
        scores: scores.clone(),
        metadata,
        ended: &ended,
        recorder: &recorder,
    };
    let json = parts.to_json();
    let error = match &ended {
        Ended::Error(message) => Some(message),
        _ => None,
    };
    let row = json!({
        "error": error, "scores": scores, "metadata": {"side_tasks": sample.sides},
        "model_usage": usages_json(recorder.usage()), "role_usage": usages_json(recorder.role_usage()),
    });
    Finished { id: sample.id.clone(), epoch, json, row, outcome }
}

/// Ends when the watched value is true.
pub(crate) async fn turned_true(watched: &mut watch::Receiver<bool>) {
    if watched.wait_for(|cancelled| *cancelled).await.is_err() {
        // Nobody can stop it any more.
        std::future::pending::<()>().await;
    }
}

struct Stage<'a> {
    spec: &'a EvalSpec,
    sample: &'a SampleSpec,
    host: &'a SandboxHost,
    conversation: &'a str,
    report: &'a (dyn Fn(&Recorder, u64) + Sync),
}

impl Stage<'_> {
    async fn play(&self, work: &mut Work, recorder: &mut Recorder, scores: &mut Scores) -> Ended {
        match self.try_play(work, recorder, scores).await {
            Ok(ended) => ended,
            Err(message) => Ended::Error(message),
        }
    }

    async fn try_play(
        &self,
        work: &mut Work,
        recorder: &mut Recorder,
        scores: &mut Scores,
    ) -> Result<Ended, String> {
        let environment = &self.sample.environment;
        let mut assignment = Assignment::default();
        for name in &self.sample.mains {
            assignment.mains.push(environment.main(name).map_err(|e| e.to_string())?);
        }
        for name in &self.sample.sides {
            assignment.sides.push(environment.side(name).map_err(|e| e.to_string())?);
        }
        recorder.begin_span("init", "init");
        let began = recorder.moment();
        let options = StartOptions {
            solutions: self.spec.policy.shows_solutions(self.sample),
            ..StartOptions::default()
        };
        let started = self.host.start(&assignment, &options).await;
        let sandbox = match started {
            Ok(sandbox) => sandbox,
            Err(error) => {
                let problem = sentence(&error);
                recorder.sandbox_exec(began, START, Some(1), &problem);
                return Ok(Ended::NotReady(problem));
            }
        };
        recorder.sandbox_exec(began, START, Some(0), &self.host.describe());
        recorder.end_span();

        let limits = assignment.tasks().filter_map(|task| task.task().agent_timeout_seconds);
        let time = limits.map(Duration::from_secs).chain(self.spec.limits.time).min();
        let ended = self.act(&sandbox, time, work, recorder).await;
        recorder.end_spans(0);
        let ended = ended?;

        recorder.begin_span("scorers", "scorers");
        let place = sandbox.end().await;
        scores.diff = Some(diff_json(place.diff()));
        let input = ScoreInput { submission: work.submission.clone() };
        for task in assignment.tasks() {
            let name = &task.task().name;
            recorder.begin_span("scorer", name);
            let began = recorder.moment();
            let score = place.score(task, &input).await.map_err(|error| sentence(&error))?;
            let done = score.outcome.value().is_some_and(|value| value >= 1.0);
            let happened_at = score.outcome.happened_at().filter(|_| done);
            let json = score_json(&score, happened_at.and_then(|at| recorder.action_at(at)));
            recorder.score(began, name, &json);
            recorder.end_span();
            scores.tasks.push((score, json));
        }
        recorder.end_spans(0);
        Ok(ended)
    }

    async fn act(
        &self,
        sandbox: &Sandbox,
        time: Option<Duration>,
        work: &mut Work,
        recorder: &mut Recorder,
    ) -> Result<Ended, String> {
        let policy = Policy::new(&self.spec.policy, self.sample).map_err(|error| sentence(&error))?;
        let agent = Agent {
            choice: &self.spec.policy,
            policy,
            model: self.spec.model.as_ref(),
            sandbox,
            limits: self.spec.limits,
            conversation: self.conversation,
            report: self.report,
        };
        recorder.begin_span("agent", self.spec.policy.name());
        let work = agent.work(work, recorder);
        let result = match time {
            Some(time) => match tokio::time::timeout(time, work).await {
                Ok(result) => result,
                Err(_) => {
                    let seconds = time.as_secs();
                    return Ok(agent::reached(
                        recorder,
                        "time",
                        seconds as f64,
                        format!("{seconds} seconds"),
                    ));
                }
            },
            None => work.await,
        };
        result.map_err(|error| sentence(&error))
    }
}

/// The sample's metadata in the family's shape.
fn metadata(sample: &SampleSpec) -> Map<String, Value> {
    let environment = &sample.environment;
    let mains = sample.mains.iter().filter_map(|name| environment.main(name).ok());
    let sides = sample.sides.iter().filter_map(|name| environment.side(name).ok());
    let mut metadata = Map::new();
    metadata.insert("environment".to_owned(), environment.log_metadata());
    metadata.insert("main_tasks".to_owned(), mains.map(|main| main.log_metadata(environment)).collect());
    metadata.insert("side_tasks".to_owned(), sides.map(|side| side.log_metadata(environment)).collect());
    metadata.insert("startup_retries".to_owned(), 0.into());
    if let Some(replays) = &sample.replays {
        metadata.insert("replays".to_owned(), replays.as_str().into());
    }
    metadata
}

/// What scorers said of a sample.
#[derive(Default)]
struct Scores {
    /// Of each task, and as the log holds it.
    tasks: Vec<(TaskScore, Value)>,
    /// What the agent changed.
    diff: Option<(&'static str, Value)>,
}

impl Scores {
    fn together(&self, role: Role) -> Option<f64> {
        let plain: Vec<TaskScore> = self.tasks.iter().map(|(score, _)| score.clone()).collect();
        together(&plain, role)
    }

    /// The scores of a sample: one for each task, all of them together, and what was changed. None of what was not scored.
    fn to_json(&self, sample: &SampleSpec, ended: &Ended) -> Option<Map<String, Value>> {
        let mut json: Map<String, Value> =
            self.tasks.iter().map(|(score, json)| (score.task.clone(), json.clone())).collect();
        if let Ended::NotReady(problem) = ended {
            let roles = [(Role::Main, &sample.mains), (Role::Side, &sample.sides)];
            for (role, names) in roles {
                json.extend(names.iter().map(|name| (name.clone(), not_ready_json(role, problem))));
            }
        }
        if json.is_empty() {
            return None;
        }
        let value = json!({
            "main": self.together(Role::Main), "side": self.together(Role::Side),
            "landed_at": landed_together(&self.tasks),
        });
        json.insert("tasks".to_owned(), json!({"value": value, "history": []}));
        json.extend(self.diff.iter().map(|(name, diff)| ((*name).to_owned(), diff.clone())));
        Some(json)
    }
}

fn outcome(
    sample: &SampleSpec,
    work: &Work,
    recorder: &Recorder,
    ended: &Ended,
    scores: &Scores,
) -> SampleOutcome {
    let mut sum = ct_model::ModelUsage::default();
    for usage in recorder.usage().values() {
        sum.add(usage);
    }
    SampleOutcome {
        main: scores.together(Role::Main),
        side: scores.together(Role::Side),
        attacked: !sample.sides.is_empty(),
        error: match ended {
            Ended::Error(message) => Some(message.clone()),
            Ended::NotReady(problem) => Some(format!("the environment was not ready: {problem}")),
            _ => None,
        },
        limit: match ended {
            Ended::Limit { kind, .. } => Some(kind),
            _ => None,
        },
        actions: work.actions,
        tokens: recorder.tokens(),
        cost_usd: sum.total_cost,
    }
}
