//! Which run a log is: the same bytes, other bytes of the same eval, and ids that a log made up.

use serde_json::{Value, json};

use crate::logs::{
    Numbers, assert_holds_log, collect, files, files_below, sample, sound_runs, state, write_log,
};
use crate::support::Home;

/// A home with `a.eval`, made a run, and `b.eval`, the same eval without some scores; the run's id.
fn home_with_two_logs() -> (Home, String) {
    let home = Home::new();
    home.log("control-tower/ct-11.eval", "a.eval");
    home.stdout(&["runs", "make", "a.eval", "--save-path", "b.eval", "--drop-score", "monitor*"]);
    home.stdout(&["runs", "make", "a.eval"]);
    let run = sound_runs(&home).remove(0).0;
    (home, run)
}

fn hash(home: &Home, log: &str) -> String {
    use sha2::Digest as _;
    let hash = sha2::Sha256::digest(std::fs::read(home.path(log)).unwrap());
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn make(home: &Home, arguments: &[&str]) -> Value {
    let mut words = vec!["runs", "make", "--format", "json"];
    words.extend(arguments);
    home.json(&words)["items"][0].clone()
}

/// Exit code and error.
fn fails(home: &Home, arguments: &[&str]) -> (Option<i32>, Value) {
    let mut words = vec!["runs", "make", "--format", "json"];
    words.extend(arguments);
    let output = home.command(&words).output().unwrap();
    (output.status.code(), serde_json::from_slice::<Value>(&output.stderr).unwrap()["error"].clone())
}

#[test]
fn the_same_bytes_are_the_same_run_under_any_name() {
    let (home, run) = home_with_two_logs();
    assert_eq!(run, hash(&home, "a.eval")[..32]);
    home.log("control-tower/ct-11.eval", "elsewhere/other name.eval");
    let before = home.json(&["runs", "info", &run, "--format", "json"]);
    for options in [&[][..], &["--replace"], &["--as-new"]] {
        let made = make(&home, &[&["elsewhere/other name.eval"], options].concat());
        assert_eq!((&made["status"], &made["run_id"]), (&json!("unchanged"), &json!(run)), "{options:?}");
        assert_eq!(home.json(&["runs", "info", &run, "--format", "json"]), before, "{options:?}");
    }
    // What is said about a run that is there is said about it.
    let made = make(&home, &["elsewhere/other name.eval", "--run-name", "other", "--tag", "t"]);
    assert_eq!((&made["status"], &made["run_id"]), (&json!("edited"), &json!(run)));
    let after = home.json(&["runs", "info", &run, "--format", "json"]);
    assert_eq!((&after["name"], &after["tags"]), (&json!("other"), &json!(["synthetic", "attack", "t"])));
    assert_eq!(sound_runs(&home).len(), 1);
    collect(&home, 1);
}

#[test]
fn other_bytes_change_nothing_unasked() {
    let (home, run) = home_with_two_logs();
    let before = home.json(&["runs", "info", &run, "--format", "json"]);
    let (code, error) = fails(&home, &["b.eval"]);
    assert_eq!((code, &error["kind"]), (Some(5), &json!("conflict")));
    let hints = error["hints"].to_string();
    assert!(hints.contains("--replace") && hints.contains("--as-new"), "{hints}");
    assert_eq!(home.json(&["runs", "info", &run, "--format", "json"]), before);
    assert_eq!(sound_runs(&home).len(), 1);
    collect(&home, 1);
}

#[test]
fn a_replaced_log_keeps_id_edits_and_the_old_log() {
    let (home, run) = home_with_two_logs();
    let edit = ["--name", "mine", "--tag", "x", "--untag", "attack", "--description", "why"];
    home.stdout(&[&["runs", "edit", &run], &edit[..]].concat());
    let before = state(&home, &run);
    let scores = |run: &str| {
        home.stdout(&["runs", "download-trajs", run, "-o", "out"]);
        let all = files(&home.path("out"));
        all.values().filter(|file| String::from_utf8_lossy(file).contains("\"monitor")).count()
    };
    let scores_before = scores(&run);

    let made = make(&home, &["b.eval", "--replace"]);
    assert_eq!((&made["status"], &made["run_id"]), (&json!("replaced"), &json!(run)));
    let info = home.json(&["runs", "info", &run, "--format", "json"]);
    assert_eq!(
        (&info["name"], &info["description"], &info["tags"]),
        (&json!("mine"), &json!("why"), &json!(["synthetic", "x"]))
    );
    let after = state(&home, &run);
    assert_eq!(after["log"], hash(&home, "b.eval"));
    assert_eq!(after["ids"], before["ids"]);
    assert_eq!(after["revisions"].as_array().unwrap().len(), 1);
    let old = &after["revisions"][0]["log"];
    assert_eq!(old["hash"], before["log"]);
    assert_eq!(
        std::fs::read(old["path"].as_str().unwrap()).unwrap(),
        std::fs::read(home.path("a.eval")).unwrap()
    );
    // The files of the folder are those of the new log now.
    assert!(scores(&run) < scores_before, "{scores_before}");
    assert_holds_log(&files(&home.path("out")), &home.path("b.eval"));
    home.stdout(&["runs", "download-eval", &run, "-o", "c.eval"]);
    assert_eq!(hash(&home, "c.eval"), hash(&home, "b.eval"));
    collect(&home, 2);

    // The old bytes are known, and come back only when asked for.
    let again = make(&home, &["a.eval"]);
    assert_eq!((&again["status"], &again["run_id"]), (&json!("unchanged"), &json!(run)));
    assert_eq!(again["defects"].as_array().unwrap().len(), 1, "{again}");
    assert_eq!(state(&home, &run), after);
    assert_eq!(make(&home, &["a.eval", "--replace"])["status"], "replaced");
    let back = state(&home, &run);
    assert_eq!((&back["log"], &back["ids"]), (&before["log"], &before["ids"]));
    assert_eq!(home.json(&["runs", "info", &run, "--format", "json"])["name"], "mine");
    assert_eq!(sound_runs(&home).len(), 1);
    collect(&home, 2);
}

#[test]
fn a_second_run_of_an_eval_shares_no_id() {
    let (home, run) = home_with_two_logs();
    let made = make(&home, &["b.eval", "--as-new"]);
    assert_eq!(made["status"], "created");
    let second = made["run_id"].as_str().unwrap();
    assert_eq!(second, &hash(&home, "b.eval")[..32]);
    assert_eq!(sound_runs(&home).len(), 2);
    let first = home.trajectory_ids(&run);
    assert!(home.trajectory_ids(second).iter().all(|id| !first.contains(id)));
    for (run, log) in [(run.as_str(), "a.eval"), (second, "b.eval")] {
        home.stdout(&["runs", "download-trajs", run, "-o", run]);
        assert_holds_log(&files(&home.path(run)), &home.path(log));
    }
    // Which of the two a third one is to replace cannot be told.
    home.stdout(&["runs", "make", "a.eval", "--save-path", "c.eval", "--drop-score", "audit*"]);
    assert_eq!(fails(&home, &["c.eval", "--replace"]).0, Some(5));
    assert_eq!(sound_runs(&home).len(), 2);
    collect(&home, 2);
}

#[test]
fn a_deleted_run_comes_back_with_its_log() {
    let (home, run) = home_with_two_logs();
    home.stdout(&["runs", "edit", &run, "--name", "mine"]);
    let before = state(&home, &run);
    home.stdout(&["runs", "delete", &run]);
    assert_eq!(listed(&home), 0);
    let made = make(&home, &["a.eval"]);
    assert_eq!(
        (&made["status"], &made["run_id"], &made["name"]),
        (&json!("restored"), &json!(run), &json!("mine"))
    );
    assert_eq!(state(&home, &run), before);
    assert_eq!(sound_runs(&home).len(), 1);
}

fn listed(home: &Home) -> usize {
    home.json(&["runs", "list", "--format", "json"])["items"].as_array().unwrap().len()
}

#[test]
fn a_deleted_run_is_in_the_way_of_none() {
    let (home, run) = home_with_two_logs();
    home.stdout(&["runs", "delete", &run]);
    for options in [&[][..], &["--replace"]] {
        let (code, error) = fails(&home, &[&["b.eval"], options].concat());
        assert_eq!(code, Some(5), "{error}");
        let hints = error["hints"].to_string();
        assert!(hints.contains(&format!("ct runs restore {run}")) && hints.contains("--as-new"), "{hints}");
        assert_eq!(listed(&home), 0);
    }
    let made = make(&home, &["b.eval", "--as-new"]);
    assert_eq!(made["status"], "created");
    home.stdout(&["runs", "restore", &run]);
    assert_eq!(sound_runs(&home).len(), 2);
    collect(&home, 2);
}

#[test]
fn ids_that_logs_make_up_are_no_paths() {
    let home = Home::new();
    let long = "a".repeat(300);
    let hostile = [
        "../../evil",
        "..",
        ".",
        "/tmp/ct-evil",
        "a/b",
        "a\\b",
        ".hidden",
        "-rf",
        "x\0y",
        "run",
        "RUN",
        "é",
        "C:x",
        "\u{1b}[2J",
        "new\nline",
        "",
        "run.json/",
        &long,
    ];
    let mut numbers = Numbers::new(1);
    let mut samples = Vec::new();
    for (n, id) in hostile.iter().chain(&["good-id_1"]).enumerate() {
        // As the sample's own id, too, where it is one by itself.
        let mut one = sample(&format!("{n}{id}"), &mut numbers, 100);
        one["metadata"]["trajectory_id"] = json!(id);
        one["uuid"] = json!(id);
        samples.push(one);
    }
    write_log(&home.path("a.eval"), "../../eval", &samples);
    home.stdout(&["runs", "make", "a.eval", "--save-dir", "saved", "--upload"]);
    let run = sound_runs(&home).remove(0).0;
    home.stdout(&["runs", "download-trajs", &run]);
    home.stdout(&["runs", "sample", &run, "100%", "--seed", "1", "--save-dir", "parts"]);
    home.stdout(&["runs", "make", "saved", "--save-path", "b.eval"]);

    let saved = files(&home.path("saved"));
    assert_eq!(saved.len(), samples.len() + 1);
    assert_holds_log(&saved, &home.path("a.eval"));
    let mut downloaded = files(&home.path(&run));
    downloaded.insert("run.json".to_owned(), saved["run.json"].clone());
    assert!(downloaded == saved);
    let fit = |name: &str| {
        let stem = name.strip_suffix(".json").unwrap();
        stem == "run"
            || stem == "good-id_1"
            || stem.len() == 32 && stem.bytes().all(|b| b.is_ascii_hexdigit())
    };
    assert!(saved.keys().all(|name| fit(name)), "{:?}", saved.keys());
    assert!(saved.contains_key("good-id_1.json"));
    let about: Value = serde_json::from_slice(&saved["run.json"]).unwrap();
    assert_eq!(about["run_id"], run.as_str());
    // Nothing came to lie anywhere else.
    let outside = |file: &String| {
        let known = ["work/saved/", "work/parts/", "share/control-tower/", &format!("work/{run}/")];
        !known.iter().any(|folder| file.starts_with(folder))
            && !["work/a.eval", "work/b.eval"].contains(&&**file)
    };
    let found: Vec<_> = files_below(&home.path("..")).into_iter().filter(outside).collect();
    assert!(found.is_empty(), "{found:?}");
    assert!(!std::path::Path::new("/tmp/ct-evil.json").exists());
    collect(&home, 1);
}

#[test]
fn a_run_that_is_there_is_priced_anew_when_told() {
    let home = Home::new();
    home.log("generated/many.eval", "a.eval");
    let run =
        home.json(&["runs", "make", "a.eval", "--tag", "mine", "--format", "json"])["items"][0]["run_id"]
            .clone();
    let info = || home.json(&["runs", "info", run.as_str().unwrap(), "--format", "json"]);
    let before = info();
    assert_eq!(before["cost_incomplete"], true);
    let model = before["models"][0].as_str().unwrap();
    let rates = |input: u64| {
        format!(
            r#"[{{"model": {model:?}, "pricing": {{"input_per_million": {input}, "output_per_million": 1}}}}]"#
        )
    };
    home.file("rates.json", rates(1));
    let said = home.ct(&["runs", "make", "a.eval", "--prices", "rates.json"]);
    assert!(said.contains("to price it anew give --prices with --replace"), "{said}");
    assert_eq!(info()["total_cost_usd"], before["total_cost_usd"]);
    let mut last = 0.0;
    for input in [1_000_000, 2_000_000] {
        home.file("rates.json", rates(input));
        home.stdout(&["runs", "make", "a.eval", "--prices", "rates.json", "--replace"]);
        let after = info();
        assert!(after["total_cost_usd"].as_f64().unwrap() > last, "{after}");
        last = after["total_cost_usd"].as_f64().unwrap();
        for kept in ["run_id", "name", "tags", "trajectory_count", "revisions", "created_at"] {
            assert_eq!(after[kept], before[kept], "{kept}");
        }
    }
    let whole = home.json(&["store", "check", "--format", "json"]);
    assert_eq!((&whole["sound"], &whole["findings"]), (&Value::Bool(true), &Value::Array(Vec::new())));
}
