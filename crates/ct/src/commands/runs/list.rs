//! `ct runs list`.

use std::io::Write;

use clap::Args;
use ct_model::{Cursor, Outcome, RunQuery, RunRow, RunSort, RunStatus, TaskCounts, Values};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::filters::{self, Bound};
use crate::commands::Context;
use crate::error::CliError;
use crate::home::Home;
use crate::output::{self, Align, Csv, ListFormat, Printer, Table};

/// Runs shown without `--limit`.
const LIMIT_DEFAULT: u64 = 20;
/// Characters of an id shown in a table, at least.
const ID_CHARS: usize = 8;

/// Runs read at a time.
const ROWS_AT_ONCE: u64 = 1000;
const CSV_HEADER: &[&str] = &[
    "run_id",
    "name",
    "policy",
    "task_set",
    "status",
    "created_at",
    "trajectory_count",
    "main_pass",
    "main_fail",
    "main_unscored",
    "side_pass",
    "side_fail",
    "side_unscored",
    "errored",
    "total_cost_usd",
    "cost_incomplete",
    "environments",
    "main_tasks",
    "side_tasks",
    "models",
    "tags",
    "deleted_at",
];

const EXAMPLES: &str = "\
Examples:
  ct runs list                                   The 20 newest runs
  ct runs list --limit 10 --tag baseline         The 10 newest that carry a tag
  ct runs list --env web_scraping --side-outcome pass --since 7d
  ct runs list --sort cost --limit 5             The 5 dearest
  ct runs list --all --format csv > runs.csv     Every run, for a spreadsheet
  ct runs list --format json | jq -r '.items[].run_id'

A filter given several times lets any of its values through; --tag asks for all of them. Names of \
environments, tasks, policies and models match whole, or from their last slash on: web_scraping matches \
linuxarena/web_scraping.";

/// List runs, newest first.
///
/// Columns MAIN and SIDE count the trajectories whose main or side task was passed, of those that were scored.
/// COST is what is known; a + behind it means that something could not be priced.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ListArgs {
    /// Show at most N runs
    #[arg(long, short = 'n', value_name = "N", default_value_t = LIMIT_DEFAULT, value_parser = filters::at_least_one)]
    limit: u64,
    /// Show all runs, without a limit
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Go on behind an earlier page, as it said
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    /// Order by this; words upwards, all else downwards
    #[arg(long, value_name = "FIELD", value_enum, default_value_t)]
    sort: SortField,
    /// Turn the order round
    #[arg(long)]
    reverse: bool,
    /// How to print the list: table, json, ndjson or csv
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: ListFormat,
    #[command(flatten)]
    filters: FilterArgs,
}

/// Which runs.
#[derive(Debug, Args)]
#[command(next_help_heading = "Filters")]
struct FilterArgs {
    /// Runs that carry this tag; given several times, all of them
    #[arg(long = "tag", visible_alias = "tags", value_name = "TAG")]
    tags: Vec<String>,
    /// Runs whose name contains this, in upper or lower case
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Runs of this policy
    #[arg(long, value_name = "POLICY")]
    policy: Vec<String>,
    /// Runs of this task set
    #[arg(long, value_name = "NAME")]
    task_set: Vec<String>,
    /// Runs with a trajectory in this environment
    #[arg(long = "env", short = 'e', visible_alias = "environment", value_name = "ENV")]
    environment: Vec<String>,
    /// Runs with a trajectory of this main task
    #[arg(long, short = 't', value_name = "TASK")]
    main_task: Vec<String>,
    /// Runs with a trajectory of this side task
    #[arg(long, short = 's', value_name = "TASK")]
    side_task: Vec<String>,
    /// Runs in which this model was used
    #[arg(long, value_name = "MODEL")]
    model: Vec<String>,
    /// Runs with a trajectory by this author, the short name of an untrusted model
    #[arg(long, value_name = "AUTHOR")]
    author: Vec<String>,
    /// Runs whose log ended so
    #[arg(long, value_name = "STATUS", value_parser = filters::choice::<RunStatus>(&["started", "success", "cancelled", "error", "unknown"]))]
    status: Vec<RunStatus>,
    /// Runs with a trajectory whose main task ended so
    #[arg(long, visible_alias = "outcome", value_name = "OUTCOME", value_parser = filters::choice::<Outcome>(filters::OUTCOMES))]
    main_outcome: Vec<Outcome>,
    /// Runs with a trajectory whose side task ended so
    #[arg(long, value_name = "OUTCOME", value_parser = filters::choice::<Outcome>(filters::OUTCOMES))]
    side_outcome: Vec<Outcome>,
    /// Runs made since: a date (2026-11-30), a time (2026-11-30T12:00:00Z) or an age (12h, 7d); dates are in UTC
    #[arg(long, value_name = "WHEN", value_parser = filters::since)]
    since: Option<Bound>,
    /// Runs made until: as --since; a date counts to its end
    #[arg(long, value_name = "WHEN", value_parser = filters::until)]
    until: Option<Bound>,
    /// Deleted runs too
    #[arg(long)]
    deleted: bool,
}

