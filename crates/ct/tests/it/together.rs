//! Several processes at once.

use std::process::{Child, Output, Stdio};

use serde_json::{Value, json};

use crate::logs::{assert_holds_log, big_log, collect, files, sound_runs};
use crate::support::Home;

const PROCESSES: usize = 6;
const SAMPLES: usize = 12;
const SAMPLE_BYTES: usize = 60_000;

fn start(home: &Home, arguments: &[&str]) -> Child {
    home.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn wait(processes: impl IntoIterator<Item = Child>) -> Vec<Output> {
    processes.into_iter().map(|process| process.wait_with_output().unwrap()).collect()
}

/// They all ended well; what they printed.
fn all_well(outputs: &[Output]) -> Vec<Value> {
    outputs
        .iter()
        .map(|output| {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            serde_json::from_slice(&output.stdout).unwrap()
        })
        .collect()
}

fn made(printed: &[Value], status: &str) -> usize {
    printed.iter().filter(|made| made["items"][0]["status"] == status).count()
}

#[test]
fn one_log_becomes_one_run() {
    let home = Home::new();
    big_log(&home.path("a.eval"), 1, SAMPLES, SAMPLE_BYTES);
    let processes: Vec<_> =
        (0..PROCESSES).map(|_| start(&home, &["runs", "make", "a.eval", "--format", "json"])).collect();
    let printed = all_well(&wait(processes));
    assert_eq!((made(&printed, "created"), made(&printed, "unchanged")), (1, PROCESSES - 1));
    let runs = sound_runs(&home);
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0].1, SAMPLES);
    for made in &printed {
        assert_eq!(made["items"][0]["run_id"], runs[0].0.as_str());
        assert_eq!(made["items"][0]["trajectories"], SAMPLES);
    }
    collect(&home, 1);
}

#[test]
fn each_log_becomes_a_run() {
    let home = Home::new();
    let names: Vec<_> = (0..PROCESSES).map(|n| format!("{n}.eval")).collect();
    for (seed, name) in (10..).zip(&names) {
        big_log(&home.path(name), seed, SAMPLES, SAMPLE_BYTES);
    }
    let processes: Vec<_> =
        names.iter().map(|name| start(&home, &["runs", "make", name, "--format", "json"])).collect();
    // What collects beside them takes nothing away, and may be told to come back later.
    let collectors: Vec<_> = (0..3).map(|_| start(&home, &["store", "gc", "--format", "json"])).collect();
    let checkers: Vec<_> = (0..2).map(|_| start(&home, &["store", "check", "--format", "json"])).collect();
    let printed = all_well(&wait(processes));
    assert_eq!(made(&printed, "created"), PROCESSES);
    for output in wait(collectors) {
        if !output.status.success() {
            let error: Value = serde_json::from_slice(&output.stderr).unwrap();
            assert_eq!((output.status.code(), &error["error"]["kind"]), (Some(1), &json!("busy")));
        }
    }
    for checked in all_well(&wait(checkers)) {
        assert_eq!(checked["sound"], true, "{checked}");
    }
    assert_eq!(sound_runs(&home).len(), PROCESSES);
    for (name, made) in names.iter().zip(&printed) {
        let (run, folder) = (made["items"][0]["run_id"].as_str().unwrap(), format!("{name}-files"));
        home.stdout(&["runs", "download-trajs", run, "-o", &folder]);
        assert_holds_log(&files(&home.path(&folder)), &home.path(name));
    }
    collect(&home, PROCESSES);
}

#[test]
fn of_one_eval_with_other_bytes_one_is_made() {
    let home = Home::new();
    let names: Vec<_> = (0..PROCESSES).map(|n| format!("{n}.eval")).collect();
    for (samples, name) in (SAMPLES..).zip(&names) {
        big_log(&home.path(name), 20, samples, SAMPLE_BYTES);
    }
    let outputs = wait(names.iter().map(|name| start(&home, &["runs", "make", name])).collect::<Vec<_>>());
    let mut codes: Vec<_> = outputs.iter().map(|output| output.status.code()).collect();
    codes.sort();
    assert_eq!(codes, [&[Some(0)][..], &[Some(5); PROCESSES - 1]].concat());
    assert_eq!(sound_runs(&home).len(), 1);
    collect(&home, 1);

    let outputs = wait(
        names
            .iter()
            .map(|name| start(&home, &["runs", "make", name, "--as-new", "--format", "json"]))
            .collect::<Vec<_>>(),
    );
    let printed = all_well(&outputs);
    assert_eq!((made(&printed, "created"), made(&printed, "unchanged")), (PROCESSES - 1, 1));
    assert_eq!(sound_runs(&home).len(), PROCESSES);
    collect(&home, PROCESSES);
}

#[test]
fn one_folder_is_written_by_all() {
    let home = Home::new();
    big_log(&home.path("a.eval"), 30, SAMPLES, SAMPLE_BYTES);
    home.stdout(&["runs", "make", "a.eval"]);
    let run = sound_runs(&home).remove(0).0;
    home.stdout(&["runs", "download-trajs", &run, "-o", "whole"]);
    let whole = files(&home.path("whole"));
    assert_holds_log(&whole, &home.path("a.eval"));
    // Some of it is there, and wrong.
    for (name, bytes) in whole.iter().take(4) {
        home.file(&format!("out/{name}"), &bytes[..bytes.len() / 2]);
    }
    let download = ["runs", "download-trajs", &run, "-o", "out", "--format", "json"];
    let printed = all_well(&wait((0..PROCESSES).map(|_| start(&home, &download)).collect::<Vec<_>>()));
    for done in &printed {
        let count = |key: &str| done[key].as_u64().unwrap();
        assert_eq!(count("written") + count("right") + count("repaired"), SAMPLES as u64, "{done}");
    }
    assert!(files(&home.path("out")) == whole);
}

#[test]
fn one_file_is_written_by_all() {
    let home = Home::new();
    big_log(&home.path("a.eval"), 40, SAMPLES, SAMPLE_BYTES);
    home.stdout(&["runs", "make", "a.eval"]);
    let run = sound_runs(&home).remove(0).0;
    let download = ["runs", "download-eval", &run, "-o", "out/b.eval", "--format", "json"];
    all_well(&wait((0..PROCESSES).map(|_| start(&home, &download)).collect::<Vec<_>>()));
    assert_eq!(files(&home.path("out")).into_keys().collect::<Vec<_>>(), ["b.eval"]);
    assert!(std::fs::read(home.path("out/b.eval")).unwrap() == std::fs::read(home.path("a.eval")).unwrap());

    home.stdout(&["runs", "make", "a.eval", "--save-path", "whole.json"]);
    let save = ["runs", "make", "a.eval", "--save-path", "out/c.json", "--overwrite", "--format", "json"];
    all_well(&wait((0..PROCESSES).map(|_| start(&home, &save)).collect::<Vec<_>>()));
    assert_eq!(files(&home.path("out")).into_keys().collect::<Vec<_>>(), ["b.eval", "c.json"]);
    let read = |name: &str| std::fs::read(home.path(name)).unwrap();
    assert!(read("out/c.json") == read("whole.json"));
}
