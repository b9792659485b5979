//! Looks at single runs and trajectories.

use std::ops::ControlFlow;

use ct_model::{
    LogFormat, LogHash, LogRef, Revision, RunHeader, RunId, RunRecord, RunStatus, TrajectoryDocument,
    TrajectoryId,
};
use rusqlite::types::FromSql;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde_json::{Map, Value};

use super::{DbError, from_json, time, unsigned};
use crate::blob::LogKey;
use crate::error::StoreError;
use crate::meta::{Candidate, LogUse, layer};
use crate::record::{KnownRun, LogTag, Totals};

type Result<T> = std::result::Result<T, DbError>;

/// A column by its name.
pub(super) fn get<T: FromSql>(row: &Row<'_>, column: &str) -> Result<T> {
    Ok(row.get(column)?)
}

pub(super) fn run_id(text: String) -> Result<RunId> {
    RunId::new(text).map_err(|error| DbError::corrupt("a stored run id", error.to_string()))
}

pub(super) fn trajectory_id(text: String) -> Result<TrajectoryId> {
    TrajectoryId::new(text).map_err(|error| DbError::corrupt("a stored trajectory id", error.to_string()))
}

pub(super) fn log_key(row: &Row<'_>) -> Result<LogKey> {
    let hash = get::<String>(row, "log_hash")?;
    let hash = hash.parse().map_err(|error| DbError::corrupt("a stored hash", format!("{error}")))?;
    let format = match row.get_ref("log_format")?.as_str().map_err(rusqlite::Error::from)? {
        "eval" => LogFormat::Eval,
        "json" => LogFormat::Json,
        other => return Err(DbError::corrupt("a stored log format", format!("{other:?} is none"))),
    };
    Ok(LogKey { hash, format })
}

pub(super) fn log_ref(row: &Row<'_>) -> Result<LogRef> {
    let key = log_key(row)?;
    let size_bytes = unsigned(get(row, "log_size")?);
    Ok(LogRef { hash: key.hash, size_bytes, format: key.format })
}

