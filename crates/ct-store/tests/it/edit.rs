//! What users change, delete and restore.

use ct_model::{AuditQuery, Comment, RunEdit, RunQuery, TrajectoryQuery};
use ct_store::{Actor, Conflict, GcOptions, StoreError};
use serde_json::{Map, json};

use crate::support::{Home, draft, second, trajectory};

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn tagged(home: &Home, tag: &str) -> (u64, u64) {
    let runs = RunQuery { tags: words(tag), ..RunQuery::default() };
    let trajectories = TrajectoryQuery { tags: words(tag), ..TrajectoryQuery::default() };
    (home.store.runs(&runs).unwrap().total_count, home.store.trajectories(&trajectories).unwrap().total_count)
}

#[test]
fn edits_are_shown_and_found() {
    let home = Home::new();
    let draft = draft("first", 3)
        .header(json!({"tags": ["logged"], "policy": "ct/a"}))
        .one(1, json!({"tags": ["own"]}));
    let id = home.add(&draft);
    assert_eq!((tagged(&home, "logged"), tagged(&home, "own")), ((1, 3), (0, 1)));

    let comment = Comment { id: "c1".to_owned(), text: "look".to_owned(), extra: Map::new() };
    let edit = RunEdit {
        name: Some("Second".to_owned()),
        policy: Some(Some("ct/b".to_owned())),
        add_tags: words("mine own"),
        remove_tags: words("logged"),
        comments: Some(vec![comment.clone()]),
        author: Some("someone".to_owned()),
        ..RunEdit::default()
    };
    home.store.edit_run(&id, &edit, &Actor::local()).unwrap();
    let record = home.store.run(&id).unwrap();
    assert_eq!(
        (record.header.name.as_str(), &record.header.tags, record.version),
        ("Second", &words("mine own"), 2)
    );
    assert_eq!(record.header.comments, [comment]);
    assert_eq!((record.recorded.name.as_str(), &record.recorded.tags), ("first", &words("logged")));
    assert_eq!(tagged(&home, "logged"), (0, 0));
    assert_eq!((tagged(&home, "mine"), tagged(&home, "own")), ((1, 3), (1, 3)));
    let found = |query: RunQuery| home.store.runs(&query).unwrap().total_count;
    assert_eq!(found(RunQuery { policy: words("ct/a"), ..RunQuery::default() }), 0);
    assert_eq!(found(RunQuery { policy: words("b"), ..RunQuery::default() }), 1);
    assert_eq!(found(RunQuery { name: Some("SECO".to_owned()), ..RunQuery::default() }), 1);
    assert_eq!(found(RunQuery { name: Some("first".to_owned()), ..RunQuery::default() }), 0);

    // A trajectory's own tag stays its own when its run loses it.
    home.store
        .edit_run(&id, &RunEdit { remove_tags: words("own"), ..RunEdit::default() }, &Actor::local())
        .unwrap();
    assert_eq!(tagged(&home, "own"), (0, 1));
    assert!(home.store.check(false, &mut |_| ()).unwrap().findings.is_empty());
}

#[test]
fn an_edit_that_changes_nothing_is_no_new_version() {
    let home = Home::new();
    let id = home.add(&draft("first", 1));
    let edit = RunEdit { add_tags: words("a"), ..RunEdit::default() };
    home.store.edit_run(&id, &edit, &Actor::local()).unwrap();
    home.store.edit_run(&id, &edit, &Actor::local()).unwrap();
    home.store.edit_run(&id, &RunEdit::default(), &Actor::local()).unwrap();
    assert_eq!(home.store.run(&id).unwrap().version, 2);
}

#[test]
fn several_runs_change_all_together_or_not_at_all() {
    let home = Home::new();
    let runs = ["a", "b", "c"].map(|name| home.add(&draft(name, 2)));
    let tag = |tag: &str| RunEdit { add_tags: words(tag), ..RunEdit::default() };
    home.store.edit_runs(&runs, &tag("all"), &Actor::local()).unwrap();
    assert_eq!(tagged(&home, "all"), (3, 6));
    home.store.delete_run(&runs[2], &Actor::local()).unwrap();
    let refused = home.store.edit_runs(&runs, &tag("some"), &Actor::local());
    assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
    assert_eq!(tagged(&home, "some"), (0, 0));
    let nothing = [runs[0].clone(), ct_model::RunId::new("nothing").unwrap()];
    assert!(matches!(home.store.delete_runs(&nothing, &Actor::local()), Err(StoreError::NotFound { .. })));
    assert_eq!(tagged(&home, "all"), (2, 4));
    assert_eq!(home.store.delete_runs(&runs, &Actor::local()).unwrap(), 2);
    assert_eq!(tagged(&home, "all"), (0, 0));
    assert_eq!(home.store.restore_runs(&runs, &Actor::local()).unwrap(), 3);
    assert_eq!(tagged(&home, "all"), (3, 6));
    assert!(home.store.check(false, &mut |_| ()).unwrap().findings.is_empty());
}

#[test]
fn an_edit_of_a_version_that_passed_is_refused() {
    let home = Home::new();
    let id = home.add(&draft("first", 1));
    let edit =
        |name: &str| RunEdit { name: Some(name.to_owned()), if_version: Some(1), ..RunEdit::default() };
    home.store.edit_run(&id, &edit("mine"), &Actor::local()).unwrap();
    let error = home.store.edit_run(&id, &edit("theirs"), &Actor::local()).unwrap_err();
    assert!(
        matches!(&error, StoreError::Conflict(Conflict::Changed { expected: 1, version: 2, .. })),
        "{error:?}"
    );
    assert_eq!(home.store.run(&id).unwrap().header.name, "mine");
}

