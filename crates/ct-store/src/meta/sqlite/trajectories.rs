//! Lists trajectories.
//!
//! As with runs, the filters make one set of rows. What the run of a trajectory decides is asked of runs first.

use ct_model::{
    Cursor, Outcome, RunId, RunQuery, TrajectoryDocument, TrajectoryId, TrajectoryNumbers, TrajectoryPage,
    TrajectoryQuery, TrajectoryRow, TrajectorySort,
};
use rusqlite::{Connection, OptionalExtension as _, Row};

use super::columns::{self, Column};
use super::list::{Window, foreign_cursor, keep_all, keep_any, matching_runs, text, words};
use super::order::{self, Order};
use super::pieces::View;
use super::postings::{ANY, ERRORED, Facet, LIVE, SeqSet, load};
use super::read::{DOCUMENT, assemble_document, trajectory_id};
use super::{DbError, datasets, from_json};
use crate::error::StoreError;

type Result<T> = std::result::Result<T, DbError>;

/// Of a run with more trajectories than this they are found among all, rather than one by one.
const WALKED_MAX: i64 = 4000;

/// Keeps the trajectories of a run.
fn keep_of_run(view: View<'_>, set: &mut SeqSet, run: &RunId) -> Result<()> {
    let mut find = view.conn.prepare_cached("SELECT seq, trajectory_count FROM runs WHERE run_id = ?")?;
    let found = find.query_row([run.as_str()], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)));
    let mut of_run = SeqSet::default();
    match found.optional()? {
        None => {}
        Some((seq, count)) if count > WALKED_MAX => {
            let mut runs = SeqSet::default();
            runs.insert(seq);
            return columns::keep_of_runs(view, set, &runs);
        }
        Some((seq, _)) => {
            let mut find = view.conn.prepare_cached("SELECT seq FROM trajectories WHERE run = ?")?;
            let mut rows = find.query([seq])?;
            while let Some(row) = rows.next()? {
                of_run.insert(row.get(0)?);
            }
        }
    }
    set.intersect(&of_run);
    Ok(())
}

/// Keeps the trajectories whose run is one that is asked for.
fn keep_by_run(view: View<'_>, set: &mut SeqSet, query: &TrajectoryQuery) -> Result<()> {
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
    let any_run = RunQuery { include_deleted: query.include_deleted, ..RunQuery::default() };
    if of_run != any_run {
        let (runs, _) = matching_runs(view, &of_run)?;
        columns::keep_of_runs(view, set, &runs)?;
    }
    Ok(())
}

fn matching_trajectories(view: View<'_>, query: &TrajectoryQuery) -> Result<SeqSet> {
    let conn = view.conn;
    let mut set = SeqSet::default();
    load(conn, Facet::Trajectory, if query.include_deleted { ANY } else { LIVE }, &mut set)?;
    keep_any(conn, &mut set, Facet::TrajectoryEnvironment, &query.environment)?;
    keep_any(conn, &mut set, Facet::TrajectoryMainTask, &query.main_task)?;
    keep_any(conn, &mut set, Facet::TrajectorySideTask, &query.side_task)?;
    keep_any(conn, &mut set, Facet::TrajectoryModel, &query.model)?;
    keep_any(conn, &mut set, Facet::TrajectoryAuthor, &query.author)?;
    keep_any(
        conn,
        &mut set,
        Facet::TrajectoryMainOutcome,
        &words(&query.main_outcome, |outcome| outcome.as_str()),
    )?;
    keep_any(
        conn,
        &mut set,
        Facet::TrajectorySideOutcome,
        &words(&query.side_outcome, |outcome| outcome.as_str()),
    )?;
    keep_all(conn, &mut set, Facet::TrajectoryTag, &query.tags)?;
    keep_any(conn, &mut set, Facet::TrajectoryDataset, &query.dataset)?;
    match &query.versioned_dataset {
        Some(name) => set.intersect(&datasets::trajectories(conn, name, query.versioned_dataset_version)?),
        None if query.versioned_dataset_version.is_some() => {
            return Err(StoreError::invalid("a version alone names no dataset").into());
        }
        None => {}
    }
    if let Some(errored) = query.errored {
        let mut with_error = SeqSet::default();
        load(conn, Facet::Trajectory, ERRORED, &mut with_error)?;
        set.keep(&with_error, errored);
    }
    if let Some(has_side_task) = query.has_side_task {
        set.keep(&with_side_task(conn)?, has_side_task);
    }
    // What has to look at each of the rest comes last.
    if let Some(run) = &query.run_id {
        keep_of_run(view, &mut set, run)?;
    }
    keep_by_run(view, &mut set, query)?;
    Ok(set)
}

