//! Processes killed at any moment: what they leave is whole or not there, and running again ends well.
//!
//! Moments are drawn from a seed and spread over the time that an undisturbed run takes.

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::logs::{
    Files, Numbers, assert_holds_log, big_log, collect, files, files_below, samples_of, sound_runs, state,
};
use crate::support::Home;

const SAMPLES: usize = 40;
const SAMPLE_BYTES: usize = 100_000;
const ROUNDS: u32 = 10;

/// Moments to kill at, one in each part of an undisturbed run.
fn moments(seed: u64, took: Duration) -> impl Iterator<Item = (u32, Duration)> {
    let mut numbers = Numbers::new(seed);
    (0..ROUNDS).map(move |round| {
        let part = f64::from(round) + (numbers.next() % 1000) as f64 / 1000.0;
        (round, took.mul_f64(part / f64::from(ROUNDS)))
    })
}

/// How long it takes undisturbed.
fn timed(home: &Home, arguments: &[&str]) -> Duration {
    let start = Instant::now();
    home.stdout(arguments);
    start.elapsed()
}

/// Starts the program and kills it. False: it had ended by then, and well.
fn killed(home: &Home, arguments: &[&str], moment: Duration) -> bool {
    let mut process = home.command(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(moment);
    process.kill().unwrap();
    let status = process.wait().unwrap();
    assert!(status.success() || status.code().is_none(), "{status}");
    !status.success()
}

#[test]
fn a_killed_make_leaves_the_whole_run_or_none() {
    let home = Home::new();
    big_log(&home.path("a.eval"), 1, SAMPLES, SAMPLE_BYTES);
    let make = ["runs", "make", "a.eval"];
    let took = timed(&home, &make);
    let whole = sound_runs(&home);
    assert_eq!(whole[0].1, SAMPLES);
    let store = home.path("../share/control-tower");
    let mut kills = 0;
    std::fs::remove_dir_all(&store).unwrap();
    for (round, moment) in moments(2, took) {
        let ended = !killed(&home, &make, moment);
        let runs = sound_runs(&home);
        assert!(runs == whole || runs.is_empty() && !ended, "{runs:?}");
        kills += u32::from(!ended);
        if !runs.is_empty() {
            collect(&home, 1);
            std::fs::remove_dir_all(&store).unwrap();
        } else if round % 3 == 0 {
            collect(&home, 0);
        }
    }
    assert!(kills > 0, "it was never killed in time");
    // Over all that was left.
    home.stdout(&make);
    assert_eq!(sound_runs(&home), whole);
    collect(&home, 1);
    home.stdout(&["runs", "download-trajs", &whole[0].0, "-o", "out"]);
    assert_holds_log(&files(&home.path("out")), &home.path("a.eval"));
}

#[test]
fn a_killed_replacement_leaves_the_old_run_or_the_new() {
    let home = Home::new();
    big_log(&home.path("a.eval"), 3, SAMPLES, SAMPLE_BYTES);
    big_log(&home.path("b.eval"), 3, SAMPLES - 10, SAMPLE_BYTES);
    home.stdout(&["runs", "make", "a.eval"]);
    let run = sound_runs(&home).remove(0).0;
    let took = timed(&home, &["runs", "make", "b.eval", "--replace"]);
    let count = |log: &str| if log == "a.eval" { SAMPLES } else { SAMPLES - 10 };
    let (mut there, mut coming) = ("b.eval", "a.eval");
    let mut kills = 0;
    for (_, moment) in moments(4, took) {
        let before = state(&home, &run);
        let ended = !killed(&home, &["runs", "make", coming, "--replace"], moment);
        kills += u32::from(!ended);
        let runs = sound_runs(&home);
        let after = state(&home, &run);
        if after == before {
            assert!(!ended);
            assert_eq!(runs, [(run.clone(), count(there))]);
        } else {
            assert_eq!(runs, [(run.clone(), count(coming))]);
            let revisions = |state: &serde_json::Value| state["revisions"].as_array().unwrap().len();
            assert_eq!(revisions(&after), revisions(&before) + 1);
            std::mem::swap(&mut there, &mut coming);
        }
    }
    assert!(kills > 0, "it was never killed in time");
    home.stdout(&["runs", "make", coming, "--replace"]);
    assert_eq!(sound_runs(&home), [(run.clone(), count(coming))]);
    collect(&home, 2);
    home.stdout(&["runs", "download-trajs", &run, "-o", "out"]);
    assert_holds_log(&files(&home.path("out")), &home.path(coming));
}

/// Kills a command that writes a folder, and lets it write the folder to its end every now and then. `whole` is what an
/// undisturbed one wrote.
fn folder_rounds(home: &Home, arguments: &[&str], seed: u64, took: Duration, whole: &Files) {
    let folder = home.path(arguments.last().unwrap());
    let mut kills = 0;
    let mut parts = 0;
    for (round, moment) in moments(seed, took) {
        let ended = !killed(home, arguments, moment);
        kills += u32::from(!ended);
        let there = files(&folder);
        for (name, bytes) in there.iter().filter(|(name, _)| !name.starts_with('.')) {
            // Until the work is done the folder says whose it will be, and that it is not done.
            let unfinished = name == "run.json" && bytes.ends_with(br#""complete":false}"#);
            assert!(unfinished || whole.get(name) == Some(bytes), "{name}, {} bytes", bytes.len());
        }
        parts += usize::from(!there.is_empty() && there.len() < whole.len());
        if ended || round % 3 == 2 {
            home.stdout(arguments);
            // With it goes what the killed ones left half written.
            assert!(files(&folder) == *whole, "{:?}", files(&folder).keys());
            std::fs::remove_dir_all(&folder).unwrap();
        }
    }
    assert!(kills > 0 && parts > 0, "it was never killed in time: {kills} {parts}");
}

#[test]
fn a_killed_save_dir_leaves_whole_files() {
    let home = Home::new();
    big_log(&home.path("a.eval"), 5, SAMPLES, SAMPLE_BYTES);
    let took = timed(&home, &["runs", "make", "a.eval", "--save-dir", "whole"]);
    let whole = files(&home.path("whole"));
    assert_holds_log(&whole, &home.path("a.eval"));
    folder_rounds(&home, &["runs", "make", "a.eval", "--save-dir", "out"], 6, took, &whole);
    assert!(!home.path("../share").exists(), "it has nothing to do with the store");
}

#[test]
fn a_killed_download_leaves_whole_files() {
    let home = Home::new();
    big_log(&home.path("a.eval"), 7, SAMPLES, SAMPLE_BYTES);
    home.stdout(&["runs", "make", "a.eval"]);
    let run = sound_runs(&home).remove(0).0;
    let took = timed(&home, &["runs", "download-trajs", &run, "-o", "whole"]);
    let whole = files(&home.path("whole"));
    assert_holds_log(&whole, &home.path("a.eval"));
    folder_rounds(&home, &["runs", "download-trajs", &run, "-o", "out"], 8, took, &whole);
    assert_eq!(sound_runs(&home).len(), 1);
    collect(&home, 1);
}

#[test]
fn what_is_being_written_is_no_leftover() {
    let home = Home::new();
    home.log("control-tower/ct-11.eval", "a.eval");
    let left = home.file("out/.ct-abc.json.partial", "half");
    let theirs = home.file("out/.ct-def.json.partial", "half");
    let other = home.file("out/.ct-ghi.partial", "of something else");
    let writer = std::fs::File::open(&theirs).unwrap();
    writer.lock().unwrap();
    home.stdout(&["runs", "make", "a.eval", "--save-dir", "out"]);
    assert_eq!((left.exists(), theirs.exists(), other.exists()), (false, true, true));
    drop(writer);
    home.stdout(&["runs", "make", "a.eval", "--save-dir", "out"]);
    assert_eq!((theirs.exists(), other.exists()), (false, true));
}

#[test]
fn a_killed_save_path_leaves_the_whole_log_or_none() {
    let home = Home::new();
    big_log(&home.path("a.eval"), 9, SAMPLES, SAMPLE_BYTES);
    // To a document everything is inflated and written again; scores that are left out make each sample another.
    for (number, target) in [(0, "out.eval"), (1, "out.json")] {
        let whole = format!("whole-{target}");
        let arguments = |target| ["runs", "make", "a.eval", "--drop-score", "match", "--save-path", target];
        let took = timed(&home, &arguments(&whole));
        let whole = std::fs::read(home.path(&whole)).unwrap();
        assert_eq!(samples_of(&home.path("a.eval")).len(), samples_of(&home.path("whole-out.eval")).len());
        let path = home.path(target);
        let mut kills = 0;
        for (round, moment) in moments(10 + number, took) {
            // Every other time something else is there.
            let old = (round % 2 == 1).then(|| std::fs::read(home.path("a.eval")).unwrap());
            match &old {
                Some(bytes) => std::fs::write(&path, bytes).unwrap(),
                None => drop(std::fs::remove_file(&path)),
            }
            let mut words = arguments(target).to_vec();
            words.extend(old.as_ref().map(|_| "--overwrite"));
            let ended = !killed(&home, &words, moment);
            kills += u32::from(!ended);
            let found = std::fs::read(&path).ok();
            assert!(found.as_ref() == Some(&whole) || found == old && !ended, "{target}");
        }
        assert!(kills > 0, "it was never killed in time");
        drop(std::fs::remove_file(&path));
        home.stdout(&arguments(target));
        assert!(std::fs::read(&path).unwrap() == whole);
    }
    // With it went what the killed ones left half written.
    let known = ["a.eval", "whole-out.eval", "whole-out.json", "out.eval", "out.json"];
    let stranger = |name: &String| !known.contains(&name.as_str());
    let found: Vec<_> = files_below(&home.path(".")).into_iter().filter(stranger).collect();
    assert!(found.is_empty(), "{found:?}");
}

/// What a killed process leaves is gone after the next one, and what another one is writing stays.
#[test]
fn the_next_one_removes_what_killed_ones_left() {
    let home = Home::new();
    home.log("control-tower/ct-11.eval", "a.eval");
    home.stdout(&["runs", "make", "a.eval", "--upload", "--save-dir", "folder"]);
    let run = sound_runs(&home).remove(0).0;
    let held = |path: &std::path::Path| {
        let file = std::fs::File::open(path).unwrap();
        file.lock().unwrap();
        file
    };
    for (arguments, left, theirs) in [
        (
            &["runs", "make", "a.eval", "--save-path", "out/b.eval"][..],
            "out/.ct-1-0.part",
            "out/.ct-2-0.part",
        ),
        (&["runs", "make", "a.eval", "--save-path", "out/b.json"], "out/.ct-1-0.part", "out/.ct-2-0.part"),
        (&["runs", "download-eval", &run, "-o", "out/c.eval"], "out/.ct-abc.partial", "out/.ct-def.partial"),
        (&["runs", "sample", &run, "1", "--save-dir", "out"], "out/.ct-abc.partial", "out/.ct-def.partial"),
        (
            &["runs", "make", "folder", "--save-path", "out/d.eval"],
            "tmp/ct-abc/.ct-in-use",
            "tmp/ct-def/.ct-in-use",
        ),
    ] {
        let (left, theirs) = (home.file(left, "half"), home.file(theirs, "half"));
        let writer = held(&theirs);
        let output = home.command(arguments).env("TMPDIR", home.path("tmp")).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!((left.exists(), theirs.exists()), (false, true), "{arguments:?}");
        drop(writer);
    }
    let ours = |name: &String| name.contains(".part") || name.starts_with("tmp/");
    let found: Vec<_> = files_below(&home.path(".")).into_iter().filter(ours).collect();
    // Those of each last one, of which nothing was told any more.
    assert_eq!(found, ["out/.ct-def.partial", "tmp/ct-def/.ct-in-use"]);
}

#[test]
fn a_killed_make_of_a_folder_leaves_nothing_for_long() {
    let home = Home::new();
    big_log(&home.path("a.eval"), 11, SAMPLES, SAMPLE_BYTES);
    home.stdout(&["runs", "make", "a.eval", "--save-dir", "folder"]);
    std::fs::create_dir(home.path("tmp")).unwrap();
    let arguments = ["runs", "make", "folder", "--save-path", "out.eval", "--overwrite"];
    let start = |home: &Home| {
        let mut command = home.command(&arguments);
        command.env("TMPDIR", home.path("tmp")).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    };
    let begun = Instant::now();
    assert!(start(&home).wait().unwrap().success());
    let took = begun.elapsed();
    let mut left = 0;
    for (_, moment) in moments(12, took) {
        let mut process = start(&home);
        std::thread::sleep(moment);
        process.kill().unwrap();
        process.wait().unwrap();
        let count = std::fs::read_dir(home.path("tmp")).unwrap().count();
        assert!(count <= 1, "{count}");
        left += count;
    }
    assert!(left > 0, "it was never killed in time");
    assert!(start(&home).wait().unwrap().success());
    assert_eq!(std::fs::read_dir(home.path("tmp")).unwrap().count(), 0);
    assert!(!files_below(&home.path(".")).iter().any(|name| name.ends_with(".part")));
}
