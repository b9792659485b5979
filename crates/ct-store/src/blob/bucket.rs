//! Logs in a bucket: each an object, added once. An object is there as a whole or not at all, and an addition states
//! that nothing is there, so nobody's log ever takes the place of another.
//!
//! A store marks its place in the bucket with an object of its own. Another store under the same prefix would collect
//! the logs of this one as leftovers; it is refused instead.
//!
//! Cost: publishing is one request for a log of one part, else one for each part and two more; opening is none, and
//! every range that is read is one.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use ct_log::source::Source;
use ct_model::{LogHash, LogRef};
use ct_s3::{Bucket, Config, Head, S3Address, S3Error};
use sha2::{Digest as _, Sha256};

use super::{FoundFile, LogKey, LogState, Place, hash_state};
use crate::error::{Result, StoreError};
use crate::record::LogTag;

/// In the data folder: where the logs are.
const PLACE_FILE: &str = "logs.place";
/// In the data folder: the same, while the bucket is asked for its place. An attempt whose answer was lost goes on as itself.
const CLAIM_FILE: &str = "logs.claim";
/// In the bucket: whose they are.
const MARKER: &str = "ct-store";
/// Bytes of either.
const PLACE_BYTES_MAX: u64 = 4096;
/// Times that a damaged object is taken out of the way of an addition.
const HEALS_MAX: u32 = 3;

/// Where the logs of a store are kept.
#[derive(Debug, Clone)]
pub enum LogPlace {
    /// In the data folder.
    Folder,
    /// In a bucket, below a prefix.
    Bucket(Box<Config>, S3Address),
    /// In a bucket that cannot be asked, and why. What needs no log goes on; all else fails with the reason.
    Closed(S3Address, String),
}

impl LogPlace {
    /// The place in a bucket that a data folder remembers; absent when its logs are its own, or nobody decided yet.
    pub fn remembered(data_dir: &Path) -> Result<Option<S3Address>> {
        Ok(remembered(&data_dir.join(PLACE_FILE))?.map(|(address, _)| address))
    }
}

/// The address and the store's id.
fn remembered(path: &Path) -> Result<Option<(S3Address, String)>> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StoreError::io("read where the logs are", path)(error)),
    };
    let mut words = text.lines();
    let address = words.next().and_then(|line| line.parse().ok());
    let id = words.next().filter(|id| !id.is_empty());
    match (address, id) {
        (Some(address), Some(id)) => Ok(Some((address, id.to_owned()))),
        _ => Err(StoreError::Corrupt {
            what: path.display().to_string(),
            detail: "it does not say where the logs are".to_owned(),
        }),
    }
}

/// The logs of a store, in a bucket.
#[derive(Debug)]
pub(crate) struct LogBucket {
    bucket: std::result::Result<Bucket, String>,
    address: S3Address,
    /// Empty, or with a slash at its end.
    prefix: String,
    store_id: String,
    /// Known to be this store's place.
    checked: OnceLock<()>,
}

impl LogBucket {
    /// Opens the place of a store, and makes it its place when it has none yet.
    pub(crate) fn of_store(
        data_dir: &Path,
        config: std::result::Result<Config, String>,
        address: &S3Address,
        new_id: &str,
    ) -> Result<Self> {
        let bucket = match config {
            Ok(config) => Ok(Bucket::new(config, address.bucket())?),
            Err(problem) => Err(problem),
        };
        let path = data_dir.join(PLACE_FILE);
        let known = remembered(&path)?;
        if let Some((found, _)) = known.as_ref().filter(|(found, _)| found.to_string() != address.to_string())
        {
            return Err(StoreError::OtherLogs { given: address.to_string(), known: found.to_string() });
        }
        let claim = data_dir.join(CLAIM_FILE);
        let is_new = known.is_none();
        let begun = remembered(&claim).ok().flatten();
        let begun = begun.filter(|(begun, _)| begun.to_string() == address.to_string());
        let goes_on = begun.is_some();
        let store_id = known.or(begun).map_or_else(|| new_id.to_owned(), |(_, id)| id);
        let text = format!("{address}\n{store_id}\n");
        let logs = Self {
            bucket,
            address: address.clone(),
            prefix: address.folder(),
            store_id,
            checked: OnceLock::new(),
        };
        if is_new {
            logs.bucket()?;
            let failed = || StoreError::io("remember where the logs are", &claim);
            let staged = tempfile::NamedTempFile::new_in(data_dir).map_err(failed())?;
            fs::write(staged.path(), text).map_err(failed())?;
            staged.as_file().sync_all().map_err(failed())?;
            staged.persist(&claim).map_err(|error| failed()(error.error))?;
            super::sync_folder(data_dir)?;
            if let Err(error) = logs.claim() {
                // What nobody can have written to the bucket is nothing to go on with.
                if !goes_on && !matches!(&error, StoreError::Bucket(error) if error.is_passing()) {
                    super::remove_file(&claim)?;
                }
                return Err(error);
            }
            fs::rename(&claim, &path).map_err(failed())?;
            super::sync_folder(data_dir)?;
        }
        Ok(logs)
    }

