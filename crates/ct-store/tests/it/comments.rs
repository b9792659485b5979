//! Comments on runs, trajectories and actions.

use ct_model::{AuditQuery, Comment, RunEdit};
use ct_store::{About, Actor, Author, CommitMode, StoreError, TrajectoryComments, merge_comments};
use serde_json::{Map, Value, json};

use crate::support::{Home, add, draft, second, trajectory};

fn user(name: &str) -> Author {
    Author { actor: Actor { user: Some(name.to_owned()), ..Actor::local() }, any: false }
}

fn admin() -> Author {
    Author { any: true, ..user("root") }
}

fn given(id: &str, text: &str) -> Comment {
    // Who and when are claimed, and not believed.
    let extra =
        json!({"created": "1999-01-01T00:00:00Z", "created_by": "root", "edited": 7, "deleted": true});
    let Value::Object(extra) = extra else { unreachable!() };
    Comment { id: id.to_owned(), text: text.to_owned(), extra }
}

fn texts(comments: &[Comment]) -> Vec<(&str, &str, bool)> {
    comments
        .iter()
        .map(|comment| {
            (
                comment.extra["created_by"].as_str().unwrap_or("-"),
                comment.text.as_str(),
                !comment.extra["deleted"].is_null(),
            )
        })
        .collect()
}

fn of_trajectory(home: &Home, id: &str) -> TrajectoryComments {
    home.store.trajectory_comments(&home.store.document(&trajectory(id)).unwrap()).unwrap()
}

fn forbidden<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    let error = result.unwrap_err();
    assert!(matches!(error, StoreError::Forbidden { .. }), "{error:?}");
}

#[test]
fn comments_on_a_run_are_made_edited_and_deleted_by_their_authors() {
    let home = Home::new();
    let run = home.add(&draft("r", 1));
    let (ana, bo) = (user("ana"), user("bo"));
    let first = home.store.comment_on_run(&run, "look", &ana).unwrap();
    assert_eq!(
        (&first.extra["created_by"], &first.extra["edited"], &first.extra["deleted"]),
        (&json!("ana"), &Value::Null, &Value::Null)
    );
    let second = home.store.comment_on_run(&run, "seen", &bo).unwrap();
    let header = || home.store.run(&run).unwrap().header;
    assert_eq!(header().comments, [first.clone(), second.clone()]);
    forbidden(home.store.edit_run_comment(&run, &first.id, "mine", &bo));
    forbidden(home.store.delete_run_comment(&run, &first.id, &bo));
    let edited = home.store.edit_run_comment(&run, &first.id, "look here", &ana).unwrap();
    assert_eq!(edited.extra["created"], first.extra["created"]);
    assert!(edited.extra["edited"].is_string());
    let version = home.store.run(&run).unwrap().version;
    assert_eq!(home.store.edit_run_comment(&run, &first.id, "look here", &ana).unwrap(), edited);
    assert_eq!(home.store.run(&run).unwrap().version, version);
    home.store.delete_run_comment(&run, &second.id, &admin()).unwrap();
    home.store.delete_run_comment(&run, &second.id, &bo).unwrap();
    assert_eq!(texts(&header().comments), [("ana", "look here", false), ("bo", "seen", true)]);
    for missing in ["nothing", second.id.as_str()] {
        let error = home.store.edit_run_comment(&run, missing, "x", &bo).unwrap_err();
        assert!(matches!(error, StoreError::NotFound { .. }), "{error:?}");
    }
    let rows = home.store.audit_rows(&AuditQuery { limit: 100, ..AuditQuery::default() }).unwrap();
    let found: Vec<_> = rows
        .iter()
        .filter(|row| row.action.starts_with("comment."))
        .map(|row| (row.action.as_str(), row.actor.as_deref().unwrap_or("-")))
        .collect();
    assert_eq!(
        found,
        [
            ("comment.delete", "root"),
            ("comment.edit", "ana"),
            ("comment.create", "bo"),
            ("comment.create", "ana")
        ]
    );
    assert!(
        rows.iter().all(|row| !row.action.starts_with("comment.") || row.subject == format!("run {run}"))
    );
    let edit = rows.iter().find(|row| row.action == "comment.edit").unwrap().detail.clone().unwrap();
    assert_eq!((&edit["before"], &edit["text"]), (&json!("look"), &json!("look here")));
    assert!(home.store.check(false, &mut |_| ()).unwrap().findings.is_empty());
}

