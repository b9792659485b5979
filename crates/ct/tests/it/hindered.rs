//! Stores that can be read and not written: in a read-only folder, on a full disk.

use std::io::Read as _;
use std::process::Stdio;

use crate::logs::big_log;
use crate::mounts::{Mount, in_namespace};
use crate::support::Home;

const READ_ONLY: Mount<'_> = Mount::ReadOnly("../share/control-tower");

/// Reading commands, each with its exit code when it is not 0, and writing ones with what they say.
const COMMANDS: &str = r#"
    for command in "runs list" "runs info $RUN" "runs sample $RUN 2 --seed 1" "runs show $TRAJECTORY" \
        "runs download-trajs $RUN -o out" "runs download-eval $RUN -o out/log.eval" "store check" \
        "store gc --dry-run"; do
        "$1" $command > said 2>&1 || echo "$command: $? $(cat said)"
    done
    for command in "runs edit $RUN --name other" "runs delete $RUN" "runs make ct-12.eval" "store gc" \
        "store check --repair"; do
        "$1" $command 2>&1; echo "code $?"
    done"#;

#[test]
fn a_read_only_store_is_read() {
    let home = Home::with_runs();
    let run = home.run_id("attack");
    let trajectory = home.trajectory_ids(&run).remove(0);
    let setting = [("RUN", run.as_str()), ("TRAJECTORY", trajectory.as_str())];
    let Some(said) = in_namespace(&home, READ_ONLY, &setting, COMMANDS) else { return };
    let folder = home.path("").join("../share/control-tower").canonicalize().unwrap();
    let refused = format!("error: the data folder {} is read-only\ncode 1\n", folder.display());
    assert_eq!(said, refused.repeat(5));
    assert_eq!(
        std::fs::read(home.path("out/log.eval")).unwrap(),
        std::fs::read(home.path("ct-11.eval")).unwrap()
    );
    assert_eq!(home.run_id("attack"), run);
}

#[test]
fn changes_that_a_killed_process_left_are_read_or_missed_aloud() {
    let home = Home::with_runs();
    big_log(&home.path("a.eval"), 1, 4, 200_000);
    home.stdout(&["runs", "make", "a.eval", "--run-name", "big"]);
    let run = home.run_id("big");
    // A process that has the store open, and is killed after another one changed something.
    let reader = ["runs", "download-eval", &run, "-o", "-"];
    let mut reader = home.command(&reader).stdout(Stdio::piped()).spawn().unwrap();
    reader.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    home.stdout(&["runs", "edit", &run, "--name", "renamed"]);
    reader.kill().unwrap();
    reader.wait().unwrap();
    let wal = home.path("../share/control-tower/ct.sqlite-wal");
    assert!(wal.metadata().unwrap().len() > 0);
    let list = r#""$1" runs list --name renamed --format csv 2>&1; echo "code $?"; "$1" store check >said 2>&1; echo "code $?""#;
    let Some(said) = in_namespace(&home, READ_ONLY, &[], list) else { return };
    assert!(said.contains(&format!("\n{run},renamed,")) && said.ends_with("\ncode 0\ncode 0\n"), "{said}");
    // Without the index of these changes, which nobody can make there.
    std::fs::remove_file(home.path("../share/control-tower/ct.sqlite-shm")).unwrap();
    let said = in_namespace(&home, READ_ONLY, &[], list).unwrap();
    assert!(
        said.starts_with("error: the last changes of ") && said.ends_with("\ncode 1\ncode 1\n"),
        "{said}"
    );
    assert!(said.contains("hint: open it once where it can be written"), "{said}");
    assert_eq!(home.run_id("renamed"), run);
}

#[test]
fn a_full_disk_is_named_and_can_be_cleaned() {
    let home = Home::with_runs();
    let script = r#"ct="$1 --data-dir disk/store"
        $ct runs make ct-11.eval ct-12.eval >said 2>&1 || cat said
        run=$($ct runs list --name attack --format csv | tail -1 | cut -d, -f1); $ct runs delete $run 2>/dev/null
        mkdir -p disk/store/tmp; head -c 200k /dev/zero >disk/store/tmp/left; head -c 2M /dev/zero >disk/fill 2>/dev/null
        for command in "runs list" "runs list --deleted --format json" "store check" "store gc --dry-run"; do
            $ct $command >said 2>&1 || echo "$command: $? $(cat said)"
        done
        $ct runs restore $run 2>&1; echo "code $?"
        $ct runs make ct-12.eval 2>&1; echo "code $?"
        $ct store gc --purge-deleted 0d 2>&1 | grep -v tmp/left; echo "code $?"
        $ct runs list --deleted --format csv | wc -l; $ct store check 2>&1"#;
    let disk = Mount::Disk("disk", 1 << 20);
    let Some(said) = in_namespace(&home, disk, &[], script) else { return };
    let mut settings = home.settings();
    settings.add_filter("ingest-[^/]+", "ingest-[TEMPORARY]");
    settings.bind(|| insta::assert_snapshot!(said));
}

#[test]
fn a_download_that_fills_the_disk_still_reports() {
    let home = Home::new();
    big_log(&home.path("a.eval"), 3, 6, 300_000);
    home.stdout(&["runs", "make", "a.eval", "--run-name", "big"]);
    let run = home.run_id("big");
    let disk = Mount::Disk("disk", 1 << 20);
    for command in ["runs download-trajs $RUN", "runs download-trajs -n 6"] {
        let script = format!(
            r#""$1" {command} -o disk/out --format json 2>said; echo "code $?"; ls disk/out | grep -vc run.json; cat said >&2"#
        );
        let Some(said) = in_namespace(&home, disk, &[("RUN", run.as_str())], &script) else { return };
        let (report, rest) = said.split_once("code ").unwrap();
        let report: serde_json::Value =
            serde_json::from_str(report).unwrap_or_else(|e| panic!("{e}: {said}"));
        let written = report["written"].as_u64().unwrap();
        assert!((1..6).contains(&written), "{report}");
        assert_eq!(rest, format!("1\n{written}\n"));
    }
}
