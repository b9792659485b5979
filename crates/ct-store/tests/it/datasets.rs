//! Versioned datasets, and lists filtered by them.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;

use ct_model::{
    DatasetEdit, DatasetKind, DatasetName, DatasetQuery, DatasetVersion, DatasetVersionQuery, RunEdit, RunId,
    TrajectoryQuery,
};
use ct_store::{Actor, CommitMode, Conflict, GcOptions, StoreError};
use proptest::prelude::*;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::{Home, add, draft, second};

fn name(text: &str) -> DatasetName {
    DatasetName::new(text).unwrap()
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn publish(ids: &str) -> DatasetEdit {
    DatasetEdit { item_ids: Some(words(ids)), ..DatasetEdit::default() }
}

fn plus(ids: &str) -> DatasetEdit {
    DatasetEdit { add: Some(words(ids)), ..DatasetEdit::default() }
}

fn minus(ids: &str) -> DatasetEdit {
    DatasetEdit { remove: Some(words(ids)), ..DatasetEdit::default() }
}

fn ada() -> Actor {
    Actor { user: Some("ada".to_owned()), token_id: Some("t1".to_owned()), origin: "192.0.2.1".to_owned() }
}

fn edit(home: &Home, dataset: &str, edit: &DatasetEdit) -> String {
    match home.store.edit_dataset(&name(dataset), edit, &ada()) {
        Ok(change) => format!(
            "{}v{} of {} +{} ={} -{} ?{}",
            if change.changed { "" } else { "still " },
            change.version,
            change.item_count,
            change.added.join(" "),
            change.already_present.join(" "),
            change.removed.join(" "),
            change.not_found.join(" "),
        ),
        Err(error) => error.to_string(),
    }
}

fn version(home: &Home, dataset: &str, version: Option<u64>) -> DatasetVersion {
    home.store.dataset(&name(dataset), version).unwrap()
}

fn items(home: &Home, dataset: &str, which: Option<u64>) -> String {
    let found = version(home, dataset, which);
    let ids = found.item_ids.unwrap();
    assert_eq!(found.item_count, ids.len() as u64);
    ids.join(" ")
}

/// What a list of trajectories has, sorted.
fn listed(home: &Home, dataset: &str, version: Option<u64>) -> String {
    let query = TrajectoryQuery {
        versioned_dataset: Some(name(dataset)),
        versioned_dataset_version: version,
        ..TrajectoryQuery::default()
    };
    let page = home.store.trajectory_ids(&query).unwrap();
    assert_eq!(page.total_count, page.items.len() as u64);
    let ids: BTreeSet<String> = page.items.into_iter().map(String::from).collect();
    ids.into_iter().collect::<Vec<_>>().join(" ")
}

fn sound(home: &Home) {
    assert_eq!(home.store.check(false, &mut |_| ()).unwrap().findings, []);
}

fn purge(home: &Home) {
    home.store.gc(GcOptions { dry_run: false, purge_deleted_before: Some(second(1_000_000)) }).unwrap();
}

fn audit(home: &Home) -> Vec<String> {
    let database = Connection::open(home.path().join("ct.sqlite")).unwrap();
    let mut find = database
        .prepare("SELECT actor, origin, action, subject, detail FROM audit WHERE action LIKE 'dataset.%' ORDER BY audit_id")
        .unwrap();
    let rows = find.query_map([], |row| {
        let text = |column| row.get::<_, Option<String>>(column).map(Option::unwrap_or_default);
        Ok([text(0)?, text(1)?, text(2)?, text(3)?, text(4)?].join(" "))
    });
    rows.unwrap().collect::<Result<_, _>>().unwrap()
}

#[test]
fn versions_are_made_and_stay_as_they_are() {
    let home = Home::new();
    home.add(&draft("a", 5));
    let described = DatasetEdit { description: Some("first".to_owned()), ..publish("a-3 a-1 a-3") };
    assert_eq!(edit(&home, "d", &described), "v1 of 2 +a-3 a-1 = - ?");
    assert_eq!(edit(&home, "d", &plus("a-0 a-1")), "v2 of 3 +a-0 =a-1 - ?");
    assert_eq!(edit(&home, "d", &minus("a-3 a-4")), "v3 of 2 + = -a-3 ?a-4");
    assert_eq!(edit(&home, "d", &plus("a-3")), "v4 of 3 +a-3 = - ?");
    assert_eq!(edit(&home, "d", &plus("a-3 a-1")), "still v4 of 3 + =a-3 a-1 - ?");
    assert_eq!(edit(&home, "d", &minus("a-4")), "still v4 of 3 + = - ?a-4");
    assert_eq!(edit(&home, "d", &publish("a-1 a-0 a-3")), "still v4 of 3 + =a-1 a-0 a-3 - ?");
    assert_eq!(edit(&home, "d", &publish("a-0 a-1 a-3")), "v5 of 3 + =a-0 a-1 a-3 - ?");
    assert_eq!(edit(&home, "d", &minus("a-0 a-1 a-3")), "v6 of 0 + = -a-0 a-1 a-3 ?");
    for (which, expected) in [
        (Some(1), "a-3 a-1"),
        (Some(2), "a-3 a-1 a-0"),
        (Some(3), "a-1 a-0"),
        (Some(4), "a-1 a-0 a-3"),
        (Some(5), "a-0 a-1 a-3"),
        (Some(6), ""),
        (None, ""),
    ] {
        assert_eq!(items(&home, "d", which), expected, "{which:?}");
        let mut sorted = words(expected);
        sorted.sort();
        assert_eq!(listed(&home, "d", which), sorted.join(" "), "{which:?}");
    }
    let first = version(&home, "d", Some(1));
    assert_eq!(first.description.as_deref(), Some("first"));
    assert_eq!(first.created_by.as_deref(), Some("ada"));
    assert_eq!(version(&home, "d", Some(2)).description, None);
    for missing in [0, 7, u64::MAX] {
        let error = home.store.dataset(&name("d"), Some(missing)).unwrap_err();
        assert_eq!(error.to_string(), format!("version {missing} of dataset d was not found"));
    }
    assert_eq!(home.store.dataset(&name("e"), None).unwrap_err().to_string(), "dataset e was not found");
    assert_eq!(audit(&home).len(), 6);
    assert_eq!(
        audit(&home)[2],
        r#"ada 192.0.2.1 dataset.edit dataset d {"version":3,"items":2,"added":0,"removed":1}"#
    );
    let database = Connection::open(home.path().join("ct.sqlite")).unwrap();
    for write in ["UPDATE dataset_versions SET item_count = 9", "DELETE FROM dataset_versions"] {
        let error = database.execute(write, []).unwrap_err().to_string();
        assert_eq!(error, "a version of a dataset never changes");
    }
    sound(&home);
}

#[test]
fn only_what_exists_and_is_not_deleted_comes_in() {
    let home = Home::new();
    let (run, kept) = (home.add(&draft("a", 2)), home.add(&draft("b", 1)));
    assert_eq!(edit(&home, "d", &publish("a-0 b-0")), "v1 of 2 +a-0 b-0 = - ?");
    assert_eq!(edit(&home, "e", &publish("x b-0 ../y")), "2 ids named no trajectory: x, ../y");
    assert!(home.store.dataset(&name("e"), None).is_err());
    home.store.delete_run(&run, &ada()).unwrap();
    assert_eq!(
        edit(&home, "d", &plus("a-1 nothing")),
        "1 id named no trajectory: nothing; 1 id of a deleted run, restore the run first: a-1"
    );
    // What is in stays in, and is not listed while it is deleted.
    assert_eq!(edit(&home, "d", &publish("b-0 a-0")), "v2 of 2 + =b-0 a-0 - ?");
    assert_eq!(listed(&home, "d", None), "b-0");
    assert_eq!(items(&home, "d", None), "b-0 a-0");

    let of_runs = |ids: &str| DatasetEdit { kind: Some(DatasetKind::Run), ..publish(ids) };
    assert_eq!(edit(&home, "r", &of_runs("b-0")), "1 id named no run: b-0");
    assert_eq!(
        edit(&home, "r", &of_runs(run.as_str())),
        format!("1 id of a deleted run, restore it first: {run}")
    );
    assert_eq!(edit(&home, "r", &of_runs(kept.as_str())), format!("v1 of 1 +{kept} = - ?"));
    assert_eq!(edit(&home, "r", &plus("b-0")), "1 id named no run: b-0");
    home.store.restore_run(&run, &ada()).unwrap();
    assert_eq!(edit(&home, "r", &plus(run.as_str())), format!("v2 of 2 +{run} = - ?"));
    assert_eq!(listed(&home, "d", None), "a-0 b-0");
    assert_eq!(listed(&home, "r", None), "a-0 a-1 b-0");
    assert_eq!(listed(&home, "r", Some(1)), "b-0");
    assert_eq!(edit(&home, "d", &of_runs("a-0")), "dataset d is a list of trajectories, not of runs");
    sound(&home);
}

#[test]
fn a_locked_dataset_takes_no_version_until_it_is_unlocked() {
    let home = Home::new();
    home.add(&draft("a", 3));
    edit(&home, "d", &publish("a-0"));
    let lock = home.store.lock_dataset(&name("d"), Some(" in the paper "), &ada()).unwrap();
    assert_eq!((lock.locked_by.as_deref(), lock.reason.as_deref()), (Some("ada"), Some("in the paper")));
    assert_eq!(version(&home, "d", None).lock, Some(lock.clone()));
    assert_eq!(home.store.datasets(&DatasetQuery::default()).unwrap().items[0].lock, Some(lock.clone()));
    for change in [publish("a-1"), plus("a-1"), minus("a-0"), plus("a-0")] {
        let error = home.store.edit_dataset(&name("d"), &change, &ada()).unwrap_err();
        assert!(matches!(&error, StoreError::Conflict(Conflict::DatasetLocked { .. })), "{error:?}");
        assert_eq!(error.to_string(), "dataset d is locked by ada (in the paper); unlock it first");
    }
    // Saying the same again is nothing new; saying something else is.
    assert_eq!(home.store.lock_dataset(&name("d"), Some("in the paper"), &ada()).unwrap(), lock);
    let local = home.store.lock_dataset(&name("d"), None, &Actor::local()).unwrap();
    assert_eq!((&local.locked_by, &local.reason), (&None, &None));
    assert_eq!(edit(&home, "d", &plus("a-1")), "dataset d is locked; unlock it first");
    assert!(home.store.unlock_dataset(&name("d"), &ada()).unwrap());
    assert!(!home.store.unlock_dataset(&name("d"), &ada()).unwrap());
    assert_eq!(edit(&home, "d", &plus("a-1")), "v2 of 2 +a-1 = - ?");
    let done: Vec<_> = audit(&home).iter().map(|row| row.split(' ').nth(2).unwrap().to_owned()).collect();
    assert_eq!(done, ["dataset.publish", "dataset.lock", "dataset.lock", "dataset.unlock", "dataset.edit"]);
    for error in [
        home.store.lock_dataset(&name("e"), None, &ada()).unwrap_err(),
        home.store.unlock_dataset(&name("e"), &ada()).unwrap_err(),
    ] {
        assert_eq!(error.to_string(), "dataset e was not found");
    }
    let long = "é".repeat(1001);
    let error = home.store.lock_dataset(&name("d"), Some(&long), &ada()).unwrap_err();
    assert!(matches!(error, StoreError::Invalid { .. }), "{error:?}");
}

#[test]
fn an_edit_of_a_version_that_passed_is_refused() {
    let home = Home::new();
    home.add(&draft("a", 3));
    let at = |version, edit| DatasetEdit { if_version: Some(version), ..edit };
    assert_eq!(edit(&home, "d", &at(0, publish("a-0"))), "v1 of 1 +a-0 = - ?");
    assert_eq!(edit(&home, "d", &at(1, plus("a-1"))), "v2 of 2 +a-1 = - ?");
    for stale in [at(1, plus("a-2")), at(1, minus("a-0")), at(1, publish("a-2"))] {
        let error = home.store.edit_dataset(&name("d"), &stale, &ada()).unwrap_err();
        assert_eq!(error.to_string(), "dataset d was changed meanwhile: it is at version 2, not 1");
    }
    assert_eq!(items(&home, "d", None), "a-0 a-1");
}

#[test]
fn edits_at_the_same_time_all_count() {
    let home = Home::new();
    home.add(&draft("a", 40));
    edit(&home, "d", &publish(""));
    thread::scope(|scope| {
        for worker in 0..4 {
            let home = &home;
            scope.spawn(move || {
                let store = home.open();
                for number in 0..10 {
                    let id = format!("a-{}", worker * 10 + number);
                    let change = store.edit_dataset(&name("d"), &plus(&id), &ada()).unwrap();
                    assert!(change.changed);
                }
            });
        }
    });
    let newest = version(&home, "d", None);
    assert_eq!((newest.version, newest.item_count), (41, 40));
    let mut last = BTreeSet::new();
    for which in 1..=41 {
        let ids: BTreeSet<String> = version(&home, "d", Some(which)).item_ids.unwrap().into_iter().collect();
        assert_eq!(ids.len() as u64, which - 1);
        assert!(ids.is_superset(&last));
        last = ids;
    }
    assert_eq!(audit(&home).len(), 41);
}

#[test]
fn lists_are_newest_first_and_in_pages() {
    let home = Home::new();
    let run = home.add(&draft("a", 3));
    for number in 0..5 {
        edit(&home, &format!("d{number}"), &publish("a-0"));
    }
    let of_runs = DatasetEdit { kind: Some(DatasetKind::Run), ..publish(run.as_str()) };
    edit(&home, "r", &of_runs);
    edit(&home, "d1", &plus("a-1 a-2"));
    let names = |query: &DatasetQuery| {
        let page = home.store.datasets(query).unwrap();
        let names: Vec<_> = page.items.iter().map(|dataset| dataset.name.to_string()).collect();
        (names.join(" "), page.total_count, page.next_cursor)
    };
    assert_eq!(names(&DatasetQuery::default()), ("r d4 d3 d2 d1 d0".to_owned(), 6, None));
    let kind = |kind| DatasetQuery { kind: Some(kind), ..DatasetQuery::default() };
    assert_eq!(names(&kind(DatasetKind::Run)), ("r".to_owned(), 1, None));
    assert_eq!(names(&kind(DatasetKind::Trajectory)), ("d4 d3 d2 d1 d0".to_owned(), 5, None));
    let mut query = DatasetQuery { limit: Some(2), ..kind(DatasetKind::Trajectory) };
    let (first, total, cursor) = names(&query);
    assert_eq!((first.as_str(), total), ("d4 d3", 5));
    edit(&home, "d9", &publish("a-1"));
    query.cursor = cursor;
    let (second, total, cursor) = names(&query);
    assert_eq!((second.as_str(), total), ("d2 d1", 6));
    query.cursor = cursor;
    assert_eq!(names(&query), ("d0".to_owned(), 6, None));
    let skipped = DatasetQuery { skip: 5, limit: Some(2), ..DatasetQuery::default() };
    assert_eq!(names(&skipped), ("d1 d0".to_owned(), 7, None));
    let foreign = DatasetQuery { cursor: Some(ct_model::Cursor::new("s-1")), ..DatasetQuery::default() };
    assert!(matches!(home.store.datasets(&foreign), Err(StoreError::Invalid { .. })));

    let listed = home.store.datasets(&DatasetQuery::default()).unwrap();
    let row = listed.items.iter().find(|dataset| dataset.name == name("d1")).unwrap();
    assert_eq!((row.latest_version, row.item_count, row.lock.clone()), (2, 3, None));
    assert!(row.created_at < row.updated_at);

    for number in 0..4 {
        let ids = if number % 2 == 0 { "a-1" } else { "a-0 a-1 a-2" };
        edit(&home, "d0", &publish(ids));
    }
    let versions = |query: &DatasetVersionQuery| {
        let page = home.store.dataset_versions(&name("d0"), query).unwrap();
        let told = page.items.iter().map(|version| {
            let ids = version.item_ids.as_ref().map(|ids| ids.join("+"));
            format!("{}/{}/{}", version.version, version.item_count, ids.unwrap_or_default())
        });
        (told.collect::<Vec<_>>().join(" "), page.total_count, page.next_cursor)
    };
    let mut query = DatasetVersionQuery::default();
    assert_eq!(versions(&query), ("5/3/ 4/1/ 3/3/ 2/1/ 1/1/".to_owned(), 5, None));
    query.item_ids_max = 4;
    assert_eq!(versions(&query).0, "5/3/a-0+a-1+a-2 4/1/a-1 3/3/ 2/1/ 1/1/");
    query.limit = Some(3);
    let (page, total, cursor) = versions(&query);
    assert_eq!((page.as_str(), total), ("5/3/a-0+a-1+a-2 4/1/a-1 3/3/", 5));
    query.cursor = cursor;
    assert_eq!(versions(&query), ("2/1/a-1 1/1/a-0".to_owned(), 5, None));
}

#[test]
fn many_edits_of_a_large_dataset_are_kept_small_and_read_back_whole() {
    let home = Home::new();
    home.add(&draft("a", 3000));
    let ids: Vec<String> = (0..3000).map(|number| format!("a-{number}")).collect();
    let mut expected = ids[..1500].to_vec();
    edit(&home, "d", &publish(&expected.join(" ")));
    let mut versions = vec![expected.clone()];
    for step in 0..7 {
        let (add, remove) =
            (&ids[1500 + step * 200..1700 + step * 200], ids[step * 100..step * 100 + 99].to_vec());
        let both =
            DatasetEdit { add: Some(add.to_vec()), remove: Some(remove.clone()), ..DatasetEdit::default() };
        home.store.edit_dataset(&name("d"), &both, &ada()).unwrap();
        expected.retain(|id| !remove.contains(id));
        expected.extend(add.iter().cloned());
        versions.push(expected.clone());
    }
    for (number, expected) in (1..).zip(&versions) {
        assert_eq!(version(&home, "d", Some(number)).item_ids.as_ref(), Some(expected), "{number}");
        let sorted: BTreeSet<&str> = expected.iter().map(String::as_str).collect();
        assert_eq!(listed(&home, "d", Some(number)), sorted.into_iter().collect::<Vec<_>>().join(" "));
    }
    let database = Connection::open(home.path().join("ct.sqlite")).unwrap();
    let whole: Vec<i64> = database
        .prepare("SELECT version FROM dataset_versions WHERE items IS NOT NULL ORDER BY version")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(whole, [1, 5]);
    sound(&home);
}

#[test]
fn a_trajectory_that_was_removed_and_comes_back_is_in_its_datasets_again() {
    let home = Home::new();
    let first = draft("a", 4);
    let run = home.add(&first);
    home.add(&draft("b", 1));
    edit(&home, "d", &publish("a-0 a-1 b-0"));
    edit(&home, "d", &plus("a-2"));
    edit(&home, "e", &publish("a-3"));
    home.store.delete_run(&run, &ada()).unwrap();
    purge(&home);
    sound(&home);
    assert_eq!(listed(&home, "d", None), "b-0");
    assert_eq!(items(&home, "d", None), "a-0 a-1 b-0 a-2");
    // A whole version made while they are away has them as well.
    assert_eq!(edit(&home, "d", &publish("a-2 a-1 b-0")), "v3 of 3 + =a-2 a-1 b-0 -a-0 ?");
    sound(&home);
    home.add(&first);
    for (which, expected) in [(1, "a-0 a-1 b-0"), (2, "a-0 a-1 a-2 b-0"), (3, "a-1 a-2 b-0")] {
        assert_eq!(listed(&home, "d", Some(which)), expected);
    }
    assert_eq!(listed(&home, "e", None), "a-3");
    sound(&home);

    // A log that takes the place of another may lack some, and a third may have them again.
    let mut second = draft("a", 4);
    second.bytes = b"another log of a".to_vec();
    second.documents.remove(1);
    assert!(add(&home.store, &second, CommitMode::Replace(run.clone())).is_ok());
    assert_eq!(listed(&home, "d", Some(1)), "a-0 b-0");
    sound(&home);
    let mut third = draft("a", 4);
    third.bytes = b"a third log of a".to_vec();
    assert!(add(&home.store, &third, CommitMode::Replace(run)).is_ok());
    assert_eq!(listed(&home, "d", Some(1)), "a-0 a-1 b-0");
    sound(&home);
}

#[test]
fn a_broken_index_of_datasets_is_found_and_made_again() {
    let home = Home::new();
    let run = home.add(&draft("a", 3));
    home.add(&draft("b", 1));
    edit(&home, "d", &publish("a-0 a-2 b-0"));
    home.store.delete_run(&run, &ada()).unwrap();
    purge(&home);
    for write in [
        "DELETE FROM dataset_absent",
        "INSERT INTO dataset_absent SELECT 'b-0', version_id FROM dataset_versions",
        "DELETE FROM postings WHERE piece / 16777216 IN \
             (SELECT facet_id FROM facets WHERE kind = 'trajectory.dataset_version')",
    ] {
        let database = Connection::open(home.path().join("ct.sqlite")).unwrap();
        assert!(database.execute(write, []).unwrap() > 0, "{write}");
        drop(database);
        assert!(!home.store.check(false, &mut |_| ()).unwrap().is_sound(), "{write}");
        assert!(home.store.check(true, &mut |_| ()).unwrap().is_sound(), "{write}");
        sound(&home);
    }
    assert_eq!(listed(&home, "d", None), "b-0");
    home.add(&draft("a", 3));
    assert_eq!(listed(&home, "d", None), "a-0 a-2 b-0");
}

#[test]
fn dataset_labels_of_runs_and_trajectories_are_filtered_by() {
    let home = Home::new();
    let run =
        home.add(&draft("a", 2).header(json!({"dataset": "held out"})).one(1, json!({"datasets": ["own"]})));
    home.add(&draft("b", 1));
    let found = |labels: &[&str]| {
        let dataset = labels.iter().map(|label| (*label).to_owned()).collect();
        let query = TrajectoryQuery { dataset, ..TrajectoryQuery::default() };
        let ids = home.store.trajectory_ids(&query).unwrap().items;
        ids.into_iter().map(String::from).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(found(&["held out"]), "a-0 a-1");
    assert_eq!(found(&["own"]), "a-1");
    assert_eq!(found(&["own", "none"]), "a-1");
    assert_eq!(found(&["held"]), "");
    let label = |text: Option<&str>| RunEdit { dataset: Some(text.map(str::to_owned)), ..RunEdit::default() };
    home.store.edit_run(&run, &label(Some("own")), &ada()).unwrap();
    assert_eq!((found(&["held out"]), found(&["own"])), (String::new(), "a-0 a-1".to_owned()));
    sound(&home);
    home.store.edit_run(&run, &label(None), &ada()).unwrap();
    assert_eq!(found(&["own"]), "a-1");
    sound(&home);
    home.store.delete_run(&run, &ada()).unwrap();
    assert_eq!(found(&["own"]), "");
    purge(&home);
    sound(&home);
}

#[test]
fn filters_by_what_is_not_there_are_refused() {
    let home = Home::new();
    home.add(&draft("a", 2));
    edit(&home, "d", &publish("a-0"));
    let refused = |dataset: Option<&str>, version| {
        let query = TrajectoryQuery {
            versioned_dataset: dataset.map(name),
            versioned_dataset_version: version,
            ..TrajectoryQuery::default()
        };
        home.store.trajectories(&query).unwrap_err().to_string()
    };
    assert_eq!(refused(Some("e"), None), "dataset e was not found");
    assert_eq!(refused(Some("d"), Some(2)), "version 2 of dataset d was not found");
    assert_eq!(refused(None, Some(1)), "a version alone names no dataset");
}

/// One step of someone.
#[derive(Debug, Clone)]
enum Step {
    Publish(Vec<usize>),
    Change { add: Vec<usize>, remove: Vec<usize> },
    Lock(bool),
    Delete(usize),
    Restore(usize),
    Purge,
    Make(usize),
}

const RUNS: usize = 3;
const EACH: usize = 4;

fn step() -> impl Strategy<Value = Step> {
    let ids = || prop::collection::vec(0..RUNS * EACH + 1, 0..6);
    prop_oneof![
        3 => ids().prop_map(Step::Publish),
        6 => (ids(), ids()).prop_map(|(add, remove)| Step::Change { add, remove }),
        1 => any::<bool>().prop_map(Step::Lock),
        1 => (0..RUNS).prop_map(Step::Delete),
        1 => (0..RUNS).prop_map(Step::Restore),
        1 => Just(Step::Purge),
        2 => (0..RUNS).prop_map(Step::Make),
    ]
}

/// The id of an item; the last number names nothing.
fn id(number: usize) -> String {
    format!("run-{}-{}", number / EACH, number % EACH)
}

/// How it should be, kept in the plainest way.
#[derive(Default)]
struct Model {
    versions: Vec<Vec<String>>,
    locked: bool,
    /// By number; true when it is deleted.
    runs: BTreeMap<usize, (RunId, bool)>,
}

impl Model {
    fn live(&self, id: &str) -> bool {
        self.runs.iter().any(|(run, (_, deleted))| !deleted && id.starts_with(&format!("run-{run}-")))
    }

    /// The list after a change; none when it is refused.
    fn next(&self, step: &Step) -> Option<Vec<String>> {
        let old = self.versions.last();
        if self.locked {
            return None;
        }
        let mut new: Vec<String> = Vec::new();
        match step {
            Step::Publish(ids) => {
                for number in ids {
                    if !new.contains(&id(*number)) {
                        new.push(id(*number));
                    }
                }
            }
            Step::Change { add, remove } => {
                if add.iter().any(|number| remove.contains(number)) {
                    return None;
                }
                new.clone_from(old?);
                new.retain(|old| !remove.iter().any(|number| id(*number) == *old));
                for number in add {
                    if !new.contains(&id(*number)) {
                        new.push(id(*number));
                    }
                }
            }
            _ => return None,
        }
        let bad = new.iter().any(|id| !old.is_some_and(|old| old.contains(id)) && !self.live(id));
        (!bad).then_some(new)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn datasets_behave_as_lists(steps in prop::collection::vec(step(), 1..40)) {
        let home = Home::new();
        let mut model = Model::default();
        for number in 0..RUNS - 1 {
            model.runs.insert(number, (home.add(&draft(&format!("run-{number}"), EACH)), false));
        }
        let ids = |numbers: &[usize]| Some(numbers.iter().map(|number| id(*number)).collect::<Vec<_>>());
        for step in &steps {
            let edit = match step {
                Step::Publish(items) => DatasetEdit { item_ids: ids(items), ..DatasetEdit::default() },
                Step::Change { add, remove } => {
                    DatasetEdit { add: ids(add), remove: ids(remove), ..DatasetEdit::default() }
                }
                Step::Lock(lock) => {
                    let there = !model.versions.is_empty();
                    let done = if *lock {
                        home.store.lock_dataset(&name("d"), None, &ada()).is_ok()
                    } else {
                        home.store.unlock_dataset(&name("d"), &ada()).is_ok()
                    };
                    prop_assert_eq!(done, there);
                    model.locked = there && *lock;
                    continue;
                }
                Step::Delete(number) | Step::Restore(number) => {
                    if let Some((run, deleted)) = model.runs.get_mut(number) {
                        *deleted = matches!(step, Step::Delete(_));
                        if *deleted {
                            home.store.delete_run(run, &ada()).unwrap();
                        } else {
                            home.store.restore_run(run, &ada()).unwrap();
                        }
                    }
                    continue;
                }
                Step::Purge => {
                    purge(&home);
                    model.runs.retain(|_, (_, deleted)| !*deleted);
                    continue;
                }
                Step::Make(number) => {
                    if !model.runs.contains_key(number) {
                        let run = home.add(&draft(&format!("run-{number}"), EACH));
                        model.runs.insert(*number, (run, false));
                    }
                    continue;
                }
            };
            let expected = model.next(step);
            match (home.store.edit_dataset(&name("d"), &edit, &ada()), expected) {
                (Ok(change), Some(list)) => {
                    prop_assert_eq!(change.changed, model.versions.last() != Some(&list));
                    if change.changed {
                        model.versions.push(list);
                    }
                    prop_assert_eq!(change.version, model.versions.len() as u64);
                }
                (Err(_), None) => {}
                (done, expected) => prop_assert!(false, "{done:?} where {expected:?} was expected, {step:?}"),
            }
        }
        for (number, list) in (1..).zip(&model.versions) {
            prop_assert_eq!(items(&home, "d", Some(number)), list.join(" "));
            let live: BTreeSet<&str> = list.iter().map(String::as_str).filter(|id| model.live(id)).collect();
            let live = live.into_iter().collect::<Vec<_>>().join(" ");
            prop_assert_eq!(listed(&home, "d", Some(number)), live);
        }
        sound(&home);
    }
}

#[test]
fn documents_are_those_of_the_wire_contract() {
    let home = Home::new();
    home.add(&draft("a", 2));
    let change = home.store.edit_dataset(&name("d"), &publish("a-1"), &ada()).unwrap();
    let value = |value: Value, keys: &[&str]| {
        keys.iter().map(|key| format!("{key}={}", value[*key])).collect::<Vec<_>>().join(" ")
    };
    let row = serde_json::to_value(&home.store.datasets(&DatasetQuery::default()).unwrap().items[0]).unwrap();
    assert_eq!(
        value(row.clone(), &["name", "kind", "latest_version", "item_count", "created_at", "created_by"]),
        format!(
            r#"name="d" kind="trajectory" latest_version=1 item_count=1 created_at="{}" created_by="ada""#,
            change.created_at
        )
    );
    assert!(row.get("lock").is_none());
    let one = serde_json::to_value(version(&home, "d", None)).unwrap();
    assert_eq!(
        value(one, &["name", "kind", "version", "item_ids", "created_by", "description"]),
        r#"name="d" kind="trajectory" version=1 item_ids=["a-1"] created_by="ada" description=null"#
    );
    let told = serde_json::to_value(change).unwrap();
    assert_eq!(
        value(told, &["version", "added", "already_present", "not_found", "changed"]),
        r#"version=1 added=["a-1"] already_present=[] not_found=[] changed=true"#
    );
}
