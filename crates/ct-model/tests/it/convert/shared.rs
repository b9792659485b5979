//! Every log of the shared data, public and generated, against what is known of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ct_log::Log;
use ct_model::TrajectoryDocument;
use ct_model::convert::{
    HeaderFacts, Registration, RunOptions, SampleFacts, TrajectoryIds, convert_sample, run_header,
};
use serde_json::Value;

/// The shared data beside the checkout; said aloud when it is not there.
#[expect(clippy::print_stderr, reason = "what was not tested must be said")]
pub(crate) fn data() -> Option<PathBuf> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    if data.is_dir() {
        return Some(data);
    }
    eprintln!("not tested: no shared data at {}", data.display());
    None
}

/// A converted log.
struct Found {
    header: HeaderFacts,
    samples: Vec<(SampleFacts, TrajectoryDocument)>,
    failed: usize,
}

fn convert(path: &Path) -> Found {
    let log = Log::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let header = HeaderFacts::from_value(&log.header().map(|h| h.value.clone()).unwrap_or_default());
    let mut ids = TrajectoryIds::new(&header, "0");
    let mut seen = std::collections::HashSet::new();
    let mut registration = Registration::default();
    let mut samples = Vec::new();
    let mut failed = 0;
    for entry in log.samples().unwrap() {
        let Ok(converted) = convert_sample(&log, entry, &header, None) else {
            failed += 1;
            continue;
        };
        let (facts, document) = (converted.facts, converted.document);
        assert_eq!((facts.id.as_str(), facts.epoch), (entry.id.as_str(), entry.epoch), "{}", path.display());
        assert_eq!(facts.notes, [], "{}", path.display());
        assert!(seen.insert(ids.assign(&facts)), "{}: an id given twice", path.display());
        registration.add(&document, facts.control_setting());
        let written = serde_json::to_vec(&document).unwrap();
        assert_eq!(serde_json::from_slice::<TrajectoryDocument>(&written).unwrap(), document);
        samples.push((facts, document));
    }
    let mut run = run_header(&header, &RunOptions::default());
    registration.apply(&mut run);
    assert_eq!(run.trajectory_count, Some(samples.len() as u64));
    assert!(!run.name.is_empty());
    Found { header, samples, failed }
}

#[test]
fn public_logs() {
    let Some(data) = data() else { return };
    let index = std::fs::read_to_string(data.join("public/INDEX.tsv")).unwrap();
    let mut lines = index.lines();
    let columns: Vec<&str> = lines.next().unwrap().split('\t').collect();
    let mut checked = 0;
    for line in lines {
        let row: BTreeMap<&str, &str> = columns.iter().copied().zip(line.split('\t')).collect();
        let file = row["file"];
        let found = convert(&data.join("public").join(file));
        let number = |key: &str| row[key].parse::<usize>().unwrap();
        assert_eq!(found.failed, 0, "{file}");
        assert_eq!(found.samples.len(), number("samples"), "samples of {file}");
        let calls: u64 = found.samples.iter().map(|(facts, _)| facts.tool_call_count).sum();
        // The index counts calls in messages. In one log each of the six samples ends with a call in its output alone.
        let in_output_alone = if file == "metr-01.eval" { 6 } else { 0 };
        assert_eq!(calls as usize, number("tool calls") + in_output_alone, "tool calls of {file}");
        assert_eq!(found.header.task.as_deref(), Some(row["task"]), "task of {file}");
        assert_eq!(found.header.model.as_deref(), Some(row["model"]), "model of {file}");
        let status = found.header.status.as_deref().unwrap_or("started");
        assert_eq!(status, row["status"], "status of {file}");
        for (facts, document) in &found.samples {
            assert_eq!(document.action_summaries.len() as u64, document.number_of_actions, "{file}");
            // A plain log: the task is where it happened, the sample what was to be done.
            let task = document.environment.as_ref().and_then(|environment| environment.id.as_deref());
            assert!(task.is_some(), "{file}");
            assert_eq!(
                document.main_task.as_ref().and_then(|task| task.id.as_ref()),
                Some(&facts.id),
                "{file}"
            );
            assert!(document.metadata.contains_key("policy"), "{file}");
            assert_ne!(document.name, "Unnamed Trajectory", "{file}");
        }
        checked += 1;
    }
    assert!(checked > 50, "only {checked} public logs");
}

