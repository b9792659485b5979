//! What is uploaded and never used goes after a while, and nothing else does.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use ct_model::{LogFormat, LogHash, LogHasher, ObjectKey};
use ct_store::{
    Actor, CommitMode, Committed, Conflict, Expected, FindingKind, GcKind, GcOptions, GcReport, Registration,
    Store, StoreError, UploadOf,
};
use jiff::Timestamp;
use tempfile::TempDir;

use crate::support::{Logs, START, draft, new_run};

const HOUR: i64 = 3600;

struct Home {
    store: Store,
    folder: TempDir,
    hours: Arc<AtomicI64>,
    logs: Logs,
}

impl Home {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let hours = Arc::new(AtomicI64::new(0));
        let told = Arc::clone(&hours);
        let clock = move || Timestamp::from_second(START + told.load(Ordering::Relaxed) * HOUR).unwrap();
        let logs = Logs::new();
        let store = logs.open(folder.path(), Arc::new(clock));
        Self { store, folder, hours, logs }
    }

    fn at(&self, hours: i64) -> &Store {
        self.hours.store(hours, Ordering::Relaxed);
        &self.store
    }

    fn open(&self) -> Store {
        self.logs.open(self.folder.path(), Arc::new(Timestamp::now))
    }

    fn files(&self, folder: &str) -> usize {
        let Ok(entries) = std::fs::read_dir(self.folder.path().join(folder)) else { return 0 };
        entries.count()
    }
}

fn key(text: &str) -> ObjectKey {
    text.parse().unwrap()
}

fn put(store: &Store, name: &str, bytes: &[u8]) {
    store.put_object(&key(name), bytes.len() as u64, &mut &*bytes, &Actor::local()).unwrap();
}

fn gc(store: &Store, dry_run: bool) -> GcReport {
    store.gc(GcOptions { dry_run, purge_deleted_before: None }).unwrap()
}

fn kinds(report: &GcReport) -> Vec<GcKind> {
    report.items.iter().map(|item| item.kind).collect()
}

#[test]
fn an_upload_without_a_run_is_kept_for_a_day() {
    let home = Home::new();
    for number in 0..3 {
        put(home.at(0), &format!("old-{number}.eval"), format!("log {number}").as_bytes());
    }
    // They are no leftovers, and no sign of a lost database, however many they are.
    assert_eq!(gc(home.at(23), false).items, []);
    assert!(home.store.check(false, &mut |_| ()).unwrap().findings.is_empty());
    put(home.at(23), "new.eval", b"new log");

    let would = gc(home.at(25), true);
    assert!(home.store.object(&key("old-0.eval")).unwrap().is_some());
    let went = gc(home.at(25), false);
    assert_eq!((would.items.clone(), would.size_bytes()), (went.items.clone(), 15));
    assert_eq!(kinds(&went)[..3], [GcKind::UploadedLog; 3]);
    assert_eq!(kinds(&went)[3..], [GcKind::Log; 3]);
    assert!(home.store.object(&key("old-0.eval")).unwrap().is_none());
    assert!(home.store.object(&key("new.eval")).unwrap().is_some());
    // The name is free again.
    put(home.at(26), "old-0.eval", b"log 0");
}

#[test]
fn an_upload_in_parts_is_kept_for_a_week_after_its_last_part() {
    let home = Home::new();
    let ann = Actor { user: Some("ann".to_owned()), ..Actor::local() };
    let begin = |hours, name: &str| {
        home.at(hours).begin_upload(&UploadOf::Key(key(name)), 6, &ann).unwrap().upload_id
    };
    let part = |hours, id: &str, start: u64, bytes: &[u8]| {
        home.at(hours).put_part(id, start, None, None, &mut &*bytes, &ann).unwrap()
    };
    let (old, new) = (begin(0, "old.eval"), begin(0, "new.eval"));
    part(0, &old, 0, b"abc");
    part(100, &new, 0, b"abc");
    assert_eq!(gc(home.at(167), false).items, []);
    assert_eq!(kinds(&gc(home.at(169), true)), [GcKind::Upload]);
    assert_eq!(kinds(&gc(home.at(169), false)), [GcKind::Upload]);
    assert_eq!(home.files("uploads"), 1);
    assert!(home.store.upload(&old, &ann).is_err());
    // The other one goes on, also in a new process.
    let store = home.open();
    assert_eq!(store.upload(&new, &ann).unwrap().parts.len(), 1);
    store.put_part(&new, 3, Some(3), None, &mut b"def".as_slice(), &ann).unwrap();
    let hash: LogHash = "bef57ec7f53a6d40beb640a780a639c83bc29ac8a9816f1fc6c5c6dcd93c4721".parse().unwrap();
    assert_eq!(
        store.complete_upload(&new, &Expected::Hash(hash.clone(), None), &ann).unwrap().log.hash,
        hash
    );
    // Nobody else's business.
    let bob = Actor { user: Some("bob".to_owned()), ..Actor::local() };
    assert!(store.upload(&new, &bob).is_err());
}

#[test]
fn a_lost_file_means_lost_parts() {
    let home = Home::new();
    let ann = Actor::local();
    let id = home.at(0).begin_upload(&UploadOf::Key(key("a.eval")), 3, &ann).unwrap().upload_id;
    home.store.put_part(&id, 0, None, None, &mut b"abc".as_slice(), &ann).unwrap();
    std::fs::remove_file(home.folder.path().join("uploads").join(&id)).unwrap();
    let store = home.open();
    assert_eq!(store.upload(&id, &ann).unwrap().parts, []);
}

/// Gives its bytes, then fails.
struct Broken<'a>(&'a [u8]);

