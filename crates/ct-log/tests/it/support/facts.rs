//! The facts of a log, taken from its plain JSON the way the recorded answers of Inspect's own reader were taken.

use serde_json::{Map, Value, json};

static NULL: Value = Value::Null;

fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    path.split('.').try_fold(value, |v, key| v.get(key)).unwrap_or(&NULL)
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn list<'a>(value: &'a Value, path: &str) -> &'a [Value] {
    items(at(value, path))
}

fn or_empty(value: &Value) -> Value {
    if value.is_null() { json!({}) } else { value.clone() }
}

fn chars(value: &Value) -> usize {
    value.as_str().map_or(0, |text| text.chars().count())
}

/// Text parts, joined by newline.
fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        _ => {
            let parts: Vec<&str> = items(content).iter().filter_map(|part| part["text"].as_str()).collect();
            parts.join("\n")
        }
    }
}

/// A score in the words of the recorded answers.
fn score(score: &Value) -> Value {
    let mut facts = Map::new();
    for key in ["value", "answer", "explanation", "reason"] {
        if !score[key].is_null() || key == "value" {
            facts.insert(key.to_owned(), score[key].clone());
        }
    }
    if score["metadata"].as_object().is_some_and(|m| !m.is_empty()) {
        facts.insert("metadata".to_owned(), score["metadata"].clone());
    }
    let history: Vec<Value> = items(&score["history"])
        .iter()
        .map(|edit| {
            json!({
                "value": edit["value"],
                "author": at(edit, "provenance.author"),
                "reason": at(edit, "provenance.reason"),
            })
        })
        .collect();
    if !history.is_empty() {
        facts.insert("history".to_owned(), history.into());
    }
    facts.into()
}

fn events(sample: &Value) -> &[Value] {
    if sample["events"].is_null() { list(sample, "transcript.events") } else { list(sample, "events") }
}

/// Messages that a model event saw, with its references into the pool followed.
fn input_length(sample: &Value, event: &Value) -> usize {
    if event["input_refs"].is_null() {
        return list(event, "input").len();
    }
    let pool = match list(sample, "events_data.messages") {
        [] => list(sample, "message_pool"),
        pool => pool,
    };
    items(&event["input_refs"])
        .iter()
        .map(|range| {
            let end = |i: usize| (range[i].as_u64().unwrap() as usize).min(pool.len());
            end(1).saturating_sub(end(0))
        })
        .sum()
}

fn tool_calls(sample: &Value) -> Vec<Value> {
    let messages = list(sample, "messages");
    let mut calls = Vec::new();
    for (i, message) in messages.iter().enumerate() {
        for call in list(message, "tool_calls") {
            let answer =
                messages[i..].iter().find(|m| m["role"] == "tool" && m["tool_call_id"] == call["id"]);
            let mut facts = json!({
                "id": call["id"], "function": call["function"], "arguments": call["arguments"],
            });
            if let Some(answer) = answer {
                facts["result"] = text(&answer["content"]).into();
                if !answer["error"].is_null() {
                    facts["error"] = json!({
                        "type": answer["error"]["type"], "message": answer["error"]["message"],
                    });
                } else if let Some(old) = answer["tool_error"].as_str() {
                    facts["error"] = json!({ "type": "unknown", "message": old });
                }
            }
            calls.push(facts);
        }
    }
    calls
}

