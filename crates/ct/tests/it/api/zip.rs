//! ZIP files: whole by the word of two other readers, complete, and honest about what is missing.

use std::process::Command;

use serde_json::Value;

use super::http::{Server, stored_log};
use crate::support::Home;

/// Reads the file twice: by its directory, and from front to back as it would arrive, trusting headers alone.
const READ: &str = r#"
import io, json, struct, sys, zipfile, zlib
data = open(sys.argv[1], "rb").read()
with zipfile.ZipFile(io.BytesIO(data)) as archive:
    assert archive.testzip() is None
    infos = archive.infolist()
    names = [info.filename for info in infos]
    assert len(set(names)) == len(names)
    assert all(info.compress_type in (0, 8) for info in infos)
    by_directory = {info.filename: archive.read(info) for info in infos}
at, streamed = 0, {}
while data[at:at + 4] == b"PK\x03\x04":
    version, flags, method, _, _, crc, csize, usize, n, e = struct.unpack("<5H3I2H", data[at + 4:at + 30])
    name, extra = data[at + 30:at + 30 + n].decode(), data[at + 30 + n:at + 30 + n + e]
    wide = False
    while extra:
        kind, size = struct.unpack("<2H", extra[:4])
        if kind == 1:
            wide = True
            usize, csize = struct.unpack("<2Q", extra[4:20])
        extra = extra[4 + size:]
    at += 30 + n + e
    if flags & 8:
        assert method == 8, "the end of stored data cannot be told"
        inflate = zlib.decompressobj(-15)
        content = inflate.decompress(data[at:])
        at = len(data) - len(inflate.unused_data)
        form = "<4sI2Q" if wide else "<4s3I"
        mark, crc, csize, usize = struct.unpack(form, data[at:at + struct.calcsize(form)])
        assert mark == b"PK\x07\x08"
        at += struct.calcsize(form)
    else:
        raw = data[at:at + csize]
        at += csize
        content = raw if method == 0 else zlib.decompress(raw, -15)
    assert zlib.crc32(content) == crc and len(content) == usize, name
    streamed[name] = content
assert data[at:at + 4] == b"PK\x01\x02"
assert streamed == by_directory
print(json.dumps({name: json.loads(content) for name, content in by_directory.items()}))
"#;

