//! Checking, repairing, collecting.

use std::fs;

use ct_model::{LogFormat, RunQuery, TrajectoryQuery};
use ct_store::{
    Actor, CheckReport, CommitMode, Finding, FindingKind, GcItem, GcKind, GcOptions, GcReport, StoreError,
};
use rusqlite::{Connection, params};
use serde_json::json;

use crate::support::{Home, add, draft, second};

fn check(home: &Home, repair: bool) -> CheckReport {
    home.store.check(repair, &mut |_| ()).unwrap()
}

fn kinds(report: &CheckReport) -> Vec<FindingKind> {
    report.findings.iter().map(|finding| finding.kind).collect()
}

fn gc(home: &Home, dry_run: bool, purge_deleted_before: Option<i64>) -> GcReport {
    home.store.gc(GcOptions { dry_run, purge_deleted_before: purge_deleted_before.map(second) }).unwrap()
}

#[test]
fn a_sound_store_has_nothing_to_report() {
    let home = Home::new();
    home.add(&draft("first", 3).each(json!({"eval_sample_range": {
        "samplePath": "samples/a.json", "compressionMethod": 8, "compressedStart": 2, "compressedSize": 10,
        "uncompressedSize": 50, "crc32": 1,
    }})));
    home.add(&draft("second", 2));
    let mut steps = Vec::new();
    let report = home.store.check(false, &mut |progress| steps.push(progress)).unwrap();
    assert_eq!((report.runs, report.trajectories, report.logs), (2, 5, 2));
    assert_eq!(report.findings, []);
    assert!(report.is_sound());
    let last = steps.last().unwrap();
    assert_eq!((last.bytes_done, last.bytes_total), (report.log_bytes, report.log_bytes));
    assert_eq!(check(&home, true), report);
    assert_eq!(gc(&home, true, Some(1000)).items, []);
}

#[test]
fn a_damaged_log_is_set_aside_and_making_the_run_again_heals_it() {
    let home = Home::new();
    let draft = draft("first", 1);
    let id = home.add(&draft);
    let log = home.log_of(&id);
    let mut damaged = draft.bytes.clone();
    damaged[0] ^= 0x40;
    home.set_log(&log, Some(&damaged));

    let report = check(&home, false);
    assert_eq!(kinds(&report), [FindingKind::LogDamaged]);
    assert!(
        report.findings[0].subject.contains(id.as_str()) && report.findings[0].detail.contains("SHA-256")
    );
    assert!(!report.is_sound());
    assert_eq!(home.log_bytes(&log), Some(damaged));

    let report = check(&home, true);
    assert_eq!(kinds(&report), [FindingKind::LogDamaged, FindingKind::SetAside]);
    assert!(!report.is_sound() && report.findings[0].done.is_some());
    assert_eq!(home.log_bytes(&log), None);
    assert_eq!(kinds(&check(&home, false)), [FindingKind::LogMissing, FindingKind::SetAside]);
    assert_eq!(gc(&home, false, None).items, []);

    add(&home.store, &draft, CommitMode::New).unwrap();
    assert_eq!(home.log_bytes(&log).as_ref(), Some(&draft.bytes));
    let report = check(&home, false);
    assert_eq!(kinds(&report), [FindingKind::SetAside]);
    assert!(report.is_sound());
    let report = gc(&home, false, None);
    assert_eq!(report.items.iter().map(|item| item.kind).collect::<Vec<_>>(), [GcKind::SetAside]);
    assert_eq!(check(&home, false).findings, []);
}

#[test]
fn logs_of_other_lengths_and_missing_ones_are_found() {
    let home = Home::new();
    let first = home.log_of(&home.add(&draft("first", 1)));
    let second = home.log_of(&home.add(&draft("second", 1)));
    home.set_log(&first, Some(b"short"));
    home.set_log(&second, None);
    let mut found = kinds(&check(&home, false));
    found.sort_by_key(|kind| format!("{kind:?}"));
    assert_eq!(found, [FindingKind::LogDamaged, FindingKind::LogMissing]);
}

