//! See [`crate::meta::UploadStore`].

use ct_model::{ObjectKey, RunId};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, params};
use serde_json::json;

use super::{DbError, SqliteStore, journal, read, register, signed};
use crate::actor::Actor;
use crate::error::{Conflict, Result, StoreError};
use crate::meta::{PendingDocument, RegisteredHeader, UploadStore};
use crate::record::{Registered, StoredObject};

type DbResult<T> = std::result::Result<T, DbError>;

impl UploadStore for SqliteStore {
    fn object(&self, key: &ObjectKey) -> Result<Option<StoredObject>> {
        self.read("look for an uploaded log", |conn| object(conn, key))
    }

    fn check_key_is_free(&self, key: &ObjectKey) -> Result<()> {
        self.read("look for an uploaded log", |conn| check_key_is_free(conn, key))
    }

    fn add_object(&self, object: &StoredObject, actor: &Actor, now: Timestamp) -> Result<()> {
        self.write("keep an uploaded log", |conn| add_object(conn, object, actor, now))
    }

    fn run_is_deleted(&self, run: &RunId) -> Result<Option<bool>> {
        self.read("look for a run", |conn| run_is_deleted(conn, run))
    }

    fn register(
        &self,
        documents: Vec<PendingDocument>,
        header: Option<RegisteredHeader>,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<Registered> {
        self.write("register a run", |conn| register::register(conn, documents, header, actor, now))
    }
}

pub(super) fn run_is_deleted(conn: &Connection, run: &RunId) -> DbResult<Option<bool>> {
    let mut find = conn.prepare_cached("SELECT deleted_us IS NOT NULL FROM runs WHERE run_id = ?")?;
    Ok(find.query_row([run.as_str()], |row| row.get(0)).optional()?)
}

fn object(conn: &Connection, key: &ObjectKey) -> DbResult<Option<StoredObject>> {
    // The log of a run goes before what was uploaded once: it may have been replaced since.
    let mut find = conn.prepare_cached(
        "SELECT runs.log_hash, runs.log_format, runs.log_size, md5 FROM runs \
             LEFT JOIN objects ON object_key = ?1 AND objects.log_hash = runs.log_hash \
             WHERE run_id = ?2 AND runs.log_format = ?3 AND deleted_us IS NULL \
         UNION ALL SELECT log_hash, log_format, log_size, md5 FROM objects WHERE object_key = ?1 LIMIT 1",
    )?;
    let mut rows = find.query(params![key.to_string(), key.run.as_str(), key.format.as_str()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some(StoredObject { key: key.clone(), log: read::log_ref(row)?, md5: read::get(row, "md5")? }))
}

fn check_key_is_free(conn: &Connection, key: &ObjectKey) -> DbResult<()> {
    let run = run_is_deleted(conn, &key.run)?;
    let mut find = conn.prepare_cached("SELECT 1 FROM objects WHERE object_key = ?")?;
    let conflict = match run {
        Some(true) => Conflict::RunDeleted { run: key.run.clone() },
        Some(false) => Conflict::ObjectTaken { key: key.clone() },
        None if find.exists([key.to_string()])? => Conflict::ObjectTaken { key: key.clone() },
        None => return Ok(()),
    };
    Err(StoreError::from(conflict).into())
}

fn add_object(conn: &Connection, object: &StoredObject, actor: &Actor, now: Timestamp) -> DbResult<()> {
    check_key_is_free(conn, &object.key)?;
    let mut add = conn.prepare_cached(
        "INSERT INTO objects (object_key, log_hash, log_format, log_size, md5, created_us, created_by) \
         VALUES (?, ?, ?, ?, ?, ?, ?)",
    )?;
    let log = &object.log;
    add.execute(params![
        object.key.to_string(),
        log.hash.as_str(),
        log.format.as_str(),
        signed(log.size_bytes),
        object.md5,
        now.as_microsecond(),
        actor.user,
    ])?;
    let detail = json!({"log": log.hash, "size_bytes": log.size_bytes});
    journal::note(conn, actor, now, "log.upload", &format!("log {}", object.key), Some(&detail))
}
