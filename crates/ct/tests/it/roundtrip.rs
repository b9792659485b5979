//! Every shared log that makes a run: through a folder and back, and through the store and back.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use ct_log::Log;
use ct_log::json::parse;
use ct_store::Store;
use serde_json::{Value, json};

use crate::logs::{Files, files, samples_of};
use crate::support::{Home, shared_logs};

/// Works on some of the logs, so that the tests share the machine's cores.
fn each_log(part: usize, work: impl Fn(&Home, &Path, &str)) {
    let logs = shared_logs();
    assert!(logs.len() > 40, "where are the logs?");
    for path in logs.iter().skip(part).step_by(PARTS) {
        let home = Home::new();
        let name = path.file_name().unwrap().to_str().unwrap();
        std::fs::copy(path, home.path(name)).unwrap();
        work(&home, &home.path(name), name);
    }
}

const PARTS: usize = 2;

/// Where two values differ: paths of members, with `+` before what only the second has.
fn differences(old: &Value, new: &Value, path: &str, found: &mut Vec<String>) {
    let (Some(old_object), Some(new_object)) = (old.as_object(), new.as_object()) else {
        if old != new {
            found.push(path.to_owned());
        }
        return;
    };
    for (key, value) in old_object {
        match new_object.get(key) {
            Some(other) => differences(value, other, &format!("{path}/{key}"), found),
            None => found.push(format!("-{path}/{key}")),
        }
    }
    found.extend(
        new_object.keys().filter(|key| !old_object.contains_key(*key)).map(|key| format!("+{path}/{key}")),
    );
}

/// The documents of the only run, without what names the run and says where its samples lie.
fn documents(home: &Home, data_dir: &Path) -> Vec<Value> {
    let store = Store::open(data_dir).unwrap();
    let run = home.json(&["--data-dir", data_dir.to_str().unwrap(), "runs", "list", "--format", "json"]);
    let run = run["items"][0]["run_id"].as_str().unwrap().parse().unwrap();
    let mut found = Vec::new();
    store
        .documents(&run, &mut |mut document| {
            document.run_id = None;
            document.eval_sample_range = None;
            found.push(serde_json::to_value(&document).unwrap());
            ControlFlow::Continue(())
        })
        .unwrap();
    found
}

fn without_header(mut files: Files) -> Files {
    files.remove("run.json").unwrap();
    files
}

/// `run.json`, and what of it may be another's: a run in the store has a time and an address.
fn run_file(files: &Files) -> Value {
    let mut run = parse(&files["run.json"]).unwrap();
    for key in ["created_at", "eval_log_url"] {
        assert!(run.as_object_mut().unwrap().remove(key).is_some(), "{key}");
    }
    run
}

fn through_a_folder(part: usize) {
    each_log(part, |home, path, name| {
        home.stdout(&["runs", "make", name, "--save-dir", "folder"]);
        home.stdout(&["runs", "make", "folder", "--save-path", "again.eval"]);
        let (old, new) = (Log::open(path).unwrap(), Log::open(&home.path("again.eval")).unwrap());
        // What Inspect could not read otherwise is changed on the way, and a log that does not list its samples does so.
        let converted = name.contains("v0x3x17") || name.contains("pools_v3");
        let mut changes = Vec::new();
        differences(&old.header().unwrap().value, &new.header().unwrap().value, "", &mut changes);
        changes
            .retain(|change| change != "+/eval/dataset/sample_ids" && !(converted && change == "/version"));
        assert!(changes.is_empty(), "{name}: {changes:?}");
        let reductions = |log: &Log| log.reductions().unwrap().map(|raw| parse(&raw).unwrap());
        assert_eq!(reductions(&new), reductions(&old), "{name}");
        assert_eq!(new.defects(), [], "{name}");
        let (before, after) = (samples_of(path), samples_of(&home.path("again.eval")));
        assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>(), "{name}");
        assert!(converted || before == after, "{name}");
        // The run of the folder is that of the log, but for its id and where its samples lie.
        home.stdout(&["runs", "make", "folder", "--data-dir", "of-folder"]);
        home.stdout(&["runs", "make", name, "--data-dir", "of-log"]);
        let of_log = documents(home, &home.path("of-log"));
        assert_eq!(of_log.len(), samples_of(path).len(), "{name}");
        assert_eq!(documents(home, &home.path("of-folder")), of_log, "{name}");
    });
}

#[test]
fn through_a_folder_and_back_1() {
    through_a_folder(0);
}

#[test]
fn through_a_folder_and_back_2() {
    through_a_folder(1);
}

