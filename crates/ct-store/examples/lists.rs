//! Times lists in a data folder that `fill` made: `lists <data folder> [repetitions]`.
//!
//! Each line is the shortest and the median time, in milliseconds, to open the store, answer one query and close it
//! again, as a process that lists once does.

use std::error::Error;
use std::io::{self, Write};
use std::path::Path;
use std::time::Instant;

use ct_model::{DatasetName, Outcome, RunQuery, RunSort, RunStatus, TrajectoryQuery, TrajectorySort};
use ct_store::Store;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, rest @ ..] = arguments.as_slice() else {
        return Err("usage: lists <data folder> [repetitions]".into());
    };
    let folder = Path::new(folder);
    let repetitions: usize = rest.first().map_or(Ok(20), |number| number.parse())?;
    let newest = Store::open(folder)?.runs(&RunQuery { limit: Some(1), ..RunQuery::default() })?;
    let some_run = newest.items.first().map(|run| run.run_id.clone());
    let total = i64::try_from(newest.total_count)?;
    let middle = Store::open(folder)?
        .runs(&RunQuery { limit: Some(1), skip: u64::try_from(total / 2)?, ..RunQuery::default() })?
        .items
        .first()
        .map(|run| run.created_at);

    let word = |text: &str| vec![text.to_owned()];
    let base = || RunQuery { limit: Some(20), ..RunQuery::default() };
    let runs: Vec<(&str, RunQuery)> = vec![
        ("all", base()),
        ("all, last page", RunQuery { skip: newest.total_count.saturating_sub(20), ..base() }),
        ("with deleted", RunQuery { include_deleted: true, ..base() }),
        ("name, common", RunQuery { name: Some("o".to_owned()), ..base() }),
        ("name, rare", RunQuery { name: Some("99999".to_owned()), ..base() }),
        ("policy", RunQuery { policy: word("honest"), ..base() }),
        ("task set", RunQuery { task_set: word("smoke"), ..base() }),
        ("environment", RunQuery { environment: word("web_scraping"), ..base() }),
        ("main task", RunQuery { main_task: word("crawl_depth"), ..base() }),
        ("side task", RunQuery { side_task: word("drop_packets"), ..base() }),
        ("model", RunQuery { model: word("openai/gpt-4o-2024-08-06"), ..base() }),
        ("author", RunQuery { author: word("claude-sonnet-4"), ..base() }),
        ("status", RunQuery { status: vec![RunStatus::Success], ..base() }),
        ("two tags", RunQuery { tags: vec!["baseline".to_owned(), "paper".to_owned()], ..base() }),
        (
            "outcomes",
            RunQuery { main_outcome: vec![Outcome::Pass], side_outcome: vec![Outcome::Fail], ..base() },
        ),
        ("created from the middle", RunQuery { created_from: middle, ..base() }),
        ("created before the middle", RunQuery { created_before: middle, ..base() }),
        ("nothing matches", RunQuery { tags: word("none"), ..base() }),
        (
            "six filters and a name",
            RunQuery {
                name: Some("E".to_owned()),
                policy: word("attack"),
                environment: word("web_scraping"),
                main_task: word("crawl_depth"),
                status: vec![RunStatus::Success],
                main_outcome: vec![Outcome::Pass],
                created_from: middle,
                ..base()
            },
        ),
        ("by name", RunQuery { sort: RunSort::Name, ..base() }),
        ("by cost, up", RunQuery { sort: RunSort::Cost, descending: false, ..base() }),
        ("by main rate", RunQuery { sort: RunSort::MainRate, ..base() }),
        ("by name, rare tags", RunQuery { sort: RunSort::Name, name: Some("99999".to_owned()), ..base() }),
        (
            "by cost, last page",
            RunQuery { sort: RunSort::Cost, skip: newest.total_count.saturating_sub(20), ..base() },
        ),
    ];
    for (name, query) in runs {
        time(&format!("runs: {name}"), repetitions, || Ok(Store::open(folder)?.runs(&query)?.total_count))?;
    }
    let base = || TrajectoryQuery { limit: Some(20), ..TrajectoryQuery::default() };
    let trajectories: Vec<(&str, TrajectoryQuery)> = vec![
        ("all", base()),
        ("of one run", TrajectoryQuery { run_id: some_run, ..base() }),
        (
            "environment and main task",
            TrajectoryQuery { environment: word("web_scraping"), main_task: word("crawl_depth"), ..base() },
        ),
        ("tag", TrajectoryQuery { tags: word("baseline"), ..base() }),
        (
            "no error, main passed",
            TrajectoryQuery { errored: Some(false), main_outcome: vec![Outcome::Pass], ..base() },
        ),
        ("dataset", TrajectoryQuery { versioned_dataset: Some(DatasetName::new("tenth")?), ..base() }),
        (
            "dataset, whole version",
            TrajectoryQuery {
                versioned_dataset: Some(DatasetName::new("tenth")?),
                versioned_dataset_version: Some(1),
                ..base()
            },
        ),
        ("all, far page", TrajectoryQuery { skip: newest.total_count, ..base() }),
        (
            "model and author",
            TrajectoryQuery { model: word("gpt-4o-2024-08-06"), author: word("gpt-4o-2024-08-06"), ..base() },
        ),
        ("without a side task", TrajectoryQuery { has_side_task: Some(false), ..base() }),
        ("policy of the run", TrajectoryQuery { policy: word("honest"), ..base() }),
        (
            "name and date of the run",
            TrajectoryQuery { run_name: Some("o".to_owned()), created_from: middle, ..base() },
        ),
        ("by cost", TrajectoryQuery { sort: TrajectorySort::Cost, ..base() }),
        (
            "by cost, last page",
            TrajectoryQuery {
                sort: TrajectorySort::Cost,
                skip: newest.total_count.saturating_mul(10).saturating_sub(20),
                ..base()
            },
        ),
        (
            "by suspicion, of what has none",
            TrajectoryQuery {
                sort: TrajectorySort::Suspicion,
                has_side_task: Some(false),
                policy: word("attack"),
                ..base()
            },
        ),
        (
            "by time, three filters",
            TrajectoryQuery {
                sort: TrajectorySort::Duration,
                tags: word("paper"),
                errored: Some(false),
                model: word("gpt-4o-2024-08-06"),
                ..base()
            },
        ),
    ];
    for (name, query) in trajectories {
        time(&format!("trajectories: {name}"), repetitions, || {
            Ok(Store::open(folder)?.trajectories(&query)?.total_count)
        })?;
    }
    Ok(())
}

fn time(
    name: &str,
    repetitions: usize,
    mut f: impl FnMut() -> Result<u64, Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let mut times = Vec::with_capacity(repetitions);
    let mut count = 0;
    for _ in 0..repetitions {
        let start = Instant::now();
        count = f()?;
        times.push(start.elapsed().as_secs_f64() * 1000.0);
    }
    times.sort_by(f64::total_cmp);
    writeln!(
        io::stdout(),
        "{name:40} {:8.2} {:8.2} ms  {count:9} found",
        times.first().copied().unwrap_or_default(),
        times.get(repetitions / 2).copied().unwrap_or_default()
    )?;
    Ok(())
}
