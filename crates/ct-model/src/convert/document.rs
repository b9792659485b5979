//! The trajectory document of one sample.

use std::collections::BTreeSet;
use std::io;

use serde::Serialize;
use serde_json::ser::Formatter;
use serde_json::{Map, Value};

use super::cost::costs;
use super::family::{Mode, Setting, setting};
use super::sample::SampleFacts;
use super::scores::outcomes;
use super::value::{get, get_object, get_text, text, texts, time_ms};
use super::{HeaderFacts, ModelCalls};
use crate::{ActionSummary, PriceTable, SampleError, Timing, TrajectoryDocument};

/// Builds the document of a sample. Ids, the log's address and the sample's place in it are the caller's to add.
pub fn trajectory_document(
    header: &HeaderFacts,
    sample: &SampleFacts,
    prices: Option<&PriceTable>,
) -> TrajectoryDocument {
    let setting = setting(header, sample);
    let outcomes = outcomes(sample, &setting);
    let costs = costs(sample, prices);
    let error = sample.error.as_ref().map(|message| SampleError {
        message: message.clone(),
        error_type: Some("eval_error".to_owned()),
        extra: Map::new(),
    });
    let attempts = |honest: bool, attack: bool| {
        setting.mode.map(|mode| match mode {
            Mode::Honest => honest,
            Mode::Attack => attack,
        })
    };
    // What was said about the trajectory before its log was made of downloaded ones.
    let empty = Map::new();
    let nested =
        get_object(&sample.metadata, "metadata").and_then(|inner| get_object(inner, "traj_metadata"));
    let said = get_object(&sample.metadata, "traj_metadata").or(nested).unwrap_or(&empty);

    TrajectoryDocument {
        trajectory_id: None,
        run_id: None,
        eval_log_url: None,
        eval_sample_id: sample.id.clone(),
        epoch: sample.epoch,
        name: get_text(said, "name").map_or_else(|| name(&setting), str::to_owned),
        tags: said.get("tags").map(texts).unwrap_or_default(),
        datasets: Vec::new(),
        description: get_text(said, "description").map(str::to_owned),
        metadata: metadata(header, &setting, get_object(said, "metadata")),
        eval_metadata: header.metadata.clone(),
        eval_sample_range: None,
        main_task_success: outcomes.main,
        side_task_success: outcomes.side,
        task_scores: outcomes.task_scores,
        tasks: outcomes.tasks,
        audit_scores: (!outcomes.audits.is_empty()).then_some(outcomes.audits),
        timing: timing(header, sample),
        cost: costs.total,
        cost_by_role: costs.by_role,
        token_usage: (!sample.model_usage.is_empty()).then(|| sample.model_usage.clone()),
        models: models(header, sample),
        error: error.or(outcomes.failure),
        monitors: (!outcomes.monitors.is_empty()).then_some(outcomes.monitors),
        number_of_actions: sample.tool_call_count,
        authors: authors(header, sample),
        attempts_mt: attempts(true, true),
        attempts_st: attempts(false, true),
        attempts_sneaky: attempts(false, true),
        action_summaries: sample
            .tool_calls
            .iter()
            .zip(0..)
            .map(|(call, index)| ActionSummary {
                function: call.function.clone(),
                index,
                output: call.output.clone(),
                extra: Map::new(),
            })
            .collect(),
        extra: Map::new(),
        environment: setting.environment,
        main_task: setting.main_task,
        side_task: setting.side_task,
    }
}

/// `<main> - <side> - <policy>`, as far as they are known.
fn name(setting: &Setting) -> String {
    let main = setting.main_task.as_ref().and_then(|task| task.id.as_deref());
    let side = setting.side_task.as_ref().and_then(|task| task.id.as_deref());
    let parts: Vec<&str> = [main, side, setting.policy_label.as_deref()].into_iter().flatten().collect();
    if parts.is_empty() { "Unnamed Trajectory".to_owned() } else { parts.join(" - ") }
}

/// Strings about how the sample was made.
fn metadata(
    header: &HeaderFacts,
    setting: &Setting,
    said: Option<&Map<String, Value>>,
) -> Map<String, Value> {
    let recorded = |key: &str| get_text(&header.metadata, key).map(str::to_owned);
    let commit =
        get_object(&header.metadata, "ct_git").and_then(|git| get_text(git, "commit")).map(str::to_owned);
    let fields = [
        ("policy", setting.policy.clone()),
        ("policy_args", setting.policy_args.as_ref().and_then(args_text)),
        ("protocol", setting.protocol.clone()),
        ("protocol_args", setting.protocol_args.as_ref().and_then(args_text)),
        ("command", recorded("command")),
        ("ct_version", recorded("ct_version")),
        ("ct_commit", commit),
        ("env_version", environment_version(header, setting)),
    ];
    let mut metadata = Map::new();
    for (key, value) in fields {
        if let Some(value) = value {
            metadata.insert(key.to_owned(), Value::String(value));
        }
    }
    for (key, value) in said.into_iter().flatten() {
        if !metadata.contains_key(key) && value.is_string() {
            metadata.insert(key.clone(), value.clone());
        }
    }
    metadata
}

