//! The program against a server that speaks the wire contract and nothing more.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::http::{Answer, Http, Request};
use crate::logs::{big_log, files};
use crate::support::Home;

/// What the server keeps.
#[derive(Default)]
struct Kept {
    logs: BTreeMap<String, Vec<u8>>,
    documents: Vec<Value>,
    runs: Vec<Value>,
    /// Answers with HTML, as a page would.
    html: bool,
    /// How often each signed address was used; three times are enough.
    signed: Vec<u32>,
}

#[derive(Clone, Copy, PartialEq)]
enum Logs {
    /// The bytes come at once, and no range is known.
    Direct,
    /// A redirect to an address that knows ranges.
    Signed,
}

const PAGE: usize = 4;

fn page(items: Vec<Value>, request: &Request) -> Answer {
    let number: usize = request.query("page").and_then(|page| page.parse().ok()).unwrap_or(1);
    let total = items.len();
    let items: Vec<Value> = items.into_iter().skip((number - 1) * PAGE).take(PAGE).collect();
    Answer::json(200, &json!({"items": items, "total_count": total, "page": number, "page_size": PAGE}))
}

fn serve(kept: &Mutex<Kept>, kind: Logs, request: &Request) -> Answer {
    let mut kept = kept.lock().unwrap();
    let path = request.path().to_owned();
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let not_found = || Answer::json(404, &json!({"error": "it is not there"}));
    if kept.html || parts.first() != Some(&"api") && parts.first() != Some(&"bucket") {
        return Answer::new(200, "<!doctype html><p>hello").header("content-type", "text/html");
    }
    if parts[0] == "api" && request.headers.get("authorization").is_none_or(|token| token != "Bearer t") {
        return if path == "/api/health" {
            not_found()
        } else {
            Answer::json(401, &json!({"error": "who?"}))
        };
    }
    if parts[0] == "bucket" {
        assert!(!request.headers.contains_key("authorization"), "object storage is no place for a token");
    }
    match (request.method.as_str(), &parts[..]) {
        ("GET", ["api", "runs"]) => page(kept.runs.iter().rev().cloned().collect(), request),
        ("GET", ["api", "runs", id]) => match kept.runs.iter().find(|run| run["run_id"] == *id) {
            Some(run) => Answer::json(200, run),
            None => not_found(),
        },
        ("PATCH", ["api", "runs", id]) => {
            let Some(run) = kept.runs.iter_mut().find(|run| run["run_id"] == *id) else { return not_found() };
            for (key, value) in body.as_object().unwrap() {
                run[key] = value.clone();
            }
            Answer::json(200, run)
        }
        ("GET", ["api", "runs", id, "eval"]) => match (kind, kept.logs.get(&format!("{id}.eval"))) {
            (_, None) => not_found(),
            (Logs::Direct, Some(log)) => Answer::new(200, log.clone()),
            (Logs::Signed, Some(_)) => {
                kept.signed.push(0);
                let signature = kept.signed.len() - 1;
                Answer::new(302, "").header("location", &format!("/bucket/{id}.eval?sig={signature}"))
            }
        },
        ("GET", ["bucket", key]) => {
            let signature: usize = request.query("sig").unwrap().parse().unwrap();
            kept.signed[signature] += 1;
            if kept.signed[signature] > 3 {
                return Answer::new(403, "<Error><Code>AccessDenied</Code></Error>");
            }
            let Some(log) = kept.logs.get(*key) else { return not_found() };
            let range = request.headers.get("range").and_then(|range| range.strip_prefix("bytes="));
            let Some((first, last)) = range.and_then(|range| range.split_once('-')) else {
                return Answer::new(200, log.clone());
            };
            let first: usize = first.parse().unwrap();
            let last = last.parse().unwrap_or(usize::MAX).min(log.len() - 1);
            Answer::new(206, &log[first..=last])
                .header("content-range", &format!("bytes {first}-{last}/{}", log.len()))
        }
        ("PUT", ["bucket", key]) => {
            assert_eq!(request.headers.get("if-none-match").map(String::as_str), Some("*"));
            if kept.logs.contains_key(*key) {
                return Answer::new(412, "");
            }
            kept.logs.insert((*key).to_owned(), request.body.clone());
            Answer::new(200, "").header("etag", "\"not-an-md5\"")
        }
        ("GET", ["api", "eval-logs", "head"]) => match kept.logs.get(request.query("filename").unwrap()) {
            Some(log) => Answer::json(200, &json!({"bucket": "b", "size_bytes": log.len()})),
            None => not_found(),
        },
        ("POST", ["api", "eval-logs", "upload"]) => {
            let key = body["filename"].as_str().unwrap();
            if kept.logs.contains_key(key) {
                return Answer::json(409, &json!({"error": "taken"}));
            }
            Answer::json(200, &json!({"url": format!("/bucket/{key}?sig=2"), "bucket": "b"}))
        }
        ("POST", ["api", "trajectories", "register"]) => {
            assert_eq!((&body["client"], &body["schema_version"]), (&json!("control-tower"), &json!(3)));
            let documents = body["trajectories"].as_array().unwrap();
            assert!(documents.len() <= 50 && request.body.len() <= 4_000_000);
            for document in documents {
                let key = document["eval_sample_range"]["key"].as_str().unwrap();
                assert!(kept.logs.contains_key(key) && body["eval_log_sizes"][key] == kept.logs[key].len());
                assert!(
                    document["eval_log_url"]
                        .as_str()
                        .unwrap()
                        .starts_with(&format!("s3://b/{key}/samples/sample/"))
                );
                kept.documents.push(document.clone());
            }
            if body["run"].is_object() {
                kept.runs.push(body["run"].clone());
            }
            Answer::json(200, &json!({}))
        }
        ("GET", ["api", "trajectories"]) => {
            let run = request.query("run_id");
            let of_run = kept.documents.iter().filter(|d| run.is_none_or(|run| d["run_id"] == run));
            let items =
                of_run.map(|document| match (request.query("ids_only"), request.query("documents")) {
                    (Some(_), _) => document["trajectory_id"].clone(),
                    (_, Some(_)) => document.clone(),
                    _ => json!({
                        "trajectory_id": document["trajectory_id"],
                        "environment_id": document["environment"]["id"],
                        "main_task_id": document["main_task"]["id"],
                        "tags": [],
                    }),
                });
            page(items.collect(), request)
        }
        ("GET", ["api", "trajectories", id]) => {
            match kept.documents.iter().find(|d| d["trajectory_id"] == *id) {
                Some(document) => {
                    Answer::json(200, &json!({"metadata": {"run_id": document["run_id"]}, "sample": {}}))
                }
                None => not_found(),
            }
        }
        _ => not_found(),
    }
}

