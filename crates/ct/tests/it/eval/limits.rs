//! What ends a sample.

use serde_json::json;

use super::*;

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
