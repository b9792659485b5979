//! Operations over both metadata and logs: the order in which the two change is decided here.

mod accounts;
mod backup_file;
mod check;
mod comments;
mod copy;
mod datasets;
mod direct;
mod gc;
mod ingest;
mod log_index;
mod objects;
mod ranges;
mod register;
mod room;
mod settling;
mod uploads;

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::error::{Result, StoreError};

pub use accounts::Identity;
pub(crate) use check::check;
pub use comments::{Author, TrajectoryComments, merge_comments};
pub(crate) use gc::gc;
pub use ingest::{Ingest, hash_log};
pub(crate) use log_index::LogIndexes;
pub use register::Registration;
pub(crate) use register::{comparable_document, comparable_header};
pub(crate) use settling::Settling;
pub(crate) use uploads::LiveUploads;

/// A new id of something that nobody else has.
pub(crate) fn new_id() -> Result<String> {
    accounts::random_hex(16)
}

/// How long an ingest waits for a collection, and a collection for an ingest that is about to end.
const SHARED_TIMEOUT: Duration = Duration::from_secs(10);
const EXCLUSIVE_TIMEOUT: Duration = Duration::from_millis(500);
const ALONE_TIMEOUT: Duration = Duration::from_secs(60);
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// A lock on the files of the data folder that nobody refers to yet. The system lets go of it when the process ends.
pub(crate) struct FilesLock(#[expect(dead_code, reason = "the lock lasts as long as the file is open")] File);

impl FilesLock {
    /// For who adds files.
    fn shared(data_dir: &Path) -> Result<Self> {
        let busy = "another process is collecting or repairing the store";
        Self::wait(data_dir, File::try_lock_shared, SHARED_TIMEOUT, busy)
    }

    /// For who removes files.
    fn exclusive(data_dir: &Path) -> Result<Self> {
        let busy = "another process is adding to, collecting or repairing the store";
        Self::wait(data_dir, File::try_lock, EXCLUSIVE_TIMEOUT, busy)
    }

    /// For who decides where logs are, which takes as long as a bucket's answer.
    pub(crate) fn alone(data_dir: &Path) -> Result<Self> {
        Self::wait(data_dir, File::try_lock, ALONE_TIMEOUT, "another process is making the store")
    }

    fn wait(
        data_dir: &Path,
        try_lock: impl Fn(&File) -> std::result::Result<(), TryLockError>,
        timeout: Duration,
        busy: &'static str,
    ) -> Result<Self> {
        let (file, path) = Self::open(data_dir)?;
        let mut waited = Duration::ZERO;
        loop {
            match try_lock(&file) {
                Ok(()) => return Ok(Self(file)),
                Err(TryLockError::WouldBlock) if waited < timeout => {
                    thread::sleep(LOCK_PAUSE);
                    waited += LOCK_PAUSE;
                }
                Err(TryLockError::WouldBlock) => return Err(StoreError::Busy { what: busy }),
                Err(TryLockError::Error(error)) => {
                    return Err(StoreError::io("lock the data folder", path)(error));
                }
            }
        }
    }

    fn open(data_dir: &Path) -> Result<(File, PathBuf)> {
        let path = data_dir.join("ingest.lock");
        match File::options().create(true).truncate(false).write(true).open(&path) {
            Ok(file) => Ok((file, path)),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
                ) =>
            {
                Err(StoreError::ReadOnly { path: data_dir.to_owned() })
            }
            Err(error) => Err(StoreError::io("open the lock of the data folder", path)(error)),
        }
    }
}