/// The version of the sample's environment: a plain text, or the tag or commit of an image.
fn environment_version(header: &HeaderFacts, setting: &Setting) -> Option<String> {
    let id = setting.environment.as_ref()?.id.as_deref()?;
    let version = get(get_object(&header.metadata, "env_versions")?, id)?;
    match version {
        Value::Object(image) => get_text(image, "image_tag").or_else(|| get_text(image, "commit")),
        other => text(other),
    }
    .map(str::to_owned)
}

/// Arguments as JSON with a space behind `,` and `:`.
fn args_text(args: &Map<String, Value>) -> Option<String> {
    struct Spaced;
    impl Formatter for Spaced {
        fn begin_array_value<W: ?Sized + io::Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
            if first { Ok(()) } else { out.write_all(b", ") }
        }
        fn begin_object_key<W: ?Sized + io::Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
            if first { Ok(()) } else { out.write_all(b", ") }
        }
        fn begin_object_value<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
            out.write_all(b": ")
        }
    }
    let mut out = Vec::new();
    args.serialize(&mut serde_json::Serializer::with_formatter(&mut out, Spaced)).ok()?;
    String::from_utf8(out).ok()
}

fn timing(header: &HeaderFacts, sample: &SampleFacts) -> Option<Timing> {
    let run_started_at = get_text(&header.metadata, "script_start_time").and_then(time_ms);
    let time_started = sample.first_event_ms.or(sample.started_at_ms);
    let between = |from: Option<i64>, to: Option<i64>| from.zip(to).map(|(from, to)| to.saturating_sub(from));
    let time_to_run = sample
        .working_time
        .map(|seconds| (seconds * 1000.0).round() as i64)
        .or_else(|| between(sample.first_event_ms, sample.last_event_ms))
        .or_else(|| between(sample.started_at_ms, sample.completed_at_ms));
    let timing = Timing {
        run_started_at,
        time_started,
        time_completed: time_started.zip(time_to_run).map(|(started, ran)| started.saturating_add(ran)),
        time_to_start: between(run_started_at, time_started),
        time_to_run,
        scorer_timings: (!sample.scorer_ms.is_empty()).then(|| sample.scorer_ms.clone()),
        extra: Map::new(),
    };
    (timing != Timing::default()).then_some(timing)
}

/// Models used: those with tokens, else those of the calls, else for logs that record neither the eval's model.
fn models(header: &HeaderFacts, sample: &SampleFacts) -> Vec<String> {
    let mut models: BTreeSet<String> = sample.model_usage.keys().cloned().collect();
    if models.is_empty() {
        models.extend(sample.model_calls.iter().map(|ModelCalls { model, .. }| model.clone()));
    }
    if models.is_empty() && sample.has_output {
        models.extend(header.model.clone().filter(|model| model != "none/none"));
    }
    models.into_iter().collect()
}

/// Short names of the untrusted models: of the calls, else of the roles.
fn authors(header: &HeaderFacts, sample: &SampleFacts) -> Vec<String> {
    let mut authors: BTreeSet<String> =
        sample.untrusted_models.iter().map(|model| short_name(model)).collect();
    if authors.is_empty() {
        let of_eval = header.model_roles.get("untrusted").cloned().unwrap_or_default();
        let of_metadata = get_object(&header.metadata, "model_roles")
            .and_then(|roles| roles.get("untrusted"))
            .map(texts)
            .unwrap_or_default();
        let models = if of_eval.is_empty() { of_metadata } else { of_eval };
        authors.extend(models.iter().map(|model| short_name(model)));
    }
    authors.into_iter().filter(|author| !author.is_empty()).collect()
}

/// A model's name without its provider and without a release date `-YYYY-MM-DD`.
fn short_name(model: &str) -> String {
    let name = model.rsplit('/').next().unwrap_or(model);
    let date_bytes = "-YYYY-MM-DD".len();
    let is_date = |text: &[u8]| {
        text.iter().enumerate().all(|(i, b)| match i {
            0 | 5 | 8 => *b == b'-',
            _ => b.is_ascii_digit(),
        })
    };
    match name.len().checked_sub(date_bytes) {
        Some(at) if at > 0 && is_date(&name.as_bytes()[at..]) => name[..at].to_owned(),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn short_names_lose_provider_and_date() {
        for (model, name) in [
            ("openai/gpt-4o-2024-08-06", "gpt-4o"),
            ("anthropic/claude-haiku-4-5-20251001", "claude-haiku-4-5-20251001"),
            ("openrouter/x/y:free", "y:free"),
            ("-2024-08-06", "-2024-08-06"),
            ("é-2024-08-0é", "é-2024-08-0é"),
            ("m-2024-08-06-x", "m-2024-08-06-x"),
            ("", ""),
        ] {
            assert_eq!(short_name(model), name, "{model}");
        }
    }

    #[test]
    fn arguments_are_written_spaced() {
        let args = json!({"a": [1, 2], "b": {"c": null}, "d": "x"});
        assert_eq!(
            args.as_object().and_then(args_text).unwrap(),
            r#"{"a": [1, 2], "b": {"c": null}, "d": "x"}"#
        );
    }
}
