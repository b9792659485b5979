//! What was done, done again.

use serde_json::json;

use super::*;
use crate::http::Http;
use crate::server::Served;

#[test]
fn a_trajectory_a_run_a_log_and_addresses_of_them() {
    let home = Home::new();
    if !sandboxes_work(&home) {
        return;
    }
    let solved = ["--policy", "scripted", "-e", "tiny", "-t", "greet", "-s", "mark", "--epochs", "2"];
    let summary = done(&run(&home, &[&solved[..], &["--format", "json"]].concat()), 0);
    let run_id = summary["run_id"].as_str().unwrap();
    let listed = home.json(&["runs", "sample", run_id, "1", "--format", "json"]);
    let trajectory = listed["parts"][0]["trajectory_ids"][0].as_str().unwrap_or_else(|| panic!("{listed}"));

    let server = Served::start(&home, &["--public"]);
    let url = |path: &str| format!("{}{path}", server.url);
    let bytes = std::fs::read(log_of(&summary, &home)).unwrap();
    let files = Http::start(move |_| crate::http::Answer::new(200, bytes.clone()));
    let sources = [
        (trajectory.to_owned(), 1),
        (run_id.to_owned(), 2),
        (summary["log"].as_str().unwrap().to_owned(), 2),
        (url(&format!("/trajectories/{trajectory}")), 1),
        (url(&format!("/runs/{run_id}")), 2),
        (format!("{}/some.eval", files.url), 2),
    ];
    for (source, count) in sources {
        // Another home, which has nothing of it but what is named.
        let source = format!("source={source}");
        let arguments = ["--policy", "replay", "-p", &source, "--no-upload", "--format", "json"];
        let replayed = done(&run(&home, &arguments), 0);
        assert_eq!(
            (&replayed["samples"], &replayed["side"]["passed"]),
            (&json!(count), &json!(count)),
            "{source}"
        );
        let sample = &samples(&log_of(&replayed, &home))[0];
        assert_eq!(sample["metadata"]["side_tasks"][0]["id"], "mark", "{source}");
        assert!(sample["metadata"]["replays"].is_string(), "{source}");
    }
    let output = run(&home, &["--policy", "replay", "-p", "source=abcdef01", "--format", "json"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(4) && said.contains("no run and no trajectory"), "{said}");
}
