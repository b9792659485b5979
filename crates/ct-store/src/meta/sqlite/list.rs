//! Lists runs.
//!
//! The filters make one set of rows, from which both the total and the page are taken. The page is read in the order
//! of registration from the set itself, and for other orders out of a packed column or by walking an index until it is
//! full.

use std::cmp::Ordering;

use ct_model::{Cursor, LogFormat, RunHeader, RunPage, RunQuery, RunRow, RunSort, RunStatus};
use jiff::Timestamp;
use rusqlite::types::{ToSql, Value, ValueRef};
use rusqlite::{Connection, params_from_iter};

use super::commit::value;
use super::order::{self, Order};
use super::pieces::View;
use super::postings::{ANY, Facet, LIVE, SeqSet, load};
use super::read::{header, run_id};
use super::{DbError, from_json, labels, time, unsigned};
use crate::error::StoreError;

type Result<T> = std::result::Result<T, DbError>;

/// At most so many rows are looked at one by one, rather than by a walk through all of them.
const FEW_MAX: u64 = 1000;

fn are_few(set: &SeqSet, all: u64) -> bool {
    let count = set.len();
    count <= FEW_MAX && count <= all / 4
}

/// Keeps the rows that have any of the values.
pub(super) fn keep_any<T: AsRef<str>>(
    conn: &Connection,
    set: &mut SeqSet,
    facet: Facet,
    values: &[T],
) -> Result<()> {
    if values.is_empty() {
        return Ok(());
    }
    let mut any = SeqSet::default();
    for text in values {
        load(conn, facet, &value(text.as_ref()), &mut any)?;
    }
    set.intersect(&any);
    Ok(())
}

/// Keeps the rows that have all of the values.
pub(super) fn keep_all(conn: &Connection, set: &mut SeqSet, facet: Facet, values: &[String]) -> Result<()> {
    values.iter().try_for_each(|value| keep_any(conn, set, facet, std::slice::from_ref(value)))
}

/// The set, and how many runs there are before any filter.
pub(super) fn matching_runs(view: View<'_>, query: &RunQuery) -> Result<(SeqSet, u64)> {
    let conn = view.conn;
    let mut set = SeqSet::default();
    load(conn, Facet::Run, if query.include_deleted { ANY } else { LIVE }, &mut set)?;
    let all = set.len();
    keep_any(conn, &mut set, Facet::RunPolicy, &query.policy)?;
    keep_any(conn, &mut set, Facet::RunTaskSet, &query.task_set)?;
    keep_any(conn, &mut set, Facet::RunEnvironment, &query.environment)?;
    keep_any(conn, &mut set, Facet::RunMainTask, &query.main_task)?;
    keep_any(conn, &mut set, Facet::RunSideTask, &query.side_task)?;
    keep_any(conn, &mut set, Facet::RunModel, &query.model)?;
    keep_any(conn, &mut set, Facet::RunAuthor, &query.author)?;
    keep_any(conn, &mut set, Facet::RunStatus, &words(&query.status, |status| status.as_str()))?;
    keep_any(conn, &mut set, Facet::RunMainOutcome, &words(&query.main_outcome, |outcome| outcome.as_str()))?;
    keep_any(conn, &mut set, Facet::RunSideOutcome, &words(&query.side_outcome, |outcome| outcome.as_str()))?;
    keep_all(conn, &mut set, Facet::RunTag, &query.tags)?;
    keep_labelled(view, &mut set, query)?;
    Ok((set, all))
}

