//! The environments in the binary.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::error::EnvironmentError;
use crate::sandbox::Folder;

include!(concat!(env!("OUT_DIR"), "/shipped.rs"));

/// Writes them to a private folder.
pub(crate) fn extract() -> Result<Folder, EnvironmentError> {
    let failed = |path: &std::path::Path| {
        let path = path.to_owned();
        move |source| EnvironmentError::Io { doing: "write", path, source }
    };
    let folder = Folder::new(None).map_err(|error| {
        let path = std::env::temp_dir();
        EnvironmentError::Io { doing: "make a folder in", path, source: std::io::Error::other(error) }
    })?;
    let root = folder.path().join("environments");
    for (name, bytes) in FILES {
        let path = root.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed(parent))?;
        }
        fs::write(&path, bytes).map_err(failed(&path))?;
        if name.ends_with(".sh") {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(failed(&path))?;
        }
    }
    Ok(folder)
}