fn start(kind: Logs) -> (Http, Arc<Mutex<Kept>>) {
    let kept: Arc<Mutex<Kept>> = Arc::default();
    let of_server = Arc::clone(&kept);
    (Http::start(move |request| serve(&of_server, kind, request)), kept)
}

fn ct(home: &Home, server: &Http, arguments: &[&str]) -> std::process::Output {
    let mut command = home.command(arguments);
    command.env("CONTROL_TOWER_API_BASE_URL", &server.url).env("CONTROL_TOWER_API_TOKEN", "t");
    command.output().unwrap()
}

fn well(home: &Home, server: &Http, arguments: &[&str]) -> String {
    let output = ct(home, server, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_command_does_what_the_contract_allows() {
    for kind in [Logs::Direct, Logs::Signed] {
        let (server, kept) = start(kind);
        let home = Home::new();
        let log = std::fs::read(home.log("control-tower/ct-11.eval", "ct-11.eval")).unwrap();
        home.log("control-tower/ct-12.eval", "ct-12.eval");
        let attack = "6dc57307392ef13ff7295bf3fee9d3d3";
        let json =
            |arguments: &[&str]| serde_json::from_str::<Value>(&well(&home, &server, arguments)).unwrap();
        assert_eq!(json(&["status", "--format", "json"])["server"]["kind"], "contract");
        let made = json(&["runs", "make", "ct-11.eval", "ct-12.eval", "--format", "json"]);
        assert_eq!(
            (&made["items"][0]["status"], &made["items"][1]["status"]),
            (&json!("created"), &json!("created"))
        );
        let again = json(&["runs", "make", "ct-11.eval", "--tag", "t", "--format", "json"]);
        assert_eq!(again["items"][0]["status"], "edited");
        assert_eq!(kept.lock().unwrap().documents.len(), 12);

        let list = json(&["runs", "list", "--policy", "attack", "--tag", "t", "--format", "json"]);
        assert_eq!((&list["total_count"], &list["items"][0]["run_id"]), (&json!(1), &json!(attack)));
        assert_eq!(json(&["runs", "list", "--name", "HONEST", "--format", "json"])["total_count"], 1);
        let refused = ct(&home, &server, &["runs", "list", "--env", "slack_clone"]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&refused.stderr).contains("--env"));

        let info = json(&["runs", "info", "6dc57307", "--format", "json"]);
        assert_eq!((&info["log"], &info["outcomes"]["main"]["pass"]), (&Value::Null, &json!(5)));
        assert_eq!(json(&["runs", "sample", attack, "3", "--seed", "1", "--format", "json"])["parts"][0]["trajectory_ids"].as_array().unwrap().len(), 3);
        well(&home, &server, &["runs", "download-eval", attack, "-o", "back.eval"]);
        assert!(std::fs::read(home.path("back.eval")).unwrap() == log);
        well(&home, &server, &["runs", "download-trajs", attack, "-o", "all"]);
        assert_eq!(files(&home.path("all")).len(), 7);
        well(
            &home,
            &server,
            &["runs", "download-trajs", "-e", "slack_clone", "-t", "add_reactions", "-o", "found"],
        );
        assert!(!files(&home.path("found")).is_empty());
        assert!(well(&home, &server, &["runs", "show", "92203bdd"]).contains("crawl_depth"));
        assert_eq!(ct(&home, &server, &["runs", "delete", attack]).status.code(), Some(2));

        well(&home, &server, &["runs", "pull", attack]);
        let sound = home.json(&["--local", "store", "check", "--format", "json"]);
        assert_eq!((&sound["sound"], &sound["trajectories"]), (&json!(true), &json!(6)));
        assert_eq!(json(&["runs", "push", attack, "--format", "json"])["items"][0]["status"], "unchanged");

        let signed = kept.lock().unwrap().signed.clone();
        assert_eq!(signed.iter().any(|&uses| uses > 3), kind == Logs::Signed, "no address ever went stale");

        kept.lock().unwrap().html = true;
        let output = ct(&home, &server, &["runs", "list"]);
        assert_eq!(output.status.code(), Some(7));
        assert!(String::from_utf8_lossy(&output.stderr).contains("a page of HTML"));
    }
}

#[test]
fn a_log_is_taken_from_any_address_and_altered_ones_are_refused() {
    let home = Home::new();
    let log = std::fs::read(home.log("control-tower/ct-11.eval", "ct-11.eval")).unwrap();
    let bytes = log.clone();
    let server = Http::start(move |request| match request.path() {
        "/good.eval" => Answer::new(200, bytes.clone()),
        // Says what it has, and sends something else.
        "/altered.eval" => {
            let mut other = bytes.clone();
            other[100] ^= 1;
            Answer::new(200, other)
                .header("repr-digest", "sha-256=:bcVzBzku8T/3KVvz/unT09kW53Oy9aLPl0WktZKHAVc=:")
        }
        _ => Answer::new(404, ""),
    });
    let address = |name: &str| format!("{}/{name}", server.url);
    home.stdout(&["runs", "download-eval", &address("good.eval")]);
    assert!(std::fs::read(home.path("good.eval")).unwrap() == log);
    let made = home.json(&["runs", "make", &address("good.eval"), "--format", "json"]);
    assert_eq!(made["items"][0]["run_id"], "6dc57307392ef13ff7295bf3fee9d3d3");
    let output = home.command(&["runs", "download-eval", &address("altered.eval")]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(!home.path("altered.eval").exists());
    assert_eq!(
        server.asked().iter().filter(|r| r.path() == "/altered.eval").count() % 2,
        1,
        "fetched once more"
    );
    let output = home.command(&["runs", "download-eval", &address("none.eval")]).output().unwrap();
    assert_eq!(output.status.code(), Some(4));
}

#[test]
fn a_download_goes_on_where_an_earlier_one_ended() {
    let home = Home::new();
    let log = home.path("a.eval");
    big_log(&log, 5, 6, 300_000);
    let bytes = std::fs::read(&log).unwrap();
    let (of_server, size) = (bytes.clone(), bytes.len());
    // How many bytes there are to give; then the server fails.
    let left = Arc::new(Mutex::new(size / 2));
    let given = Arc::clone(&left);
    let server = Http::start(move |request| {
        let range = request.headers.get("range").and_then(|range| range.strip_prefix("bytes="));
        let (first, last) = range.and_then(|range| range.split_once('-')).unwrap_or(("0", ""));
        let first: usize = first.parse().unwrap();
        let last = last.parse().unwrap_or(usize::MAX).min(size - 1);
        let mut left = given.lock().unwrap();
        if *left == 0 {
            return Answer::new(500, "");
        }
        let mut answer = Answer::new(if range.is_some() { 206 } else { 200 }, &of_server[first..=last])
            .header("etag", "\"one\"")
            .header("accept-ranges", "bytes")
            .header("content-range", &format!("bytes {first}-{last}/{size}"));
        if answer.body.len() > *left {
            answer.cut_after = Some(*left);
        }
        *left -= answer.body.len().min(*left);
        answer
    });
    let arguments = ["runs", "download-eval", &format!("{}/a.eval", server.url), "-o", "back.eval"];
    assert_eq!(home.command(&arguments).output().unwrap().status.code(), Some(7));
    assert!(!home.path("back.eval").exists());
    let before = server.asked().len();
    *left.lock().unwrap() = usize::MAX;
    home.stdout(&arguments);
    assert!(std::fs::read(home.path("back.eval")).unwrap() == bytes);
    let asked: Vec<_> = server.asked()[before..].iter().map(|r| r.headers.get("range").cloned()).collect();
    let expected = format!("bytes={}-{}", size / 2 - 1, size - 1);
    assert_eq!(asked, [Some("bytes=0-0".to_owned()), Some(expected)]);
    assert!(server.asked()[before + 1].headers.get("if-range").is_some_and(|tag| tag == "\"one\""));
    // Nothing is left beside it.
    let names: Vec<_> = files(&home.path(".")).into_keys().collect();
    assert_eq!(names, ["a.eval", "back.eval"]);
}
