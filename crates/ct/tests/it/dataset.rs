//! `ct dataset …`, and `ct runs sample --dataset`.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::Stdio;

use serde_json::Value;

use crate::server::{Served, user_with_token};
use crate::support::Home;

/// As `assert_ct`, with ages and the widths that follow from them replaced.
macro_rules! assert_dataset {
    ($home:expr, $arguments:expr) => {
        assert_dataset!($home, $arguments, "")
    };
    ($home:expr, $arguments:expr, $input:expr) => {{
        let mut settings = $home.settings();
        settings.add_filter(r"(?m)^(.*\S) +\d+s$", "$1  [AGE]");
        settings.add_filter(r" +(CHANGED|MADE)\n", "  $1\n");
        settings.bind(|| insta::assert_snapshot!($home.ct_with_input(&$arguments, $input)))
    }};
}

/// A home with a dataset `d` of three trajectories, and the ids of all.
fn with_dataset() -> (Home, Vec<String>) {
    let home = Home::with_runs();
    let mut ids = home.trajectory_ids(&home.run_id("attack"));
    ids.sort();
    home.stdout(&["dataset", "create", "d", &ids[0], &ids[1], &ids[2]]);
    (home, ids)
}

fn items(home: &Home, dataset: &str) -> Vec<String> {
    home.stdout(&["dataset", "show", dataset, "--ids"]).lines().map(str::to_owned).collect()
}

#[test]
fn before_there_is_any() {
    let home = Home::new();
    assert_dataset!(home, ["dataset", "list"]);
    assert_dataset!(home, ["dataset", "list", "--format", "json"]);
    assert_dataset!(home, ["dataset", "show", "d"]);
    let home = Home::with_runs();
    assert_dataset!(home, ["dataset", "list", "--format", "csv"]);
    assert_dataset!(home, ["dataset", "list", "--kind", "run"]);
    assert_dataset!(home, ["dataset", "show", "d"]);
    assert_dataset!(home, ["dataset", "versions", "d"]);
    assert_dataset!(home, ["dataset", "add", "d", "x"]);
    assert_dataset!(home, ["dataset", "lock", "d"]);
    assert_dataset!(home, ["dataset", "create", "a/b", "x"]);
    assert_dataset!(home, ["dataset", "create", "d", "nosuch"]);
    assert_dataset!(home, ["dataset", "create", "d", "-"], "nosuch\nneither\n");
    assert_dataset!(home, ["dataset", "list", "--format", "ndjson"]);
}

#[test]
fn a_dataset_and_its_versions() {
    let (home, ids) = with_dataset();
    assert_dataset!(home, ["dataset", "create", "d", &ids[0], &ids[1], &ids[2]]);
    assert_dataset!(home, ["dataset", "create", "d", &ids[0]]);
    assert_dataset!(home, ["dataset", "add", "d", &ids[3], &ids[0]]);
    assert_dataset!(home, ["dataset", "add", "d", &ids[3], "--format", "json"]);
    assert_dataset!(home, ["dataset", "remove", "d", &ids[1][..8], "nosuch", "--description", "one less"]);
    assert_dataset!(home, ["dataset", "remove", "d", "nosuch"]);
    assert_dataset!(home, ["dataset", "remove", "d", &ids[0], "--if-version", "1"]);
    assert_dataset!(home, ["dataset", "create", "d", &ids[4], "--new-version", "--description", "another"]);
    assert_dataset!(home, ["dataset", "versions", "d"]);
    assert_dataset!(home, ["dataset", "versions", "d", "--format", "json"]);
    assert_dataset!(home, ["dataset", "versions", "d", "--format", "ndjson"]);
    assert_dataset!(home, ["dataset", "versions", "d", "--format", "csv"]);
    assert_dataset!(home, ["dataset", "show", "d"]);
    assert_dataset!(home, ["dataset", "show", "d@3", "--format", "json"]);
    assert_dataset!(home, ["dataset", "show", "d@2", "--format", "csv"]);
    assert_dataset!(home, ["dataset", "show", "d@2", "--format", "ndjson"]);
    assert_dataset!(home, ["--local", "dataset", "show", "https://viewer.example/datasets/d?version=1"]);
    assert_dataset!(home, ["dataset", "show", "d@9"]);
    assert_eq!(items(&home, "d@1"), ids[..3]);
    assert_eq!(items(&home, "d@2"), ids[..4]);
    assert_eq!(items(&home, "d@3"), [&ids[0], &ids[2], &ids[3]].map(String::clone));
    assert_eq!(items(&home, "d"), ids[4..5]);
}

