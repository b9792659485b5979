//! Metadata in one SQLite file.
//!
//! The database is in WAL mode with full synchronisation: readers never wait for a writer, and what was committed
//! outlives a power cut, but for what says otherwise. Writers take the lock at the start of their transaction and wait for each other.
//!
//! WAL mode needs two more files beside the database, even to read. Where these cannot be made (a read-only folder, a
//! full disk) the file alone is read, as long as nothing is waiting in such files and nobody changes it meanwhile.

mod accounts;
mod audit;
mod columns;
mod comments;
mod commit;
mod datasets;
mod edit;
mod journal;
mod labels;
mod list;
mod order;
mod pieces;
mod postings;
mod reach;
mod read;
mod refill;
mod register;
mod trajectories;
mod uploads;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fs, io, thread};

use ct_model::{
    LogFormat, LogHash, RunEdit, RunHeader, RunId, RunPage, RunQuery, RunRecord, TrajectoryDocument,
    TrajectoryId, TrajectoryNumbers, TrajectoryPage, TrajectoryQuery,
};
use jiff::Timestamp;
use rusqlite::{
    Connection, ErrorCode, OpenFlags, OptionalExtension as _, Transaction, TransactionBehavior, params,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use self::pieces::{Kept, View};
use self::reach::{Hindrance, Stamp};
use super::{Audit, AuditMark, Candidate, LogUse, MetaStore, StagedRun};
use crate::actor::Actor;
use crate::blob::LogKey;
use crate::error::{Result, StoreError};
use crate::record::{CommitMode, Committed, KnownRun, LogTag, Totals};

/// How long a writer waits for other writers.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);
/// Prepared statements kept by a connection; there are fewer in this program.
const STATEMENTS_MAX: usize = 128;
/// Pages of the write-ahead log after which they are brought into the database, 16 MB. More than usual: what is registered
/// in many batches changes the same pages again and again.
const WAL_PAGES: u32 = 4000;
/// Connections kept open for the next use.
const IDLE_MAX: usize = 16;

/// Each brings a database from the version of its index to the next. They are only ever added to.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001.sql"),
    include_str!("migrations/0002.sql"),
    include_str!("migrations/0003.sql"),
    include_str!("migrations/0004.sql"),
    include_str!("migrations/0005.sql"),
    include_str!("migrations/0006.sql"),
    include_str!("migrations/0007.sql"),
];
const SCHEMA_VERSION: i64 = 7;
const _: () = assert!(MIGRATIONS.len() == 7 && SCHEMA_VERSION == 7);

/// Metadata in a SQLite file.
pub(crate) struct SqliteStore {
    path: PathBuf,
    state: Mutex<State>,
    kept: Kept,
}

struct State {
    idle: Vec<Connection>,
    access: Access,
}

/// How the database is used.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Access {
    /// As a database in WAL mode is.
    Whole,
    /// Its file alone is read, which must stay as it is meanwhile: nothing can be written beside it.
    FileAlone(Hindrance, Stamp),
}

/// What can go wrong between the database and here. It leaves this module as a [`StoreError`].
#[derive(Debug)]
pub(super) enum DbError {
    Sqlite(rusqlite::Error),
    Store(StoreError),
}

impl DbError {
    fn corrupt(what: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::Store(StoreError::Corrupt { what: what.into(), detail: detail.into() })
    }
}