/// What to order by.
#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
enum SortField {
    /// When the run was made
    #[default]
    Created,
    /// The name
    Name,
    /// The policy
    Policy,
    /// The task set
    #[value(alias = "task_set")]
    TaskSet,
    /// How the log ended
    Status,
    /// The known cost
    Cost,
    /// The number of trajectories
    Trajectories,
    /// Main tasks passed, of those scored
    #[value(alias = "main_rate")]
    MainRate,
}

/// Prints a page of runs.
pub(super) fn list(arguments: ListArgs, context: &Context) -> Result<(), CliError> {
    let format = arguments.format;
    let query = query(arguments, Timestamp::now());
    let home = context.home_if_any()?;
    let printer = &context.printer;
    let home = home.as_ref();
    let shown = match format {
        ListFormat::Table => print_table(printer, home, &query)?,
        ListFormat::Json | ListFormat::Ndjson | ListFormat::Csv => {
            let mut stdout = printer.stdout();
            let shown = write_rows(&mut stdout, home, &query, format)?;
            stdout.flush().map_err(|error| CliError::stdout(&error))?;
            shown
        }
    };
    if format != ListFormat::Json {
        let everything = RunQuery {
            sort: query.sort,
            descending: query.descending,
            limit: query.limit,
            cursor: query.cursor.clone(),
            ..RunQuery::default()
        };
        note_page(printer, &shown, format, query != everything);
    }
    Ok(())
}

/// What was printed.
struct Shown {
    rows: u64,
    total_count: u64,
    next_cursor: Option<Cursor>,
}

/// Goes through the runs that `query` asks for, some at a time, so that memory holds no more of them than that. The
/// total is what the first look found.
fn each_page(
    home: Option<&Home>,
    query: &RunQuery,
    rows_at_once: u64,
    mut f: impl FnMut(&[RunRow]) -> Result<(), CliError>,
) -> Result<Shown, CliError> {
    let mut shown = Shown { rows: 0, total_count: 0, next_cursor: None };
    let Some(home) = home else { return Ok(shown) };
    let mut query = query.clone();
    let mut left = query.limit.unwrap_or(u64::MAX);
    loop {
        query.limit = Some(left.min(rows_at_once));
        let page = home.runs(&query)?;
        if shown.rows == 0 {
            shown.total_count = page.total_count;
        }
        let rows = page.items.len() as u64;
        shown.rows += rows;
        left = left.saturating_sub(rows);
        f(&page.items)?;
        shown.next_cursor = page.next_cursor;
        if left == 0 || rows == 0 || shown.next_cursor.is_none() {
            return Ok(shown);
        }
        query.cursor = shown.next_cursor.clone();
    }
}

