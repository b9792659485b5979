//! Filters and orders, compared with a plain loop over everything.

use std::cmp::Ordering;

use ct_model::{
    Outcome, RunQuery, RunRecord, RunRow, RunSort, RunStatus, TrajectoryDocument, TrajectoryQuery,
};
use ct_store::{Actor, StoreError};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::support::{Home, draft, second};

const POLICIES: &[&str] = &["ct/honest", "ct/attack", "attack"];
const ENVIRONMENTS: &[&str] = &["arena/web", "web", "arena/chat", "x/y+arena/web"];
const TASKS: &[&str] = &["crawl", "post", "crawl+post", "set/post"];
const MODELS: &[&str] = &["lab/m-1", "lab/m-2"];
const NAMES: &[&str] = &["Ärger one", "ärger two", "Zeta", "alpha%_", "beta"];
const WORDS: &[&str] = &["a", "b", "c"];

fn few(words: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
    prop::collection::btree_set(select(words), 0..3)
        .prop_map(|set| set.into_iter().map(str::to_owned).collect())
}

fn document(run: usize, number: usize) -> impl Strategy<Value = Value> {
    let task = (any::<bool>(), select(TASKS), any::<Option<bool>>());
    (any::<bool>(), select(ENVIRONMENTS), task.clone(), task, any::<bool>(), few(WORDS), select(MODELS))
        .prop_map(move |(has_environment, environment, main, side, errored, tags, model)| {
            let mut document = crate::support::document(&format!("t{run}-{number}"));
            crate::support::merge(
                &mut document,
                json!({"tags": tags, "models": [model], "authors": [&model[4..]]}),
            );
            if has_environment {
                document["environment"] = json!({"id": environment});
            }
            if main.0 {
                document["main_task"] = json!({"id": main.1});
            }
            document["main_task_success"] = json!(main.2);
            if side.0 {
                document["side_task"] = json!({"id": side.1});
                document["side_task_success"] = json!(side.2);
            }
            if errored {
                document["error"] = json!({"message": "it broke"});
            }
            document
        })
}

fn run(number: usize) -> impl Strategy<Value = (Value, RunStatus, Vec<Value>)> {
    let header =
        (select(NAMES), prop::option::of(select(POLICIES)), prop::option::of(select(WORDS)), few(WORDS));
    let documents =
        (0usize..4).prop_flat_map(move |count| (0..count).map(|n| document(number, n)).collect::<Vec<_>>());
    let cost = prop::option::of(select(&[0.0, 1.5, 2.5][..]));
    let status = select(&[RunStatus::Success, RunStatus::Error, RunStatus::Unknown][..]);
    (header, cost, status, documents).prop_map(|((name, policy, task_set, tags), cost, status, documents)| {
        let header = json!({
            "name": name, "policy": policy, "task_set": task_set, "tags": tags, "total_cost_usd": cost,
        });
        (header, status, documents)
    })
}

fn runs() -> impl Strategy<Value = Vec<(Value, RunStatus, Vec<Value>)>> {
    (1usize..12).prop_flat_map(|count| (0..count).map(run).collect::<Vec<_>>())
}

fn outcomes() -> impl Strategy<Value = Vec<Outcome>> {
    prop::collection::vec(select(&[Outcome::Pass, Outcome::Fail, Outcome::Unscored][..]), 0..2)
}

fn sometimes<T: Default + Clone + std::fmt::Debug>(s: impl Strategy<Value = T>) -> impl Strategy<Value = T> {
    prop_oneof![3 => Just(T::default()), 1 => s]
}

