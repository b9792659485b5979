use crate::logs::files_below;
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

#[test]
fn a_draw_over_another_leaves_nothing_of_it() {
    let home = Home::with_runs();
    let run = home.run_id("attack");
    home.stdout(&["runs", "sample", &run, "1", "1", "_", "--seed", "5", "--save-dir", "split"]);
    home.file("split/rest/notes.txt", "mine");
    home.file("split/part-9/notes.txt", "mine");
    // Half a draw has no manifest, and is one all the same.
    let manifest = std::fs::read(home.path("split/manifest.json")).unwrap();
    std::fs::remove_file(home.path("split/manifest.json")).unwrap();
    let again = ["runs", "sample", &run, "2", "--seed", "5", "--save-dir", "split", "--format", "csv"];
    assert!(home.ct(&again).starts_with("exit code: 5\n"));
    std::fs::write(home.path("split/manifest.json"), manifest).unwrap();
    assert!(home.ct(&again).starts_with("exit code: 5\n"));
    assert_eq!(files_below(&home.path("split/part-2")).len(), 2);
    let said = home.ct(&[&again[..], &["--overwrite"]].concat());
    assert!(said.starts_with("exit code: 0\n"), "{said}");
    assert!(said.contains("split/rest holds other files too, and stays"), "{said}");
    let found: Vec<_> =
        files_below(&home.path("split")).into_iter().filter(|n| !n.starts_with("part-1/")).collect();
    assert_eq!(found, ["manifest.json", "part-9/notes.txt", "rest/notes.txt"]);
    assert!(!home.path("split/part-2").exists());
    assert_eq!(files_below(&home.path("split/part-1")).len(), 3);
}
