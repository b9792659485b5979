//! Metadata in one SQLite file.
//!
//! The database is in WAL mode with full synchronisation: readers never wait for a writer, and what was committed
//! outlives a power cut. Writers take the lock at the start of their transaction and wait for each other.

mod accounts;
mod audit;
mod comments;
mod commit;
mod datasets;
mod edit;
mod journal;
mod labels;
mod list;
mod postings;
mod read;
mod uploads;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{io, thread};

use ct_model::{
    LogHash, RunEdit, RunId, RunPage, RunQuery, RunRecord, TrajectoryDocument, TrajectoryId, TrajectoryPage,
    TrajectoryQuery,
};
use jiff::Timestamp;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Audit, Candidate, LogUse, MetaStore, StagedRun};
use crate::actor::Actor;
use crate::error::{Result, StoreError};
use crate::record::{CommitMode, Committed, KnownRun};

/// How long a writer waits for other writers.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);
/// Prepared statements kept by a connection; there are fewer in this program.
const STATEMENTS_MAX: usize = 128;
/// Connections kept open for the next use.
const IDLE_MAX: usize = 16;

/// Each brings a database from the version of its index to the next. They are only ever added to.
const MIGRATIONS: &[&str] = &[include_str!("migrations/0001.sql"), include_str!("migrations/0002.sql")];
const SCHEMA_VERSION: i64 = 2;
const _: () = assert!(MIGRATIONS.len() == 2 && SCHEMA_VERSION == 2);

/// Metadata in a SQLite file.
pub(crate) struct SqliteStore {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
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
    /// Opens the database; makes it, and brings it up to date, when needed.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let store = Self { path: path.to_owned(), idle: Mutex::new(Vec::new()) };
        store.with("be opened", |conn| {
            let found = schema_version(conn)?;
            if found > SCHEMA_VERSION {
                let path = path.to_owned();
                return Err(StoreError::NewerSchema { path, found, supported: SCHEMA_VERSION }.into());
            }
            if found < SCHEMA_VERSION {
                migrate(conn, path)?;
            }
            Ok(())
        })?;
        Ok(store)
    }

    /// Runs `f` with a connection of its own.
    fn with<T>(
        &self,
        doing: &'static str,
        f: impl FnOnce(&Connection) -> std::result::Result<T, DbError>,
    ) -> Result<T> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let result = match idle.map_or_else(|| connect(&self.path), Ok) {
            Ok(conn) => {
                let result = f(&conn);
                let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
                if idle.len() < IDLE_MAX {
                    idle.push(conn);
                }
                result
            }
            Err(error) => Err(error.into()),
        };
        result.map_err(|error| self.explain(doing, error))
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

    /// As [`Self::with`], in a transaction that is written as a whole when `f` succeeds, and not at all when it fails.
    fn write<T>(
        &self,
        doing: &'static str,
        f: impl FnOnce(&Connection) -> std::result::Result<T, DbError>,
    ) -> Result<T> {
        self.with(doing, |conn| {
            let tx = Transaction::new_unchecked(conn, TransactionBehavior::Immediate)?;
            let value = f(&tx)?;
            tx.commit()?;
            Ok(value)
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
            Some(ErrorCode::DiskFull) => io(io::Error::new(io::ErrorKind::StorageFull, error)),
            Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen | ErrorCode::ReadOnly) => {
                io(io::Error::other(error))
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
        self.read("list runs", |conn| list::runs(conn, query))
    }

    fn list_trajectories(&self, query: &TrajectoryQuery) -> Result<TrajectoryPage> {
        self.read("list trajectories", |conn| list::trajectories(conn, query))
    }

    fn list_trajectory_ids(&self, query: &TrajectoryQuery) -> Result<TrajectoryPage<TrajectoryId>> {
        self.read("list trajectories", |conn| list::trajectory_ids(conn, query))
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

    fn edit_run(&self, run: &RunId, edit: &RunEdit, actor: &Actor, now: Timestamp) -> Result<()> {
        self.write("change a run", |conn| edit::edit(conn, run, edit, actor, now))
    }

    fn set_deleted(&self, run: &RunId, deleted: bool, actor: &Actor, now: Timestamp) -> Result<bool> {
        self.write("delete or restore a run", |conn| edit::set_deleted(conn, run, deleted, actor, now))
    }

    fn purge_run(&self, run: &RunId) -> Result<bool> {
        self.write("remove a run", |conn| edit::purge(conn, run))
    }

    fn log_uses(&self) -> Result<Vec<LogUse>> {
        self.read("list the logs of runs", read::log_uses)
    }

    fn audit(&self, repair: bool) -> Result<Audit> {
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
}

fn connect(path: &Path) -> std::result::Result<Connection, rusqlite::Error> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags)?;
    conn.busy_timeout(BUSY_TIMEOUT)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    conn.execute_batch("PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;")?;
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