impl Read for Broken<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer)? {
            0 => Err(io::ErrorKind::ConnectionReset.into()),
            n => Ok(n),
        }
    }
}

#[test]
fn parts_that_fail_and_come_in_any_order_leave_the_hash_right() {
    const PART_BYTES: usize = 10_000;
    let mut log: Vec<u8> =
        (0..12 * PART_BYTES as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let (home, ann) = (Home::new(), Actor::local());
    for round in 0..20_usize {
        log[round] ^= 1;
        let of = UploadOf::Unnamed(format!("round {round}"));
        let id = home.at(0).begin_upload(&of, log.len() as u64, &ann).unwrap().upload_id;
        std::thread::scope(|scope| {
            for sender in 0..3 {
                let (home, id, log, ann) = (&home, &id, &log, &ann);
                scope.spawn(move || {
                    for part in (sender..12).step_by(3) {
                        let start = part * PART_BYTES;
                        let bytes = &log[start..start + PART_BYTES];
                        let put = |source: &mut dyn BufRead, crc32| {
                            home.store.put_part(id, start as u64, Some(PART_BYTES as u64), crc32, source, ann)
                        };
                        if (part + round) % 4 == 0 {
                            let mut damaged = bytes.to_vec();
                            damaged[round] ^= 1;
                            let refused = put(&mut damaged.as_slice(), Some(crc32fast::hash(bytes)));
                            assert!(matches!(refused, Err(StoreError::PartDamaged { .. })), "{refused:?}");
                        }
                        if (part + round) % 3 == 0 {
                            let half = BufReader::new(Broken(&bytes[..PART_BYTES / 2]));
                            assert!(put(&mut { half }, None).is_err());
                        }
                        put(&mut &*bytes, Some(crc32fast::hash(bytes))).unwrap();
                        if round % 2 == 0 {
                            home.store.follow_upload(id, ann).unwrap();
                        }
                    }
                });
            }
        });
        // Nothing is said of the hash, so nothing but what was hashed on the way tells it.
        let object = home.store.complete_upload(&id, &Expected::Any(LogFormat::Eval), &ann).unwrap();
        assert_eq!(object.log.hash, LogHasher::hash(&log), "round {round}");
    }
}

#[test]
fn files_of_uploads_that_are_not_known_are_leftovers() {
    let home = Home::new();
    home.at(0).begin_upload(&UploadOf::Key(key("a.eval")), 3, &Actor::local()).unwrap();
    std::fs::create_dir_all(home.folder.path().join("uploads")).unwrap();
    std::fs::write(home.folder.path().join("uploads/put-x"), b"abc").unwrap();
    let report = home.store.check(false, &mut |_| ()).unwrap();
    assert_eq!(report.findings.iter().map(|f| f.kind).collect::<Vec<_>>(), [FindingKind::TemporaryFile]);
    assert!(report.is_sound());
    assert_eq!(kinds(&gc(&home.store, false)), [GcKind::Upload]);
    assert_eq!(home.files("uploads"), 0);
}

#[test]
fn a_damaged_uploaded_log_is_found() {
    let home = Home::new();
    put(home.at(0), "a.eval", b"some log");
    let object = home.store.object(&key("a.eval")).unwrap().unwrap();
    home.logs.set(home.folder.path(), &object.log, Some(b"some dog"));
    let report = home.store.check(false, &mut |_| ()).unwrap();
    assert_eq!(report.findings.iter().map(|f| f.kind).collect::<Vec<_>>(), [FindingKind::LogDamaged]);
}

#[test]
fn what_can_never_become_a_run_goes_when_it_is_refused() {
    let home = Home::new();
    let store = home.at(0);
    let (ann, bob) = (Actor { user: Some("ann".to_owned()), ..Actor::local() }, Actor::local());
    let send = |bytes: &[u8]| {
        store.put_object(&key("r.eval"), bytes.len() as u64, &mut &*bytes, &ann).unwrap();
    };
    let register = |actor: &Actor| {
        let header = Some(serde_json::json!({"run_id": "r", "name": "r"}));
        let batch = Registration { header, bucket: "ct".to_owned(), ..Registration::default() };
        store.register(batch, actor).unwrap_err()
    };
    send(b"sent");
    let refused = register(&ann);
    assert!(matches!(refused, StoreError::Invalid { .. }), "{refused}");
    assert!(store.object(&key("r.eval")).unwrap().is_some(), "it may be repaired");

    // Meanwhile someone makes a run of this id of another log, and deletes it.
    let mut ingest = store.begin_ingest().unwrap();
    let log = ingest.stage_log(&mut &b"made"[..], LogFormat::Eval, &mut |_| ()).unwrap();
    let mut run = new_run(&draft("r", 0), log);
    run.run_id = "r".parse().unwrap();
    assert!(matches!(ingest.commit(run, CommitMode::New).unwrap(), Committed::Created(_)));
    store.delete_run(&"r".parse().unwrap(), &bob).unwrap();
    for actor in [&bob, &ann, &ann] {
        let kept = actor.user.is_none();
        let refused = register(actor);
        assert!(matches!(refused, StoreError::Conflict(Conflict::RunDeleted { .. })), "{refused}");
        assert_eq!(store.object(&key("r.eval")).unwrap().is_some(), kept, "{actor:?}");
    }
    // Its bytes go with the next collection, and those of the run stay.
    let report = gc(store, false);
    assert_eq!((kinds(&report), report.size_bytes()), (vec![GcKind::Log], 4));
    assert!(store.check(false, &mut |_| ()).unwrap().findings.is_empty());
}
