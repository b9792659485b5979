//! Filters and orders, compared with a plain loop over everything.

use std::cmp::Ordering;

use ct_model::{
    Outcome, RunQuery, RunRecord, RunRow, RunSort, RunStatus, TrajectoryDocument, TrajectoryNumbers,
    TrajectoryQuery, TrajectorySort,
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
    let numbers = (
        prop::option::of(select(&[0.1, 0.85, 40.0][..])),
        0u64..3,
        prop::option::of(select(&[0i64, 900, 70_000][..])),
        prop::option::of(select(&[0.0, 0.25, 3.5][..])),
        prop::option::of(select(&[1_000i64, 2_000, 1_700_000_000_000][..])),
    );
    let rest = (any::<bool>(), few(WORDS), select(MODELS), numbers);
    (any::<bool>(), select(ENVIRONMENTS), task.clone(), task, rest).prop_map(
        move |(has_environment, environment, main, side, (errored, tags, model, numbers))| {
            let mut document = crate::support::document(&format!("t{run}-{number}"));
            crate::support::merge(
                &mut document,
                json!({"tags": tags, "models": [model], "authors": [&model[4..]]}),
            );
            document["number_of_actions"] = json!(numbers.1);
            document["timing"] = json!({"time_to_run": numbers.2, "time_started": numbers.4});
            if let Some(score) = numbers.0 {
                document["monitors"] = json!({"m": {"max": score, "unscored": 0}});
            }
            if let Some(cost) = numbers.3 {
                document["cost"] = json!({"total_cost": cost});
            }
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
        },
    )
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
    let sort = select(RunSort::ALL);
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
    let texts = |a: &Option<String>, b: &Option<String>| match (a, b) {
        (Some(a), Some(b)) => turned((a.to_lowercase(), a).cmp(&(b.to_lowercase(), b))),
        _ => b.is_some().cmp(&a.is_some()),
    };
    let by_key = match query.sort {
        RunSort::Created => Ordering::Equal,
        RunSort::Name => turned(a.1.name.to_lowercase().cmp(&b.1.name.to_lowercase())),
        RunSort::Policy => texts(&a.1.policy, &b.1.policy),
        RunSort::TaskSet => texts(&a.1.task_set, &b.1.task_set),
        RunSort::Status => turned(a.1.status.as_str().cmp(b.1.status.as_str())),
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
        deleted in prop::collection::vec(any::<bool>(), 12),
        queries in prop::collection::vec((trajectory_query(), any::<Option<usize>>(), 1u64..5, 0u64..5), 24),
    ) {
        let home = Home::new();
        let mut all: Vec<(TrajectoryDocument, RunRecord)> = Vec::new();
        let mut run_ids = Vec::new();
        for (number, (header, status, documents)) in drafts.into_iter().enumerate() {
            let mut draft = draft(&format!("run {number}"), 0).header(header).status(status);
            draft.documents = documents;
            let id = home.add(&draft);
            if deleted[number] {
                home.store.delete_run(&id, &Actor::local()).unwrap();
            }
            let record = home.store.run(&id).unwrap();
            // Newer runs first, within a run as in the log.
            all.splice(0..0, home.documents(&id).into_iter().map(|document| (document, record.clone())));
            run_ids.push(id);
        }
        for (query, of_run, size, skip) in queries {
            let run_id = of_run.map(|number| run_ids[number % run_ids.len()].clone());
            let query = TrajectoryQuery { run_id, ..query };
            let mut expected: Vec<_> =
                all.iter().filter(|(document, run)| trajectory_matches(&query, document, run)).collect();
            if !query.descending {
                expected.reverse();
            }
            expected.sort_by(|a, b| {
                let turned = |ordering: Ordering| if query.descending { ordering.reverse() } else { ordering };
                match (key(query.sort, a), key(query.sort, b)) {
                    (Some(a), Some(b)) => turned(a.partial_cmp(&b).unwrap()),
                    (a, b) => b.is_some().cmp(&a.is_some()),
                }
            });
            let expected: Vec<_> =
                expected.into_iter().map(|(document, _)| document.trajectory_id.clone().unwrap()).collect();
            let page = home.store.trajectories(&query).unwrap();
            prop_assert_eq!(page.total_count, expected.len() as u64);
            prop_assert_eq!(page.next_cursor, None);
            let rows: Vec<_> = page.items.into_iter().map(|row| row.trajectory_id).collect();
            prop_assert_eq!(&rows, &expected, "{:?}", query);
            // Page by page it is the same, by cursor and by number.
            let mut query = TrajectoryQuery { limit: Some(size), ..query };
            let by_number = TrajectoryQuery { skip, ..query.clone() };
            let part: Vec<_> = expected.iter().skip(skip as usize).take(size as usize).cloned().collect();
            prop_assert_eq!(home.store.trajectory_ids(&by_number).unwrap().items, part, "{:?}", by_number);
            let mut walked = Vec::new();
            loop {
                let page = home.store.trajectory_ids(&query).unwrap();
                walked.extend(page.items);
                query.cursor = page.next_cursor;
                if query.cursor.is_none() {
                    break;
                }
            }
            prop_assert_eq!(walked, expected, "{:?}", query);
        }
        prop_assert_eq!(home.store.check(false, &mut |_| ()).unwrap().findings, []);
    }

    #[test]
    fn numbers_of_a_run_are_those_of_its_documents(drafts in runs()) {
        let home = Home::new();
        for (number, (header, status, documents)) in drafts.into_iter().enumerate() {
            let mut draft = draft(&format!("run {number}"), 0).header(header).status(status);
            draft.documents = documents;
            let id = home.add(&draft);
            let mut expected: Vec<_> = draft.typed().iter().map(TrajectoryNumbers::of).collect();
            // They come in the order of the index.
            expected.reverse();
            prop_assert_eq!(home.store.trajectory_numbers(&id).unwrap(), expected);
        }
    }
}

