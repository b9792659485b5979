//! What existing clients do with a sample: they read it with Inspect's own model. The server gives the sample as it lies
//! in the log; pooled messages and attachments are put back by Inspect's own functions.

use std::process::Command;

use super::http::Server;
use crate::support::{Home, not_tested};

const READ: &str = r#"
import json, sys, urllib.request
from inspect_ai.log import (EvalSample, read_eval_log_sample, resolve_sample_attachments, resolve_sample_events_data)
base = sys.argv[1]
def get(path):
    with urllib.request.urlopen(base + path) as answer:
        return json.load(answer)
def without_uuids(value):
    # Inspect makes them up for logs that are older than they are.
    if isinstance(value, dict):
        return {key: without_uuids(inner) for key, inner in value.items() if key != "uuid"}
    return [without_uuids(inner) for inner in value] if isinstance(value, list) else value
checked = 0
for log in sys.argv[2:]:
    name, path = log.split("=", 1)
    run, = [run for run in get("/api/runs?page_size=500")["items"] if run["run_id"] == name]
    for row in get(f"/api/trajectories?run_id={name}&page_size=500")["items"]:
        sample = EvalSample.model_validate(get(f"/api/trajectories/{row['trajectory_id']}")["sample"])
        assert str(sample.id) == row["eval_sample_id"] and sample.epoch == row["epoch"]
        try:
            theirs = read_eval_log_sample(path, id=sample.id, epoch=sample.epoch, resolve_attachments="full")
        except IndexError:
            # This Inspect does not read samples in chunks itself; what we give it, it does.
            assert path.endswith("chunked.eval"), path
            checked += 1
            continue
        sample = resolve_sample_attachments(resolve_sample_events_data(sample), "full")
        ours, theirs = (s.model_dump(mode="json", exclude={"attachments", "timelines"}) for s in (sample, theirs))
        for key in theirs:
            assert without_uuids(ours[key]) == without_uuids(theirs[key]), (path, row["eval_sample_id"], key)
        checked += 1
print(checked)
"#;

#[test]
fn inspect_reads_what_the_server_gives() {
    let Some(python) = std::env::var_os("CT_TEST_PYTHON") else {
        return not_tested(
            "set CT_TEST_PYTHON to a Python with inspect-ai to read the server's samples with it",
        );
    };
    let home = Home::new();
    let mut arguments = Vec::new();
    for (number, log) in [
        "control-tower/ct-11.eval",
        "generated/chunked.eval",
        "generated/images.eval",
        "generated/big_strings.eval",
        "generated/v0.3.199_pools_v3.eval",
        "generated/v0.3.220.eval",
        "generated/v0.3.90.eval",
    ]
    .iter()
    .enumerate()
    {
        let name = format!("{number}-{}", log.rsplit_once('/').unwrap().1);
        let path = home.log(log, &name);
        let made: serde_json::Value = home.json(&["runs", "make", &name, "--as-new", "--format", "json"]);
        let text = made.to_string();
        let at = text.find(r#""run_id":""#).unwrap() + 10;
        arguments.push(format!("{}={}", &text[at..at + 32], path.display()));
    }
    let server = Server::start(&home, &["--public"]);
    let output = Command::new(python)
        .args(["-c", READ, &format!("http://{}", server.address)])
        .args(&arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let checked: usize = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
    assert!(checked >= 12, "{checked}");
}
