//! What a log says was to be run, so that the rest of it can be.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ct_environment::SandboxKind;
use ct_log::Log;
use serde_json::{Map, Value};

use crate::{EvalError, Limits, PolicyChoice};

/// The settings of an earlier run.
#[derive(Debug, Clone)]
pub struct Resumable {
    /// The log.
    pub path: PathBuf,
    /// The run's name.
    pub run_name: String,
    /// A label for the set of tasks.
    pub task_set: Option<String>,
    /// Labels of the run.
    pub tags: Vec<String>,
    /// Who acted.
    pub policy: PolicyChoice,
    /// The model's name, if there was one.
    pub model: Option<String>,
    /// Where it was asked, when that was not its provider's own address.
    pub base_url: Option<String>,
    /// The sampling temperature, when it was not the provider's own.
    pub temperature: Option<f64>,
    /// Tokens of one answer, when that was not the provider's own limit.
    pub max_tokens: Option<u32>,
    /// SHA-256 of each environment, in hex, by its long name, as far as they are recorded.
    pub digests: BTreeMap<String, String>,
    /// How often each sample is run.
    pub epochs: u64,
    /// What ended a sample.
    pub limits: Limits,
    /// Whether the first sample that failed was to end the run.
    pub fail_on_error: bool,
    /// The kind of sandbox that was asked for, if one was.
    pub sandbox: Option<SandboxKind>,
    /// The image that was asked for, if one was.
    pub image: Option<String>,
    /// The file of rates that calls were priced by, if there was one.
    pub prices: Option<PathBuf>,
    /// How the samples were chosen.
    pub selection: Value,
    /// The samples.
    pub samples: Vec<ResumedSample>,
}

/// A sample as a log describes it.
#[derive(Debug, Clone)]
pub struct ResumedSample {
    /// Its id.
    pub id: String,
    /// The environment's long name.
    pub environment: String,
    /// Names of main tasks.
    pub mains: Vec<String>,
    /// Names of side tasks.
    pub sides: Vec<String>,
    /// What a replay repeats.
    pub replays: Option<String>,
}

impl Resumable {
    /// Reads the settings of a log that this program wrote.
    pub fn read(path: &Path) -> Result<Self, EvalError> {
        let header = Log::open(path)?.header()?.value.clone();
        let eval = &header["eval"];
        let missing = |problem: &str| EvalError::Resume {
            path: path.to_owned(),
            problem: format!("{problem}; only logs that ct run eval wrote can be resumed"),
        };
        let metadata = &eval["metadata"];
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let policy = &metadata["policy_selection"];
        let args: Map<String, Value> = policy["args"].as_object().cloned().unwrap_or_default();
        let name = policy["name"].as_str().ok_or_else(|| missing("it names no policy"))?;
        let policy = PolicyChoice::with_args(name, args).map_err(|error| missing(&error.to_string()))?;
        let mut selection = metadata["task_selection"].clone();
        let samples = selection.as_object_mut().and_then(|selection| selection.remove("samples"));
        let Some(Value::Array(samples)) = samples else {
            return Err(missing("it does not list its samples"));
        };
        let names = |value: &Value| -> Vec<String> {
            value.as_array().into_iter().flatten().filter_map(text).collect()
        };
        let samples = samples.iter().map(|sample| {
            Some(ResumedSample {
                id: text(&sample["id"])?,
                environment: text(&sample["environment"])?,
                mains: names(&sample["main_tasks"]),
                sides: names(&sample["side_tasks"]),
                replays: text(&sample["replays"]),
            })
        });
        let samples: Option<Vec<_>> = samples.collect();
        let config = &eval["config"];
        let asked = &eval["model_generate_config"];
        let host = &metadata["asked"];
        let digests = metadata["environment_digests"].as_object().into_iter().flatten();
        Ok(Self {
            path: path.to_owned(),
            run_name: text(&eval["task"]).ok_or_else(|| missing("it has no name"))?,
            task_set: text(&metadata["task_set"]),
            tags: names(&metadata["tags"]),
            policy,
            model: text(&metadata["model_roles"]["untrusted"]),
            base_url: text(&eval["model_roles"]["untrusted"]["base_url"]),
            temperature: asked["temperature"].as_f64(),
            max_tokens: asked["max_tokens"].as_u64().and_then(|tokens| u32::try_from(tokens).ok()),
            digests: digests.filter_map(|(name, digest)| Some((name.clone(), text(digest)?))).collect(),
            epochs: config["epochs"].as_u64().unwrap_or(1),
            limits: Limits {
                messages: config["message_limit"].as_u64(),
                tokens: config["token_limit"].as_u64(),
                time: config["time_limit"].as_u64().map(Duration::from_secs),
                cost_usd: config["cost_limit"].as_f64(),
            },
            fail_on_error: config["fail_on_error"].as_bool().unwrap_or(false),
            sandbox: serde_json::from_value(host["sandbox"].clone()).ok(),
            image: text(&host["image"]),
            prices: text(&host["prices"]).map(PathBuf::from),
            selection,
            samples: samples.ok_or_else(|| missing("one of its samples has no id or environment"))?,
        })
    }
}
