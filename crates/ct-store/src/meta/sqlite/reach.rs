//! Whether the database can be written where it lies, and how to read it where it cannot.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What the database needs beside its file to begin with, and some room.
const PROBE_BYTES: usize = 64 * 1024;

/// Why nothing can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hindrance {
    ReadOnly,
    DiskFull,
}

impl Hindrance {
    fn of(error: &io::Error) -> Option<Self> {
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Some(Self::ReadOnly),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Some(Self::DiskFull),
            _ => None,
        }
    }
}

/// Tries to write beside the database, and to it.
pub(super) fn hindrance(path: &Path) -> Option<Hindrance> {
    if let Err(error) = File::options().write(true).open(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Hindrance::of(&error);
    }
    let probe = || {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut file = tempfile::tempfile_in(folder.unwrap_or(Path::new(".")))?;
        file.write_all(&[0; PROBE_BYTES])?;
        file.sync_all()
    };
    probe().err().as_ref().and_then(Hindrance::of)
}

/// The file in which the database keeps what is not yet in its own.
pub(super) fn wal(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

pub(super) fn has_changes_beside(path: &Path) -> bool {
    fs::metadata(wal(path)).is_ok_and(|found| found.len() > 0)
}

/// Tells whether a database was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamp {
    size_bytes: u64,
    modified: Option<SystemTime>,
}

impl Stamp {
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let found = fs::metadata(path)?;
        Ok(Self { size_bytes: found.len(), modified: found.modified().ok() })
    }

    /// Whether it was not.
    pub(super) fn holds(&self, path: &Path) -> bool {
        Self::of(path).is_ok_and(|now| now == *self) && !has_changes_beside(path)
    }
}

/// The name by which the database is read without anything beside it.
pub(super) fn uri_of_file_alone(path: &Path) -> String {
    let text = path.to_string_lossy();
    let text = if cfg!(windows) { text.replace('\\', "/") } else { text.into_owned() };
    let mut uri = String::from(if text.starts_with('/') || !path.is_absolute() { "file:" } else { "file:/" });
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-_.~:".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    uri + "?immutable=1"
}
