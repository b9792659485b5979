//! Brings the index of an older schema up to date.

use std::collections::BTreeSet;

use ct_model::{RunStatus, TrajectoryRow};
use rusqlite::{Connection, params};
use serde::Deserialize;

use super::columns::{put_run, put_trajectory};
use super::commit::{author_facets, ids, model_facets};
use super::list::text;
use super::postings::Changes;
use super::{DbError, from_json, to_json};

type Result<T> = std::result::Result<T, DbError>;

/// Trajectories held at a time.
const ROWS_MAX: i64 = 500;
/// Trajectories of which only keys are held at a time.
const KEYS_ROWS_MAX: u64 = 50_000;

/// What is read of a document.
#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    models: Vec<String>,
    cost: Option<Cost>,
    timing: Option<Timing>,
}

#[derive(Deserialize)]
struct Cost {
    total_cost: Option<f64>,
}

#[derive(Deserialize)]
struct Timing {
    time_to_run: Option<i64>,
}

struct Stored {
    seq: i64,
    run: i64,
    summary: String,
    facets: String,
    document: String,
}

/// Schema 7: texts by which runs and trajectories are ordered.
pub(super) fn texts(conn: &Connection) -> Result<()> {
    let mut changes = Changes::default();
    let mut runs = conn.prepare("SELECT seq, policy, task_set, status FROM runs")?;
    let mut rows = runs.query([])?;
    while let Some(row) = rows.next()? {
        let (policy, task_set): (Option<String>, Option<String>) = (row.get(1)?, row.get(2)?);
        let status = RunStatus::from_log(text(row.get_ref(3)?)?);
        put_run(conn, &mut changes, row.get(0)?, policy.as_deref(), task_set.as_deref(), status)?;
    }
    let mut trajectories = conn.prepare("SELECT seq, run, summary FROM trajectories ORDER BY seq")?;
    let mut rows = trajectories.query([])?;
    for number in 1_u64.. {
        let Some(row) = rows.next()? else { break };
        let summary = from_json("the summary of a trajectory", text(row.get_ref(2)?)?)?;
        put_trajectory(conn, &mut changes, row.get(0)?, row.get(1)?, &summary)?;
        if number.is_multiple_of(KEYS_ROWS_MAX) {
            std::mem::take(&mut changes).apply(conn)?;
        }
    }
    changes.apply(conn)
}

/// Schema 5: models, authors and numbers of trajectories.
pub(super) fn refill(conn: &Connection) -> Result<()> {
    let mut find = conn.prepare(
        "SELECT seq, run, summary, facets, document FROM trajectories JOIN documents ON trajectory = seq \
         WHERE seq > ? ORDER BY seq LIMIT ?",
    )?;
    let mut write = conn.prepare("UPDATE trajectories SET summary = ?, facets = ? WHERE seq = ?")?;
    let mut changes = Changes::default();
    let mut last = 0;
    loop {
        let rows = find.query_map(params![last, ROWS_MAX], |row| {
            Ok(Stored {
                seq: row.get(0)?,
                run: row.get(1)?,
                summary: row.get(2)?,
                facets: row.get(3)?,
                document: row.get(4)?,
            })
        })?;
        let rows = rows.collect::<rusqlite::Result<Vec<_>>>()?;
        let Some(end) = rows.last() else { break };
        last = end.seq;
        for stored in &rows {
            let document: Document = from_json("a document", &stored.document)?;
            let mut row: TrajectoryRow = from_json("the summary of a trajectory", &stored.summary)?;
            row.cost_usd = document.cost.and_then(|cost| cost.total_cost);
            let time = document.timing.and_then(|timing| timing.time_to_run);
            row.duration_ms = time.and_then(|time| time.try_into().ok());
            let mut facets: BTreeSet<i64> = from_json("the filter index", &stored.facets)?;
            let new = model_facets(&document.models).chain(author_facets(&row.authors));
            for facet_id in ids(conn, &mut changes, new)? {
                changes.add(facet_id, stored.seq);
                facets.insert(facet_id);
            }
            changes.keys.put(stored.seq, stored.run, &row);
            write.execute(params![to_json(&row), to_json(&facets), stored.seq])?;
        }
    }
    changes.apply(conn)
}
