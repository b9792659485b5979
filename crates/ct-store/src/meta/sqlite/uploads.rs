//! See [`crate::meta::UploadStore`].

use ct_model::{LogFormat, LogHash, ObjectKey, RunId};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, params};
use serde_json::json;

use super::{DbError, SqliteStore, journal, read, register, signed, unsigned};
use crate::actor::Actor;
use crate::blob::LogKey;
use crate::error::{Conflict, Result, StoreError, TakenBy};
use crate::meta::{Abandoned, PendingDocument, RegisteredHeader, UploadRow, UploadStore};
use crate::record::{Registered, StoredObject, UploadOf, UploadPart};

type DbResult<T> = std::result::Result<T, DbError>;

impl UploadStore for SqliteStore {
    fn object(&self, key: &ObjectKey) -> Result<Option<StoredObject>> {
        self.read("look for an uploaded log", |conn| object(conn, key))
    }

    fn check_key_is_free(&self, key: &ObjectKey) -> Result<()> {
        self.read("look for an uploaded log", |conn| check_key_is_free(conn, key))
    }

    fn add_object(&self, object: &StoredObject, actor: &Actor, now: Timestamp) -> Result<()> {
        self.write_loosely("keep an uploaded log", |conn| add_object(conn, object, actor, now))
    }

    fn has_log_of_size(&self, size_bytes: u64) -> Result<bool> {
        self.read("look for a log", |conn| {
            let mut find = conn.prepare_cached(
                "SELECT 1 FROM runs WHERE log_size = ?1 UNION ALL SELECT 1 FROM objects WHERE log_size = ?1",
            )?;
            Ok(find.exists([signed(size_bytes)])?)
        })
    }