/// The facts of one sample. `scorer` names the only score of the oldest logs, which have no names there.
pub(crate) fn sample(sample: &Value, scorer: Option<&str>) -> Value {
    let mut kinds = Map::new();
    for event in events(sample) {
        let kind = event["event"].as_str().unwrap();
        kinds.insert(kind.to_owned(), (kinds.get(kind).and_then(Value::as_u64).unwrap_or(0) + 1).into());
    }
    let models = events(sample).iter().filter(|e| e["event"] == "model" && e["pending"] != true);
    let tools: Vec<Value> = events(sample)
        .iter()
        .filter(|e| e["event"] == "tool")
        .map(|e| json!({ "id": e["id"], "function": e["function"], "error": at(e, "error.type") }))
        .collect();
    let scores = match (&sample["scores"], &sample["score"], scorer) {
        (Value::Object(scores), _, _) => {
            scores.iter().map(|(name, found)| (name.clone(), score(found))).collect()
        }
        (_, found @ Value::Object(_), Some(scorer)) => json!({ scorer: score(found) }),
        _ => Value::Null,
    };
    let retries = match &sample["error_retries"] {
        Value::Array(retries) => retries.iter().map(|e| e["message"].clone()).collect(),
        _ => Value::Null,
    };
    let output = &sample["output"];
    let completion = match output["completion"].as_str() {
        Some(completion) => completion.to_owned(),
        None => text(at(&output["choices"][0], "message.content")),
    };
    let attachments = [at(sample, "attachments"), at(sample, "transcript.content")]
        .into_iter()
        .find_map(Value::as_object)
        .cloned()
        .unwrap_or_default();
    let calls = tool_calls(sample);
    json!({
        "id": sample["id"],
        "id_type": if sample["id"].is_string() { "str" } else { "int" },
        "epoch": sample["epoch"],
        "uuid": sample["uuid"],
        "input": match &sample["input"] {
            Value::Array(messages) => json!({ "messages": messages.len() }),
            text => text.clone(),
        },
        "target": sample["target"],
        "message_count": list(sample, "messages").len(),
        "message_roles": list(sample, "messages").iter().map(|m| m["role"].clone()).collect::<Value>(),
        "completion": completion,
        "stop_reason": output["choices"][0]["stop_reason"],
        "event_count": events(sample).len(),
        "event_types": kinds,
        "model_event_input_lengths": models.map(|e| input_length(sample, e)).collect::<Vec<_>>(),
        "tool_call_count": calls.len(),
        "tool_calls": calls,
        "tool_events": tools,
        "scores": scores,
        "model_usage": or_empty(&sample["model_usage"]),
        "role_usage": or_empty(&sample["role_usage"]),
        "error": at(sample, "error.message"),
        "error_retries": retries,
        "limit": sample["limit"],
        "started_at": sample["started_at"],
        "completed_at": sample["completed_at"],
        "total_time": sample["total_time"],
        "working_time": sample["working_time"],
        "metadata": or_empty(&sample["metadata"]),
        "store": or_empty(&sample["store"]),
        "attachment_count": attachments.len(),
        "attachment_lengths": attachments.iter().map(|(k, v)| (k.clone(), chars(v))).collect::<Value>(),
        "invalidated": !sample["invalidation"].is_null(),
        "turn_count": sample["turn_count"],
    })
}

/// The name of the scorer where there was only one.
pub(crate) fn old_scorer(header: &Value) -> Option<&str> {
    at(header, "results.scorer.name").as_str()
}

fn metrics(of: &Value) -> Value {
    let values = of["metrics"].as_object().cloned().unwrap_or_default();
    values.iter().map(|(name, metric)| (name.clone(), metric["value"].clone())).collect()
}

/// The facts of a header. `reductions` is the member or the part of the document that holds them.
pub(crate) fn header(header: &Value, reductions: &Value) -> Value {
    let eval = &header["eval"];
    let results = match &header["results"] {
        Value::Null => Value::Null,
        results => {
            let row = |row: &Value, name: &Value, scorer: &Value| {
                json!({
                    "name": name, "scorer": scorer, "reducer": row["reducer"],
                    "scored_samples": row["scored_samples"], "unscored_samples": row["unscored_samples"],
                    "metrics": metrics(row),
                })
            };
            let scores: Vec<Value> = match old_scorer(header) {
                Some(name) => vec![row(results, &name.into(), &name.into())],
                None => list(results, "scores").iter().map(|r| row(r, &r["name"], &r["scorer"])).collect(),
            };
            json!({
                "total_samples": results["total_samples"].as_u64().unwrap_or(0),
                "completed_samples": results["completed_samples"].as_u64().unwrap_or(0),
                "scores": scores,
            })
        }
    };
    // Where they stood from 0.3.23 to 0.3.42.
    let old = at(header, "results.sample_reductions");
    let reductions: Value = match if reductions.is_null() { old } else { reductions } {
        Value::Array(rows) => rows
            .iter()
            .map(|row| {
                json!({
                    "scorer": row["scorer"], "reducer": row["reducer"],
                    "samples": items(&row["samples"]).iter()
                        .map(|s| json!({ "sample_id": s["sample_id"], "value": s["value"] }))
                        .collect::<Value>(),
                })
            })
            .collect(),
        _ => Value::Null,
    };
    let count = |key: &str| header[key].as_array().map(Vec::len);
    json!({
        "version": header["version"],
        "status": header["status"],
        "error": at(header, "error.message"),
        "invalidated": header["invalidated"].as_bool().unwrap_or(false),
        "tags": if header["tags"].is_null() { or_list(&eval["tags"]) } else { header["tags"].clone() },
        "metadata":
            or_empty(if header["metadata"].is_null() { &eval["metadata"] } else { &header["metadata"] }),
        "eval": {
            "task": eval["task"],
            "task_id": eval["task_id"],
            "eval_id": eval["eval_id"],
            "run_id": eval["run_id"],
            "created": eval["created"],
            "model": eval["model"],
            "task_version": eval["task_version"],
            "tags": eval["tags"],
            "metadata": eval["metadata"],
            "dataset": {
                "name": at(eval, "dataset.name"),
                "samples": at(eval, "dataset.samples"),
                "sample_ids": at(eval, "dataset.sample_ids"),
            },
            "epochs": at(eval, "config.epochs"),
            "packages": eval["packages"],
            "solver": eval["solver"],
            "model_roles": eval["model_roles"].as_object().map(|r| r.keys().cloned().collect::<Vec<_>>()),
        },
        "plan_steps": list(header, "plan.steps").iter().map(|s| s["solver"].clone()).collect::<Value>(),
        "stats": {
            "started_at": at(header, "stats.started_at").as_str().unwrap_or(""),
            "completed_at": at(header, "stats.completed_at").as_str().unwrap_or(""),
            "model_usage": or_empty(at(header, "stats.model_usage")),
            "role_usage": or_empty(at(header, "stats.role_usage")),
        },
        "results": results,
        "reductions": reductions,
        "log_updates": count("log_updates"),
        "config_updates": count("config_updates"),
    })
}

