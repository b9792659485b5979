//! What a folder's files are, as one number: another byte is another environment.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// An environment's files altogether.
const FILES_BYTES_MAX: u64 = 256 << 20;

/// SHA-256 over the names, permissions to run, and bytes of all files below a folder.
pub(crate) fn digest(folder: &Path) -> std::io::Result<String> {
    let mut files = Vec::new();
    list(folder, folder, &mut files, &mut FILES_BYTES_MAX.clone())?;
    files.sort();
    let mut hash = Sha256::new();
    for relative in files {
        let path = folder.join(&relative);
        let bytes = match fs::read_link(&path) {
            Ok(target) => target.into_os_string().into_encoded_bytes(),
            Err(_) => fs::read(&path)?,
        };
        let name = relative.as_os_str().as_encoded_bytes();
        for part in [name, &bytes] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn list(root: &Path, folder: &Path, files: &mut Vec<PathBuf>, room_bytes: &mut u64) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        if metadata.is_dir() {
            list(root, &entry.path(), files, room_bytes)?;
            continue;
        }
        let too_large = || std::io::Error::other(format!("it is larger than {FILES_BYTES_MAX} bytes"));
        *room_bytes = room_bytes.checked_sub(metadata.len()).ok_or_else(too_large)?;
        if metadata.is_file() || metadata.is_symlink() {
            files.extend(entry.path().strip_prefix(root).map(Path::to_path_buf));
        }
    }
    Ok(())
}