#[test]
fn datasets_of_both_kinds_are_listed() {
    let (home, _) = with_dataset();
    let run = home.run_id("attack");
    home.stdout(&["dataset", "create", "runs", "--kind", "run", &run[..8], "--description", "both\nlines"]);
    home.stdout(&["dataset", "lock", "runs", "--format", "json"]);
    assert_dataset!(home, ["dataset", "list"]);
    assert_dataset!(home, ["dataset", "list", "--kind", "run"]);
    assert_dataset!(home, ["dataset", "list", "--format", "json"]);
    assert_dataset!(home, ["dataset", "list", "--format", "ndjson"]);
    assert_dataset!(home, ["dataset", "list", "--format", "csv"]);
    assert_dataset!(home, ["dataset", "show", "runs"]);
    assert_dataset!(home, ["dataset", "create", "runs", "--kind", "trajectory"]);
    assert_dataset!(home, ["dataset", "diff", "d", "runs"]);
}

#[test]
fn locks() {
    let (home, ids) = with_dataset();
    assert_dataset!(home, ["dataset", "unlock", "d"]);
    assert_dataset!(home, ["dataset", "lock", "d", "--reason", "in the paper"]);
    assert_dataset!(home, ["dataset", "add", "d", &ids[3]]);
    assert_dataset!(home, ["dataset", "add", "d", &ids[3], "--format", "json"]);
    assert_dataset!(home, ["dataset", "create", "d", &ids[0], &ids[1], &ids[2]]);
    assert_dataset!(home, ["dataset", "show", "d"]);
    assert_dataset!(home, ["dataset", "unlock", "d", "--format", "json"]);
    assert_dataset!(home, ["dataset", "add", "d", &ids[3]]);
}

#[test]
fn differences() {
    let (home, ids) = with_dataset();
    home.stdout(&["dataset", "add", "d", &ids[3]]);
    home.stdout(&["dataset", "remove", "d", &ids[0]]);
    home.stdout(&["dataset", "create", "other", &ids[1], &ids[4]]);
    assert_dataset!(home, ["dataset", "diff", "d", "1", "3"]);
    assert_dataset!(home, ["dataset", "diff", "d", "2"]);
    assert_dataset!(home, ["dataset", "diff", "d", "other", "--format", "json"]);
    assert_dataset!(home, ["dataset", "diff", "d@1", "other@1", "--format", "csv"]);
    assert_dataset!(home, ["dataset", "diff", "d", "d@1", "--format", "ndjson"]);
    assert_dataset!(home, ["dataset", "diff", "d", "d"]);
    assert_dataset!(home, ["dataset", "diff", "d@1", "2"]);
    assert_dataset!(home, ["dataset", "diff", "d", "1", "other"]);
    assert_dataset!(home, ["dataset", "diff", "d", "9"]);
}

#[test]
fn ids_come_from_standard_input_and_go_to_standard_output() {
    let (home, ids) = with_dataset();
    let lines = format!("{}\r\n\n  {}\n", ids[3], ids[4]);
    let told = home.ct_with_input(&["dataset", "add", "d", "-"], &lines);
    assert!(told.contains("d version 2, 5 items: 2 added"), "{told}");
    let shown = home.stdout(&["dataset", "show", "d@1", "--ids"]);
    let told = home.ct_with_input(&["dataset", "remove", "d", "-"], &shown);
    assert!(told.contains("d version 3, 2 items: 3 removed"), "{told}");
    assert_eq!(items(&home, "d"), ids[3..5]);
}

