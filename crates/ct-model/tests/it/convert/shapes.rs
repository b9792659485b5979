//! What one pass over a sample finds, whatever shape and order it is written in.

use ct_model::convert::limits::{
    METADATA_BYTES_MAX, OTHER_METADATA_BYTES_MAX, TAGS_MAX, TASKS_MAX, TOOL_CALLS_MAX,
};
use ct_model::convert::{HeaderFacts, RunOptions, SampleFacts, SampleNote, ToolCall, run_header};
use ct_model::{MonitorSummary, Producer, TaskRole, TaskScore};
use serde_json::{Value, json};

use super::{document, sample};

fn call(function: &str, output: &str) -> ToolCall {
    ToolCall { function: function.to_owned(), output: output.to_owned() }
}

fn assistant(calls: &[(&str, &str)]) -> Value {
    let calls: Vec<Value> = calls
        .iter()
        .map(|(id, function)| json!({"id": id, "function": function, "arguments": {"id": "x", "function": "y"}}))
        .collect();
    json!({"role": "assistant", "content": "", "tool_calls": calls})
}

fn answer(id: &str, content: Value) -> Value {
    json!({"content": content, "role": "tool", "tool_call_id": id})
}

#[test]
fn tool_calls_meet_their_answers() {
    let facts = sample(&json!({"id": 7, "epoch": 2, "messages": [
        {"role": "user", "content": "go", "tool_calls": [{"id": "no", "function": "user turns call nothing"}]},
        assistant(&[("a", "bash"), ("b", "python")]),
        answer("b", json!("second answers first")),
        answer("a", json!([{"type": "text", "text": "two"}, {"type": "image", "image": "x"}, {"type": "text", "text": "parts"}])),
        // The same id again, as several agents in one conversation give them.
        assistant(&[("a", "again")]),
        answer("a", json!("twenty-one characters")),
        assistant(&[("c", "silent"), ("d", "é")]),
        answer("zzz", json!("answers nobody")),
        answer("d", json!("éééééééééééééééééééééé")),
        {"role": "tool", "tool_call_id": "c", "content": "", "error": {"type": "timeout", "message": "took too long to answer"}},
    ]}));
    assert_eq!((facts.id.as_str(), facts.id_is_number, facts.epoch), ("7", true, 2));
    assert_eq!(facts.message_count, 10);
    assert_eq!(
        facts.tool_calls,
        [
            call("bash", "two\nparts"),
            call("python", "second answers first"),
            call("again", "twenty-one character"),
            call("silent", "took too long to ans"),
            call("é", "éééééééééééééééééééé"),
        ]
    );
    assert_eq!(facts.tool_call_count, 5);
}

#[test]
fn calls_of_the_final_output_count_once() {
    let output = |id: &str| {
        json!({"choices": [
            {"message": assistant(&[(id, "submit")])},
            {"message": assistant(&[("other", "a choice not taken")])},
        ]})
    };
    let messages = json!([assistant(&[("a", "submit")]), answer("a", json!("ok"))]);
    let facts = sample(&json!({"messages": messages, "output": output("a")}));
    assert_eq!(facts.tool_calls, [call("submit", "ok")]);
    // The output may come first.
    for json in [
        json!({"messages": messages, "output": output("z")}),
        json!({"output": output("z"), "messages": messages}),
    ] {
        assert_eq!(sample(&json).tool_calls, [call("submit", "ok"), call("submit", "")]);
    }
}

#[test]
fn verdicts_of_monitors_are_not_actions() {
    let verdict = json!({"role": "assistant", "metadata": {"is_monitor_result": true, "monitor_result": 7},
        "tool_calls": [{"id": "v", "function": "verdict"}]});
    let json = json!({"id": "s", "messages": [assistant(&[("a", "bash")]), verdict,
        {"role": "user", "metadata": {"monitor_result": {"sus_score": 9.5}}},
        {"role": "user", "metadata": {"tool_call_monitor_results": {"a": {"score": 3}, "b": {"score": null}}}}]});
    assert_eq!(sample(&json).tool_calls, [call("bash", "")]);
    let monitors = document(&json!({}), &json, None).monitors.unwrap();
    assert_eq!(
        monitors["monitor"],
        MonitorSummary { max: Some(9.5), unscored: 1, extra: serde_json::Map::new() }
    );
}

