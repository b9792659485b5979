//! The header: who ran what how, at the beginning, and with what result, at the end.

use std::collections::BTreeMap;
use std::path::Path;

use ct_environment::Place;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::events::{time, usages_json};
use super::sample::error_json;
use crate::model::Model;
use crate::outcome::Totals;
use crate::spec::EvalSpec;

/// Ids of a log, which a resumed one keeps.
#[derive(Debug, Clone)]
pub(crate) struct LogIds {
    pub(crate) eval_id: String,
    pub(crate) run_id: String,
    pub(crate) task_id: String,
    pub(crate) created: String,
}

impl LogIds {
    pub(crate) fn new() -> Self {
        let created = format!("{:.0}", Timestamp::now()).replace('Z', "+00:00");
        Self { eval_id: super::new_id(), run_id: super::new_id(), task_id: super::new_id(), created }
    }
}

impl LogIds {
    /// Those of a log that began so.
    pub(crate) fn of(start: &Value) -> Self {
        let text = |key: &str| start["eval"][key].as_str().unwrap_or_default().to_owned();
        let (eval_id, run_id) = (text("eval_id"), text("run_id"));
        Self { eval_id, run_id, task_id: text("task_id"), created: text("created") }
    }
}

/// What the header says at the end.
pub(crate) struct HeaderParts<'a> {
    pub(crate) status: &'a str,
    pub(crate) totals: &'a Totals,
    pub(crate) started_at: Timestamp,
    pub(crate) error: Option<&'a str>,
}

/// The policy as selections name it: with its package.
pub(crate) fn selected_name(policy: &str) -> String {
    format!("ct/{policy}")
}

/// `{version, eval, plan}`: what a log begins with.
pub(crate) fn start(spec: &EvalSpec, ids: &LogIds, sandbox: &Value) -> Value {
    json!({"version": 2, "eval": eval(spec, ids, sandbox), "plan": plan(spec)})
}

/// The whole header of a log that began with `start`.
pub(crate) fn header(start: &Value, parts: &HeaderParts<'_>) -> Value {
    let totals = parts.totals;
    let mut header = json!({
        "version": 2, "status": parts.status, "eval": start["eval"], "plan": start["plan"], "invalidated": false,
        "tags": start["eval"]["tags"], "metadata": start["eval"]["metadata"],
        "results": {
            "total_samples": totals.samples, "completed_samples": totals.completed + totals.not_ready,
            "scores": totals.scores_json(),
        },
        "stats": {
            "started_at": time(parts.started_at), "completed_at": time(Timestamp::now()),
            "model_usage": usages_json(&totals.usage), "role_usage": usages_json(&totals.role_usage),
            "connection_limit_history": [],
        },
    });
    if let (Some(error), Value::Object(header)) = (parts.error, &mut header) {
        header.insert("error".to_owned(), error_json(error));
    }
    header
}

fn plan(spec: &EvalSpec) -> Value {
    let args = Value::Object(spec.policy.args().clone());
    json!({
        "name": "plan", "config": {},
        "steps": [{"solver": selected_name(spec.policy.name()), "params": args, "params_passed": args}],
    })
}

fn eval(spec: &EvalSpec, ids: &LogIds, sandbox: &Value) -> Value {
    let sample_ids: Vec<&str> = spec.samples.iter().map(|sample| sample.id.as_str()).collect();
    let limits = &spec.limits;
    let mut config = json!({
        "epochs": spec.epochs, "fail_on_error": spec.fail_on_error, "max_samples": spec.samples_max,
        "continue_on_fail": !spec.fail_on_error, "log_samples": true,
    });
    let optional = [
        ("message_limit", limits.messages.map(Value::from)),
        ("token_limit", limits.tokens.map(Value::from)),
        ("time_limit", limits.time.map(|time| Value::from(time.as_secs()))),
        ("cost_limit", limits.cost_usd.map(Value::from)),
    ];
    extend(&mut config, optional);
    let model_roles: Map<String, Value> = spec
        .model
        .iter()
        .map(|model| {
            let mut role = json!({"model": model.name(), "config": model.config(), "args": {}});
            extend(&mut role, [("base_url", model.base_url().map(Value::from))]);
            ("untrusted".to_owned(), role)
        })
        .collect();
    let mut eval = json!({
        "eval_id": ids.eval_id, "run_id": ids.run_id, "created": ids.created, "task": spec.run_name,
        "task_id": ids.task_id, "task_version": 0, "task_registry_name": "control_tower/eval",
        "task_attribs": {}, "task_args": {}, "task_args_passed": {},
        "solver": selected_name(spec.policy.name()), "solver_args": spec.policy.args(),
        "solver_args_passed": spec.policy.args(), "tags": spec.tags,
        "dataset": {"name": spec.task_set, "samples": spec.samples.len(), "sample_ids": sample_ids, "shuffled": false},
        "model": "none/none", "model_generate_config": generate_config(spec), "model_args": {}, "config": config,
        "packages": {"control_tower": spec.about.version}, "metadata": metadata(spec, sandbox),
    });
    if !model_roles.is_empty() {
        extend(&mut eval, [("model_roles", Some(Value::Object(model_roles)))]);
    }
    if let Some(kind) = sandbox.get("type") {
        extend(&mut eval, [("sandbox", Some(json!({"type": kind})))]);
    }
    eval
}