/// Those with a side task, which has an outcome.
fn with_side_task(conn: &Connection) -> Result<SeqSet> {
    let mut set = SeqSet::default();
    for outcome in [Outcome::Pass, Outcome::Fail, Outcome::Unscored] {
        load(conn, Facet::TrajectorySideOutcome, outcome.as_str(), &mut set)?;
    }
    Ok(set)
}

/// What is measured of each trajectory of a run, of deleted ones too, without a look at the trajectories themselves.
pub(super) fn numbers(view: View<'_>, run: &RunId) -> Result<Vec<TrajectoryNumbers>> {
    let query =
        TrajectoryQuery { run_id: Some(run.clone()), include_deleted: true, ..TrajectoryQuery::default() };
    let set = matching_trajectories(view, &query)?;
    let one = |facet, value: &str| {
        let mut found = SeqSet::default();
        load(view.conn, facet, value, &mut found).map(|()| found)
    };
    let outcomes = |facet| {
        let [pass, fail] = [Outcome::Pass, Outcome::Fail].map(|outcome| one(facet, outcome.as_str()));
        let (pass, fail) = (pass?, fail?);
        Ok::<_, DbError>(move |seq| {
            let scored = pass.contains(seq) || fail.contains(seq);
            Outcome::of(scored.then(|| pass.contains(seq)))
        })
    };
    let (main, side) = (outcomes(Facet::TrajectoryMainOutcome)?, outcomes(Facet::TrajectorySideOutcome)?);
    let (with_side, errored) = (with_side_task(view.conn)?, one(Facet::Trajectory, ERRORED)?);
    let mut numbers: Vec<TrajectoryNumbers> = set
        .ascending(0)
        .map(|seq| TrajectoryNumbers {
            suspicion: None,
            cost_usd: None,
            actions: 0,
            duration_ms: None,
            main: main(seq),
            side: with_side.contains(seq).then(|| side(seq)),
            errored: errored.contains(seq),
        })
        .collect();
    let mut fill = |column, put: fn(&mut TrajectoryNumbers, f64)| {
        let mut all = numbers.iter_mut();
        columns::for_each(view, column, &set, true, |_, key| {
            if let (Some(one), Some(number)) = (all.next(), columns::number(key)) {
                put(one, number);
            }
        })
    };
    fill(Column::Suspicion, |one, number| one.suspicion = Some(number))?;
    fill(Column::Cost, |one, number| one.cost_usd = Some(number))?;
    fill(Column::Actions, |one, number| one.actions = number as u64)?;
    fill(Column::Duration, |one, number| one.duration_ms = Some(number as u64))?;
    Ok(numbers)
}

/// Where a page of trajectories ended: `s-<number>` in the default order, else `<order><direction>-<key>-<number>`.
fn trajectory_cursor_head(query: &TrajectoryQuery) -> &'static str {
    let [down, up] = match query.sort {
        TrajectorySort::Created => ["s", "su"],
        TrajectorySort::Started => ["td", "tu"],
        TrajectorySort::Suspicion => ["pd", "pu"],
        TrajectorySort::Actions => ["ad", "au"],
        TrajectorySort::Duration => ["dd", "du"],
        TrajectorySort::Cost => ["cd", "cu"],
        TrajectorySort::Environment => ["ed", "eu"],
        TrajectorySort::MainTask => ["md", "mu"],
        TrajectorySort::SideTask => ["kd", "ku"],
        TrajectorySort::Policy => ["od", "ou"],
    };
    if query.descending { down } else { up }
}

