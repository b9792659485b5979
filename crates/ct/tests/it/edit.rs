use crate::support::{Home, assert_ct};

#[test]
fn names_tags_and_descriptions_change() {
    let home = Home::with_runs();
    let run = home.run_id("attack");
    assert_ct!(
        home,
        ["runs", "edit", &run, "--name", "new", "--tag", "x", "--untag", "attack", "--description", "why"]
    );
    let info = home.json(&["runs", "info", &run, "--format", "json"]);
    assert_eq!(info["name"], "new");
    assert_eq!(info["tags"], serde_json::json!(["synthetic", "x"]));
    assert_eq!(info["description"], "why");
    let changed = home.json(&["runs", "edit", &run, "--description", "", "--format", "json"]);
    assert_eq!((&changed["name"], &changed["description"]), (&"new".into(), &serde_json::Value::Null));
    assert_eq!(
        home.json(&["runs", "info", &run, "--format", "json"])["description"],
        serde_json::Value::Null
    );
}

#[test]
fn an_edit_changes_something_and_one_thing() {
    let home = Home::with_runs();
    let run = home.run_id("attack");
    assert_ct!(home, ["runs", "edit", &run]);
    assert_ct!(home, ["runs", "edit", &run, "--tag", "x", "--untag", "x"]);
}

#[test]
fn deleted_runs_come_back() {
    let home = Home::with_runs();
    let run = home.run_id("attack");
    assert_ct!(home, ["runs", "delete", &run]);
    assert_ct!(home, ["runs", "delete", &run]);
    assert_ct!(home, ["runs", "list", "--format", "csv"]);
    assert_ct!(home, ["runs", "list", "--deleted"]);
    assert_ct!(home, ["runs", "download-trajs", &run]);
    assert_ct!(home, ["runs", "restore", &run[..8]]);
    assert_ct!(home, ["runs", "restore", &run[..8]]);
    assert_eq!(home.run_id("attack"), run);
    assert_ct!(home, ["runs", "delete", &run, "--format", "json"]);
    assert_ct!(home, ["runs", "restore", &run, "--format", "json"]);
}

#[test]
fn deleting_what_is_not_there_deletes_nothing() {
    let home = Home::with_runs();
    let run = home.run_id("attack");
    assert_ct!(home, ["runs", "delete", &run, "ffffffff"]);
    assert_eq!(home.run_id("attack"), run);
}

#[test]
fn what_changed_is_said() {
    let home = Home::with_runs();
    let run = home.run_id("attack");
    assert_ct!(home, ["runs", "edit", &run, "--untag", "nosuch"]);
    assert_ct!(
        home,
        ["runs", "edit", &run, "--tag", "a", "--tag", "b", "--name", "New", "--description", "Long"]
    );
    assert_ct!(
        home,
        ["runs", "edit", &run, "--tag", "a", "--untag", "b", "--untag", "c", "--description", ""]
    );
}
