//! Control Tower logs: every field of the run header and of each document, as the existing producer builds them.

use std::path::{Path, PathBuf};

use ct_log::Log;
use ct_model::convert::{HeaderFacts, Registration, RunOptions, convert_sample, run_header};
use serde_json::{Map, Value, json};

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/control-tower")
}

/// Compares as JSON, numbers by value.
#[track_caller]
fn assert_same(found: &Value, expected: &Value, path: &str) {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            let keys = |map: &Map<String, Value>| {
                let mut keys: Vec<String> = map.keys().cloned().collect();
                keys.sort();
                keys
            };
            assert_eq!(keys(found), keys(expected), "keys of {path}");
            for (key, value) in found {
                assert_same(value, &expected[key], &format!("{path}.{key}"));
            }
        }
        (Value::Array(found), Value::Array(expected)) => {
            assert_eq!(found.len(), expected.len(), "length of {path}");
            for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
                assert_same(found, expected, &format!("{path}[{i}]"));
            }
        }
        (Value::Number(found), Value::Number(expected)) => {
            assert_eq!(found.as_f64(), expected.as_f64(), "{path}");
        }
        _ => assert_eq!(found, expected, "{path}"),
    }
}

fn check(name: &str) {
    let log = Log::open(&data().join(format!("{name}.eval"))).unwrap();
    let expected = std::fs::read(data().join(format!("{name}.expected.json"))).unwrap();
    let expected: Value = serde_json::from_slice(&expected).unwrap();
    let header = HeaderFacts::from_value(&log.header().unwrap().value);

    let mut found = Map::new();
    let mut registration = Registration::default();
    for sample in log.samples().unwrap() {
        let converted = convert_sample(&log, sample, &header, None).unwrap();
        registration.add(&converted.document, converted.facts.control_setting());
        assert_eq!(converted.facts.notes, []);
        let key = format!("{}#{}", converted.document.eval_sample_id, converted.document.epoch);
        found.insert(key, serde_json::to_value(&converted.document).unwrap());
    }
    assert_same(&Value::Object(found), &expected["trajectories"], name);

    let mut run = run_header(&header, &RunOptions::default());
    run.trajectory_count = Some(registration.trajectory_count());
    assert_same(&serde_json::to_value(&run).unwrap(), &expected["run"], "run");

    // What registration adds: 6 samples of 0.006 dollars each.
    registration.apply(&mut run);
    assert!(!registration.is_incomplete());
    let run = serde_json::to_value(&run).unwrap();
    let model = "anthropic/claude-haiku-4-5-20251001";
    for (key, value) in [
        ("trajectory_count", json!(6)),
        ("total_cost_usd", json!(0.036)),
        ("cost_by_model", json!({model: 0.036})),
        ("models", json!([model])),
        ("control_settings", json!(["linuxarena"])),
    ] {
        assert_same(&run[key], &value, key);
    }
}

#[test]
fn attack_run() {
    check("ct-11");
}

#[test]
fn honest_run() {
    check("ct-12");
}

#[test]
fn the_copies_here_are_the_shared_files() {
    let Some(shared) = super::shared::data() else { return };
    for name in ["ct-11.eval", "ct-11.expected.json", "ct-12.eval", "ct-12.expected.json"] {
        let theirs = std::fs::read(shared.join("control-tower").join(name)).unwrap();
        assert!(theirs == std::fs::read(data().join(name)).unwrap(), "{name} differs");
    }
}
