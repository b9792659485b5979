//! What is taken from a log's header, and the run header made of it.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Map, Value};

use super::blake2s::base57_hash;
use super::family;
use super::sample::limits::TAGS_MAX;
use super::value::{get, get_object, get_text, named, number, object, text, texts, time_utc_text, unbox};
use crate::{Producer, RunHeader};

/// Keys of `eval.metadata` that have a field of their own in a run header.
const OWN_FIELDS: [&str; 4] = ["run_name", "policy", "task_set", "tags"];

/// One step of a log's plan.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PlanStep {
    /// Registered name of the solver.
    pub solver: String,
    /// Its arguments.
    pub params: Map<String, Value>,
}

/// What is taken from a log's header. Everything that the log does not say, or says in a wrong type, is empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HeaderFacts {
    /// How the run ended: `started`, `success`, `cancelled`, `error`, or what else is written.
    pub status: Option<String>,
    /// The eval's id, recorded or derived as Inspect derives it for logs from before it was recorded.
    pub eval_id: Option<String>,
    /// Whether `eval_id` was derived.
    pub eval_id_derived: bool,
    /// Id of the process that ran one or more evals.
    pub inspect_run_id: Option<String>,
    /// Id of the task, the same over retries.
    pub task_id: Option<String>,
    /// When the log was begun, as recorded.
    pub created: Option<String>,
    /// The task's name.
    pub task: Option<String>,
    /// The task's name for people.
    pub task_display_name: Option<String>,
    /// The task's name in its package's registry.
    pub task_registry_name: Option<String>,
    /// Arguments of the task.
    pub task_args: Map<String, Value>,
    /// Name of the solver given when the eval was started; a task's own solver is only in `plan`.
    pub solver: Option<String>,
    /// The eval's main model.
    pub model: Option<String>,
    /// Models by role.
    pub model_roles: BTreeMap<String, Vec<String>>,
    /// Type of the sandbox.
    pub sandbox: Option<String>,
    /// Solvers in order.
    pub plan: Vec<PlanStep>,
    /// Tags: those in the metadata, else those of the eval, with later edits applied.
    pub tags: Vec<String>,
    /// `eval.metadata` with later edits applied.
    pub metadata: Map<String, Value>,
    /// Scorer to metric to value.
    pub metrics: BTreeMap<String, BTreeMap<String, Option<f64>>>,
    /// Name of the first scorer in the results: the one an old log's single score belongs to.
    pub first_scorer: Option<String>,
    /// When the run started, as recorded.
    pub started_at: Option<String>,
    /// When the run ended, as recorded.
    pub completed_at: Option<String>,
    /// Tokens by model over the whole run, as recorded.
    pub model_usage: Map<String, Value>,
    /// Version of Inspect that wrote the log.
    pub inspect_version: Option<String>,
    /// Why the run failed.
    pub error: Option<String>,
}