impl From<rusqlite::Error> for DbError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<StoreError> for DbError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl SqliteStore {
    /// Opens the database; makes it, and brings it up to date, when needed. A database that can be read and not written
    /// is opened for reading.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let state = State { idle: Vec::new(), access: Access::Whole };
        let store = Self { path: path.to_owned(), state: Mutex::new(state), kept: Kept::default() };
        match store.bring_up_to_date() {
            Ok(()) => Ok(store),
            Err(error) => store.open_file_alone(error),
        }
    }

    fn bring_up_to_date(&self) -> Result<()> {
        self.with("be opened", |conn| {
            let found = schema_version(conn)?;
            if found > SCHEMA_VERSION {
                let path = self.path.clone();
                return Err(StoreError::NewerSchema { path, found, supported: SCHEMA_VERSION }.into());
            }
            if found < SCHEMA_VERSION {
                migrate(conn, &self.path)?;
            }
            Ok(())
        })
    }

    /// After opening failed with `error`: when that is because nothing can be written there, opens what can be read.
    fn open_file_alone(self, error: StoreError) -> Result<Self> {
        let hindrance = match &error {
            StoreError::ReadOnly { .. } => Hindrance::ReadOnly,
            _ if error.is_disk_full() => Hindrance::DiskFull,
            _ => return Err(error),
        };
        let Ok(stamp) = Stamp::of(&self.path) else { return Err(error) };
        if reach::has_changes_beside(&self.path) {
            return Err(match hindrance {
                Hindrance::ReadOnly => StoreError::Unsettled { path: self.path },
                Hindrance::DiskFull => error,
            });
        }
        self.state().access = Access::FileAlone(hindrance, stamp);
        // Bringing it up to date would be writing.
        match self.with("be opened", |conn| Ok(schema_version(conn)?)) {
            Ok(SCHEMA_VERSION) => Ok(self),
            Ok(found) if found > SCHEMA_VERSION => {
                Err(StoreError::NewerSchema { path: self.path, found, supported: SCHEMA_VERSION })
            }
            _ => Err(error),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `f` with a connection of its own.
    fn with<T>(
        &self,
        doing: &'static str,
        f: impl FnOnce(&Connection) -> std::result::Result<T, DbError>,
    ) -> Result<T> {
        let (idle, access) = {
            let mut state = self.state();
            (state.idle.pop(), state.access.clone())
        };
        let connected = idle.map_or_else(
            || match &access {
                Access::Whole => connect(&self.path),
                Access::FileAlone(..) => connect_file_alone(&self.path),
            },
            Ok,
        );
        let result = match connected {
            Ok(conn) => {
                let result = f(&conn);
                let mut state = self.state();
                if state.idle.len() < IDLE_MAX && state.access == access {
                    state.idle.push(conn);
                }
                result
            }
            Err(error) => Err(error.into()),
        };
        if let Access::FileAlone(_, stamp) = &access
            && !stamp.holds(&self.path)
        {
            return Err(StoreError::Busy { what: "another process is writing to the store" });
        }
        result.map_err(|error| self.explain(doing, error))
    }

    /// Before writing: a full disk may have room again, a read-only folder stays one.
    fn be_writable(&self) -> Result<()> {
        let access = self.state().access.clone();
        let Access::FileAlone(hindrance, _) = &access else { return Ok(()) };
        if *hindrance == Hindrance::ReadOnly {
            return Err(self.read_only());
        }
        let change = |access| {
            let mut state = self.state();
            state.idle.clear();
            state.access = access;
            // What was read of the file alone may be of two moments.
            self.kept.forget();
        };
        change(Access::Whole);
        self.bring_up_to_date().inspect_err(|_| change(access.clone()))
    }

    fn read_only(&self) -> StoreError {
        StoreError::ReadOnly { path: self.path.parent().unwrap_or(&self.path).to_owned() }
    }

    /// As [`Self::with`], in a transaction that sees one moment and changes nothing.
    fn read<T>(
        &self,
        doing: &'static str,
        f: impl FnOnce(&Connection) -> std::result::Result<T, DbError>,
    ) -> Result<T> {
        self.with(doing, |conn| {
            let tx = Transaction::new_unchecked(conn, TransactionBehavior::Deferred)?;
            f(&tx)
        })
    }

    /// As [`Self::read`], with what is kept of packed tables.
    fn view<T>(
        &self,
        doing: &'static str,
        f: impl FnOnce(View<'_>) -> std::result::Result<T, DbError>,
    ) -> Result<T> {
        self.read(doing, |conn| f(View::new(conn, &self.kept)))
    }

    /// As [`Self::with`], in a transaction that is written as a whole when `f` succeeds, and not at all when it fails.
    fn write<T>(
        &self,
        doing: &'static str,
        f: impl FnOnce(&Connection) -> std::result::Result<T, DbError>,
    ) -> Result<T> {
        self.be_writable()?;
        self.with(doing, |conn| write_whole(conn, f))
    }

    /// As [`Self::write`], for what may be undone by a power cut, though not by the death of a process.
    fn write_loosely<T>(
        &self,
        doing: &'static str,
        f: impl FnOnce(&Connection) -> std::result::Result<T, DbError>,
    ) -> Result<T> {
        self.be_writable()?;
        self.with(doing, |conn| {
            conn.execute_batch("PRAGMA synchronous = NORMAL")?;
            let result = write_whole(conn, f);
            conn.execute_batch("PRAGMA synchronous = FULL")?;
            result
        })
    }

    /// As [`Self::write`], for what is not worth waiting for: it fails at once while another writes.
    fn write_at_once<T>(
        &self,
        doing: &'static str,
        f: impl FnOnce(&Connection) -> std::result::Result<T, DbError>,
    ) -> Result<T> {
        self.be_writable()?;
        self.with(doing, |conn| {
            conn.busy_timeout(Duration::ZERO)?;
            let result = write_whole(conn, f);
            conn.busy_timeout(BUSY_TIMEOUT)?;
            result
        })
    }

    fn explain(&self, doing: &'static str, error: DbError) -> StoreError {
        let error = match error {
            DbError::Store(error) => return error,
            DbError::Sqlite(error) => error,
        };
        let io = |error| StoreError::Io { doing: "use the database", path: self.path.clone(), source: error };
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                StoreError::Busy { what: "another process is writing to the store" }
            }
            Some(ErrorCode::DiskFull) => io(io::Error::new(io::ErrorKind::StorageFull, "the disk is full")),
            // The database does not tell what the system said. It is asked again.
            Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen | ErrorCode::ReadOnly) => {
                match reach::hindrance(&self.path) {
                    Some(Hindrance::ReadOnly) => self.read_only(),
                    Some(Hindrance::DiskFull) => {
                        io(io::Error::new(io::ErrorKind::StorageFull, "the disk is full"))
                    }
                    None => io(io::Error::other(error)),
                }
            }
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Corrupt {
                what: format!("the database {}", self.path.display()),
                detail: error.to_string(),
            },
            _ => StoreError::Database { doing, source: Box::new(error) },
        }
    }
}

