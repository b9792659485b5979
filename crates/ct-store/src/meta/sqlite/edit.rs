//! Changes to a run that is there.

use ct_model::{RunEdit, RunId};
use jiff::Timestamp;
use rusqlite::{Connection, params};

use super::columns::put_labels;
use super::commit::{StoredRun, ids, inherited_ids, label_facets};
use super::postings::{Changes, Facet, LIVE};
use super::{DbError, datasets, journal, labels, to_json, unsigned};
use crate::actor::Actor;
use crate::error::{Conflict, StoreError};
use crate::meta::layer;

type Result<T> = std::result::Result<T, DbError>;

/// Keeps an edit for the record.
pub(super) fn record(
    conn: &Connection,
    run: i64,
    version: i64,
    edit: &RunEdit,
    now: Timestamp,
) -> Result<()> {
    let mut add =
        conn.prepare_cached("INSERT INTO run_edits (run, made_us, version, edit) VALUES (?, ?, ?, ?)")?;
    add.execute(params![run, now.as_microsecond(), version, to_json(edit)])?;
    Ok(())
}

pub(super) fn edit(
    conn: &Connection,
    run: &RunId,
    edit: &RunEdit,
    actor: &Actor,
    now: Timestamp,
) -> Result<()> {
    let old = StoredRun::get_live(conn, run)?;
    if let Some(expected) = edit.if_version.filter(|expected| *expected != unsigned(old.version)) {
        let conflict = Conflict::Changed { run: run.clone(), expected, version: unsigned(old.version) };
        return Err(StoreError::from(conflict).into());
    }
    let mut layer = old.layer.clone();
    layer::add(&mut layer, edit)?;
    if layer == old.layer {
        return Ok(());
    }
    let shown = layer::apply(&layer, &old.recorded);
    RunEdit::check_tag_count(old.tags.len(), shown.tags.len()).map_err(StoreError::from)?;
    let version = old.version + 1;
    conn.execute(
        "UPDATE runs SET version = ?, name = ?, name_folded = ?, policy = ?, task_set = ?, tags = ?, \
             dataset = ? WHERE seq = ?",
        params![
            version,
            shown.name,
            shown.name.to_lowercase(),
            shown.policy,
            shown.task_set,
            to_json(&shown.tags),
            shown.dataset,
            old.seq
        ],
    )?;
    conn.execute("UPDATE run_details SET layer = ? WHERE run = ?", params![to_json(&layer), old.seq])?;
    record(conn, old.seq, version, edit, now)?;
    let detail = serde_json::to_value(edit).ok();
    journal::note(conn, actor, now, "run.edit", &format!("run {run}"), detail.as_ref())?;
    labels::put(conn, old.seq, Some((old.created_us, &shown.name.to_lowercase())))?;

    let mut changes = Changes::default();
    let before = label_facets(old.policy.as_deref(), old.task_set.as_deref(), &old.tags);
    let after = label_facets(shown.policy.as_deref(), shown.task_set.as_deref(), &shown.tags);
    let (before, after) = (ids(conn, &mut changes, before)?, ids(conn, &mut changes, after)?);
    before.difference(&after).for_each(|facet_id| changes.remove(*facet_id, old.seq));
    after.difference(&before).for_each(|facet_id| changes.add(*facet_id, old.seq));
    put_labels(conn, &mut changes, old.seq, shown.policy.as_deref(), shown.task_set.as_deref())?;
    let before = inherited_ids(conn, &mut changes, &old.tags, old.dataset.as_deref())?;
    let after = inherited_ids(conn, &mut changes, &shown.tags, shown.dataset.as_deref())?;
    if before != after {
        old.for_each_trajectory(conn, |seq, own| {
            let gone = before.difference(&after).filter(|facet_id| !own.contains(facet_id));
            gone.for_each(|facet_id| changes.remove(*facet_id, seq));
            after.difference(&before).for_each(|facet_id| changes.add(*facet_id, seq));
        })?;
    }
    changes.apply(conn)
}

pub(super) fn set_deleted(
    conn: &Connection,
    run: &RunId,
    deleted: bool,
    actor: &Actor,
    now: Timestamp,
) -> Result<bool> {
    let old = StoredRun::find(conn, run)?.ok_or_else(|| StoreError::run_not_found(run))?;
    if old.deleted == deleted {
        return Ok(false);
    }
    conn.execute(
        "UPDATE runs SET deleted_us = ?, version = version + 1 WHERE seq = ?",
        params![deleted.then(|| now.as_microsecond()), old.seq],
    )?;
    let action = if deleted { "run.delete" } else { "run.restore" };
    journal::note(conn, actor, now, action, &format!("run {run}"), None)?;
    let mut changes = Changes::default();
    let (runs, trajectories) =
        (changes.id(conn, Facet::Run, LIVE)?, changes.id(conn, Facet::Trajectory, LIVE)?);
    let mut set =
        |facet_id, seq| if old.deleted { changes.add(facet_id, seq) } else { changes.remove(facet_id, seq) };
    set(runs, old.seq);
    old.for_each_trajectory(conn, |seq, _| set(trajectories, seq))?;
    changes.apply(conn)?;
    Ok(true)
}

pub(super) fn purge(conn: &Connection, run: &RunId, actor: &Actor, now: Timestamp) -> Result<bool> {
    let Some(old) = StoredRun::find(conn, run)?.filter(|old| old.deleted) else { return Ok(false) };
    let mut changes = Changes::default();
    old.unlist(conn, &mut changes)?;
    old.unlist_trajectories(conn, &mut changes)?;
    datasets::trajectories_go(conn, &mut changes, old.seq, None)?;
    changes.apply(conn)?;
    labels::put(conn, old.seq, None)?;
    // The log goes with the run, and so does what it was uploaded as.
    conn.execute(
        "DELETE FROM objects WHERE log_hash IN (SELECT log_hash FROM runs WHERE seq = ?1 \
             UNION ALL SELECT log_hash FROM run_revisions WHERE run = ?1)",
        [old.seq],
    )?;
    conn.execute("DELETE FROM runs WHERE seq = ?", [old.seq])?;
    journal::note(conn, actor, now, "run.purge", &format!("run {run}"), None)?;
    Ok(true)
}
