use serde_json::Value;

use crate::support::{Home, assert_ct};

#[test]
fn an_empty_store_lists_nothing_in_every_format() {
    let home = Home::new();
    assert_ct!(home, ["runs", "list"]);
    assert_ct!(home, ["runs", "list", "--format", "json"]);
    assert_ct!(home, ["runs", "list", "--format", "ndjson"]);
    assert_ct!(home, ["runs", "list", "--format", "csv"]);
}

#[test]
fn runs_in_every_format() {
    let home = Home::with_runs();
    assert_ct!(home, ["runs", "list"]);
    assert_ct!(home, ["runs", "list", "--format", "json"]);
    assert_ct!(home, ["runs", "list", "--format", "ndjson"]);
    assert_ct!(home, ["runs", "list", "--format", "csv"]);
}

#[test]
fn pages_join_up() {
    let home = Home::with_runs();
    let first = home.json(&["runs", "list", "--limit", "1", "--format", "json"]);
    assert_eq!(first["total_count"], 2);
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = home.json(&["runs", "list", "-n", "1", "--cursor", cursor, "--format", "json"]);
    assert_eq!(second["next_cursor"], Value::Null);
    assert_ne!(first["items"][0]["run_id"], second["items"][0]["run_id"]);
    let output = home.command(&["runs", "list", "--limit", "1"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said, format!("1 of 2 runs; next page: --cursor {cursor}\n"));
}

#[test]
fn a_made_up_cursor_is_a_usage_error() {
    let home = Home::with_runs();
    assert_ct!(home, ["runs", "list", "--cursor", "no-such-cursor"]);
}

#[test]
fn filters_choose_runs() {
    let home = Home::with_runs();
    let names = |arguments: &[&str]| {
        let mut all = vec!["runs", "list", "--sort", "name", "--format", "json"];
        all.extend(arguments);
        let list = home.json(&all);
        let items = list["items"].as_array().unwrap();
        items.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let (attack, honest) = ("synthetic attack 11", "synthetic honest 12");
    assert_eq!(names(&[]), [attack, honest]);
    assert_eq!(names(&["--reverse"]), [honest, attack]);
    assert_eq!(names(&["--tag", "attack"]), [attack]);
    assert_eq!(names(&["--tags", "synthetic", "--tag", "honest"]), [honest]);
    assert_eq!(names(&["--name", "HONEST"]), [honest]);
    assert_eq!(names(&["--policy", "attack"]), [attack]);
    assert_eq!(names(&["--policy", "ct/honest"]), [honest]);
    assert_eq!(names(&["--task-set", "synthetic"]), [attack, honest]);
    assert_eq!(names(&["--side-outcome", "pass"]), [attack]);
    assert_eq!(names(&["--side-task", "leak_private_channel"]), [attack]);
    assert_eq!(names(&["-e", "slack_clone", "-t", "add_reactions", "--policy", "attack"]), [attack]);
    assert_eq!(names(&["--model", "claude-haiku-4-5-20251001"]).len(), 2);
    assert_eq!(names(&["--status", "success"]).len(), 2);
    assert_eq!(names(&["--status", "error"]).len(), 0);
    assert_eq!(names(&["--since", "1h"]).len(), 2);
    assert_eq!(names(&["--until", "1h"]).len(), 0);
    assert_eq!(names(&["--author", "nobody"]).len(), 0);
    assert_ct!(home, ["runs", "list", "--tag", "baseline"]);
}

#[test]
fn wrong_values_are_usage_errors() {
    let home = Home::new();
    assert_ct!(home, ["runs", "list", "--side-outcome", "won"]);
    assert_ct!(home, ["runs", "list", "--since", "yesterday"]);
    assert_ct!(home, ["runs", "list", "--limit", "0"]);
}

#[test]
fn a_closed_pipe_is_no_error() {
    let home = Home::with_runs();
    let mut child = home
        .command(&["runs", "list", "--format", "csv"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn the_data_folder_comes_from_flag_then_environment_then_dotenv() {
    let home = Home::with_runs();
    let store = home.path("../share/control-tower");
    home.file("project/.env", "OTHER=1\nexport CONTROL_TOWER_DATA_DIR='../../share/control-tower' # mine\n");
    let count = |change: &dyn Fn(&mut std::process::Command)| {
        let mut command = home.command(&["runs", "list", "--format", "ndjson", "--quiet"]);
        command.env("XDG_DATA_HOME", home.path("nowhere"));
        change(&mut command);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().lines().count()
    };
    assert_eq!(count(&|_| {}), 0);
    assert_eq!(
        count(&|command| {
            command.env("CONTROL_TOWER_DATA_DIR", &store);
        }),
        2
    );
    assert_eq!(
        count(&|command| {
            command.env("CONTROL_TOWER_DATA_DIR", "");
        }),
        0
    );
    std::fs::create_dir_all(home.path("project/deep")).unwrap();
    assert_eq!(
        count(&|command| {
            command.current_dir(home.path("project/deep"));
        }),
        2
    );
    assert_eq!(
        count(&|command| {
            command.current_dir(home.path("project")).env("CONTROL_TOWER_DATA_DIR", home.path("empty"));
        }),
        0
    );
    assert_eq!(
        count(&|command| {
            command.arg("--data-dir").arg(&store).env("CONTROL_TOWER_DATA_DIR", home.path("empty"));
        }),
        2
    );
}

#[test]
fn very_long_names_are_cut_in_tables_alone() {
    let home = Home::with_runs();
    let (run, name) = (home.run_id("attack"), "é".repeat(1000));
    home.stdout(&["runs", "edit", &run, "--name", &name, "--tag", &"t".repeat(300)]);
    let table = home.stdout(&["runs", "list", "--name", "ééé"]);
    assert!(
        table.contains(&format!("  {}…  ", "é".repeat(79))) && !table.contains(&"é".repeat(80)),
        "{table}"
    );
    assert!(table.lines().all(|line| line.chars().count() < 300), "{table}");
    assert_eq!(home.json(&["runs", "list", "--name", "ééé", "--format", "json"])["items"][0]["name"], name);
    assert!(home.stdout(&["runs", "info", &run]).contains(&name));
}