#[test]
fn outputs_in_attachments_are_found_before_and_behind() {
    let messages = json!([
        assistant(&[("a", "bash"), ("b", "bash"), ("c", "bash"), ("d", "bash")]),
        answer("a", json!("attachment://0123456789abcdef0123456789abcdef")),
        answer("b", json!("attachment://12")),
        answer("c", json!("attachment://missing")),
        answer("d", json!([{"type": "text", "text": "tc://old"}])),
    ]);
    let attachments = json!({
        "unused": "x", "0123456789abcdef0123456789abcdef": "a long output of a tool", "12": "chunked", "old": "older"
    });
    let expected = [
        call("bash", "a long output of a t"),
        call("bash", "chunked"),
        call("bash", "attachment://missing"),
        call("bash", "older"),
    ];
    for json in [
        json!({"messages": messages, "attachments": attachments}),
        json!({"attachments": attachments, "messages": messages}),
        json!({"messages": messages, "transcript": {"events": [], "content": attachments}}),
    ] {
        assert_eq!(sample(&json).tool_calls, expected);
    }
}

#[test]
fn events_of_all_ages_give_times_and_models() {
    let model = |at: u32, model: &str| {
        json!({"event": "model", "timestamp": format!("2024-09-01T10:00:{at:02}+00:00"), "model": model,
            "input": [{"role": "user", "content": "\"}]"}], "output": {"usage": {"input_tokens": 1, "output_tokens": 2}}})
    };
    let nested = json!([
        {"event": "step", "action": "begin", "type": "scorer", "name": "match", "timestamp": "2024-09-01T10:00:05+00:00"},
        {"event": "tool", "timestamp": "2024-09-01T12:00:06+02:00", "events": [
            model(7, "inner/one"),
            {"event": "subtask", "timestamp": "2024-09-01T10:00:08+00:00", "events": [model(9, "inner/two")]},
        ]},
        model(4, "outer/one"),
        {"event": "step", "action": "end", "type": "scorer", "name": "match", "timestamp": "2024-09-01T10:00:30.5+00:00"},
        {"event": "quantum", "events": {"a": 1}, "timestamp": 7, "model": ["x"], "output": null},
        null, 3, "x", [],
    ]);
    let start = "2024-09-01T10:00:00Z".parse::<jiff::Timestamp>().unwrap().as_millisecond();
    for json in [json!({"events": nested}), json!({"transcript": {"events": nested}})] {
        let facts = sample(&json);
        assert_eq!(facts.first_event_ms, Some(start + 4_000));
        assert_eq!(facts.last_event_ms, Some(start + 30_500));
        let models: Vec<&str> = facts.model_calls.iter().map(|calls| calls.model.as_str()).collect();
        assert_eq!(models, ["inner/one", "inner/two", "outer/one"]);
        assert_eq!(facts.scorer_ms["match"], 25_500);
        let document = document(&json!({}), &json, None);
        let timing = document.timing.unwrap();
        assert_eq!((timing.time_started, timing.time_to_run), (Some(start + 4_000), Some(26_500)));
        assert_eq!(timing.time_completed, Some(start + 30_500));
        assert_eq!(timing.run_started_at, None);
        assert_eq!(document.models, ["inner/one", "inner/two", "outer/one"]);
    }
}

#[test]
fn scorer_spans_are_timed() {
    let span = |event: &str, id: &str, kind: &str, at: u32| json!({"event": event, "id": id, "type": kind, "name": id, "timestamp": format!("2026-01-01T00:00:{at:02}Z")});
    let facts = sample(&json!({"events": [
        span("span_begin", "scorers", "scorers", 1),
        span("span_begin", "match", "scorer", 2),
        span("span_begin", "solver", "solver", 3),
        span("span_end", "solver", "", 4),
        span("span_end", "match", "", 9),
        span("span_end", "never begun", "", 9),
    ]}));
    assert_eq!(Value::Object(facts.scorer_ms), json!({"match": 7000}));
}

