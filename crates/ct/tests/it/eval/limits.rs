//! What ends a sample.

use serde_json::json;

use super::*;
use crate::provider::{Answer, FakeProvider, openai};

#[test]
fn limits_end_a_sample_and_it_is_scored() {
    let home = Home::new();
    if !sandboxes_work(&home) {
        return;
    }
    let script = json!({"turns": [bash("echo hello > greeting.txt"), bash("sleep 0.1")], "repeat": true});
    let model = turns(&home, "turns.json", &script);
    for (limit, value, kind) in [
        ("--message-limit", "9", "message"),
        ("--token-limit", "300", "token"),
        ("--time-limit", "3", "time"),
    ] {
        let base = ["--policy", "honest", "-e", "tiny", "-t", "greet", "--no-upload", "--format", "json"];
        let output = run(&home, &[&base[..], &["--model", &model, limit, value]].concat());
        let summary = done(&output, 0);
        assert_eq!(summary["main"]["passed"], 1, "{summary}");
        let log = log_of(&summary, &home);
        assert_eq!(samples(&log)[0]["limit"]["type"], kind);
        inspect_reads(&log, "success", 1, "sample_limit,score");
    }
}

#[test]
fn a_limit_on_cost_needs_prices_and_ends_a_sample() {
    let home = Home::new();
    if !sandboxes_work(&home) {
        return;
    }
    let script = json!({"turns": [bash("echo hello > greeting.txt")], "repeat": true});
    let model = turns(&home, "turns.json", &script);
    let base = ["--policy", "honest", "-e", "tiny", "-t", "greet", "--no-upload", "--format", "json"];
    let limited = [&base[..], &["--model", &model, "--cost-limit", "0.002"]].concat();
    let output = run(&home, &limited);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("--prices FILE"), "{said}");

    home.file(
        "prices.json",
        r#"[{"model": "mock/turns.json", "pricing": {"input_per_million": 1, "output_per_million": 5}}]"#,
    );
    let summary = done(&run(&home, &[&limited[..], &["--prices", "prices.json"]].concat()), 0);
    let cost = summary["cost_usd"].as_f64().unwrap();
    assert!((0.002..0.004).contains(&cost), "{summary}");
    assert_eq!(summary["main"]["passed"], 1);
    let log = log_of(&summary, &home);
    assert_eq!(samples(&log)[0]["limit"], json!({"type": "cost", "limit": 0.002}));
    inspect_reads(&log, "success", 1, "sample_limit,score");
}

#[test]
fn what_a_model_gets_wrong_it_is_told() {
    let home = Home::new();
    if !sandboxes_work(&home) {
        return;
    }
    let call =
        |content: &str, arguments: serde_json::Value| Answer::fine(openai(content, &[("bash", arguments)]));
    let too_long = json!({"error": {"code": "context_length_exceeded", "message": "too long"}});
    let provider = FakeProvider::start(vec![
        call("a", json!("{\"command\": \"echo hello > greet")),
        call("b", json!({"command": "echo hello > greeting.txt"})),
        Answer::status(400, too_long.to_string()),
    ]);
    let arguments =
        ["--policy", "honest", "-e", "tiny", "-t", "greet", "--model", "openai/m", "--format", "json"];
    let mut command = command(&home, &arguments);
    command.env("OPENAI_API_KEY", "secret-key").env("OPENAI_BASE_URL", provider.url());
    let summary = done(&command.output().unwrap(), 0);
    // The conversation became too long for the model: what it did until then counts.
    assert_eq!((&summary["completed"], &summary["main"]["passed"]), (&json!(1), &json!(1)), "{summary}");
    let log = log_of(&summary, &home);
    let sample = &samples(&log)[0];
    assert_eq!(sample["limit"]["type"], "context");
    let wrong = &sample["messages"][2]["tool_calls"][0];
    assert!(wrong["parse_error"].as_str().unwrap().contains("EOF while parsing"), "{wrong}");
    let told = &sample["messages"][3];
    assert_eq!(told["error"]["type"], "parsing", "{told}");
    let asked = provider.asked();
    assert!(asked[1].body["messages"].to_string().contains("not understood"), "{:#}", asked[1].body);
    inspect_reads(&log, "success", 1, "sample_limit,score,model,tool");
}
