//! The server's answers about the Control Tower logs are the documents that the existing producer makes of them.

use serde_json::{Map, Value, json};

use super::http::Server;
use crate::support::Home;

fn expected(name: &str) -> Value {
    let path = format!("{}/../../tests/data/control-tower/{name}.expected.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Numbers by value: 1 is 1.0.
#[track_caller]
fn assert_same(found: &Value, expected: &Value, path: &str) {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            let keys =
                |map: &Map<String, Value>| map.keys().cloned().collect::<std::collections::BTreeSet<_>>();
            assert_eq!(keys(found), keys(expected), "keys of {path}");
            found
                .iter()
                .for_each(|(key, value)| assert_same(value, &expected[key], &format!("{path}.{key}")));
        }
        (Value::Array(found), Value::Array(expected)) => {
            assert_eq!(found.len(), expected.len(), "length of {path}");
            for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
                assert_same(found, expected, &format!("{path}[{i}]"));
            }
        }
        (Value::Number(found), Value::Number(expected)) => {
            assert_eq!(found.as_f64(), expected.as_f64(), "{path}")
        }
        _ => assert_eq!(found, expected, "{path}"),
    }
}

/// Takes what a store adds out of a document, and checks it.
#[track_caller]
fn take(document: &mut Map<String, Value>, key: &str, expected: &Value) {
    assert_eq!(document.shift_remove(key).as_ref(), Some(expected), "{key}");
}

#[test]
fn headers_documents_and_rows_are_the_expected_ones() {
    let home = Home::with_runs();
    let server = Server::start(&home, &["--public"]);
    let list = server.json("/api/runs");
    assert_eq!(
        (&list["total_count"], &list["page"], &list["next_cursor"]),
        (&json!(2), &json!(1), &json!(null))
    );
    for (name, file) in [("synthetic attack 11", "ct-11"), ("synthetic honest 12", "ct-12")] {
        let expected = expected(file);
        let listed = list["items"].as_array().unwrap().iter().find(|run| run["name"] == name).unwrap();
        let run_id = listed["run_id"].as_str().unwrap();
        let header = server.json(&format!("/api/runs/{run_id}"));
        assert_eq!(&header, listed);
        let record = server.json(&format!("/api/runs/{run_id}?view=record"));
        assert_eq!(record["header"], header);

        let mut header = header.as_object().unwrap().clone();
        let log = format!("s3://control-tower/{run_id}.eval");
        take(&mut header, "run_id", &json!(run_id));
        take(&mut header, "eval_log_url", &json!(log));
        // 6 samples of 0.006 dollars each.
        let model = "anthropic/claude-haiku-4-5-20251001";
        take(&mut header, "total_cost_usd", &json!(0.036));
        take(&mut header, "cost_by_model", &json!({model: 0.036}));
        take(&mut header, "models", &json!([model]));
        take(&mut header, "control_settings", &json!(["linuxarena"]));
        assert!(header.shift_remove("created_at").unwrap().as_str().unwrap().ends_with('Z'));
        let mut wanted = expected["run"].as_object().unwrap().clone();
        for key in ["eval_log_url", "created_at", "total_cost_usd", "cost_by_model"] {
            wanted.shift_remove(key);
        }
        assert_same(&Value::Object(header), &Value::Object(wanted), file);

        let documents = server.json(&format!("/api/trajectories?documents=true&run_id={run_id}"));
        let rows = server.json(&format!("/api/trajectories?run_id={run_id}"));
        let ids = server.json(&format!("/api/trajectories?ids_only=true&run_id={run_id}"));
        let wanted = expected["trajectories"].as_object().unwrap();
        for page in [&documents, &rows, &ids] {
            assert_eq!(page["total_count"].as_u64(), Some(wanted.len() as u64));
            assert_eq!(page["items"].as_array().map(Vec::len), Some(wanted.len()));
        }
        for (index, document) in documents["items"].as_array().unwrap().iter().enumerate() {
            let row = &rows["items"][index];
            assert_eq!(document["trajectory_id"], row["trajectory_id"]);
            assert_eq!(document["trajectory_id"], ids["items"][index]);
            check_trajectory(&server, document, row, &log, wanted);
        }
    }
}

#[track_caller]
fn check_trajectory(server: &Server, document: &Value, row: &Value, log: &str, wanted: &Map<String, Value>) {
    let key = format!("{}#{}", document["eval_sample_id"].as_str().unwrap(), document["epoch"]);
    let wanted = &wanted[&key];
    let id = document["trajectory_id"].as_str().unwrap();
    let bundle = server.json(&format!("/api/trajectories/{id}"));
    let url = document["eval_log_url"].as_str().unwrap();
    let sample_id = document["eval_sample_id"].as_str().unwrap();
    // The contract escapes everything but ":".
    let escaped: String = sample_id
        .bytes()
        .map(|b| match b {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b':' => {
                char::from(b).to_string()
            }
            b => format!("%{b:02X}"),
        })
        .collect();
    assert_eq!(url, format!("{log}/samples/sample/{escaped}"));

    let metadata = &bundle["metadata"];
    for field in [
        "trajectory_id",
        "eval_log_url",
        "eval_sample_id",
        "epoch",
        "run_id",
        "name",
        "tags",
        "datasets",
        "metadata",
    ] {
        assert_eq!(metadata[field], document[field], "{field}");
    }
    for (field, value) in [("comments", json!([])), ("step_comments", json!({})), ("created_by", json!(null))]
    {
        assert_eq!(metadata[field], value, "{field}");
    }
    assert!(metadata["created_at"].as_str().unwrap().ends_with('Z'));
    assert_eq!(bundle["sample"]["id"], document["eval_sample_id"]);
    assert_eq!(bundle["sample"]["epoch"], document["epoch"]);

    let mut own = document.as_object().unwrap().clone();
    for added in ["trajectory_id", "run_id", "eval_log_url"] {
        assert!(own.shift_remove(added).is_some(), "{added}");
    }
    let mut wanted = wanted.as_object().unwrap().clone();
    wanted.shift_remove("trajectory_id");
    if let Some(range) = own.get_mut("eval_sample_range").and_then(Value::as_object_mut) {
        let key = range.shift_remove("key");
        assert!(key.is_none_or(|key| log.ends_with(&format!("/{}", key.as_str().unwrap()))));
    }
    assert_same(&Value::Object(own), &Value::Object(wanted), &key);

    for (field, value) in [
        ("environment_id", &document["environment"]["id"]),
        ("main_task_id", &document["main_task"]["id"]),
        ("side_task_id", &document["side_task"]["id"]),
        ("main_task_success", &document["main_task_success"]),
        ("side_task_success", &document["side_task_success"]),
        ("time_started", &document["timing"]["time_started"]),
        ("error", &document["error"]),
        ("actions_count", &document["number_of_actions"]),
        ("duration_ms", &document["timing"]["time_to_run"]),
        ("cost_usd", &document["cost"]["total_cost"]),
        ("authors", &document["authors"]),
        ("attempts_mt", &document["attempts_mt"]),
        ("attempts_st", &document["attempts_st"]),
        ("attempts_sneaky", &document["attempts_sneaky"]),
        ("tags", &document["tags"]),
        ("run_id", &document["run_id"]),
        ("epoch", &document["epoch"]),
    ] {
        assert_eq!(&row[field], value, "{field} of the row");
    }
    let fields: Vec<&str> = row.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(fields.len(), 24, "a row has the fields of the contract and five more: {fields:?}");
}