pub(super) fn run_of_log(conn: &Connection, hash: &LogHash) -> Result<Option<KnownRun>> {
    let mut find = conn.prepare_cached(
        "SELECT run_id, NULL, deleted_us IS NOT NULL FROM runs WHERE log_hash = ?1 \
         UNION ALL SELECT run_id, old.revision, deleted_us IS NOT NULL \
             FROM run_revisions AS old JOIN runs ON seq = run WHERE old.log_hash = ?1 \
         LIMIT 1",
    )?;
    let mut rows = find.query([hash.as_str()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let revision = row.get::<_, Option<i64>>(1)?.map(unsigned);
    Ok(Some(KnownRun { run_id: run_id(row.get(0)?)?, revision, deleted: row.get(2)? }))
}

pub(super) fn runs_of_eval(conn: &Connection, eval_id: &str) -> Result<Vec<RunId>> {
    let mut find =
        conn.prepare_cached("SELECT run_id FROM runs WHERE eval_id = ? AND deleted_us IS NULL ORDER BY seq")?;
    let mut rows = find.query([eval_id])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(run_id(row.get(0)?)?);
    }
    Ok(found)
}

/// Beyond every id that begins with `prefix`; ids are ASCII.
fn beyond(prefix: &str) -> String {
    format!("{prefix}\u{7f}")
}

pub(super) fn runs_with_prefix(
    conn: &Connection,
    prefix: &str,
    deleted: bool,
    count_max: u64,
) -> Result<Vec<Candidate<RunId>>> {
    let mut find = conn.prepare_cached(
        "SELECT run_id FROM runs WHERE run_id >= ? AND run_id < ? AND (deleted_us IS NULL OR ?) \
         ORDER BY run_id LIMIT ?",
    )?;
    let mut rows = find.query(params![prefix, beyond(prefix), deleted, super::signed(count_max)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let id = run_id(row.get(0)?)?;
        found.push(Candidate { run: id.clone(), id });
    }
    Ok(found)
}

pub(super) fn trajectories_with_prefix(
    conn: &Connection,
    prefix: &str,
    deleted: bool,
    count_max: u64,
) -> Result<Vec<Candidate<TrajectoryId>>> {
    let mut find = conn.prepare_cached(
        "SELECT trajectory_id, run_id FROM trajectories JOIN runs ON runs.seq = run \
         WHERE trajectory_id >= ? AND trajectory_id < ? AND (deleted_us IS NULL OR ?) ORDER BY trajectory_id LIMIT ?",
    )?;
    let mut rows = find.query(params![prefix, beyond(prefix), deleted, super::signed(count_max)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(Candidate { id: trajectory_id(row.get(0)?)?, run: run_id(row.get(1)?)? });
    }
    Ok(found)
}

/// A run's header as the log says and as it is shown, from its row of `runs` and `run_details`.
fn headers(row: &Row<'_>) -> Result<(RunHeader, RunHeader)> {
    let mut recorded: RunHeader = from_json("the header of a run", &get::<String>(row, "recorded")?)?;
    recorded.run_id = Some(run_id(get(row, "run_id")?)?);
    recorded.created_at = Some(time(get(row, "created_us")?)?.to_string());
    recorded.created_by = get(row, "created_by")?;
    let changed = from_json("the edits of a run", &get::<String>(row, "layer")?)?;
    let shown = layer::apply(&changed, &recorded);
    Ok((recorded, shown))
}

/// A run's header as it is shown, and the form of its log.
pub(super) fn header(conn: &Connection, seq: i64) -> Result<Option<(RunHeader, LogFormat)>> {
    let mut find = conn.prepare_cached(
        "SELECT run_id, created_us, created_by, recorded, layer, log_hash, log_format \
         FROM runs JOIN run_details ON run = seq WHERE seq = ?",
    )?;
    let mut rows = find.query([seq])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some((headers(row)?.1, log_key(row)?.format)))
}

pub(super) fn run(conn: &Connection, run: &RunId) -> Result<RunRecord> {
    let mut find =
        conn.prepare_cached("SELECT * FROM runs JOIN run_details ON run = seq WHERE run_id = ?")?;
    let mut rows = find.query([run.as_str()])?;
    let row = rows.next()?.ok_or_else(|| StoreError::run_not_found(run))?;
    let created_at = time(get(row, "created_us")?)?;
    let (recorded, header) = headers(row)?;
    let deleted_at = get::<Option<i64>>(row, "deleted_us")?.map(time).transpose()?;

    let mut find = conn.prepare_cached("SELECT * FROM run_revisions WHERE run = ? ORDER BY revision")?;
    let mut old_rows = find.query([get::<i64>(row, "seq")?])?;
    let mut revisions = Vec::new();
    while let Some(old) = old_rows.next()? {
        revisions.push(Revision {
            revision: unsigned(get(old, "revision")?),
            log: log_ref(old)?,
            made_at: time(get(old, "made_us")?)?,
            replaced_at: time(get(old, "replaced_us")?)?,
        });
    }
    Ok(RunRecord {
        header,
        recorded,
        status: RunStatus::from_log(&get::<String>(row, "status")?),
        log: log_ref(row)?,
        counts: from_json("the counts of a run", &get::<String>(row, "counts")?)?,
        cost_incomplete: get(row, "cost_incomplete")?,
        revisions,
        eval_id: get(row, "eval_id")?,
        eval_created: get(row, "eval_created")?,
        source: get(row, "source")?,
        defects: from_json("the defects of a run", &get::<String>(row, "defects")?)?,
        created_at,
        deleted_at,
        version: unsigned(get(row, "version")?),
    })
}

/// Puts a document together again from its row: id, document, its own `eval_metadata`.
fn assemble(row: &Row<'_>, run: &RunId, of_run: &Map<String, Value>) -> Result<TrajectoryDocument> {
    let id = trajectory_id(row.get(0)?)?;
    let what = format!("the document of trajectory {id}");
    let text = row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
    let mut document: TrajectoryDocument = from_json(&what, text)?;
    let own = row.get_ref(2)?.as_str_or_null().map_err(rusqlite::Error::from)?;
    document.eval_metadata = own.map_or_else(|| Ok(of_run.clone()), |text| from_json(&what, text))?;
    document.trajectory_id = Some(id);
    document.run_id = Some(run.clone());
    Ok(document)
}

/// Selects what [`assemble_document`] needs.
pub(super) const DOCUMENT: &str = "SELECT trajectory_id, document, documents.eval_metadata, run_id, run_details.eval_metadata \
     FROM trajectories JOIN documents ON trajectory = trajectories.seq JOIN runs ON runs.seq = trajectories.run \
         JOIN run_details ON run_details.run = runs.seq";

pub(super) fn assemble_document(row: &Row<'_>) -> Result<TrajectoryDocument> {
    let of_run =
        from_json("the metadata of a run", row.get_ref(4)?.as_str().map_err(rusqlite::Error::from)?)?;
    assemble(row, &run_id(row.get(3)?)?, &of_run)
}

pub(super) fn document(conn: &Connection, trajectory: &TrajectoryId) -> Result<TrajectoryDocument> {
    let mut find = conn.prepare_cached(&format!("{DOCUMENT} WHERE trajectory_id = ?"))?;
    let mut rows = find.query([trajectory.as_str()])?;
    let not_found = || StoreError::NotFound { what: format!("trajectory {trajectory}") };
    assemble_document(rows.next()?.ok_or_else(not_found)?)
}

pub(super) fn documents(
    conn: &Connection,
    run: &RunId,
    f: &mut dyn FnMut(TrajectoryDocument) -> ControlFlow<()>,
) -> Result<()> {
    let mut find = conn.prepare_cached(
        "SELECT seq, eval_metadata FROM runs JOIN run_details ON run = seq WHERE run_id = ?",
    )?;
    let found = find.query_row([run.as_str()], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)));
    let (seq, of_run) = found.optional()?.ok_or_else(|| StoreError::run_not_found(run))?;
    let of_run = from_json("the metadata of a run", &of_run)?;
    let mut find = conn.prepare_cached(
        "SELECT trajectory_id, document, eval_metadata FROM trajectories JOIN documents ON trajectory = seq \
         WHERE run = ? ORDER BY ordinal",
    )?;
    let mut rows = find.query([seq])?;
    while let Some(row) = rows.next()? {
        if f(assemble(row, run, &of_run)?).is_break() {
            break;
        }
    }
    Ok(())
}

