//! A workspace seen from outside: what an agent may have put there is never followed, only looked at.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use serde::Serialize;
use sha2::{Digest, Sha256};
use similar::TextDiff;

use crate::error::SandboxError;

/// Files up to this size are kept to be compared line by line.
const TEXT_BYTES_MAX: u64 = 256 << 10;
/// What is kept of a workspace altogether.
const KEPT_BYTES_MAX: u64 = 16 << 20;
/// Files larger than this are compared by size and time alone.
const HASHED_BYTES_MAX: u64 = 64 << 20;
/// How many files are looked at.
const FILES_MAX: usize = 50_000;
/// How deep.
const DEPTH_MAX: usize = 64;
/// How many changes are told one by one.
const CHANGES_MAX: usize = 1000;
/// The longest comparison of one file, and of all.
const FILE_DIFF_BYTES_MAX: usize = 64 << 10;
const DIFF_BYTES_MAX: usize = 1 << 20;

/// What an agent changed in its workspace.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct WorkspaceDiff {
    /// The changes, by path.
    pub changes: Vec<FileChange>,
    /// How many changes are not among them.
    pub left_out: usize,
    /// Whether there were too many files to look at all.
    pub partial: bool,
}

/// A change of one file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FileChange {
    /// The path in the workspace.
    pub path: String,
    /// What happened.
    pub kind: ChangeKind,
    /// The size before, in bytes.
    pub size_bytes_before: Option<u64>,
    /// The size after, in bytes.
    pub size_bytes_after: Option<u64>,
    /// A unified comparison, for texts that are not too long.
    pub diff: Option<String>,
}

/// What happened to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// It holds something else.
    Modified,
    /// It is gone.
    Removed,
}

impl WorkspaceDiff {
    /// All comparisons as one text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for change in &self.changes {
            match &change.diff {
                Some(diff) => text += diff,
                None => text += &format!("{} {:?}\n", change.path, change.kind),
            }
        }
        if self.left_out > 0 {
            text += &format!("[… {} changes left out …]\n", self.left_out);
        }
        text
    }
}

/// A workspace at one time.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    entries: BTreeMap<PathBuf, Entry>,
    partial: bool,
}

#[derive(Debug, PartialEq)]
struct Entry {
    what: What,
    size_bytes: u64,
    executable: bool,
    text: Option<String>,
}

#[derive(Debug, PartialEq)]
enum What {
    /// By its hash.
    File([u8; 32]),
    /// Too large to hash: by its time.
    Large(i64, i64),
    Link(Vec<u8>),
    Other,
}

impl Snapshot {
    /// Looks at a folder.
    pub(crate) async fn take(folder: &Path) -> Self {
        let folder = folder.to_owned();
        tokio::task::spawn_blocking(move || Self::take_now(&folder)).await.unwrap_or_default()
    }

    fn take_now(folder: &Path) -> Self {
        let mut snapshot = Self::default();
        let mut kept = 0;
        let complete = walk(folder, &mut |path, found| {
            if snapshot.entries.len() >= FILES_MAX {
                return false;
            }
            let entry = Entry::of(found, KEPT_BYTES_MAX - kept);
            kept += entry.text.as_ref().map_or(0, |text| text.len() as u64);
            snapshot.entries.insert(path.to_owned(), entry);
            true
        });
        snapshot.partial = !complete;
        snapshot
    }

    /// What changed since.
    pub(crate) async fn compare(self: &std::sync::Arc<Self>, folder: &Path) -> WorkspaceDiff {
        let (before, folder) = (self.clone(), folder.to_owned());
        let comparing = move || before.changes(&Self::take_now(&folder));
        tokio::task::spawn_blocking(comparing).await.unwrap_or_default()
    }

