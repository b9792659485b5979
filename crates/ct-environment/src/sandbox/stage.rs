//! The folders of the machine behind a sandbox: the workspace, copies of what is mounted, and small files of `/etc`.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{PermissionsExt, lchown};
use std::path::{Path, PathBuf};

use crate::environment::Service;
use crate::error::SandboxError;

/// The files of `/etc` that a cell gets.
pub(crate) const ETC_FILES: [&str; 4] = ["passwd", "group", "hosts", "nsswitch.conf"];
/// The first user number for sandboxes that root starts; there are 2²⁴ from here, which no distribution gives to anybody.
const FIRST_UID: u32 = 1_879_048_192;

/// A random name, hard to guess.
pub(crate) fn token() -> String {
    let mut bytes = [0; 16];
    // Without randomness a name is still unique to this process and moment.
    if getrandom::fill(&mut bytes).is_err() {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        bytes = (now.as_nanos() ^ (u128::from(std::process::id()) << 96)).to_le_bytes();
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The user of this machine that a sandbox's processes run as: ours, or for root one that is nobody's.
pub(crate) fn sandbox_uid() -> u32 {
    let own = rustix::process::getuid();
    if !own.is_root() {
        return own.as_raw();
    }
    let mut bytes = [0; 4];
    let _ = getrandom::fill(&mut bytes[..3]);
    FIRST_UID + u32::from_le_bytes(bytes)
}

/// A folder for one sandbox, host or catalog, removed when dropped. Others may pass through, not look around.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// Held as long as the folder is in use.
    _lock: fs::File,
}

/// How such folders are called.
const PREFIX: &str = "ct-sandbox-";
/// The locked file in one.
const LOCK: &str = "lock";

impl Folder {
    pub(crate) fn new(temp_dir: Option<&Path>) -> Result<Self, SandboxError> {
        let parent = temp_dir.map_or_else(std::env::temp_dir, Path::to_path_buf);
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX).permissions(fs::Permissions::from_mode(0o711));
        let made = builder.tempdir_in(&parent).map_err(SandboxError::io("make a folder in", &parent))?;
        // Under its name it is locked from the start, so that nobody takes the folder for one left behind.
        let lock = || -> io::Result<fs::File> {
            let file = fs::File::create_new(made.path().join("new"))?;
            file.lock()?;
            fs::rename(made.path().join("new"), made.path().join(LOCK))?;
            Ok(file)
        };
        let lock = lock().map_err(SandboxError::io("lock", made.path()))?;
        Ok(Self { path: made.keep(), _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A new folder in it.
    pub(crate) fn make(&self, name: &str, uid: u32) -> Result<PathBuf, SandboxError> {
        let path = self.path.join(name);
        fs::create_dir_all(&path).map_err(SandboxError::io("make", &path))?;
        own(&path, uid)?;
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

fn remove(folder: &Path) {
    if fs::remove_dir_all(folder).is_err() {
        // An agent may have closed a folder to us.
        open_up(folder);
        // Folders in folders may be too many for one path, or to have open at once; that program copes.
        let removed = std::process::Command::new("rm").arg("-rf").arg("--").arg(folder).output();
        if !removed.is_ok_and(|removed| removed.status.success()) {
            tracing::warn!("cannot remove {}", folder.display());
        }
    }
}

/// Removes the folders that killed processes left: nobody holds their locks any more.
pub(crate) fn remove_left(temp_dir: Option<&Path>) {
    let parent = temp_dir.map_or_else(std::env::temp_dir, Path::to_path_buf);
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let path = entry.path();
        let Ok(lock) = fs::File::open(path.join(LOCK)) else { continue };
        let ours = fs::symlink_metadata(&path).is_ok_and(|metadata| {
            metadata.is_dir()
                && std::os::unix::fs::MetadataExt::uid(&metadata) == rustix::process::getuid().as_raw()
        });
        if ours && lock.try_lock().is_ok() {
            remove(&path);
        }
    }
}

fn open_up(folder: &Path) {
    let _ = fs::set_permissions(folder, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

/// Gives a file or folder to the sandbox's user.
pub(crate) fn own(path: &Path, uid: u32) -> Result<(), SandboxError> {
    if rustix::process::getuid().is_root() {
        lchown(path, Some(uid), Some(uid)).map_err(SandboxError::io("give away", path))?;
    }
    Ok(())
}

/// Gives all of a folder to the sandbox's user.
pub(crate) fn own_all(folder: &Path, uid: u32) -> Result<(), SandboxError> {
    own(folder, uid)?;
    for entry in fs::read_dir(folder).map_err(SandboxError::io("read", folder))? {
        let entry = entry.map_err(SandboxError::io("read", folder))?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            own_all(&entry.path(), uid)?;
        } else {
            own(&entry.path(), uid)?;
        }
    }
    Ok(())
}

/// Copies an environment's files: folders, files and links (as links), with their permission to be run. What is there stays
/// unless a file has the same name.
pub(crate) fn copy_tree(from: &Path, to: &Path) -> Result<(), SandboxError> {
    fs::create_dir_all(to).map_err(SandboxError::io("make", to))?;
    for entry in fs::read_dir(from).map_err(SandboxError::io("read", from))? {
        let entry = entry.map_err(SandboxError::io("read", from))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(SandboxError::io("look at", &source))?;
        if kind.is_dir() {
            copy_tree(&source, &target)?;
        } else if kind.is_symlink() {
            let link = fs::read_link(&source).map_err(SandboxError::io("read", &source))?;
            std::os::unix::fs::symlink(link, &target).map_err(SandboxError::io("make", &target))?;
        } else if kind.is_file() {
            fs::copy(&source, &target).map_err(SandboxError::io("copy", &source))?;
            let runs = fs::metadata(&source).is_ok_and(|metadata| metadata.permissions().mode() & 0o111 != 0);
            let mode = if runs { 0o755 } else { 0o644 };
            fs::set_permissions(&target, fs::Permissions::from_mode(mode))
                .map_err(SandboxError::io("set permissions of", &target))?;
        }
    }
    fs::set_permissions(to, fs::Permissions::from_mode(0o755))
        .map_err(SandboxError::io("set permissions of", to))
}

/// Writes the files of `/etc`.
pub(crate) fn write_etc(folder: &Path, services: &[Service], user: u32) -> Result<(), SandboxError> {
    fs::create_dir_all(folder).map_err(SandboxError::io("make", folder))?;
    let mut hosts = String::from("127.0.0.1 localhost sandbox\n::1 localhost\n");
    for name in services.iter().flat_map(|service| &service.hosts) {
        hosts += &format!("127.0.0.1 {name}\n");
    }
    let passwd = format!(
        "root:x:0:0:root:/root:/bin/sh\nagent:x:{user}:{user}:agent:/home/agent:/bin/sh\n\
         nobody:x:65534:65534:nobody:/nonexistent:/bin/false\n"
    );
    let group = format!("root:x:0:\nagent:x:{user}:\nnogroup:x:65534:\n");
    let nsswitch = "passwd: files\ngroup: files\nhosts: files dns\n".to_owned();
    for (name, text) in ETC_FILES.into_iter().zip([passwd, group, hosts, nsswitch]) {
        let path = folder.join(name);
        write(&path, text.as_bytes()).map_err(SandboxError::io("write", &path))?;
    }
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::File::create(path)?.write_all(bytes)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o644))
}
