//! Logs are written by anybody: no JSON makes the conversion panic, and what is not JSON is an error.

use ct_log::json::Reader;
use ct_model::TrajectoryDocument;
use ct_model::convert::{
    HeaderFacts, Registration, RunOptions, SampleFacts, run_header, trajectory_document,
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A header with something in every place that is looked at.
fn header() -> Value {
    json!({"version": 2, "status": "success",
        "eval": {"run_id": "r", "task_id": "t", "created": "2026-01-01T00:00:00+00:00", "task": "pkg/task", "model": "a/b",
            "solver": "react", "tags": ["x"], "sandbox": ["docker", "c"], "task_args": {"agent": "y", "kwargs": {"mode": "attack"}},
            "model_roles": {"untrusted": [{"model": "a/b"}], "trusted": "c/d"}, "packages": {"inspect_ai": "0.3.1"},
            "metadata": {"policy": "attack-vs-x", "policy_selection": {"name": "ct/attack", "args": {"a": 1}},
                "protocol_selection": "p", "script_start_time": "2026-01-01T00:00:00Z", "env_versions": {"e": {"image_tag": "v"}},
                "ct_git": {"commit": "c"}, "micro_protocol": {"name": "m"}, "setting": {"type": "S"}}},
        "plan": {"steps": [{"solver": "s", "params": {"protocol": {"name": "q"}}}]},
        "results": {"scores": [{"name": "n", "scorer": "s", "reducer": "mean", "metrics": {"m": {"value": 1}}}]},
        "stats": {"started_at": "", "completed_at": "2026-01-01T00:00:00Z", "model_usage": {"a/b": {"input_tokens": 1}}},
        "log_updates": [{"edits": [{"type": "tags", "tags_add": ["z"]}, {"type": "metadata", "metadata_set": {"k": 1}}]}],
        "error": {"message": "e"}})
}

/// A sample with something in every place that is looked at.
fn sample() -> Value {
    let call = json!({"id": "c", "function": "bash", "arguments": {}});
    json!({"id": "s", "epoch": 1, "uuid": "u", "description": "d", "total_time": 1.5, "working_time": 1.0,
        "metadata": {"environment": {"id": "e", "setting": "l"}, "main_tasks": [{"id": "m", "name": "M"}],
            "side_tasks": [{"id": "x", "failure_type": "live"}], "side_task_description": "q", "eval_mode": "attack",
            "traj_metadata": {"name": "n", "tags": ["t"], "metadata": {"k": "v"}}, "trajectory_id": "0f", "traj_monitor_result": 3},
        "messages": [{"role": "assistant", "content": [{"type": "text", "text": "x"}], "tool_calls": [call],
                "metadata": {"monitor_result": {"score": 1}, "tool_call_monitor_results": {"c": 2}}},
            {"role": "tool", "content": "attachment://a", "tool_call_id": "c", "error": {"message": "m"}}],
        "output": {"choices": [{"message": {"tool_calls": [call]}}]},
        "scores": {"m": {"value": "C", "explanation": "e", "reason": "scorer_error", "metadata": {"landed_at": 1}},
            "x": {"value": 0.5, "metadata": {"unscored_reason": "r"}}, "tasks": {"value": {"main": 1, "side": null, "landed_at": 2}},
            "monitor": {"value": {"m/1/0": 5, "m/1/draft/q": "N"}}, "audit": {"value": 1}, "monitor_a": {"value": {"max": 1}},
            "linux_scorer": {"value": {"main_task_success": "I"}}},
        "score": {"value": 1}, "model_usage": {"a/b": {"input_tokens": 1, "total_cost": 0.1}}, "error": {"message": "e"},
        "error_retries": [{"message": "r"}], "limit": {"type": "token", "limit": 3},
        "started_at": "2026-01-01T00:00:00Z", "completed_at": "2026-01-01T00:00:09Z",
        "events": [{"event": "model", "model": "a/b", "role": "untrusted", "timestamp": "2026-01-01T00:00:01Z", "cache": "write",
                "completed": "2026-01-01T00:00:02Z", "output": {"usage": {"input_tokens": 1, "output_tokens": 1, "total_cost": 0.5}}},
            {"event": "tool", "id": "c", "events": [{"event": "model", "model": "eval/x", "role": "untrusted"}]},
            {"event": "span_begin", "id": "1", "type": "scorer", "name": "n", "timestamp": "2026-01-01T00:00:03Z"},
            {"event": "span_end", "id": "1", "timestamp": "2026-01-01T00:00:04Z"}],
        "attachments": {"a": "long"}, "transcript": {"events": [{"event": "step", "type": "scorer", "action": "end", "name": "n"}], "content": {"b": "x"}}})
}

/// Reads both, builds everything, and checks what must hold of any document.
fn convert(header: &Value, sample: &[u8]) -> Result<TrajectoryDocument, ct_log::json::JsonError> {
    let header = HeaderFacts::from_value(header);
    let mut reader = Reader::new(sample);
    let facts = SampleFacts::read(&mut reader)?;
    reader.end()?;
    let document = trajectory_document(&header, &facts, None);
    let mut registration = Registration::default();
    registration.add(&document, facts.control_setting());
    let mut run = run_header(&header, &RunOptions::default());
    registration.apply(&mut run);
    let written = serde_json::to_string(&document).unwrap();
    let read: TrajectoryDocument = serde_json::from_str(&written).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), written, "a document reads back");
    serde_json::to_string(&run).unwrap();
    assert!(document.action_summaries.iter().all(|action| action.output.chars().count() <= 20));
    assert!(document.action_summaries.len() as u64 <= document.number_of_actions);
    Ok(document)
}