fn or_list(value: &Value) -> Value {
    if value.is_null() { json!([]) } else { value.clone() }
}

/// The facts of a summary row.
pub(crate) fn summary(row: &Value) -> Value {
    let scores = match &row["scores"] {
        Value::Object(scores) => scores.iter().map(|(k, v)| (k.clone(), v["value"].clone())).collect(),
        _ => Value::Null,
    };
    json!({
        "id": row["id"], "epoch": row["epoch"], "uuid": row["uuid"],
        "completed": row["completed"].as_bool().unwrap_or(false),
        "error": row["error"], "limit": row["limit"], "retries": row["retries"],
        "message_count": row["message_count"], "scores": scores,
    })
}

/// Compares what was recorded with what was found and notes each difference. Only what was recorded is asked for.
pub(crate) fn compare(expected: &Value, found: &Value, path: &str, differences: &mut Vec<String>) {
    let mut differ = || differences.push(format!("{path}: expected {expected}, found {found}"));
    match (expected, found) {
        (Value::Object(want), Value::String(text)) if want.contains_key("$sha256") => {
            let head: String = text.chars().take(80).collect();
            let same = want["$len"] == text.chars().count()
                && want["$head"].as_str() == Some(&head)
                && want["$sha256"].as_str() == Some(&sha256(text));
            if !same {
                differ();
            }
        }
        (Value::Object(want), have @ Value::Object(_)) if want.contains_key("$sha256") => {
            compare(expected, &Value::String(python_text(have)), path, differences);
        }
        (Value::Object(want), Value::Object(have)) => {
            for (key, want) in want {
                compare(want, have.get(key).unwrap_or(&NULL), &format!("{path}.{key}"), differences);
            }
            // Names are data here: none may be there in excess.
            for key in have.keys().filter(|key| !want.contains_key(*key)) {
                differences.push(format!("{path}.{key}: not expected"));
            }
        }
        (Value::Array(want), Value::Array(have)) if want.len() == have.len() => {
            for (i, (want, have)) in want.iter().zip(have).enumerate() {
                compare(want, have, &format!("{path}[{i}]"), differences);
            }
        }
        (Value::Number(want), Value::Number(have)) => {
            let (want, have) = (want.as_f64().unwrap(), have.as_f64().unwrap());
            // The test's parser of the recorded answers is off by a last bit now and then.
            if (want - have).abs() > want.abs() * 1e-15 || want.is_sign_negative() != have.is_sign_negative()
            {
                differ();
            }
        }
        _ if expected == found => {}
        _ => differ(),
    }
}

/// A value as Python's `json.dumps` writes it.
fn python_text(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let members: Vec<String> =
                map.iter().map(|(k, v)| format!("{}: {}", Value::from(k.as_str()), python_text(v))).collect();
            format!("{{{}}}", members.join(", "))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(python_text).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

fn sha256(text: &str) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}