#[test]
fn times_come_from_the_sample_where_there_are_no_events() {
    let header = json!({"eval": {"metadata": {"script_start_time": "2026-01-01T00:00:00Z"}}});
    let json =
        json!({"started_at": "2026-01-01T00:01:00+00:00", "completed_at": "2026-01-01T00:01:30+00:00"});
    let timing = document(&header, &json, None).timing.unwrap();
    let start = timing.run_started_at.unwrap();
    assert_eq!(timing.time_started, Some(start + 60_000));
    assert_eq!(timing.time_to_start, Some(60_000));
    assert_eq!(timing.time_to_run, Some(30_000));
    assert_eq!(timing.time_completed, Some(start + 90_000));
    assert_eq!(document(&json!({}), &json!({}), None).timing, None);
}

#[test]
fn scalars_in_boxes_and_lists_for_objects_read_the_same() {
    let plain = json!({"id": "s", "epoch": 3, "metadata": {}, "scores": {"match": {"value": "C", "explanation": "e"}},
        "messages": [{"role": "assistant", "tool_calls": [{"id": "a", "function": "bash"}]},
            {"role": "tool", "tool_call_id": "a", "content": "out"}],
        "model_usage": {}, "error": {"message": "no"}, "total_time": 2.5, "uuid": "u",
        "output": {"choices": [{"message": {"role": "assistant"}}]}});
    let boxed = json!({"id": ["s"], "epoch": [3], "metadata": [],
        "scores": {"match": {"value": ["C"], "explanation": ["e"]}},
        "messages": [{"role": ["assistant"], "tool_calls": [{"id": ["a"], "function": ["bash"]}]},
            {"role": ["tool"], "tool_call_id": ["a"], "content": ["out"]}],
        "model_usage": [], "error": {"message": ["no"]}, "total_time": [2.5], "uuid": ["u"],
        "output": {"choices": [{"message": {"role": ["assistant"]}}]}});
    let header = json!({"status": "success", "eval": {"task": "T", "model": "m", "metadata": {}, "tags": ["x"],
        "created": "2024-01-01T00:00:00+00:00", "run_id": "r", "task_id": "t"},
        "results": {"scores": [{"name": "match", "scorer": "match", "metrics": {"accuracy": {"value": 0.5}}}]}});
    let boxed_header = json!({"status": ["success"], "eval": {"task": ["T"], "model": ["m"], "metadata": [],
        "tags": ["x"], "created": ["2024-01-01T00:00:00+00:00"], "run_id": ["r"], "task_id": ["t"]},
        "results": {"scores": [{"name": ["match"], "scorer": ["match"], "metrics": {"accuracy": {"value": [0.5]}}}]}});
    assert_eq!(HeaderFacts::from_value(&header), HeaderFacts::from_value(&boxed_header));
    let (plain, boxed) = (document(&header, &plain, None), document(&boxed_header, &boxed, None));
    assert_eq!(plain, boxed);
    assert_eq!(plain.main_task_success, Some(true));
    assert_eq!(plain.models, ["m"]);
}

#[test]
fn a_header_of_version_1() {
    let header = HeaderFacts::from_value(&json!({"version": 1, "status": "success",
        "eval": {"task": "old", "model": "m", "run_id": "run", "task_id": "task", "created": "2024-03-04T10:20:30-05:00"},
        "results": {"scorer": {"name": "match", "params": {}},
            "metrics": {"accuracy": {"name": "accuracy", "value": 0.75, "options": {}}, "odd": null}}}));
    assert_eq!(header.first_scorer.as_deref(), Some("match"));
    assert_eq!(header.metrics["match"]["accuracy"], Some(0.75));
    assert_eq!(header.metrics["match"]["odd"], None);
    // base57_id_hash("run" + "task" + "2024-03-04T15:20:30+00:00") of inspect_ai 0.3.285.
    assert_eq!(header.eval_id.as_deref(), Some("aevQ3GUVJ7MXva5XRAaJJh"));
    assert!(header.eval_id_derived);
}

