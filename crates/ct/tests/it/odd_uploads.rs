//! Uploads that meet something on their way, and logs of the rarer layouts over the same routes.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::http::{Answer, Http, Request, forward};
use crate::logs::{big_log, files};
use crate::server::Server;
use crate::support::Home;

/// A proxy that asks for smaller parts, and does something when so many are through.
fn proxy(upstream: &str, parts: usize, then: impl Fn() + Send + Sync + 'static) -> Http {
    let (upstream, through) = (upstream.to_owned(), AtomicUsize::new(0));
    Http::start(move |request| {
        let is_part = request.path().contains("/parts/");
        if is_part && request.body.len() > 200_000 {
            return Answer::new(413, "too large");
        }
        if is_part && through.fetch_add(1, Ordering::Relaxed) + 1 == parts {
            then();
        }
        forward(request, &upstream).unwrap_or_else(|_| Answer::new(502, ""))
    })
}

#[test]
fn a_token_that_is_revoked_on_the_way_is_told_and_the_upload_goes_on_with_another() {
    let server = Server::start();
    let given = server.home.stdout(&["tokens", "create", "ana", "--format", "json"]);
    let given: serde_json::Value = serde_json::from_str(&given).unwrap();
    let (token, id) = (given["token"].as_str().unwrap(), given["details"]["token_id"].clone());
    let (url, admin) = (server.served.url.clone(), server.token.clone());
    let revoke = move || {
        let path = format!("/api/tokens/{}", id.as_str().unwrap());
        let mut request = Request {
            method: "DELETE".to_owned(),
            target: path,
            headers: std::collections::BTreeMap::new(),
            body: Vec::new(),
        };
        request.headers.insert("authorization".to_owned(), format!("Bearer {admin}"));
        let answer = forward(&request, &url).unwrap();
        assert!(answer.status < 300, "{answer:?}");
    };
    let proxy = proxy(&server.served.url, 6, revoke);
    let home = Home::new();
    big_log(&home.path("a.eval"), 5, 10, 400_000);
    let size = std::fs::metadata(home.path("a.eval")).unwrap().len();
    let make = |token: &str| {
        let mut command = home.command(&["runs", "make", "a.eval", "--format", "json"]);
        command.env("CONTROL_TOWER_API_BASE_URL", &proxy.url).env("CONTROL_TOWER_API_TOKEN", token);
        command.output().unwrap()
    };
    let broken = make(token);
    let said = String::from_utf8_lossy(&broken.stderr);
    assert_eq!(broken.status.code(), Some(6), "{said}");
    assert!(said.contains("ct login") && said.contains("revoked"), "{said}");
    assert!(!said.contains(token), "the token is printed");
    let before = proxy.asked().len();
    let whole = make(&server.token);
    assert!(whole.status.success(), "{}", String::from_utf8_lossy(&whole.stderr));
    let sent = |request: &&Request| request.path().contains("/parts/") && request.body.len() <= 200_000;
    let again: u64 = proxy.asked()[before..].iter().filter(sent).map(|r| r.body.len() as u64).sum();
    assert!(again < size, "all {size} bytes were sent again");
    assert_eq!(server.home.json(&["--local", "store", "check", "--format", "json"])["sound"], true);
}

#[test]
fn other_bytes_of_the_same_length_are_not_taken_for_the_log() {
    let server = Server::start();
    let home = Home::new();
    let log = std::fs::read(home.log("control-tower/ct-11.eval", "ct-11.eval")).unwrap();
    let key = "6dc57307392ef13ff7295bf3fee9d3d3.eval";
    let what = serde_json::json!({"filename": key, "size_bytes": log.len()});
    let plan = server.served.ask(&server.token, "POST", "/api/eval-logs/upload", Some(&what)).ok();
    let target = format!("/{}", plan["url"].as_str().unwrap().splitn(4, '/').nth(3).unwrap());
    let headers = [("if-none-match".to_owned(), "*".to_owned())].into();
    let put = Request { method: "PUT".to_owned(), target, headers, body: vec![7; log.len()] };
    assert_eq!(forward(&put, &server.served.url).unwrap().status, 200);
    let mut command = home.command(&["runs", "make", "ct-11.eval"]);
    command.env("CONTROL_TOWER_API_BASE_URL", &server.served.url);
    command.env("CONTROL_TOWER_API_TOKEN", &server.token);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(said.contains(&format!("{key} is stored with the SHA-256 ")), "{said}");
}

#[test]
fn logs_of_every_layout_come_and_go_over_the_upload_routes() {
    let server = Server::start();
    let (local, remote) = (Home::new(), Home::new());
    let logs = [
        "generated/chunked.eval",
        "generated/v0.3.120.eval",
        "generated/crashed_inprogress.eval",
        "generated/2026-11-30T08-39-24-00-00_json-format_hfaxVen43SgL4y3mLhYqgr.json",
        "generated/2026-01-01T00-00-00-00-00_json-nan_NaNJsonFile.json",
    ];
    for log in logs {
        let name = log.rsplit('/').next().unwrap();
        let mut found = Vec::new();
        for home in [&local, &remote] {
            home.log(log, name);
            let run = |arguments: &[&str]| {
                let mut command = home.command(arguments);
                if std::ptr::eq(home, &raw const remote) {
                    command.env("CONTROL_TOWER_API_BASE_URL", &server.served.url);
                    command.env("CONTROL_TOWER_API_TOKEN", &server.token);
                }
                let output = command.output().unwrap();
                assert!(output.status.success(), "{log}: {}", String::from_utf8_lossy(&output.stderr));
                output.stdout
            };
            let made: serde_json::Value =
                serde_json::from_slice(&run(&["runs", "make", name, "--format", "json"])).unwrap();
            let item = &made["items"][0];
            assert_eq!(item["status"], "created", "{log}");
            let id = item["run_id"].as_str().unwrap();
            run(&["runs", "download-eval", id, "-o", "back"]);
            let read = |name: &str| std::fs::read(home.path(name)).unwrap();
            assert!(read("back") == read(name), "{log}");
            std::fs::remove_file(home.path("back")).unwrap();
            run(&["runs", "download-trajs", id, "-o", "all"]);
            let mut trajectories = files(&home.path("all"));
            trajectories.remove("run.json");
            std::fs::remove_dir_all(home.path("all")).unwrap();
            let samples: Vec<(String, serde_json::Value)> = trajectories
                .into_iter()
                .map(|(name, bytes)| (name, ct_log::json::parse(&bytes).unwrap()["sample"].clone()))
                .collect();
            found.push((id.to_owned(), item["trajectories"].clone(), item["defects"].clone(), samples));
        }
        assert!(found[0] == found[1], "{log}");
    }
    assert_eq!(server.home.json(&["--local", "store", "check", "--format", "json"])["sound"], true);
}
