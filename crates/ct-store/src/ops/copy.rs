//! Everything of a store to another place, while the store is in use.
//!
//! A copy is a picture of the database at one moment, and every log that it names. The picture is taken first; logs never
//! change, so they can be copied behind it. It takes its place last: until then the copy is what it was before. What was
//! copied stays, so a copy that broke off goes on, and one that is made again takes what is new.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use ct_model::LogRef;
use tempfile::NamedTempFile;

use super::FilesLock;
use super::backup_file::BackupFile;
use crate::blob::{LogKey, LogPlace, Logs, WorkFolder, remove_file, sync_folder};
use crate::error::{Result, StoreError};
use crate::hashing::{Hashes, copy_hashed};
use crate::meta::{MetaStore as _, SqliteStore, UploadStore as _};
use crate::record::{CopyFailure, CopyProgress, CopyReport};
use crate::store::{self, DATABASE, Store};

/// Logs copied at a time.
const WORKERS: usize = 4;
/// Pictures taken, as long as there are new logs in them.
const ROUNDS_MAX: u32 = 3;

impl Store {
    /// Copies everything into a data folder, with the logs in `place`. That is new, or an earlier copy of this store
    /// that nobody changed since; anything else is left alone. Every log is hashed on the way.
    pub fn copy_to(
        &self,
        folder: &Path,
        place: LogPlace,
        progress: &(dyn Fn(CopyProgress) + Sync),
    ) -> Result<CopyReport> {
        if is_same(self.data_dir(), folder) {
            return Err(StoreError::invalid("a store cannot be copied onto itself"));
        }
        copy(&Origin::Store(self), folder, place, progress)
    }

    /// As [`Store::copy_to`], from a file that [`Store::back_up_to`] wrote.
    pub fn restore_from(
        file: &Path,
        folder: &Path,
        place: LogPlace,
        progress: &(dyn Fn(CopyProgress) + Sync),
    ) -> Result<CopyReport> {
        copy(&Origin::File(&BackupFile::open(file)?), folder, place, progress)
    }
}

