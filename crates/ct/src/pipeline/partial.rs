//! Files and folders that are there only while something is written, each locked by the process that writes. The system
//! lets go of a lock when its process ends, so what a killed process left is known by having none, and goes at the next
//! occasion. Where files cannot be locked nothing is taken for a leftover.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use tempfile::{NamedTempFile, TempDir};

const PREFIX: &str = ".ct-";
const SUFFIX: &str = ".partial";
const FOLDER_PREFIX: &str = "ct-";
/// In a temporary folder, the file that is locked. Nobody else makes folders with such a file.
const FOLDER_LOCK: &str = ".ct-in-use";

/// A file to be renamed to its name when it is whole. What killed processes left in the folder goes first.
pub(crate) fn file_in(folder: &Path) -> io::Result<NamedTempFile> {
    remove_files(folder);
    let mut builder = tempfile::Builder::new();
    builder.prefix(PREFIX).suffix(SUFFIX);
    #[cfg(unix)]
    {
        // Not a secret: as open as the user's mask lets other files be.
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    loop {
        let file = builder.tempfile_in(folder)?;
        let locked = file.as_file().lock().is_ok();
        if !locked || file.path().exists() {
            return Ok(file);
        }
        // Another process took it for a leftover before it was locked.
    }
}

fn remove_files(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(PREFIX)
            && name.ends_with(SUFFIX)
            && entry.file_type().is_ok_and(|kind| kind.is_file())
            && let Some(_lock) = lock_left(&entry.path())
        {
            // One that cannot be removed does no harm.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The lock on a file that nobody holds. It is kept until the file is gone: who is only just about to lock what they made
/// waits for it, and then sees that they lost it.
fn lock_left(path: &Path) -> Option<File> {
    File::open(path).ok().filter(|file| file.try_lock().is_ok())
}

/// A folder for what is made on the way, gone when this is dropped.
pub(crate) struct TemporaryFolder {
    // In this order: the folder goes before its lock.
    folder: TempDir,
    _lock: File,
}

impl TemporaryFolder {
    /// Makes one in `parent`. What killed processes left there goes first.
    pub(crate) fn new_in(parent: &Path) -> io::Result<Self> {
        remove_folders(parent);
        let mut builder = tempfile::Builder::new();
        builder.prefix(FOLDER_PREFIX);
        #[cfg(unix)]
        {
            // Logs may be secret, and the folder for temporary files is everyone's.
            use std::os::unix::fs::PermissionsExt;
            builder.permissions(fs::Permissions::from_mode(0o700));
        }
        loop {
            let folder = builder.tempdir_in(parent)?;
            let path = folder.path().join(FOLDER_LOCK);
            let lock = File::create_new(&path)?;
            let locked = lock.lock().is_ok();
            if !locked || path.exists() {
                return Ok(Self { folder, _lock: lock });
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

fn remove_folders(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let path = entry.path();
        let lock = path.join(FOLDER_LOCK);
        if entry.file_name().to_string_lossy().starts_with(FOLDER_PREFIX)
            && entry.file_type().is_ok_and(|kind| kind.is_dir())
            && lock.symlink_metadata().is_ok_and(|found| found.is_file())
            && let Some(_lock) = lock_left(&lock)
        {
            let _ = fs::remove_dir_all(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_go_and_what_is_in_use_stays() {
        let parent = tempfile::tempdir().unwrap();
        let mine = TemporaryFolder::new_in(parent.path()).unwrap();
        let left = parent.path().join("ct-left");
        let strange = parent.path().join("ct-strange");
        fs::create_dir_all(left.join("inside")).unwrap();
        fs::create_dir(&strange).unwrap();
        fs::write(left.join(FOLDER_LOCK), "").unwrap();
        let other = TemporaryFolder::new_in(parent.path()).unwrap();
        assert!(mine.path().is_dir() && other.path().is_dir() && strange.is_dir() && !left.exists());

        let file = file_in(parent.path()).unwrap();
        fs::write(parent.path().join(".ct-x.partial"), "").unwrap();
        let second = file_in(parent.path()).unwrap();
        assert!(file.path().exists() && second.path().exists());
        drop((mine, other, file, second));
        let names: Vec<_> =
            fs::read_dir(parent.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["ct-strange"]);
    }

    #[test]
    fn what_is_left_stays_locked_until_it_is_gone() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("left");
        fs::write(&path, "").unwrap();
        let left = lock_left(&path).unwrap();
        // Who has only just made it waits here, and looks then whether it is still there.
        let maker = File::open(&path).unwrap();
        assert!(maker.try_lock().is_err() && lock_left(&path).is_none());
        drop(left);
        assert!(maker.try_lock().is_ok());
    }

    #[test]
    fn who_makes_one_while_others_look_for_leftovers_keeps_it() {
        let parent = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let folder = TemporaryFolder::new_in(parent.path()).unwrap();
                        let file = file_in(parent.path()).unwrap();
                        std::thread::yield_now();
                        assert!(folder.path().join(FOLDER_LOCK).exists() && file.path().exists());
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
