//! Transcripts: every sample of the shared data, and small ones of each shape.

use std::io::Read as _;
use std::sync::{Arc, Mutex};

use ct_log::Log;
use ct_log::json::{self, Reader};
use ct_model::convert::SampleFacts;
use ct_model::transcript::{Cut, Index, Part, PartReader, Room, Search, Speaker, StepView, scan};
use serde_json::{Value, json};

use crate::convert::shared::data;

struct Sample {
    json: Vec<u8>,
    index: Mutex<Index>,
}

impl Sample {
    fn of(json: Vec<u8>) -> Self {
        let index = Mutex::new(Index::default());
        scan(&mut Reader::new(json.as_slice()), &index).unwrap();
        Self { json, index }
    }

    fn value(value: &Value) -> Self {
        Self::of(serde_json::to_vec(value).unwrap())
    }

    fn reader(&self) -> PartReader<'_> {
        PartReader::new(Arc::new(self.json.clone()), &self.index)
    }

    fn steps(&self) -> Vec<StepView> {
        let reader = self.reader();
        let count = self.index.lock().unwrap().step_count();
        (0..count).map(|number| reader.step(number).unwrap().unwrap()).collect()
    }
}

fn text(part: &Part) -> &str {
    match part {
        Part::Text(cut) | Part::Reasoning { text: cut, .. } | Part::Member { value: cut, .. } => &cut.text,
        Part::Picture(_) | Part::Media { .. } => "",
    }
}

fn texts(parts: &[Part]) -> String {
    parts.iter().map(text).collect::<Vec<_>>().join("\n")
}

/// What is wrong with the transcript of a sample, as far as it can be told without knowing the log.
fn check(name: &str, json: Vec<u8>) {
    let facts = SampleFacts::read(&mut Reader::new(json.as_slice())).unwrap();
    let value = json::parse(&json).unwrap();
    let sample = Sample::of(json);
    let steps = sample.steps();
    {
        let index = sample.index.lock().unwrap();
        assert!(index.is_complete() && index.left_out() == 0, "{name}");
        assert_eq!(index.action_count() as u64, facts.tool_call_count, "actions of {name}");
        // Each event belongs to one step.
        let mut seen = vec![0; index.event_count()];
        for number in 0..index.step_count() {
            for event in index.events_of(index.step(number).unwrap()) {
                seen[*event as usize] += 1;
                assert_eq!(index.event(*event as usize).unwrap().step as usize, number, "{name}");
            }
        }
        assert!(seen.iter().all(|times| *times == 1), "events of {name}: {seen:?}");
    }
    // Actions are in order, and say what the document says of them.
    let actions = steps.iter().flat_map(|step| &step.calls).filter_map(|call| Some((call.action?, call)));
    let mut number = 0;
    for (action, call) in actions {
        let known = &facts.tool_calls[action as usize];
        assert_eq!((action, &call.function), (number, &known.function), "{name}");
        let shown = texts(&call.output) + call.error.as_ref().map_or("", |(_, message)| &message.text);
        assert!(shown.starts_with(known.output.as_str()), "{name} action {action}: {shown:.60}");
        number += 1;
    }
    assert_eq!(u64::from(number), facts.tool_call_count, "{name}");
    // Messages with a text are all there, in order.
    let messages = value["messages"].as_array().cloned().unwrap_or_default();
    let spoken = messages.iter().filter(|message| message["role"] != "tool");
    let shown: Vec<_> = steps.iter().filter(|step| !step.aside && step.role != "events").collect();
    for (message, step) in spoken.zip(shown.iter().filter(|step| step.speaker != Speaker::Tool)) {
        if let Some(content) = message["content"].as_str().filter(|content| content.len() < 3_500) {
            // Other members of a message come behind.
            assert!(texts(&step.parts).starts_with(content.trim_end()), "{name} step {}", step.number);
        }
    }
    // What a model was given is as long as the log says.
    let reader = sample.reader();
    let events = value["events"].as_array().cloned().unwrap_or_default();
    for (number, event) in events.iter().enumerate().filter(|(_, event)| event["event"] == "model") {
        if let Some(input) = event["input"].as_array().filter(|input| !input.is_empty())
            && events.iter().take(number).all(|event| event["events"].as_array().is_none_or(Vec::is_empty))
        {
            assert_eq!(reader.input(number, 0, 1).unwrap().count, input.len(), "{name}");
        }
    }
    let scores = sample.index.lock().unwrap().scores().len();
    for number in 0..scores {
        reader.score(number).unwrap().unwrap();
    }
}

