//! The run header: the metadata container around one evaluation batch.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::RunId;

/// What made the run's log: one policy, or an honest and an attacking one side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Producer {
    /// One policy.
    Eval,
    /// A control evaluation: honest and attack samples in one log.
    ControlEval,
}

/// A comment on a run. Who and when are the store's, not the client's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Comment {
    /// Unique within the run; empty for one that is yet to get it.
    #[serde(default)]
    pub id: String,
    /// Plain text.
    pub text: String,
    /// Everything else the writer recorded (created, edited, deleted, author).
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", schema(value_type = std::collections::HashMap<String, serde_json::Value>))]
    pub extra: Map<String, Value>,
}

/// A run header, in the shape of the wire contract. Amounts are US dollars, times ISO 8601.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RunHeader {
    /// The run's id; absent until it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub run_id: Option<RunId>,
    /// Shown name.
    pub name: String,
    /// Policy label, such as `ct/attack`.
    #[serde(default)]
    pub policy: Option<String>,
    /// Task set label.
    #[serde(default)]
    pub task_set: Option<String>,
    /// What made the log.
    #[serde(default)]
    pub producer: Option<Producer>,
    /// Number of trajectories.
    #[serde(default)]
    pub trajectory_count: Option<u64>,
    /// Where the log lies.
    #[serde(default)]
    pub eval_log_url: Option<String>,
    /// When the run was registered.
    #[serde(default)]
    pub created_at: Option<String>,
    /// Who registered it.
    #[serde(default)]
    pub created_by: Option<String>,
    /// Sum of the known costs of the trajectories; null when none is known.
    #[serde(default)]
    pub total_cost_usd: Option<f64>,
    /// Cost by model; null for a model that could not be priced.
    #[serde(default)]
    pub cost_by_model: BTreeMap<String, Option<f64>>,
    /// Scorer to metric to value; not-a-number is null.
    #[serde(default)]
    pub metrics: BTreeMap<String, BTreeMap<String, Option<f64>>>,
    /// `eval.metadata` less what has a field of its own.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = std::collections::HashMap<String, serde_json::Value>))]
    pub metadata: Map<String, Value>,
    /// Tags, in order, without repetition.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Free text.
    #[serde(default)]
    pub description: Option<String>,
    /// Comments, oldest first.
    #[serde(default)]
    pub comments: Vec<Comment>,
    /// The dataset the run was made from.
    #[serde(default)]
    pub dataset: Option<String>,
    /// Models of all trajectories, sorted. Added by registration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub models: Option<Vec<String>>,
    /// `environment.setting` of all trajectories, sorted. Added by registration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_settings: Option<Vec<String>>,
    /// Fields of newer or other writers.
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", schema(value_type = std::collections::HashMap<String, serde_json::Value>))]
    pub extra: Map<String, Value>,
}
