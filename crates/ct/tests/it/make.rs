use crate::support::{Home, assert_ct};

#[test]
fn a_log_becomes_a_run_once() {
    let home = Home::new();
    home.log("control-tower/ct-11.eval", "logs/my-eval.eval");
    assert_ct!(home, ["runs", "make", "logs/my-eval.eval"]);
    assert_ct!(home, ["runs", "make", "logs/my-eval.eval"]);
}

#[test]
fn what_the_command_line_says_is_in_the_run() {
    let home = Home::new();
    home.log("control-tower/ct-11.eval", "a.eval");
    let made = home.json(&[
        "runs",
        "make",
        "a.eval",
        "--run-name",
        "Week 48",
        "--policy",
        "p",
        "--task-set",
        "t",
        "--tags",
        "experiment-1",
        "--tag",
        "baseline",
        "--format",
        "json",
    ]);
    assert_eq!(made["items"][0]["status"], "created");
    let info = home.json(&["runs", "info", made["items"][0]["run_id"].as_str().unwrap(), "--format", "json"]);
    assert_eq!(info["name"], "Week 48");
    assert_eq!(info["policy"], "p");
    assert_eq!(info["task_set"], "t");
    assert_eq!(info["tags"], serde_json::json!(["synthetic", "attack", "experiment-1", "baseline"]));
}