impl MetaStore for SqliteStore {
    fn run_of_log(&self, hash: &LogHash) -> Result<Option<KnownRun>> {
        self.read("look for a log", |conn| read::run_of_log(conn, hash))
    }

    fn runs_of_eval(&self, eval_id: &str) -> Result<Vec<RunId>> {
        self.read("look for runs of an eval", |conn| read::runs_of_eval(conn, eval_id))
    }

    fn commit(&self, staged: StagedRun<'_>, mode: &CommitMode, now: Timestamp) -> Result<Committed> {
        self.write("store a run", |conn| commit::commit(conn, staged, mode, now))
    }

    fn runs_with_prefix(&self, prefix: &str, deleted: bool, count_max: u64) -> Result<Vec<Candidate<RunId>>> {
        self.read("look for a run", |conn| read::runs_with_prefix(conn, prefix, deleted, count_max))
    }

    fn trajectories_with_prefix(
        &self,
        prefix: &str,
        deleted: bool,
        count_max: u64,
    ) -> Result<Vec<Candidate<TrajectoryId>>> {
        self.read("look for a trajectory", |conn| {
            read::trajectories_with_prefix(conn, prefix, deleted, count_max)
        })
    }

    fn list_runs(&self, query: &RunQuery) -> Result<RunPage> {
        self.view("list runs", |view| list::runs(view, query))
    }

    fn list_run_headers(&self, query: &RunQuery) -> Result<RunPage<(RunHeader, LogFormat)>> {
        self.view("list runs", |view| list::run_headers(view, query))
    }

    fn list_trajectories(&self, query: &TrajectoryQuery) -> Result<TrajectoryPage> {
        self.view("list trajectories", |view| trajectories::trajectories(view, query))
    }

    fn list_trajectory_ids(&self, query: &TrajectoryQuery) -> Result<TrajectoryPage<TrajectoryId>> {
        self.view("list trajectories", |view| trajectories::trajectory_ids(view, query))
    }

    fn list_documents(&self, query: &TrajectoryQuery) -> Result<TrajectoryPage<TrajectoryDocument>> {
        self.view("list documents", |view| trajectories::documents(view, query))
    }

