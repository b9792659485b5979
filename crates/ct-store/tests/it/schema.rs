//! Opening data folders.

use std::fs;
use std::ops::ControlFlow;
use std::thread;

use ct_model::{RunEdit, RunQuery, TrajectoryQuery, TrajectoryRow, TrajectorySort};
use ct_store::{Actor, Store, StoreError};
use rusqlite::Connection;
use serde_json::json;

use crate::support::{Home, Logs, draft};

#[test]
fn a_newer_schema_is_refused_with_both_versions() {
    let home = Home::new();
    home.add(&draft("kept", 1));
    let database = home.path().join("ct.sqlite");
    Connection::open(&database).unwrap().pragma_update(None, "user_version", 77).unwrap();
    let Err(error) = home.logs.try_open(home.path()) else { panic!("it was opened") };
    assert!(matches!(error, StoreError::NewerSchema { found: 77, supported: 7, .. }), "{error:?}");
    let message = error.to_string();
    assert!(
        message.contains("77") && message.contains("versions up to 7") && message.contains("newer ct"),
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

/// `tests/data/schema-4.sqlite` was written by the version that knew schema 4, of the same log.
#[test]
fn a_database_of_schema_4_knows_models_authors_and_numbers_of_its_trajectories() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("ct.sqlite"), include_bytes!("../data/schema-4.sqlite")).unwrap();
    let store = Store::open(folder.path()).unwrap();
    let found = |query: TrajectoryQuery| store.trajectories(&query).unwrap().items;
    let word = |text: &str| vec![text.to_owned()];
    let all = found(TrajectoryQuery::default());
    assert_eq!(all.len(), 6);
    let by_author =
        TrajectoryQuery { author: word("claude-haiku-4-5-20251001"), ..TrajectoryQuery::default() };
    assert_eq!(found(by_author).len(), 6);
    let by_model = TrajectoryQuery { model: word("claude-haiku-4-5-20251001"), ..TrajectoryQuery::default() };
    assert_eq!(found(by_model).len(), 6);
    let by_policy = TrajectoryQuery { policy: word("attack"), ..TrajectoryQuery::default() };
    assert_eq!(found(by_policy).len(), 6);
    for sort in [TrajectorySort::Cost, TrajectorySort::Duration, TrajectorySort::Suspicion] {
        let sorted = found(TrajectoryQuery { sort, ..TrajectoryQuery::default() });
        let number = |row: &TrajectoryRow| match sort {
            TrajectorySort::Cost => row.cost_usd,
            TrajectorySort::Duration => row.duration_ms.map(|ms| ms as f64),
            _ => row.max_suspicion_score,
        };
        assert!(
            sorted.iter().all(|row| number(row).is_some_and(|number| number > 0.0)),
            "{sort}: {sorted:?}"
        );
        assert!(sorted.is_sorted_by(|a, b| number(a) >= number(b)), "{sort}");
    }
    let numbers = store.trajectory_numbers(&all[0].run_id).unwrap();
    assert!(numbers.len() == 6 && numbers.iter().all(|one| one.cost_usd.is_some_and(|cost| cost > 0.0)));
    // The log is not there, which is all that is wrong.
    let findings = store.check(false, &mut |_| ()).unwrap().findings;
    assert!(findings.iter().all(|found| found.kind == ct_store::FindingKind::LogMissing), "{findings:?}");
}

#[test]
fn what_is_no_database_is_said_to_be_damaged() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("ct.sqlite"), "this is no database, whatever its name says. ".repeat(99))
        .unwrap();
    let Err(error) = Logs::new().try_open(folder.path()) else { panic!("it was opened") };
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let Err(error) = Logs::new().try_open(&file.join("below")) else { panic!("it was opened") };
    assert!(matches!(&error, StoreError::Io { path, .. } if path.ends_with("below")), "{error:?}");
}

