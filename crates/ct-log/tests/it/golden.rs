//! Every log made for the tests against what Inspect's own Python reader said of it, and, where that one fails, against
//! what was recorded of the intact original.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use ct_log::{Log, LogError};
use serde_json::{Value, json};

use crate::support::{self, exact, facts, generated, sample_bytes_both_ways};

fn recorded(path: &Path) -> Value {
    let text = std::fs::read(format!("{}.expected.json", path.display())).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// What a log holds, in the words of the recorded answers.
struct Found {
    log: Log,
    header: Value,
    header_facts: Value,
    /// Ids as text, epochs, and the facts or what prevents them.
    samples: Vec<(String, u64, Result<Value, String>)>,
}

fn read(path: &Path) -> Found {
    let log = Log::open(path).unwrap();
    let header = exact(&log.header().unwrap().raw);
    let reductions = log.reductions().unwrap().map_or(Value::Null, |raw| exact(&raw));
    let header_facts = facts::header(&header, &reductions);
    let scorer = facts::old_scorer(&header);
    let samples = log
        .samples()
        .unwrap()
        .iter()
        .map(|entry| {
            let found = match sample_bytes_both_ways(&log, entry) {
                Ok(raw) => {
                    let value = exact(&raw);
                    let id = value["id"].as_str().map_or_else(|| value["id"].to_string(), str::to_owned);
                    assert_eq!((id, value["epoch"].as_u64().unwrap()), (entry.id.clone(), entry.epoch));
                    Ok(facts::sample(&value, scorer))
                }
                Err(e) => Err(support::chain(&e)),
            };
            (entry.id.clone(), entry.epoch, found)
        })
        .collect();
    Found { log, header, header_facts, samples }
}

/// The logs with their recorded answers, read once for all tests.
fn logs() -> &'static [(PathBuf, Value, Found)] {
    static LOGS: OnceLock<Vec<(PathBuf, Value, Found)>> = OnceLock::new();
    LOGS.get_or_init(|| {
        let made = support::data().join("generated");
        let logs = support::logs().into_iter().filter(|p| p.starts_with(&made));
        logs.map(|path| (path.clone(), recorded(&path), read(&path))).collect()
    })
}

fn text(id: &Value) -> String {
    id.as_str().map_or_else(|| id.to_string(), str::to_owned)
}

/// Asserts over all logs at once, so that one run shows every difference.
fn assert_same(check: impl Fn(&Path, &Value, &Found, &mut Vec<String>)) {
    let mut all = Vec::new();
    for (path, expected, found) in logs() {
        let mut differences = Vec::new();
        check(path, expected, found, &mut differences);
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        all.extend(differences.into_iter().map(|d| format!("{name}: {d}")));
    }
    assert!(all.is_empty(), "{} differences:\n{}", all.len(), all.join("\n"));
}

#[test]
fn members() {
    assert_same(|_, expected, found, differences| {
        let log = &found.log;
        let Some(archive) = log.archive() else {
            assert!(expected["members"].is_null());
            return;
        };
        let rows = archive.entries().iter().map(|e| {
            json!({
                "name": e.name, "method": e.method,
                "compressed_size": e.compressed_size, "uncompressed_size": e.uncompressed_size,
            })
        });
        if let Some(members) = expected["members"].as_array() {
            let rows: Vec<Value> =
                if expected["members_note"].is_null() { rows.collect() } else { rows.take(20).collect() };
            facts::compare(&json!(members), &json!(rows), "members", differences);
            assert!(log.defects().is_empty(), "{:?}", log.defects());
        } else {
            // No directory: the whole members in physical order, each with a sound checksum.
            let salvaged: Vec<Value> = expected["salvage"]["members_in_physical_order"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|m| m["complete"] == true && m["crc_ok"] == true)
                .map(|m| {
                    json!({
                        "name": m["name"], "method": m["method"],
                        "compressed_size": m["compressed_size"], "uncompressed_size": m["uncompressed_size"],
                    })
                })
                .collect();
            assert!(salvaged.len() >= 5);
            facts::compare(&json!(salvaged), &rows.collect(), "salvaged", differences);
        }
    });
}

