//! Processes that are killed, disks that are full.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ct_model::{LogFormat, RunQuery, TrajectoryQuery};
use ct_store::{CommitMode, Committed, FindingKind, GcOptions, Store, StoreError};
use jiff::Timestamp;

use crate::support::{Draft, Home, Logs, add, draft, new_run, push_all};

const FOLDER: &str = "CT_STORE_TEST_FOLDER";
/// Where the logs are, when they are in a bucket.
const LOGS: &str = "CT_STORE_TEST_LOGS";
const TRAJECTORIES: u64 = 40;
/// How often a process is killed, and until when it has to have stored something.
const ROUNDS_MIN: u64 = 12;
const ROUNDS_MAX: u64 = 120;

fn large(number: usize) -> Draft {
    let mut draft = draft(&format!("large-{number}"), usize::try_from(TRAJECTORIES).unwrap());
    draft.bytes = draft.bytes.repeat(40_000);
    draft
}

/// A run that needs some space for its log, more for its documents, and most in the database.
fn wide() -> Draft {
    let mut draft = draft("wide", 600);
    draft.bytes = draft.bytes.repeat(8000);
    draft
}

/// What the killed process runs: it stores runs, one after the other, without end.
#[test]
#[ignore = "the other tests of this file start it in a process of its own"]
fn child_that_stores_runs() {
    let Ok(folder) = env::var(FOLDER) else { return };
    let store = open(&folder).unwrap();
    for number in 0..1000 {
        add(&store, &large(number), CommitMode::New).unwrap();
    }
}

/// What meets the full disk: it stores one run, and says how that ended.
#[test]
#[ignore = "the other tests of this file start it in a process of its own"]
fn child_that_stores_one_run() {
    let Ok(folder) = env::var(FOLDER) else { return };
    let stored = open(&folder).and_then(|store| add(&store, &wide(), CommitMode::New));
    match stored {
        Ok(_) => println!("ended: well"),
        Err(error @ StoreError::Io { .. }) => println!("ended: {error}"),
        Err(error) => panic!("{error:?}"),
    }
}

fn open(folder: &str) -> Result<Store, StoreError> {
    let place = Logs::of_text(&env::var(LOGS).unwrap_or_default());
    Store::open_at(Path::new(folder), Arc::new(Timestamp::now), place)
}

fn child(test: &str, home: &Home) -> Vec<String> {
    let program = env::current_exe().unwrap().display().to_string();
    let arguments = ["--exact", test, "--ignored", "--nocapture"].map(str::to_owned);
    let variables = [format!("{FOLDER}={}", home.path().display()), format!("{LOGS}={}", home.logs.text())];
    let mut words = vec!["env".to_owned()];
    words.extend(variables);
    words.push(program);
    words.extend(arguments);
    words
}

#[test]
fn a_killed_process_leaves_whole_runs_and_leftovers_at_most() {
    let home = Home::new();
    let mut runs = 0;
    for round in 0..ROUNDS_MAX {
        let words = child("crash::child_that_stores_runs", &home);
        let mut process = Command::new(&words[0]).args(&words[1..]).stdout(Stdio::null()).spawn().unwrap();
        // On a slow machine, and where logs go a long way, it needs longer to get anywhere.
        thread::sleep(Duration::from_millis((40 + 37 * (round % 6)) * (1 + round / 12)));
        process.kill().unwrap();
        process.wait().unwrap();

        let page = home.store.runs(&RunQuery::default()).unwrap();
        assert!(page.items.iter().all(|run| run.trajectory_count == TRAJECTORIES));
        assert!(page.total_count >= runs, "what was committed stays");
        runs = page.total_count;
        let found = home.store.trajectories(&TrajectoryQuery::default()).unwrap();
        assert_eq!(found.total_count, runs * TRAJECTORIES);
        let report = home.store.check(false, &mut |_| ()).unwrap();
        let leftover = |kind| matches!(kind, FindingKind::TemporaryFile | FindingKind::LogUnreferenced);
        assert!(report.findings.iter().all(|finding| leftover(finding.kind)), "{:?}", report.findings);
        // The lock went with the process.
        let gc = || home.store.gc(GcOptions { dry_run: false, purge_deleted_before: None }).unwrap();
        let collected = gc();
        if home.logs.text().is_empty() {
            assert_eq!(collected.items.len(), report.findings.len());
        }
        // What was on its way to a bucket arrives there after the kill.
        let until = Instant::now() + Duration::from_secs(60);
        while home.files().len() as u64 != runs {
            assert!(!home.logs.text().is_empty() && Instant::now() < until, "{:?}", home.files());
            gc();
        }
        if round + 1 >= ROUNDS_MIN && runs > 0 {
            break;
        }
    }
    assert!(runs > 0, "the process was killed before it did anything, in every round");
}