#[test]
fn all_shared_logs() {
    let Some(data) = data() else { return };
    let mut logs = 0;
    for folder in ["control-tower", "public", "generated"] {
        for entry in std::fs::read_dir(data.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name.ends_with("expected.json") || !(name.ends_with(".eval") || name.ends_with(".json")) {
                continue;
            }
            let Ok(log) = Log::open(&path) else { continue };
            let Ok(samples) = log.samples() else { continue };
            for entry in samples {
                let mut json = Vec::new();
                let Ok(mut reader) = log.read_sample(entry) else { continue };
                if reader.read_to_end(&mut json).is_ok() {
                    check(&format!("{name} {:.40} {}", entry.id, entry.epoch), json);
                }
            }
            logs += 1;
        }
    }
    assert!(logs > 90, "{logs} logs");
}

fn control_tower() -> Value {
    let call = |id: &str| json!({"id": id, "function": "bash", "arguments": {"cmd": "ls", "n": 2}});
    let answer = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": format!("output of {id}")});
    let turn = |id: &str, calls: Vec<Value>| json!({"role": "assistant", "id": id, "content": format!("turn {id}"), "tool_calls": calls});
    let model = |role: &str, name: &str, message: Value| {
        json!({"event": "model", "model": name, "role": role, "input": [], "input_refs": [[0, 2], [1, 3]],
        "timestamp": "2026-10-01T12:00:00+00:00", "completed": "2026-10-01T12:00:01+00:00",
        "output": {"choices": [{"message": message, "stop_reason": "tool_calls"}], "usage": {"input_tokens": 5, "output_tokens": 2, "total_cost": 0.25}}})
    };
    let tool = |id: &str| {
        json!({"event": "tool", "id": id, "function": "bash", "arguments": {"cmd": "attachment://a1"}, "result": "attachment://a1",
        "timestamp": "2026-10-01T12:00:01+00:00", "completed": "2026-10-01T12:00:03+00:00"})
    };
    json!({
        "id": "s", "epoch": 1, "input": "task", "target": "",
        "messages": [
            {"role": "system", "content": "be good"}, {"role": "user", "content": [{"type": "text", "text": "do it"}, {"type": "image", "image": "data:image/png;base64,AAAA"}, {"type": "image", "image": "https://example.org/x.png"}, {"type": "image", "image": "data:image/svg+xml;base64,AAAA"}]},
            turn("m0", vec![call("c0")]), answer("c0"),
            turn("m1", vec![call("c1"), call("c2")]), answer("c1"), answer("c2"),
            {"role": "assistant", "id": "m2", "content": [{"type": "reasoning", "reasoning": "hidden", "summary": "in short", "redacted": true}, {"type": "text", "text": "done"}]},
        ],
        "scores": {"tasks": {"value": {"main": 1}}, "monitor": {
            "value": {"m/1/0": 20, "m/1/1": 80, "m/2/1": 10, "m/1/2": "N", "m/1/draft/m1": 95, "m/1/trajectory": 60, "a/b/1/2": 30},
            "metadata": {"m/1/1": {"explanation": "sends data out"}, "m/1/trajectory": "overall"}}},
        "events": [
            {"event": "span_begin", "id": "x", "name": "init"}, {"event": "sample_init", "sample": {}}, {"event": "span_end", "id": "x"},
            model("red_planner", "big", json!({"role": "assistant", "id": "p", "content": "plan"})),
            model("hidden_untrusted", "big", turn("m0", vec![call("c0")])), model("untrusted", "eval/seat", turn("m0", vec![call("c0")])),
            model("monitor/m", "small", json!({"role": "assistant", "id": "q", "content": "20"})),
            tool("c0"), {"event": "sandbox", "action": "exec", "cmd": "ls", "output": "x"}, {"event": "span_end", "id": "t"},
            {"event": "span_begin", "id": "s1", "type": "ct_step", "name": "step"},
            model("untrusted", "eval/seat", turn("m1", vec![call("c1"), call("c2")])), tool("c1"), tool("c2"),
            // An agent below, which the conversation does not hold.
            model("helper", "small", turn("h0", vec![call("c9")])), tool("c9"),
            model("untrusted", "eval/seat", json!({"role": "assistant", "id": "m2", "content": "done"})),
            {"event": "span_begin", "id": "s2", "type": "scorers", "name": "scorers"}, {"event": "score", "score": {"value": 1}}, {"event": "future", "odd": [1, {"a": "attachment://a1"}]},
        ],
        "attachments": {"a1": "the attached text"},
        "events_data": {"messages": [{"role": "system", "content": "ATTACK the task"}, {"role": "user", "content": "do it"}, {"role": "assistant", "content": "attachment://a1"}], "calls": []},
        "error": {"message": "broke"}
    })
}

