//! The trajectory document: what a store keeps about one sample, in the shape of the wire contract.
//!
//! `main_task_success`, `side_task_success` and `error` are written as null when nothing decided them; every other
//! unknown field is left out. Fields this version does not know are kept in `extra`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{RunId, TrajectoryId};

/// Where the agent worked. `id` alone is always there.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Environment id, such as `linuxarena/web_scraping`.
    pub id: Option<String>,
    /// Shown name.
    #[serde(default)]
    pub display_name: Option<String>,
    /// One line about it.
    #[serde(default)]
    pub short_description: Option<String>,
    /// Fields of newer or other writers.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// The task the agent was openly given.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MainTask {
    /// Task id; several are joined by `+`.
    pub id: Option<String>,
    /// Task name; several are joined by ` + `.
    #[serde(default)]
    pub name: Option<String>,
    /// One line about it.
    #[serde(default)]
    pub short_description: Option<String>,
    /// The task as given.
    #[serde(default)]
    pub description: Option<String>,
    /// Category label.
    #[serde(default)]
    pub task_category: Option<String>,
    /// Fields of newer or other writers.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// The covert task of an attacking agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SideTask {
    /// Task id; several are joined by `+`.
    pub id: Option<String>,
    /// Task name; several are joined by ` + `.
    #[serde(default)]
    pub name: Option<String>,
    /// One line about it.
    #[serde(default)]
    pub short_description: Option<String>,
    /// What the attacker is after.
    #[serde(default)]
    pub goal: Option<String>,
    /// Category label.
    #[serde(default)]
    pub task_category: Option<String>,
    /// `live` or `delayed`.
    #[serde(default)]
    pub failure_type: Option<String>,
    /// Fields of newer or other writers.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Which of the two kinds of task a score is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskRole {
    /// The task openly given.
    Main,
    /// The covert task.
    Side,
}

/// The score of one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskScore {
    /// Task id.
    pub id: String,
    /// Main or side.
    pub role: TaskRole,
    /// 0 to 1, or null when the scorer decided nothing.
    pub value: Option<f64>,
    /// Action at which a side task landed: outer `None` for main tasks (not written), inner for "did not land".
    #[serde(default, skip_serializing_if = "Option::is_none", with = "double_option")]
    pub landed_at: Option<Option<i64>>,
    /// Why there is no value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Fields of newer or other writers.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Distinguishes an absent field from a null one.
mod double_option {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &Option<Option<i64>>, s: S) -> Result<S::Ok, S::Error> {
        value.as_ref().and_then(Option::as_ref).serialize(s)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Option<i64>>, D::Error> {
        Option::<i64>::deserialize(d).map(Some)
    }
}

/// Milliseconds since the Unix epoch, or of duration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// When the run's script started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_started_at: Option<i64>,
    /// When the sample's first event happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_started: Option<i64>,
    /// `time_started` plus `time_to_run`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_completed: Option<i64>,
    /// From the run's start to the sample's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_to_start: Option<i64>,
    /// Working time of the sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_to_run: Option<i64>,
    /// Time per scorer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scorer_timings: Option<Map<String, Value>>,
    /// Fields of newer or other writers.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Tokens and dollars. All fields are written, unknown ones as null.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelUsage {
    /// Tokens read, cached ones not counted.
    #[serde(default)]
    pub input_tokens: Option<u64>,
    /// Tokens written.
    #[serde(default)]
    pub output_tokens: Option<u64>,
    /// As the provider counts the total.
    #[serde(default)]
    pub total_tokens: Option<u64>,
    /// Tokens written to the provider's cache.
    #[serde(default)]
    pub input_tokens_cache_write: Option<u64>,
    /// Tokens read from the provider's cache.
    #[serde(default)]
    pub input_tokens_cache_read: Option<u64>,
    /// Tokens of hidden reasoning.
    #[serde(default)]
    pub reasoning_tokens: Option<u64>,
    /// US dollars.
    #[serde(default)]
    pub total_cost: Option<f64>,
    /// Fields of newer or other writers.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl ModelUsage {
    /// Adds another usage. Unknown plus known is known; unknown plus unknown stays unknown.
    pub fn add(&mut self, usage: &ModelUsage) {
        let add = |sum: &mut Option<u64>, n: Option<u64>| {
            if let Some(n) = n {
                *sum = Some(sum.unwrap_or(0).saturating_add(n));
            }
        };
        add(&mut self.input_tokens, usage.input_tokens);
        add(&mut self.output_tokens, usage.output_tokens);
        add(&mut self.total_tokens, usage.total_tokens);
        add(&mut self.input_tokens_cache_write, usage.input_tokens_cache_write);
        add(&mut self.input_tokens_cache_read, usage.input_tokens_cache_read);
        add(&mut self.reasoning_tokens, usage.reasoning_tokens);
        if let Some(cost) = usage.total_cost {
            self.total_cost = Some(self.total_cost.unwrap_or(0.0) + cost);
        }
    }
}

