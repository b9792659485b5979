//! Logs in the data folder: each a file that gets its name when it is whole. It is written through to the disk before
//! that, or, when nothing refers to it yet, behind it ([`crate::ops::Settling`]).

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ct_log::source::{FileSource, Source};

use super::{
    FoundFile, LogKey, LogState, Place, files_below, hash_state, remove_file, same_bytes, sync_folder,
};
use crate::error::{Result, StoreError};

/// The stored logs of one data folder.
#[derive(Debug, Clone)]
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

    pub(super) fn open(&self, key: &LogKey) -> Result<Arc<dyn Source>> {
        let path = self.path(key);
        let source = FileSource::open(&path).map_err(StoreError::io("open a stored log", &path))?;
        Ok(Arc::new(source))
    }

    /// Makes a staged file the stored log, in place of whatever has its name.
    pub(super) fn publish(&self, staged: &Path, key: &LogKey) -> Result<()> {
        sync_file(staged)?;
        let target = self.path(key);
        self.make_folder(&target)?;
        fs::rename(staged, &target).map_err(StoreError::io("put the log into its place", &target))?;
        self.sync_folders(&target)
    }

    /// As [`Self::publish`], without waiting for the disk when nothing has the name yet. False: something has, or the
    /// file system knows no way to see to it that nothing has.
    pub(crate) fn place(&self, staged: &Path, key: &LogKey) -> Result<bool> {
        let target = self.path(key);
        self.make_folder(&target)?;
        // A link never takes the place of a file, which may be a run's and has to be on the disk at every moment.
        if fs::hard_link(staged, &target).is_err() {
            return Ok(false);
        }
        remove_file(staged)?;
        Ok(true)
    }

    /// Writes a stored log and its name through to the disk.
    pub(crate) fn sync(&self, key: &LogKey) -> Result<()> {
        let path = self.path(key);
        sync_file(&path)?;
        self.sync_folders(&path)
    }

    fn make_folder(&self, target: &Path) -> Result<()> {
        let folder = target.parent().unwrap_or(&self.data_dir);
        fs::create_dir_all(folder).map_err(StoreError::io("make a folder for logs", folder))
    }

    /// From a log up to the data folder.
    fn sync_folders(&self, target: &Path) -> Result<()> {
        let folders = target.ancestors().skip(1).take_while(|folder| folder.starts_with(&self.data_dir));
        folders.into_iter().try_for_each(sync_folder)
    }

    pub(super) fn exists(&self, key: &LogKey) -> bool {
        self.path(key).is_file()
    }

    /// Whether the stored log has the same bytes as this file. A stored log that cannot be read has not.
    pub(super) fn equals(&self, key: &LogKey, file: &Path) -> Result<bool> {
        let Ok(mut stored) = File::open(self.path(key)) else { return Ok(false) };
        same_bytes(file, &mut stored)
    }

    /// Reads a stored log to its end. `progress` is told how many bytes each step read.
    pub(super) fn verify(
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
        Ok(hash_state(&mut file, key, progress)
            .unwrap_or_else(|error| LogState::Damaged(format!("it cannot be read: {error}"))))
    }

    /// Moves a damaged log out of the way, and says where to.
    pub(super) fn set_aside(&self, key: &LogKey) -> Result<String> {
        let folder = self.set_aside_folder();
        fs::create_dir_all(&folder).map_err(StoreError::io("make a folder for damaged logs", &folder))?;
        let target = folder.join(key.file_name());
        fs::rename(self.path(key), &target).map_err(StoreError::io("set a damaged log aside", &target))?;
        Ok(target.display().to_string())
    }

    /// All files among the logs.
    pub(super) fn list(&self) -> Result<Vec<FoundFile>> {
        let mut found = files_below(&self.data_dir.join("logs"))?;
        for file in &mut found {
            // Only what lies where it would be looked for is a log.
            let place = file.key.as_ref().map(|key| Place::File(self.path(key)));
            if place.as_ref() != Some(&file.place) {
                file.key = None;
            }
        }
        Ok(found)
    }

    /// All logs that were set aside.
    pub(super) fn list_set_aside(&self) -> Result<Vec<FoundFile>> {
        files_below(&self.set_aside_folder())
    }

    pub(super) fn remove(path: &Path) -> Result<()> {
        remove_file(path)
    }
}

fn sync_file(path: &Path) -> Result<()> {
    // Opened for writing: some systems write through only what could have been written.
    let file = File::options().write(true).open(path).map_err(StoreError::io("open the log", path))?;
    file.sync_all().map_err(StoreError::io("write the log through to the disk", path))
}
