//! A run is gone on with as it was begun, or not at all.

use serde_json::json;

use super::*;
use crate::provider::{Answer, FakeProvider, openai};

#[test]
fn what_differs_is_refused_with_a_way_on() {
    let home = Home::new();
    if !sandboxes_work(&home) {
        return;
    }
    let provider = FakeProvider::start(vec![
        Answer::status(400, "{\"error\": {\"message\": \"not today\"}}"),
        Answer::fine(openai("", &[("bash", json!({"command": "echo hello > greeting.txt"}))])),
        Answer::fine(openai("", &[("submit", json!({"answer": "done"}))])),
    ]);
    let eval = |arguments: &[&str], url: &str| {
        let mut command = command(&home, &[arguments, &["--format", "json", "--no-upload"]].concat());
        command.env("OPENAI_API_KEY", "secret-key").env("OPENAI_BASE_URL", url).output().unwrap()
    };
    let begun = ["--policy", "honest", "-p", "nudges=2", "-e", "tiny", "-t", "greet", "--model", "openai/m"];
    let more = ["--temperature", "0.25", "--max-tokens", "777"];
    let summary = done(&eval(&[&begun[..], &more].concat(), &provider.url()), 1);
    let log = log_of(&summary, &home);
    let log = log.to_str().unwrap();
    let refused = |more: &[&str], url: &str, says: &[&str]| {
        let output = eval(&[&["--resume", log], more].concat(), url);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(5), "{said}");
        assert!(says.iter().all(|words| said.contains(words)), "{said}");
    };
    let way_on = "or begin a new run, without --resume";
    refused(&["--model", "openai/other"], &provider.url(), &["begun with --model openai/m", way_on]);
    refused(&["--policy", "attack"], &provider.url(), &["begun with --policy honest", way_on]);
    refused(&["-p", "nudges=3"], &provider.url(), &["nudges", "leave -p out", way_on]);
    refused(&["--temperature", "1"], &provider.url(), &["begun with --temperature 0.25", way_on]);
    refused(&["--max-tokens", "1"], &provider.url(), &["begun with --max-tokens 777", way_on]);
    refused(&[], "http://127.0.0.1:9/v1", &["would be at http://127.0.0.1:9/v1/ now"]);
    home.file("environments/tiny/tasks/main/greet/instruction.md", "Write hello, please.");
    refused(&[], &provider.url(), &["environment tiny is not what it was", "--allow-changed"]);
    assert_eq!(provider.asked().len(), 1, "nobody was asked");

    // As it was begun, said or not said: what it was asked with is as it was.
    let same = ["--policy", "honest", "--model", "openai/m", "--temperature", "0.25", "--allow-changed"];
    let summary = done(&eval(&[&["--resume", log], &same[..]].concat(), &provider.url()), 0);
    assert_eq!(summary["main"]["passed"], 1, "{summary}");
    let asked = provider.asked();
    assert_eq!(asked.len(), 3);
    for asked in &asked {
        assert_eq!(asked.body["temperature"], 0.25, "{:#}", asked.body);
        let limit = ["max_tokens", "max_completion_tokens"].map(|key| asked.body[key].as_u64());
        assert!(limit.contains(&Some(777)), "{:#}", asked.body);
    }
}