#[test]
fn a_log_is_missed_by_each_run_and_revision_that_needs_it() {
    let home = Home::new();
    let old = draft("old", 1);
    let id = home.add(&old);
    let log = home.log_of(&id);
    let mut new = draft("old", 1);
    new.bytes.push(b'2');
    add(&home.store, &new, CommitMode::Replace(id.clone())).unwrap();
    assert_eq!(gc(&home, true, None).items, []);
    home.set_log(&log, None);
    let report = check(&home, false);
    let [Finding { kind: FindingKind::LogMissing, subject, .. }] = report.findings.as_slice() else {
        panic!("{report:?}")
    };
    assert!(subject.contains("revision 1"), "{subject}");
    // An earlier revision is healed as well.
    let mut ingest = home.store.begin_ingest().unwrap();
    assert!(ingest.stage_log(&mut old.bytes.as_slice(), LogFormat::Eval, &mut |_| ()).unwrap().healed);
    drop(ingest);
    assert_eq!(check(&home, false).findings, []);
}

#[test]
fn a_range_beyond_the_end_of_its_log_is_found() {
    let home = Home::new();
    let draft = draft("first", 2);
    let beyond = draft.bytes.len() as u64 - 9;
    home.add(&draft.one(1, json!({"eval_sample_range": {
        "samplePath": "samples/a.json", "compressionMethod": 8, "compressedStart": beyond, "compressedSize": 10,
        "uncompressedSize": 50, "crc32": 1,
    }})));
    assert_eq!(kinds(&check(&home, false)), [FindingKind::RangeOutside]);
}