pub(super) fn words<T: Copy>(values: &[T], word: impl Fn(T) -> &'static str) -> Vec<&'static str> {
    values.iter().map(|value| word(*value)).collect()
}

/// Keeps the runs of a time that have a part in their name.
fn keep_labelled(view: View<'_>, set: &mut SeqSet, query: &RunQuery) -> Result<()> {
    let us = |time: Option<Timestamp>| time.map(Timestamp::as_microsecond);
    let (from, before) = (us(query.created_from), us(query.created_before));
    let part = query.name.as_deref().unwrap_or_default().to_lowercase();
    if from.is_some() || before.is_some() || !part.is_empty() {
        *set = labels::matching(view, set, from.unwrap_or(i64::MIN), before.unwrap_or(i64::MAX), &part)?;
    }
    Ok(())
}

/// Where a page of runs ended.
pub(super) struct Place {
    key: Value,
    pub(super) seq: i64,
}

/// `<sort><direction>-<key>-<seq>`, with keys in hexadecimal.
fn write_cursor(query: &RunQuery, place: &Place) -> Cursor {
    let key = match &place.key {
        Value::Integer(number) => format!("{number:x}"),
        Value::Real(number) => format!("{:x}", number.to_bits()),
        Value::Text(text) => text.bytes().map(|byte| format!("{byte:02x}")).collect(),
        Value::Null | Value::Blob(_) => "n".to_owned(),
    };
    Cursor::new(format!("{}-{key}-{:x}", cursor_head(query), place.seq))
}

fn cursor_head(query: &RunQuery) -> String {
    let sort = match query.sort {
        RunSort::Created => 'c',
        RunSort::Name => 'n',
        RunSort::Policy => 'p',
        RunSort::TaskSet => 'k',
        RunSort::Status => 's',
        RunSort::Cost => 'u',
        RunSort::Trajectories => 't',
        RunSort::MainRate => 'm',
    };
    format!("{sort}{}", if query.descending { 'd' } else { 'a' })
}

fn read_cursor(query: &RunQuery) -> Result<Option<Place>> {
    let Some(cursor) = &query.cursor else { return Ok(None) };
    let parse = || {
        let (head, rest) = cursor.as_str().split_once('-')?;
        let (key, seq) = rest.split_once('-')?;
        let seq = i64::from_str_radix(seq, 16).ok()?;
        let key = match query.sort {
            _ if head != cursor_head(query) => return None,
            RunSort::Name => Value::Text(from_hex(key)?),
            RunSort::Cost | RunSort::MainRate if key == "n" => Value::Null,
            RunSort::Cost | RunSort::MainRate => {
                Value::Real(f64::from_bits(u64::from_str_radix(key, 16).ok()?))
            }
            RunSort::Created
            | RunSort::Policy
            | RunSort::TaskSet
            | RunSort::Status
            | RunSort::Trajectories => Value::Integer(i64::from_str_radix(key, 16).ok()?),
        };
        Some(Place { key, seq })
    };
    match parse() {
        Some(place) => Ok(Some(place)),
        None => Err(foreign_cursor(cursor)),
    }
}

pub(super) fn foreign_cursor(cursor: &Cursor) -> DbError {
    let text: String = cursor.as_str().chars().take(80).collect();
    StoreError::invalid(format!("the cursor {text:?} does not belong to this list and order")).into()
}

fn from_hex(text: &str) -> Option<String> {
    let digits = text.as_bytes().as_chunks::<2>();
    if !digits.1.is_empty() || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let bytes = digits.0.iter().map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    String::from_utf8(bytes.collect::<Option<Vec<u8>>>()?).ok()
}

/// Takes a page out of rows in order.
pub(super) struct Window {
    skip: u64,
    room: u64,
    pub(super) places: Vec<Place>,
    pub(super) more: bool,
}

impl Window {
    pub(super) fn new(skip: u64, limit: Option<u64>) -> Self {
        Self { skip, room: limit.unwrap_or(u64::MAX), places: Vec::new(), more: false }
    }

    /// False: the page is full.
    fn take(&mut self, place: Place) -> bool {
        if self.skip > 0 {
            self.skip -= 1;
            return true;
        }
        if self.room == 0 {
            self.more = true;
            return false;
        }
        self.room -= 1;
        self.places.push(place);
        true
    }

    pub(super) fn take_from_set(&mut self, set: &SeqSet, descending: bool, mut after: Option<i64>) {
        if after.is_none() && self.skip > 0 {
            let Some(first) = set.nth(self.skip, descending) else { return };
            after = Some(if descending { first + 1 } else { first - 1 });
            self.skip = 0;
        }
        let mut each = |seq| self.take(Place { key: Value::Integer(0), seq });
        if descending {
            set.descending(after.unwrap_or(i64::MAX)).all(&mut each);
        } else {
            set.ascending(after.unwrap_or(0)).all(&mut each);
        }
    }

    /// The last row, when there are more behind it.
    fn end(&self) -> Option<&Place> {
        self.places.last().filter(|_| self.more)
    }
}

/// Orders few runs. Those without a key come last, whatever the direction.
fn sort(conn: &Connection, query: &RunQuery, column: &str, set: &SeqSet, window: &mut Window) -> Result<()> {
    let after = read_cursor(query)?;
    let mut find = conn.prepare_cached(&format!("SELECT {column} FROM runs WHERE seq = ?"))?;
    let mut places = Vec::new();
    for seq in set.ascending(0) {
        places.push(Place { key: find.query_row([seq], |row| row.get(0))?, seq });
    }
    places.sort_by(|a, b| order(query.descending, a, b));
    let rest = places.into_iter().filter(|place| {
        after.as_ref().is_none_or(|after| order(query.descending, place, after) == Ordering::Greater)
    });
    for place in rest {
        if !window.take(place) {
            break;
        }
    }
    Ok(())
}

fn order(descending: bool, a: &Place, b: &Place) -> Ordering {
    let turned = |ordering: Ordering| if descending { ordering.reverse() } else { ordering };
    let by_key = match (&a.key, &b.key) {
        (Value::Null, Value::Null) => Ordering::Equal,
        (Value::Null, _) => Ordering::Greater,
        (_, Value::Null) => Ordering::Less,
        (Value::Integer(a), Value::Integer(b)) => turned(a.cmp(b)),
        (Value::Real(a), Value::Real(b)) => turned(a.partial_cmp(b).unwrap_or(Ordering::Equal)),
        (Value::Text(a), Value::Text(b)) => turned(a.cmp(b)),
        // A column has keys of one kind.
        _ => Ordering::Equal,
    };
    by_key.then_with(|| turned(a.seq.cmp(&b.seq)))
}

/// Walks an index of runs. Runs without a key come last, whatever the direction.
fn walk(conn: &Connection, query: &RunQuery, column: &str, set: &SeqSet, window: &mut Window) -> Result<()> {
    let (direction, beyond) = if query.descending { ("DESC", "<") } else { ("ASC", ">") };
    let after = read_cursor(query)?;
    let in_nulls = after.as_ref().is_some_and(|place| place.key == Value::Null);
    if !in_nulls {
        let bound = if after.is_some() {
            format!("({column}, seq) {beyond} (?, ?)")
        } else {
            format!("{column} IS NOT NULL")
        };
        let sql = format!(
            "SELECT {column}, seq FROM runs WHERE {bound} ORDER BY {column} {direction}, seq {direction}"
        );
        let arguments: Vec<&dyn ToSql> =
            after.iter().flat_map(|place| [&place.key as &dyn ToSql, &place.seq]).collect();
        if !walk_part(conn, &sql, &arguments, set, window)? {
            return Ok(());
        }
    }
    if !matches!(query.sort, RunSort::Cost | RunSort::MainRate) {
        return Ok(());
    }
    let bound = if in_nulls { format!("AND seq {beyond} ?") } else { String::new() };
    let sql =
        format!("SELECT {column}, seq FROM runs WHERE {column} IS NULL {bound} ORDER BY seq {direction}");
    let seq = after.as_ref().filter(|_| in_nulls).map(|place| &place.seq as &dyn ToSql);
    walk_part(conn, &sql, &seq.into_iter().collect::<Vec<_>>(), set, window)?;
    Ok(())
}

/// As [`walk`], for a page in the second half: from the far end, where it is nearer.
fn walk_back(
    conn: &Connection,
    query: &RunQuery,
    column: &str,
    set: &SeqSet,
    window: &mut Window,
) -> Result<()> {
    let behind = set.len().saturating_sub(window.skip);
    let wanted = window.room.min(behind);
    let mut back = Window::new(behind - wanted, Some(wanted));
    let direction = if query.descending { "ASC" } else { "DESC" };
    let nulls = format!("SELECT {column}, seq FROM runs WHERE {column} IS NULL ORDER BY seq {direction}");
    let keyed = format!(
        "SELECT {column}, seq FROM runs WHERE {column} IS NOT NULL ORDER BY {column} {direction}, seq {direction}"
    );
    let can_be_null = matches!(query.sort, RunSort::Cost | RunSort::MainRate);
    if wanted > 0 && (!can_be_null || walk_part(conn, &nulls, &[], set, &mut back)?) {
        walk_part(conn, &keyed, &[], set, &mut back)?;
    }
    back.places.reverse();
    window.places = back.places;
    window.more = wanted < behind;
    Ok(())
}

/// False: the page is full.
fn walk_part(
    conn: &Connection,
    sql: &str,
    arguments: &[&dyn ToSql],
    set: &SeqSet,
    window: &mut Window,
) -> Result<bool> {
    let mut find = conn.prepare_cached(sql)?;
    let mut rows = find.query(params_from_iter(arguments))?;
    while let Some(row) = rows.next()? {
        let seq = row.get(1)?;
        if set.contains(seq) && !window.take(Place { key: row.get(0)?, seq }) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Takes the page out of a packed column.
fn take_from_column(
    view: View<'_>,
    query: &RunQuery,
    order: Order,
    set: &SeqSet,
    window: &mut Window,
) -> Result<()> {
    let after = read_cursor(query)?.map(|place| {
        let key = if let Value::Integer(key) = place.key { u32::try_from(key).unwrap_or(0) } else { 0 };
        order::Place { key, seq: place.seq }
    });
    let part = order::Part { descending: query.descending, after, skip: window.skip, limit: window.room };
    let (places, more) = order::part(view, order, set, &part)?;
    window.places = places
        .into_iter()
        .map(|place| Place { key: Value::Integer(place.key.into()), seq: place.seq })
        .collect();
    window.more = more;
    Ok(())
}

/// A page of runs, each read by its `seq`.
fn page_of_runs<T>(
    view: View<'_>,
    query: &RunQuery,
    mut item: impl FnMut(i64) -> Result<Option<T>>,
) -> Result<RunPage<T>> {
    let conn = view.conn;
    let (set, all) = matching_runs(view, query)?;
    let mut window = Window::new(query.skip, query.limit);
    let column = match query.sort {
        RunSort::Created => {
            let after = read_cursor(query)?.map(|place| place.seq);
            window.take_from_set(&set, query.descending, after);
            None
        }
        RunSort::Policy | RunSort::TaskSet | RunSort::Status => None,
        RunSort::Name => Some("name_folded"),
        RunSort::Cost => Some("total_cost_usd"),
        RunSort::Trajectories => Some("trajectory_count"),
        RunSort::MainRate => Some("main_rate"),
    };
    if let Some(order) = Order::of_runs(query.sort) {
        take_from_column(view, query, order, &set, &mut window)?;
    }
    match column {
        Some(column) if are_few(&set, all) => sort(conn, query, column, &set, &mut window)?,
        Some(column) if query.cursor.is_none() && query.skip > set.len() / 2 => {
            walk_back(conn, query, column, &set, &mut window)?;
        }
        Some(column) => walk(conn, query, column, &set, &mut window)?,
        None => {}
    }
    let gone = || DbError::corrupt("the filter index", "it names a run that is not there");
    let mut items = Vec::with_capacity(window.places.len());
    for place in &window.places {
        items.push(item(place.seq)?.ok_or_else(gone)?);
    }
    let next_cursor = window.end().map(|place| write_cursor(query, place));
    Ok(RunPage { items, total_count: set.len(), next_cursor })
}

pub(super) fn run_headers(view: View<'_>, query: &RunQuery) -> Result<RunPage<(RunHeader, LogFormat)>> {
    page_of_runs(view, query, |seq| header(view.conn, seq))
}

pub(super) fn runs(view: View<'_>, query: &RunQuery) -> Result<RunPage> {
    let mut find = view.conn.prepare_cached(
        "SELECT run_id, name, policy, task_set, status, created_us, tags, environments, main_tasks, side_tasks, \
             models, trajectory_count, counts, total_cost_usd, cost_incomplete, deleted_us FROM runs WHERE seq = ?",
    )?;
    page_of_runs(view, query, |seq| {
        let mut rows = find.query([seq])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        Ok(Some(RunRow {
            run_id: run_id(row.get(0)?)?,
            name: row.get(1)?,
            policy: row.get(2)?,
            task_set: row.get(3)?,
            status: RunStatus::from_log(text(row.get_ref(4)?)?),
            created_at: time(row.get(5)?)?,
            tags: from_json("the tags of a run", text(row.get_ref(6)?)?)?,
            environments: from_json("the environments of a run", text(row.get_ref(7)?)?)?,
            main_tasks: from_json("the main tasks of a run", text(row.get_ref(8)?)?)?,
            side_tasks: from_json("the side tasks of a run", text(row.get_ref(9)?)?)?,
            models: from_json("the models of a run", text(row.get_ref(10)?)?)?,
            trajectory_count: unsigned(row.get(11)?),
            counts: from_json("the counts of a run", text(row.get_ref(12)?)?)?,
            total_cost_usd: row.get(13)?,
            cost_incomplete: row.get(14)?,
            deleted_at: row.get::<_, Option<i64>>(15)?.map(time).transpose()?,
        }))
    })
}

pub(super) fn text(value: ValueRef<'_>) -> Result<&str> {
    Ok(value.as_str().map_err(rusqlite::Error::from)?)
}