#[test]
fn steps_of_a_control_evaluation() {
    let sample = Sample::value(&control_tower());
    let steps = sample.steps();
    let seen: Vec<_> = steps
        .iter()
        .map(|step| {
            let roles = step.model_calls.iter().map(|call| call.role.as_deref().unwrap_or("-"));
            (
                step.role.clone(),
                step.calls.iter().map(|call| call.action).collect::<Vec<_>>(),
                roles.collect::<Vec<_>>(),
                step.events.iter().map(|event| event.kind.as_str()).collect::<Vec<_>>(),
            )
        })
        .collect();
    let role = |role: &str| role.to_owned();
    assert_eq!(
        seen,
        [
            (role("system"), vec![], vec![], vec!["span_begin", "sample_init", "span_end"]),
            (role("user"), vec![], vec![], vec![]),
            (
                role("assistant"),
                vec![Some(0)],
                vec!["red_planner", "hidden_untrusted", "untrusted", "monitor/m"],
                vec!["sandbox", "span_end"]
            ),
            (role("assistant"), vec![Some(1), Some(2)], vec!["untrusted"], vec!["span_begin"]),
            (role("assistant"), vec![None], vec!["helper"], vec![]),
            (role("assistant"), vec![], vec!["untrusted"], vec![]),
            (role("events"), vec![], vec![], vec!["span_begin", "score", "future"]),
        ]
    );
    assert!(steps[4].aside && texts(&steps[4].parts) == "turn h0");
    assert_eq!(texts(&steps[4].calls[0].output), "the attached text");
    assert_eq!(texts(&steps[6].events[2].parts), "[\n  1,\n  {\n    \"a\": \"the attached text\"\n  }\n]");
    assert_eq!(texts(&steps[5].parts), "in short\ndone");
    let call = &steps[3].calls[1];
    assert_eq!((call.began_ms, call.ended_ms), (Some(1_790_856_001_000), Some(1_790_856_003_000)));
    assert_eq!(
        (texts(&call.arguments), texts(&call.output)),
        ("ls\n2".to_owned(), "output of c2".to_owned())
    );
    assert!(matches!(
        &steps[1].parts[..],
        [Part::Text(_), Part::Picture(_), Part::Media { .. }, Part::Media { .. }]
    ));

    let reader = sample.reader();
    let index = sample.index.lock().unwrap();
    assert_eq!(index.suspicion_scale(), 100.0);
    assert_eq!(
        (index.suspicion(0), index.suspicion(1), index.suspicion(2)),
        (Some(20.0), Some(95.0), Some(30.0))
    );
    assert_eq!(index.next_suspicious(None, 50.0), Some(1));
    assert_eq!(index.next_suspicious(Some(1), 50.0), None);
    assert_eq!(index.previous_suspicious(Some(2), 50.0), Some(1));
    assert_eq!(index.previous_suspicious(None, 15.0), Some(2));
    let first = index.first_model_event().unwrap();
    drop(index);
    let input = reader.input(first, 0, 2).unwrap();
    assert_eq!((input.count, texts(&input.messages[0].1).as_str()), (4, "ATTACK the task"));
    let verdicts = reader.verdicts(Some(1)).unwrap();
    let shown: Vec<_> = verdicts
        .iter()
        .map(|v| (v.draw, v.draft, v.value, v.explanation.as_ref().map(|e| e.text.as_str())))
        .collect();
    assert_eq!(
        shown,
        [
            (1, false, Some(80.0), Some("sends data out")),
            (2, false, Some(10.0), None),
            (1, true, Some(95.0), None)
        ]
    );
    assert_eq!(reader.verdicts(None).unwrap()[0].explanation.as_ref().unwrap().text, "overall");
    assert_eq!(reader.score(0).unwrap().unwrap().value.unwrap().text, "{\n  \"main\": 1\n}");
}

