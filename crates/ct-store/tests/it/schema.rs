//! Opening data folders.

use std::fs;
use std::ops::ControlFlow;
use std::thread;

use ct_model::{RunEdit, RunQuery};
use ct_store::{Actor, Store, StoreError};
use rusqlite::Connection;

use crate::support::{Home, draft};

#[test]
fn a_newer_schema_is_refused_with_both_versions() {
    let home = Home::new();
    home.add(&draft("kept", 1));
    let database = home.path().join("ct.sqlite");
    Connection::open(&database).unwrap().pragma_update(None, "user_version", 77).unwrap();
    let Err(error) = Store::open(home.path()) else { panic!("it was opened") };
    assert!(matches!(error, StoreError::NewerSchema { found: 77, supported: 2, .. }), "{error:?}");
    let message = error.to_string();
    assert!(
        message.contains("77") && message.contains("versions up to 2") && message.contains("newer ct"),
        "{message}"
    );
    let left: i64 = Connection::open(&database)
        .unwrap()
        .query_row("SELECT count(*) FROM runs", [], |row| row.get(0))
        .unwrap();
    assert_eq!(left, 1);
}

/// `tests/data/schema-1.sqlite` was written by the version that knew schema 1, of the log `ct-11.eval`.
#[test]
fn a_database_of_schema_1_is_brought_up_to_date_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("ct.sqlite");
    fs::write(&database, include_bytes!("../data/schema-1.sqlite")).unwrap();
    let store = Store::open(folder.path()).unwrap();
    let page = store.runs(&RunQuery { tags: vec!["v1".to_owned()], ..RunQuery::default() }).unwrap();
    let [row] = &page.items[..] else { panic!("{page:?}") };
    assert_eq!((row.name.as_str(), row.trajectory_count), ("synthetic attack 11", 6));
    let mut read = 0;
    store
        .documents(&row.run_id, &mut |document| {
            read += document.number_of_actions;
            ControlFlow::Continue(())
        })
        .unwrap();
    assert!(read > 0);
    let edit = RunEdit { name: Some("new".to_owned()), ..RunEdit::default() };
    store.edit_run(&row.run_id, &edit, &Actor::local()).unwrap();
    drop(store);
    assert_eq!(Store::open(folder.path()).unwrap().run(&row.run_id).unwrap().header.name, "new");
}

#[test]
fn what_is_no_database_is_said_to_be_damaged() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("ct.sqlite"), "this is no database, whatever its name says. ".repeat(99))
        .unwrap();
    let Err(error) = Store::open(folder.path()) else { panic!("it was opened") };
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let Err(error) = Store::open(&file.join("below")) else { panic!("it was opened") };
    assert!(matches!(&error, StoreError::Io { path, .. } if path.ends_with("below")), "{error:?}");
}

#[test]
fn many_can_make_and_open_a_folder_at_once() {
    for _ in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let store = Store::open(folder.path()).unwrap();
                    assert_eq!(store.runs(&RunQuery::default()).unwrap().total_count, 0);
                });
            }
        });
    }
}

#[test]
fn the_database_is_safe_against_power_cuts_and_readers_do_not_wait() {
    let home = Home::new();
    home.add(&draft("first", 1));
    let database = Connection::open(home.path().join("ct.sqlite")).unwrap();
    let mode: String = database.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal");
    // Another process is in the middle of a write.
    database.execute_batch("BEGIN IMMEDIATE; UPDATE runs SET name = 'half done'").unwrap();
    assert_eq!(home.store.runs(&RunQuery::default()).unwrap().items[0].name, "first");
}