#[test]
fn comments_survive_another_log_of_the_run() {
    let home = Home::new();
    let draft = draft("r", 1).one(0, json!({"number_of_actions": 3}));
    let run = home.add(&draft);
    home.store.comment_on_run(&run, "on the run", &user("ana")).unwrap();
    home.store
        .comment_on_trajectory(&trajectory("r-0"), About::Action(2), "on an action", &user("ana"))
        .unwrap();
    let mut other = draft.clone();
    other.bytes = b"the log again".to_vec();
    add(&home.store, &other, CommitMode::Replace(run.clone())).unwrap();
    assert_eq!(texts(&home.store.run(&run).unwrap().header.comments), [("ana", "on the run", false)]);
    let found = of_trajectory(&home, "r-0");
    assert_eq!(texts(&found.step_comments[&2]), [("ana", "on an action", false)]);
}

#[test]
fn comments_on_a_trajectory_and_its_actions() {
    let home = Home::new();
    let run = home.add(&draft("r", 2).one(0, json!({"number_of_actions": 2})));
    let (id, ana, bo) = (trajectory("r-0"), user("ana"), user("bo"));
    let comment = |about, text: &str| home.store.comment_on_trajectory(&id, about, text, &ana);
    let whole = comment(About::Whole, "whole").unwrap();
    let first = comment(About::Action(0), "first").unwrap();
    comment(About::Action(1), "last").unwrap();
    let step = comment(About::Step(7), "said, not done").unwrap();
    assert_eq!((whole.extra.get("action"), first.extra.get("action")), (None, Some(&json!(0))));
    assert_eq!((step.extra.get("action"), step.extra.get("step")), (None, Some(&json!(7))));
    let long = "x".repeat(100_001);
    for (action, text) in [
        (About::Action(2), "beyond"),
        (About::Step(1 << 40), "beyond"),
        (About::Whole, " \n"),
        (About::Whole, &long),
    ] {
        let error = comment(action, text).unwrap_err();
        assert!(matches!(error, StoreError::Invalid { .. }), "{error:?}");
    }
    forbidden(home.store.edit_trajectory_comment(&id, &first.id, "mine", &bo));
    forbidden(home.store.delete_trajectory_comment(&id, &first.id, &bo));
    // The comment is another trajectory's.
    let error = home.store.edit_trajectory_comment(&trajectory("r-1"), &first.id, "x", &ana).unwrap_err();
    assert!(matches!(error, StoreError::NotFound { .. }), "{error:?}");
    home.store.edit_trajectory_comment(&id, &first.id, "the first", &ana).unwrap();
    home.store.delete_trajectory_comment(&id, &whole.id, &admin()).unwrap();
    home.store.delete_trajectory_comment(&id, &whole.id, &ana).unwrap();
    let found = of_trajectory(&home, "r-0");
    assert_eq!(texts(&found.comments), [("ana", "whole", true), ("ana", "said, not done", false)]);
    assert_eq!(found.comments[1], step);
    assert_eq!(texts(&found.step_comments[&0]), [("ana", "the first", false)]);
    assert_eq!(texts(&found.step_comments[&1]), [("ana", "last", false)]);
    let other = of_trajectory(&home, "r-1");
    assert!(other.comments.is_empty() && other.step_comments.is_empty());
    let error = home.store.comment_on_trajectory(&trajectory("no"), About::Whole, "x", &ana).unwrap_err();
    assert!(matches!(error, StoreError::NotFound { .. }), "{error:?}");
    home.store.delete_run(&run, &Actor::local()).unwrap();
    assert!(matches!(comment(About::Whole, "x"), Err(StoreError::Conflict(_))));
    assert!(matches!(home.store.comment_on_run(&run, "x", &ana), Err(StoreError::Conflict(_))));
}

#[test]
fn comments_of_a_document_come_before_those_made_here() {
    let home = Home::new();
    let (old, odd) = (given("c1", "old"), json!([{"id": 7}, 1, null]));
    let steps = json!({"0": [old], "x": [old], "1": odd});
    let fields = json!({"number_of_actions": 2, "comments": [old, odd[0]], "step_comments": steps});
    home.add(&draft("r", 2).one(0, fields).one(1, json!({"comments": "none", "step_comments": []})));
    let new =
        home.store.comment_on_trajectory(&trajectory("r-0"), About::Action(0), "new", &user("ana")).unwrap();
    let found = of_trajectory(&home, "r-0");
    assert_eq!(found.comments, std::slice::from_ref(&old));
    assert_eq!(found.step_comments.get(&0), Some(&vec![old, new]));
    assert_eq!(of_trajectory(&home, "r-1"), TrajectoryComments::default());
}