#[test]
fn a_process_that_ends_between_two_steps_loses_nothing() {
    let home = Home::new();
    let kept = home.add(&draft("kept", 2));
    let gc = || home.store.gc(GcOptions { dry_run: false, purge_deleted_before: None }).unwrap().items.len();

    // Staged and spooled, not committed: forgetting is what a killed process does.
    let unfinished = draft("unfinished", 2);
    let other = home.open();
    let mut ingest = other.begin_ingest().unwrap();
    ingest.stage_log(&mut unfinished.bytes.as_slice(), LogFormat::Eval, &mut |_| ()).unwrap();
    push_all(&mut ingest, &unfinished).unwrap();
    let files = home.files();
    assert_eq!(files.len(), 3, "{files:?}");
    let copies = tempfile::tempdir().unwrap();
    let staged: Vec<_> = files.iter().filter(|file| file.starts_with("tmp/")).collect();
    for (number, file) in staged.iter().enumerate() {
        std::fs::copy(home.path().join(file), copies.path().join(number.to_string())).unwrap();
    }
    drop(ingest);
    for (number, file) in staged.iter().enumerate() {
        std::fs::create_dir_all(home.path().join(file).parent().unwrap()).unwrap();
        std::fs::copy(copies.path().join(number.to_string()), home.path().join(file)).unwrap();
    }
    assert_eq!((home.files().len(), gc(), home.files().len()), (3, 2, 1));

    // Published, and the transaction did not happen.
    let mut ingest = home.store.begin_ingest().unwrap();
    let log = ingest.stage_log(&mut unfinished.bytes.as_slice(), LogFormat::Eval, &mut |_| ()).unwrap();
    push_all(&mut ingest, &unfinished).unwrap();
    push_all(&mut ingest, &draft("kept", 1)).unwrap();
    ingest.commit(new_run(&unfinished, log), CommitMode::New).unwrap_err();
    assert_eq!(home.files().len(), 2);
    assert!(home.store.check(false, &mut |_| ()).unwrap().is_sound());
    // The next one finds the log there.
    assert!(matches!(add(&home.store, &unfinished, CommitMode::New).unwrap(), Committed::Created(_)));
    assert_eq!((gc(), home.documents(&kept).len()), (0, 2));
}

/// A limit on the size of files is what a full disk is to a writer. With more and more room the run fails at one step
/// after the other, until it fits.
#[cfg(unix)]
#[test]
fn a_full_disk_is_said_and_leaves_nothing_half_done() {
    let mut ends = Vec::new();
    let mut room_kib = 60_u64;
    while ends.last().is_none_or(|end| end != "well") {
        assert!(room_kib < 1 << 16, "it never fits: {ends:?}");
        let home = Home::new();
        let words = child("crash::child_that_stores_one_run", &home);
        // Without the trap the system would end the process.
        let script = format!("trap '' XFSZ; ulimit -f {room_kib}; exec \"$@\"");
        let output = Command::new("bash").args(["-c", &script, "bash"]).args(&words).output().unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        let end = stdout.lines().find_map(|line| line.split_once("ended: ")).map(|(_, end)| end.to_owned());
        let mut end = end.unwrap_or_else(|| panic!("{stdout}\n{}", String::from_utf8_lossy(&output.stderr)));

        let there = home.store.runs(&RunQuery::default()).unwrap().total_count == 1;
        assert_eq!(there, end == "well");
        let report = home.store.check(false, &mut |_| ()).unwrap();
        assert!(report.is_sound(), "{report:?}");
        let files = home.files();
        assert!(files.iter().all(|file| file.starts_with("logs/")), "{files:?}");
        if !there && !files.is_empty() {
            end = format!("after the log was published: {end}");
            let collected = home.store.gc(GcOptions { dry_run: false, purge_deleted_before: None }).unwrap();
            assert_eq!((collected.items.len(), home.files().len()), (1, 0));
        }
        ends.push(end);
        room_kib += room_kib / 5;
    }
    for step in [
        "could not copy the log",
        "could not set documents aside",
        "after the log was published: could not use",
    ] {
        assert!(ends.iter().any(|end| end.starts_with(step)), "{step}: {ends:#?}");
    }
}
