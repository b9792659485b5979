//! The environments in the binary.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::error::EnvironmentError;

include!(concat!(env!("OUT_DIR"), "/shipped.rs"));

/// Writes them to a private folder.
pub(crate) fn extract() -> Result<tempfile::TempDir, EnvironmentError> {
    let failed = |path: &std::path::Path| {
        let path = path.to_owned();
        move |source| EnvironmentError::Io { doing: "write", path, source }
    };
    let parent = std::env::temp_dir();
    let folder = tempfile::Builder::new().prefix("ct-environments-").tempdir().map_err(failed(&parent))?;
    for (name, bytes) in FILES {
        let path = folder.path().join(name);
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