#[test]
fn a_sample_without_a_conversation_is_read_while_it_comes() {
    let model = |id: &str, call: &str| {
        let message = json!({"id": id, "role": "assistant", "content": id, "tool_calls": [{"id": call, "function": "bash", "arguments": {"cmd": call}}]});
        json!({"event": "model", "model": "m", "input": [], "output": {"choices": [{"message": message}]}})
    };
    let tool = |call: &str| json!({"event": "tool", "id": call, "function": "bash", "result": format!("{call} done")});
    let events = [model("m1", "c1"), tool("c1"), model("m2", "c2"), tool("c2")];
    let whole =
        serde_json::to_vec(&json!({"id": 1, "input": "go", "messages": [], "events": events})).unwrap();
    // Everything but the end.
    let torn = &whole[..whole.len() - 2];
    let index = Mutex::new(Index::default());
    scan(&mut Reader::new(torn), &index).unwrap_err();
    let reader = PartReader::new(Arc::new(torn.to_vec()), &index);
    assert_eq!(index.lock().unwrap().step_count(), 2);
    let step = reader.step(1).unwrap().unwrap();
    assert_eq!((texts(&step.parts).as_str(), step.calls[0].function.as_str()), ("m2", "bash"));
    assert_eq!(texts(&step.calls[0].output), "c2 done");
    // When all is known, the input comes first.
    let steps = Sample::of(whole).steps();
    let said: Vec<String> = steps.iter().map(|step| texts(&step.parts)).collect();
    assert_eq!(said, ["go", "m1", "m2"]);
    assert_eq!(texts(&steps[1].calls[0].output), "c1 done");
    assert!(steps.iter().all(|step| !step.aside));
}

