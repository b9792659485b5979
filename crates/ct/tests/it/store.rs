use crate::support::{Home, assert_ct};

#[test]
fn a_sound_store() {
    let home = Home::with_runs();
    assert_ct!(home, ["store", "check"]);
    assert_ct!(home, ["store", "check", "--format", "json"]);
    assert_ct!(home, ["store", "gc", "--dry-run"]);
}

#[test]
fn a_missing_log_is_found_and_made_whole() {
    let home = Home::with_runs();
    let run = home.run_id("attack");
    let path =
        home.json(&["runs", "info", &run, "--format", "json"])["log"]["path"].as_str().unwrap().to_owned();
    std::fs::remove_file(path).unwrap();
    assert_ct!(home, ["store", "check"]);
    assert_ct!(home, ["runs", "make", "ct-11.eval"]);
    assert_eq!(home.json(&["store", "check", "--format", "json"])["sound"], true);
}

#[test]
fn deleted_runs_go_for_good_when_told() {
    let home = Home::with_runs();
    let run = home.run_id("attack");
    home.stdout(&["runs", "delete", &run]);
    assert_eq!(home.json(&["store", "gc", "--format", "json"])["items"], serde_json::json!([]));
    assert_ct!(home, ["store", "gc", "--purge-deleted", "0d", "--dry-run"]);
    assert_ct!(home, ["store", "gc", "--purge-deleted", "0d", "--format", "json"]);
    assert_ct!(home, ["runs", "restore", &run]);
}