    /// The bucket itself.
    pub(crate) fn bucket(&self) -> Result<&Bucket> {
        let closed = |problem: &String| S3Error::Config { problem: problem.clone() };
        self.bucket.as_ref().map_err(|problem| closed(problem).into())
    }

    /// Below this everything lies: empty, or with a slash at its end.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Makes sure that the place is this store's, once.
    pub(crate) fn be_ours(&self) -> Result<()> {
        if self.checked.get().is_none() {
            self.claim()?;
        }
        Ok(())
    }

    fn claim(&self) -> Result<()> {
        let key = format!("{}{MARKER}", self.prefix);
        let text = format!("{}\n", self.store_id);
        match self.bucket()?.get(&key, PLACE_BYTES_MAX) {
            Ok(found) => self.compare_marker(&found)?,
            Err(S3Error::NotFound { .. }) => match self.bucket()?.add(&key, text.into()) {
                Ok(_) => {}
                Err(S3Error::Precondition { .. }) => {
                    let found = self.bucket()?.get(&key, PLACE_BYTES_MAX)?;
                    self.compare_marker(&found)?;
                }
                Err(error) => return Err(error.into()),
            },
            Err(error) => return Err(error.into()),
        }
        let _ = self.checked.set(());
        Ok(())
    }

    fn compare_marker(&self, found: &[u8]) -> Result<()> {
        if found.trim_ascii() == self.store_id.as_bytes() {
            Ok(())
        } else {
            let marker = self.address.with_key(&format!("{}{MARKER}", self.prefix)).to_string();
            Err(StoreError::LogsTaken { place: self.address.to_string(), marker })
        }
    }

    /// The key of a log's object.
    pub(crate) fn key(&self, key: &LogKey) -> String {
        format!("{}logs/{}/{}", self.prefix, &key.hash.as_str()[..2], key.file_name())
    }

    /// The address of a log.
    pub(crate) fn address(&self, key: &LogKey) -> String {
        self.shown(&self.key(key))
    }

    /// The address of all logs.
    pub(crate) fn folder_address(&self) -> String {
        self.shown(&format!("{}logs/", self.prefix))
    }

    fn shown(&self, key: &str) -> String {
        self.address.with_key(key).to_string()
    }