    fn forget_object(&self, key: &ObjectKey, hash: &LogHash, now: Timestamp) -> Result<()> {
        self.write("forget a lost log", |conn| {
            let key = key.to_string();
            let gone = conn.execute(
                "DELETE FROM objects WHERE object_key = ? AND log_hash = ?",
                params![key, hash.as_str()],
            )?;
            if gone > 0 {
                conn.execute(
                    "DELETE FROM uploads WHERE object_key = ? AND log_hash = ?",
                    params![key, hash.as_str()],
                )?;
                let detail = json!({"log": hash});
                journal::note(conn, &Actor::local(), now, "log.lost", &format!("log {key}"), Some(&detail))?;
            }
            Ok(())
        })
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

    fn find_upload(&self, of: &UploadOf, size_bytes: u64, actor: &Actor) -> Result<Option<String>> {
        self.read("look for an upload", |conn| find_upload(conn, of, size_bytes, actor))
    }

    fn begin_upload(
        &self,
        id: &str,
        of: &UploadOf,
        size_bytes: u64,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<String> {
        self.write_loosely("begin an upload", |conn| begin_upload(conn, id, of, size_bytes, actor, now))
    }

    fn upload(&self, id: &str) -> Result<Option<UploadRow>> {
        self.read("look for an upload", |conn| upload(conn, id))
    }

    fn upload_parts(&self, id: &str) -> Result<Vec<UploadPart>> {
        self.read("list the parts of an upload", |conn| upload_parts(conn, id))
    }

    fn add_part(&self, id: &str, part: &UploadPart, now: Timestamp) -> Result<()> {
        self.write_loosely("keep a part of an upload", |conn| add_part(conn, id, part, now))
    }

    fn forget_parts(&self, id: &str) -> Result<()> {
        self.write("forget the parts of an upload", |conn| {
            conn.execute("DELETE FROM upload_parts WHERE upload_id = ?", [id])?;
            Ok(())
        })
    }

    fn complete_upload(&self, id: &str, object: &StoredObject, actor: &Actor, now: Timestamp) -> Result<()> {
        self.write_loosely("complete an upload", |conn| {
            add_object(conn, object, actor, now)?;
            conn.execute("DELETE FROM upload_parts WHERE upload_id = ?", [id])?;
            let mut set = conn.prepare_cached(
                "UPDATE uploads SET object_key = ?, log_hash = ?, touched_us = ? WHERE upload_id = ?",
            )?;
            set.execute(params![object.key.to_string(), object.log.hash.as_str(), now.as_microsecond(), id])?;
            Ok(())
        })
    }

    fn drop_upload(&self, id: &str, actor: &Actor, now: Timestamp) -> Result<()> {
        self.write("give up an upload", |conn| drop_upload(conn, id, actor, now))
    }

    fn touch_upload(&self, id: &str, now: Timestamp) -> Result<()> {
        self.write("go on with an upload", |conn| {
            let mut touch = conn.prepare_cached("UPDATE uploads SET touched_us = ? WHERE upload_id = ?")?;
            touch.execute(params![now.as_microsecond(), id])?;
            Ok(())
        })
    }

    fn upload_object(&self, id: &str) -> Result<Option<String>> {
        self.read("look for an upload", |conn| upload_object(conn, id))
    }

    fn set_upload_object(&self, id: &str, bucket_upload_id: &str) -> Result<String> {
        self.write("keep an upload", |conn| {
            conn.execute("INSERT OR IGNORE INTO upload_objects VALUES (?, ?)", [id, bucket_upload_id])?;
            Ok(upload_object(conn, id)?.unwrap_or_default())
        })
    }

    fn forget_upload_object(&self, id: &str) -> Result<()> {
        self.write("forget an upload", |conn| {
            conn.execute("DELETE FROM upload_objects WHERE upload_id = ?", [id])?;
            Ok(())
        })
    }

    fn upload_objects(&self) -> Result<Vec<(String, String)>> {
        self.read("list uploads", |conn| {
            let mut find = conn.prepare_cached(
                "SELECT upload_id, bucket_upload_id FROM upload_objects JOIN uploads USING (upload_id) \
                 WHERE log_hash IS NULL",
            )?;
            let rows = find.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok(rows.collect::<std::result::Result<_, _>>()?)
        })
    }

    fn upload_ids(&self) -> Result<Vec<String>> {
        self.read("list uploads", |conn| {
            let mut find = conn.prepare_cached("SELECT upload_id FROM uploads")?;
            let ids = find.query_map([], |row| row.get(0))?;
            Ok(ids.collect::<std::result::Result<_, _>>()?)
        })
    }

    fn object_logs(&self) -> Result<Vec<(String, LogKey, u64)>> {
        self.read("list uploaded logs", |conn| {
            let mut find =
                conn.prepare_cached("SELECT object_key, log_hash, log_format, log_size FROM objects")?;
            let mut rows = find.query([])?;
            let mut logs = Vec::new();
            while let Some(row) = rows.next()? {
                let name = read::get(row, "object_key")?;
                logs.push((name, read::log_key(row)?, unsigned(read::get(row, "log_size")?)));
            }
            Ok(logs)
        })
    }

    fn release(&self, run: &RunId, actor: &Actor, now: Timestamp) -> Result<()> {
        self.write("forget a refused log", |conn| release(conn, run, actor, now))
    }

    fn abandoned(
        &self,
        uploads_before: Timestamp,
        objects_before: Timestamp,
        remove: bool,
        now: Timestamp,
    ) -> Result<Abandoned> {
        let doing = "look for what was given up";
        let f = |conn: &Connection| abandoned(conn, uploads_before, objects_before, remove, now);
        if remove { self.write(doing, f) } else { self.read(doing, f) }
    }
}

/// The name of a log, or what its client calls it.
fn names(of: &UploadOf) -> (Option<String>, Option<&String>) {
    match of {
        UploadOf::Key(key) => (Some(key.to_string()), None),
        UploadOf::Unnamed(text) => (None, Some(text)),
    }
}

fn find_upload(conn: &Connection, of: &UploadOf, size_bytes: u64, actor: &Actor) -> DbResult<Option<String>> {
    let (key, unnamed) = names(of);
    let mut find = conn.prepare_cached(
        "SELECT upload_id FROM uploads WHERE object_key IS ? AND unnamed IS ? AND size_bytes = ? \
             AND created_by IS ? AND log_hash IS NULL LIMIT 1",
    )?;
    let found = find.query_row(params![key, unnamed, signed(size_bytes), actor.user], |row| row.get(0));
    Ok(found.optional()?)
}

fn begin_upload(
    conn: &Connection,
    id: &str,
    of: &UploadOf,
    size_bytes: u64,
    actor: &Actor,
    now: Timestamp,
) -> DbResult<String> {
    if let UploadOf::Key(key) = of {
        check_key_is_free(conn, key)?;
    }
    if let Some(found) = find_upload(conn, of, size_bytes, actor)? {
        return Ok(found);
    }
    let (key, unnamed) = names(of);
    conn.execute(
        "INSERT INTO uploads (upload_id, object_key, unnamed, size_bytes, created_us, touched_us, created_by) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6)",
        params![id, key, unnamed, signed(size_bytes), now.as_microsecond(), actor.user],
    )?;
    let detail = json!({"upload": id, "size_bytes": size_bytes});
    journal::note(conn, actor, now, "log.upload.begin", &subject(id, key), Some(&detail))?;
    Ok(id.to_owned())
}

/// What an upload is called in the audit log.
fn subject(id: &str, key: Option<String>) -> String {
    key.map_or_else(|| format!("upload {id}"), |key| format!("log {key}"))
}

fn upload(conn: &Connection, id: &str) -> DbResult<Option<UploadRow>> {
    let mut find = conn.prepare_cached(
        "SELECT object_key, size_bytes, created_by, log_hash FROM uploads WHERE upload_id = ?",
    )?;
    let mut rows = find.query([id])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let corrupt = |error: String| DbError::corrupt("a stored upload", error);
    let key = read::get::<Option<String>>(row, "object_key")?;
    let hash: Option<String> = read::get(row, "log_hash")?;
    Ok(Some(UploadRow {
        key: key
            .map(|key| key.parse())
            .transpose()
            .map_err(|error: ct_model::ObjectKeyError| corrupt(error.to_string()))?,
        size_bytes: unsigned(read::get(row, "size_bytes")?),
        created_by: read::get(row, "created_by")?,
        hash: hash.map(|hash| parse_hash(&hash)).transpose()?,
    }))
}

fn upload_object(conn: &Connection, id: &str) -> DbResult<Option<String>> {
    let mut find = conn.prepare_cached("SELECT bucket_upload_id FROM upload_objects WHERE upload_id = ?")?;
    Ok(find.query_row([id], |row| row.get(0)).optional()?)
}

fn parse_hash(text: &str) -> DbResult<LogHash> {
    text.parse().map_err(|error: ct_model::LogHashError| DbError::corrupt("a stored hash", error.to_string()))
}

fn upload_parts(conn: &Connection, id: &str) -> DbResult<Vec<UploadPart>> {
    let mut find = conn.prepare_cached(
        "SELECT start, size_bytes, crc32 FROM upload_parts WHERE upload_id = ? ORDER BY start",
    )?;
    let mut rows = find.query([id])?;
    let mut parts = Vec::new();
    while let Some(row) = rows.next()? {
        parts.push(UploadPart {
            start: unsigned(read::get(row, "start")?),
            size_bytes: unsigned(read::get(row, "size_bytes")?),
            crc32: read::get(row, "crc32")?,
        });
    }
    Ok(parts)
}

fn add_part(conn: &Connection, id: &str, part: &UploadPart, now: Timestamp) -> DbResult<()> {
    let mut touch =
        conn.prepare_cached("UPDATE uploads SET touched_us = ? WHERE upload_id = ? AND log_hash IS NULL")?;
    if touch.execute(params![now.as_microsecond(), id])? == 0 {
        return Err(StoreError::NotFound { what: format!("upload {id}") }.into());
    }
    // Of two that begin alike the longer one says more.
    let mut add = conn.prepare_cached(
        "INSERT INTO upload_parts (upload_id, start, size_bytes, crc32) VALUES (?1, ?2, ?3, ?4) \
         ON CONFLICT DO UPDATE SET size_bytes = ?3, crc32 = ?4 WHERE size_bytes < ?3",
    )?;
    add.execute(params![id, signed(part.start), signed(part.size_bytes), part.crc32])?;
    Ok(())
}

fn drop_upload(conn: &Connection, id: &str, actor: &Actor, now: Timestamp) -> DbResult<()> {
    let mut drop = conn.prepare_cached("DELETE FROM uploads WHERE upload_id = ? RETURNING object_key")?;
    let key = drop.query_row([id], |row| row.get::<_, Option<String>>(0)).optional()?;
    let Some(key) = key else { return Err(StoreError::NotFound { what: format!("upload {id}") }.into()) };
    let detail = json!({"upload": id});
    journal::note(conn, actor, now, "log.upload.give_up", &subject(id, key), Some(&detail))
}

fn release(conn: &Connection, run: &RunId, actor: &Actor, now: Timestamp) -> DbResult<()> {
    let documents = conn.execute(
        "DELETE FROM pending_documents WHERE run_id = ? AND created_by IS ?",
        params![run.as_str(), actor.user],
    )?;
    if documents > 0 {
        let detail = json!({"documents": documents});
        journal::note(conn, actor, now, "run.documents.release", &format!("run {run}"), Some(&detail))?;
    }
    for format in [LogFormat::Eval, LogFormat::Json] {
        let key = ObjectKey::new(run.clone(), format).to_string();
        let gone = conn.execute(
            &format!(
                "DELETE FROM objects WHERE object_key = ?1 AND created_by IS ?2 AND {OF_NO_RUN} \
                     AND NOT EXISTS (SELECT 1 FROM pending_documents WHERE run_id = ?3)"
            ),
            params![key, actor.user, run.as_str()],
        )?;
        if gone > 0 {
            conn.execute("DELETE FROM uploads WHERE object_key = ? AND log_hash IS NOT NULL", [&key])?;
            journal::note(conn, actor, now, "log.release", &format!("log {key}"), None)?;
        }
    }
    Ok(())
}

/// An uploaded log is that of no run.
const OF_NO_RUN: &str = "NOT EXISTS (SELECT 1 FROM runs WHERE runs.log_hash = objects.log_hash) \
     AND NOT EXISTS (SELECT 1 FROM run_revisions AS old WHERE old.log_hash = objects.log_hash)";

fn abandoned(
    conn: &Connection,
    uploads_before: Timestamp,
    objects_before: Timestamp,
    remove: bool,
    now: Timestamp,
) -> DbResult<Abandoned> {
    let mut abandoned = Abandoned::default();
    let (uploads_us, objects_us) = (uploads_before.as_microsecond(), objects_before.as_microsecond());
    let mut find = conn.prepare_cached("SELECT upload_id FROM uploads WHERE touched_us < ?")?;
    let ids = find.query_map([uploads_us], |row| row.get(0))?;
    abandoned.uploads = ids.collect::<std::result::Result<_, _>>()?;
    let mut find = conn.prepare_cached(
        "SELECT run_id, count(*) FROM pending_documents GROUP BY run_id HAVING max(made_us) < ?",
    )?;
    let rows = find.query_map([objects_us], |row| Ok((row.get(0)?, unsigned(row.get(1)?))))?;
    abandoned.pending = rows.collect::<std::result::Result<_, _>>()?;
    // A log is needed by its run, and by documents that arrived lately.
    let mut find = conn.prepare_cached(&format!(
        "SELECT object_key, log_size FROM objects WHERE created_us < ?1 AND {OF_NO_RUN} \
             AND NOT EXISTS (SELECT 1 FROM pending_documents WHERE made_us >= ?1 \
                 AND run_id = substr(object_key, 1, length(object_key) - 5))",
    ))?;
    let rows = find.query_map([objects_us], |row| Ok((row.get(0)?, unsigned(row.get(1)?))))?;
    abandoned.objects = rows.collect::<std::result::Result<_, _>>()?;
    if remove {
        let actor = Actor::local();
        let note = |action, subject: String| journal::note(conn, &actor, now, action, &subject, None);
        for id in &abandoned.uploads {
            conn.execute("DELETE FROM uploads WHERE upload_id = ?", [id])?;
            note("log.upload.expire", format!("upload {id}"))?;
        }
        conn.execute(
            "DELETE FROM upload_objects WHERE upload_id NOT IN (SELECT upload_id FROM uploads)",
            [],
        )?;
        for (run, _) in &abandoned.pending {
            conn.execute("DELETE FROM pending_documents WHERE run_id = ?", [run])?;
            note("run.documents.expire", format!("run {run}"))?;
        }
        for (key, _) in &abandoned.objects {
            conn.execute("DELETE FROM objects WHERE object_key = ?", [key])?;
            note("log.expire", format!("log {key}"))?;
        }
    }
    Ok(abandoned)
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
    let log = read::log_ref(row)?;
    let tag = read::log_tag(conn, &LogKey::from(&log))?.unwrap_or_default();
    Ok(Some(StoredObject { key: key.clone(), log, md5: read::get(row, "md5")?, tag }))
}

fn check_key_is_free(conn: &Connection, key: &ObjectKey) -> DbResult<()> {
    let run = run_is_deleted(conn, &key.run)?;
    let conflict = match (run, object(conn, key)?) {
        (None, None) => return Ok(()),
        (Some(true), _) => Conflict::RunDeleted { run: key.run.clone() },
        (run, found) => {
            let mut find = conn.prepare_cached("SELECT created_by FROM objects WHERE object_key = ?")?;
            let by = find.query_row([key.to_string()], |row| row.get(0)).optional()?.flatten();
            let there = found.map(|found| TakenBy { log: found.log, of_run: run.is_some(), by });
            Conflict::ObjectTaken { key: key.clone(), there }
        }
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
