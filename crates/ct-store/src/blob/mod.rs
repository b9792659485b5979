//! The original logs, byte for byte, each under the SHA-256 of its bytes: files in the data folder, or objects in a
//! bucket, under the same names.
//!
//! A log is written once and never changed, and a name always stands for the whole log. What is written is a temporary
//! file in the data folder first. Nothing here knows which run a log belongs to.

mod bucket;
mod folder;
mod work;

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ct_log::source::Source;
use ct_model::{LogFormat, LogHash, LogHasher, LogRef};

pub use bucket::LogPlace;
pub(crate) use bucket::{LogBucket, tag};
pub(crate) use folder::LogFolder;
pub(crate) use work::WorkFolder;

use crate::error::{Result, StoreError};
use crate::record::LogTag;

/// Bytes read or written at a time.
pub(crate) const COPY_BYTES: usize = 1 << 20;

/// Names one stored log.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LogKey {
    pub(crate) hash: LogHash,
    pub(crate) format: LogFormat,
}

impl From<&LogRef> for LogKey {
    fn from(log: &LogRef) -> Self {
        Self { hash: log.hash.clone(), format: log.format }
    }
}

impl LogKey {
    /// Below the data folder, or below the prefix in a bucket.
    pub(crate) fn relative_path(&self) -> PathBuf {
        Path::new("logs").join(&self.hash.as_str()[..2]).join(self.file_name())
    }

    fn file_name(&self) -> String {
        format!("{}.{}", self.hash, self.format.as_str())
    }

    fn from_file_name(name: &str) -> Option<Self> {
        let (hash, ending) = name.split_once('.')?;
        let format = match ending {
            "eval" => LogFormat::Eval,
            "json" => LogFormat::Json,
            _ => return None,
        };
        Some(Self { hash: hash.parse().ok()?, format })
    }
}

/// Where something was found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// On this machine.
    File(PathBuf),
    /// In the bucket of the logs: its key, and its whole address.
    Object(String, String),
    /// Parts of an object that is not there yet: its key, the id of its upload, and how it is shown.
    Parts(String, String, String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Object(_, shown) | Self::Parts(_, _, shown) => f.write_str(shown),
        }
    }
}

/// A file that was found.
#[derive(Debug)]
pub(crate) struct FoundFile {
    /// The log that it is by its name and place.
    pub(crate) key: Option<LogKey>,
    pub(crate) place: Place,
    pub(crate) size_bytes: u64,
}

impl FoundFile {
    /// The file itself, when it is one on this machine.
    pub(crate) fn path(&self) -> Option<&Path> {
        match &self.place {
            Place::File(path) => Some(path),
            Place::Object(..) | Place::Parts(..) => None,
        }
    }
}

/// What a stored log is, compared with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LogState {
    Whole,
    Missing,
    Damaged(String),
}

/// Where the logs of a store are.
#[derive(Debug)]
pub(crate) enum Logs {
    Folder(LogFolder),
    Bucket(LogBucket),
}

impl Logs {
    /// The bucket, when they are in one.
    pub(crate) fn bucket(&self) -> Option<&LogBucket> {
        match self {
            Self::Folder(_) => None,
            Self::Bucket(bucket) => Some(bucket),
        }
    }

    /// The folder, when they are files.
    pub(crate) fn folder(&self) -> Option<&LogFolder> {
        match self {
            Self::Folder(folder) => Some(folder),
            Self::Bucket(_) => None,
        }
    }

    /// Writes a stored log through to the disk, where it is a file.
    pub(crate) fn sync(&self, key: &LogKey) -> Result<()> {
        self.folder().map_or(Ok(()), |folder| folder.sync(key))
    }

    /// The file of a log, when logs are files here.
    pub(crate) fn path(&self, key: &LogKey) -> Option<PathBuf> {
        match self {
            Self::Folder(folder) => Some(folder.path(key)),
            Self::Bucket(_) => None,
        }
    }

    /// What a log is called in messages.
    pub(crate) fn name(&self, key: &LogKey) -> String {
        match self {
            Self::Folder(_) => key.relative_path().display().to_string(),
            Self::Bucket(bucket) => bucket.address(key),
        }
    }

    /// The bytes of a log, by range.
    pub(crate) fn open(&self, log: &LogRef) -> Result<Arc<dyn Source>> {
        match self {
            Self::Folder(folder) => folder.open(&log.into()),
            Self::Bucket(bucket) => bucket.open(log),
        }
    }

    /// Makes a staged file the stored log of these bytes. A damaged one is replaced. The file is gone afterwards where
    /// logs are files, and stays where it was otherwise.
    pub(crate) fn publish(&self, staged: &Path, log: &LogRef) -> Result<LogTag> {
        match self {
            Self::Folder(folder) => folder.publish(staged, &log.into()).map(|()| LogTag::default()),
            Self::Bucket(bucket) => bucket.publish(staged, log),
        }
    }

    /// Whether there is anything under the name of a log.
    pub(crate) fn exists(&self, key: &LogKey) -> Result<bool> {
        match self {
            Self::Folder(folder) => Ok(folder.exists(key)),
            Self::Bucket(bucket) => bucket.exists(key),
        }
    }