fn run_query() -> impl Strategy<Value = RunQuery> {
    let paths = (
        sometimes(few(&["web", "arena/web", "chat", "x/y", "none"])),
        sometimes(few(&["post", "crawl+post", "crawl"])),
        sometimes(few(&["post", "set/post"])),
        sometimes(few(&["attack", "ct/attack", "honest"])),
    );
    let words = (
        sometimes(few(MODELS)),
        sometimes(few(&["m-1", "m-2"])),
        sometimes(few(WORDS)),
        sometimes(few(WORDS)),
    );
    let status =
        sometimes(prop::collection::vec(select(&[RunStatus::Success, RunStatus::Unknown][..]), 0..2));
    let rest = (sometimes(outcomes()), sometimes(outcomes()), status, any::<bool>());
    let name = sometimes(prop::option::of(select(&["ÄRGER", "a", "%", "_", "T", ""][..])));
    let times = (sometimes(prop::option::of(0i64..12)), sometimes(prop::option::of(0i64..12)));
    let sort = select(
        &[RunSort::Created, RunSort::Name, RunSort::Cost, RunSort::Trajectories, RunSort::MainRate][..],
    );
    (paths, words, rest, name, times, (sort, any::<bool>())).prop_map(
        |(paths, words, rest, name, times, sort)| RunQuery {
            environment: paths.0,
            main_task: paths.1,
            side_task: paths.2,
            policy: paths.3,
            model: words.0,
            author: words.1,
            tags: words.2,
            task_set: words.3,
            main_outcome: rest.0,
            side_outcome: rest.1,
            status: rest.2,
            include_deleted: rest.3,
            name: name.map(str::to_owned),
            created_from: times.0.map(second),
            created_before: times.1.map(second),
            sort: sort.0,
            descending: sort.1,
            ..RunQuery::default()
        },
    )
}

/// Whether a value is one of those asked for, whole or by the last segment of one of its parts.
fn path_is(value: Option<&str>, asked: &[String]) -> bool {
    let Some(value) = value else { return asked.is_empty() };
    let ends_so = |part: &str, asked: &str| part == asked || part.rsplit('/').next() == Some(asked);
    asked.is_empty()
        || asked
            .iter()
            .any(|asked| ends_so(value, asked) || value.split('+').any(|part| ends_so(part, asked)))
}

fn any_of<T>(items: &[T], asked_empty: bool, f: impl Fn(&T) -> bool) -> bool {
    asked_empty || items.iter().any(f)
}

fn side_outcome(document: &TrajectoryDocument) -> Option<Outcome> {
    document.side_task.as_ref().map(|_| Outcome::of(document.side_task_success))
}

fn ids(document: &TrajectoryDocument) -> [Option<&str>; 3] {
    [
        document.environment.as_ref().and_then(|environment| environment.id.as_deref()),
        document.main_task.as_ref().and_then(|task| task.id.as_deref()),
        document.side_task.as_ref().and_then(|task| task.id.as_deref()),
    ]
}

fn run_matches(query: &RunQuery, record: &RunRecord, documents: &[TrajectoryDocument]) -> bool {
    let header = &record.header;
    let some = |asked: &Vec<String>, value: &Option<String>| {
        asked.is_empty() || value.as_ref().is_some_and(|value| asked.contains(value))
    };
    (query.include_deleted || record.deleted_at.is_none())
        && query.name.as_ref().is_none_or(|part| header.name.to_lowercase().contains(&part.to_lowercase()))
        && path_is(header.policy.as_deref(), &query.policy)
        && some(&query.task_set, &header.task_set)
        && any_of(documents, query.environment.is_empty(), |d| {
            ids(d)[0].is_some() && path_is(ids(d)[0], &query.environment)
        })
        && any_of(documents, query.main_task.is_empty(), |d| {
            ids(d)[1].is_some() && path_is(ids(d)[1], &query.main_task)
        })
        && any_of(documents, query.side_task.is_empty(), |d| {
            ids(d)[2].is_some() && path_is(ids(d)[2], &query.side_task)
        })
        && any_of(documents, query.model.is_empty(), |d| {
            d.models.iter().any(|model| path_is(Some(model), &query.model))
        })
        && any_of(documents, query.author.is_empty(), |d| {
            d.authors.iter().any(|author| query.author.contains(author))
        })
        && (query.status.is_empty() || query.status.contains(&record.status))
        && query.tags.iter().all(|tag| header.tags.contains(tag))
        && any_of(documents, query.main_outcome.is_empty(), |d| {
            query.main_outcome.contains(&Outcome::of(d.main_task_success))
        })
        && any_of(documents, query.side_outcome.is_empty(), |d| {
            side_outcome(d).is_some_and(|outcome| query.side_outcome.contains(&outcome))
        })
        && query.created_from.is_none_or(|from| record.created_at >= from)
        && query.created_before.is_none_or(|before| record.created_at < before)
}