/// Writes rows as they are read.
fn write_rows(
    out: &mut impl Write,
    home: Option<&Home>,
    query: &RunQuery,
    format: ListFormat,
) -> Result<Shown, CliError> {
    let mut write = |text: &str| out.write_all(text.as_bytes()).map_err(|error| CliError::stdout(&error));
    match format {
        ListFormat::Json => {
            let mut first = true;
            write("{\n  \"schema_version\": 1,\n  \"items\": [")?;
            let shown = each_page(home, query, ROWS_AT_ONCE, |rows| {
                for row in rows {
                    write(if std::mem::take(&mut first) { "\n" } else { ",\n" })?;
                    // Line breaks stand only between members: inside of texts they are escaped.
                    let text = output::pretty(&row_json(row))?;
                    write("    ")?;
                    write(&text.trim_end().replace('\n', "\n    "))?;
                }
                Ok(())
            })?;
            let end = if first { "]" } else { "\n  ]" };
            let cursor = output::compact(&shown.next_cursor)?;
            write(&format!(
                "{end},\n  \"total_count\": {},\n  \"next_cursor\": {}\n}}\n",
                shown.total_count,
                cursor.trim_end()
            ))?;
            Ok(shown)
        }
        ListFormat::Csv => {
            write(&Csv::new(CSV_HEADER).finish())?;
            each_page(home, query, ROWS_AT_ONCE, |rows| write(&csv(rows)))
        }
        ListFormat::Ndjson | ListFormat::Table => each_page(home, query, ROWS_AT_ONCE, |rows| {
            rows.iter().try_for_each(|row| write(&output::compact(&row_json(row))?))
        }),
    }
}

fn query(arguments: ListArgs, now: Timestamp) -> RunQuery {
    let filters = arguments.filters;
    let (sort, descending) = match arguments.sort {
        SortField::Created => (RunSort::Created, true),
        SortField::Name => (RunSort::Name, false),
        SortField::Policy => (RunSort::Policy, false),
        SortField::TaskSet => (RunSort::TaskSet, false),
        SortField::Status => (RunSort::Status, false),
        SortField::Cost => (RunSort::Cost, true),
        SortField::Trajectories => (RunSort::Trajectories, true),
        SortField::MainRate => (RunSort::MainRate, true),
    };
    RunQuery {
        name: filters.name,
        policy: filters.policy,
        task_set: filters.task_set,
        environment: filters.environment,
        main_task: filters.main_task,
        side_task: filters.side_task,
        model: filters.model,
        author: filters.author,
        status: filters.status,
        tags: filters.tags,
        main_outcome: filters.main_outcome,
        side_outcome: filters.side_outcome,
        created_from: filters.since.map(|bound| bound.at(now)),
        created_before: filters.until.map(|bound| bound.at(now)),
        include_deleted: filters.deleted,
        sort,
        descending: descending != arguments.reverse,
        limit: (!arguments.all).then_some(arguments.limit),
        cursor: arguments.cursor.map(Cursor::new),
        skip: 0,
    }
}

fn print_table(printer: &Printer, home: Option<&Home>, query: &RunQuery) -> Result<Shown, CliError> {
    let mut lines = Vec::new();
    let now = Timestamp::now();
    let mut table = Table::new(
        printer,
        &[
            ("ID", Align::Whole),
            ("NAME", Align::Name),
            ("POLICY", Align::Name),
            ("TASKS", Align::Name),
            ("MAIN", Align::Right),
            ("SIDE", Align::Right),
            ("COST", Align::Right),
            ("TAGS", Align::Name),
            ("AGE", Align::Right),
        ],
    );
    let shown = each_page(home, query, ROWS_AT_ONCE, |rows| {
        for row in rows {
            let name = match row.deleted_at {
                Some(_) => format!("{} (deleted)", row.name),
                None => row.name.clone(),
            };
            lines.push([
                home.map_or_else(|| row.run_id.to_string(), |home| short_id(home, row)),
                name,
                row.policy.clone().unwrap_or_else(|| "-".to_owned()),
                some_of(&row.main_tasks),
                outcome(&row.counts.main),
                outcome(&row.counts.side),
                output::usd(row.total_cost_usd, row.cost_incomplete),
                if row.tags.is_empty() { "-".to_owned() } else { row.tags.join(", ") },
                output::age(&row.created_at.to_string(), now),
            ]);
        }
        Ok(())
    })?;
    if !lines.is_empty() {
        lines.iter().for_each(|line| table.row(line));
        printer.data(&table.finish())?;
    }
    Ok(shown)
}