pub(super) fn log_tag(conn: &Connection, key: &LogKey) -> Result<Option<LogTag>> {
    let mut find =
        conn.prepare_cached("SELECT e_tag, version_id FROM log_tags WHERE log_hash = ? AND log_format = ?")?;
    let tag = find.query_row([key.hash.as_str(), key.format.as_str()], |row| {
        Ok(LogTag { e_tag: row.get(0)?, version_id: row.get(1)? })
    });
    Ok(tag.optional()?)
}

pub(super) fn totals(conn: &Connection) -> Result<Totals> {
    let sql = "SELECT count(*), count(deleted_us), coalesce(sum(trajectory_count), 0), coalesce(sum(log_size), 0) \
               FROM runs";
    let numbers = conn.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
    let (runs, deleted_runs, trajectories, logs_size_bytes): (i64, i64, i64, i64) = numbers;
    Ok(Totals {
        runs: unsigned(runs),
        deleted_runs: unsigned(deleted_runs),
        trajectories: unsigned(trajectories),
        logs_size_bytes: unsigned(logs_size_bytes),
    })
}

pub(super) fn log_uses(conn: &Connection) -> Result<Vec<LogUse>> {
    let mut find = conn.prepare(
        "SELECT run_id, NULL AS revision, log_hash, log_format, log_size, deleted_us, \
             (SELECT max(range_end) FROM trajectories WHERE run = runs.seq) AS range_end FROM runs \
         UNION ALL SELECT run_id, old.revision, old.log_hash, old.log_format, old.log_size, deleted_us, NULL \
             FROM run_revisions AS old JOIN runs ON seq = run",
    )?;
    let mut rows = find.query([])?;
    let mut uses = Vec::new();
    while let Some(row) = rows.next()? {
        uses.push(LogUse {
            run: run_id(get(row, "run_id")?)?,
            revision: get::<Option<i64>>(row, "revision")?.map(unsigned),
            key: log_key(row)?,
            size_bytes: unsigned(get(row, "log_size")?),
            deleted_at: get::<Option<i64>>(row, "deleted_us")?.map(time).transpose()?,
            range_end: get::<Option<i64>>(row, "range_end")?.map(unsigned),
        });
    }
    Ok(uses)
}
