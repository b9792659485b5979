//! The original logs, byte for byte, each under the SHA-256 of its bytes.
//!
//! A log is written once and never changed. What is written is a temporary file elsewhere in the data folder; it is
//! written through to the disk and then renamed, so that a name always stands for the whole log. Nothing here knows
//! which run a log belongs to.

use ct_model::{LogFormat, LogHash};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::error::{Result, StoreError};

/// Bytes read or written at a time.
pub(crate) const COPY_BYTES: usize = 1 << 20;

/// Names one stored log.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LogKey {
    pub(crate) hash: LogHash,
    pub(crate) format: LogFormat,
}

impl LogKey {
    /// Below the data folder.
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

/// A file that was found.
#[derive(Debug)]
pub(crate) struct FoundFile {
    /// The log that it is by its name and place.
    pub(crate) key: Option<LogKey>,
    pub(crate) path: PathBuf,
    pub(crate) size_bytes: u64,
}

/// What a stored log is, compared with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LogState {
    Whole,
    Missing,
    Damaged(String),
}

/// The stored logs of one data folder.
#[derive(Debug)]
pub(crate) struct LogFolder {
    data_dir: PathBuf,
}

impl LogFolder {
    pub(crate) fn new(data_dir: &Path) -> Self {
        Self { data_dir: data_dir.to_owned() }
    }

    pub(crate) fn path(&self, key: &LogKey) -> PathBuf {
        self.data_dir.join(key.relative_path())
    }

    fn set_aside_folder(&self) -> PathBuf {
        self.data_dir.join("damaged")
    }

    /// Makes a staged file the stored log, in place of whatever has its name.
    pub(crate) fn publish(&self, staged: &Path, key: &LogKey) -> Result<()> {
        let target = self.path(key);
        let folder = target.parent().expect("a log's path has a folder by construction");
        // Opened for writing: some systems write through only what could have been written.
        let file = File::options()
            .write(true)
            .open(staged)
            .map_err(StoreError::io("open the staged log", staged))?;
        file.sync_all().map_err(StoreError::io("write the log through to the disk", staged))?;
        let new_folder = !folder.exists();
        fs::create_dir_all(folder).map_err(StoreError::io("make a folder for logs", folder))?;
        fs::rename(staged, &target).map_err(StoreError::io("put the log into its place", &target))?;
        sync_folder(folder)?;
        if new_folder {
            sync_folder(&self.data_dir.join("logs"))?;
            sync_folder(&self.data_dir)?;
        }
        Ok(())
    }

    pub(crate) fn exists(&self, key: &LogKey) -> bool {
        self.path(key).is_file()
    }

    /// Whether the stored log has the same bytes as this file. A stored log that cannot be read has not.
    pub(crate) fn equals(&self, key: &LogKey, file: &Path) -> Result<bool> {
        let mut ours = File::open(file).map_err(StoreError::io("read the staged log", file))?;
        let Ok(mut stored) = File::open(self.path(key)) else { return Ok(false) };
        let (mut left, mut right) = (vec![0; COPY_BYTES], vec![0; COPY_BYTES]);
        loop {
            let n = fill(&mut ours, &mut left).map_err(StoreError::io("read the staged log", file))?;
            let Ok(m) = fill(&mut stored, &mut right) else { return Ok(false) };
            if left[..n] != right[..m] {
                return Ok(false);
            }
            if n == 0 {
                return Ok(true);
            }
        }
    }

    /// Reads a stored log to its end. `progress` is told how many bytes each step read.
    pub(crate) fn verify(
        &self,
        key: &LogKey,
        size_bytes: u64,
        progress: &mut dyn FnMut(u64),
    ) -> Result<LogState> {
        let path = self.path(key);
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(LogState::Missing),
            Err(error) => return Ok(LogState::Damaged(format!("it cannot be opened: {error}"))),
        };
        let found = file.metadata().map_err(StoreError::io("look at a log", &path))?.len();
        if found != size_bytes {
            return Ok(LogState::Damaged(format!("it has {found} bytes instead of {size_bytes}")));
        }
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; COPY_BYTES];
        loop {
            let n = match fill(&mut file, &mut buffer) {
                Ok(0) => break,
                Ok(n) => n,
                Err(error) => return Ok(LogState::Damaged(format!("it cannot be read: {error}"))),
            };
            hasher.update(&buffer[..n]);
            progress(n as u64);
        }
        if LogHash::from_bytes(hasher.finalize().into()) == key.hash {
            Ok(LogState::Whole)
        } else {
            Ok(LogState::Damaged("its bytes have another SHA-256 than its name says".to_owned()))
        }
    }

    /// Moves a damaged log out of the way, and says where to.
    pub(crate) fn set_aside(&self, key: &LogKey) -> Result<PathBuf> {
        let folder = self.set_aside_folder();
        fs::create_dir_all(&folder).map_err(StoreError::io("make a folder for damaged logs", &folder))?;
        let target = folder.join(key.file_name());
        fs::rename(self.path(key), &target).map_err(StoreError::io("set a damaged log aside", &target))?;
        Ok(target)
    }

    /// All files among the logs.
    pub(crate) fn list(&self) -> Result<Vec<FoundFile>> {
        let mut found = files_below(&self.data_dir.join("logs"))?;
        for file in &mut found {
            // Only what lies where it would be looked for is a log.
            let place = file.key.as_ref().map(|key| self.path(key));
            if place.as_deref() != Some(file.path.as_path()) {
                file.key = None;
            }
        }
        Ok(found)
    }

    /// All logs that were set aside.
    pub(crate) fn list_set_aside(&self) -> Result<Vec<FoundFile>> {
        files_below(&self.set_aside_folder())
    }

    /// Where bytes lie that are still arriving.
    pub(crate) fn uploads_folder(&self) -> PathBuf {
        self.data_dir.join("uploads")
    }

    /// The files of bytes that are arriving, or were.
    pub(crate) fn list_uploads(&self) -> Result<Vec<FoundFile>> {
        files_below(&self.uploads_folder())
    }

    /// All files that ingests left behind, when none is going on.
    pub(crate) fn list_temporary(&self) -> Result<Vec<FoundFile>> {
        files_below(&self.data_dir.join("tmp"))
    }

    /// Removes all that ingests left behind, when none is going on.
    pub(crate) fn remove_temporary(&self) -> Result<()> {
        let folder = self.data_dir.join("tmp");
        for entry in entries(&folder)? {
            let removed = if entry.is_dir() { fs::remove_dir_all(&entry) } else { fs::remove_file(&entry) };
            removed.map_err(StoreError::io("remove a temporary file", entry))?;
        }
        Ok(())
    }
}

/// Removes a file that was listed; it does not matter when it is gone already.
pub(crate) fn remove(path: &Path) -> Result<()> {
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
            found.push(FoundFile { key, path, size_bytes: metadata.len() });
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}
