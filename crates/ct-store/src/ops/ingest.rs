//! One log becomes one run.
//!
//! The log is copied and hashed in one pass, documents are spooled to a file beside it, so memory is that of one
//! document and of the distinct names among them. Committing first publishes the log, then runs one transaction.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use ct_model::{LogFormat, LogHash, RunId, TrajectoryDocument};
use serde_json::value::to_raw_value;
use serde_json::{Map, Value};
use tempfile::TempDir;

use super::FilesLock;
use crate::blob::{COPY_BYTES, LogKey};
use crate::error::{Result, StoreError};
use crate::hashing::{Hashes, copy_hashed};
use crate::meta::{Entry, StagedRun, Sums};
use crate::record::{CommitMode, Committed, KnownRun, NewRun, StagedLog};
use crate::store::Store;

/// One run on its way into the store. Dropping it before the commit leaves nothing behind.
pub struct Ingest<'s> {
    store: &'s Store,
    // In this order: the file is closed, then its folder removed, then the lock let go.
    spool: Option<BufWriter<File>>,
    folder: TempDir,
    staged: Option<StagedLog>,
    /// The staged log is a stored one.
    is_stored: bool,
    /// Writes the staged log through to the disk.
    syncing: Option<JoinHandle<io::Result<()>>>,
    sums: Sums,
    eval_metadata: Option<Map<String, Value>>,
    _lock: FilesLock,
}

impl<'s> Ingest<'s> {
    pub(crate) fn begin(store: &'s Store) -> Result<Self> {
        let lock = FilesLock::shared(store.data_dir())?;
        let temporary = store.data_dir().join("tmp");
        fs::create_dir_all(&temporary)
            .map_err(StoreError::io("make a folder for temporary files", &temporary))?;
        let folder = tempfile::Builder::new().prefix("ingest-").tempdir_in(&temporary);
        let folder = folder.map_err(StoreError::io("make a folder for temporary files", &temporary))?;
        Ok(Self {
            store,
            folder,
            spool: None,
            staged: None,
            is_stored: false,
            syncing: None,
            sums: Sums::default(),
            eval_metadata: None,
            _lock: lock,
        })
    }

    /// Copies a log into the data folder while hashing it. `progress` is told the bytes so far.
    ///
    /// A stored log with the same hash is compared byte by byte, and replaced when it is missing or damaged.
    pub fn stage_log(
        &mut self,
        source: &mut dyn Read,
        format: LogFormat,
        progress: &mut dyn FnMut(u64),
    ) -> Result<StagedLog> {
        let path = self.folder.path().join(format!("log.{}", format.as_str()));
        let doing = "copy the log into the data folder";
        let mut copy = File::create(&path).map_err(StoreError::io(doing, &path))?;
        let mut size_bytes = 0;
        let hashed = copy_hashed(source, Hashes { sha256: true, md5: false }, |bytes| {
            copy.write_all(bytes).map_err(StoreError::io(doing, &path))?;
            size_bytes += bytes.len() as u64;
            progress(size_bytes);
            Ok(())
        })?;
        let hash = hashed.sha256.expect("asked for above");
        self.stage(copy, StagedLog { hash, size_bytes, format, path, healed: false })
    }

    /// Where what arrives slowly can be gathered, for [`Self::stage_fetched`]: what an earlier process gathered under the
    /// same name is in the file. Nobody else writes to it while this process has the handle. `None`: somebody does, or
    /// files cannot be locked here.
    pub fn partial(&self, name: &str) -> Result<Option<(PathBuf, File)>> {
        let path = self.store.data_dir().join("tmp").join(format!("{name}.part"));
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(&path).map_err(StoreError::io("write a temporary file", &path))?;
        // Whoever had it may have staged it between the two.
        let mine = file.try_lock().is_ok() && path.exists();
        Ok(mine.then_some((path, file)))
    }

