//! Who walks the pages sees each row that was there throughout exactly once, whatever others do meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use ct_model::{RunEdit, RunId, RunQuery, RunSort, TrajectoryQuery, TrajectorySort};
use ct_store::{CommitMode, GcOptions};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

use crate::support::{Home, add, draft, second};

/// What others do between two pages.
#[derive(Debug, Clone)]
enum Step {
    Add { cost: Option<f64>, trajectories: usize },
    Delete(usize),
    Restore(usize),
    Purge,
    Tag(usize),
    Replace(usize),
}

const TRAJECTORY_SORTS: &[TrajectorySort] = &[
    TrajectorySort::Created,
    TrajectorySort::Actions,
    TrajectorySort::Cost,
    TrajectorySort::MainTask,
    TrajectorySort::Policy,
];

fn step() -> impl Strategy<Value = Step> {
    let cost = prop::option::of(select(&[0.0, 1.0, 2.0][..]));
    prop_oneof![
        3 => (cost, 0usize..4).prop_map(|(cost, trajectories)| Step::Add { cost, trajectories }),
        2 => any::<usize>().prop_map(Step::Delete),
        1 => any::<usize>().prop_map(Step::Restore),
        1 => Just(Step::Purge),
        1 => any::<usize>().prop_map(Step::Tag),
        1 => any::<usize>().prop_map(Step::Replace),
    ]
}

#[derive(Default)]
struct Someone {
    made: usize,
    runs: BTreeMap<usize, RunId>,
}

impl Someone {
    /// Does it, and tells the runs that are no longer where they were all the time.
    fn act(&mut self, home: &Home, step: &Step) -> Vec<RunId> {
        let pick = |number: usize| self.runs.values().nth(number % self.runs.len().max(1)).cloned();
        match step {
            Step::Add { cost, trajectories } => {
                let policy = [json!("b"), json!("lab/A"), json!(null)][self.made % 3].clone();
                let task = ["x", "Y"][self.made % 2];
                let draft = draft(&format!("run-{}", self.made), *trajectories)
                    .header(json!({"total_cost_usd": cost, "policy": policy}))
                    .each(json!({"cost": {"total_cost": cost}, "number_of_actions": self.made % 3}))
                    .each(json!({"main_task": {"id": task}}));
                self.runs.insert(self.made, home.add(&draft));
                self.made += 1;
                Vec::new()
            }
            Step::Delete(number) => pick(*number)
                .into_iter()
                .inspect(|id| drop(home.store.delete_run(id, &ct_store::Actor::local())))
                .collect(),
            Step::Restore(number) => pick(*number)
                .into_iter()
                .inspect(|id| drop(home.store.restore_run(id, &ct_store::Actor::local())))
                .collect(),
            Step::Purge => {
                let options = GcOptions { dry_run: false, purge_deleted_before: Some(second(1_000_000)) };
                home.store.gc(options).unwrap();
                self.runs.retain(|_, id| home.store.run(id).is_ok());
                Vec::new()
            }
            Step::Tag(number) => {
                let edit = RunEdit { add_tags: vec![format!("tag {}", self.made)], ..RunEdit::default() };
                // A deleted run refuses, which is as well.
                pick(*number)
                    .iter()
                    .for_each(|id| drop(home.store.edit_run(id, &edit, &ct_store::Actor::local())));
                Vec::new()
            }
            Step::Replace(number) => {
                let Some(id) = pick(*number) else { return Vec::new() };
                let Ok(record) = home.store.run(&id) else { return Vec::new() };
                self.made += 1;
                let mut draft = draft(&format!("again-{}", self.made), 1);
                draft.header["name"] = json!(record.header.name);
                draft.header["policy"] = json!(record.header.policy);
                draft.header["total_cost_usd"] = json!(record.header.total_cost_usd);
                let old =
                    home.documents(&id).into_iter().map(|document| serde_json::to_value(document).unwrap());
                draft.documents.extend(old);
                drop(add(&home.store, &draft, CommitMode::Replace(id)));
                Vec::new()
            }
        }
    }
}