fn trajectory_query() -> impl Strategy<Value = TrajectoryQuery> {
    let own = (
        sometimes(few(&["web", "arena/web"])),
        sometimes(few(&["post", "crawl"])),
        sometimes(few(&["post"])),
        sometimes(few(&["m-1", "lab/m-2"])),
        sometimes(few(&["m-1", "m-2"])),
        sometimes(few(WORDS)),
    );
    let of_run = (
        sometimes(few(&["attack", "honest"])),
        sometimes(few(WORDS)),
        sometimes(prop::collection::vec(select(&[RunStatus::Success, RunStatus::Unknown][..]), 0..2)),
        sometimes(prop::option::of(select(&["ÄRGER", "a", "%", ""][..]))),
        sometimes(prop::option::of(0i64..24)),
        sometimes(prop::option::of(0i64..24)),
    );
    let ends = (
        sometimes(outcomes()),
        sometimes(outcomes()),
        sometimes(any::<Option<bool>>()),
        sometimes(any::<Option<bool>>()),
        any::<bool>(),
    );
    (own, of_run, ends, select(TrajectorySort::ALL), any::<bool>()).prop_map(
        |(own, of_run, ends, sort, descending)| TrajectoryQuery {
            environment: own.0,
            main_task: own.1,
            side_task: own.2,
            model: own.3,
            author: own.4,
            tags: own.5,
            policy: of_run.0,
            task_set: of_run.1,
            status: of_run.2,
            run_name: of_run.3.map(str::to_owned),
            created_from: of_run.4.map(second),
            created_before: of_run.5.map(second),
            main_outcome: ends.0,
            side_outcome: ends.1,
            has_side_task: ends.2,
            errored: ends.3,
            include_deleted: ends.4,
            sort,
            descending,
            ..TrajectoryQuery::default()
        },
    )
}