#[test]
fn wrong_counts_and_a_wrong_index_are_made_again() {
    let home = Home::new();
    let id = home.add(
        &draft("first", 3)
            .header(json!({"tags": ["t"]}))
            .one(0, json!({"main_task_success": true, "side_task": {"id": "s"}, "side_task_success": true})),
    );
    let deleted = home.add(&draft("second", 2).header(json!({"tags": ["t"]})));
    home.store.delete_run(&deleted, &Actor::local()).unwrap();
    let row = home.store.runs(&RunQuery::default()).unwrap().items.remove(0);
    let database = Connection::open(home.path().join("ct.sqlite")).unwrap();
    database.execute("UPDATE runs SET trajectory_count = 7, counts = '{}'", []).unwrap();
    database.execute("DELETE FROM postings WHERE piece % 3 = 0", []).unwrap();
    let report = check(&home, false);
    assert_eq!(kinds(&report), [FindingKind::CountsDiffer; 3]);
    assert!(!report.is_sound());
    let report = check(&home, true);
    assert_eq!(kinds(&report), [FindingKind::CountsDiffer; 3]);
    assert!(report.is_sound());
    assert_eq!(check(&home, false).findings, []);
    assert_eq!(home.store.runs(&RunQuery::default()).unwrap().items, [row]);
    let tagged = TrajectoryQuery { tags: vec!["t".to_owned()], ..TrajectoryQuery::default() };
    assert_eq!(home.store.trajectories(&tagged).unwrap().total_count, 3);

    // A bit too many is as wrong as one too few.
    let first = "SELECT piece, bits FROM postings ORDER BY piece LIMIT 1";
    let (piece, mut bits): (i64, Vec<u8>) =
        database.query_row(first, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    bits.extend([99, 0]);
    database.execute("UPDATE postings SET bits = ? WHERE piece = ?", params![bits, piece]).unwrap();
    assert_eq!(kinds(&check(&home, false)), [FindingKind::CountsDiffer]);
    assert!(check(&home, true).is_sound());
    assert_eq!(check(&home, false).findings, []);
    for damage in [
        "UPDATE run_labels SET labels = x''",
        "DELETE FROM packed_keys WHERE piece = (SELECT min(piece) FROM packed_keys)",
        "UPDATE packed_keys SET keys = CAST(keys || x'01000000' AS BLOB)",
    ] {
        assert!(database.execute(damage, []).unwrap() > 0);
        assert_eq!(kinds(&check(&home, false)), [FindingKind::CountsDiffer], "{damage}");
        assert!(check(&home, true).is_sound());
        assert_eq!(check(&home, false).findings, []);
    }
    assert_eq!(home.documents(&id).len(), 3);
}

#[test]
fn a_missing_document_and_a_damaged_database_are_found() {
    let home = Home::new();
    home.add(&draft("first", 3));
    let database = Connection::open(home.path().join("ct.sqlite")).unwrap();
    database.execute("DELETE FROM documents WHERE trajectory = 2", []).unwrap();
    let report = check(&home, true);
    assert_eq!(kinds(&report), [FindingKind::DatabaseDamaged]);
    assert_eq!(report.findings[0].subject, "first-1");
    database.execute_batch("PRAGMA foreign_keys = OFF; DELETE FROM runs").unwrap();
    let report = check(&home, true);
    assert!(
        report.findings.iter().all(|finding| !finding.resolved || finding.kind.is_leftover()),
        "{report:?}"
    );
    assert!(kinds(&report).contains(&FindingKind::DatabaseDamaged) && !report.is_sound());
}

#[test]
fn leftovers_are_told_in_bytes_then_removed() {
    let home = Home::new();
    let kept = home.add(&draft("kept", 1));
    let gone = home.add(&draft("gone", 4));
    let (gone_log, kept_log) = (home.log_of(&gone), home.log_of(&kept));
    home.store.delete_run(&gone, &Actor::local()).unwrap(); // at second 2
    let hash = "ab".repeat(32);
    home.leave(&format!("logs/ab/{hash}.json"), "unreferenced");
    home.leave("tmp/ingest-1/log.eval", "half a log");
    home.leave("tmp/stray", "x");
    home.leave(&format!("logs/cd/{hash}.eval"), "wrong folder");
    home.leave("logs/ab/notes.txt", "mine");
    let before = home.files();

    let report = check(&home, false);
    assert!(report.is_sound());
    let found = kinds(&report);
    let expected = [
        FindingKind::LogUnreferenced,
        FindingKind::Stranger,
        FindingKind::Stranger,
        FindingKind::TemporaryFile,
        FindingKind::TemporaryFile,
    ];
    assert_eq!(found.len(), expected.len());
    assert!(expected.iter().all(|kind| found.contains(kind)), "{found:?}");

    let item = |kind, path: &str, size_bytes| GcItem { kind, subject: home.shown(path), size_bytes };
    let leftovers = [
        item(GcKind::TemporaryFile, "tmp/ingest-1/log.eval", 10),
        item(GcKind::TemporaryFile, "tmp/stray", 1),
        item(GcKind::Log, &format!("logs/ab/{hash}.json"), 12),
    ];
    assert_eq!(gc(&home, true, None).items, leftovers);
    // Deleted too short a time ago.
    assert_eq!(gc(&home, true, Some(2)).items, leftovers);
    let report = gc(&home, true, Some(3));
    assert_eq!((report.items.len(), report.size_bytes(), report.dry_run), (5, 12 + 10 + 1 + 11, true));
    // Leftovers first: on a full disk they make the room for what follows.
    assert_eq!(report.items[..3], leftovers);
    assert_eq!(
        report.items[3],
        GcItem { kind: GcKind::DeletedRun, subject: gone.to_string(), size_bytes: 0 }
    );
    assert_eq!(home.files(), before);
    assert!(home.store.run(&gone).is_ok());

    let done = gc(&home, false, Some(3));
    assert_eq!((done.items, done.dry_run), (report.items, false));
    assert!(home.log_bytes(&gone_log).is_none() && home.log_bytes(&kept_log).is_some());
    assert!(matches!(home.store.run(&gone), Err(StoreError::NotFound { .. })));
    let all = TrajectoryQuery { include_deleted: true, ..TrajectoryQuery::default() };
    assert_eq!(home.store.trajectories(&all).unwrap().total_count, 1);
    assert_eq!(gc(&home, false, Some(3)).items, []);
    assert_eq!(kinds(&check(&home, false)), [FindingKind::Stranger; 2]);
    // The bytes are new again.
    assert_eq!(home.add(&draft("gone", 4)), gone);
}

#[test]
fn a_repair_removes_leftovers_too() {
    let home = Home::new();
    home.leave("tmp/ingest-1/log.eval", "half a log");
    home.leave(&format!("logs/ab/{}.eval", "ab".repeat(32)), "unreferenced");
    let report = check(&home, true);
    assert_eq!(kinds(&report), [FindingKind::LogUnreferenced, FindingKind::TemporaryFile]);
    assert!(report.findings.iter().all(|finding| finding.resolved));
    assert_eq!(home.files(), Vec::<String>::new());
}

#[test]
fn nothing_is_collected_under_an_ingest() {
    let home = Home::new();
    let mut ingest = home.store.begin_ingest().unwrap();
    let log = ingest.stage_log(&mut &b"bytes"[..], LogFormat::Json, &mut |_| ()).unwrap();
    let options = GcOptions { dry_run: false, purge_deleted_before: None };
    assert!(matches!(home.store.gc(options), Err(StoreError::Busy { .. })));
    assert!(matches!(home.store.check(true, &mut |_| ()), Err(StoreError::Busy { .. })));
    // A mere check goes on, and does not take what is in use for a leftover.
    assert_eq!(check(&home, false).findings, []);
    assert_eq!(fs::read(&log.path).unwrap(), b"bytes");
    drop(ingest);
    assert_eq!(gc(&home, false, None).items, []);
}
