//! A run on its server while it goes on.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::*;

#[test]
fn a_run_is_shown_on_its_server_while_it_goes_on() {
    let home = Home::new();
    if !sandboxes_work(&home) {
        return;
    }
    let owner = Home::new();
    // The last sample waits until the others are seen on the server.
    let script = json!([bash("echo hello > greeting.txt"), bash("sleep 12"), submit()]);
    let model = turns(&home, "slow.json", &script);
    let arguments = [
        "--policy",
        "honest",
        "-e",
        "tiny",
        "-t",
        "greet",
        "--epochs",
        "2",
        "--max-samples",
        "1",
        "--model",
        &model,
        "--format",
        "json",
    ];
    let (mut command, server) = command_to_server(&home, &owner, &arguments);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let runs = || {
        let mut list = home.command(&["runs", "list", "--server", &server.url, "--format", "json"]);
        let output = list.output().unwrap();
        let list: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        list["items"].as_array().cloned().unwrap_or_default()
    };
    let mut seen = None;
    let began = Instant::now();
    while seen.is_none() && began.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_millis(100));
        seen = runs().into_iter().next();
    }
    let seen = seen.unwrap();
    assert_eq!((&seen["status"], &seen["trajectory_count"]), (&json!("started"), &json!(1)), "{seen}");
    let summary = done(&child.wait_with_output().unwrap(), 0);
    let after = runs();
    let [run] = after.as_slice() else { panic!("{after:?}") };
    assert_eq!((&run["status"], &run["trajectory_count"]), (&json!("success"), &json!(2)), "{run}");
    assert_eq!((&run["run_id"], &summary["run_id"]), (&seen["run_id"], &seen["run_id"]));
    assert_eq!(
        summary["url"],
        format!("{}/runs/{}", server.url, seen["run_id"].as_str().unwrap()),
        "the address stays"
    );
    // No run refers to what it was in between any more; its bytes are collected when they are old enough.
    drop(server);
    let info = owner.json(&["--local", "runs", "info", seen["run_id"].as_str().unwrap(), "--format", "json"]);
    assert!(info["revisions"].as_array().is_none_or(Vec::is_empty), "{info:#}");
    owner.json(&["--local", "store", "gc", "--format", "json"]);
    let check = owner.json(&["--local", "store", "check", "--format", "json"]);
    assert_eq!(
        (&check["sound"], &check["runs"], &check["trajectories"]),
        (&json!(true), &json!(1), &json!(2))
    );
}