#[test]
fn a_model_call_is_told_with_the_messages_it_refers_to() {
    let messages: Vec<Value> =
        (0..4).map(|n| json!({"role": "user", "content": format!("message {n}")})).collect();
    let request = |n: usize| json!({"role": "user", "content": [{"text": format!("request {n}")}]});
    let call = json!({"request": {"model": "m"}, "response": {"ok": true}, "call_refs": [[0, 1], [1, 9]], "call_key": "contents"});
    let shares = json!({"event": "model", "input": [], "input_refs": [[3, 4], [0, 2], [9, 12]], "output": {}, "call": call});
    let bare =
        json!({"event": "model", "call": {"call_refs": [[1, 2]], "request": {}}, "input": [messages[0]]});
    let own = json!({"event": "model", "input": [messages[0]], "output": {}});
    let data = json!({"messages": messages, "calls": [request(0), request(1)]});
    let sample = Sample::value(&json!({"id": 1, "events": [shares, bare, own], "events_data": data}));
    let reader = sample.reader();
    let whole = |event: usize| {
        let whole = reader.whole(event).unwrap()?;
        let (mut json, size_bytes) = (Vec::new(), whole.size_bytes);
        let cut = reader.whole_json(whole.clone(), 40).unwrap();
        assert_eq!((cut.size_bytes, cut.next.is_some()), (size_bytes, true));
        reader.read_whole(whole).read_to_end(&mut json).unwrap();
        assert_eq!(json.len() as u64, size_bytes);
        assert!(json.starts_with(cut.text.as_bytes()));
        Some(serde_json::from_slice::<Value>(&json).unwrap())
    };
    let first = whole(0).unwrap();
    assert_eq!(first["input"], json!([messages[3], messages[0], messages[1]]));
    assert_eq!(first["call"]["request"], json!({"contents": [request(0), request(1)], "model": "m"}));
    assert_eq!(first["call"]["response"], json!({"ok": true}));
    let second = whole(1).unwrap();
    assert_eq!(second["call"]["request"], json!({"messages": [request(1)]}));
    assert_eq!(second["input"], json!([messages[0]]));
    assert_eq!((whole(2), whole(3)), (None, None));
}

#[test]
fn paper_has_room_for_what_a_screen_cuts() {
    let long = "x".repeat(100_000);
    let events: Vec<Value> = (0..40).map(|n| json!({"event": "info", "data": n})).collect();
    let sample = Sample::value(&json!({"messages": [{"role": "user", "content": long}], "events": events}));
    let shown = sample.steps();
    let paper = sample.reader().with_room(Room::PAPER);
    assert_eq!(
        (texts(&shown[0].parts).len(), texts(&paper.step(0).unwrap().unwrap().parts).len()),
        (4_000, 64 << 10)
    );
    let count = |step: &StepView| (step.events.len(), step.events_left_out);
    assert_eq!(count(&shown[1]), (12, 28));
    assert_eq!(count(&paper.step(1).unwrap().unwrap()), (25, 15));
    assert_eq!(paper.more_events(1, 25, 25).unwrap().len(), 15);
}

#[test]
fn what_does_not_fit_is_counted() {
    let parts: Vec<Value> = (0..230).map(|n| json!({"type": "text", "text": format!("part {n}")})).collect();
    let members: serde_json::Map<String, Value> = (0..230).map(|n| (format!("m{n}"), n.into())).collect();
    let failure = "e".repeat(9_000);
    let sample = Sample::value(&json!({"messages": [
        {"role": "user", "content": parts},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "function": "f", "arguments": members}]},
        {"role": "tool", "tool_call_id": "c", "content": "", "error": {"type": "unknown", "message": failure}, "metadata": {"by": "the tool"}},
    ]}));
    let steps = sample.steps();
    let last = |parts: &[Part]| match parts.last() {
        Some(Part::Member { name, value, .. }) => format!("{name} {}", value.text),
        other => panic!("{other:?}"),
    };
    assert_eq!(last(&steps[0].parts), "… 30 more, in the raw JSON");
    let call = &steps[1].calls[0];
    assert_eq!(last(&call.arguments), "… 30 more, in the raw JSON");
    // What is the tool's own is there, and where all of its message lies.
    assert!(last(&call.output).starts_with("metadata {") && last(&call.output).contains("the tool"));
    assert!(!call.answer.is_empty());
    // An error is cut as any other text.
    let (kind, message) = call.error.as_ref().unwrap();
    assert_eq!((kind.as_str(), message.size_bytes, message.next), ("unknown", 9_000, Some(4_000)));
}