#[test]
fn one_bad_file_does_not_stop_the_others() {
    let home = Home::new();
    home.log("control-tower/ct-11.eval", "logs/deep/a.eval");
    home.log("control-tower/ct-12.eval", "logs/b.eval");
    home.log(
        "generated/2026-01-01T00-00-00+00-00_compat-task_v0x3x17.json",
        "logs/2026-01-01T00-00-00-00-00_old.json",
    );
    home.file("logs/broken.eval", "not a log");
    home.file("logs/notes.json", "{}");
    home.file("logs/2026-01-01T00-00-00-00-00_other.json", r#"{"something": "else"}"#);
    assert_ct!(home, ["runs", "make", "logs"]);
    assert_ct!(home, ["runs", "make", "logs", "--format", "json"]);
    assert_ct!(home, ["runs", "make", "logs", "--format", "csv"]);
}

#[test]
fn all_bad_is_failed_not_partly() {
    let home = Home::new();
    home.file("a.eval", "");
    home.file("b.eval", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
    assert_ct!(home, ["runs", "make", "a.eval", "b.eval", "no-such.eval", "no-*.eval"]);
    assert_ct!(home, ["runs", "make", "a.eval"]);
    assert_ct!(home, ["runs", "make", "no-such.eval", "--format", "json"]);
}

#[test]
fn a_damaged_log_says_what_was_lost() {
    let home = Home::new();
    home.log("generated/truncated_mid_sample.eval", "torn.eval");
    assert_ct!(home, ["runs", "make", "torn.eval"]);
}

#[test]
fn paths_come_from_standard_input_and_patterns() {
    let home = Home::new();
    home.log("control-tower/ct-11.eval", "x/a.eval");
    home.log("control-tower/ct-12.eval", "x/b.eval");
    assert_ct!(home, ["runs", "make", "-"], input: "x/a.eval\nx/b.eval\r\n\nx/../x/a.eval\n");
    assert_ct!(home, ["runs", "make", "x/[a-b].eval", "--format", "ndjson"]);
}

#[test]
fn without_logs_and_without_a_terminal_it_says_what_to_give() {
    let home = Home::new();
    home.log("control-tower/ct-11.eval", "logs/a.eval");
    assert_ct!(home, ["runs", "make"]);
}

#[test]
fn a_folder_goes_round() {
    let home = Home::new();
    home.log("control-tower/ct-11.eval", "a.eval");
    assert_ct!(home, ["runs", "make", "a.eval", "--save-dir", "a"]);
    assert_ct!(home, ["runs", "list"]);
    assert_ct!(home, ["runs", "make", "a", "--save-path", "b.eval"]);
    assert_ct!(home, ["runs", "make", "b.eval", "--save-dir", "b", "--upload"]);
    let files = |folder: &str| {
        let mut names: Vec<_> = std::fs::read_dir(home.path(folder))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    assert_eq!(files("a"), files("b"));
    assert_eq!(files("a").len(), 7);
}

#[test]
fn another_file_is_not_written_over() {
    let home = Home::new();
    home.log("control-tower/ct-11.eval", "a.eval");
    home.file("b.eval", "something else");
    assert_ct!(home, ["runs", "make", "a.eval", "--save-path", "b.eval"]);
    assert_eq!(std::fs::read_to_string(home.path("b.eval")).unwrap(), "something else");
    assert_ct!(home, ["runs", "make", "a.eval", "--save-path", "b.eval", "--overwrite"]);
}

#[test]
fn several_logs_have_no_single_file() {
    let home = Home::new();
    home.log("control-tower/ct-11.eval", "a.eval");
    home.log("control-tower/ct-12.eval", "b.eval");
    assert_ct!(home, ["runs", "make", "a.eval", "b.eval", "--save-path", "c.eval"]);
    home.stdout(&["runs", "make", "a.eval", "b.eval", "--save-dir", "both"]);
    assert!(home.path("both/a/run.json").is_file());
    assert!(home.path("both/b/run.json").is_file());
}

#[test]
fn the_same_eval_with_other_bytes_needs_a_decision() {
    let home = Home::new();
    home.log("control-tower/ct-11.eval", "a.eval");
    home.stdout(&["runs", "make", "a.eval"]);
    home.stdout(&["runs", "make", "a.eval", "--save-path", "b.eval", "--drop-score", "monitor*"]);
    assert_ct!(home, ["runs", "make", "b.eval"]);
    assert_ct!(home, ["runs", "make", "b.eval", "--replace"]);
    assert_ct!(home, ["runs", "list"]);
    home.stdout(&["runs", "make", "a.eval", "--save-path", "c.eval", "--drop-score", "audit*"]);
    assert_ct!(home, ["runs", "make", "c.eval", "--as-new"]);
}

#[test]
fn text_from_logs_does_nothing_to_a_terminal() {
    let home = Home::new();
    home.log("control-tower/ct-11.eval", "a.eval");
    assert_ct!(home, ["runs", "make", "a.eval", "--run-name", "\x1b]0;owned\x07\u{202e}eman"]);
    assert_ct!(home, ["runs", "list"]);
    assert_ct!(home, ["runs", "list", "--format", "ndjson"]);
}

/// Opening a pipe waits for whoever writes into it; here nobody does.
#[cfg(unix)]
#[test]
fn pipes_and_devices_are_no_logs() {
    let home = Home::new();
    home.log("control-tower/ct-11.eval", "logs/a.eval");
    home.stdout(&["runs", "make", "logs/a.eval", "--save-dir", "folder"]);
    for pipe in ["logs/pipe.eval", "logs/pipe.json", "folder/pipe.json"] {
        let status = std::process::Command::new("mkfifo").arg(home.path(pipe)).status().unwrap();
        assert!(status.success());
    }
    assert_ct!(home, ["runs", "make", "logs/pipe.eval"]);
    assert_ct!(home, ["runs", "make", "logs"]);
    assert_ct!(home, ["runs", "make", "logs/*"]);
    assert_ct!(home, ["runs", "make", "folder", "--save-path", "new/folders/b.eval"]);
    assert!(home.path("new/folders/b.eval").is_file());
    assert_ct!(home, ["runs", "make", "logs/a.eval", "--save-path", "logs/pipe.eval", "--overwrite"]);
    let run = home.run_id("attack");
    assert_ct!(home, ["runs", "download-eval", &run, "-o", "logs/pipe.eval", "--overwrite"]);
}

#[test]
fn a_score_pattern_that_matches_nothing_is_told() {
    let home = Home::new();
    home.log("generated/multi_scorers.eval", "a.eval");
    home.log("control-tower/ct-11.eval", "b.eval");
    let arguments = ["--drop-score", "*", "--drop-score", "no*such", "--save-dir", "out"];
    assert_ct!(home, [&["runs", "make", "a.eval", "b.eval"][..], &arguments].concat());
    assert_ct!(
        home,
        ["runs", "make", "a.eval", "--drop-score", "nosuch", "--save-path", "c.json", "--format", "json"]
    );
}