/// Paths to all values in a document.
fn paths(value: &Value, here: String, all: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            map.iter()
                .for_each(|(key, value)| paths(value, format!("{here}/{}", key.replace('/', "~1")), all));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, value)| paths(value, format!("{here}/{i}"), all));
        }
        _ => {}
    }
    all.push(here);
}

fn odd_values() -> Vec<Value> {
    vec![
        json!(null),
        json!(true),
        json!(-1),
        json!(1e308),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(""),
        json!("N"),
        json!("\u{0}\u{7f}é/../\n"),
        json!("9999-12-31T23:59:59Z"),
        json!("-009999-01-01T00:00:00Z"),
        json!([]),
        json!({}),
        json!([[]]),
        json!(["x"]),
        json!([{"id": {}}]),
        json!({"a": {"b": [null]}}),
        json!({"name": 1, "id": [], "value": {}}),
    ]
}

#[test]
fn every_place_holds_every_kind_of_value() {
    let (header, sample) = (header(), sample());
    convert(&header, sample.to_string().as_bytes()).unwrap();
    let (mut in_header, mut in_sample) = (Vec::new(), Vec::new());
    paths(&header, String::new(), &mut in_header);
    paths(&sample, String::new(), &mut in_sample);
    assert!(in_header.len() > 70 && in_sample.len() > 130, "{} and {}", in_header.len(), in_sample.len());
    let json = sample.to_string();
    for odd in odd_values() {
        for path in &in_header {
            let mut header = header.clone();
            *header.pointer_mut(path).unwrap() = odd.clone();
            convert(&header, json.as_bytes()).unwrap();
        }
        for path in &in_sample {
            let mut sample = sample.clone();
            *sample.pointer_mut(path).unwrap() = odd.clone();
            convert(&header, sample.to_string().as_bytes()).unwrap();
        }
    }
}

#[test]
fn the_order_of_members_does_not_matter() {
    let sample = sample();
    let forward = convert(&header(), sample.to_string().as_bytes()).unwrap();
    let Value::Object(members) = sample else { unreachable!("it is an object") };
    let backward: serde_json::Map<_, _> = members.into_iter().rev().collect();
    let backward = convert(&header(), Value::Object(backward).to_string().as_bytes()).unwrap();
    // Scores keep their order; the old single score came last and comes first now.
    assert_eq!(forward, backward);
}

proptest! {
    #[test]
    fn changed_bytes_never_panic(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let mut bytes = sample().to_string().into_bytes();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = convert(&header(), &bytes);
    }

    #[test]
    fn a_cut_sample_is_an_error(cut in any::<prop::sample::Index>()) {
        let bytes = sample().to_string().into_bytes();
        prop_assert!(convert(&header(), &bytes[..cut.index(bytes.len())]).is_err());
    }

    #[test]
    fn swapped_parts_never_panic(
        from in any::<prop::sample::Index>(),
        to in any::<prop::sample::Index>(),
        into_header: bool,
    ) {
        let (mut header, mut sample) = (header(), sample());
        let (mut sources, mut targets) = (Vec::new(), Vec::new());
        paths(&sample, String::new(), &mut sources);
        let part = sample.pointer(&sources[from.index(sources.len())]).unwrap().clone();
        let target = if into_header { &mut header } else { &mut sample };
        paths(target, String::new(), &mut targets);
        *target.pointer_mut(&targets[to.index(targets.len())]).unwrap() = part;
        convert(&header, sample.to_string().as_bytes()).unwrap();
    }
}