#[test]
#[cfg(unix)]
fn a_new_folder_is_for_its_owner_alone_and_an_old_one_stays_as_it_is() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let (new, old) = (folder.path().join("parent/new"), folder.path().join("old"));
    fs::create_dir(&old).unwrap();
    fs::set_permissions(&old, fs::Permissions::from_mode(0o750)).unwrap();
    let mode = |path: &std::path::Path| {
        drop(Store::open(path).unwrap());
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    };
    assert_eq!((mode(&new), mode(&new), mode(&old)), (0o700, 0o700, 0o750));
}

#[test]
fn many_can_make_and_open_a_folder_at_once() {
    for _ in 0..5 {
        let (folder, logs) = (tempfile::tempdir().unwrap(), Logs::new());
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let store = logs.try_open(folder.path()).unwrap();
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

fn tables(database: &Connection) -> Vec<String> {
    let mut find = database
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        .unwrap();
    find.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
}

fn indexes(database: &Connection) -> Vec<String> {
    let mut find =
        database.prepare("SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL").unwrap();
    find.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
}

fn columns(database: &Connection, table: &str) -> Vec<String> {
    let mut find = database.prepare("SELECT name FROM pragma_table_info(?)").unwrap();
    find.query_map([table], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
}

/// Makes a database as the first version of this program left it.
fn take_back_to_schema_1(database: &Connection) {
    let first = Connection::open_in_memory().unwrap();
    first.execute_batch(include_str!("../../src/meta/sqlite/migrations/0001.sql")).unwrap();
    database.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
    let kept = tables(&first);
    for index in indexes(database).iter().filter(|index| !indexes(&first).contains(index)) {
        database.execute_batch(&format!("DROP INDEX {index}")).unwrap();
    }
    for table in tables(database) {
        if !kept.contains(&table) {
            database.execute_batch(&format!("DROP TABLE {table}")).unwrap();
            continue;
        }
        let kept = columns(&first, &table);
        for column in columns(database, &table).iter().filter(|column| !kept.contains(column)) {
            database.execute_batch(&format!("ALTER TABLE {table} DROP COLUMN {column}")).unwrap();
        }
    }
    database
        .execute_batch(
            "DELETE FROM postings WHERE piece / 16777216 IN \
                 (SELECT facet_id FROM facets WHERE kind = 'trajectory.dataset'); \
             DELETE FROM facets WHERE kind = 'trajectory.dataset'; PRAGMA user_version = 1",
        )
        .unwrap();
}

#[test]
fn dataset_labels_of_a_database_of_schema_1_are_found() {
    let home = Home::new();
    home.add(&draft("plain", 1));
    home.add(&draft("labelled", 2).header(json!({"dataset": "held out"})));
    let edited = home.add(&draft("edited", 1).header(json!({"dataset": "held out"})));
    let cleared = home.add(&draft("cleared", 1).header(json!({"dataset": "held out"})));
    let label =
        |label: Option<&str>| RunEdit { dataset: Some(label.map(str::to_owned)), ..RunEdit::default() };
    home.store.edit_run(&edited, &label(Some("other")), &Actor::local()).unwrap();
    home.store.edit_run(&cleared, &label(None), &Actor::local()).unwrap();
    take_back_to_schema_1(&Connection::open(home.path().join("ct.sqlite")).unwrap());

    let store = home.open();
    let found = |label: &str| {
        let query = TrajectoryQuery { dataset: vec![label.to_owned()], ..TrajectoryQuery::default() };
        let ids = store.trajectory_ids(&query).unwrap().items;
        ids.into_iter().map(String::from).collect::<Vec<_>>().join(" ")
    };
    assert_eq!((found("held out").as_str(), found("other").as_str()), ("labelled-0 labelled-1", "edited-0"));
    assert_eq!(store.runs(&RunQuery::default()).unwrap().total_count, 4);
    assert_eq!(store.check(false, &mut |_| ()).unwrap().findings, []);
}
