//! Disks that are full: it is said, nothing half written stays, and with room it works.
//!
//! A limit on the size of files is what a full disk is to a writer; the same is tried on a small disk.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::logs::{
    Files, Numbers, assert_holds_log, big_log, collect, files, files_below, sample, samples_of, sound_runs,
    write_log,
};
use crate::mounts::{Mount, in_namespace};
use crate::support::Home;

/// Runs the program with files that cannot grow beyond that many KiB.
fn limited(home: &Home, room_kib: u64, arguments: &[&str]) -> Output {
    // Without the trap the system would end the process.
    let script = format!("trap '' XFSZ; ulimit -f {room_kib}; exec \"$@\"");
    within(&home.command(arguments), &["/bin/bash", "-c", &script, "bash"]).output().unwrap()
}

/// The same command as the last words of another one.
fn within(inner: &Command, words: &[&str]) -> Command {
    let mut outer = Command::new(words[0]);
    outer.args(&words[1..]).arg(inner.get_program()).args(inner.get_args()).env_clear();
    outer.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    outer.current_dir(inner.get_current_dir().unwrap());
    outer
}

fn error(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text.lines().last().unwrap_or_else(|| panic!("it said nothing: {output:?}"));
    serde_json::from_str::<Value>(last).unwrap_or_else(|e| panic!("{e}: {text}"))["error"].clone()
}

/// Fails for want of room, and says so. SQLite knows a full disk, but not a file that must not grow.
fn assert_too_large(output: &Output) {
    let error = error(output);
    assert_eq!(output.status.code(), Some(1), "{error}");
    let said = format!("{error} {}", String::from_utf8_lossy(&output.stdout));
    let reasons = ["File too large", "disk is full", "disk I/O error"];
    assert!(reasons.iter().any(|text| said.contains(text)), "{said}");
}

#[test]
fn a_run_is_made_whole_or_not_at_all() {
    let home = Home::new();
    big_log(&home.path("a.eval"), 1, 300, 3000);
    let make = ["runs", "make", "a.eval", "--format", "json"];
    let mut room_kib = 1;
    let mut failures = std::collections::BTreeSet::new();
    loop {
        let output = limited(&home, room_kib, &make);
        if output.status.success() {
            break;
        }
        assert_too_large(&output);
        let error = error(&output);
        assert_eq!(error["kind"], "io", "{error}");
        failures.insert(error["message"].as_str().unwrap().to_owned());
        assert_eq!(sound_runs(&home), []);
        let left = files_below(&home.path("../share/control-tower/tmp"));
        assert!(left.is_empty(), "{left:?}");
        if failures.len() % 2 == 0 {
            collect(&home, 0);
        }
        room_kib += room_kib / 4 + 40;
    }
    assert!(failures.len() >= 3, "not all steps were met: {failures:?}");
    assert_eq!(sound_runs(&home)[0].1, 300);
    collect(&home, 1);
}

/// A home with `a.eval`, of small and of large samples, its run and its folder as they should be.
fn home_with_small_and_large() -> (Home, String) {
    let home = Home::new();
    let mut numbers = Numbers::new(2);
    let samples: Vec<_> = (0..8)
        .map(|n| sample(&format!("s{n}"), &mut numbers, if n % 2 == 0 { 50_000 } else { 300_000 }))
        .collect();
    write_log(&home.path("a.eval"), "mixed", &samples);
    home.stdout(&["runs", "make", "a.eval", "--upload", "--save-dir", "whole"]);
    let run = sound_runs(&home).remove(0).0;
    (home, run)
}

/// Of a run in the store the header says more than of a log alone.
fn is_header(name: &str) -> bool {
    name == "run.json"
}

#[test]
fn trajectory_files_are_whole_or_not_there() {
    let (home, run) = home_with_small_and_large();
    let whole = files(&home.path("whole"));
    assert_holds_log(&whole, &home.path("a.eval"));
    for command in [
        &["runs", "download-trajs", &run, "--format", "json", "-o"][..],
        &["runs", "make", "a.eval", "--format", "json", "--save-dir"],
    ] {
        let arguments = [command, &["out"]].concat();
        let folder = home.path("out");
        // Not even the smallest fits.
        assert_too_large(&limited(&home, 40, &arguments));
        assert!(files(&folder).keys().all(|name| is_header(name)), "{:?}", files(&folder).keys());
        // The small ones fit.
        let output = limited(&home, 120, &arguments);
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        assert_eq!(error(&output)["kind"], "partial");
        let there = files(&folder);
        assert_eq!(there.len(), 5, "{:?}", there.keys());
        let right =
            |there: &Files| there.iter().all(|(name, bytes)| is_header(name) || whole[name] == *bytes);
        assert!(right(&there));
        // With room.
        home.stdout(&arguments);
        assert!(files(&folder).len() == whole.len() && right(&files(&folder)));
        // A file that is wrong stays as it is until it can be made right.
        let large = whole.iter().find(|(_, bytes)| bytes.len() > 300_000).unwrap().0;
        home.file(&format!("out/{large}"), "wrong");
        assert_eq!(limited(&home, 120, &arguments).status.code(), Some(3));
        assert_eq!(std::fs::read(folder.join(large)).unwrap(), b"wrong");
        assert_eq!(files(&folder).len(), whole.len());
        home.stdout(&arguments);
        assert!(files(&folder).len() == whole.len() && right(&files(&folder)));
        std::fs::remove_dir_all(&folder).unwrap();
    }
    assert_eq!(sound_runs(&home).len(), 1);
    collect(&home, 1);
}