#[test]
fn headers() {
    let mut compared = 0;
    assert_same(|_, expected, found, differences| {
        let mut want = expected["inspect"]["header_only"].clone();
        if want.is_null() {
            return;
        }
        // Where its reader of headers leaves something out that its reader of whole logs has.
        if let Some(whole) = expected["inspect"]["full_header_differs"].as_object() {
            for (key, value) in whole {
                want[key] = value.clone();
            }
        }
        let mut have = found.header_facts.clone();
        if have["version"] == 1 {
            // Its reader calls what it has migrated version 2.
            have["version"] = json!(2);
        }
        if have["eval"]["dataset"]["sample_ids"].is_null() && !want["eval"]["dataset"]["sample_ids"].is_null()
        {
            // Not written before 0.3.43: its reader takes them from the samples, in the order of the document.
            let mut ids: Vec<&Value> =
                found.samples.iter().map(|(_, _, facts)| &facts.as_ref().unwrap()["id"]).collect();
            let mut seen = std::collections::HashSet::new();
            ids.retain(|id| seen.insert(text(id)));
            have["eval"]["dataset"]["sample_ids"] = json!(ids);
        }
        if found.header["eval"]["eval_id"].is_null() {
            // Made up by its reader for logs from before there was one.
            have["eval"]["eval_id"] = want["eval"]["eval_id"].clone();
        }
        facts::compare(&want, &have, "header", differences);
        assert_eq!(found.log.header().unwrap().inferred, {
            let archive = found.log.archive();
            archive.is_some_and(|a| a.get("header.json").is_none())
        });
    });
    for (_, expected, _) in logs() {
        compared += usize::from(!expected["inspect"]["header_only"].is_null());
    }
    assert_eq!(compared, 40);
}

/// Messages seen by each model event of a sample, with references followed into the pools of format version 3.
fn pooled_lengths<'a>(expected: &'a Value, sample: &Value) -> &'a Value {
    let all = expected["tolerant_reader"]["samples"].as_array().unwrap();
    let found = all.iter().find(|s| s["id"] == sample["id"] && s["epoch"] == sample["epoch"]).unwrap();
    &found["model_event_input_lengths"]
}

#[test]
fn samples() {
    assert_same(|path, expected, found, differences| {
        let theirs = &expected["inspect"];
        let Some(want) = theirs["samples"].as_array() else { return };
        let mut want = want.clone();
        if path.ends_with("v0.3.199_pools_v3.eval") {
            // Its reader loses the pools of that version: see the test of them.
            for want in &mut want {
                want["model_event_input_lengths"] = pooled_lengths(expected, want).clone();
            }
        }
        let have: Vec<&Value> = found.samples.iter().map(|(_, _, facts)| facts.as_ref().unwrap()).collect();
        assert_eq!(have.len() as u64, theirs["sample_count"].as_u64().unwrap());
        if let Some(keys) = theirs["sample_keys"].as_array() {
            let found: Vec<Value> = have.iter().map(|s| json!([s["id"], s["epoch"]])).collect();
            facts::compare(&json!(keys), &json!(found), "keys", differences);
        }
        // One log is recorded with its first two samples and its last.
        let have: Vec<&Value> = match theirs["samples_note"].is_null() {
            true => have,
            false => vec![have[0], have[1], have[have.len() - 1]],
        };
        facts::compare(&json!(want), &json!(have), "samples", differences);
    });
}

#[test]
fn samples_that_the_official_reader_cannot_read() {
    assert_same(|path, expected, found, differences| {
        let tolerant = &expected["tolerant_reader"];
        let Some(want) = tolerant["samples"].as_array() else { return };
        if path.ends_with("v0.3.199_pools_v3.eval") {
            // Read by it, but without the pools: compared with the other samples.
            return;
        }
        let chunked = found.log.samples().unwrap().iter().any(|s| s.is_chunked());
        let mut have = Vec::new();
        for (id, epoch, facts) in &found.samples {
            match facts {
                Ok(facts) => have.push(facts),
                Err(e) => {
                    assert_eq!(tolerant["unreadable_sample"], id.as_str(), "{id} {epoch}: {e}");
                    assert!(e.contains("CRC mismatch") || e.contains("damaged"), "{e}");
                }
            }
        }
        assert_eq!(have.len(), want.len());
        assert_eq!(found.samples.len() - have.len(), usize::from(!tolerant["unreadable_sample"].is_null()));
        for (i, (want, have)) in want.iter().zip(have).enumerate() {
            let future = path.ends_with("future_fields.eval");
            for (key, want) in want.as_object().unwrap() {
                if chunked && key.starts_with("attachment_") {
                    continue;
                }
                let mut have = have[key].clone();
                if future && key == "event_types" {
                    assert_eq!(have.as_object_mut().unwrap().remove("quantum"), Some(json!(1)));
                } else if future && key == "event_count" {
                    have = json!(have.as_u64().unwrap() - 1);
                }
                facts::compare(want, &have, &format!("[{i}].{key}"), differences);
            }
        }
        if let Some(status) = tolerant["status"].as_str() {
            assert_eq!(found.header["status"], status);
        }
    });
}