    /// A file of this ingest alone.
    pub fn scratch(&self) -> PathBuf {
        self.folder.path().join("fetched")
    }

    /// As [`Self::stage_log`], of a file in the data folder's `tmp` that has this hash: it is moved, not copied.
    pub fn stage_fetched(
        &mut self,
        file: &Path,
        hash: LogHash,
        size_bytes: u64,
        format: LogFormat,
    ) -> Result<StagedLog> {
        let path = self.folder.path().join(format!("log.{}", format.as_str()));
        let doing = "move the log within the data folder";
        fs::rename(file, &path).map_err(StoreError::io(doing, file))?;
        let log = File::options().write(true).open(&path).map_err(StoreError::io(doing, &path))?;
        self.stage(log, StagedLog { hash, size_bytes, format, path, healed: false })
    }

    fn stage(&mut self, copy: File, mut staged: StagedLog) -> Result<StagedLog> {
        // The disk is at work while the log is converted; what it says is asked for before the log is published.
        self.syncing = Some(std::thread::spawn(move || copy.sync_all()));
        let log = staged.log();
        let key = LogKey::from(&log);
        let logs = self.store.logs();
        let tag = self.store.meta().log_tag(&key)?;
        if logs.equals(&log, &staged.path, tag.as_ref())? {
            self.is_stored = true;
            if let Some(stored) = logs.path(&key) {
                let copy = std::mem::replace(&mut staged.path, stored);
                fs::remove_file(&copy).map_err(StoreError::io("remove a temporary file", &copy))?;
            }
        } else if logs.exists(&key)? || self.is_missed(&key)? {
            self.synced(&staged.path)?;
            self.store.publish(&staged.path, &log)?;
            self.is_stored = true;
            staged.path = logs.path(&key).unwrap_or(staged.path);
            staged.healed = true;
        }
        self.staged = Some(staged.clone());
        Ok(staged)
    }