#[test]
fn logs_are_written_whole_or_not_at_all() {
    let (home, run) = home_with_small_and_large();
    let log = std::fs::read(home.path("a.eval")).unwrap();
    for (command, name) in [
        (&["runs", "download-eval", &run, "--format", "json", "-o"][..], "out/b.eval"),
        (&["runs", "make", "a.eval", "--format", "json", "--save-path"], "out/b.eval"),
        (&["runs", "make", "a.eval", "--format", "json", "--save-path"], "out/b.json"),
        (&["runs", "make", "whole", "--format", "json", "--save-path"], "out/b.eval"),
    ] {
        let path = home.path(name);
        drop(std::fs::remove_dir_all(home.path("out")));
        std::fs::create_dir(home.path("out")).unwrap();
        let mut arguments = [command, &[name]].concat();
        for room_kib in [0, 40, 200] {
            assert_too_large(&limited(&home, room_kib, &arguments));
            assert_eq!(files(&home.path("out")).len(), 0, "{arguments:?}");
        }
        // What is there stays.
        std::fs::write(&path, "old").unwrap();
        arguments.push("--overwrite");
        assert_too_large(&limited(&home, 200, &arguments));
        assert_eq!(files(&home.path("out")).len(), 1, "{arguments:?}");
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        home.stdout(&arguments);
        assert!(samples_of(&path) == samples_of(&home.path("a.eval")));
    }
    assert!(std::fs::read(home.path("a.eval")).unwrap() == log);
}

/// Leaves 700 KiB of a disk, and gives back the rest. What is on it is shown and compared while it is there.
#[test]
fn on_a_small_disk() {
    let (home, run) = home_with_small_and_large();
    let setting = [
        ("RUN", run.as_str()),
        ("FILL", "head -c 9540k /dev/zero >disk/filled || exit 99"),
        ("FREE", "rm disk/filled"),
    ];
    let try_there = |script: &str| in_namespace(&home, Mount::Disk("disk", 10 << 20), &setting, script);
    if try_there("true").is_none() {
        return;
    }
    let run_there = |script: &str| try_there(&format!("eval \"$FILL\"; {script}")).unwrap();

    // A folder: the disk is full at some file, which ends the work at once.
    for command in ["runs download-trajs $RUN -o", "runs make a.eval --save-dir"] {
        let said = run_there(&format!(
            r#""$1" {command} disk/out 2>&1; echo "code $?"
            for file in $(ls -A disk/out); do
                [ $file = run.json ] && grep -q '"complete":false' disk/out/$file && continue
                cmp -s disk/out/$file whole/$file && echo right || echo "wrong $file"; done
            $FREE; "$1" {command} disk/out 2>&1; echo "code $?"
            diff -r -x run.json disk/out whole && echo same"#
        ));
        assert!(said.contains("No space left on device"), "{said}");
        assert!(said.contains("free some space and run it again"), "{said}");
        let codes: Vec<_> = said.lines().filter(|line| line.starts_with("code ")).collect();
        assert_eq!(codes, ["code 1", "code 0"], "{said}");
        assert!(said.contains("\nright\n") && !said.contains("wrong"), "{said}");
        assert!(said.ends_with("same\n"), "{said}");
    }

    // The store.
    let said = run_there(
        r#"ct="$1 --data-dir disk/store"
        $ct runs make a.eval 2>&1; echo "code $?"
        $ct store check 2>&1; echo "code $?"; $ct runs list 2>/dev/null; ls -A disk/store/tmp
        $FREE; $ct runs make a.eval 2>&1; echo "code $?"
        $ct store check 2>&1; $ct store gc 2>&1; $ct store gc --dry-run 2>&1
        $ct runs download-trajs $RUN -o disk/out; diff -r -x run.json disk/out whole && echo same"#,
    );
    assert!(["No space left on device", "disk is full"].iter().any(|text| said.contains(text)), "{said}");
    let codes: Vec<_> = said.lines().filter(|line| line.starts_with("code ")).collect();
    assert_eq!(codes, ["code 1", "code 0", "code 0"], "{said}");
    assert!(said.contains("1 run, 8 trajectories, 1 log"), "{said}");
    assert!(said.contains("0 items (0 B) would go"), "{said}");

    // Room for the log, none for what is put together on the way.
    let said = run_there(
        r#"export TMPDIR=disk; "$1" runs make whole --save-path b.eval 2>&1; echo "code $?"; $FREE; ls -A disk"#,
    );
    assert!(said.contains("No space left on device") && said.ends_with("code 1\n"), "{said}");
    assert!(!home.path("b.eval").exists());
    assert!(Path::new(&home.path("whole/run.json")).is_file());
}
