//! Whether the disk has room for what is to come. It is asked once, at the beginning: others may fill the disk later.

use std::path::Path;

use crate::error::{Result, StoreError};
use crate::store::Store;

/// Bytes that uploads leave free, for the database and whoever else writes.
const LEFT_FREE_BYTES: u64 = 16 << 20;

impl Store {
    /// Fails when the disk has no room for that many more bytes. Where the system does not say, it has.
    pub fn check_room(&self, size_bytes: u64) -> Result<()> {
        let Some(free_bytes) = free_bytes(self.data_dir()) else { return Ok(()) };
        let needed_bytes = size_bytes.saturating_add(LEFT_FREE_BYTES);
        if needed_bytes > free_bytes { Err(StoreError::NoRoom { needed_bytes, free_bytes }) } else { Ok(()) }
    }

    /// As [`Self::check_room`], for what is to come of an upload. A bucket has its own room.
    pub(super) fn check_room_for_upload(&self, size_bytes: u64) -> Result<()> {
        if self.logs().bucket().is_some() { Ok(()) } else { self.check_room(size_bytes) }
    }
}

/// What the file system has for others than the administrator.
#[cfg(unix)]
fn free_bytes(folder: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(folder).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(not(unix))]
fn free_bytes(_: &Path) -> Option<u64> {
    None
}