/// What is copied.
pub(super) enum Origin<'a> {
    Store(&'a Store),
    File(&'a BackupFile),
}

impl Origin<'_> {
    /// Writes one moment of the database into a new file.
    fn picture(&self, to: &Path) -> Result<()> {
        match self {
            Self::Store(store) => store.meta().snapshot(to),
            Self::File(file) => file.picture(to),
        }
    }

    fn read(&self, log: &LogRef) -> Result<Box<dyn Read + Send>> {
        let opened = match self {
            Self::Store(store) => store.open_log(log)?.stream(0, log.size_bytes),
            Self::File(file) => file.read(log),
        };
        opened.map_err(|error| self.unreadable(log, error))
    }

    fn name(&self, log: &LogRef) -> String {
        match self {
            Self::Store(store) => store.log_name(log),
            Self::File(file) => file.name(log),
        }
    }

    /// Whether it is about a log that is copied, and not about the place that it goes to.
    fn has_made(&self, error: &StoreError) -> bool {
        match (error, self) {
            (StoreError::Io { path, .. }, Self::Store(store)) => path.starts_with(store.data_dir()),
            (StoreError::Io { .. }, Self::File(_)) => false,
            _ => true,
        }
    }

    fn unreadable(&self, log: &LogRef, error: io::Error) -> StoreError {
        let corrupt = |detail: String| StoreError::Corrupt { what: self.name(log), detail };
        match error.downcast::<ct_s3::S3Error>() {
            Ok(ct_s3::S3Error::NotFound { .. }) => corrupt("it is not there".to_owned()),
            Ok(error) => error.into(),
            Err(error) => corrupt(error.to_string()),
        }
    }

    /// Copies a log into a file, and sees that it is what its name says: its CRC-32.
    pub(super) fn stage(&self, log: &LogRef, to: &NamedTempFile, advance: &dyn Fn(u64)) -> Result<u32> {
        let mut reader = self.read(log)?;
        let (mut file, mut crc32) = (to.as_file(), crc32fast::Hasher::new());
        let hashed = copy_hashed(&mut reader, Hashes { sha256: true, md5: false }, |bytes| {
            file.write_all(bytes).map_err(StoreError::io("copy a log", to.path()))?;
            crc32.update(bytes);
            advance(bytes.len() as u64);
            Ok(())
        });
        let hashed = hashed.map_err(|error| match error {
            StoreError::Source { source } => self.unreadable(log, source),
            error => error,
        })?;
        if hashed.sha256.as_ref() != Some(&log.hash) {
            let detail = "its bytes have another SHA-256 than its name says".to_owned();
            return Err(StoreError::Corrupt { what: self.name(log), detail });
        }
        Ok(crc32.finalize())
    }

    /// Counts what came of a log. What is wrong with the log alone costs only that log.
    pub(super) fn note(&self, log: &LogRef, copied: Result<bool>, report: &mut CopyReport) -> Result<()> {
        match copied {
            Ok(true) => {
                report.copied += 1;
                report.copied_bytes += log.size_bytes;
            }
            Ok(false) => report.there_already += 1,
            Err(error @ (StoreError::Io { .. } | StoreError::Corrupt { .. }))
                if !error.is_disk_full() && self.has_made(&error) =>
            {
                report.failures.push(CopyFailure { log: self.name(log), reason: error.to_string() });
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

fn copy(
    from: &Origin<'_>,
    folder: &Path,
    place: LogPlace,
    progress: &(dyn Fn(CopyProgress) + Sync),
) -> Result<CopyReport> {
    store::make_folder(folder).map_err(StoreError::io("make the data folder", folder))?;
    let _lock = FilesLock::exclusive(folder)?;
    let database = folder.join(DATABASE);
    let there = if database.exists() { Some(SqliteStore::open(&database)?) } else { None };
    let last = there.as_ref().map(|there| there.last_audit()).transpose()?.flatten();
    let has_logs = match &there {
        Some(there) => !there.log_uses()?.is_empty() || !there.object_logs()?.is_empty(),
        None => false,
    };
    drop(there);
    if folder.join(format!("{DATABASE}-wal")).exists() {
        return Err(StoreError::Busy { what: "another process is using the copy" });
    }
    let work = WorkFolder::new(folder);
    work.remove_temporary()?;
    let temporary = folder.join("tmp");
    fs::create_dir_all(&temporary).map_err(StoreError::io("make a folder", &temporary))?;
    let picture = temporary.join(DATABASE);
    let mut report = CopyReport::default();
    let mut done = BTreeMap::new();
    let mut to = None;
    for _ in 0..ROUNDS_MAX {
        for ending in ["", "-wal", "-shm"] {
            remove_file(&temporary.join(format!("{DATABASE}{ending}")))?;
        }
        from.picture(&picture)?;
        let to = match &to {
            Some(to) => to,
            None => {
                if let Some(last) = &last
                    && !SqliteStore::open(&picture)?.has_audit(last)?
                {
                    work.remove_temporary()?;
                    return Err(StoreError::OtherStore { path: folder.to_owned() });
                }
                to.insert(store::logs_at(folder, has_logs, place.clone())?)
            }
        };
        let logs = needed(&picture)?;
        let new: Vec<&LogRef> =
            logs.iter().filter(|(key, _)| !done.contains_key(*key)).map(|(_, log)| log).collect();
        if new.is_empty() {
            break;
        }
        report.failures.clear();
        copy_logs(from, &new, to, &temporary, &mut report, progress)?;
        for log in new {
            done.insert(LogKey::from(log), ());
        }
    }
    report.runs = SqliteStore::open(&picture)?.totals()?.runs;
    let file = File::options().write(true).open(&picture);
    let file = file.map_err(StoreError::io("open the copy of the database", &picture))?;
    file.sync_all().map_err(StoreError::io("write the copy through to the disk", &picture))?;
    fs::rename(&picture, &database)
        .map_err(StoreError::io("put the copy of the database into its place", &database))?;
    sync_folder(folder)?;
    work.remove_temporary()?;
    Ok(report)
}

fn copy_logs(
    from: &Origin<'_>,
    logs: &[&LogRef],
    to: &Logs,
    temporary: &Path,
    report: &mut CopyReport,
    progress: &(dyn Fn(CopyProgress) + Sync),
) -> Result<()> {
    let bytes_total = logs.iter().map(|log| log.size_bytes).sum();
    let bytes_done = AtomicU64::new(0);
    let advance = |bytes: u64| {
        let bytes_done = bytes_done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        progress(CopyProgress { bytes_done, bytes_total });
    };
    let next = Mutex::new(logs.iter());
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..WORKERS.min(logs.len()) {
            scope.spawn(|| {
                loop {
                    let log = next.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some(log) = log else { return };
                    let copied = copy_log(from, log, to, temporary, &advance);
                    // Where nothing can be written, or nobody answers, the next log fares no better.
                    let hopeless = matches!(
                        &copied,
                        Err(StoreError::Bucket(_) | StoreError::Busy { .. } | StoreError::LogsTaken { .. })
                    ) || copied.as_ref().is_err_and(StoreError::is_disk_full);
                    results.lock().unwrap_or_else(PoisonError::into_inner).push((*log, copied));
                    if hopeless {
                        next.lock().unwrap_or_else(PoisonError::into_inner).by_ref().for_each(drop);
                        return;
                    }
                }
            });
        }
    });
    for (log, copied) in results.into_inner().unwrap_or_else(PoisonError::into_inner) {
        from.note(log, copied, report)?;
    }
    Ok(())
}

/// False: it is there already.
fn copy_log(
    from: &Origin<'_>,
    log: &LogRef,
    to: &Logs,
    temporary: &Path,
    advance: &dyn Fn(u64),
) -> Result<bool> {
    if to.looks_whole(log)? {
        advance(log.size_bytes);
        return Ok(false);
    }
    let staged = NamedTempFile::new_in(temporary).map_err(StoreError::io("copy a log", temporary))?;
    from.stage(log, &staged, advance)?;
    to.publish(staged.path(), log)?;
    Ok(true)
}

/// The logs that a database names.
pub(super) fn needed(picture: &Path) -> Result<BTreeMap<LogKey, LogRef>> {
    let meta = SqliteStore::open(picture)?;
    let of = |key: LogKey, size_bytes| {
        let log = LogRef { hash: key.hash.clone(), size_bytes, format: key.format };
        (key, log)
    };
    let runs = meta.log_uses()?.into_iter().map(|log| of(log.key, log.size_bytes));
    let uploaded = meta.object_logs()?.into_iter().map(|(_, key, size_bytes)| of(key, size_bytes));
    Ok(runs.chain(uploaded).collect())
}

fn is_same(a: &Path, b: &Path) -> bool {
    match (fs::canonicalize(a), fs::canonicalize(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}
