//! A server may send as much as it likes: no more of it is held than an answer has.

use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::http::{Answer, Http};
use crate::support::Home;

fn ask(home: &Home, server: &Http, arguments: &[&str]) -> Output {
    let mut command: Command = home.command(arguments);
    command.env("CONTROL_TOWER_API_BASE_URL", &server.url).env("CONTROL_TOWER_API_TOKEN", "t");
    command.output().unwrap()
}

#[test]
fn an_answer_without_end_is_not_held() {
    let home = Home::new();
    for ours in [false, true] {
        let server = Http::start(move |request| match request.path() {
            "/api/health" if ours => Answer::json(200, &json!({"server": "ct", "version": "1"})),
            _ => Answer::new(200, vec![b' '; 100 << 20]),
        });
        for arguments in [&["runs", "list"][..], &["runs", "info", "abc"], &["dataset", "show", "d"]] {
            let output = ask(&home, &server, arguments);
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(7), "{arguments:?}: {said}");
            assert!(said.contains("answers with more than the"), "{said}");
        }
    }
}

#[test]
fn a_page_that_is_too_long_is_asked_for_in_smaller_ones() {
    const RUNS: usize = 700;
    let server = Http::start(|request| {
        if request.path() != "/api/runs" {
            return Answer::json(404, &json!({"error": "it is not there"}));
        }
        let number = |name: &str| request.query(name).map_or(1, |text| text.parse::<usize>().unwrap());
        let (page, size) = (number("page"), number("page_size"));
        let description = "d".repeat(100_000);
        let items: Vec<Value> = ((page - 1) * size..(page * size).min(RUNS))
            .map(
                |n| json!({"run_id": format!("run-{n}"), "name": format!("{n}"), "description": description}),
            )
            .collect();
        Answer::json(200, &json!({"items": items, "total_count": RUNS, "page": page, "page_size": size}))
    });
    let output = ask(&Home::new(), &server, &["runs", "list", "--all", "--format", "json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut ids: Vec<&str> =
        list["items"].as_array().unwrap().iter().map(|run| run["run_id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((ids.len(), &list["total_count"]), (RUNS, &json!(RUNS)));
    let sizes: Vec<String> =
        server.asked().iter().filter_map(|asked| asked.query("page_size").map(str::to_owned)).collect();
    assert_eq!(sizes, ["500", "250", "250", "250"]);
}
