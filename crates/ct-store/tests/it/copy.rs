//! Copies of a store, whole or not at all.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ct_model::{RunEdit, RunQuery};
use ct_store::{Actor, CommitMode, CopyReport, LogPlace, Store, StoreError};
use jiff::Timestamp;
use tempfile::TempDir;

use crate::support::{Draft, Home, Logs, add, draft, path_of};

/// A log of so many bytes.
fn large(name: &str, size_bytes: usize) -> Draft {
    let mut draft = draft(name, 2);
    draft.bytes = draft.bytes.iter().copied().cycle().take(size_bytes).collect();
    draft
}

fn copy(home: &Home, to: &Path) -> Result<CopyReport, StoreError> {
    home.store.copy_to(to, LogPlace::Folder, &|_| ())
}

#[test]
fn a_copy_has_everything_and_is_a_store_of_its_own() {
    let home = Home::new();
    let runs =
        [home.add(&draft("first", 3)), home.add(&large("second", 3 << 20)), home.add(&draft("gone", 1))];
    home.store.delete_run(&runs[2], &Actor::local()).unwrap();
    let edit = RunEdit { name: Some("mine".to_owned()), ..RunEdit::default() };
    home.store.edit_run(&runs[0], &edit, &Actor::local()).unwrap();
    let folder = TempDir::new().unwrap();
    let told = AtomicU64::new(0);
    let report = home
        .store
        .copy_to(&folder.path().join("copy"), LogPlace::Folder, &|at| {
            told.fetch_max(at.bytes_done, Ordering::Relaxed);
            assert!(at.bytes_done <= at.bytes_total);
        })
        .unwrap();
    assert_eq!((report.runs, report.copied, report.there_already), (3, 3, 0));
    assert_eq!((report.failures, report.copied_bytes), (vec![], told.into_inner()));
    let copied = Store::open(&folder.path().join("copy")).unwrap();
    assert_eq!(copied.run(&runs[0]).unwrap(), home.store.run(&runs[0]).unwrap());
    assert_eq!(copied.runs(&RunQuery::default()).unwrap().total_count, 2);
    let checked = copied.check(false, &mut |_| ()).unwrap();
    assert_eq!((checked.logs, checked.findings), (3, vec![]));
}

#[test]
fn a_copy_goes_on_and_takes_what_is_new() {
    let home = Home::new();
    let first = home.add(&draft("first", 1));
    let folder = TempDir::new().unwrap();
    copy(&home, folder.path()).unwrap();
    let report = copy(&home, folder.path()).unwrap();
    assert_eq!((report.copied, report.there_already), (0, 1));
    // What another attempt left is gone on with: a log that is there, and files of its work.
    std::fs::remove_file(folder.path().join("ct.sqlite")).unwrap();
    std::fs::create_dir_all(folder.path().join("tmp")).unwrap();
    std::fs::write(folder.path().join("tmp/ct.sqlite"), "half a database").unwrap();
    let second = home.add(&draft("second", 1));
    home.store.delete_run(&first, &Actor::local()).unwrap();
    let report = copy(&home, folder.path()).unwrap();
    assert_eq!((report.runs, report.copied, report.there_already), (2, 1, 1));
    let copied = Store::open(folder.path()).unwrap();
    assert_eq!(copied.run(&second).unwrap(), home.store.run(&second).unwrap());
    assert!(copied.run(&first).unwrap().deleted_at.is_some());
    assert_eq!(copied.check(false, &mut |_| ()).unwrap().findings, []);
}

#[test]
fn what_is_no_older_copy_is_left_alone() {
    let home = Home::new();
    home.add(&draft("first", 1));
    let other = TempDir::new().unwrap();
    let store = Store::open(other.path()).unwrap();
    let own = add(&store, &draft("own", 1), CommitMode::New).unwrap();
    drop(store);
    assert!(matches!(copy(&home, other.path()), Err(StoreError::OtherStore { .. })));
    let folder = TempDir::new().unwrap();
    copy(&home, folder.path()).unwrap();
    let store = Store::open(folder.path()).unwrap();
    add(&store, &draft("changed", 1), CommitMode::New).unwrap();
    drop(store);
    home.add(&draft("second", 1));
    assert!(matches!(copy(&home, folder.path()), Err(StoreError::OtherStore { .. })));
    let store = Store::open(folder.path()).unwrap();
    assert_eq!(store.runs(&RunQuery::default()).unwrap().total_count, 2);
    let store = Store::open(other.path()).unwrap();
    assert!(matches!(own, ct_store::Committed::Created(id) if store.run(&id).is_ok()));
    assert!(matches!(copy(&home, home.path()), Err(StoreError::Invalid { .. })));
}

#[test]
fn a_damaged_log_costs_only_itself() {
    let home = Home::new();
    let sick = home.log_of(&home.add(&draft("sick", 1)));
    let well = home.log_of(&home.add(&draft("well", 1)));
    home.set_log(&sick, Some(&vec![b'x'; usize::try_from(sick.size_bytes).unwrap()]));
    let folder = TempDir::new().unwrap();
    let report = copy(&home, folder.path()).unwrap();
    assert_eq!((report.runs, report.copied, report.failures.len()), (2, 1, 1));
    assert!(report.failures[0].reason.contains("SHA-256"), "{report:?}");
    assert!(!folder.path().join(path_of(&sick)).exists() && folder.path().join(path_of(&well)).exists());
    home.set_log(&sick, None);
    let report = copy(&home, folder.path()).unwrap();
    assert_eq!((report.there_already, report.failures.len()), (1, 1), "{report:?}");
}

