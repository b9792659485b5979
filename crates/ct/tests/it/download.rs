use crate::support::{Home, assert_ct};

#[test]
fn trajectories_are_written_skipped_and_repaired() {
    let home = Home::with_runs();
    let run = home.run_id("attack");
    assert_ct!(home, ["runs", "download-trajs", &run]);
    assert_ct!(home, ["runs", "download-trajs", &run]);
    let folder = home.path(&run);
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap() != "run.json")
        .collect();
    files.sort();
    assert_eq!(files.len(), 6);
    std::fs::remove_file(&files[0]).unwrap();
    let whole = std::fs::read(&files[1]).unwrap();
    std::fs::write(&files[1], &whole[..whole.len() / 2]).unwrap();
    assert_ct!(home, ["runs", "download-trajs", &run, "--format", "json"]);
    assert_eq!(std::fs::read(&files[1]).unwrap(), whole);
    let parsed: serde_json::Value = serde_json::from_slice(&whole).unwrap();
    assert_eq!(parsed["metadata"]["run_id"], run.as_str());
    assert!(parsed["sample"]["messages"].is_array());
}

#[test]
fn an_address_of_a_run_is_taken() {
    let home = Home::with_runs();
    let run = home.run_id("attack");
    let address = format!("https://basharena-data.vercel.app/runs/{run}");
    assert_ct!(home, ["--local", "runs", "download-trajs", &address, "-o", "out"]);
    assert_ct!(home, ["--local", "runs", "download-trajs", "https://viewer.example/runs/abc"]);
}

#[test]
fn filters_find_trajectories_of_all_runs() {
    let home = Home::with_runs();
    assert_ct!(home, ["runs", "download-trajs", "-e", "slack_clone", "-t", "add_reactions", "-o", "found"]);
    assert_ct!(home, ["runs", "download-trajs", "--tag", "honest", "-n", "2"]);
    assert_ct!(home, ["runs", "download-trajs", "-s", "no_such_task"]);
    assert_ct!(home, ["runs", "download-trajs"]);
}

#[test]
fn a_log_comes_back_byte_for_byte() {
    let home = Home::with_runs();
    let run = home.run_id("attack");
    assert_ct!(home, ["runs", "download-eval", &run]);
    assert_ct!(home, ["runs", "download-eval", &run]);
    let name = format!("{run}.eval");
    assert_eq!(std::fs::read(home.path(&name)).unwrap(), std::fs::read(home.path("ct-11.eval")).unwrap());
    home.file("other.eval", "something else");
    assert_ct!(home, ["runs", "download-eval", &run, "-o", "other.eval"]);
    assert_eq!(std::fs::read_to_string(home.path("other.eval")).unwrap(), "something else");
    assert_ct!(home, ["runs", "download-eval", &run, "-o", "other.eval", "--overwrite"]);
    assert_eq!(
        std::fs::read(home.path("other.eval")).unwrap(),
        std::fs::read(home.path("ct-11.eval")).unwrap()
    );
    assert_ct!(home, ["runs", "download-eval", &run, "-o", "other.eval", "--format", "json"]);
    let output = home.command(&["runs", "download-eval", &run, "-o", "-"]).output().unwrap();
    assert_eq!(output.stdout, std::fs::read(home.path("ct-11.eval")).unwrap());
}

#[test]
fn the_address_of_a_log_is_taken() {
    let home = Home::with_runs();
    let run = home.run_id("attack");
    let info = home.json(&["runs", "info", &run, "--format", "json"]);
    let address = info["eval_log_url"].as_str().unwrap();
    assert!(address.starts_with("file://"), "{address}");
    home.stdout(&["runs", "download-eval", address, "-o", "x.eval"]);
    assert_eq!(std::fs::read(home.path("x.eval")).unwrap(), std::fs::read(home.path("ct-11.eval")).unwrap());
    assert_ct!(home, ["runs", "download-eval", "s3://bucket/abc.eval"]);
}

#[test]
fn a_damaged_log_is_not_handed_out() {
    let home = Home::with_runs();
    let run = home.run_id("attack");
    let info = home.json(&["runs", "info", &run, "--format", "json"]);
    let path = info["log"]["path"].as_str().unwrap();
    let mut bytes = std::fs::read(path).unwrap();
    bytes[1000] ^= 1;
    std::fs::remove_file(path).unwrap();
    std::fs::write(path, bytes).unwrap();
    assert_ct!(home, ["runs", "download-eval", &run, "-o", "x.eval"]);
    assert!(!home.path("x.eval").exists());
}