    /// Whether the stored log has the bytes of this file, which are those of the name.
    pub(crate) fn equals(&self, log: &LogRef, file: &Path, known: Option<&LogTag>) -> Result<bool> {
        match self {
            Self::Folder(folder) => folder.equals(&log.into(), file),
            Self::Bucket(bucket) => bucket.is_whole(log, known),
        }
    }

    /// Whether there is an object of the length of a log under its name. It was hashed when it came there.
    pub(crate) fn looks_whole(&self, log: &LogRef) -> Result<bool> {
        match self {
            Self::Folder(folder) => {
                Ok(fs::metadata(folder.path(&log.into())).is_ok_and(|there| there.len() == log.size_bytes))
            }
            Self::Bucket(bucket) => bucket.looks_whole(log),
        }
    }

    /// Reads a stored log to its end. `progress` is told how many bytes each step read.
    pub(crate) fn verify(
        &self,
        key: &LogKey,
        size_bytes: u64,
        progress: &mut dyn FnMut(u64),
    ) -> Result<LogState> {
        match self {
            Self::Folder(folder) => folder.verify(key, size_bytes, progress),
            Self::Bucket(bucket) => bucket.verify(key, size_bytes, progress),
        }
    }

    /// Moves a damaged log out of the way, and says where to.
    pub(crate) fn set_aside(&self, key: &LogKey) -> Result<String> {
        match self {
            Self::Folder(folder) => folder.set_aside(key),
            Self::Bucket(bucket) => bucket.set_aside(key),
        }
    }

    /// All that is among the logs.
    pub(crate) fn list(&self) -> Result<Vec<FoundFile>> {
        match self {
            Self::Folder(folder) => folder.list(),
            Self::Bucket(bucket) => bucket.list(),
        }
    }

    /// All logs that were set aside.
    pub(crate) fn list_set_aside(&self) -> Result<Vec<FoundFile>> {
        match self {
            Self::Folder(folder) => folder.list_set_aside(),
            Self::Bucket(bucket) => bucket.list_set_aside(),
        }
    }

    /// Removes what was listed; it does not matter when it is gone already.
    pub(crate) fn remove(&self, found: &FoundFile) -> Result<()> {
        match (&found.place, self) {
            (Place::File(path), _) => LogFolder::remove(path),
            (place, Self::Bucket(bucket)) => bucket.remove(place),
            (_, Self::Folder(_)) => Ok(()),
        }
    }
}

/// Whether bytes hash to the name of a log.
fn hash_state(source: &mut dyn Read, key: &LogKey, progress: &mut dyn FnMut(u64)) -> io::Result<LogState> {
    let mut hasher = LogHasher::new();
    let mut buffer = vec![0; COPY_BYTES];
    loop {
        match fill(source, &mut buffer)? {
            0 => break,
            n => {
                hasher.update(&buffer[..n]);
                progress(n as u64);
            }
        }
    }
    if hasher.finish() == key.hash {
        Ok(LogState::Whole)
    } else {
        Ok(LogState::Damaged("its bytes have another SHA-256 than its name says".to_owned()))
    }
}

/// Whether a source that may fail gives the bytes of a file.
fn same_bytes(file: &Path, stored: &mut dyn Read) -> Result<bool> {
    let mut ours = File::open(file).map_err(StoreError::io("read the staged log", file))?;
    let (mut left, mut right) = (vec![0; COPY_BYTES], vec![0; COPY_BYTES]);
    loop {
        let n = fill(&mut ours, &mut left).map_err(StoreError::io("read the staged log", file))?;
        let Ok(m) = fill(stored, &mut right) else { return Ok(false) };
        if left[..n] != right[..m] {
            return Ok(false);
        }
        if n == 0 {
            return Ok(true);
        }
    }
}

/// Removes a file that was listed; it does not matter when it is gone already.
pub(crate) fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(StoreError::Io { doing: "remove a file", path: path.to_owned(), source: error })
        }
        _ => Ok(()),
    }
}

/// Reads until the buffer is full or the source ends.
pub(crate) fn fill(source: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match source.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Makes renames in a folder outlive a power cut. Where folders cannot be opened the system sees to it.
pub(crate) fn sync_folder(folder: &Path) -> Result<()> {
    if cfg!(unix) {
        let opened = File::open(folder).map_err(StoreError::io("open a folder", folder))?;
        opened.sync_all().map_err(StoreError::io("write a folder through to the disk", folder))?;
    }
    Ok(())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let listed = match fs::read_dir(folder) {
        Ok(listed) => listed,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(StoreError::io("list a folder", folder)(error)),
    };
    let mut paths = Vec::new();
    for entry in listed {
        paths.push(entry.map_err(StoreError::io("list a folder", folder))?.path());
    }
    paths.sort();
    Ok(paths)
}

fn files_below(folder: &Path) -> Result<Vec<FoundFile>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for path in entries(&folder)? {
            // Links are not followed: they are files that do not belong here.
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            if metadata.is_dir() {
                folders.push(path);
                continue;
            }
            let key = path.file_name().and_then(|name| name.to_str()).and_then(LogKey::from_file_name);
            let key = key.filter(|_| metadata.is_file());
            found.push(FoundFile { key, place: Place::File(path), size_bytes: metadata.len() });
        }
    }
    found.sort_by(|a, b| a.place.cmp(&b.place));
    Ok(found)
}
