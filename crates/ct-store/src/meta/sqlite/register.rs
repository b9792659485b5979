//! Documents that wait for their run, and the transaction that makes it visible.

use std::collections::HashMap;

use ct_model::convert::Registration;
use ct_model::{RunHeader, RunId, TrajectoryId};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, params};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::uploads::run_is_deleted;
use super::{DbError, commit, from_json, journal, read, signed, to_json};
use crate::actor::Actor;
use crate::error::{Conflict, StoreError};
use crate::meta::{Entry, PendingDocument, RegisteredHeader, StagedRun, Sums};
use crate::ops::{comparable_document, comparable_header};
use crate::record::{CommitMode, Committed, NewRun, Registered};

type Result<T> = std::result::Result<T, DbError>;

/// `entry` of a waiting document.
#[derive(Serialize, Deserialize)]
struct Waiting {
    entry: Entry,
    sums: Registration,
}

pub(super) fn register(
    conn: &Connection,
    documents: Vec<PendingDocument>,
    header: Option<RegisteredHeader>,
    actor: &Actor,
    now: Timestamp,
) -> Result<Registered> {
    let mut registered = Registered::default();
    let mut runs: HashMap<RunId, (bool, u64)> = HashMap::new();
    let mut add = conn.prepare_cached(
        "INSERT INTO pending_documents (run_id, trajectory_id, position, made_us, created_by, entry, document) \
         VALUES (?, ?, ?, ?, ?, ?, ?)",
    )?;
    for pending in documents {
        let there = match runs.get(&pending.run) {
            Some((there, _)) => *there,
            None => {
                let deleted = run_is_deleted(conn, &pending.run)?;
                if deleted == Some(true) {
                    return Err(StoreError::from(Conflict::RunDeleted { run: pending.run }).into());
                }
                runs.insert(pending.run.clone(), (deleted.is_some(), 0));
                deleted.is_some()
            }
        };
        if is_known(conn, &pending)? {
            registered.already_there += 1;
            continue;
        }
        let trajectory = pending.entry.row.trajectory_id.clone();
        if there {
            return Err(StoreError::from(Conflict::RunComplete { run: pending.run, trajectory }).into());
        }
        let run = pending.run;
        let mut entry = pending.entry;
        let document = std::mem::take(&mut entry.document);
        add.execute(params![
            run.as_str(),
            trajectory.as_str(),
            signed(pending.position),
            now.as_microsecond(),
            actor.user,
            to_json(&Waiting { entry, sums: pending.sums }),
            document,
        ])?;
        registered.added += 1;
        if let Some((_, added)) = runs.get_mut(&run) {
            *added += 1;
        }
    }
    for (run, (_, added)) in runs.iter().filter(|(_, (_, added))| *added > 0) {
        let detail = json!({"documents": added});
        journal::note(conn, actor, now, "run.documents", &format!("run {run}"), Some(&detail))?;
    }
    if let Some(header) = header {
        registered.run_id = Some(header.replaces.as_ref().unwrap_or(&header.run.run_id).clone());
        attach(conn, header, now)?;
    }
    Ok(registered)
}

/// Whether the very same document is there, waiting or visible.
fn is_known(conn: &Connection, pending: &PendingDocument) -> Result<bool> {
    let trajectory = &pending.entry.row.trajectory_id;
    let Some(held) = held(conn, trajectory)? else { return Ok(false) };
    if held.visible && pending.replaces.as_ref() == Some(&held.by) {
        return Ok(false);
    }
    let (trajectory, run) = (trajectory.clone(), pending.run.clone());
    if held.by != run {
        return Err(StoreError::from(Conflict::TrajectoryTaken { trajectory, run, held_by: held.by }).into());
    }
    let stored = comparable_document(&held.document, &held.eval_metadata);
    let own = pending.entry.eval_metadata.as_ref().map_or("{}", |object| object.get());
    if stored.is_none() || stored != comparable_document(&pending.entry.document, own) {
        return Err(StoreError::from(Conflict::DocumentDiffers { trajectory, run }).into());
    }
    Ok(true)
}

/// A document that is there, and the run that has it.
struct Held {
    by: RunId,
    /// It is part of a run, and waits no more.
    visible: bool,
    document: String,
    /// An object.
    eval_metadata: String,
}

