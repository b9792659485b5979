//! Brings what was indexed before schema 5 up to it: models, authors and numbers of trajectories.

use std::collections::BTreeSet;

use ct_model::TrajectoryRow;
use rusqlite::{Connection, params};
use serde::Deserialize;

use super::commit::{author_facets, ids, model_facets};
use super::postings::Changes;
use super::{DbError, from_json, to_json};

type Result<T> = std::result::Result<T, DbError>;

/// Trajectories held at a time.
const ROWS_MAX: i64 = 500;

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
