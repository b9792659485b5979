//! What is being worked on in the data folder: uploads that arrive, and what ingests stage.

use std::fs;
use std::path::{Path, PathBuf};

use super::{FoundFile, entries, files_below};
use crate::error::{Result, StoreError};

/// The folders of unfinished work, wherever the logs are.
#[derive(Debug)]
pub(crate) struct WorkFolder {
    data_dir: PathBuf,
}

impl WorkFolder {
    pub(crate) fn new(data_dir: &Path) -> Self {
        Self { data_dir: data_dir.to_owned() }
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
