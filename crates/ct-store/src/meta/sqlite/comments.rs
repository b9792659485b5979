//! Comments and the audit log in SQLite.

use ct_model::{AuditQuery, AuditRow, Comment, RunId, TrajectoryId};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::commit::StoredRun;
use super::{DbError, SqliteStore, from_json, journal, read, signed, time, to_json, unsigned};
use crate::actor::Actor;
use crate::error::{Conflict, Result, StoreError};
use crate::meta::{About, CommentNote, CommentStore, TrajectoryComment};

impl CommentStore for SqliteStore {
    fn change_run_comments(
        &self,
        run: &RunId,
        change: &mut dyn FnMut(&mut Vec<Comment>) -> Result<Option<CommentNote>>,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<()> {
        self.write("change the comments of a run", |conn| {
            let stored = StoredRun::get_live(conn, run)?;
            let mut layer = stored.layer;
            let mut comments = layer.comments.take().unwrap_or(stored.recorded.comments);
            let Some(note) = change(&mut comments)? else { return Ok(()) };
            layer.comments = Some(comments);
            conn.execute("UPDATE runs SET version = version + 1 WHERE seq = ?", [stored.seq])?;
            conn.execute(
                "UPDATE run_details SET layer = ? WHERE run = ?",
                params![to_json(&layer), stored.seq],
            )?;
            journal::note(conn, actor, now, note.action, &format!("run {run}"), Some(&note.detail))
        })
    }

    fn trajectory_comments(&self, trajectory: &TrajectoryId) -> Result<Vec<TrajectoryComment>> {
        self.read("read comments", |conn| of_trajectory(conn, trajectory))
    }

    fn change_trajectory_comments(
        &self,
        trajectory: &TrajectoryId,
        change: &mut dyn FnMut(&mut Vec<TrajectoryComment>) -> Result<Option<CommentNote>>,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<()> {
        self.write("change the comments of a trajectory", |conn| {
            check_live(conn, trajectory)?;
            let old = of_trajectory(conn, trajectory)?;
            let mut new = old.clone();
            let Some(note) = change(&mut new)? else { return Ok(()) };
            let mut put = conn.prepare_cached(
                "INSERT INTO trajectory_comments \
                     (comment_id, trajectory_id, action, step, text, created_us, created_by, edited_us, deleted_us) \
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (comment_id) DO UPDATE \
                 SET text = excluded.text, edited_us = excluded.edited_us, deleted_us = excluded.deleted_us",
            )?;
            for comment in new.iter().filter(|comment| !old.contains(comment)) {
                let (action, step) = match comment.about {
                    About::Whole => (None, None),
                    About::Action(number) => (Some(signed(number)), None),
                    About::Step(number) => (None, Some(signed(number))),
                };
                put.execute(params![
                    comment.comment_id,
                    trajectory.as_str(),
                    action,
                    step,
                    comment.text,
                    comment.created_at.as_microsecond(),
                    comment.created_by,
                    comment.edited_at.map(Timestamp::as_microsecond),
                    comment.deleted_at.map(Timestamp::as_microsecond),
                ])?;
            }
            let subject = format!("trajectory {trajectory}");
            journal::note(conn, actor, now, note.action, &subject, Some(&note.detail))
        })
    }

    fn audit_rows(&self, query: &AuditQuery) -> Result<Vec<AuditRow>> {
        self.read("read the audit log", |conn| {
            // Each combination of filters is a statement of its own, so that each finds its index.
            let before = query.before.map_or(i64::MAX, signed);
            let mut sql = "SELECT * FROM audit WHERE audit_id < ?".to_owned();
            let mut values: Vec<&dyn rusqlite::ToSql> = vec![&before];
            for (column, value) in
                [("actor", &query.actor), ("subject", &query.subject), ("action", &query.action)]
            {
                if let Some(value) = value {
                    sql.push_str(&format!(" AND {column} = ?"));
                    values.push(value);
                }
            }
            let limit = signed(query.limit);
            sql.push_str(" ORDER BY audit_id DESC LIMIT ?");
            values.push(&limit);
            let mut find = conn.prepare_cached(&sql)?;
            let mut rows = find.query(values.as_slice())?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                found.push(audit_row(row)?);
            }
            Ok(found)
        })
    }
}

fn of_trajectory(
    conn: &Connection,
    trajectory: &TrajectoryId,
) -> std::result::Result<Vec<TrajectoryComment>, DbError> {
    let mut find = conn.prepare_cached(
        "SELECT * FROM trajectory_comments WHERE trajectory_id = ? ORDER BY created_us, comment_id",
    )?;
    let mut rows = find.query([trajectory.as_str()])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let number = |column| Ok::<_, DbError>(read::get::<Option<i64>>(row, column)?.map(unsigned));
        found.push(TrajectoryComment {
            comment_id: read::get(row, "comment_id")?,
            about: match (number("action")?, number("step")?) {
                (Some(action), _) => About::Action(action),
                (None, Some(step)) => About::Step(step),
                (None, None) => About::Whole,
            },
            text: read::get(row, "text")?,
            created_at: time(read::get(row, "created_us")?)?,
            created_by: read::get(row, "created_by")?,
            edited_at: read::get::<Option<i64>>(row, "edited_us")?.map(time).transpose()?,
            deleted_at: read::get::<Option<i64>>(row, "deleted_us")?.map(time).transpose()?,
        });
    }
    Ok(found)
}

fn check_live(conn: &Connection, trajectory: &TrajectoryId) -> std::result::Result<(), DbError> {
    let mut find = conn.prepare_cached(
        "SELECT run_id, deleted_us IS NOT NULL FROM trajectories JOIN runs ON runs.seq = run WHERE trajectory_id = ?",
    )?;
    let found = find
        .query_row([trajectory.as_str()], |row| Ok((row.get::<_, String>(0)?, row.get::<_, bool>(1)?)))
        .optional()?;
    match found {
        None => Err(StoreError::NotFound { what: format!("trajectory {trajectory}") }.into()),
        Some((run, true)) => Err(StoreError::from(Conflict::RunDeleted { run: read::run_id(run)? }).into()),
        Some((_, false)) => Ok(()),
    }
}

fn audit_row(row: &Row<'_>) -> std::result::Result<AuditRow, DbError> {
    let detail: Option<String> = read::get(row, "detail")?;
    Ok(AuditRow {
        audit_id: unsigned(read::get(row, "audit_id")?),
        made_at: time(read::get(row, "made_us")?)?,
        actor: read::get(row, "actor")?,
        token_id: read::get(row, "token_id")?,
        origin: read::get(row, "origin")?,
        action: read::get(row, "action")?,
        subject: read::get(row, "subject")?,
        detail: detail.map(|text| from_json("the audit log", &text)).transpose()?,
    })
}