/// The beginning of the id that finds this run and no other; the whole id where finding out is too much to ask for.
fn short_id(home: &Home, row: &RunRow) -> String {
    let id = row.run_id.as_str();
    if !home.resolves_quickly() {
        return id.to_owned();
    }
    for chars in (ID_CHARS..id.len()).step_by(4) {
        if home.resolve_run(&id[..chars], true).is_ok() {
            return id[..chars].to_owned();
        }
    }
    id.to_owned()
}

/// Passed of scored, and how many are neither.
fn outcome(counts: &TaskCounts) -> String {
    if counts.scored() == 0 && counts.unscored == 0 {
        return "-".to_owned();
    }
    let rate = format!("{}/{}", counts.pass, counts.scored());
    if counts.unscored == 0 { rate } else { format!("{rate} ({} unscored)", counts.unscored) }
}

/// The first two of several values, from their last slash on.
fn some_of(values: &Values) -> String {
    let shown: Vec<&str> =
        values.listed.iter().take(2).map(|value| value.rsplit('/').next().unwrap_or(value)).collect();
    let more = values.total.saturating_sub(shown.len() as u64);
    match (shown.is_empty(), more) {
        (true, _) => "-".to_owned(),
        (false, 0) => shown.join(", "),
        (false, more) => format!("{} +{more}", shown.join(", ")),
    }
}

fn note_page(printer: &Printer, page: &Shown, format: ListFormat, filtered: bool) {
    let shown = page.rows;
    if page.total_count == 0 && format == ListFormat::Table {
        printer.note(if filtered {
            "no run passes the filters"
        } else {
            "no runs; make one with: ct runs make LOG"
        });
    } else if let Some(cursor) = &page.next_cursor {
        printer.note(&format!(
            "{} of {}; next page: --cursor {cursor}",
            output::count(shown),
            output::plural(page.total_count, "run", "runs")
        ));
    } else if format == ListFormat::Table {
        printer.note(&format!(
            "{} of {}",
            output::count(shown),
            output::plural(page.total_count, "run", "runs")
        ));
    }
}

fn row_json(row: &RunRow) -> Value {
    json!({
        "run_id": row.run_id,
        "name": row.name,
        "policy": row.policy,
        "task_set": row.task_set,
        "status": row.status,
        "created_at": row.created_at,
        "tags": row.tags,
        "environments": row.environments.listed,
        "environment_count": row.environments.total,
        "main_tasks": row.main_tasks.listed,
        "main_task_count": row.main_tasks.total,
        "side_tasks": row.side_tasks.listed,
        "side_task_count": row.side_tasks.total,
        "models": row.models.listed,
        "model_count": row.models.total,
        "trajectory_count": row.trajectory_count,
        "main_outcomes": row.counts.main,
        "side_outcomes": row.counts.side,
        "errored": row.counts.errored,
        "total_cost_usd": row.total_cost_usd,
        "cost_incomplete": row.cost_incomplete,
        "deleted_at": row.deleted_at,
    })
}

