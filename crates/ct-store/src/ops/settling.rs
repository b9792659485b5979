//! Uploaded logs on their way to the disk.
//!
//! A log counts as stored once the hash of the whole was right. Its bytes are then the system's: they outlive this
//! process, but not a power cut. The disk gets them meanwhile, on a thread of their own, and a run becomes visible only
//! when it has them ([`Store::settle`]). So a log that some run has is on the disk.
//!
//! Of a log that was uploaded and that no run has, a later process cannot tell whether its bytes are all there. It
//! reads and hashes the log before it says that it has it, once. In a bucket logs are there for good at once.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use ct_model::{LogRef, ObjectKey};

use crate::blob::{LogFolder, LogKey, LogState};
use crate::error::{Conflict, Result, StoreError};
use crate::record::{LogTag, StoredObject};
use crate::store::Store;

/// Logs that are remembered to be on the disk.
const REMEMBERED_MAX: usize = 1024;

/// The uploaded logs whose bytes this process has seen to be right.
#[derive(Default)]
pub(crate) struct Settling {
    logs: Mutex<HashMap<LogKey, Arc<Log>>>,
    /// Taken by who hashes a log, so that it is done once.
    verifying: Mutex<()>,
}

struct Log {
    key: LogKey,
    folder: LogFolder,
    /// Taken by who waits for the disk.
    syncing: Mutex<()>,
    /// Whether the disk has it, and what it said when it did not take it. Absent: it may not be there yet.
    settled: OnceLock<std::result::Result<(), String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Settling {
    fn get(&self, key: &LogKey) -> Option<Arc<Log>> {
        lock(&self.logs).get(key).cloned()
    }

    fn add(&self, folder: &LogFolder, key: LogKey) -> Arc<Log> {
        let log = Log {
            key: key.clone(),
            folder: folder.clone(),
            syncing: Mutex::default(),
            settled: OnceLock::new(),
        };
        let log = Arc::new(log);
        let mut logs = lock(&self.logs);
        if logs.len() >= REMEMBERED_MAX {
            logs.retain(|_, log| log.settled.get().is_none());
        }
        logs.insert(key, Arc::clone(&log));
        log
    }
}

impl Log {
    fn is_lost(&self) -> bool {
        matches!(self.settled.get(), Some(Err(_)))
    }

    /// Waits until the disk has it, or has refused it. What it refused once it may seem to take the next time: it is not
    /// asked again.
    fn settle(&self) -> std::result::Result<(), String> {
        let _syncing = lock(&self.syncing);
        self.settled.get_or_init(|| self.folder.sync(&self.key).map_err(|error| error.to_string())).clone()
    }
}

impl Store {
    /// Makes a file whose hash was checked a stored log. The disk gets it meanwhile. The lock on the files has to be held.
    pub(super) fn publish_behind(&self, staged: &Path, log: &LogRef) -> Result<LogTag> {
        let Some(folder) = self.logs().folder() else { return self.publish(staged, log) };
        let key = LogKey::from(log);
        if !folder.place(staged, &key)? {
            self.publish(staged, log)?;
        }
        let log = self.settling().add(folder, key);
        // Without a thread the registration does it.
        let _ = std::thread::Builder::new().name("settle".to_owned()).spawn(move || drop(log.settle()));
        Ok(LogTag::default())
    }

    /// Waits until the disk has an uploaded log; called before a run that has it becomes visible.
    pub(super) fn settle(&self, object: &ObjectKey, log: &LogRef) -> Result<()> {
        if !self.is_stored(object, log)? {
            return Err(StoreError::NotFound { what: format!("log {object}") });
        }
        let key = LogKey::from(log);
        // Otherwise a run has it, or it is in a bucket.
        let Some(settling) = self.settling().get(&key) else { return Ok(()) };
        settling.settle().map_err(|said| {
            let doing = "write the log through to the disk";
            StoreError::io(doing, settling.folder.path(&key))(io::Error::other(said))
        })
    }

    /// The log of a key: that of the visible run of this id, else what was uploaded.
    pub fn object(&self, key: &ObjectKey) -> Result<Option<StoredObject>> {
        let Some(object) = self.meta().object(key)? else { return Ok(None) };
        Ok(self.is_stored(key, &object.log)?.then_some(object))
    }

    /// Fails with a conflict when the key, or the id of its run, is in use.
    pub fn check_key_is_free(&self, key: &ObjectKey) -> Result<()> {
        match self.meta().check_key_is_free(key) {
            // What was lost is in nobody's way.
            Err(StoreError::Conflict(Conflict::ObjectTaken { .. })) if self.object(key)?.is_none() => {
                self.meta().check_key_is_free(key)
            }
            result => result,
        }
    }

    /// Whether a log that is said to be there has all its bytes; forgets one that has not.
    fn is_stored(&self, object: &ObjectKey, log: &LogRef) -> Result<bool> {
        // What is in a bucket is there for good.
        let Some(folder) = self.logs().folder() else { return Ok(true) };
        let key = LogKey::from(log);
        let known = || self.settling().get(&key).map(|log| !log.is_lost());
        let mut stored = known();
        if stored.is_none() && self.meta().run_of_log(&log.hash)?.is_some() {
            stored = Some(true);
        }
        if stored.is_none() {
            let _verifying = lock(&self.settling().verifying);
            stored = known();
            if stored.is_none() {
                let whole = self.logs().verify(&key, log.size_bytes, &mut |_| ())? == LogState::Whole;
                if whole {
                    self.settling().add(folder, key.clone());
                }
                stored = Some(whole);
            }
        }
        if stored == Some(true) {
            return Ok(true);
        }
        self.meta().forget_object(object, &log.hash, self.now())?;
        lock(&self.settling().logs).remove(&key);
        Ok(false)
    }
}