fn check_once(
    seen: &[String],
    before: &BTreeSet<String>,
    after: &BTreeSet<String>,
    moved: &BTreeSet<String>,
) {
    let distinct: BTreeSet<_> = seen.iter().cloned().collect();
    assert_eq!(distinct.len(), seen.len(), "a row came twice: {seen:?}");
    for row in before.intersection(after).filter(|row| !moved.contains(*row)) {
        assert!(distinct.contains(row), "{row} was left out of {seen:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn pages_of_runs(
        start in prop::collection::vec(step(), 1..16),
        between in prop::collection::vec(step(), 0..16),
        size in 1u64..4,
        sort in select(&[RunSort::Created, RunSort::Name, RunSort::Policy, RunSort::Cost][..]),
        descending in any::<bool>(),
    ) {
        let home = Home::new();
        let mut actor = Someone::default();
        start.iter().for_each(|step| drop(actor.act(&home, step)));
        let all = RunQuery { sort, descending, ..RunQuery::default() };
        let names = |query: &RunQuery| -> Vec<String> {
            home.store.runs(query).unwrap().items.iter().map(|run| run.run_id.to_string()).collect()
        };
        let before: BTreeSet<_> = names(&all).into_iter().collect();
        let (mut seen, mut moved, mut steps) = (Vec::new(), BTreeSet::new(), between.iter());
        let mut query = RunQuery { limit: Some(size), ..all.clone() };
        loop {
            let page = home.store.runs(&query).unwrap();
            seen.extend(page.items.iter().map(|run| run.run_id.to_string()));
            prop_assert!(page.items.len() as u64 == size || page.next_cursor.is_none());
            prop_assert_eq!(page.total_count, names(&all).len() as u64);
            for step in steps.by_ref().take(2) {
                moved.extend(actor.act(&home, step).into_iter().map(String::from));
            }
            query.cursor = page.next_cursor;
            if query.cursor.is_none() {
                break;
            }
        }
        check_once(&seen, &before, &names(&all).into_iter().collect(), &moved);
        // Without others the pages are the whole list, and page numbers lead to the same.
        let (mut walked, mut numbered) = (Vec::new(), Vec::new());
        let mut query = RunQuery { limit: Some(size), ..all.clone() };
        for number in 0.. {
            let page = home.store.runs(&query).unwrap();
            let by_number = RunQuery { limit: Some(size), skip: number * size, ..all.clone() };
            prop_assert_eq!(&home.store.runs(&by_number).unwrap().next_cursor, &page.next_cursor);
            numbered.extend(names(&by_number));
            walked.extend(page.items.iter().map(|run| run.run_id.to_string()));
            query.cursor = page.next_cursor;
            if query.cursor.is_none() {
                break;
            }
        }
        prop_assert_eq!(&walked, &names(&all));
        prop_assert_eq!(&numbered, &walked);
        prop_assert!(home.store.check(false, &mut |_| ()).unwrap().is_sound());
    }

    #[test]
    fn pages_of_trajectories(
        start in prop::collection::vec(step(), 1..12),
        between in prop::collection::vec(step(), 0..12),
        size in 1u64..4,
        sort in select(TRAJECTORY_SORTS),
        descending in any::<bool>(),
    ) {
        let home = Home::new();
        let mut actor = Someone::default();
        start.iter().for_each(|step| drop(actor.act(&home, step)));
        let all = TrajectoryQuery { sort, descending, ..TrajectoryQuery::default() };
        let names = |query: &TrajectoryQuery| -> Vec<String> {
            home.store.trajectory_ids(query).unwrap().items.iter().map(ToString::to_string).collect()
        };
        let before: BTreeSet<_> = names(&all).into_iter().collect();
        let (mut seen, mut moved, mut steps) = (Vec::new(), BTreeSet::new(), between.iter());
        let mut query = TrajectoryQuery { limit: Some(size), ..all.clone() };
        loop {
            let page = home.store.trajectory_ids(&query).unwrap();
            seen.extend(page.items.iter().map(ToString::to_string));
            for step in steps.by_ref().take(2) {
                for run in actor.act(&home, step) {
                    // Purged ones are not there in the end either.
                    if home.store.run(&run).is_ok() {
                        moved.extend(home.documents(&run).into_iter().filter_map(|d| d.trajectory_id).map(String::from));
                    }
                }
            }
            query.cursor = page.next_cursor;
            if query.cursor.is_none() {
                break;
            }
        }
        check_once(&seen, &before, &names(&all).into_iter().collect(), &moved);
    }
    #[test]
    fn lists_tell_what_others_have_written(
        steps in prop::collection::vec((step(), any::<bool>()), 1..16),
    ) {
        let mut home = Home::new();
        // Another process, which goes on too.
        let mut other = home.open();
        let mut actor = Someone::default();
        let by_run = TrajectoryQuery { run_name: Some("1".to_owned()), ..TrajectoryQuery::default() };
        let sorted = |sort| TrajectoryQuery { sort, ..TrajectoryQuery::default() };
        let queries = [
            by_run.clone(),
            sorted(TrajectorySort::Cost),
            sorted(TrajectorySort::Actions),
            sorted(TrajectorySort::MainTask),
            sorted(TrajectorySort::Policy),
            TrajectoryQuery { sort: TrajectorySort::Cost, descending: false, ..by_run },
        ];
        for (step, turn) in steps {
            if turn {
                std::mem::swap(&mut home.store, &mut other);
            }
            actor.act(&home, &step);
            let fresh = home.open();
            for query in &queries {
                let expected = fresh.trajectory_ids(query).unwrap();
                prop_assert_eq!(&home.store.trajectory_ids(query).unwrap(), &expected);
                prop_assert_eq!(&other.trajectory_ids(query).unwrap(), &expected);
            }
        }
    }
}