    fn changes(&self, after: &Self) -> WorkspaceDiff {
        let mut diff = WorkspaceDiff { partial: self.partial || after.partial, ..WorkspaceDiff::default() };
        let mut room = DIFF_BYTES_MAX;
        let paths: std::collections::BTreeSet<&PathBuf> =
            self.entries.keys().chain(after.entries.keys()).collect();
        for path in paths {
            let (old, new) = (self.entries.get(path), after.entries.get(path));
            if old == new {
                continue;
            }
            if diff.changes.len() >= CHANGES_MAX {
                diff.left_out += 1;
                continue;
            }
            let kind = match (old, new) {
                (None, _) => ChangeKind::Added,
                (_, None) => ChangeKind::Removed,
                _ => ChangeKind::Modified,
            };
            let path = path.to_string_lossy().into_owned();
            let text = compared(&path, old, new).filter(|text| text.len() <= room.min(FILE_DIFF_BYTES_MAX));
            room -= text.as_ref().map_or(0, String::len);
            diff.changes.push(FileChange {
                path,
                kind,
                size_bytes_before: old.map(|entry| entry.size_bytes),
                size_bytes_after: new.map(|entry| entry.size_bytes),
                diff: text,
            });
        }
        diff
    }
}

fn compared(path: &str, old: Option<&Entry>, new: Option<&Entry>) -> Option<String> {
    // A side that is there and has no text cannot be compared.
    let text = |side: Option<&Entry>| match side {
        None => Some(String::new()),
        Some(entry) => entry.text.clone(),
    };
    let (before, after) = (text(old)?, text(new)?);
    let names = (
        if old.is_some() { format!("a/{path}") } else { "/dev/null".to_owned() },
        if new.is_some() { format!("b/{path}") } else { "/dev/null".to_owned() },
    );
    let mut config = TextDiff::configure();
    config.timeout(std::time::Duration::from_secs(2));
    let diff = config.diff_lines(&before, &after);
    let text = diff.unified_diff().context_radius(3).header(&names.0, &names.1).to_string();
    Some(text).filter(|text| !text.is_empty())
}

impl Entry {
    fn of(found: &Found, room_bytes: u64) -> Self {
        let size_bytes = u64::try_from(found.stat.st_size).unwrap_or(0);
        let executable = found.stat.st_mode & 0o111 != 0;
        let mut entry = Self { what: What::Other, size_bytes, executable, text: None };
        match found.kind {
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(found.folder, &*found.name, Vec::new());
                let target = target.map(|target| target.into_bytes()).unwrap_or_default();
                entry.text = Some(format!("-> {}\n", String::from_utf8_lossy(&target)));
                entry.what = What::Link(target);
            }
            FileType::RegularFile if size_bytes > HASHED_BYTES_MAX => {
                entry.what = What::Large(
                    found.stat.st_mtime,
                    i64::try_from(found.stat.st_mtime_nsec).unwrap_or_default(),
                );
            }
            FileType::RegularFile => {
                if let Some(file) = found.open() {
                    let mut hash = Sha256::new();
                    let mut text = Vec::new();
                    let wanted = size_bytes <= TEXT_BYTES_MAX.min(room_bytes);
                    let mut buffer = vec![0; 64 << 10];
                    let mut file = file.take(HASHED_BYTES_MAX);
                    while let Ok(length @ 1..) = file.read(&mut buffer) {
                        hash.update(&buffer[..length]);
                        if wanted {
                            text.extend_from_slice(&buffer[..length]);
                        }
                    }
                    entry.what = What::File(hash.finalize().into());
                    entry.text = String::from_utf8(text).ok().filter(|text| wanted && !text.contains('\0'));
                }
            }
            _ => {}
        }
        entry
    }
}

/// Something in a folder, by the open folder and the name in it.
struct Found<'a> {
    folder: &'a rustix::fd::OwnedFd,
    name: std::ffi::CString,
    kind: FileType,
    stat: Stat,
}