    fn numbers(&self, run: &RunId) -> Result<Vec<TrajectoryNumbers>> {
        self.view("read the numbers of a run", |view| trajectories::numbers(view, run))
    }

    fn run(&self, run: &RunId) -> Result<RunRecord> {
        self.read("read a run", |conn| read::run(conn, run))
    }

    fn document(&self, trajectory: &TrajectoryId) -> Result<TrajectoryDocument> {
        self.read("read a document", |conn| read::document(conn, trajectory))
    }

    fn documents(&self, run: &RunId, f: &mut dyn FnMut(TrajectoryDocument) -> ControlFlow<()>) -> Result<()> {
        self.read("read the documents of a run", |conn| read::documents(conn, run, f))
    }

    fn edit_runs(&self, runs: &[RunId], edit: &RunEdit, actor: &Actor, now: Timestamp) -> Result<()> {
        self.write("change runs", |conn| {
            runs.iter().try_for_each(|run| edit::edit(conn, run, edit, actor, now))
        })
    }

    fn set_deleted(&self, runs: &[RunId], deleted: bool, actor: &Actor, now: Timestamp) -> Result<u64> {
        self.write("delete or restore runs", |conn| {
            let mut changed = 0;
            for run in runs {
                changed += u64::from(edit::set_deleted(conn, run, deleted, actor, now)?);
            }
            Ok(changed)
        })
    }

    fn purge_run(&self, run: &RunId, actor: &Actor, now: Timestamp) -> Result<bool> {
        self.write("remove a run", |conn| edit::purge(conn, run, actor, now))
    }

    fn totals(&self) -> Result<Totals> {
        self.read("count", read::totals)
    }

    fn log_tag(&self, key: &LogKey) -> Result<Option<LogTag>> {
        self.read("look for a log", |conn| read::log_tag(conn, key))
    }

    fn set_log_tag(&self, key: &LogKey, tag: &LogTag) -> Result<()> {
        self.write("keep what the bucket says of a log", |conn| {
            let values = params![key.hash.as_str(), key.format.as_str(), tag.e_tag, tag.version_id];
            conn.execute("INSERT OR REPLACE INTO log_tags VALUES (?, ?, ?, ?)", values)?;
            Ok(())
        })
    }

    fn last_audit(&self) -> Result<Option<AuditMark>> {
        self.read("read the audit log", |conn| {
            let sql = "SELECT audit_id, made_us, action, subject FROM audit ORDER BY audit_id DESC LIMIT 1";
            let mark = conn.query_row(sql, [], |row| {
                Ok(AuditMark {
                    id: row.get(0)?,
                    made_us: row.get(1)?,
                    action: row.get(2)?,
                    subject: row.get(3)?,
                })
            });
            Ok(mark.optional()?)
        })
    }

    fn has_audit(&self, mark: &AuditMark) -> Result<bool> {
        self.read("read the audit log", |conn| {
            let sql = "SELECT 1 FROM audit WHERE audit_id = ? AND made_us = ? AND action = ? AND subject = ?";
            Ok(conn.prepare(sql)?.exists(params![mark.id, mark.made_us, mark.action, mark.subject])?)
        })
    }

    fn snapshot(&self, path: &Path) -> Result<()> {
        let text = path.to_str().ok_or_else(|| StoreError::invalid("the path of a copy has to be text"))?;
        self.with("be copied", |conn| {
            conn.execute("VACUUM INTO ?", [text])?;
            Ok(())
        })
    }

    fn log_uses(&self) -> Result<Vec<LogUse>> {
        self.read("list the logs of runs", read::log_uses)
    }

    fn audit(&self, repair: bool) -> Result<Audit> {
        let audit = self.be_writable().and_then(|()| self.audit_here(repair));
        match audit {
            Err(error)
                if !repair && (error.is_disk_full() || matches!(error, StoreError::ReadOnly { .. })) =>
            {
                self.audit_copy()
            }
            audit => audit,
        }
    }
}

