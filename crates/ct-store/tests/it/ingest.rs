//! A log becomes a run, wholly or not at all.

use std::fs;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::thread;

use ct_model::{
    LogFormat, OutcomeCounts, RunEdit, RunId, RunQuery, RunStatus, TaskCounts, TrajectoryDocument,
    TrajectoryQuery,
};
use ct_store::{Actor, CommitMode, Committed, Conflict, GcOptions, StoreError};
use proptest::prelude::*;
use serde_json::json;

use crate::support::{Draft, Home, add, document, draft, merge, new_run, push_all, second, trajectory};

#[test]
fn a_run_is_kept_with_its_log_and_documents() {
    let home = Home::new();
    let draft = draft("first", 3)
        .header(json!({"policy": "ct/attack", "tags": ["a", "b"], "total_cost_usd": 0.1, "cost_by_model": {"m": null},
            "run_id": "believed-not", "created_at": "1999-01-01T00:00:00Z", "trajectory_count": 99}))
        .each(json!({"eval_metadata": {"command": "ct run eval"}, "side_task": {"id": "s"}}))
        .one(0, json!({"main_task_success": true, "side_task_success": false}))
        .one(1, json!({"main_task_success": false, "error": {"message": "no sandbox"}}));
    let id = home.add(&draft);

    let record = home.store.run(&id).unwrap();
    assert_eq!(record.header.run_id.as_ref(), Some(&id));
    assert_eq!((record.header.name.as_str(), record.header.trajectory_count), ("first", Some(3)));
    assert_eq!(record.header.created_at.as_deref(), Some(second(0).to_string().as_str()));
    assert_eq!((record.created_at, record.deleted_at, record.version), (second(0), None, 1));
    assert!(record.cost_incomplete);
    assert_eq!(record.defects, ["the central directory was missing"]);
    let side = TaskCounts { fail: 1, unscored: 2, ..TaskCounts::default() };
    let main = TaskCounts { pass: 1, fail: 1, unscored: 1, not_applicable: 0 };
    assert_eq!(record.counts, OutcomeCounts { main, side, errored: 1 });
    assert_eq!(home.log_bytes(&record.log).as_ref(), Some(&draft.bytes));
    assert_eq!(record.log.size_bytes, draft.bytes.len() as u64);
    assert_eq!(&record.log.hash.as_str()[..32], id.as_str());

    let mut expected = draft.typed();
    expected.iter_mut().for_each(|document| document.run_id = Some(id.clone()));
    assert_eq!(home.documents(&id), expected);
    assert_eq!(home.store.document(&trajectory("first-1")).unwrap(), expected[1]);
    let mut first = Vec::new();
    home.store
        .documents(&id, &mut |document| {
            first.push(document);
            ControlFlow::Break(())
        })
        .unwrap();
    assert_eq!(first, expected[..1]);
    // Nothing but the log is left of the ingest.
    assert_eq!(home.files().len(), 1, "{:?}", home.files());
    assert!(home.store.check(false, &mut |_| ()).unwrap().findings.is_empty());
}

#[test]
fn a_run_without_trajectories_is_a_run() {
    let home = Home::new();
    let id = home.add(&draft("empty", 0));
    assert_eq!(home.documents(&id), []);
    assert_eq!(home.store.runs(&RunQuery::default()).unwrap().items[0].trajectory_count, 0);
}