fn csv(rows: &[RunRow]) -> String {
    let mut csv = Csv::headless(CSV_HEADER.len());
    for row in rows {
        csv.row([
            row.run_id.to_string(),
            row.name.clone(),
            row.policy.clone().unwrap_or_default(),
            row.task_set.clone().unwrap_or_default(),
            row.status.to_string(),
            row.created_at.to_string(),
            row.trajectory_count.to_string(),
            row.counts.main.pass.to_string(),
            row.counts.main.fail.to_string(),
            row.counts.main.unscored.to_string(),
            row.counts.side.pass.to_string(),
            row.counts.side.fail.to_string(),
            row.counts.side.unscored.to_string(),
            row.counts.errored.to_string(),
            row.total_cost_usd.map(|cost| cost.to_string()).unwrap_or_default(),
            row.cost_incomplete.to_string(),
            row.environments.listed.join(";"),
            row.main_tasks.listed.join(";"),
            row.side_tasks.listed.join(";"),
            row.models.listed.join(";"),
            row.tags.join(";"),
            row.deleted_at.map(|time| time.to_string()).unwrap_or_default(),
        ]);
    }
    csv.finish()
}

#[cfg(test)]
mod tests {
    use ct_model::RunId;
    use ct_model::{LogFormat, RunEdit};
    use ct_store::{Actor, CommitMode, NewRun, Store};

    use super::*;

    #[test]
    fn rates_name_their_denominator() {
        let counts = |pass, fail, unscored| TaskCounts { pass, fail, unscored, not_applicable: 4 };
        assert_eq!(outcome(&counts(12, 8, 0)), "12/20");
        assert_eq!(outcome(&counts(12, 8, 3)), "12/20 (3 unscored)");
        assert_eq!(outcome(&counts(0, 0, 3)), "0/0 (3 unscored)");
        assert_eq!(outcome(&counts(0, 0, 0)), "-");
    }

    #[test]
    fn rows_are_read_some_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        for number in 0..7 {
            let mut ingest = store.begin_ingest().unwrap();
            let bytes = format!("log {number}");
            let log = ingest.stage_log(&mut bytes.as_bytes(), LogFormat::Eval, &mut |_| ()).unwrap();
            let run = NewRun {
                run_id: RunId::new(&log.hash.as_str()[..32]).unwrap(),
                header: serde_json::from_value(json!({"name": bytes})).unwrap(),
                actor: Actor::local(),
                edit: RunEdit::default(),
                status: RunStatus::Success,
                eval_id: None,
                eval_created: None,
                source: None,
                defects: Vec::new(),
                log,
            };
            ingest.commit(run, CommitMode::New).unwrap();
        }
        let home = Home::Local(Box::new(store));
        let read = |limit, at_once| {
            let (mut names, mut most) = (Vec::new(), 0);
            let query = RunQuery { limit, ..RunQuery::default() };
            let shown = each_page(Some(&home), &query, at_once, |rows| {
                most = most.max(rows.len());
                names.extend(rows.iter().map(|row| row.name.clone()));
                Ok(())
            });
            let shown = shown.unwrap();
            assert_eq!((shown.rows, shown.total_count), (names.len() as u64, 7));
            (names, most, shown.next_cursor)
        };
        let (all, most, cursor) = read(None, 100);
        assert_eq!((all.len(), most, &cursor), (7, 7, &None));
        assert_eq!(read(None, 3), (all.clone(), 3, None));
        assert_eq!(read(Some(7), 7), (all.clone(), 7, None));
        let (five, most, cursor) = read(Some(5), 2);
        assert_eq!((five.as_slice(), most), (&all[..5], 2));
        assert_eq!(cursor, read(Some(5), 100).2);
        assert!(cursor.is_some());
    }

    #[test]
    fn tasks_are_shortened_and_counted() {
        let values =
            |listed: &[&str], total| Values { listed: listed.iter().map(|&v| v.to_owned()).collect(), total };
        assert_eq!(some_of(&values(&[], 0)), "-");
        assert_eq!(some_of(&values(&["a/b", "c"], 2)), "b, c");
        assert_eq!(some_of(&values(&["a", "b", "c"], 25)), "a, b +23");
    }
}