#[test]
fn a_whole_list_of_comments_is_merged_with_what_is_there() {
    let (ana, bo) = (user("ana"), user("bo"));
    let merge =
        |kept: &[Comment], list: &[Comment], by: &Author, at| merge_comments(kept, list, by, second(at));
    let one = merge(&[], &[given("c1", "one"), given("", "two"), given("../x", "three")], &ana, 1).unwrap();
    assert_eq!(texts(&one), [("ana", "one", false), ("ana", "two", false), ("ana", "three", false)]);
    assert_eq!(one[0].extra["created"], json!(second(1)));
    assert_eq!((one[0].id.as_str(), one[1].id.len(), one[2].id.len()), ("c1", 16, 16));
    // As it came: nothing changes, whatever is claimed beside the text.
    let claimed: Vec<Comment> = one.iter().map(|comment| given(&comment.id, &comment.text)).collect();
    assert_eq!(merge(&one, &claimed, &bo, 2).unwrap(), one);
    // Bo has not seen them all, and adds one: those of Ana stay.
    let two = merge(&one, &[given(&one[1].id, "two"), given("b", "bo's")], &bo, 3).unwrap();
    assert_eq!(two[..3], one);
    assert_eq!(texts(&two[3..]), [("bo", "bo's", false)]);
    forbidden(merge(&two, &[given("c1", "rewritten"), given("b", "bo's")], &bo, 4));
    // Ana edits one, leaves one out, and leaves out Bo's.
    let three = merge(&two, &[given("c1", "ONE"), given(&two[2].id, "three")], &ana, 5).unwrap();
    let expected =
        [("ana", "ONE", false), ("ana", "two", true), ("ana", "three", false), ("bo", "bo's", false)];
    assert_eq!(texts(&three), expected);
    assert_eq!(
        (&three[0].extra["edited"], &three[1].extra["deleted"]),
        (&json!(second(5)), &json!(second(5)))
    );
    // What is deleted stays so.
    let again = merge(
        &three,
        &[given(&three[1].id, "alive"), given(&three[0].id, "ONE"), given(&three[2].id, "three")],
        &ana,
        6,
    );
    assert_eq!(again.unwrap(), three);
    let none = merge(&three, &[], &admin(), 7).unwrap();
    assert!(none.iter().all(|comment| !comment.extra["deleted"].is_null()));
    assert_eq!(none[1].extra["deleted"], json!(second(5)));
    for bad in [vec![given("c1", "a"), given("c1", "b")], vec![given("n", " ")], vec![given("c1", "")]] {
        let error = merge(&one, &bad, &ana, 8).unwrap_err();
        assert!(matches!(error, StoreError::Invalid { .. }), "{error:?}");
    }
    let many: Vec<Comment> = (0..1001).map(|number| given(&number.to_string(), "x")).collect();
    assert!(merge(&[], &many[..1000], &ana, 9).is_ok());
    assert!(matches!(merge(&[], &many, &ana, 9), Err(StoreError::Invalid { .. })));
}

#[test]
fn comments_that_nobody_signed_are_for_administrators() {
    let unsigned = Comment { id: "c".to_owned(), text: "old".to_owned(), extra: Map::new() };
    let kept = [unsigned];
    forbidden(merge_comments(&kept, &[given("c", "new")], &user("ana"), second(1)));
    assert_eq!(merge_comments(&kept, &[], &user("ana"), second(1)).unwrap(), kept);
    let local = Author { actor: Actor::local(), any: true };
    assert_eq!(merge_comments(&kept, &[given("c", "new")], &local, second(1)).unwrap()[0].text, "new");
}

#[test]
fn people_who_comment_and_patch_at_once_lose_nothing() {
    let home = Home::new();
    let run = home.add(&draft("r", 1));
    std::thread::scope(|scope| {
        for person in 0..4 {
            let (home, run) = (&home, &run);
            scope.spawn(move || {
                let by = user(&format!("p{person}"));
                for number in 0..5 {
                    home.store.comment_on_run(run, &format!("c{person}-{number}"), &by).unwrap();
                    let edit = RunEdit {
                        comments: Some(home.store.run(run).unwrap().header.comments),
                        description: Some(Some(format!("{person} {number}"))),
                        ..RunEdit::default()
                    };
                    home.store.patch_run(run, &edit, &by).unwrap();
                }
            });
        }
    });
    let comments = home.store.run(&run).unwrap().header.comments;
    assert_eq!(comments.len(), 20);
    assert!(comments.iter().all(|comment| comment.extra["deleted"].is_null()));
}

#[test]
fn a_patch_of_a_version_that_passed_is_refused() {
    let home = Home::new();
    let run = home.add(&draft("r", 1));
    home.store.comment_on_run(&run, "first", &user("ana")).unwrap();
    let edit = RunEdit { comments: Some(vec![given("n", "new")]), if_version: Some(1), ..RunEdit::default() };
    assert!(matches!(home.store.patch_run(&run, &edit, &user("ana")), Err(StoreError::Conflict(_))));
    let edit = RunEdit { if_version: None, ..edit };
    home.store.patch_run(&run, &edit, &user("bo")).unwrap();
    let comments = home.store.run(&run).unwrap().header.comments;
    assert_eq!(texts(&comments), [("ana", "first", false), ("bo", "new", false)]);
}