#[test]
fn edits_of_a_header_count() {
    let header = json!({"eval": {"task": "t", "tags": ["a", "b", "a"], "metadata": {"run_name": "first", "x": 1, "y": 2}},
    "log_updates": [
        {"edits": [{"type": "tags", "tags_add": ["c"], "tags_remove": ["a"]},
            {"type": "metadata", "metadata_set": {"run_name": "second", "z": [3]}, "metadata_remove": ["x"]}]},
        {"edits": [{"type": "tags", "tags_add": ["b", "a"]}, {"type": "later kind"}, null]},
    ]});
    let facts = HeaderFacts::from_value(&header);
    assert_eq!(facts.tags, ["b", "c", "a"]);
    let run = run_header(&facts, &RunOptions::default());
    assert_eq!(run.name, "second");
    assert_eq!(Value::Object(run.metadata), json!({"y": 2, "z": [3]}));
    assert_eq!(run.producer, Some(Producer::Eval));
}

#[test]
fn options_go_before_the_log() {
    let facts = HeaderFacts::from_value(&json!({"eval": {"task": "t", "tags": ["eval"], "metadata": {
        "run_name": "n", "policy": "p", "task_set": "s", "tags": ["meta"],
        "attack_policy_selection": {"name": "ct/attack"}}}}));
    let run = run_header(&facts, &RunOptions::default());
    assert_eq!(
        (
            run.name.as_str(),
            run.policy.as_deref(),
            run.task_set.as_deref(),
            run.tags.as_slice(),
            run.producer
        ),
        ("n", Some("p"), Some("s"), ["meta".to_owned()].as_slice(), Some(Producer::ControlEval))
    );
    assert_eq!(run.metadata.keys().collect::<Vec<_>>(), ["attack_policy_selection"]);
    let options = RunOptions {
        name: Some("N".to_owned()),
        policy: Some("P".to_owned()),
        task_set: Some("S".to_owned()),
        tags: vec!["a".to_owned(), "b".to_owned(), "a".to_owned()],
    };
    let run = run_header(&facts, &options);
    assert_eq!(
        (run.name.as_str(), run.policy.as_deref(), run.task_set.as_deref(), run.tags.as_slice()),
        ("N", Some("P"), Some("S"), ["a".to_owned(), "b".to_owned()].as_slice())
    );
    let bare = run_header(&HeaderFacts::from_value(&json!(null)), &RunOptions::default());
    assert_eq!((bare.name.as_str(), bare.policy), ("unnamed", None));
}

#[test]
fn metrics_of_dict_scorers_and_of_several_reducers() {
    let row = |name: &str, reducer: &str, value: Value| json!({"name": name, "scorer": "s", "reducer": reducer, "metrics": {"mean": {"name": "mean", "value": value}}});
    let facts = HeaderFacts::from_value(&json!({"results": {"scores": [
        row("s", "mean", json!(0.5)), row("s", "max", json!(1)), row("part", "mean", json!(null)),
    ]}}));
    assert_eq!(
        serde_json::to_value(&facts.metrics).unwrap(),
        json!({"s": {"mean": 0.5, "max/mean": 1.0, "part/mean": null}})
    );
}