/// Numbers of the expected answers, where what is not finite is spelled out.
fn same_number(found: &Value, expected: &Value) -> bool {
    match expected {
        Value::Object(map) if map.contains_key("$float") => found.is_null(),
        Value::Object(map) if map.contains_key("$len") => {
            let length = found.as_str().map(|text| text.chars().count() as u64);
            length == map["$len"].as_u64()
        }
        Value::Object(map) => {
            let found = found.as_object();
            found.is_some_and(|found| {
                found.len() == map.len()
                    && map
                        .iter()
                        .all(|(key, value)| same_number(found.get(key).unwrap_or(&Value::Null), value))
            })
        }
        Value::Array(items) => {
            let found = found.as_array();
            found.is_some_and(|found| {
                found.len() == items.len() && found.iter().zip(items).all(|(f, e)| same_number(f, e))
            })
        }
        Value::Number(n) => found.as_f64() == n.as_f64(),
        other => found == other,
    }
}

fn check_sample(
    file: &str,
    header: &HeaderFacts,
    facts: &SampleFacts,
    document: &TrajectoryDocument,
    known: &Value,
) {
    let at = format!("{file} {}#{}", facts.id, facts.epoch);
    assert_eq!(facts.id_is_number, known["id_type"] == "int", "{at}");
    assert_eq!(facts.uuid.as_deref(), known["uuid"].as_str(), "{at}");
    assert_eq!(facts.message_count, known["message_count"].as_u64().unwrap(), "{at}");
    let error = known["error"]["message"].as_str().or(known["error"].as_str());
    assert_eq!(facts.error.as_deref(), error, "{at}");
    assert_eq!(document.error.as_ref().map(|e| e.message.as_str()), error, "{at}");
    assert_eq!(facts.limit.as_deref(), known["limit"]["type"].as_str(), "{at}");
    assert_eq!(facts.total_time, known["total_time"].as_f64(), "{at}");
    assert_eq!(facts.working_time, known["working_time"].as_f64(), "{at}");
    let retries = known["error_retries"].as_array().map_or(0, Vec::len);
    assert_eq!(facts.error_retries, retries as u64, "{at}");
    let ms =
        |key: &str| known[key].as_str().map(|text| text.parse::<jiff::Timestamp>().unwrap().as_millisecond());
    // Inspect gives an old sample the times of its first and last event.
    if facts.started_at_ms.is_some() {
        assert_eq!(facts.started_at_ms, ms("started_at"), "{at}");
        assert_eq!(facts.completed_at_ms, ms("completed_at"), "{at}");
    }

    let calls = known["tool_calls"].as_array().unwrap();
    // These are the calls in messages. An output that ends in a call may hold one more, which never got an answer.
    let in_output_alone = facts.tool_call_count as usize - calls.len();
    assert!(in_output_alone == 0 || known["stop_reason"] == "tool_calls", "{at}");
    assert!(facts.tool_calls[calls.len()..].iter().all(|call| call.output.is_empty()), "{at}");
    for (found, known) in facts.tool_calls.iter().zip(calls) {
        assert_eq!(Some(found.function.as_str()), known["function"].as_str(), "{at}");
        let result = known["result"].as_str().or(known["result"]["$head"].as_str()).unwrap_or_default();
        let message = known["error"]["message"].as_str().unwrap_or_default();
        let output: String = if result.is_empty() { message } else { result }.chars().take(20).collect();
        assert_eq!(found.output, output, "{at}");
    }

    let scores: BTreeMap<&str, &Value> = facts
        .scores
        .iter()
        .map(|score| {
            let old = header.first_scorer.as_deref().unwrap_or_default();
            (if score.name.is_empty() { old } else { score.name.as_str() }, &score.value)
        })
        .collect();
    let known_scores = known["scores"].as_object().cloned().unwrap_or_default();
    let mut names: Vec<&str> = known_scores.keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(scores.keys().copied().collect::<Vec<_>>(), names, "{at}");
    for (name, known) in &known_scores {
        assert!(
            same_number(scores[name.as_str()], &known["value"]),
            "{at}: {name} is {}",
            scores[name.as_str()]
        );
    }

    let usage = known["model_usage"].as_object().cloned().unwrap_or_default();
    assert!(same_number(&Value::Object(facts.model_usage.clone()), &Value::Object(usage.clone())), "{at}");
    if let Some(cost) = &document.cost
        && !usage.is_empty()
    {
        for (key, found) in [
            ("input_tokens", cost.input_tokens),
            ("output_tokens", cost.output_tokens),
            ("total_tokens", cost.total_tokens),
        ] {
            let sum: u64 = usage.values().filter_map(|usage| usage[key].as_u64()).sum();
            assert_eq!(found, Some(sum), "{at}: {key}");
        }
    }
    let models: Vec<&String> = document.models.iter().collect();
    if !usage.is_empty() {
        let mut known: Vec<&String> = usage.keys().collect();
        known.sort();
        assert_eq!(models, known, "{at}");
    }
    // A large one is only known by its hash.
    let Some(metadata) = known["metadata"].as_object().filter(|metadata| !metadata.contains_key("$len"))
    else {
        return;
    };
    for (key, value) in &facts.metadata {
        assert!(
            same_number(value, metadata.get(key).unwrap_or(&Value::Null)),
            "{at}: metadata.{key} is {value}"
        );
    }
    for (key, value) in metadata {
        let is_nothing = value.is_null() || value.get("$float").is_some() || value.get("$len").is_some();
        assert!(facts.metadata.contains_key(key) || is_nothing, "{at}: no metadata.{key}");
    }
}