fn held(conn: &Connection, trajectory: &TrajectoryId) -> Result<Option<Held>> {
    // Nearly always there is none: two small questions cost less than one about all that it takes to compare.
    let mut find = conn.prepare_cached("SELECT seq FROM trajectories WHERE trajectory_id = ?")?;
    let seq: Option<i64> = find.query_row([trajectory.as_str()], |row| row.get(0)).optional()?;
    if let Some(seq) = seq {
        let mut find = conn.prepare_cached(
            "SELECT run_id, document, coalesce(documents.eval_metadata, run_details.eval_metadata) \
             FROM trajectories JOIN documents ON trajectory = trajectories.seq JOIN runs ON runs.seq = trajectories.run \
             JOIN run_details ON run_details.run = runs.seq WHERE trajectories.seq = ?",
        )?;
        let found = find.query_row([seq], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
        let (by, document, eval_metadata) = found?;
        return Ok(Some(Held { by: read::run_id(by)?, visible: true, document, eval_metadata }));
    }
    let mut find =
        conn.prepare_cached("SELECT entry, document, run_id FROM pending_documents WHERE trajectory_id = ?")?;
    let mut rows = find.query([trajectory.as_str()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let eval_metadata = waiting(row)?.entry.eval_metadata;
    let eval_metadata = eval_metadata.map_or_else(|| "{}".to_owned(), |object| object.get().to_owned());
    let by = read::run_id(row.get(2)?)?;
    Ok(Some(Held { by, visible: false, document: row.get(1)?, eval_metadata }))
}

/// Makes the run visible with all that waits for it, or gives all that to the run that it replaces; or sees that it is
/// there, with this very header.
fn attach(conn: &Connection, header: RegisteredHeader, now: Timestamp) -> Result<()> {
    let RegisteredHeader { mut run, replaces, registered } = header;
    let run_id = run.run_id.clone();
    if replaces.is_none() && is_attached(conn, &run, &registered)? {
        return Ok(());
    }
    let mode = replaces.map_or(CommitMode::New, CommitMode::Replace);

    let mut sums = Sums::default();
    let mut all = Registration::default();
    let mut eval_metadata = None;
    let mut find = conn.prepare_cached(
        "SELECT entry FROM pending_documents WHERE run_id = ? ORDER BY position, pending_id",
    )?;
    let mut rows = find.query([run_id.as_str()])?;
    while let Some(row) = rows.next()? {
        let waiting = waiting(row)?;
        sums.add(&waiting.entry);
        all.merge(waiting.sums);
        eval_metadata.get_or_insert(waiting.entry.eval_metadata);
    }
    let of_run = eval_metadata.flatten();
    let of_run = of_run.as_ref().map_or("{}", |object| object.get());
    let sent = run.header.clone();
    all.apply(&mut run.header);
    // Documents do not always hold what these come from.
    if run.header.control_settings.as_ref().is_none_or(Vec::is_empty) {
        run.header.control_settings = sent.control_settings.or(run.header.control_settings);
    }
    if run.header.total_cost_usd.is_none() && run.header.cost_by_model.is_empty() {
        run.header.total_cost_usd = sent.total_cost_usd;
        run.header.cost_by_model = sent.cost_by_model;
    }

    let mut find = conn.prepare_cached(
        "SELECT entry, document FROM pending_documents WHERE run_id = ? ORDER BY position, pending_id",
    )?;
    let mut rows = find.query([run_id.as_str()])?;
    let mut entries = std::iter::from_fn(|| {
        let entry = rows.next().map_err(DbError::from).transpose()?.and_then(|row| {
            let Waiting { mut entry, .. } = waiting(row)?;
            entry.document = row.get(1)?;
            if entry.eval_metadata.as_ref().is_some_and(|own| own.get() == of_run) {
                entry.eval_metadata = None;
            }
            Ok(entry)
        });
        Some(entry.map_err(|error| match error {
            DbError::Store(error) => error,
            DbError::Sqlite(error) => {
                StoreError::Database { doing: "read documents that wait", source: Box::new(error) }
            }
        }))
    });
    let staged = StagedRun { run: &run, sums: &sums, eval_metadata: of_run, entries: &mut entries };
    match commit::commit(conn, staged, &mode, now)? {
        Committed::AlreadyThere(held_by) => {
            let deleted = run_is_deleted(conn, &held_by)?.unwrap_or(false);
            return Err(StoreError::from(Conflict::LogTaken { run: run_id, held_by, deleted }).into());
        }
        Committed::Created(_) | Committed::Replaced { .. } => {}
    }
    let holder = match &mode {
        CommitMode::Replace(run) => run,
        _ => &run_id,
    };
    conn.execute(
        "UPDATE run_details SET registered = ? WHERE run = (SELECT seq FROM runs WHERE run_id = ?)",
        params![to_json(&registered), holder.as_str()],
    )?;
    conn.execute("DELETE FROM pending_documents WHERE run_id = ?", [run_id.as_str()])?;
    Ok(())
}

/// Whether the run is there, with this header.
fn is_attached(conn: &Connection, run: &NewRun, registered: &Value) -> Result<bool> {
    let run_id = run.run_id.clone();
    let mut find = conn.prepare_cached(
        "SELECT deleted_us IS NOT NULL, registered, recorded FROM runs JOIN run_details ON run = seq WHERE run_id = ?",
    )?;
    let found = find.query_row([run_id.as_str()], |row| {
        Ok((row.get::<_, bool>(0)?, row.get::<_, Option<String>>(1)?, row.get::<_, String>(2)?))
    });
    if let Some((deleted, stored, recorded)) = found.optional()? {
        let same = match stored {
            Some(stored) => from_json::<Value>("the registered header of a run", &stored)? == *registered,
            // It was made here: the header is what the log says.
            None => {
                let value = serde_json::to_value(&run.header).unwrap_or_default();
                let recorded: RunHeader = from_json("the header of a run", &recorded)?;
                comparable_header(&serde_json::to_value(recorded).unwrap_or_default())
                    == comparable_header(&value)
            }
        };
        return match (deleted, same) {
            (true, _) => Err(StoreError::from(Conflict::RunDeleted { run: run_id }).into()),
            (false, true) => Ok(true),
            (false, false) => Err(StoreError::from(Conflict::HeaderDiffers { run: run_id }).into()),
        };
    }
    Ok(false)
}

fn waiting(row: &rusqlite::Row<'_>) -> Result<Waiting> {
    let text = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
    let mut waiting: Waiting = from_json("a document that waits", text)?;
    if waiting.entry.models.is_empty() {
        // Entries of earlier versions do not have them.
        waiting.entry.models = waiting.sums.models().cloned().collect();
    }
    Ok(waiting)
}