    pub(super) fn open(&self, log: &LogRef) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(self.bucket()?.open(&self.key(&log.into()), Some(log.size_bytes))?))
    }

    pub(super) fn publish(&self, staged: &Path, log: &LogRef) -> Result<LogTag> {
        self.be_ours()?;
        let key = LogKey::from(log);
        let object = self.key(&key);
        for _ in 0..HEALS_MAX {
            match self.add(staged, log, &object) {
                Err(StoreError::Bucket(S3Error::Precondition { .. } | S3Error::NoUpload { .. })) => {}
                done => return done,
            }
            // Someone was first, it was ourselves and the answer was lost, or a damaged one lies in the way.
            if self.is_whole(log, None)? {
                return Ok(self.head(&object)?.map(|head| tag(&head)).unwrap_or_default());
            }
            // As a file of that name is written over.
            self.bucket()?.remove(&object)?;
        }
        Err(StoreError::Busy { what: "another process is writing the same log" })
    }

    /// Sends a file. What was sent is hashed on the way, and becomes an object only when it is what it should be.
    fn add(&self, staged: &Path, log: &LogRef, object: &str) -> Result<LogTag> {
        let mut file = File::open(staged).map_err(StoreError::io("open the staged log", staged))?;
        let hasher = std::cell::RefCell::new(Sha256::new());
        let sent = self.bucket()?.add_from(
            object,
            log.size_bytes,
            &mut file,
            &mut |bytes| hasher.borrow_mut().update(bytes),
            || {
                let found = LogHash::from_bytes(hasher.take().finalize().into());
                if found == log.hash {
                    Ok(())
                } else {
                    let (what, expected) = (format!("the staged log {}", staged.display()), log.hash.clone());
                    Err(StoreError::HashDiffers { what, expected, found })
                }
            },
        )?;
        Ok(LogTag { e_tag: sent.e_tag, version_id: sent.version_id })
    }

    /// What the service says of a key.
    pub(crate) fn head(&self, object: &str) -> Result<Option<Head>> {
        Ok(self.bucket()?.head(object)?)
    }

    pub(crate) fn exists(&self, key: &LogKey) -> Result<bool> {
        Ok(self.head(&self.key(key))?.is_some())
    }

    /// Whether there is an object of the length of a log, whose checksum is not another.
    pub(crate) fn looks_whole(&self, log: &LogRef) -> Result<bool> {
        let head = self.head(&self.key(&log.into()))?;
        Ok(head.is_some_and(|head| {
            head.size_bytes == log.size_bytes
                && head.sha256.is_none_or(|sum| LogHash::from_bytes(sum) == log.hash)
        }))
    }

    /// Whether a log is what it should be, without reading it where the service or its tag vouch for it.
    pub(crate) fn is_whole(&self, log: &LogRef, known: Option<&LogTag>) -> Result<bool> {
        let key = LogKey::from(log);
        let Some(head) = self.head(&self.key(&key))? else { return Ok(false) };
        if head.size_bytes != log.size_bytes {
            return Ok(false);
        }
        if let Some(sum) = head.sha256 {
            return Ok(LogHash::from_bytes(sum) == log.hash);
        }
        let same = known.is_some_and(|known| known.e_tag.is_some() && known.e_tag == head.tag.e_tag);
        Ok(same || self.verify(&key, log.size_bytes, &mut |_| ())? == LogState::Whole)
    }

    pub(crate) fn verify(
        &self,
        key: &LogKey,
        size_bytes: u64,
        progress: &mut dyn FnMut(u64),
    ) -> Result<LogState> {
        let object = self.key(key);
        let Some(head) = self.head(&object)? else { return Ok(LogState::Missing) };
        if head.size_bytes != size_bytes {
            let found = head.size_bytes;
            return Ok(LogState::Damaged(format!("it has {found} bytes instead of {size_bytes}")));
        }
        let source = Arc::new(self.bucket()?.open(&object, Some(size_bytes))?);
        match hash_state(&mut source.read_all(), key, progress) {
            Ok(state) => Ok(state),
            // A bucket that is away says nothing about a log.
            Err(error) => match error.downcast::<S3Error>() {
                Ok(S3Error::NotFound { .. }) => Ok(LogState::Missing),
                Ok(error) => Err(error.into()),
                Err(error) => Ok(LogState::Damaged(format!("it cannot be read: {error}"))),
            },
        }
    }

    pub(crate) fn set_aside(&self, key: &LogKey) -> Result<String> {
        self.be_ours()?;
        let (from, to) = (self.key(key), format!("{}damaged/{}", self.prefix, key.file_name()));
        if let Some(head) = self.head(&from)? {
            self.bucket()?.copy_whole(&from, &to, head.size_bytes, head.tag.e_tag.as_deref())?;
            self.bucket()?.remove(&from)?;
        }
        Ok(self.shown(&to))
    }

    pub(super) fn list(&self) -> Result<Vec<FoundFile>> {
        let mut found = self.list_below("logs/")?;
        for file in &mut found {
            let place = file.key.as_ref().map(|key| self.key(key));
            if !matches!(&file.place, Place::Object(key, _) if place.as_ref() == Some(key)) {
                file.key = None;
            }
        }
        Ok(found)
    }

    pub(super) fn list_set_aside(&self) -> Result<Vec<FoundFile>> {
        self.list_below("damaged/")
    }

    /// Objects below a folder of the place.
    pub(crate) fn list_below(&self, folder: &str) -> Result<Vec<FoundFile>> {
        self.be_ours()?;
        let mut found = Vec::new();
        for listed in self.bucket()?.list(&format!("{}{folder}", self.prefix)) {
            let listed = listed?;
            let name = listed.key.rsplit('/').next().unwrap_or_default();
            let key = LogKey::from_file_name(name);
            let shown = self.shown(&listed.key);
            let place = Place::Object(listed.key, shown);
            found.push(FoundFile { key, place, size_bytes: listed.size_bytes });
        }
        Ok(found)
    }

    /// As [`Self::list_below`], what was written before a time.
    pub(crate) fn list_older(&self, folder: &str, before: jiff::Timestamp) -> Result<Vec<FoundFile>> {
        let mut found = Vec::new();
        for listed in self.bucket()?.list(&format!("{}{folder}", self.prefix)) {
            let listed = listed?;
            if listed.modified.is_some_and(|modified| modified < before) {
                let shown = self.shown(&listed.key);
                let place = Place::Object(listed.key, shown);
                found.push(FoundFile { key: None, place, size_bytes: listed.size_bytes });
            }
        }
        Ok(found)
    }

    /// Uploads in parts that were begun below the place and not finished, but those of these ids.
    pub(crate) fn unfinished(&self, but: &dyn Fn(&str) -> bool) -> Result<Vec<FoundFile>> {
        self.be_ours()?;
        let mut found = Vec::new();
        for upload in self.bucket()?.unfinished(&self.prefix)? {
            if but(&upload.upload_id) {
                continue;
            }
            let parts = self.bucket()?.parts(&upload.key, &upload.upload_id).unwrap_or_default();
            let size_bytes = parts.iter().map(|part| part.size_bytes).sum();
            let shown = format!("parts of {}", self.shown(&upload.key));
            let place = Place::Parts(upload.key, upload.upload_id, shown);
            found.push(FoundFile { key: None, place, size_bytes });
        }
        Ok(found)
    }

    pub(super) fn remove(&self, place: &Place) -> Result<()> {
        self.be_ours()?;
        match place {
            Place::Object(key, _) => Ok(self.bucket()?.remove(key)?),
            Place::Parts(key, id, _) => Ok(self.bucket()?.abort_parts(key, id)?),
            Place::File(path) => super::remove_file(path),
        }
    }
}

pub(crate) fn tag(head: &Head) -> LogTag {
    LogTag { e_tag: head.tag.e_tag.clone(), version_id: head.tag.version_id.clone() }
}