#[test]
fn what_is_too_large_is_left_out_and_said() {
    let big = "x".repeat(OTHER_METADATA_BYTES_MAX);
    let facts = sample(&json!({"metadata": {"files": big, "task_name": "t", "small": 1}}));
    assert_eq!(Value::Object(facts.metadata), json!({"task_name": "t", "small": 1}));
    assert_eq!(facts.notes, []);

    let huge = "x".repeat(METADATA_BYTES_MAX);
    let facts = sample(&json!({"id": "s", "metadata": {"environment": huge, "task_name": "t"}}));
    assert_eq!(Value::Object(facts.metadata), json!({"task_name": "t"}));
    let field = "metadata.environment".to_owned();
    assert_eq!(facts.notes, [SampleNote::TooLarge { field, bytes_max: METADATA_BYTES_MAX }]);

    let deep =
        format!(r#"{{"metadata": {{"environment": {}1{}}}, "epoch": 4}}"#, "[".repeat(900), "]".repeat(900));
    let facts = SampleFacts::read(&mut ct_log::json::Reader::new(deep.as_bytes())).unwrap();
    assert_eq!(facts.notes, [SampleNote::Unreadable { field: "metadata.environment".to_owned() }]);
    assert_eq!(facts.epoch, 4);
}

#[test]
fn all_tool_calls_are_counted_though_not_all_are_kept() {
    let many = TOOL_CALLS_MAX + 5;
    let turn = r#"{"role":"assistant","tool_calls":[{"id":"","function":"f"}]}"#;
    let json = format!(r#"{{"messages":[{}]}}"#, vec![turn; many].join(","));
    let facts = SampleFacts::read(&mut ct_log::json::Reader::new(json.as_bytes())).unwrap();
    assert_eq!((facts.tool_call_count as usize, facts.tool_calls.len()), (many, TOOL_CALLS_MAX));
    assert_eq!(facts.notes, [SampleNote::TooMany { what: "tool calls", kept: TOOL_CALLS_MAX }]);
}

#[test]
fn lists_without_end_are_cut() {
    let tasks: Vec<Value> =
        (0..TASKS_MAX + 10).map(|i| json!({"id": i, "task_category": i.to_string()})).collect();
    let found = document(&json!({}), &json!({"metadata": {"main_tasks": tasks}}), None);
    let id = found.main_task.unwrap().id.unwrap();
    assert_eq!(id.split('+').count(), TASKS_MAX);
    let tags: Vec<String> = (0..TAGS_MAX + 10).map(|i| i.to_string()).collect();
    assert_eq!(HeaderFacts::from_value(&json!({"eval": {"tags": tags}})).tags, tags[..TAGS_MAX]);
}

#[test]
fn numbers_that_only_python_writes() {
    let raw = br#"{"id": 123456789012345678901234567890, "epoch": NaN, "scores": {"a": {"value": NaN}, "b": {"value": 1e400}},
        "total_time": Infinity, "metadata": {"x": -Infinity, "environment": "\ud800"}}"#;
    let facts = SampleFacts::read(&mut ct_log::json::Reader::new(raw.as_slice())).unwrap();
    assert_eq!((facts.id.as_str(), facts.id_is_number), ("123456789012345678901234567890", true));
    assert_eq!((facts.epoch, facts.total_time), (1, None));
    assert!(facts.scores.iter().all(|score| score.value.is_null()));
    assert_eq!(Value::Object(facts.metadata), json!({"environment": "\\ud800"}));
}

fn ct_sample(scores: Value) -> Value {
    json!({"id": "s", "metadata": {"environment": {"id": "e"}, "main_tasks": [{"id": "m1"}, {"id": "m2"}],
        "side_tasks": [{"id": "side"}]}, "scores": scores})
}

#[test]
fn task_scores_and_their_reasons() {
    let document = document(
        &json!({"eval": {"metadata": {"eval_version": "3.0"}}}),
        &ct_sample(json!({
            "m2": {"value": "P"},
            "m1": {"value": "N", "reason": "refusal"},
            "side": {"value": null, "explanation": "no answer in 600 s", "metadata": {"unscored_reason": "scorer_timeout", "landed_at": 12}},
            "tasks": {"value": {"main": 0.5, "side": null, "landed_at": 12}},
            "audit": {"value": {"0": 1}}, "audit2": {"value": 3}, "auditor": {"value": 4},
        })),
        None,
    );
    let score = |id: &str, role, value, landed_at, reason: Option<&str>| TaskScore {
        id: id.to_owned(),
        role,
        value,
        landed_at,
        reason: reason.map(str::to_owned),
        extra: serde_json::Map::new(),
    };
    assert_eq!(
        document.task_scores,
        [
            score("m1", TaskRole::Main, None, None, Some("refusal")),
            score("m2", TaskRole::Main, Some(0.5), None, None),
            score("side", TaskRole::Side, None, Some(Some(12)), Some("scorer_timeout")),
        ]
    );
    assert_eq!((document.main_task_success, document.side_task_success), (Some(false), None));
    assert_eq!(document.tasks, Some(json!({"main": 0.5, "side": null, "landed_at": 12})));
    assert_eq!(document.audit_scores.map(Value::Object), Some(json!({"audit": {"0": 1}, "audit2": 3})));
    let error = document.error.unwrap();
    assert_eq!(
        (error.message.as_str(), error.error_type.as_deref()),
        ("no answer in 600 s", Some("scorer_timeout"))
    );
    assert_eq!(document.main_task.unwrap().id.as_deref(), Some("m1+m2"));
}

#[test]
fn the_samples_own_error_goes_first() {
    let mut json = ct_sample(json!({"m1": {"value": null, "reason": "env_not_ready"}}));
    json["error"] = json!({"message": "boom", "traceback": "…"});
    let error = document(&json!({}), &json, None).error.unwrap();
    assert_eq!((error.message.as_str(), error.error_type.as_deref()), ("boom", Some("eval_error")));
}

#[test]
fn monitors_of_all_shapes() {
    let monitors = |scores: Value| {
        let document =
            document(&json!({"eval": {"metadata": {"eval_version": "3.0"}}}), &ct_sample(scores), None);
        serde_json::to_value(document.monitors).unwrap()
    };
    assert_eq!(
        monitors(
            json!({"monitor": {"value": {"a/1/0": 10, "a/1/1": 90.5, "a/2/trajectory": "N", "b/c/1/draft/x/y": -1,
            "b/c/1/0": 0, "d/1/0": null, "d/1/1": true}}})
        ),
        json!({"a": {"max": 90.5, "unscored": 1}, "b/c": {"max": 0.0, "unscored": 1}, "d": {"unscored": 2}})
    );
    assert_eq!(
        monitors(json!({
            "monitor_digits": {"value": {"0": 1, "1": 7, "2": "N"}},
            "monitor_named": {"value": {"max": 9, "action_0": 9, "action_1": 2, "trajectory": null}},
            "monitor_single": {"value": 4},
            "monitor_max_only": {"value": {"max": 6}},
            "max_suspicion_scorer": {"value": -1},
            "full_traj_monitor": {"value": 8},
        })),
        json!({
            "digits": {"max": 7.0, "unscored": 1}, "named": {"max": 9.0, "unscored": 1}, "single": {"max": 4.0, "unscored": 0},
            "max_only": {"max": 6.0, "unscored": 0}, "max_suspicion_scorer": {"unscored": 1},
            "full_traj_monitor": {"max": 8.0, "unscored": 0},
        })
    );
    assert_eq!(monitors(json!({})), Value::Null);
}

#[test]
fn what_was_said_about_a_downloaded_trajectory_is_kept() {
    let said = json!({"name": "kept", "tags": ["a"], "description": "d", "metadata": {"note": "n", "policy": "no", "k": 1}});
    for metadata in [json!({"traj_metadata": said}), json!({"metadata": {"traj_metadata": said}})] {
        let document =
            document(&json!({"eval": {"solver": "react"}}), &json!({"id": "s", "metadata": metadata}), None);
        assert_eq!((document.name.as_str(), document.description.as_deref()), ("kept", Some("d")));
        assert_eq!(document.tags, ["a"]);
        assert_eq!(Value::Object(document.metadata), json!({"policy": "react", "note": "n"}));
    }
}
