//! What is to be run.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ct_environment::{Environment, HostOptions};
use jiff::Timestamp;
use serde_json::Value;

use crate::model::Model;
use crate::policy::{PolicyChoice, Replay};

/// An evaluation: a policy on samples.
#[derive(Debug, Clone)]
pub struct EvalSpec {
    /// The run's name, and the log's task.
    pub run_name: String,
    /// A label for the set of tasks.
    pub task_set: Option<String>,
    /// Labels of the run.
    pub tags: Vec<String>,
    /// Who acts.
    pub policy: PolicyChoice,
    /// What they act on, each as often as there are epochs.
    pub samples: Vec<SampleSpec>,
    /// How often each sample is run.
    pub epochs: u64,
    /// How the samples were chosen: an object for the log.
    pub selection: Value,
    /// Samples at the same time, at most.
    pub samples_max: usize,
    /// What ends a sample.
    pub limits: Limits,
    /// End the run at the first sample that fails.
    pub fail_on_error: bool,
    /// What sandboxes are like.
    pub sandbox: HostOptions,
    /// The model behind the policy, if it needs one.
    pub model: Option<Model>,
    /// The file of rates that calls are priced by, for the log.
    pub prices: Option<PathBuf>,
    /// For the log.
    pub about: About,
}

/// Who runs it.
#[derive(Debug, Clone)]
pub struct About {
    /// The command line, without secrets.
    pub command: String,
    /// The program's version.
    pub version: String,
    /// The commit it was built from.
    pub commit: Option<String>,
    /// When it started.
    pub started_at: Timestamp,
}

/// Tasks that are worked on together.
#[derive(Debug, Clone)]
pub struct SampleSpec {
    /// Unique in the run.
    pub id: String,
    /// Where.
    pub environment: Arc<Environment>,
    /// Names of main tasks.
    pub mains: Vec<String>,
    /// Names of side tasks.
    pub sides: Vec<String>,
    /// What a replay repeats, as it was named.
    pub replays: Option<String>,
    /// The actions of it.
    pub replay: Option<Arc<Replay>>,
}

impl SampleSpec {
    /// Tasks of an environment as one sample.
    pub fn new(environment: Arc<Environment>, mains: Vec<String>, sides: Vec<String>) -> Self {
        let id = Self::id_of(&environment.name, &mains, &sides);
        Self { id, environment, mains, sides, replays: None, replay: None }
    }

    /// `environment:main tasks[:side tasks]`.
    pub fn id_of(environment: &str, mains: &[String], sides: &[String]) -> String {
        let joined = |names: &[String]| {
            let mut names = names.to_vec();
            names.sort();
            names.join("+")
        };
        let mut id = format!("{environment}:{}", joined(mains));
        if !sides.is_empty() {
            id = format!("{id}:{}", joined(sides));
        }
        id
    }
}

/// What ends a sample. What has been done until then is scored all the same.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limits {
    /// Messages of the conversation.
    pub messages: Option<u64>,
    /// Tokens of all models together.
    pub tokens: Option<u64>,
    /// Time of the agent's work.
    pub time: Option<Duration>,
    /// US dollars.
    pub cost_usd: Option<f64>,
}