fn read_trajectory_cursor(query: &TrajectoryQuery) -> Result<Option<order::Place>> {
    let Some(cursor) = &query.cursor else { return Ok(None) };
    let parse = || {
        let (head, rest) = cursor.as_str().split_once('-')?;
        let (key, seq) = match query.sort {
            TrajectorySort::Created => (0, rest),
            _ => {
                let (key, seq) = rest.split_once('-')?;
                (u32::from_str_radix(key, 16).ok()?, seq)
            }
        };
        let seq = i64::from_str_radix(seq, 16).ok().filter(|seq| *seq >= 0)?;
        (head == trajectory_cursor_head(query)).then_some(order::Place { key, seq })
    };
    parse().map(Some).ok_or_else(|| foreign_cursor(cursor))
}

fn write_trajectory_cursor(query: &TrajectoryQuery, place: order::Place) -> Cursor {
    let head = trajectory_cursor_head(query);
    match query.sort {
        TrajectorySort::Created => Cursor::new(format!("{head}-{:x}", place.seq)),
        _ => Cursor::new(format!("{head}-{:x}-{:x}", place.key, place.seq)),
    }
}

/// The places of a page, and whether there are more behind it.
fn places(view: View<'_>, query: &TrajectoryQuery, set: &SeqSet) -> Result<(Vec<order::Place>, bool)> {
    let after = read_trajectory_cursor(query)?;
    if let Some(order) = Order::of_trajectories(query.sort) {
        let limit = query.limit.unwrap_or(u64::MAX);
        let part = order::Part { descending: query.descending, after, skip: query.skip, limit };
        return order::part(view, order, set, &part);
    }
    let mut window = Window::new(query.skip, query.limit);
    window.take_from_set(set, query.descending, after.map(|place| place.seq));
    let places = window.places.iter().map(|place| order::Place { key: 0, seq: place.seq });
    Ok((places.collect(), window.more))
}

/// A page of trajectories, of which `sql` selects one row by `seq`.
fn page<T>(
    view: View<'_>,
    query: &TrajectoryQuery,
    sql: &str,
    item: impl Fn(&Row<'_>) -> Result<T>,
) -> Result<TrajectoryPage<T>> {
    let set = matching_trajectories(view, query)?;
    let (places, more) = places(view, query, &set)?;
    let mut find = view.conn.prepare_cached(sql)?;
    let mut items = Vec::with_capacity(places.len());
    for place in &places {
        let mut rows = find.query([place.seq])?;
        let gone = || DbError::corrupt("the filter index", "it names a trajectory that is not there");
        items.push(item(rows.next()?.ok_or_else(gone)?)?);
    }
    let last = places.last().filter(|_| more);
    let next_cursor = last.map(|place| write_trajectory_cursor(query, *place));
    Ok(TrajectoryPage { items, total_count: set.len(), next_cursor })
}

pub(super) fn trajectories(view: View<'_>, query: &TrajectoryQuery) -> Result<TrajectoryPage> {
    page(view, query, "SELECT summary FROM trajectories WHERE seq = ?", |row| {
        from_json::<TrajectoryRow>("the summary of a trajectory", text(row.get_ref(0)?)?)
    })
}

pub(super) fn trajectory_ids(
    view: View<'_>,
    query: &TrajectoryQuery,
) -> Result<TrajectoryPage<TrajectoryId>> {
    page(view, query, "SELECT trajectory_id FROM trajectories WHERE seq = ?", |row| {
        trajectory_id(row.get(0)?)
    })
}

pub(super) fn documents(
    view: View<'_>,
    query: &TrajectoryQuery,
) -> Result<TrajectoryPage<TrajectoryDocument>> {
    let sql = format!("{DOCUMENT} WHERE trajectories.seq = ?");
    page(view, query, &sql, assemble_document)
}
