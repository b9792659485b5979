use crate::support::{Home, assert_ct};

#[test]
fn a_transcript_is_readable() {
    let home = Home::with_runs();
    let ids = home.trajectory_ids(&home.run_id("attack"));
    assert_ct!(home, ["runs", "show", &ids[0]]);
    assert_ct!(home, ["runs", "show", &ids[0][..12], "--markdown"]);
    let address = format!("https://viewer.example/trajectories/{}", ids[0]);
    assert_eq!(home.stdout(&["--local", "runs", "show", &address]), home.stdout(&["runs", "show", &ids[0]]));
}

#[test]
fn json_is_the_sample_as_it_lies_in_the_log() {
    let home = Home::with_runs();
    let ids = home.trajectory_ids(&home.run_id("attack"));
    let text = home.stdout(&["runs", "show", &ids[0], "--format", "json"]);
    let sample: serde_json::Value = serde_json::from_str(&text).unwrap();
    home.stdout(&["runs", "download-trajs", &home.run_id("attack"), "-o", "all"]);
    let file: serde_json::Value =
        serde_json::from_slice(&std::fs::read(home.path(&format!("all/{}.json", ids[0]))).unwrap()).unwrap();
    assert_eq!(sample, file["sample"]);
}

#[test]
fn every_kind_of_log_has_transcripts() {
    let home = Home::new();
    for (name, sample) in [
        ("chunked.eval", "2"),
        ("images.eval", "1"),
        ("v0.3.45.eval", "1"),
        ("2026-01-01T00-00-00+00-00_compat-task_v0x3x17.json", "1"),
        ("2026-01-01T00-00-00+00-00_compat-task_v0x3x30.json", "1"),
    ] {
        home.log(&format!("generated/{name}"), name);
        let made = home.json(&["runs", "make", name, "--format", "json"]);
        let run = made["items"][0]["run_id"].as_str().unwrap().to_owned();
        let ids = home.trajectory_ids(&run);
        let _ = sample;
        for id in &ids {
            let text = home.stdout(&["runs", "show", id]);
            assert!(text.contains("── 1 "), "{name}: {text}");
            assert!(!text.contains("attachment://"), "{name}: {text}");
        }
    }
}

#[test]
fn a_run_is_no_trajectory() {
    let home = Home::with_runs();
    let run = home.run_id("attack");
    assert_ct!(home, ["--local", "runs", "show", &format!("https://viewer.example/runs/{run}")]);
    assert_ct!(home, ["runs", "show", "no-such-trajectory"]);
}