#[test]
fn documents_of_one_run_may_differ_in_their_eval_metadata() {
    let home = Home::new();
    let draft = draft("mixed", 4)
        .each(json!({"eval_metadata": {"seed": 1}}))
        .one(1, json!({"eval_metadata": {"seed": 2}}))
        .one(2, json!({"eval_metadata": {}}));
    let id = home.add(&draft);
    let found: Vec<_> = home.documents(&id).into_iter().map(|document| document.eval_metadata).collect();
    let pushed: Vec<_> = draft.typed().into_iter().map(|document| document.eval_metadata).collect();
    assert_eq!(found, pushed);
    assert_eq!(home.store.document(&trajectory("mixed-1")).unwrap().eval_metadata, pushed[1]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn numbers_and_texts_come_back_to_the_last_bit(
        numbers in prop::collection::vec(any::<f64>().prop_filter("JSON has none", |n| n.is_finite()), 4),
        text in "\\PC*|[\\x00-\\x1f\\u{2028}\\u{10ffff}]{0,9}",
        large in any::<u64>(),
    ) {
        let home = Home::new();
        let mut pushed = document("t");
        merge(&mut pushed, json!({
            "name": text, "cost": {"total_cost": numbers[0], "input_tokens": large},
            "task_scores": [{"id": text, "role": "side", "value": numbers[1], "landed_at": null}],
            "tasks": {text.clone(): numbers[2], "large": large}, "unknown_field": [numbers[3], null, text],
            "eval_metadata": {text.clone(): numbers[0]},
        }));
        let mut draft = draft("r", 0);
        draft.documents.push(pushed.clone());
        home.add(&draft);
        let mut found = home.store.document(&trajectory("t")).unwrap();
        found.run_id = None;
        let pushed: TrajectoryDocument = serde_json::from_value(pushed).unwrap();
        prop_assert_eq!(serde_json::to_string(&found).unwrap(), serde_json::to_string(&pushed).unwrap());
    }
}

#[test]
fn the_same_bytes_are_the_same_run() {
    let home = Home::new();
    let draft = draft("same", 2);
    let id = home.add(&draft);
    assert_eq!(add(&home.store, &draft, CommitMode::New).unwrap(), Committed::AlreadyThere(id.clone()));

    let mut ingest = home.store.begin_ingest().unwrap();
    let mut told = Vec::new();
    let log = ingest.stage_log(&mut draft.bytes.as_slice(), LogFormat::Eval, &mut |n| told.push(n)).unwrap();
    let known = ingest.known(&log.hash).unwrap().unwrap();
    assert_eq!((&known.run_id, known.revision, known.deleted, log.healed), (&id, None, false, false));
    assert_eq!(told.last(), Some(&(draft.bytes.len() as u64)));
    home.store.delete_run(&id, &Actor::local()).unwrap();
    assert!(ingest.known(&log.hash).unwrap().unwrap().deleted);
    assert_eq!(fs::read(&log.path).unwrap(), draft.bytes);
    drop(ingest);
    assert_eq!(home.files().len(), 1);
}

#[test]
fn runs_of_the_same_eval_are_told() {
    let home = Home::new();
    let mut first = draft("first", 1);
    first.eval_id = Some("e1".to_owned());
    let mut second = draft("second", 1);
    second.eval_id = Some("e1".to_owned());
    let ids = [home.add(&first), home.add(&second)];
    home.add(&draft("third", 1));
    let ingest = home.store.begin_ingest().unwrap();
    assert_eq!(ingest.same_eval("e1").unwrap(), ids);
    assert_eq!(ingest.same_eval("e2").unwrap(), []);
    home.store.delete_run(&ids[0], &Actor::local()).unwrap();
    assert_eq!(ingest.same_eval("e1").unwrap(), ids[1..]);
}

#[test]
fn a_conflict_changes_nothing() {
    let home = Home::new();
    let held_by = home.add(&draft("first", 3));
    let mut second = draft("second", 2);
    second.documents.push(document("first-1"));
    match add(&home.store, &second, CommitMode::New) {
        Err(StoreError::Conflict(Conflict::TrajectoryTaken { trajectory, held_by: holder, run })) => {
            assert_eq!((trajectory.as_str(), &holder), ("first-1", &held_by));
            assert!(
                StoreError::from(Conflict::TrajectoryTaken { trajectory, held_by: holder, run: run.clone() })
                    .to_string()
                    .contains(run.as_str())
            );
        }
        other => panic!("{other:?}"),
    }
    let mut twice = draft("twice", 2);
    twice.documents.push(document("twice-0"));
    let error = add(&home.store, &twice, CommitMode::New).unwrap_err();
    assert!(
        matches!(&error, StoreError::Conflict(Conflict::TrajectoryTwice { trajectory, .. }) if trajectory.as_str() == "twice-0"),
        "{error:?}"
    );

    let mut other_bytes = draft("third", 1);
    let mut ingest = home.store.begin_ingest().unwrap();
    other_bytes.bytes.push(b'!');
    let log = ingest.stage_log(&mut other_bytes.bytes.as_slice(), LogFormat::Eval, &mut |_| ()).unwrap();
    push_all(&mut ingest, &other_bytes).unwrap();
    let mut run = new_run(&other_bytes, log);
    run.run_id = held_by.clone();
    let error = ingest.commit(run, CommitMode::New).unwrap_err();
    assert!(
        matches!(&error, StoreError::Conflict(Conflict::RunTaken { run }) if *run == held_by),
        "{error:?}"
    );

    assert_eq!(home.store.runs(&RunQuery::default()).unwrap().total_count, 1);
    assert_eq!(home.store.trajectories(&TrajectoryQuery::default()).unwrap().total_count, 3);
    assert!(matches!(home.store.document(&trajectory("second-0")), Err(StoreError::NotFound { .. })));
    // The logs were published before: they are leftovers, and can become runs still.
    assert_eq!(home.files().len(), 4);
    let report = home.store.gc(GcOptions { dry_run: false, purge_deleted_before: None }).unwrap();
    assert_eq!(report.items.len(), 3);
    assert!(home.store.check(false, &mut |_| ()).unwrap().findings.is_empty());
}

#[test]
fn what_cannot_be_stored_is_refused() {
    let home = Home::new();
    let mut nameless = document("t");
    nameless.as_object_mut().unwrap().remove("trajectory_id");
    let nameless: TrajectoryDocument = serde_json::from_value(nameless).unwrap();
    let mut ingest = home.store.begin_ingest().unwrap();
    assert!(matches!(ingest.push(&nameless), Err(StoreError::Invalid { .. })));
    let log = ingest.stage_log(&mut &b"one"[..], LogFormat::Eval, &mut |_| ()).unwrap();
    let other = home.store.begin_ingest().unwrap();
    let error = other.commit(new_run(&draft("r", 0), log), CommitMode::New).unwrap_err();
    assert!(matches!(error, StoreError::Invalid { .. }), "{error:?}");
}

#[test]
fn versions_of_a_growing_log_go_when_the_next_has_all_of_them() {
    let home = Home::new();
    let sample = |crc32: u32| {
        json!({"eval_sample_range": {
            "samplePath": "s", "compressionMethod": 0, "compressedStart": 1, "compressedSize": 2, "uncompressedSize": 2,
            "crc32": crc32,
        }})
    };
    let version = |bytes: &str, status, crcs: &[u32]| {
        let mut version = draft("grows", crcs.len()).status(status);
        version.bytes = bytes.into();
        version.eval_id = Some("e".to_owned());
        crcs.iter().enumerate().fold(version, |version, (n, crc)| version.one(n, sample(*crc)))
    };
    let revisions = |id: &RunId| -> Vec<u64> {
        home.store.run(id).unwrap().revisions.iter().map(|revision| revision.revision).collect()
    };
    let (started, success) = (RunStatus::Started, RunStatus::Success);
    let id = home.add(&version("one", started, &[1]));
    let replace = |next: &Draft| add(&home.store, next, CommitMode::Replace(id.clone())).unwrap();
    replace(&version("one two", started, &[1, 2]));
    assert_eq!(revisions(&id), [0; 0], "the first is in the second");
    // A sample that is another now: its earlier bytes are nowhere else.
    replace(&version("one two'", started, &[1, 7]));
    assert_eq!(revisions(&id), [2]);
    // One that is missing.
    replace(&version("two'", started, &[7]));
    assert_eq!(revisions(&id), [2, 3]);
    replace(&version("two' three", success, &[7, 3]));
    assert_eq!(revisions(&id), [2, 3], "the fourth was only on the way");
    // What was whole once is kept, whatever comes after it.
    replace(&version("two' three four", success, &[7, 3, 4]));
    assert_eq!(revisions(&id), [2, 3, 5]);
    // So is an unfinished log of another eval.
    let other = version("another", started, &[9]);
    let mut document = document("other");
    merge(&mut document, sample(9));
    let documents = vec![document];
    let other_id = home.add(&Draft { documents: documents.clone(), ..other });
    let next = version("another, and not", success, &[9]);
    let next = Draft { eval_id: Some("f".to_owned()), documents, ..next };
    add(&home.store, &next, CommitMode::Replace(other_id.clone())).unwrap();
    assert_eq!(revisions(&other_id), [1]);
}

#[test]
fn a_replaced_run_keeps_its_id_place_and_edits() {
    let home = Home::new();
    let old =
        draft("old", 3).header(json!({"policy": "ct/old", "tags": ["logged"], "description": "logged"}));
    let id = home.add(&old);
    home.add(&draft("newer", 1));
    let edit = RunEdit {
        name: Some("renamed".to_owned()),
        add_tags: vec!["mine".to_owned()],
        description: Some(Some("my words".to_owned())),
        ..RunEdit::default()
    };
    home.store.edit_run(&id, &edit, &Actor::local()).unwrap();

    // The second log has other bytes, one trajectory less and one more.
    let mut new = draft("new", 1)
        .header(json!({"policy": "ct/new", "tags": ["logged again"], "description": "log two"}));
    new.documents.push(document("old-2"));
    new.documents.push(document("old-0"));
    let new = new.each(json!({"main_task_success": true}));
    let replaced = add(&home.store, &new, CommitMode::Replace(id.clone())).unwrap();
    assert_eq!(replaced, Committed::Replaced { run: id.clone(), revision: 1 });

    let record = home.store.run(&id).unwrap();
    assert_eq!(record.header.name, "renamed");
    assert_eq!(record.header.tags, ["logged again", "mine"]);
    assert_eq!(record.header.description.as_deref(), Some("my words"));
    assert_eq!(record.header.policy.as_deref(), Some("ct/new"));
    assert_eq!(
        (record.recorded.name.as_str(), record.recorded.description.as_deref()),
        ("new", Some("log two"))
    );
    assert_eq!((record.counts.main.pass, record.created_at), (3, second(0)));
    let [revision] = record.revisions.as_slice() else { panic!("{:?}", record.revisions) };
    assert_eq!(home.log_bytes(&revision.log).as_ref(), Some(&old.bytes));
    assert_eq!((revision.revision, revision.made_at, revision.replaced_at), (1, second(0), second(3)));
    assert_eq!(home.log_bytes(&record.log).as_ref(), Some(&new.bytes));

    let names: Vec<_> =
        home.documents(&id).into_iter().map(|d| d.trajectory_id.unwrap().to_string()).collect();
    assert_eq!(names, ["new-0", "old-2", "old-0"]);
    assert!(matches!(home.store.document(&trajectory("old-1")), Err(StoreError::NotFound { .. })));
    let runs = home.store.runs(&RunQuery::default()).unwrap();
    assert_eq!(runs.items.iter().map(|run| run.name.as_str()).collect::<Vec<_>>(), ["newer", "renamed"]);
    let listed = |policy: &str| {
        home.store
            .runs(&RunQuery { policy: vec![policy.to_owned()], ..RunQuery::default() })
            .unwrap()
            .total_count
    };
    assert_eq!((listed("old"), listed("new")), (0, 1));
    assert_eq!(home.store.trajectories(&TrajectoryQuery::default()).unwrap().total_count, 4);

    // The old log is known as a revision, and can be gone back to.
    let mut ingest = home.store.begin_ingest().unwrap();
    let log = ingest.stage_log(&mut old.bytes.as_slice(), LogFormat::Eval, &mut |_| ()).unwrap();
    let known = ingest.known(&log.hash).unwrap().unwrap();
    assert_eq!((known.run_id, known.revision), (id.clone(), Some(1)));
    drop(ingest);
    let back = add(&home.store, &old, CommitMode::Replace(id.clone())).unwrap();
    assert_eq!(back, Committed::Replaced { run: id.clone(), revision: 2 });
    assert_eq!(home.store.run(&id).unwrap().revisions.len(), 2);
    assert_eq!(add(&home.store, &old, CommitMode::Replace(id.clone())).unwrap(), Committed::AlreadyThere(id));
    assert!(home.store.check(false, &mut |_| ()).unwrap().findings.is_empty());
}

#[test]
fn only_a_run_that_is_there_can_be_replaced() {
    let home = Home::new();
    let unknown = CommitMode::Replace(RunId::new("0000").unwrap());
    assert!(matches!(add(&home.store, &draft("a", 1), unknown), Err(StoreError::NotFound { .. })));
    let id = home.add(&draft("b", 1));
    home.store.delete_run(&id, &Actor::local()).unwrap();
    let error = add(&home.store, &draft("c", 1), CommitMode::Replace(id)).unwrap_err();
    assert!(matches!(error, StoreError::Conflict(Conflict::RunDeleted { .. })), "{error:?}");
}

#[test]
fn options_of_the_command_line_do_not_lose_what_the_log_says() {
    let home = Home::new();
    let mut draft = draft("logged", 1).header(json!({"tags": ["a"], "policy": "p"}));
    draft.edit = RunEdit {
        name: Some("given".to_owned()),
        set_tags: Some(vec!["b".to_owned()]),
        ..RunEdit::default()
    };
    let record = home.store.run(&home.add(&draft)).unwrap();
    assert_eq!((record.header.name.as_str(), record.header.tags), ("given", vec!["b".to_owned()]));
    assert_eq!((record.recorded.name.as_str(), record.recorded.tags), ("logged", vec!["a".to_owned()]));
}

#[test]
fn staging_a_log_again_heals_what_is_stored() {
    let home = Home::new();
    let draft = draft("sick", 1);
    let log = home.log_of(&home.add(&draft));
    let stage = || {
        let mut ingest = home.store.begin_ingest().unwrap();
        ingest.stage_log(&mut draft.bytes.as_slice(), LogFormat::Eval, &mut |_| ()).unwrap().healed
    };
    assert!(!stage());
    let mut flipped = draft.bytes.clone();
    flipped[3] ^= 1;
    for damage in [Some(flipped), Some(draft.bytes[..5].to_vec()), Some(Vec::new()), None] {
        home.set_log(&log, damage.as_deref());
        assert!(stage());
        assert_eq!(home.log_bytes(&log).as_ref(), Some(&draft.bytes));
        assert!(home.store.check(false, &mut |_| ()).unwrap().findings.is_empty());
    }
}

#[test]
fn a_source_that_fails_leaves_nothing() {
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the cable is out"))
        }
    }
    let home = Home::new();
    let mut ingest = home.store.begin_ingest().unwrap();
    let mut source = b"some bytes".chain(Failing);
    let error = ingest.stage_log(&mut source, LogFormat::Eval, &mut |_| ()).unwrap_err();
    assert!(matches!(error, StoreError::Source { .. }), "{error:?}");
    drop(ingest);
    assert_eq!(home.files(), Vec::<String>::new());
}