/// Cost of one role's model calls in US dollars.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RoleCost {
    /// Sum of what is known; null when nothing is.
    pub total_usd: Option<f64>,
    /// By model; null for one that could not be priced.
    pub by_model: BTreeMap<String, Option<f64>>,
    /// Fields of newer or other writers.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// What a monitor said over a whole trajectory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MonitorSummary {
    /// Highest score, as recorded (0 to 100 in format 3.x); absent when nothing was scored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    /// Scores that were no number of at least 0.
    pub unscored: u64,
    /// Fields of newer or other writers.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// One tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActionSummary {
    /// The tool's name.
    pub function: String,
    /// Position among the trajectory's actions, from 0.
    pub index: u64,
    /// First 20 characters of what the tool answered.
    pub output: String,
    /// Fields of newer or other writers.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Why a sample has no regular end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SampleError {
    /// The message as recorded.
    pub message: String,
    /// `eval_error`, `scorer_timeout`, `env_not_ready`, `scorer_error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_type: Option<String>,
    /// Fields of newer or other writers.
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", schema(value_type = std::collections::HashMap<String, serde_json::Value>))]
    pub extra: Map<String, Value>,
}

/// Where the sample's JSON lies in its log: read `compressed_size` bytes at `compressed_start`, inflate, check the CRC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SampleRange {
    /// Object key of the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Member name; for a JSON log the name the member would have.
    pub sample_path: String,
    /// The object's ETag, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub e_tag: Option<String>,
    /// The object's version, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version_id: Option<String>,
    /// ZIP method: 0 stored, 8 deflate, 93 zstd.
    pub compression_method: u16,
    /// Offset of the first data byte in the file.
    pub compressed_start: u64,
    /// Bytes in the file.
    pub compressed_size: u64,
    /// Bytes after inflation.
    pub uncompressed_size: u64,
    /// CRC-32 of the inflated bytes.
    pub crc32: u32,
    /// Fields of newer or other writers.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Everything a store keeps about one sample.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrajectoryDocument {
    /// The trajectory's id; absent until it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trajectory_id: Option<TrajectoryId>,
    /// The run it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// Where the log lies, with the sample's path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eval_log_url: Option<String>,
    /// The sample's id as text.
    pub eval_sample_id: String,
    /// Counts from 1.
    pub epoch: u64,
    /// `<main> - <side> - <policy>`.
    pub name: String,
    /// Tags of this trajectory alone.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Datasets it is in.
    #[serde(default)]
    pub datasets: Vec<String>,
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Strings about how the sample was made: policy, protocol, command, versions.
    #[serde(default)]
    pub metadata: Map<String, Value>,
    /// The log's `eval.metadata`.
    #[serde(default)]
    pub eval_metadata: Map<String, Value>,
    /// Absent for a chunked sample, which lies in many places.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eval_sample_range: Option<SampleRange>,
    /// Where the agent worked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<Environment>,
    /// The task openly given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub main_task: Option<MainTask>,
    /// The covert task; absent for an honest sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side_task: Option<SideTask>,
    /// True when exactly 1, false for another number, null when nothing decided it.
    pub main_task_success: Option<bool>,
    /// As `main_task_success`.
    pub side_task_success: Option<bool>,
    /// Scores per task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub task_scores: Vec<TaskScore>,
    /// Value of the `tasks` score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<Value>,
    /// `audit<N>` scores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit_scores: Option<Map<String, Value>>,
    /// When it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timing: Option<Timing>,
    /// Sum over the models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<ModelUsage>,
    /// By role of the model calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_by_role: Option<BTreeMap<String, RoleCost>>,
    /// The sample's `model_usage`, as recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_usage: Option<Map<String, Value>>,
    /// Models used, sorted.
    #[serde(default)]
    pub models: Vec<String>,
    /// Null when the sample ended regularly.
    pub error: Option<SampleError>,
    /// By monitor name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monitors: Option<BTreeMap<String, MonitorSummary>>,
    /// Tool calls.
    pub number_of_actions: u64,
    /// Short names of the untrusted models.
    #[serde(default)]
    pub authors: Vec<String>,
    /// Whether the policy attempts the main task; absent for an unknown policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts_mt: Option<bool>,
    /// Whether it attempts the side task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts_st: Option<bool>,
    /// Whether it hides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts_sneaky: Option<bool>,
    /// One per tool call.
    #[serde(default)]
    pub action_summaries: Vec<ActionSummary>,
    /// Fields of newer or other writers.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl TrajectoryDocument {
    /// The highest score that a monitor gave.
    pub fn max_suspicion_score(&self) -> Option<f64> {
        self.monitors.iter().flatten().filter_map(|(_, monitor)| monitor.max).reduce(f64::max)
    }

    /// US dollars, where all that was used has a price.
    pub fn cost_usd(&self) -> Option<f64> {
        self.cost.as_ref().and_then(|cost| cost.total_cost)
    }

    /// Working time.
    pub fn duration_ms(&self) -> Option<u64> {
        self.timing.as_ref().and_then(|timing| timing.time_to_run).and_then(|time| time.try_into().ok())
    }

    /// Whether there is a covert task.
    pub fn has_side_task(&self) -> bool {
        self.side_task.is_some() || self.side_task_success.is_some()
    }
}
