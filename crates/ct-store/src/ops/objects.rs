//! Logs that come in one piece under a key that the client chose.

use std::fs;
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};

use ct_model::{LogRef, ObjectKey};
use tempfile::NamedTempFile;

use super::FilesLock;
use crate::actor::Actor;
use crate::error::{Result, StoreError};
use crate::hashing::{Hashes, copy_hashed};
use crate::record::{LogTag, StoredObject};
use crate::store::Store;

impl Store {
    /// Takes in a log of exactly this size. It is there as a whole or not at all, and never takes the place of another.
    pub fn put_object(
        &self,
        key: &ObjectKey,
        size_bytes: u64,
        source: &mut dyn Read,
        actor: &Actor,
    ) -> Result<StoredObject> {
        self.check_key_is_free(key)?;
        let mut arriving = Arriving::new(self)?;
        let mut written = 0_u64;
        let hashed = copy_hashed(source, Hashes { sha256: true, md5: true }, |bytes| {
            written += bytes.len() as u64;
            if written > size_bytes {
                return Err(StoreError::invalid(format!(
                    "there are more than the {size_bytes} bytes announced"
                )));
            }
            arriving.file.write_all(bytes).map_err(StoreError::io("write an upload", arriving.path()))
        })?;
        if hashed.size_bytes != size_bytes {
            let found = hashed.size_bytes;
            return Err(StoreError::invalid(format!("there are {found} bytes instead of {size_bytes}")));
        }
        let hash = hashed.sha256.expect("asked for above");
        let log = LogRef { hash, size_bytes, format: key.format };
        let mut object = StoredObject { key: key.clone(), log, md5: hashed.md5, tag: LogTag::default() };
        let _lock = FilesLock::shared(self.data_dir())?;
        self.meta().check_key_is_free(key)?;
        object.tag = self.publish_behind(arriving.path(), &object.log)?;
        self.meta().add_object(&object, actor, self.now())?;
        Ok(object)
    }

    /// Makes a file the stored log, unless that is there already. The lock on the files has to be held.
    pub(super) fn publish(&self, staged: &Path, log: &LogRef) -> Result<LogTag> {
        let tag = self.logs().publish(staged, log)?;
        if tag != LogTag::default() {
            self.meta().set_log_tag(&log.into(), &tag)?;
        }
        Ok(tag)
    }
}

/// A file of bytes that are arriving. It is locked as long as they do, so that a collection leaves it alone, and goes
/// when this is dropped before it was published.
struct Arriving {
    file: NamedTempFile,
}

impl Arriving {
    fn new(store: &Store) -> Result<Self> {
        let folder = make_uploads_folder(store)?;
        // Between making a file and locking it, it looks like a leftover.
        let _lock = FilesLock::shared(store.data_dir())?;
        let doing = "make a file for an upload";
        let file = tempfile::Builder::new().prefix("put-").tempfile_in(&folder);
        let file = file.map_err(StoreError::io(doing, &folder))?;
        file.as_file().lock().map_err(StoreError::io(doing, &folder))?;
        Ok(Self { file })
    }

    fn path(&self) -> &Path {
        self.file.path()
    }
}

/// The folder of bytes that are arriving.
pub(super) fn make_uploads_folder(store: &Store) -> Result<PathBuf> {
    let folder = store.work().uploads_folder();
    fs::create_dir_all(&folder).map_err(StoreError::io("make a folder for uploads", &folder))?;
    Ok(folder)
}