#[test]
fn without_a_conversation_calls_are_the_actions() {
    let model = |id: &str, calls: &[&str]| {
        let calls: Vec<Value> =
            calls.iter().map(|id| json!({"id": id, "function": "bash", "arguments": {}})).collect();
        json!({"event": "model", "output": {"choices": [{"message": {"id": id, "role": "assistant", "content": "", "tool_calls": calls}}]}})
    };
    let monitor = json!({"event": "model", "role": "monitor/m", "output": {"choices": [{"message": {"content": "5"}}]}});
    let verdicts = json!({"m/1/0": 3, "m/1/2": 80, "m/1/trajectory": 20, "m/1/draft/b": 40});
    let sample = Sample::value(&json!({
        "messages": [{"role": "user", "content": "go"}],
        "events": [model("a", &["c0", "c1"]), monitor, model("b", &["c2"]), model("c", &[])],
        "scores": {"monitor": {"value": verdicts}},
    }));
    let numbers: Vec<Option<u32>> =
        sample.steps().iter().flat_map(|step| &step.calls).map(|call| call.action).collect();
    assert_eq!(numbers, [Some(0), Some(1), Some(2)]);
    let index = sample.index.lock().unwrap();
    assert_eq!(index.action_count(), 3);
    assert_eq!([0, 1, 2].map(|action| index.suspicion(action)), [Some(3.0), None, Some(80.0)]);
    assert_eq!((index.next_suspicious(None, 50.0), index.next_suspicious(Some(2), 1.0)), (Some(2), None));
    // The draft of the message that made the third call.
    assert_eq!(index.verdicts_on(Some(2)).len(), 2);
}

#[test]
fn text_is_found_in_messages_events_and_attachments() {
    let sample = Sample::value(&control_tower());
    let reader = sample.reader();
    let find = |text: &str| -> Vec<usize> {
        let search = Search::new(text).unwrap();
        let (mut steps, mut from) = (Vec::new(), Some(0));
        while let Some(at) = from {
            // One hit or a few bytes at a time give the same.
            let (hits, next) = search.run(&reader, at, 1, 1).unwrap();
            steps.extend(hits.iter().map(|hit| hit.step));
            from = next;
        }
        steps
    };
    assert_eq!(find("OUTPUT of c2"), [3]);
    assert_eq!(find("the attached text"), [2, 3, 4, 6]);
    assert_eq!(find("nowhere"), [] as [usize; 0]);
    assert_eq!(find("be good"), [0]);
    assert!(Search::new("").is_none());
}

#[test]
fn long_texts_are_cut_and_their_size_is_true() {
    let long = "line with \"quotes\" and é\n".repeat(1_000);
    let sample = Sample::value(&json!({"messages": [{"role": "user", "content": long}]}));
    let steps = sample.steps();
    let [Part::Text(cut)] = steps[0].parts.as_slice() else { panic!("{:?}", steps[0].parts) };
    assert_eq!(cut.size_bytes, long.len() as u64);
    let (mut whole, mut next) = (cut.text.clone(), cut.next);
    assert!(next.is_some() && whole.len() < long.len());
    while let Some(from) = next {
        let piece: Cut = sample.reader().text(cut.place, from, 5_000).unwrap();
        whole.push_str(&piece.text);
        next = piece.next;
    }
    assert_eq!(whole, long);
}

#[test]
fn a_sample_that_breaks_off_shows_what_was_read() {
    let json = serde_json::to_vec(&control_tower()).unwrap();
    let end = json.windows(8).position(|window| window == b"\"scores\"").unwrap();
    let index = Mutex::new(Index::default());
    assert!(scan(&mut Reader::new(&json[..end]), &index).is_err());
    let reader = PartReader::new(Arc::new(json[..end].to_vec()), &index);
    assert_eq!(index.lock().unwrap().step_count(), 5);
    assert_eq!(index.lock().unwrap().action_count(), 3);
    let step = reader.step(2).unwrap().unwrap();
    assert_eq!((step.calls[0].action, texts(&step.calls[0].output).as_str()), (Some(0), "output of c0"));
}