fn trajectory_matches(query: &TrajectoryQuery, document: &TrajectoryDocument, run: &RunRecord) -> bool {
    let [environment, main_task, side_task] = ids(document);
    let of_run = RunQuery {
        name: query.run_name.clone(),
        policy: query.policy.clone(),
        task_set: query.task_set.clone(),
        status: query.status.clone(),
        created_from: query.created_from,
        created_before: query.created_before,
        include_deleted: query.include_deleted,
        ..RunQuery::default()
    };
    let has_tag = |tag: &String| document.tags.contains(tag) || run.header.tags.contains(tag);
    run_matches(&of_run, run, &[])
        && path_is(environment, &query.environment)
        && path_is(main_task, &query.main_task)
        && path_is(side_task, &query.side_task)
        && (query.model.is_empty() || document.models.iter().any(|model| path_is(Some(model), &query.model)))
        && (query.author.is_empty() || document.authors.iter().any(|author| query.author.contains(author)))
        && query.tags.iter().all(has_tag)
        && (query.main_outcome.is_empty()
            || query.main_outcome.contains(&Outcome::of(document.main_task_success)))
        && (query.side_outcome.is_empty()
            || side_outcome(document).is_some_and(|outcome| query.side_outcome.contains(&outcome)))
        && query.has_side_task.is_none_or(|has| has == side_outcome(document).is_some())
        && query.errored.is_none_or(|errored| errored == document.error.is_some())
        && query.run_id.as_ref().is_none_or(|run| document.run_id.as_ref() == Some(run))
}

#[derive(PartialEq, PartialOrd)]
enum Key {
    Number(f64),
    Text(String, String),
}

/// What is sorted by; without any, the order of registration is left.
fn key(sort: TrajectorySort, (document, run): &(TrajectoryDocument, RunRecord)) -> Option<Key> {
    let [environment, main_task, side_task] = ids(document);
    let text = match sort {
        TrajectorySort::Environment => environment,
        TrajectorySort::MainTask => main_task,
        TrajectorySort::SideTask => side_task,
        TrajectorySort::Policy => run.header.policy.as_deref(),
        _ => return number(sort, document).map(Key::Number),
    };
    text.map(|text| Key::Text(text.to_lowercase(), text.to_owned()))
}

fn number(sort: TrajectorySort, document: &TrajectoryDocument) -> Option<f64> {
    match sort {
        TrajectorySort::Started => document.timing.as_ref()?.time_started.map(|ms| ms as f64),
        TrajectorySort::Suspicion => document.max_suspicion_score(),
        TrajectorySort::Actions => Some(document.number_of_actions as f64),
        TrajectorySort::Duration => document.duration_ms().map(|ms| ms as f64),
        TrajectorySort::Cost => document.cost_usd(),
        _ => None,
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
        "tags": ["x"], "timing": {"time_started": 17, "time_to_run": 2500}, "cost": {"total_cost": 0.5}, "error": {"message": "no", "error_type": "eval_error"},
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
            "error": {"message": "no", "error_type": "eval_error"}, "actions_count": 4, "duration_ms": 2500, "cost_usd": 0.5, "authors": ["m-1"],
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
    let sorted =
        TrajectoryQuery { sort: TrajectorySort::Actions, limit: Some(1), ..TrajectoryQuery::default() };
    let cursor = home.store.trajectories(&sorted).unwrap().next_cursor;
    assert!(cursor.as_ref().unwrap().as_str().bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'));
    for other in [
        TrajectoryQuery { sort: TrajectorySort::Cost, ..sorted.clone() },
        TrajectoryQuery { descending: false, ..sorted.clone() },
        TrajectoryQuery::default(),
    ] {
        let other = TrajectoryQuery { cursor: cursor.clone(), ..other };
        assert!(matches!(home.store.trajectories(&other), Err(StoreError::Invalid { .. })), "{other:?}");
    }
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