fn files(home: &Home, folder: &str) -> BTreeSet<String> {
    let entries = std::fs::read_dir(home.path(folder)).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn trajectories_are_written_as_a_download_of_their_run_writes_them() {
    let (home, ids) = with_dataset();
    let run = home.run_id("attack");
    home.stdout(&["runs", "download-trajs", &run, "-o", "whole"]);
    assert_dataset!(home, ["dataset", "download", "d"]);
    assert_dataset!(home, ["dataset", "download", "d", "--format", "json"]);
    let expected: BTreeSet<String> = ids[..3].iter().map(|id| format!("{id}.json")).collect();
    assert_eq!(files(&home, "d-v1"), expected);
    for file in &expected {
        let read = |folder: &str| std::fs::read(home.path(folder).join(file)).unwrap();
        assert_eq!(read("d-v1"), read("whole"), "{file}");
    }
    home.stdout(&["dataset", "add", "d", &ids[3]]);
    home.stdout(&[
        "--local",
        "dataset",
        "download",
        "https://viewer.example/datasets/d?version=1",
        "-o",
        "first",
    ]);
    assert_eq!(files(&home, "first"), expected);

    home.stdout(&["dataset", "create", "runs", "--kind", "run", &run]);
    assert_dataset!(home, ["dataset", "download", "runs"]);
    assert_eq!(files(&home, &format!("runs-v1/{run}")), files(&home, "whole"));

    // What is deleted is said, and the rest is written.
    let honest = home.run_id("honest");
    let other = home.trajectory_ids(&honest);
    home.stdout(&["dataset", "create", "mixed", &ids[0], &other[0]]);
    home.stdout(&["dataset", "add", "runs", &honest]);
    let deleted = home.command(&["runs", "delete", &run]).output().unwrap();
    assert!(deleted.status.success());
    assert_dataset!(home, ["dataset", "download", "mixed"]);
    assert_eq!(files(&home, "mixed-v1"), BTreeSet::from([format!("{}.json", other[0])]));
    assert_dataset!(home, ["dataset", "download", "runs", "-o", "again"]);
    assert_dataset!(home, ["dataset", "download", "d"]);
    assert_dataset!(home, ["dataset", "add", "mixed", "-"], &format!("{}\n", ids[4]));
    assert_dataset!(home, ["dataset", "remove", "mixed", &ids[0]]);
}

#[test]
fn the_parts_of_a_draw_are_datasets() {
    let home = Home::with_runs();
    let run = home.run_id("attack");
    let arguments =
        ["runs", "sample", &run, "2", "1", "_", "--seed", "5", "--dataset", "split", "--format", "json"];
    let drawn = home.json(&arguments);
    let listed = home.json(&["dataset", "list", "--format", "json"]);
    let names: Vec<&str> =
        listed["items"].as_array().unwrap().iter().map(|d| d["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["split-rest", "split-2", "split-1"]);
    for part in drawn["parts"].as_array().unwrap() {
        let name = part["dataset"]["name"].as_str().unwrap();
        let shown = home.json(&["dataset", "show", name, "--format", "json"]);
        assert_eq!(shown["item_ids"], part["trajectory_ids"]);
        assert_eq!((&shown["version"], &part["dataset"]["version"]), (&1.into(), &1.into()));
        let manifest: Value = serde_json::from_str(shown["description"].as_str().unwrap()).unwrap();
        assert_eq!(manifest, drawn["manifest"]);
    }
    // The same draw again changes nothing, even when they are locked; another one is refused as a whole.
    home.stdout(&["dataset", "lock", "split-1", "--format", "json"]);
    assert_eq!(home.json(&arguments), drawn);
    assert_dataset!(home, arguments[..10]);
    assert_dataset!(home, ["runs", "sample", &run, "2", "1", "1", "_", "--seed", "5", "--dataset", "split"]);
    assert_dataset!(home, ["runs", "sample", &run, "1", "--seed", "1", "--dataset", "a/b"]);
    let listed = home.json(&["dataset", "list", "--format", "json"]);
    assert_eq!(listed["total_count"], 3);
    for dataset in listed["items"].as_array().unwrap() {
        assert_eq!(dataset["latest_version"], 1);
    }
    let long = "x".repeat(127);
    let refused = home.ct(&["runs", "sample", &run, "1", "--seed", "1", "--dataset", &long]);
    assert!(refused.starts_with("exit code: 2"), "{refused}");
    assert_eq!(home.json(&["dataset", "list", "--format", "json"])["total_count"], 3);
}

/// Standard output without who and when.
fn without_times(text: &str) -> String {
    let own = [
        "created_at",
        "created_by",
        "updated_at",
        "updated_by",
        "locked_at",
        "locked_by",
        "made  ",
        "locked  ",
    ];
    let lines = text.lines().filter(|line| !own.iter().any(|word| line.contains(word)));
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_server_says_what_the_data_folder_says() {
    let (local, served) = (Home::with_runs(), Home::with_runs());
    let token = user_with_token(&served, "ana", "write");
    let server = Served::start(&served, &["--private"]);
    let remote = Home::new();
    let run = local.run_id("attack");
    let mut ids = local.trajectory_ids(&run);
    ids.sort();
    let address = |query: &str| format!("{}/datasets/d{query}", server.url);
    let seed = ["--seed", "5", "--dataset", "split", "--format", "json"];
    let commands: Vec<(Vec<&str>, &str)> = vec![
        (vec!["list", "--format", "json"], ""),
        (vec!["show", "d"], ""),
        (vec!["add", "d", &ids[0]], ""),
        (vec!["create", "d", &ids[0][..10], &ids[1], "--description", "two"], ""),
        (vec!["create", "d", &ids[0], &ids[1], "--description", "two"], ""),
        (vec!["create", "d", &ids[2]], ""),
        (vec!["create", "bad", "-"], "nosuch\n"),
        (vec!["create", "runs", "--kind", "run", &run[..8]], ""),
        (vec!["add", "d", "-", "--format", "json"], &ids[2]),
        (vec!["add", "d", &ids[2]], ""),
        (vec!["remove", "d", &ids[0][..10], "nosuch"], ""),
        (vec!["remove", "d", &ids[1], "--if-version", "1"], ""),
        (vec!["versions", "d", "--format", "json"], ""),
        (vec!["show", "d@1", "--format", "json"], ""),
        (vec!["show", "d@9"], ""),
        (vec!["show", "d"], ""),
        (vec!["diff", "d", "1", "--format", "json"], ""),
        (vec!["diff", "d", "runs"], ""),
        (vec!["list", "--kind", "run", "--format", "json"], ""),
        (vec!["lock", "d", "--reason", "why", "--format", "json"], ""),
        (vec!["add", "d", &ids[3]], ""),
        (vec!["unlock", "d", "--format", "json"], ""),
        (vec!["unlock", "d", "--format", "json"], ""),
        (vec!["download", "d@1"], ""),
        (vec!["download", "d@1", "--format", "json"], ""),
        (vec!["download", "runs", "-o", "runs"], ""),
        (vec!["sample", &run[..8], "2", "1", "_", seed[0], seed[1], seed[2], seed[3], seed[4], seed[5]], ""),
        (vec!["sample", &run[..8], "2", "1", "_", seed[0], seed[1], seed[2], seed[3], seed[4], seed[5]], ""),
        (vec!["sample", &run[..8], "1", "2", "_", seed[0], seed[1], seed[2], seed[3], seed[4], seed[5]], ""),
        (vec!["show", "split-rest", "--format", "json"], ""),
    ];
    let ask = |home: &Home, arguments: &[&str], input: &str, at_server: bool| {
        let mut command = home.command(arguments);
        if at_server {
            command.env("CONTROL_TOWER_API_BASE_URL", &server.url).env("CONTROL_TOWER_API_TOKEN", &token);
        }
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // A program that does not read it does not mind.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), without_times(&String::from_utf8(output.stdout).unwrap()), said)
    };
    for (arguments, input) in &commands {
        let noun = if arguments[0] == "sample" { "runs" } else { "dataset" };
        let arguments = [&[noun], &arguments[..]].concat();
        let (code, data, said) = ask(&local, &arguments, input, false);
        let (remote_code, remote_data, remote_said) = ask(&remote, &arguments, input, true);
        assert_eq!((remote_code, remote_data), (code, data), "{arguments:?}\n{said}\n{remote_said}");
    }
    for folder in ["d-v1", &format!("runs/{run}")] {
        assert_eq!(files(&remote, folder), files(&local, folder));
    }
    // Where the log is, differs; the samples do not.
    for file in files(&local, "d-v1") {
        let sample = |home: &Home| {
            let text = std::fs::read(home.path("d-v1").join(&file)).unwrap();
            let value: Value = serde_json::from_slice(&text).unwrap();
            value["sample"].clone()
        };
        assert!(sample(&local).is_object() && sample(&remote) == sample(&local), "{file}");
    }
    // A pasted address says which server and which version.
    let shown = |query: &str| {
        let address = address(query);
        let (code, data, said) = ask(&remote, &["dataset", "show", &address, "--ids"], "", true);
        assert_eq!(code, Some(0), "{said}");
        data.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(shown("?version=1"), ids[..2]);
    assert_eq!(shown(""), ids[1..3]);
    // It is taken where trajectories are downloaded, too; there is nothing to filter.
    let pasted = address("?version=1");
    let download = ["runs", "download-trajs", &pasted, "-o", "pasted"];
    let (code, _, said) = ask(&remote, &download, "", true);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(files(&remote, "pasted"), files(&remote, "d-v1"));
    let (code, _, said) = ask(&remote, &[&download[..], &["-n", "1"]].concat(), "", true);
    assert_eq!(code, Some(2), "{said}");
    let listed = remote
        .command(&["dataset", "list", "--format", "csv"])
        .env("CONTROL_TOWER_API_BASE_URL", &server.url)
        .env("CONTROL_TOWER_API_TOKEN", &token)
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.lines().skip(1).all(|line| line.contains(",ana,")), "{listed}");
}