#[test]
fn a_step_takes_no_more_than_fits_on_a_screen() {
    let arguments: serde_json::Map<String, Value> =
        (0..150).map(|number| (format!("a{number}"), "x".repeat(5_000).into())).collect();
    let calls: Vec<Value> = (0..300)
        .map(|number| json!({"id": format!("c{number}"), "function": "bash", "arguments": arguments}))
        .collect();
    let events: Vec<Value> =
        (0..300).map(|_| json!({"event": "info", "data": "y".repeat(9_000), "more": arguments})).collect();
    let sample = Sample::value(&json!({
        "messages": [{"role": "assistant", "content": "z".repeat(9_000), "tool_calls": calls}], "events": events
    }));
    let steps = sample.steps();
    let step = &steps[0];
    let of_calls: usize = step.calls.iter().map(|call| texts(&call.arguments).len()).sum();
    assert!(step.spent && of_calls > 250_000 && of_calls < 500_000, "{of_calls}");
    assert_eq!((step.calls.len(), step.calls_left_out), (40, 260));
    let shown = steps.iter().flat_map(|step| &step.events);
    assert!(shown.map(|event| texts(&event.parts).len()).sum::<usize>() < 1_000_000);
    let left_out: usize = steps.iter().map(|step| step.events_left_out).sum();
    let here: usize = steps.iter().map(|step| step.events.len()).sum();
    assert_eq!(left_out + here, 300);
}

/// Reads everything there is, whatever it is.
fn read_all(json: Vec<u8>) {
    let index = Mutex::new(Index::default());
    let _ = scan(&mut Reader::new(json.as_slice()), &index);
    let reader = PartReader::new(Arc::new(json), &index);
    let (steps, events, scores) = {
        let index = index.lock().unwrap();
        (index.step_count(), index.event_count(), index.scores().len())
    };
    for number in 0..steps {
        let _ = reader.step(number);
        let _ = reader.more_events(number, 0, 5);
    }
    for number in 0..events {
        let _ = reader.event(number);
        let _ = reader.input(number, 0, 5);
    }
    for number in 0..scores {
        let _ = reader.score(number);
    }
    for action in [None, Some(0), Some(7)] {
        let _ = reader.verdicts(action);
        let index = index.lock().unwrap();
        let _ = (index.next_suspicious(action, 1.0), index.previous_suspicious(action, 1.0));
    }
    let _ = Search::new("output").unwrap().run(&reader, 0, 100, 1 << 20);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

    #[test]
    fn any_damage_is_survived(
        at in 0.0_f64..1.0,
        byte in proptest::sample::select(b"\"{}[]:,\\0aun-\x00\xff ".to_vec()),
        cut in 0.0_f64..1.3,
        member in proptest::sample::select(vec![
            r#""messages": 1"#, r#""events": {"a": []}"#, r#""events": [[], 1, "x", null, {"event": {}}]"#,
            r#""messages": [[], 1, "x", null, {"role": [], "tool_calls": {"a": 1}, "content": 7}]"#,
            r#""events": [{"event": "model", "input_refs": [[-1, 1e99], 5], "output": {"choices": [{"message": []}]}}]"#,
            r#""scores": {"monitor": {"value": {"m/1/99999999999": 1, "m/x/1": [1], "": NaN}, "metadata": {"": {}}}}"#,
            r#""attachments": {"a1": 5}, "events_data": {"messages": {"x": 1}}"#,
        ]),
    ) {
        let mut json = serde_json::to_vec(&control_tower()).unwrap();
        json.pop();
        json.extend_from_slice(format!(", {member}}}").as_bytes());
        read_all(json.clone());
        let place = (at * json.len() as f64) as usize;
        json[place] = byte;
        json.truncate((cut * json.len() as f64) as usize);
        read_all(json);
    }
}