impl HeaderFacts {
    /// Takes the facts from an EvalLog without samples.
    pub fn from_value(log: &Value) -> Self {
        let empty = Map::new();
        let log = object(log).unwrap_or(&empty);
        let eval = get_object(log, "eval").unwrap_or(&empty);
        let stats = get_object(log, "stats").unwrap_or(&empty);
        let owned = |map: &Map<String, Value>, key: &str| get_text(map, key).map(str::to_owned);

        let mut metadata = get_object(eval, "metadata").cloned().unwrap_or_default();
        let updates = log.get("log_updates").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        for edit in edits(updates, "metadata") {
            for key in edit.get("metadata_remove").map(texts).unwrap_or_default() {
                metadata.shift_remove(&key);
            }
            for (key, value) in get_object(edit, "metadata_set").unwrap_or(&empty) {
                metadata.insert(key.clone(), value.clone());
            }
        }
        let mut tags = Vec::new();
        let recorded = get(&metadata, "tags").map(texts).filter(|tags| !tags.is_empty());
        for tag in recorded.or_else(|| eval.get("tags").map(texts)).unwrap_or_default() {
            add_tag(&mut tags, tag);
        }
        for edit in edits(updates, "tags") {
            let removed: HashSet<String> =
                edit.get("tags_remove").map(texts).unwrap_or_default().into_iter().collect();
            tags.retain(|tag| !removed.contains(tag));
            for tag in edit.get("tags_add").map(texts).unwrap_or_default() {
                add_tag(&mut tags, tag);
            }
        }

        let inspect_run_id = owned(eval, "run_id");
        let task_id = owned(eval, "task_id");
        let created = owned(eval, "created");
        let recorded_id = owned(eval, "eval_id");
        let derived_id = match &recorded_id {
            Some(_) => None,
            None => derived_eval_id(inspect_run_id.as_deref(), task_id.as_deref(), created.as_deref()),
        };
        let results = get_object(log, "results").unwrap_or(&empty);
        let (metrics, first_scorer) = metrics(results);
        Self {
            status: owned(log, "status"),
            eval_id_derived: derived_id.is_some(),
            eval_id: recorded_id.or(derived_id),
            inspect_run_id,
            task_id,
            created,
            task: owned(eval, "task"),
            task_display_name: owned(eval, "task_display_name"),
            task_registry_name: owned(eval, "task_registry_name"),
            task_args: get_object(eval, "task_args").cloned().unwrap_or_default(),
            solver: owned(eval, "solver"),
            model: owned(eval, "model"),
            model_roles: get_object(eval, "model_roles")
                .unwrap_or(&empty)
                .iter()
                .map(|(role, models)| (role.clone(), role_models(models)))
                .collect(),
            sandbox: eval.get("sandbox").and_then(sandbox_type),
            plan: plan(log),
            tags,
            metadata,
            metrics,
            first_scorer,
            started_at: owned(stats, "started_at"),
            completed_at: owned(stats, "completed_at"),
            model_usage: get_object(stats, "model_usage").cloned().unwrap_or_default(),
            inspect_version: get_object(eval, "packages").and_then(|p| owned(p, "inspect_ai")),
            error: log.get("error").and_then(error_message),
        }
    }
}

/// The message of an EvalError, which old or foreign writers give as plain text.
fn error_message(error: &Value) -> Option<String> {
    match object(error) {
        Some(error) => get_text(error, "message").map(str::to_owned),
        None => text(error).map(str::to_owned),
    }
}

/// The edits of one kind, in order.
fn edits<'a>(updates: &'a [Value], kind: &'static str) -> impl Iterator<Item = &'a Map<String, Value>> {
    updates
        .iter()
        .filter_map(|update| update.get("edits").and_then(Value::as_array))
        .flatten()
        .filter_map(object)
        .filter(move |edit| get_text(edit, "type") == Some(kind))
}

fn add_tag(tags: &mut Vec<String>, tag: String) {
    if tags.len() < TAGS_MAX && !tags.contains(&tag) {
        tags.push(tag);
    }
}

/// As Inspect derives it. `None` when the log has nothing that tells it from others.
fn derived_eval_id(run_id: Option<&str>, task_id: Option<&str>, created: Option<&str>) -> Option<String> {
    if run_id.is_none() && task_id.is_none() {
        return None;
    }
    let created = created.map(|created| time_utc_text(created).unwrap_or_else(|| created.to_owned()));
    let content =
        [run_id.unwrap_or_default(), task_id.unwrap_or_default(), created.as_deref().unwrap_or_default()];
    Some(base57_hash(&content.concat()))
}

/// The models of one role: a name, a configuration with a `model`, or a list of those.
fn role_models(models: &Value) -> Vec<String> {
    let one = |model: &Value| match model {
        Value::Object(config) => get_text(config, "model").map(str::to_owned),
        other => text(other).map(str::to_owned),
    };
    match models {
        Value::Array(models) => models.iter().filter_map(one).collect(),
        other => one(other).into_iter().collect(),
    }
}

fn sandbox_type(sandbox: &Value) -> Option<String> {
    match sandbox {
        Value::Array(pair) => pair.first().and_then(text).map(str::to_owned),
        Value::Object(spec) => get_text(spec, "type").map(str::to_owned),
        other => text(other).map(str::to_owned),
    }
}