fn through_the_store(part: usize) {
    each_log(part, |home, path, name| {
        home.stdout(&["runs", "make", name, "--save-dir", "folder", "--upload"]);
        let list = home.json(&["runs", "list", "--format", "json"]);
        assert_eq!(list["total_count"], 1, "{name}");
        let run = list["items"][0]["run_id"].as_str().unwrap();
        home.stdout(&["runs", "download-eval", run, "-o", "out.eval"]);
        assert!(std::fs::read(home.path("out.eval")).unwrap() == std::fs::read(path).unwrap(), "{name}");
        let printed = home.json(&["runs", "download-trajs", run, "-o", "out", "--format", "json"]);
        assert_eq!(printed["failed"], json!([]), "{name}");
        let (out, folder) = (files(&home.path("out")), files(&home.path("folder")));
        assert_eq!(run_file(&out), run_file(&folder), "{name}");
        assert!(without_header(out) == without_header(folder), "{name}");
        assert_eq!(printed["written"], samples_of(path).len(), "{name}");
        // All is right already, whichever of the two wrote it.
        for arguments in [
            &["runs", "download-trajs", run, "-o", "folder", "--format", "json"][..],
            &["runs", "download-trajs", run, "-o", "out", "--format", "json"],
        ] {
            assert_eq!(home.json(arguments)["right"], samples_of(path).len(), "{name}");
        }
        let check = home.json(&["store", "check", "--format", "json"]);
        assert_eq!((&check["sound"], &check["findings"]), (&json!(true), &json!([])), "{name}: {check}");
    });
}

#[test]
fn through_the_store_and_back_1() {
    through_the_store(0);
}

#[test]
fn through_the_store_and_back_2() {
    through_the_store(1);
}

/// The logs of the other crates' tests.
#[test]
fn both_forms_of_logs_are_among_them() {
    let ending = |wanted: &str| {
        let of = |path: &&PathBuf| path.extension().is_some_and(|e| e == wanted);
        shared_logs().iter().filter(of).count()
    };
    assert!(ending("eval") > 30 && ending("json") > 3);
}

/// Asks Inspect what it reads of a log: header, samples one by one, the whole.
const READ: &str = "
import json, sys
from inspect_ai.log import read_eval_log, read_eval_log_samples
path = sys.argv[1]
header, whole = read_eval_log(path, header_only=True), read_eval_log(path)
print(json.dumps({'results': header.results.model_dump(exclude_none=True),
    'usage': {m: u.model_dump(exclude_none=True) for m, u in header.stats.model_usage.items()},
    'ids': header.eval.dataset.sample_ids, 'samples': header.eval.dataset.samples,
    'streamed': [s.id for s in read_eval_log_samples(path)], 'whole': [s.id for s in whole.samples],
    'sample_usage': [u.input_tokens for s in whole.samples for u in s.model_usage.values()],
    'reductions': whole.reductions}))
";

#[test]
fn a_log_of_a_part_says_nothing_of_the_whole() {
    let home = Home::new();
    home.log("control-tower/ct-11.eval", "a.eval");
    home.stdout(&["runs", "make", "a.eval"]);
    let run = home.run_id("");
    home.stdout(&["runs", "sample", &run, "2", "_", "--seed", "4", "--save-dir", "split"]);
    let mut completed = 0;
    for (part, samples) in [("part-1", 2), ("rest", 4)] {
        let target = format!("{part}.eval");
        home.stdout(&["runs", "make", &format!("split/{part}"), "--save-path", &target]);
        let log = Log::open(&home.path(&target)).unwrap();
        let header = &log.header().unwrap().value;
        assert_eq!(header["results"]["total_samples"], samples);
        completed += header["results"]["completed_samples"].as_u64().unwrap();
        for score in header["results"]["scores"].as_array().unwrap() {
            assert_eq!(score["metrics"], json!({}), "{score}");
        }
        assert!(log.reductions().unwrap().is_none());
        let mut usage = 0;
        for sample in log.samples().unwrap() {
            let mut text = Vec::new();
            std::io::Read::read_to_end(&mut log.read_sample(sample).unwrap(), &mut text).unwrap();
            let models = parse(&text).unwrap()["model_usage"].as_object().cloned().unwrap_or_default();
            usage += models.values().map(|usage| usage["input_tokens"].as_u64().unwrap()).sum::<u64>();
        }
        let models = header["stats"]["model_usage"].as_object().unwrap();
        assert!(usage > 0);
        assert_eq!(models.values().map(|usage| usage["input_tokens"].as_u64().unwrap()).sum::<u64>(), usage);
        if let Some(python) = std::env::var_os("CT_TEST_PYTHON") {
            let output =
                std::process::Command::new(python).args(["-c", READ]).arg(home.path(&target)).output();
            let output = output.unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let read: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(read["results"]["total_samples"], samples);
            assert_eq!((&read["ids"], &read["samples"]), (&read["whole"], &json!(samples)));
            assert_eq!(read["streamed"], read["whole"]);
            assert_eq!(read["reductions"], Value::Null);
            let read_usage = read["usage"].as_object().unwrap().values();
            assert_eq!(read_usage.map(|usage| usage["input_tokens"].as_u64().unwrap()).sum::<u64>(), usage);
            let of_samples = read["sample_usage"].as_array().unwrap().iter();
            assert_eq!(of_samples.map(|tokens| tokens.as_u64().unwrap()).sum::<u64>(), usage);
        }
    }
    let header = Log::open(&home.path("a.eval")).unwrap().header().unwrap().value.clone();
    assert_eq!(completed, header["results"]["completed_samples"].as_u64().unwrap());
}