#[test]
fn totals() {
    assert_same(|_, expected, found, differences| {
        let whole = &expected["inspect"]["totals"];
        let want = if whole.is_null() { &expected["tolerant_reader"]["totals"] } else { whole };
        if want.is_null() {
            return;
        }
        let mut tokens = serde_json::Map::new();
        let mut calls = 0;
        for (_, _, facts) in &found.samples {
            let facts = facts.as_ref().unwrap();
            calls += facts["tool_call_count"].as_u64().unwrap();
            for usage in facts["model_usage"].as_object().unwrap().values() {
                for key in ["input_tokens", "output_tokens", "total_tokens"] {
                    let sum = tokens.entry(key).or_insert(json!(0));
                    *sum = json!(sum.as_u64().unwrap() + usage[key].as_u64().unwrap());
                }
            }
        }
        facts::compare(
            want,
            &json!({ "tokens_over_samples": tokens, "tool_calls": calls }),
            "totals",
            differences,
        );
    });
}

#[test]
fn summaries() {
    assert_same(|_, expected, found, differences| {
        let Some(want) = expected["inspect"]["summaries"].as_array() else { return };
        let log = &found.log;
        let mut have = Vec::new();
        log.summaries(&mut |row| {
            let value = exact(&row.raw);
            assert_eq!((row.id, row.epoch), (text(&value["id"]), value["epoch"].as_u64().unwrap()));
            have.push(value);
            Ok::<_, LogError>(())
        })
        .unwrap();
        if log.archive().is_none() {
            // A JSON document holds no rows; the official reader makes them from the samples.
            assert!(have.is_empty());
            return;
        }
        let have: Vec<Value> = have.iter().map(facts::summary).collect();
        facts::compare(&json!(want), &json!(have), "summaries", differences);
    });
}

#[test]
fn every_sample_is_found_by_its_id() {
    for path in support::logs() {
        let log = Log::open(&path).unwrap();
        for sample in log.samples().unwrap() {
            assert_eq!(log.sample(&sample.id, sample.epoch).unwrap(), sample);
        }
        assert!(matches!(log.sample("no such id", 1), Err(LogError::NoSample { .. })));
    }
}

#[test]
fn the_control_tower_logs_match_their_documents() {
    for name in ["ct-11", "ct-12"] {
        let folder = support::data().join("control-tower");
        let expected: Value =
            serde_json::from_slice(&std::fs::read(folder.join(format!("{name}.expected.json"))).unwrap())
                .unwrap();
        let log = Log::open(&folder.join(format!("{name}.eval"))).unwrap();
        let found: Vec<String> =
            log.samples().unwrap().iter().map(|s| format!("{}#{}", s.id, s.epoch)).collect();
        let mut want: Vec<String> = expected["trajectories"].as_object().unwrap().keys().cloned().collect();
        want.sort();
        assert_eq!(found, want);
        assert_eq!(log.header().unwrap().value["status"], "success");
    }
}

#[test]
fn unfinished_logs_are_read_from_their_journal() {
    for (name, samples) in
        [("crashed_inprogress.eval", 3), ("crashed_start_only.eval", 0), ("duplicate_inprogress.eval", 2)]
    {
        let log = Log::open(&generated(name)).unwrap();
        let header = log.header().unwrap();
        assert!(header.inferred);
        assert_eq!(header.value["status"], "started");
        assert_eq!(log.samples().unwrap().len(), samples);
        assert!(log.defects().is_empty(), "an unfinished log is no damaged one: {:?}", log.defects());
    }
}