/// In the suite of buckets this goes from one to a folder and back to another.
#[test]
fn a_store_goes_from_place_to_place_and_back() {
    let home = Home::new();
    let runs = [home.add(&draft("small", 2)), home.add(&large("large", 9 << 20))];
    let (folder, back) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    copy(&home, folder.path()).unwrap();
    let middle = Store::open(folder.path()).unwrap();
    let place = Logs::new();
    middle.copy_to(back.path(), place.place(), &|_| ()).unwrap();
    let last = place.open(back.path(), Arc::new(Timestamp::now));
    for run in &runs {
        assert_eq!(last.run(run).unwrap(), home.store.run(run).unwrap());
    }
    let checked = last.check(false, &mut |_| ()).unwrap();
    assert_eq!((checked.logs, checked.findings), (2, vec![]));
    drop(last);
    assert_eq!(middle.copy_to(back.path(), place.place(), &|_| ()).unwrap().there_already, 2);
}

#[test]
fn a_store_that_is_written_to_meanwhile_gives_one_moment_of_it() {
    let home = Home::new();
    for number in 0..4 {
        home.add(&draft(&format!("before-{number}"), 2));
    }
    let folder = TempDir::new().unwrap();
    std::thread::scope(|scope| {
        let store = home.open();
        scope.spawn(move || {
            for number in 0..20 {
                add(&store, &draft(&format!("during-{number}"), 2), CommitMode::New).unwrap();
            }
        });
        for _ in 0..3 {
            copy(&home, folder.path()).unwrap();
            let copied = Store::open(folder.path()).unwrap();
            let checked = copied.check(false, &mut |_| ()).unwrap();
            assert!(checked.is_sound() && checked.runs >= 4, "{checked:?}");
        }
    });
}

#[test]
fn a_backup_in_one_file_is_restored_to_what_the_store_was() {
    let home = Home::new();
    let runs = [home.add(&draft("small", 2)), home.add(&large("large", 9 << 20))];
    home.store.delete_run(&runs[0], &Actor::local()).unwrap();
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("backup.zip");
    let told = AtomicU64::new(0);
    let report = home.store.back_up_to(&file, &|at| told.store(at.bytes_done, Ordering::Relaxed)).unwrap();
    assert_eq!((report.runs, report.copied, report.failures.len()), (2, 2, 0));
    assert_eq!(report.copied_bytes, told.into_inner());
    let names = |folder: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    assert_eq!(names(folder.path()), ["backup.zip"], "nothing is left beside it");

    // What came later is not in it; into a folder, and into a bucket in the suite of buckets.
    home.add(&draft("later", 1));
    let restored = TempDir::new().unwrap();
    let place = Logs::new();
    let restore = |file: &Path, to: &Path| Store::restore_from(file, to, place.place(), &|_| ());
    assert_eq!(restore(&file, restored.path()).unwrap().copied, 2);
    let store = place.try_open(restored.path()).unwrap();
    let run = store.run(&runs[1]).unwrap();
    assert_eq!(run.log, home.log_of(&runs[1]));
    assert!(store.run(&runs[0]).unwrap().deleted_at.is_some());
    let checked = store.check(false, &mut |_| ()).unwrap();
    assert_eq!((checked.logs, checked.runs, checked.findings), (2, 2, vec![]));
    drop(store);
    // A later one, over the earlier state; and none over what is newer or another's.
    home.store.back_up_to(&file, &|_| ()).unwrap();
    let report = restore(&file, restored.path()).unwrap();
    assert_eq!((report.runs, report.copied, report.there_already), (3, 1, 2));
    add(&place.try_open(restored.path()).unwrap(), &draft("own", 1), CommitMode::New).unwrap();
    assert!(matches!(restore(&file, restored.path()), Err(StoreError::OtherStore { .. })));
    assert_eq!(place.try_open(restored.path()).unwrap().totals().unwrap().runs, 4);
}

#[test]
fn a_backup_file_that_is_not_whole_is_refused_and_a_damaged_log_is_told() {
    let home = Home::new();
    let sick = home.log_of(&home.add(&large("sick", 3 << 20)));
    home.add(&large("well", 2 << 20));
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("backup.zip");
    home.store.back_up_to(&file, &|_| ()).unwrap();
    let whole = std::fs::read(&file).unwrap();
    let restore = |bytes: &[u8]| {
        let (file, to) = (folder.path().join("other.zip"), TempDir::new().unwrap());
        std::fs::write(&file, bytes).unwrap();
        let report = Store::restore_from(&file, to.path(), LogPlace::Folder, &|_| ());
        (report, to)
    };
    for cut in [0, 1000, 4 << 20, whole.len() - 100] {
        let (report, to) = restore(&whole[..cut]);
        assert!(matches!(report, Err(StoreError::Corrupt { .. })), "{cut}: {report:?}");
        assert!(!to.path().join("ct.sqlite").exists());
    }
    // A byte of a log costs that log, in a file as in a store.
    let name = format!("{}.eval", sick.hash);
    let at = whole.windows(name.len()).position(|bytes| bytes == name.as_bytes()).unwrap();
    let mut bytes = whole.clone();
    bytes[at + 100_000] ^= 1;
    let (report, to) = restore(&bytes);
    let report = report.unwrap();
    assert_eq!((report.copied, report.failures.len()), (1, 1), "{report:?}");
    assert!(report.failures[0].log.contains(&name), "{report:?}");
    assert!(!to.path().join(path_of(&sick)).exists());
    home.set_log(&sick, Some(&vec![b'x'; usize::try_from(sick.size_bytes).unwrap()]));
    let report = home.store.back_up_to(&file, &|_| ()).unwrap();
    assert_eq!((report.copied, report.failures.len()), (1, 1), "{report:?}");
}