impl Found<'_> {
    /// Makes the folder writable for its owner, and what is found if it is a folder.
    fn open_up(&self) -> bool {
        let mode = Mode::RWXU;
        let inner = self.kind != FileType::Directory
            || rustix::fs::chmodat(self.folder, &*self.name, mode, AtFlags::empty()).is_ok();
        inner && rustix::fs::fchmod(self.folder, mode).is_ok()
    }

    /// Opens a file, and nothing else.
    fn open(&self) -> Option<std::fs::File> {
        open_plain(self.folder, &self.name)
    }
}

/// Opens a file, and nothing else: no link, and no pipe that would keep us waiting.
fn open_plain(folder: &rustix::fd::OwnedFd, name: &std::ffi::CStr) -> Option<std::fs::File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(folder, name, flags, Mode::empty()).ok()?;
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&file).ok()?.st_mode);
    (kind == FileType::RegularFile).then(|| std::fs::File::from(file))
}

/// Visits everything but folders, by relative path; whether all was visited. Folders are opened without following links;
/// those that cannot be, or are too deep, are visited themselves.
fn walk(folder: &Path, visit: &mut impl FnMut(&Path, &Found<'_>) -> bool) -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::open(folder, flags, Mode::empty()) {
        Ok(opened) => walk_opened(&opened, Path::new(""), 0, visit),
        Err(_) => false,
    }
}