#[test]
fn a_deleted_run_is_hidden_until_it_is_restored() {
    let home = Home::new();
    let kept = home.add(&draft("kept", 2));
    let gone = home.add(&draft("gone", 3).header(json!({"tags": ["t"]})));
    let counts = |deleted| {
        let runs = RunQuery { include_deleted: deleted, ..RunQuery::default() };
        let trajectories = TrajectoryQuery { include_deleted: deleted, ..TrajectoryQuery::default() };
        (
            home.store.runs(&runs).unwrap().total_count,
            home.store.trajectories(&trajectories).unwrap().total_count,
        )
    };
    assert!(home.store.delete_run(&gone, &Actor::local()).unwrap());
    assert!(!home.store.delete_run(&gone, &Actor::local()).unwrap());
    assert_eq!((counts(false), counts(true), tagged(&home, "t")), ((1, 2), (2, 5), (0, 0)));
    assert_eq!(home.store.run(&gone).unwrap().deleted_at, Some(second(2)));
    let of_run = TrajectoryQuery { run_id: Some(gone.clone()), ..TrajectoryQuery::default() };
    assert_eq!(home.store.trajectories(&of_run).unwrap().total_count, 0);
    let error = home.store.edit_run(&gone, &RunEdit::default(), &Actor::local()).unwrap_err();
    assert!(matches!(error, StoreError::Conflict(Conflict::RunDeleted { .. })), "{error:?}");

    assert_eq!(home.store.resolve_run(&kept.as_str()[..8]).unwrap(), kept);
    for text in [gone.as_str(), &gone.as_str()[..8]] {
        let error = home.store.resolve_run(text).unwrap_err();
        assert!(
            matches!(&error, StoreError::Conflict(Conflict::RunDeleted { run }) if *run == gone),
            "{error:?}"
        );
        assert_eq!(home.store.resolve_run_with_deleted(text).unwrap(), gone);
    }
    assert!(matches!(home.store.resolve_trajectory("gone-1"), Err(StoreError::Conflict(_))));

    assert!(home.store.restore_run(&gone, &Actor::local()).unwrap());
    assert!(!home.store.restore_run(&gone, &Actor::local()).unwrap());
    assert_eq!((counts(false), tagged(&home, "t")), ((2, 5), (1, 3)));
    assert_eq!(home.store.resolve_trajectory("gone-1").unwrap(), trajectory("gone-1"));
    assert!(home.store.check(false, &mut |_| ()).unwrap().findings.is_empty());
}

#[test]
fn a_prefix_names_what_alone_begins_with_it() {
    let home = Home::new();
    let mut draft = draft("r", 0);
    for id in ["ab", "abc", "abd", "b1"] {
        draft.documents.push(crate::support::document(id));
    }
    home.add(&draft);
    let resolve = |prefix: &str| home.store.resolve_trajectory(prefix);
    assert_eq!(resolve("b").unwrap(), trajectory("b1"));
    // A whole id is meant even though others begin with it.
    assert_eq!(resolve("ab").unwrap(), trajectory("ab"));
    match resolve("a") {
        Err(StoreError::Ambiguous { prefix, candidates, more }) => {
            assert_eq!((prefix.as_str(), candidates, more), ("a", words("ab abc abd"), false));
        }
        other => panic!("{other:?}"),
    }
    // The first few are named, and that there are more.
    home.add(&crate::support::draft("many", 11));
    let error = resolve("many").unwrap_err().to_string();
    assert!(error.ends_with("many-8, and others"), "{error}");
    for missing in ["x", "abcd", "ABX", "a%", "a_", "../a"] {
        assert!(matches!(resolve(missing), Err(StoreError::NotFound { .. })), "{missing}");
    }
    assert!(matches!(resolve(""), Err(StoreError::Invalid { .. })));
}

#[test]
fn what_is_not_there_is_not_found() {
    let home = Home::new();
    let run = ct_model::RunId::new("nothing").unwrap();
    let not_found = |result: Result<(), StoreError>| {
        let error = result.unwrap_err();
        assert_eq!(error.to_string(), "run nothing was not found");
    };
    not_found(home.store.run(&run).map(drop));
    not_found(home.store.documents(&run, &mut |_| std::ops::ControlFlow::Continue(())));
    not_found(home.store.edit_run(&run, &RunEdit::default(), &Actor::local()));
    not_found(home.store.delete_run(&run, &Actor::local()).map(drop));
    not_found(home.store.restore_run(&run, &Actor::local()).map(drop));
}

#[test]
fn a_run_that_goes_for_good_is_in_the_record() {
    let home = Home::new();
    let (gone, kept) = (home.add(&draft("gone", 1)), home.add(&draft("kept", 1)));
    home.store.delete_run(&gone, &Actor::local()).unwrap();
    let purge = |dry_run| {
        home.store.gc(GcOptions { dry_run, purge_deleted_before: Some(second(1_000_000)) }).unwrap();
        let rows = home.store.audit_rows(&AuditQuery { limit: 100, ..AuditQuery::default() }).unwrap();
        let purged = rows.into_iter().filter(|row| row.action == "run.purge");
        purged.map(|row| (row.subject, row.origin)).collect::<Vec<_>>()
    };
    assert_eq!(purge(true), []);
    let expected = [(format!("run {gone}"), "local".to_owned())];
    assert_eq!(purge(false), expected);
    assert!(home.store.run(&gone).is_err() && home.store.run(&kept).is_ok());
    // What is gone does not go again.
    assert_eq!(purge(false), expected);
}
