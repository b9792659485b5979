use crate::support::{Home, assert_ct};

#[test]
fn parts_with_a_seed() {
    let home = Home::with_runs();
    let run = home.run_id("attack");
    assert_ct!(home, ["runs", "sample", &run, "2", "1", "_", "--stratified", "--seed", "1"]);
    assert_ct!(
        home,
        ["runs", "sample", &run, "2", "1", "_", "--stratified", "--seed", "1", "--format", "json"]
    );
    assert_ct!(home, ["runs", "sample", &run, "50%", "--seed", "1", "--format", "csv"]);
    assert_ct!(home, ["runs", "sample", &run, "1", "--keep-rest", "--seed", "1", "--format", "ndjson"]);
}

#[test]
fn without_a_seed_one_is_drawn_and_printed() {
    let home = Home::with_runs();
    let run = home.run_id("attack");
    let output = home.command(&["runs", "sample", &run, "3", "--format", "csv"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let seed = said.trim().strip_prefix("seed: ").unwrap();
    let again = home.stdout(&["runs", "sample", &run, "3", "--format", "csv", "--seed", seed]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), again);
}

#[test]
fn too_much_names_the_numbers() {
    let home = Home::with_runs();
    let run = home.run_id("attack");
    assert_ct!(home, ["runs", "sample", &run, "5", "2", "--seed", "1"]);
    assert_ct!(home, ["runs", "sample", &run, "_", "2"]);
    assert_ct!(home, ["runs", "sample", &run, "0"]);
    assert_ct!(home, ["runs", "sample", &run, "1", "--stratify-by", "colour"]);
    assert_ct!(home, ["runs", "sample", &run, "1", "--filter", "cost >"]);
}

#[test]
fn filters_and_groups() {
    let home = Home::with_runs();
    let run = home.run_id("attack");
    assert_ct!(
        home,
        [
            "runs",
            "sample",
            &run,
            "100%",
            "--filter",
            "main_outcome=pass",
            "--filter",
            "environment!=clinical_trial",
            "--group-by",
            "main_task",
            "--seed",
            "3"
        ]
    );
}

#[test]
fn parts_are_written_as_run_folders() {
    let home = Home::with_runs();
    let run = home.run_id("attack");
    let arguments =
        ["runs", "sample", &run, "2", "_", "--seed", "5", "--save-dir", "split", "--format", "json"];
    let drawn = home.json(&arguments);
    let manifest: serde_json::Value =
        serde_json::from_slice(&std::fs::read(home.path("split/manifest.json")).unwrap()).unwrap();
    assert_eq!(manifest, drawn["manifest"]);
    for part in drawn["parts"].as_array().unwrap() {
        let folder = home.path("split").join(part["name"].as_str().unwrap());
        assert!(folder.join("run.json").is_file());
        for id in part["trajectory_ids"].as_array().unwrap() {
            assert!(folder.join(format!("{}.json", id.as_str().unwrap())).is_file(), "{id}");
        }
    }
    // The same draw again changes nothing, another one is refused.
    assert_eq!(home.json(&arguments), drawn);
    assert_ct!(
        home,
        ["runs", "sample", &run, "2", "_", "--seed", "6", "--save-dir", "split", "--format", "csv"]
    );
}
