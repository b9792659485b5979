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

/// A data folder that is not there is not made by looking at it.
#[test]
fn reading_makes_no_store() {
    let home = Home::new();
    assert_ct!(home, ["runs", "list"]);
    assert_ct!(home, ["runs", "info", "3fa9"]);
    assert_ct!(home, ["store", "check"]);
    assert_ct!(home, ["store", "gc", "--format", "json"]);
    assert!(!home.path("../share").exists());
    for command in [
        &["runs", "list"][..],
        &["runs", "info", "3fa9"],
        &["runs", "show", "3fa9"],
        &["runs", "sample", "3fa9", "1"],
        &["runs", "download-trajs", "3fa9"],
        &["runs", "download-trajs", "-n", "1"],
        &["runs", "download-eval", "3fa9"],
        &["runs", "edit", "3fa9", "--name", "x"],
        &["runs", "delete", "3fa9"],
        &["runs", "restore", "3fa9"],
        &["store", "check"],
        &["store", "gc"],
    ] {
        let mistyped = [command, &["--data-dir", "mistyped"]].concat();
        let said = home.ct(&mistyped);
        assert!(said.starts_with("exit code: 4\n"), "{command:?} {said}");
        assert!(said.contains("is it the right one?"), "{command:?} {said}");
        assert!(!home.path("mistyped").exists(), "{command:?}");
    }
    assert_ct!(home, ["runs", "list", "--data-dir", "mistyped"]);
    home.file(".env", "CONTROL_TOWER_DATA_DIR=elsewhere");
    assert_ct!(home, ["runs", "list"]);
    assert!(!home.path("elsewhere").exists());
}

#[test]
fn logs_without_their_database_are_told() {
    let home = Home::with_runs();
    for name in ["ct.sqlite", "ct.sqlite-wal", "ct.sqlite-shm"] {
        drop(std::fs::remove_file(home.path("../share/control-tower").join(name)));
    }
    assert_ct!(home, ["runs", "list"]);
    assert!(!home.path("../share/control-tower/ct.sqlite").exists());
    home.stdout(&["runs", "make", "../share/control-tower/logs"]);
    assert_eq!(home.json(&["runs", "list", "--format", "json"])["total_count"], 2);
}

/// What is wrong is said, with what to do, and doing it helps.
#[test]
fn a_damaged_database_is_told_and_made_again() {
    for damage in ["all", "inside"] {
        let home = Home::with_runs();
        let path = home.path("../share/control-tower/ct.sqlite");
        let mut bytes = std::fs::read(&path).unwrap();
        let from = if damage == "all" { 0 } else { 4096 };
        bytes[from..].fill(0xa5);
        std::fs::write(&path, bytes).unwrap();
        for command in [&["store", "check"][..], &["store", "check", "--repair"], &["runs", "list"]] {
            let said = home.ct(command);
            assert!(said.starts_with("exit code: 1\n") && said.contains("is damaged"), "{said}");
            assert!(said.contains("hint: the logs are kept apart from the database"), "{said}");
        }
        for name in ["ct.sqlite", "ct.sqlite-wal", "ct.sqlite-shm"] {
            drop(std::fs::rename(home.path("../share/control-tower").join(name), home.path(name)));
        }
        home.stdout(&["runs", "make", "../share/control-tower/logs"]);
        assert_eq!(home.json(&["store", "check", "--format", "json"])["runs"], 2);
    }
}
