//! One trajectory: its sample byte for byte, its errors, and its log.

use std::io::{Read as _, Seek as _, SeekFrom, Write as _};

use serde_json::Value;

use super::http::{Server, stored_log};
use crate::support::{Home, shared_logs};

fn ids(server: &Server) -> Vec<String> {
    let page = server.json("/api/trajectories?ids_only=true&page_size=10000");
    page["items"].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect()
}

/// What stands between `"sample":` and the last `}` of a trajectory.
fn sample(bundle: &[u8]) -> Vec<u8> {
    let metadata = &bundle[br#"{"metadata":"#.len()..];
    let mut values = serde_json::Deserializer::from_slice(metadata).into_iter::<Value>();
    values.next().unwrap().unwrap();
    let rest = metadata[values.byte_offset()..].strip_prefix(br#","sample":"#.as_slice()).unwrap();
    rest.strip_suffix(b"}\n".as_slice()).unwrap().to_vec()
}

#[test]
fn samples_of_every_log_are_byte_for_byte_those_that_a_download_writes() {
    let home = Home::new();
    for log in shared_logs() {
        // Some are no logs at all, and some hold the same eval.
        let _ = home.command(&["runs", "make", log.to_str().unwrap(), "--as-new"]).output().unwrap();
    }
    let server = Server::start(&home, &["--public"]);
    let runs = server.json("/api/runs?page_size=500");
    let (mut same, mut refused) = (0, 0);
    for run in runs["items"].as_array().unwrap() {
        let run = run["run_id"].as_str().unwrap();
        let download = home.command(&["runs", "download-trajs", run, "-o", run]).output().unwrap();
        let page = server.json(&format!("/api/trajectories?ids_only=true&page_size=10000&run_id={run}"));
        for id in page["items"].as_array().unwrap() {
            let id = id.as_str().unwrap();
            let answer = server.get(&format!("/api/trajectories/{id}"));
            if answer.status != 200 {
                assert!(answer.json()["error"].as_str().unwrap().contains("cannot be read"));
                assert!(!download.status.success(), "{id} of {run} is read by one and not by the other");
                refused += 1;
                continue;
            }
            let file = std::fs::read(home.path(&format!("{run}/{id}.json"))).unwrap();
            assert!(sample(&answer.body) == sample(&file), "{id} of {run}");
            assert!(answer.whole);
            same += 1;
        }
    }
    assert!(same > 50, "{same} are the same, {refused} cannot be read");
}

#[test]
fn a_small_damaged_sample_is_an_error_and_a_large_one_is_cut_off() {
    let home = Home::new();
    home.log("generated/big_strings.eval", "log.eval");
    home.stdout(&["runs", "make", "log.eval"]);
    let server = Server::start(&home, &["--public"]);
    let documents = server.json("/api/trajectories?documents=true");
    let (mut cut, mut errors) = (0, 0);
    for document in documents["items"].as_array().unwrap() {
        let path = format!("/api/trajectories/{}", document["trajectory_id"].as_str().unwrap());
        let whole = server.get(&path);
        assert!(whole.whole && whole.status == 200);
        let range = &document["eval_sample_range"];
        let middle =
            range["compressedStart"].as_u64().unwrap() + range["compressedSize"].as_u64().unwrap() - 9;
        let mut file = std::fs::File::options().read(true).write(true).open(stored_log(&home, "")).unwrap();
        let mut byte = [0];
        file.seek(SeekFrom::Start(middle)).unwrap();
        file.read_exact(&mut byte).unwrap();
        file.seek(SeekFrom::Start(middle)).unwrap();
        file.write_all(&[byte[0] ^ 0x55]).unwrap();
        let damaged = server.get(&path);
        if range["uncompressedSize"].as_u64().unwrap() < 128 << 10 {
            assert_eq!(damaged.status, 500);
            assert!(damaged.json()["error"].as_str().unwrap().contains("cannot be read"));
            errors += 1;
        } else {
            assert_eq!(damaged.status, 200);
            assert!(!damaged.whole, "{} of {}", damaged.body.len(), whole.body.len());
            assert!(damaged.body.len() < whole.body.len());
            cut += 1;
        }
    }
    assert!(cut > 0, "{cut} cut, {errors} refused");
}

#[test]
fn errors_are_in_the_envelope() {
    let home = Home::with_runs();
    let server = Server::start(&home, &["--public"]);
    let id = ids(&server).remove(0);
    for (path, status) in [
        ("/api/trajectories/none", 404),
        ("/api/trajectories/..%2F..%2Fetc%2Fpasswd", 404),
        ("/api/trajectories/%FF", 404),
        ("/api/runs/none", 404),
        ("/api/runs/none/eval", 404),
        ("/api/trajectories/none/eval", 404),
        ("/api/runs?page=0", 400),
        ("/api/runs?page=x", 400),
        ("/api/runs?cursor=x", 400),
        ("/api/runs?sort=beauty", 400),
        ("/api/runs?created_from=yesterday", 400),
        ("/api/trajectories?main_task_outcome=best", 400),
        ("/api/trajectories?documents=true&ids_only=true", 400),
        ("/api/trajectories?versioned_dataset=none", 404),
        ("/api/trajectories/zip", 400),
        ("/api/trajectories/zip?run_id=none", 404),
        ("/api/trajectories/zip?trajectory_ids=none", 404),
        ("/api/runs/resolve", 400),
        ("/api/runs/resolve?prefix=zz", 404),
        ("/nothing", 404),
    ] {
        let answer = server.get(path);
        assert_eq!(answer.status, status, "{path}: {}", String::from_utf8_lossy(&answer.body));
        assert!(answer.json()["error"].as_str().is_some_and(|sentence| !sentence.is_empty()), "{path}");
        assert!(answer.header("x-request-id").is_some());
    }
    let answer = server.send("DELETE", &format!("/api/trajectories/{id}"), &[], b"");
    assert_eq!((answer.status, answer.json()["error"].is_string()), (405, true));
    // A run that cannot be one has no trajectories.
    assert_eq!(server.json("/api/trajectories?run_id=%20")["total_count"], 0);
    let empty = server.json("/api/trajectories?environment=&tag=");
    assert!(empty["total_count"].as_u64().unwrap() > 0, "an empty filter is none");
    let warned = server.json("/api/trajectories?colour=red&page_size=100000");
    assert_eq!(warned["page_size"], 500);
    assert_eq!(warned["warnings"].as_array().unwrap().len(), 2, "{warned}");
}

#[test]
fn logs_are_fetched_by_a_redirect() {
    let home = Home::with_runs();
    let server = Server::start(&home, &["--public"]);
    let id = ids(&server).remove(0);
    let run = server.json("/api/trajectories?page_size=1")["items"][0]["run_id"].as_str().unwrap().to_owned();
    for path in [format!("/api/trajectories/{id}/eval"), format!("/api/runs/{run}/eval")] {
        let answer = server.get(&path);
        assert_eq!(answer.status, 302);
        let base = format!("http://{}", server.address);
        let location = answer.header("location").unwrap().strip_prefix(&base).unwrap().to_owned();
        let log = server.get(&location);
        assert!(log.status == 200 && log.whole && log.body.starts_with(b"PK"));
        assert_eq!(server.get(location.split_once('?').unwrap().0).status / 100, 4);
    }
}

#[test]
fn runs_are_patched_deleted_and_restored() {
    let home = Home::with_runs();
    let token = crate::server::user_with_token(&home, super::http::ADMIN, "admin");
    let server = Server::start(&home, &["--private"]);
    let bearer = format!("Bearer {token}");
    let auth = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let ask = |method: &str, path: &str, body: &str| server.send(method, path, &auth, body.as_bytes());
    assert_eq!(server.get("/api/runs").status, 401);
    let runs = ask("GET", "/api/runs?tags_include=synthetic,attack", "").json();
    assert_eq!(runs["total_count"], 1);
    let run = runs["items"][0]["run_id"].as_str().unwrap().to_owned();
    let path = format!("/api/runs/{run}");

    let patch =
        r#"{"name": "new", "tags": ["a", "b"], "policy": null, "dataset": "d", "description": "text"}"#;
    let answer = ask("PATCH", &path, patch);
    let header = answer.json();
    assert_eq!(answer.status, 200, "{header}");
    assert_eq!(header["name"], "new");
    assert_eq!(header["tags"], serde_json::json!(["a", "b"]));
    assert_eq!((&header["policy"], &header["dataset"]), (&Value::Null, &Value::from("d")));
    assert_eq!(ask("GET", &path, "").json(), header);
    let first = answer.header("etag").unwrap().to_owned();
    for bad in [
        r#"{"run_id": "x"}"#,
        r#"{"name": "x", "task_set": "y"}"#,
        r#"{"name": null}"#,
        r#"{"name": ""}"#,
        r#"{"name": 3}"#,
        r#"{"tags": "a"}"#,
        r#"{"tags": [1]}"#,
        r#"{"description": {}}"#,
        "[]",
        "{",
        "",
    ] {
        assert_eq!(ask("PATCH", &path, bad).status, 400, "{bad}");
    }
    assert_eq!(ask("GET", &path, "").json(), header, "a patch that is refused changes nothing");
    let deep = format!(r#"{{"name": {}1{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(ask("PATCH", &path, &deep).status, 400);
    let large = format!(r#"{{"description": "{}"}}"#, "x".repeat(9 << 20));
    assert_eq!(ask("PATCH", &path, &large).status, 413);
    let cleared = ask("PATCH", &path, r#"{"description": null, "tags": null}"#).json();
    assert_eq!((&cleared["description"], &cleared["tags"]), (&Value::Null, &serde_json::json!([])));
    let stale = [auth[0], auth[1], ("if-match", first.as_str())];
    assert_eq!(server.send("PATCH", &path, &stale, br#"{"name": "z"}"#).status, 409);
    let any = [auth[0], auth[1], ("if-match", "*")];
    assert_eq!(server.send("PATCH", &path, &any, br#"{"name": "new"}"#).status, 200);

    let count = || ask("GET", "/api/trajectories", "").json()["total_count"].as_u64().unwrap();
    let before = count();
    assert_eq!(ask("DELETE", &path, "").json()["changed"], true);
    assert_eq!(ask("DELETE", &path, "").json()["changed"], false);
    assert_eq!(count(), before - 6);
    assert_eq!(ask("GET", &path, "").status, 404);
    assert_eq!(ask("GET", &format!("{path}?view=record&include_deleted=true"), "").status, 200);
    assert_eq!(ask("PATCH", &path, r#"{"name": "z"}"#).status, 409);
    assert_eq!(ask("GET", &format!("/api/runs/resolve?prefix={}", &run[..6]), "").status, 409);
    assert_eq!(ask("POST", &format!("{path}/restore"), "").json()["changed"], true);
    assert_eq!(count(), before);
    assert_eq!(
        ask("GET", &format!("/api/runs/resolve?prefix={}", &run[..6]), "").json()["run_id"].as_str(),
        Some(run.as_str())
    );
    let metrics = ask("GET", "/metrics", "");
    let text = String::from_utf8(metrics.body.clone()).unwrap();
    for line in [
        "ct_runs 2",
        "ct_requests_total{route=\"/api/runs/{id}\",method=\"PATCH\",status=\"200\"} 3",
        "ct_connections 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
    assert_eq!(server.json("/api/ready")["status"], "ready");
    assert_eq!(server.get("/metrics").status, 401);
}