/// Missing values last in either direction, equal ones in the order of registration.
fn order(query: &RunQuery, a: (usize, &RunRow), b: (usize, &RunRow)) -> Ordering {
    let turned = |ordering: Ordering| if query.descending { ordering.reverse() } else { ordering };
    let numbers = |a: Option<f64>, b: Option<f64>| match (a, b) {
        (Some(a), Some(b)) => turned(a.total_cmp(&b)),
        _ => b.is_some().cmp(&a.is_some()),
    };
    let by_key = match query.sort {
        RunSort::Created => Ordering::Equal,
        RunSort::Name => turned(a.1.name.to_lowercase().cmp(&b.1.name.to_lowercase())),
        RunSort::Cost => numbers(a.1.total_cost_usd, b.1.total_cost_usd),
        RunSort::Trajectories => turned(a.1.trajectory_count.cmp(&b.1.trajectory_count)),
        RunSort::MainRate => numbers(a.1.counts.main.rate(), b.1.counts.main.rate()),
    };
    by_key.then_with(|| turned(a.0.cmp(&b.0)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn runs_are_those_a_plain_loop_finds(
        drafts in runs(),
        deleted in prop::collection::vec(any::<bool>(), 12),
        queries in prop::collection::vec(run_query(), 24),
    ) {
        let home = Home::new();
        let mut all = Vec::new();
        for (number, (header, status, documents)) in drafts.into_iter().enumerate() {
            let mut draft = draft(&format!("run {number}"), 0).header(header).status(status);
            draft.documents = documents;
            all.push((home.add(&draft), draft.typed()));
        }
        for ((id, _), _) in all.iter().zip(&deleted).filter(|(_, deleted)| **deleted) {
            home.store.delete_run(id, &Actor::local()).unwrap();
        }
        let everything = RunQuery { include_deleted: true, descending: false, ..RunQuery::default() };
        let rows = home.store.runs(&everything).unwrap().items;
        prop_assert_eq!(rows.len(), all.len());
        for query in queries {
            let mut expected: Vec<_> = rows.iter().enumerate().filter(|(number, _)| {
                let (id, documents) = &all[*number];
                run_matches(&query, &home.store.run(id).unwrap(), documents)
            }).collect();
            expected.sort_by(|a, b| order(&query, *a, *b));
            let page = home.store.runs(&query).unwrap();
            prop_assert_eq!(page.total_count, expected.len() as u64);
            prop_assert_eq!(page.items.iter().collect::<Vec<_>>(), expected.into_iter().map(|(_, row)| row).collect::<Vec<_>>(), "{:?}", query);
            prop_assert_eq!(page.next_cursor, None);
        }
    }

    #[test]
    fn trajectories_are_those_a_plain_loop_finds(
        drafts in runs(),
        queries in prop::collection::vec(
            (sometimes(few(&["web", "arena/web"])), sometimes(few(&["post", "crawl"])), sometimes(few(&["post"])),
             sometimes(few(WORDS)), sometimes(outcomes()), sometimes(outcomes()), any::<Option<bool>>(), any::<Option<usize>>()),
            24,
        ),
    ) {
        let home = Home::new();
        let mut all: Vec<(TrajectoryDocument, Vec<String>)> = Vec::new();
        let mut run_ids = Vec::new();
        for (number, (header, status, documents)) in drafts.into_iter().enumerate() {
            let mut draft = draft(&format!("run {number}"), 0).header(header).status(status);
            draft.documents = documents;
            let id = home.add(&draft);
            let tags = home.store.run(&id).unwrap().header.tags;
            // Newer runs first, within a run as in the log.
            all.splice(0..0, home.documents(&id).into_iter().map(|document| (document, tags.clone())));
            run_ids.push(id);
        }
        for (environment, main_task, side_task, tags, main_outcome, side, errored, of_run) in queries {
            let query = TrajectoryQuery {
                environment, main_task, side_task, tags, main_outcome, side_outcome: side, errored,
                run_id: of_run.map(|number| run_ids[number % run_ids.len()].clone()),
                ..TrajectoryQuery::default()
            };
            let expected: Vec<_> = all.iter().filter(|(document, run_tags)| {
                let [environment, main_task, side_task] = ids(document);
                path_is(environment, &query.environment)
                    && path_is(main_task, &query.main_task)
                    && path_is(side_task, &query.side_task)
                    && query.tags.iter().all(|tag| document.tags.contains(tag) || run_tags.contains(tag))
                    && (query.main_outcome.is_empty() || query.main_outcome.contains(&Outcome::of(document.main_task_success)))
                    && (query.side_outcome.is_empty() || side_outcome(document).is_some_and(|outcome| query.side_outcome.contains(&outcome)))
                    && query.errored.is_none_or(|errored| errored == document.error.is_some())
                    && query.run_id.as_ref().is_none_or(|run| document.run_id.as_ref() == Some(run))
            }).map(|(document, _)| document.trajectory_id.clone().unwrap()).collect();
            let page = home.store.trajectories(&query).unwrap();
            prop_assert_eq!(page.total_count, expected.len() as u64);
            let rows: Vec<_> = page.items.into_iter().map(|row| row.trajectory_id).collect();
            prop_assert_eq!(&rows, &expected, "{:?}", query);
            prop_assert_eq!(home.store.trajectory_ids(&query).unwrap().items, expected);
        }
    }
}

#[test]
fn a_row_tells_what_its_trajectories_come_to() {
    let home = Home::new();
    let mut draft = draft("many", 30)
        .header(json!({"policy": "p", "task_set": "s", "total_cost_usd": 1.25, "tags": ["t"]}))
        .each(json!({"environment": {"id": "arena/web"}, "models": ["m2", "m1"]}));
    for number in 0..30 {
        draft = draft.one(
            number,
            json!({"main_task": {"id": format!("task-{number:02}")}, "main_task_success": number < 10}),
        );
    }
    let id = home.add(&draft);
    let row = home.store.runs(&RunQuery::default()).unwrap().items.remove(0);
    assert_eq!((row.run_id, row.trajectory_count, row.total_cost_usd), (id.clone(), 30, Some(1.25)));
    assert_eq!((row.environments.listed, row.environments.total), (vec!["arena/web".to_owned()], 1));
    assert_eq!((row.main_tasks.listed.len(), row.main_tasks.total), (20, 30));
    assert_eq!(row.models.listed, ["m1", "m2"]);
    assert_eq!((row.side_tasks.total, row.counts.side.not_applicable), (0, 30));
    assert_eq!(row.counts.main.rate(), Some(1.0 / 3.0));
    // Values beyond those listed are found as well.
    let query = RunQuery { main_task: vec!["task-29".to_owned()], ..RunQuery::default() };
    assert_eq!(home.store.runs(&query).unwrap().total_count, 1);
}

#[test]
fn a_trajectory_row_is_the_summary_of_its_document() {
    let home = Home::new();
    let long = "ä".repeat(1000);
    let id = home.add(&draft("r", 1).one(0, json!({
        "environment": {"id": "e", "short_description": "env"},
        "main_task": {"id": "m", "description": long},
        "side_task": {"id": "s", "short_description": "side", "goal": "goal"},
        "main_task_success": true, "side_task_success": false,
        "monitors": {"a": {"max": 12.5, "unscored": 0}, "b": {"max": 80.0, "unscored": 1}, "c": {"unscored": 2}},
        "tags": ["x"], "timing": {"time_started": 17}, "error": {"message": "no", "error_type": "eval_error"},
        "number_of_actions": 4, "authors": ["m-1"], "attempts_mt": true, "attempts_sneaky": false,
    })));
    let row = home.store.trajectories(&TrajectoryQuery::default()).unwrap().items.remove(0);
    assert_eq!(
        serde_json::to_value(row).unwrap(),
        json!({
            "trajectory_id": "r-0", "run_id": id, "eval_sample_id": "sample r-0", "epoch": 1,
            "environment_id": "e", "main_task_id": "m", "side_task_id": "s",
            "environment_description": "env", "main_task_description": format!("{}…", "ä".repeat(300)),
            "side_task_description": "side", "main_task_success": true, "side_task_success": false,
            "max_suspicion_score": 80.0, "traj_suspicion_score": null, "tags": ["x"], "time_started": 17,
            "error": {"message": "no", "error_type": "eval_error"}, "actions_count": 4, "authors": ["m-1"],
            "attempts_mt": true, "attempts_st": null, "attempts_sneaky": false,
        })
    );
}

#[test]
fn hostile_names_are_only_names() {
    let home = Home::new();
    let long = "x".repeat(100_000);
    let names = ["'; DROP TABLE runs; --", "../../etc/passwd", "a\u{0}b", "\u{1b}[2J", "💥\u{202e}", &long];
    for (number, name) in names.iter().enumerate() {
        home.add(
            &draft(&format!("r{number}"), 1).header(json!({"name": name, "tags": [name], "policy": name})),
        );
    }
    for name in names {
        let by_tag = RunQuery { tags: vec![name.to_owned()], ..RunQuery::default() };
        let by_policy = RunQuery { policy: vec![name.to_owned()], ..RunQuery::default() };
        let by_name = RunQuery { name: Some(name.to_owned()), ..RunQuery::default() };
        for query in [by_tag, by_policy, by_name] {
            let page = home.store.runs(&query).unwrap();
            assert_eq!(page.items.iter().map(|run| run.name.as_str()).collect::<Vec<_>>(), [name]);
        }
    }
    assert!(home.store.check(false, &mut |_| ()).unwrap().findings.is_empty());
}

#[test]
fn a_cursor_of_another_list_is_refused() {
    let home = Home::new();
    (0..3).for_each(|number| drop(home.add(&draft(&format!("r{number}"), 2))));
    let query = RunQuery { limit: Some(1), ..RunQuery::default() };
    let cursor = home.store.runs(&query).unwrap().next_cursor.unwrap();
    assert!(cursor.as_str().bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'));
    let other = RunQuery { sort: RunSort::Name, cursor: Some(cursor.clone()), ..query.clone() };
    assert!(matches!(home.store.runs(&other), Err(StoreError::Invalid { .. })));
    let other = TrajectoryQuery { cursor: Some(cursor), ..TrajectoryQuery::default() };
    assert!(matches!(home.store.trajectories(&other), Err(StoreError::Invalid { .. })));
    for text in ["", "-", "cd-", "cd-0-", "cd-0-zz", "cd-0--1-2", "nd-é-1"] {
        let query = RunQuery { cursor: Some(ct_model::Cursor::new(text)), ..query.clone() };
        assert!(matches!(home.store.runs(&query), Err(StoreError::Invalid { .. })), "{text}");
    }
}

#[test]
fn hashes_are_found_in_upper_case_too() {
    let home = Home::new();
    let mut mixed = draft("a", 2);
    mixed.documents[0]["trajectory_id"] = json!("abcdef12");
    mixed.documents[1]["trajectory_id"] = json!("ABCDEF34");
    let run = home.add(&mixed);
    let upper = run.as_str().to_ascii_uppercase();
    assert_eq!(home.store.resolve_run(&upper).unwrap(), run);
    assert_eq!(home.store.resolve_run_with_deleted(&upper[..10]).unwrap(), run);
    let found = |prefix: &str| home.store.resolve_trajectory(prefix).map(|id| id.to_string()).ok();
    assert_eq!(found("ABCDEF12").as_deref(), Some("abcdef12"));
    // As written goes first, and what is no hash is as it is written.
    assert_eq!(found("ABCDEF").as_deref(), Some("ABCDEF34"));
    assert_eq!(found("abcdef").as_deref(), Some("abcdef12"));
    assert_eq!(found("ABCDEF1Z"), None);
}