/// The members of a ZIP file, each one JSON.
fn members(home: &Home, bytes: &[u8]) -> serde_json::Map<String, Value> {
    let file = home.file("export.zip", bytes);
    let output = Command::new("python3").args(["-c", READ]).arg(file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_run_is_exported_with_the_same_metadata_and_samples() {
    let home = Home::new();
    // Deflated, zstd, stored and chunked samples, and a JSON log.
    for (number, log) in [
        "control-tower/ct-11.eval",
        "generated/mixed_methods.eval",
        "generated/chunked.eval",
        "generated/v0.3.120.eval",
        "generated/2026-11-30T08-39-24-00-00_json-format_hfaxVen43SgL4y3mLhYqgr.json",
    ]
    .iter()
    .enumerate()
    {
        let ending = log.rsplit_once('.').unwrap().1;
        let name = format!("{number}.{ending}");
        home.log(log, &name);
        home.stdout(&["runs", "make", &name, "--as-new"]);
    }
    let server = Server::start(&home, &["--public"]);
    let runs = server.json("/api/runs");
    assert_eq!(runs["total_count"], 5);
    for run in runs["items"].as_array().unwrap() {
        let run_id = run["run_id"].as_str().unwrap();
        let answer = server.get(&format!("/api/trajectories/zip?run_id={run_id}"));
        assert!(answer.status == 200 && answer.whole);
        assert_eq!(answer.header("content-type"), Some("application/zip"));
        let members = members(&home, &answer.body);
        let ids = server.json(&format!("/api/trajectories?ids_only=true&run_id={run_id}"));
        let ids: Vec<&str> = ids["items"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
        let mut names: Vec<String> = ids
            .iter()
            .flat_map(|id| ["metadata", "sample"].map(|part| format!("trajectories/{id}/{part}.json")))
            .collect();
        names.extend(["manifest.json".to_owned(), "failed.json".to_owned()]);
        assert_eq!(members.keys().collect::<Vec<_>>(), names.iter().collect::<Vec<_>>());
        assert_eq!(members["failed.json"], serde_json::json!([]));
        assert_eq!(members["manifest.json"]["trajectory_count"].as_u64(), Some(ids.len() as u64));
        for id in ids {
            let bundle = server.json(&format!("/api/trajectories/{id}"));
            assert_eq!(members[&format!("trajectories/{id}/metadata.json")], bundle["metadata"]);
            assert_eq!(members[&format!("trajectories/{id}/sample.json")], bundle["sample"]);
        }
    }
}

#[test]
fn what_is_missing_or_damaged_is_told_and_costs_nothing_else() {
    let home = Home::with_runs();
    let server = Server::start(&home, &["--public"]);
    let documents = server.json("/api/trajectories?documents=true");
    let documents = documents["items"].as_array().unwrap();
    let id = |index: usize| documents[index]["trajectory_id"].as_str().unwrap();
    let range = &documents[1]["eval_sample_range"];
    let at = range["compressedStart"].as_u64().unwrap() + range["compressedSize"].as_u64().unwrap() / 2;
    let run = documents[1]["run_id"].as_str().unwrap();
    // A run's id is the beginning of its log's hash.
    let log = stored_log(&home, run);
    let mut bytes = std::fs::read(&log).unwrap();
    bytes[usize::try_from(at).unwrap()] ^= 0x55;
    std::fs::write(&log, bytes).unwrap();

    let list = format!("{},none,{},{},{}", id(0), id(1), id(2), id(0));
    let answer = server.get(&format!("/api/trajectories/zip?trajectory_ids={list}"));
    let members = members(&home, &answer.body);
    assert_eq!(members["manifest.json"]["trajectory_ids"], serde_json::json!([id(0), id(2)]));
    let failed = members["failed.json"].as_array().unwrap();
    let named: Vec<&str> = failed.iter().map(|item| item["trajectory_id"].as_str().unwrap()).collect();
    assert_eq!(named, ["none", id(1)]);
    assert!(failed[0]["error"].as_str().unwrap().contains("not found"));
    assert!(failed[1]["error"].as_str().unwrap().contains("cannot be read"));
}

#[test]
fn what_a_dataset_has_and_is_deleted_is_told() {
    let home = Home::with_runs();
    let rows = home.json(&["runs", "list", "--format", "json"])["items"].clone();
    let run = |index: usize| rows[index]["run_id"].as_str().unwrap();
    let server = Server::start(&home, &["--public"]);
    let ids = |index: usize| -> Vec<String> {
        let listed = server.json(&format!("/api/trajectories?ids_only=true&run_id={}", run(index)));
        listed["items"].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect()
    };
    let (kept, gone) = (ids(0), ids(1));
    home.stdout(&["dataset", "create", "d", &gone[0], &kept[0]]);
    home.stdout(&["runs", "delete", run(1)]);
    let answer = server.get("/api/trajectories/zip?versioned_dataset=d");
    let members = members(&home, &answer.body);
    assert_eq!(members["manifest.json"]["trajectory_ids"], serde_json::json!([kept[0]]));
    assert_eq!(members["manifest.json"]["selection"]["versioned_dataset_version"], 1);
    let failed = members["failed.json"].as_array().unwrap();
    assert_eq!((failed.len(), &failed[0]["trajectory_id"]), (1, &serde_json::json!(gone[0])));
    assert!(failed[0]["error"].as_str().unwrap().contains("deleted"), "{failed:?}");
}

#[test]
fn what_a_dataset_of_runs_has_and_is_deleted_is_told() {
    let home = Home::with_runs();
    let rows = home.json(&["runs", "list", "--format", "json"])["items"].clone();
    let run = |index: usize| rows[index]["run_id"].as_str().unwrap();
    home.stdout(&["dataset", "create", "d", run(0), run(1), "--kind", "run"]);
    home.stdout(&["runs", "delete", run(1)]);
    let server = Server::start(&home, &["--public"]);
    let answer = server.get("/api/trajectories/zip?versioned_dataset=d");
    let members = members(&home, &answer.body);
    let manifest = &members["manifest.json"];
    assert_eq!(manifest["trajectory_count"], rows[0]["trajectory_count"]);
    assert_eq!(manifest["failed_count"], 1);
    let failed = serde_json::json!([{"run_id": run(1), "error": format!("run {} is deleted", run(1))}]);
    assert_eq!(members["failed.json"], failed);
}

#[test]
fn more_ids_than_an_address_holds_come_in_the_body() {
    let home = Home::with_runs();
    let server = Server::start(&home, &["--public"]);
    let listed = server.json("/api/trajectories?ids_only=true");
    let mut ids: Vec<String> =
        listed["items"].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect();
    let there = ids.len();
    ids.extend((0..3_000).map(|number| format!("{number:032x}")));
    // What an address holds has an end, of which the server says what it is.
    assert_eq!(server.get(&format!("/api/trajectories/zip?trajectory_ids={}", ids.join(","))).status, 414);
    let body = serde_json::json!({"trajectory_ids": ids}).to_string();
    let answer = server.send("POST", "/api/trajectories/zip", &[], body.as_bytes());
    assert_eq!(answer.status, 200);
    let members = members(&home, &answer.body);
    assert_eq!(members["manifest.json"]["trajectory_count"], there);
    assert_eq!(members["failed.json"].as_array().unwrap().len(), 3_000);
    for (body, status) in [
        (r#"{}"#, 400),
        (r#"{"trajectory_ids": [], "other": 1}"#, 400),
        (r#"{"run_id": "a", "versioned_dataset": "b"}"#, 400),
        (r#"{"run_id": "a"}"#, 404),
        (r#"{"versioned_dataset": "a"}"#, 404),
    ] {
        let answer = server.send("POST", "/api/trajectories/zip", &[], body.as_bytes());
        assert_eq!((answer.status, answer.json()["error"].is_string()), (status, true), "{body}");
    }
}