fn walk_opened(
    folder: &rustix::fd::OwnedFd,
    path: &Path,
    depth: usize,
    visit: &mut impl FnMut(&Path, &Found<'_>) -> bool,
) -> bool {
    let Ok(entries) = rustix::fs::Dir::read_from(folder) else { return false };
    let mut complete = true;
    for entry in entries {
        let Ok(entry) = entry else { return false };
        let name = entry.file_name();
        if name.to_bytes() == b"." || name.to_bytes() == b".." {
            continue;
        }
        let Ok(stat) = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else {
            complete = false;
            continue;
        };
        let inner = path.join(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(name.to_bytes()));
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind == FileType::Directory {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let opened = rustix::fs::openat(folder, name, flags, Mode::empty());
            if let Ok(opened) = opened
                && depth < DEPTH_MAX
            {
                complete &= walk_opened(&opened, &inner, depth + 1, visit);
            } else {
                complete = false;
                if !visit(&inner, &Found { folder, name: name.to_owned(), kind, stat }) {
                    return false;
                }
            }
        } else if !visit(&inner, &Found { folder, name: name.to_owned(), kind, stat }) {
            return false;
        }
    }
    complete
}

/// Reads a file of a folder that others may write: no link, nothing but a file, up to a size.
pub(crate) fn read_plain(folder: &Path, name: &str, limit_bytes: u64) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = rustix::fs::open(folder, flags, Mode::empty()).ok()?;
    let file = open_plain(&folder, &std::ffi::CString::new(name).ok()?)?;
    let mut bytes = Vec::new();
    file.take(limit_bytes).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Where links of a workspace may lead: into the system, which holds nothing of a scorer.
const LINK_TARGETS: [&str; 6] = ["usr", "bin", "sbin", "lib", "lib64", "etc"];

/// Removes what could lead a scorer astray or keep it waiting: links out of the workspace, pipes, sockets, devices. What
/// cannot be looked into, since it is too deep or closed, is moved to `aside`, which no cell sees. The paths removed. Nothing
/// may run in the workspace any more.
pub(crate) async fn tame(folder: &Path, aside: &Path) -> Vec<String> {
    let (folder, aside) = (folder.to_owned(), aside.to_owned());
    tokio::task::spawn_blocking(move || tame_now(&folder, &aside)).await.unwrap_or_default()
}

fn tame_now(folder: &Path, aside: &Path) -> Vec<String> {
    let mut removed = Vec::new();
    let mut told = |path: &Path, gone: bool| {
        let what = if gone { "" } else { " (cannot be removed)" };
        if removed.len() < CHANGES_MAX {
            removed.push(format!("{}{what}", path.display()));
        }
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(aside) = rustix::fs::open(aside, flags, Mode::empty()) else { return removed };
    // A name that is taken would keep what is moved where it is.
    static MOVED: AtomicU64 = AtomicU64::new(0);
    walk(folder, &mut |path, found| {
        if found.kind == FileType::Directory {
            let name = MOVED.fetch_add(1, Ordering::Relaxed).to_string();
            let take = || rustix::fs::renameat(found.folder, &*found.name, &aside, &*name);
            // A folder that is not ours to write keeps what is in it, and one to be moved must be so itself.
            let gone = take().is_ok() || found.open_up() && take().is_ok();
            told(path, gone);
            return true;
        }
        let harmless = match found.kind {
            FileType::RegularFile => true,
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(found.folder, &*found.name, Vec::new());
                let depth = path.components().count() - 1;
                target.is_ok_and(|target| target.to_str().is_ok_and(|target| stays(target, depth)))
            }
            _ => false,
        };
        if !harmless {
            let remove = || rustix::fs::unlinkat(found.folder, &*found.name, AtFlags::empty());
            let gone = remove().is_ok() || found.open_up() && remove().is_ok();
            told(path, gone);
        }
        true
    });
    removed.sort();
    removed
}

/// Whether a link `depth` folders below the workspace stays in it or leads into the system. Going up is allowed at the
/// beginning only: after a name, which may itself be a link, nobody knows what up means.
fn stays(target: &str, depth: usize) -> bool {
    let absolute = target.starts_with('/');
    let parts: Vec<&str> = target.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let ups = parts.iter().take_while(|part| **part == "..").count();
    if parts[ups..].contains(&"..") {
        return false;
    }
    if absolute {
        return ups == 0 && parts.first().is_some_and(|first| LINK_TARGETS.contains(first));
    }
    ups <= depth
}

/// Copies files and folders; what is something else is left out and counted.
pub(crate) async fn copy_out(from: &Path, to: &Path, limit_bytes: u64) -> Result<u64, SandboxError> {
    let (from, to) = (from.to_owned(), to.to_owned());
    let copying = move || copy_now(&from, &to, limit_bytes);
    match tokio::task::spawn_blocking(copying).await {
        Ok(result) => result,
        Err(error) => Err(SandboxError::Gone { problem: error.to_string() }),
    }
}

fn copy_now(from: &Path, to: &Path, limit_bytes: u64) -> Result<u64, SandboxError> {
    std::fs::create_dir_all(to).map_err(SandboxError::io("make", to))?;
    let (mut left_out, mut room, mut failure) = (0, limit_bytes, None);
    let complete = walk(from, &mut |path, found| {
        let Some(file) = found.open() else {
            left_out += 1;
            return true;
        };
        let target = to.join(path);
        let copied = (|| {
            std::fs::create_dir_all(target.parent().unwrap_or(to))?;
            let mut out = std::fs::File::create_new(&target)?;
            std::io::copy(&mut file.take(room.saturating_add(1)), &mut out)
        })();
        match copied {
            Ok(bytes) if bytes <= room => room -= bytes,
            Ok(_) => failure = Some(SandboxError::TooLarge { path: path.display().to_string(), limit_bytes }),
            Err(source) => failure = Some(SandboxError::Io { doing: "write", path: target, source }),
        }
        failure.is_none()
    });
    match failure {
        Some(error) => Err(error),
        None => Ok(left_out + u64::from(!complete)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_stay() {
        for (target, depth) in
            [("a", 0), ("./a/b", 0), ("../a", 1), ("../../a", 2), ("/usr/bin/python3", 0), ("..", 1)]
        {
            assert!(stays(target, depth), "{target}");
        }
        for (target, depth) in [
            ("..", 0),
            ("../../tests", 1),
            ("/tests/test.sh", 0),
            ("/", 0),
            ("/usr/../tests", 0),
            ("/../usr", 0),
            ("a/../../tests", 1),
            ("/proc/self/root", 0),
            ("/services/site.log", 0),
        ] {
            assert!(!stays(target, depth), "{target}");
        }
    }
}