/// How models are asked: the same for all of a run.
fn generate_config(spec: &EvalSpec) -> Value {
    spec.model.as_ref().map_or_else(|| json!({}), Model::config)
}

fn extend<const N: usize>(object: &mut Value, fields: [(&str, Option<Value>); N]) {
    if let Value::Object(object) = object {
        object.extend(fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
    }
}

/// The run's metadata, in the family's shape. What is not set is null.
fn metadata(spec: &EvalSpec, sandbox: &Value) -> Value {
    let name = selected_name(spec.policy.name());
    let args = Value::Object(spec.policy.args().clone());
    let mut environments: Vec<String> = spec.samples.iter().map(|s| s.environment.long_name()).collect();
    environments.sort();
    environments.dedup();
    let versions: Map<String, Value> = spec
        .samples
        .iter()
        .map(|sample| (sample.environment.name.clone(), Value::from(sample.environment.version.as_str())))
        .collect();
    let digests: Map<String, Value> = spec
        .samples
        .iter()
        .map(|sample| (sample.environment.long_name(), Value::from(sample.environment.digest.as_str())))
        .collect();
    let mut asked = json!({});
    extend(
        &mut asked,
        [
            ("sandbox", spec.sandbox.kind.map(|kind| kind.as_str().into())),
            ("image", spec.sandbox.image.as_deref().map(Value::from)),
            ("prices", spec.prices.as_ref().map(|path| path.to_string_lossy().into())),
        ],
    );
    let mut local: BTreeMap<&Path, &str> = BTreeMap::new();
    for environment in spec.samples.iter().map(|sample| &sample.environment) {
        if environment.place == Place::Folder {
            local.insert(&environment.folder, &environment.digest);
        }
    }
    let local: Vec<Value> = local
        .iter()
        .map(|(path, digest)| json!({"path": path.to_string_lossy(), "sha256": digest}))
        .collect();
    let mut selection = spec.selection.clone();
    // Enough to run what is missing when the run is resumed.
    extend(
        &mut selection,
        [(
            "samples",
            Some(Value::Array(
                spec.samples
                    .iter()
                    .map(|sample| {
                        json!({
                            "id": sample.id, "environment": sample.environment.long_name(),
                            "main_tasks": sample.mains, "side_tasks": sample.sides, "replays": sample.replays,
                        })
                    })
                    .collect(),
            )),
        )],
    );
    json!({
        "run_name": spec.run_name, "policy": name, "task_set": spec.task_set, "tags": spec.tags,
        "policy_selection": {"name": name, "args": args},
        "honest_policy_selection": null, "attack_policy_selection": null, "protocol_selection": null,
        "policy_args": args, "honest_policy_args": null, "attack_policy_args": null, "protocol_args": null,
        "task_selection": selection, "sandbox_config": sandbox, "asked": asked,
        "eval_args": {"scorer_timeout": null, "score_main_on_attack": true},
        "model_roles": spec.model.iter().map(|model| ("untrusted".to_owned(), Value::from(model.name())))
            .collect::<Map<String, Value>>(),
        "white": {"private_tools": [], "harnesses": null, "max_steps": spec.limits.messages},
        "command": spec.about.command, "script_start_time": spec.about.started_at.to_string(),
        "ct_version": spec.about.version, "ct_setting_sdk_version": null, "eval_version": "3.0",
        "ct_git": spec.about.commit.as_ref().map(|commit| json!({"commit": commit, "dirty": null, "remote_url": null})),
        "env_versions": versions, "environments": environments, "environment_digests": digests,
        "locally_loaded": if local.is_empty() { Value::Null } else { Value::Array(local) }, "converted_from": null,
    })
}