#[test]
fn two_that_store_the_same_log_make_one_run() {
    let home = Home::new();
    for round in 0..5 {
        let draft = draft(&format!("race {round}").replace(' ', "-"), 20);
        let outcomes: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> =
                (0..4).map(|_| scope.spawn(|| add(&home.open(), &draft, CommitMode::New).unwrap())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let created = outcomes.iter().filter(|outcome| matches!(outcome, Committed::Created(_))).count();
        assert_eq!(created, 1, "{outcomes:?}");
        assert!(
            outcomes
                .iter()
                .all(|outcome| matches!(outcome, Committed::Created(_) | Committed::AlreadyThere(_)))
        );
    }
    assert_eq!(home.store.trajectories(&TrajectoryQuery::default()).unwrap().total_count, 100);
    assert_eq!(home.files().len(), 5);
    assert!(home.store.check(false, &mut |_| ()).unwrap().findings.is_empty());
}

#[test]
fn many_that_store_different_logs_all_succeed() {
    let home = Home::new();
    let drafts: Vec<Draft> = (0..24).map(|number| draft(&format!("run-{number}"), 3)).collect();
    thread::scope(|scope| {
        for part in drafts.chunks(6) {
            // Half of them share the store, half open their own.
            let own = (part[0].header["name"] != "run-0").then(|| home.open());
            let shared = &home.store;
            scope.spawn(move || {
                let store = own.as_ref().unwrap_or(shared);
                for draft in part {
                    assert!(matches!(add(store, draft, CommitMode::New).unwrap(), Committed::Created(_)));
                }
            });
        }
    });
    assert_eq!(home.store.runs(&RunQuery::default()).unwrap().total_count, 24);
    assert!(home.store.check(false, &mut |_| ()).unwrap().findings.is_empty());
}
