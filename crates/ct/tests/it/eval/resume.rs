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

#[test]
fn what_it_was_told_is_told_again() {
    let home = Home::new();
    if !sandboxes_work(&home) {
        return;
    }
    let provider = FakeProvider::start(vec![
        Answer::status(400, "{\"error\": {\"message\": \"not today\"}}"),
        Answer::status(400, "{\"error\": {\"message\": \"nor today\"}}"),
        Answer::status(400, "{\"error\": {\"message\": \"nor now\"}}"),
        Answer::fine(openai("", &[("submit", json!({"answer": "done"}))])),
    ]);
    let prices = r#"[{"model": "openai/m", "pricing": {"input_per_million": 1, "output_per_million": 5,
        "cached_input_per_million": 0.1}}]"#;
    home.file("rates of mine.json", prices);
    let eval = |arguments: &[&str]| {
        let mut command = command(&home, &[arguments, &["--format", "json", "--no-upload"]].concat());
        command.args(["--max-samples", "1"]).env("OPENAI_API_KEY", "secret-key");
        command.env("OPENAI_BASE_URL", provider.url()).output().unwrap()
    };
    let begun = ["--policy", "honest", "-e", "tiny", "-t", "greet", "--model", "openai/m", "--epochs", "2"];
    let told = ["--fail-on-error", "--sandbox", "local", "--image", "nobody/none"];
    let summary = done(&eval(&[&begun[..], &told, &["--prices", "rates of mine.json"]].concat()), 1);
    assert_eq!((&summary["status"], provider.asked().len()), (&json!("error"), 1), "{summary}");
    let log = log_of(&summary, &home);
    let log = log.to_str().unwrap();

    // Wherever it is gone on from.
    let rates = home.path("rates of mine.json").canonicalize().unwrap();
    let options =
        format!("--sandbox local --image nobody/none --prices '{}' --fail-on-error\"", rates.display());
    let output = eval(&["--resume", log]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(&format!("as the run was begun: {options}")), "{options}{said}");
    assert_eq!((&done(&output, 1)["status"], provider.asked().len()), (&json!("error"), 2), "{said}");

    // Said otherwise, it is otherwise: the second sample is run, too, and its cost is known.
    let output = eval(&["--resume", log, "--fail-on-error=false", "--image", "other/none"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("as the run was begun: --sandbox local --prices '"), "{said}");
    assert!(!said.contains("none") && !said.contains("--fail-on-error"), "{said}");
    let summary = done(&output, 3);
    assert_eq!((provider.asked().len(), &summary["completed"]), (4, &json!(1)), "{summary}");
    assert!(summary["cost_usd"].as_f64().is_some_and(|cost| cost > 0.0), "{summary}");
}