impl SqliteStore {
    fn audit_here(&self, repair: bool) -> Result<Audit> {
        // Looking needs values of the filter index by their number, which may have to be made: so it is a transaction
        // that can write, and is taken back when nothing is to be repaired.
        self.with("check itself", |conn| {
            let tx = Transaction::new_unchecked(conn, TransactionBehavior::Immediate)?;
            let audit = audit::audit(&tx, repair)?;
            if repair {
                tx.commit()?;
            }
            Ok(audit)
        })
    }

    /// Audits a copy, where nothing can be written to the database.
    fn audit_copy(&self) -> Result<Audit> {
        let doing = "copy the database to check it";
        let folder =
            tempfile::tempdir().map_err(StoreError::io("make a temporary folder", std::env::temp_dir()))?;
        let copy = folder.path().join("ct.sqlite");
        fs::copy(&self.path, &copy).map_err(StoreError::io(doing, &copy))?;
        let wal = reach::wal(&self.path);
        if wal.exists() {
            fs::copy(&wal, reach::wal(&copy)).map_err(StoreError::io(doing, &copy))?;
        }
        Self::open(&copy)?.audit_here(false)
    }
}

/// All that `f` writes, or nothing of it when it fails.
fn write_whole<T>(
    conn: &Connection,
    f: impl FnOnce(&Connection) -> std::result::Result<T, DbError>,
) -> std::result::Result<T, DbError> {
    let tx = Transaction::new_unchecked(conn, TransactionBehavior::Immediate)?;
    let value = f(&tx)?;
    tx.commit()?;
    Ok(value)
}

/// Reads the file alone: the caller sees to it that it does not change.
fn connect_file_alone(path: &Path) -> std::result::Result<Connection, rusqlite::Error> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(reach::uri_of_file_alone(path), flags)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(conn)
}

fn connect(path: &Path) -> std::result::Result<Connection, rusqlite::Error> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags)?;
    conn.busy_timeout(BUSY_TIMEOUT)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    conn.execute_batch(&format!(
        "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA wal_autocheckpoint = {WAL_PAGES};"
    ))?;
    Ok(conn)
}

fn schema_version(conn: &Connection) -> std::result::Result<i64, rusqlite::Error> {
    conn.query_row("PRAGMA user_version", [], |row| row.get(0))
}

fn migrate(conn: &Connection, path: &Path) -> std::result::Result<(), DbError> {
    // Changing the mode needs the database for itself and does not wait for it, so two processes that make the same
    // database try in turn.
    let mut waited = Duration::ZERO;
    loop {
        match conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0)) {
            Ok(_) => break,
            Err(error)
                if waited < BUSY_TIMEOUT
                    && matches!(
                        error.sqlite_error_code(),
                        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
                    ) =>
            {
                let pause = Duration::from_millis(20);
                thread::sleep(pause);
                waited += pause;
            }
            Err(error) => return Err(error.into()),
        }
    }
    let tx = Transaction::new_unchecked(conn, TransactionBehavior::Immediate)?;
    let found = schema_version(&tx)?;
    if found > SCHEMA_VERSION {
        let path = path.to_owned();
        return Err(StoreError::NewerSchema { path, found, supported: SCHEMA_VERSION }.into());
    }
    // Another process may have done it by now.
    for migration in MIGRATIONS.iter().skip(usize::try_from(found).unwrap_or(0)) {
        tx.execute_batch(migration)?;
    }
    if found == 1 {
        datasets::index_labels(&tx)?;
    }
    if (1..5).contains(&found) {
        refill::refill(&tx)?;
        // Names and times of runs lie another way since.
        labels::check(&tx, true)?;
    }
    if (1..7).contains(&found) {
        refill::texts(&tx)?;
    }
    tx.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    tx.commit()?;
    Ok(())
}

fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("values of this crate have text keys and no failing serializer")
}

fn from_json<T: DeserializeOwned>(what: &str, text: &str) -> std::result::Result<T, DbError> {
    serde_json::from_str(text).map_err(|error| DbError::corrupt(what, error.to_string()))
}

fn time(us: i64) -> std::result::Result<Timestamp, DbError> {
    Timestamp::from_microsecond(us).map_err(|error| DbError::corrupt("a stored time", error.to_string()))
}

/// Counts and sizes are never negative.
fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// No count or size comes near the limit.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
