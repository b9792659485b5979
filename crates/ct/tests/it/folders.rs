//! Which files of a folder are a run's, and what is said about a run in its folder.

use serde_json::{Value, json};

use crate::support::Home;

/// Exit code, and error of a command that fails.
fn fails(home: &Home, arguments: &[&str]) -> (Option<i32>, String) {
    let output = home.command(arguments).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// Names of the trajectory files in a folder.
fn trajectories(home: &Home, folder: &str) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(home.path(folder))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "run.json")
        .collect();
    names.sort();
    names
}

fn run_file(home: &Home, folder: &str) -> Value {
    serde_json::from_slice(&std::fs::read(home.path(folder).join("run.json")).unwrap()).unwrap()
}

/// What `make` of a folder makes, in a store of its own.
fn made_of(folder: &std::path::Path) -> (Value, Value) {
    let other = Home::new();
    let made =
        other.json(&["runs", "make", folder.to_str().unwrap(), "--format", "json"])["items"][0].clone();
    let run = made["run_id"].as_str().unwrap().to_owned();
    (made, other.json(&["runs", "info", &run, "--format", "json"]))
}

#[test]
fn a_file_that_is_not_the_runs_is_left_out_and_told() {
    let home = Home::with_runs();
    home.stdout(&["runs", "download-trajs", "6dc57307", "-o", "a"]);
    home.stdout(&["runs", "download-trajs", "15129ed7", "-o", "b"]);
    let stranger = trajectories(&home, "b").remove(0);
    std::fs::copy(home.path("b").join(&stranger), home.path("a").join(&stranger)).unwrap();
    let gone = trajectories(&home, "a").into_iter().find(|name| *name != stranger).unwrap();
    std::fs::remove_file(home.path("a").join(&gone)).unwrap();

    let (made, _) = made_of(&home.path("a"));
    assert_eq!(made["trajectories"], json!(5));
    let defects = made["defects"].to_string();
    assert!(defects.contains(&stranger) && defects.contains(&gone), "{defects}");
}

/// Nobody writes into these: who read from them would wait for ever.
#[test]
fn what_is_no_file_in_the_place_of_one_is_foreign() {
    let home = Home::with_runs();
    home.log("control-tower/ct-11.eval", "ct-11.eval");
    let pipe = home.path("out/run.json");
    std::fs::create_dir(home.path("out")).unwrap();
    let commands = [
        &["runs", "download-trajs", "6dc57307", "-o", "out"][..],
        &["runs", "make", "ct-11.eval", "--save-dir", "out"],
    ];
    let is_pipe = || std::os::unix::fs::FileTypeExt::is_fifo(&pipe.symlink_metadata().unwrap().file_type());
    for command in commands {
        let _ = std::fs::remove_file(&pipe);
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let (code, error) = fails(&home, command);
        assert!(code == Some(5) && error.contains("another run.json"), "{error}");
        assert!(is_pipe());
        home.stdout(&[command, &["--overwrite"]].concat());
        assert!(!is_pipe());
        assert_eq!(trajectories(&home, "out").len(), 6);
    }
    std::fs::remove_file(&pipe).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(&pipe).unwrap();
    for command in commands {
        assert_eq!(fails(&home, command).0, Some(5), "{command:?}");
    }
}

#[test]
fn a_folder_of_something_else_is_not_written_into_unasked() {
    let home = Home::with_runs();
    home.file("diary/run.json", "my diary");
    let (code, error) = fails(&home, &["runs", "download-trajs", "6dc57307", "-o", "diary"]);
    assert_eq!(code, Some(5), "{error}");
    assert_eq!(std::fs::read(home.path("diary/run.json")).unwrap(), b"my diary");
    assert_eq!(trajectories(&home, "diary"), Vec::<String>::new());

    home.stdout(&["runs", "download-trajs", "15129ed7", "-o", "b"]);
    assert_eq!(fails(&home, &["runs", "download-trajs", "6dc57307", "-o", "b"]).0, Some(5));
    // Asked to, the former run's files go.
    home.stdout(&["runs", "download-trajs", "6dc57307", "-o", "b", "--overwrite"]);
    home.stdout(&["runs", "download-trajs", "6dc57307", "-o", "c"]);
    assert_eq!(trajectories(&home, "b"), trajectories(&home, "c"));
}

#[test]
fn a_part_of_a_run_sums_up_to_itself() {
    let home = Home::with_runs();
    // Each of the six costs 0.006.
    for (n, seed, cost) in [("2", "1", 0.012), ("3", "2", 0.018)] {
        home.stdout(&[
            "runs",
            "sample",
            "6dc57307",
            n,
            "_",
            "--seed",
            seed,
            "--save-dir",
            "parts",
            "--overwrite",
        ]);
        let count: usize = n.parse().unwrap();
        assert_eq!(trajectories(&home, "parts/part-1").len(), count);
        assert_eq!(trajectories(&home, "parts/rest").len(), 6 - count);
        let run = run_file(&home, "parts/part-1");
        assert_eq!(run["trajectory_count"], json!(count));
        assert_eq!(run["total_cost_usd"], json!(cost));
    }
}

#[test]
fn what_was_said_about_a_run_goes_with_its_folder() {
    let home = Home::with_runs();
    home.stdout(&["runs", "edit", "6dc57307", "--name", "renamed", "--tag", "mine"]);
    home.stdout(&["runs", "download-trajs", "6dc57307", "-o", "a"]);
    let (_, info) = made_of(&home.path("a"));
    assert_eq!((&info["name"], &info["tags"]), (&json!("renamed"), &json!(["synthetic", "attack", "mine"])));

    home.stdout(&[
        "runs",
        "make",
        "ct-12.eval",
        "--save-dir",
        "b",
        "--run-name",
        "other",
        "--policy",
        "mine",
    ]);
    let (_, info) = made_of(&home.path("b"));
    assert_eq!((&info["name"], &info["policy"]), (&json!("other"), &json!("mine")));
}

#[test]
fn the_same_log_may_be_written_again_and_another_may_not() {
    let home = Home::with_runs();
    home.stdout(&["runs", "make", "ct-11.eval", "--save-path", "x.eval"]);
    home.stdout(&["runs", "make", "ct-11.eval", "--save-path", "x.eval"]);
    let before = std::fs::read(home.path("x.eval")).unwrap();
    assert_eq!(fails(&home, &["runs", "make", "ct-12.eval", "--save-path", "x.eval"]).0, Some(5));
    assert_eq!(std::fs::read(home.path("x.eval")).unwrap(), before);
    assert_eq!(fails(&home, &["runs", "make", "ct-12.eval", "--save-path", "x.txt"]).0, Some(2));
}

#[test]
fn a_lost_database_does_not_take_the_logs_with_it() {
    let home = Home::with_runs();
    let data = home.json(&["runs", "info", "6dc57307", "--format", "json"])["eval_log_url"].clone();
    let log = std::path::PathBuf::from(data.as_str().unwrap().strip_prefix("file://").unwrap());
    let folder = log.ancestors().nth(3).unwrap().to_owned();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_string_lossy().starts_with("ct.sqlite") {
            std::fs::remove_file(path).unwrap();
        }
    }
    assert_eq!(fails(&home, &["store", "check"]).0, Some(1));
    let (code, error) = fails(&home, &["store", "gc"]);
    assert_eq!(code, Some(1), "{error}");
    assert!(log.is_file());
    home.stdout(&["runs", "make", folder.join("logs").to_str().unwrap()]);
    home.stdout(&["store", "check"]);
    assert_eq!(home.json(&["runs", "list", "--format", "json"])["total_count"], json!(2));
}