    /// Waits until the staged log is on the disk.
    fn synced(&mut self, path: &Path) -> Result<()> {
        let result = match self.syncing.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(io::Error::other("the thread that waits for the disk panicked")),
        };
        result.map_err(StoreError::io("write the log through to the disk", path))
    }

    /// Whether a run needs a log that is not there.
    fn is_missed(&self, key: &LogKey) -> Result<bool> {
        if self.store.meta().run_of_log(&key.hash)?.is_none() {
            return Ok(false);
        }
        let uses = self.store.meta().log_uses()?;
        Ok(uses.iter().any(|log| log.key == *key))
    }

    /// The run that has these very bytes as its log, now or in an earlier revision.
    pub fn known(&self, hash: &LogHash) -> Result<Option<KnownRun>> {
        self.store.meta().run_of_log(hash)
    }

    /// The runs of the same eval, whatever their bytes; not deleted ones.
    pub fn same_eval(&self, eval_id: &str) -> Result<Vec<RunId>> {
        self.store.runs_of_eval(eval_id)
    }

    /// Adds a trajectory, in the order of the log. It must have an id.
    pub fn push(&mut self, document: &TrajectoryDocument) -> Result<()> {
        let sample = || format!("sample {:?}, epoch {}", document.eval_sample_id, document.epoch);
        let id = document
            .trajectory_id
            .clone()
            .ok_or_else(|| StoreError::invalid(format!("{} has no id", sample())))?;
        // Filled in when the run's id is known.
        let run = RunId::new(id.as_str()).map_err(|error| StoreError::invalid(error.to_string()))?;
        let mut kept = document.clone();
        let eval_metadata = std::mem::take(&mut kept.eval_metadata);
        let of_run = self.eval_metadata.get_or_insert_with(|| eval_metadata.clone());
        let is_own = *of_run != eval_metadata;
        let no_json = |error| StoreError::invalid(format!("{} is no JSON: {error}", sample()));
        let mut entry = Entry::new(document, id, run);
        if is_own {
            entry.eval_metadata = Some(to_raw_value(&eval_metadata).map_err(no_json)?);
        }
        self.sums.add(&entry);

        let path = self.folder.path().join("documents");
        let failed = || StoreError::io("set documents aside", &path);
        if self.spool.is_none() {
            self.spool = Some(BufWriter::with_capacity(COPY_BYTES, File::create(&path).map_err(failed())?));
        }
        let spool = self.spool.as_mut().expect("made above");
        for line in [serde_json::to_vec(&entry), serde_json::to_vec(&kept)] {
            let line = line.map_err(no_json)?;
            spool.write_all(&line).and_then(|()| spool.write_all(b"\n")).map_err(failed())?;
        }
        Ok(())
    }

    /// Makes the run visible with all its trajectories, or nothing of it.
    pub fn commit(mut self, run: NewRun, mode: CommitMode) -> Result<Committed> {
        if self.staged.as_ref() != Some(&run.log) {
            return Err(StoreError::invalid("the log of the run was not staged in this ingest"));
        }
        let spooled = self.folder.path().join("documents");
        if let Some(spool) = self.spool.take() {
            // Only this process reads it, so it need not reach the disk.
            let written = spool.into_inner().map_err(|error| error.into_error());
            written.map_err(StoreError::io("set documents aside", &spooled))?;
        }
        if !self.is_stored {
            if let Some(known) = self.known(&run.log.hash)?.filter(|known| known.revision.is_none()) {
                return Ok(Committed::AlreadyThere(known.run_id));
            }
            self.synced(&run.log.path)?;
            self.store.publish(&run.log.path, &run.log.log())?;
        } else {
            // It may have been uploaded just now.
            self.store.logs().sync(&(&run.log.log()).into())?;
        }
        let mut entries = Spool::open(spooled, self.sums.trajectories)?;
        let staged = StagedRun {
            run: &run,
            sums: &self.sums,
            eval_metadata: &Value::Object(self.eval_metadata.unwrap_or_default()).to_string(),
            entries: &mut entries,
        };
        self.store.meta().commit(staged, &mode, self.store.now())
    }
}

/// The SHA-256 of a log, read and hashed at the same time. `progress` is told the bytes so far.
pub fn hash_log(source: &mut dyn Read, progress: &mut dyn FnMut(u64)) -> Result<LogHash> {
    let mut size_bytes = 0;
    let hashed = copy_hashed(source, Hashes { sha256: true, md5: false }, |bytes| {
        size_bytes += bytes.len() as u64;
        progress(size_bytes);
        Ok(())
    })?;
    Ok(hashed.sha256.expect("asked for above"))
}

/// The entries that were pushed, read back.
struct Spool {
    path: PathBuf,
    lines: Option<BufReader<File>>,
    left: u64,
}

impl Spool {
    fn open(path: PathBuf, count: u64) -> Result<Self> {
        let lines = if count == 0 {
            None
        } else {
            let file =
                File::open(&path).map_err(StoreError::io("read documents that were set aside", &path))?;
            Some(BufReader::with_capacity(COPY_BYTES, file))
        };
        Ok(Self { path, lines, left: count })
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if let Some(lines) = &mut self.lines {
            lines
                .read_line(&mut line)
                .map_err(StoreError::io("read documents that were set aside", &self.path))?;
        }
        if line.pop() != Some('\n') {
            return Err(self.cut_off("it ends too early".to_owned()));
        }
        Ok(line)
    }

    fn cut_off(&self, detail: String) -> StoreError {
        StoreError::Corrupt { what: format!("the temporary file {}", self.path.display()), detail }
    }
}

impl Iterator for Spool {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let mut read = || {
            let line = self.line()?;
            let mut entry: Entry =
                serde_json::from_str(&line).map_err(|error| self.cut_off(error.to_string()))?;
            entry.document = self.line()?;
            Ok(entry)
        };
        Some(read())
    }
}