fn plan(log: &Map<String, Value>) -> Vec<PlanStep> {
    let steps = get_object(log, "plan").and_then(|plan| plan.get("steps"));
    let steps = match steps {
        Some(Value::Array(steps)) => steps.as_slice(),
        _ => &[],
    };
    steps
        .iter()
        .filter_map(object)
        .filter_map(|step| {
            Some(PlanStep {
                solver: get_text(step, "solver")?.to_owned(),
                params: get_object(step, "params").cloned().unwrap_or_default(),
            })
        })
        .collect()
}

type Metrics = BTreeMap<String, BTreeMap<String, Option<f64>>>;

/// The metrics of all scorers, and the name of the first.
fn metrics(results: &Map<String, Value>) -> (Metrics, Option<String>) {
    let mut all = Metrics::new();
    let mut first = None;
    let rows = match results.get("scores") {
        Some(Value::Array(rows)) => rows.as_slice(),
        _ => &[],
    };
    for row in rows.iter().filter_map(object) {
        let Some(scorer) = get_text(row, "scorer").or_else(|| get_text(row, "name")) else { continue };
        let name = get_text(row, "name").unwrap_or(scorer);
        first.get_or_insert_with(|| scorer.to_owned());
        let of_scorer = all.entry(scorer.to_owned()).or_default();
        for (metric, value) in metric_values(row) {
            let key = if name == scorer { metric } else { format!("{name}/{metric}") };
            // Several reducers give several rows of the same names; the first has the plain key.
            match (of_scorer.contains_key(&key), get_text(row, "reducer")) {
                (true, Some(reducer)) => of_scorer.insert(format!("{reducer}/{key}"), value),
                _ => of_scorer.insert(key, value),
            };
        }
    }
    // Format version 1: one scorer, its metrics beside it.
    if rows.is_empty()
        && let Some(scorer) = results.get("scorer").and_then(named)
    {
        first = Some(scorer.to_owned());
        all.insert(scorer.to_owned(), metric_values(results).collect());
    }
    (all, first)
}

/// The `metrics` of a row. A value that is not a finite number is null.
fn metric_values(row: &Map<String, Value>) -> impl Iterator<Item = (String, Option<f64>)> {
    let metrics = get_object(row, "metrics").into_iter().flatten();
    metrics.map(|(name, metric)| {
        let value = match unbox(metric) {
            Value::Object(metric) => metric.get("value").and_then(number),
            other => number(other),
        };
        (name.clone(), value)
    })
}

/// What the user says about a run; each goes before what the log says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunOptions {
    /// Shown name.
    pub name: Option<String>,
    /// Policy label.
    pub policy: Option<String>,
    /// Task set label.
    pub task_set: Option<String>,
    /// Tags; empty for those of the log.
    pub tags: Vec<String>,
}

/// The run header as far as the log's header and the user tell it. Sums over the trajectories are added by
/// [`Registration`](super::Registration).
pub fn run_header(facts: &HeaderFacts, options: &RunOptions) -> RunHeader {
    let recorded = |key: &str| get_text(&facts.metadata, key).map(str::to_owned);
    let mut metadata = facts.metadata.clone();
    for key in OWN_FIELDS {
        metadata.shift_remove(key);
    }
    let mut tags = Vec::new();
    for tag in if options.tags.is_empty() { &facts.tags } else { &options.tags } {
        add_tag(&mut tags, tag.clone());
    }
    let control = get(&facts.metadata, "attack_policy_selection").is_some();
    RunHeader {
        run_id: None,
        name: options
            .name
            .clone()
            .or_else(|| recorded("run_name"))
            .or_else(|| facts.task.clone())
            .unwrap_or_else(|| "unnamed".to_owned()),
        policy: options
            .policy
            .clone()
            .or_else(|| recorded("policy"))
            .or_else(|| family::policy_of_other_families(facts)),
        task_set: options.task_set.clone().or_else(|| recorded("task_set")),
        producer: Some(if control { Producer::ControlEval } else { Producer::Eval }),
        trajectory_count: None,
        eval_log_url: None,
        created_at: None,
        created_by: None,
        total_cost_usd: None,
        cost_by_model: BTreeMap::new(),
        metrics: facts.metrics.clone(),
        metadata,
        tags,
        description: None,
        comments: Vec::new(),
        dataset: None,
        models: None,
        control_settings: None,
        extra: Map::new(),
    }
}