#[test]
fn generated_logs() {
    let Some(data) = data() else { return };
    let mut files = 0;
    let mut checked = 0;
    for entry in std::fs::read_dir(data.join("generated")).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        let Some(log) = file.strip_suffix(".expected.json") else { continue };
        let known: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let found = convert(&data.join("generated").join(log));
        files += 1;

        let header = &known["inspect"]["header_only"];
        if let Some(eval) = header.get("eval") {
            assert_eq!(found.header.eval_id.as_deref(), eval["eval_id"].as_str(), "{log}");
            assert_eq!(found.header.task.as_deref(), eval["task"].as_str(), "{log}");
            assert_eq!(found.header.model.as_deref(), eval["model"].as_str(), "{log}");
            let plan: Vec<Value> = found.header.plan.iter().map(|step| step.solver.clone().into()).collect();
            assert_eq!(&Value::Array(plan), &header["plan_steps"], "{log}");
            let mut tags = found.header.tags.clone();
            tags.sort();
            let known_tags: Vec<String> = serde_json::from_value(header["tags"].clone()).unwrap_or_default();
            assert_eq!(tags, known_tags, "{log}");
            let metadata = header["metadata"].as_object().cloned().unwrap_or_default();
            assert!(
                same_number(&Value::Object(found.header.metadata.clone()), &Value::Object(metadata)),
                "{log}"
            );
            for row in header["results"]["scores"].as_array().into_iter().flatten() {
                let metrics = &found.header.metrics[row["scorer"].as_str().unwrap()];
                let (name, reducer) = (row["name"].as_str().unwrap(), row["reducer"].as_str());
                for (metric, value) in row["metrics"].as_object().unwrap() {
                    let key = if row["name"] == row["scorer"] {
                        metric.clone()
                    } else {
                        format!("{name}/{metric}")
                    };
                    let qualified = reducer.and_then(|reducer| metrics.get(&format!("{reducer}/{key}")));
                    let value = value.as_f64();
                    assert!(
                        metrics[&key] == value || qualified == Some(&value),
                        "{log}: {key} is {metrics:?}, not {value:?}"
                    );
                }
            }
        }
        let tolerant = &known["tolerant_reader"]["samples"];
        // What a tolerant reader should find goes before what Inspect found, where it describes samples whole.
        let tolerant =
            tolerant.as_array().filter(|samples| samples.iter().all(|s| s.get("tool_calls").is_some()));
        let samples = tolerant.or(known["inspect"]["samples"].as_array());
        let Some(samples) = samples else { continue };
        // Of a log with many samples only some are described.
        let count = known["inspect"]["sample_count"].as_u64().filter(|_| tolerant.is_none());
        assert_eq!(found.samples.len() as u64, count.unwrap_or(samples.len() as u64), "{log}");
        for known in samples {
            let id = known["id"].as_str().map_or_else(|| known["id"].to_string(), str::to_owned);
            let epoch = known["epoch"].as_u64().unwrap();
            let (facts, document) = found
                .samples
                .iter()
                .find(|(facts, _)| {
                    facts.id == id && facts.epoch == epoch && facts.id_is_number == known["id"].is_number()
                })
                .unwrap_or_else(|| panic!("{log}: no sample {id}#{epoch}"));
            check_sample(log, &found.header, facts, document, known);
            checked += 1;
        }
    }
    assert!(files > 30 && checked > 150, "only {files} files and {checked} samples");
}
