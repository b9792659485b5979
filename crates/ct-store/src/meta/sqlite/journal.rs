//! The audit log: each write adds a row to it in its own transaction.

use jiff::Timestamp;
use rusqlite::{Connection, params};
use serde_json::Value;

use super::DbError;
use crate::actor::Actor;

/// Notes what was done, such as `run.edit` to `run 3f2a`.
pub(super) fn note(
    conn: &Connection,
    actor: &Actor,
    now: Timestamp,
    action: &str,
    subject: &str,
    detail: Option<&Value>,
) -> Result<(), DbError> {
    let mut add = conn.prepare_cached(
        "INSERT INTO audit (made_us, actor, token_id, origin, action, subject, detail) VALUES (?, ?, ?, ?, ?, ?, ?)",
    )?;
    add.execute(params![
        now.as_microsecond(),
        actor.user,
        actor.token_id,
        actor.origin,
        action,
        subject,
        detail.map(Value::to_string),
    ])?;
    Ok(())
}
