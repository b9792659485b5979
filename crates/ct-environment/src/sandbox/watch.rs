//! Watches what the kernel does not bound: the size of a cell's folders, and where there are no control groups the memory of
//! all its processes together.
//!
//! It looks as often as the room left may be filled at the speed of memory, so that little is taken beyond a limit.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, io};

use tokio::task::AbortHandle;

use super::cell::{Breaches, CellSpec};
use super::exec::LimitHit;

/// The shortest and the longest time between two looks.
const INTERVAL: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));
/// What a processor may fill in a second, in bytes.
const FILLED_BYTES: u64 = 2 << 30;
/// Looking may take one part in so many of the time.
const REST: u32 = 20;
/// A workspace with more files than this is over its limit.
const FILES_MAX: u64 = 500_000;
/// Temporary file systems of a cell, which are memory.
const IN_MEMORY: [&str; 4] = ["tmp", "var/tmp", "dev/shm", "home/agent"];

/// What was seen, and when to look again.
struct Seen {
    hit: Option<LimitHit>,
    rest: Duration,
}

/// Watches a cell: its disk, and its memory where that is not bounded otherwise. `first` tells its first process, as soon as
/// that is known; `kill` ends the others.
pub(crate) fn watch(
    first: impl Fn() -> Option<u32> + Send + Sync + 'static,
    watch_memory: bool,
    spec: &CellSpec,
    breaches: Arc<Breaches>,
    kill: impl Fn() + Send + Sync + 'static,
) -> AbortHandle {
    let settings = spec.settings.clone();
    let disk = Mutex::new(Disk::new(spec.bounded.clone(), settings.disk_bytes));
    let look = move || {
        let first = first();
        let (memory_room, memory_rest) = match first.filter(|_| watch_memory) {
            Some(first) => {
                let started = Instant::now();
                let room = settings.memory_bytes.checked_sub(memory(first, settings.memory_bytes));
                (room, started.elapsed() * REST)
            }
            None => (Some(u64::MAX), Duration::ZERO),
        };
        let disk_room = disk.lock().unwrap_or_else(PoisonError::into_inner).room(first);
        let hit = match (memory_room, disk_room) {
            (None, _) => Some(LimitHit::Memory),
            (_, None) => Some(LimitHit::Disk),
            _ => None,
        };
        let room = memory_room.unwrap_or(0).min(disk_room.unwrap_or(u64::MAX));
        Seen { hit, rest: pace(room).max(memory_rest) }
    };
    start(breaches, look, kill)
}

/// How long it takes at least to fill some room.
fn pace(room_bytes: u64) -> Duration {
    // Asking takes a few files of the system.
    static PROCESSORS: LazyLock<u64> =
        LazyLock::new(|| std::thread::available_parallelism().map_or(1, |count| count.get() as u64));
    let micros = room_bytes / (*PROCESSORS * FILLED_BYTES / 1_000_000);
    Duration::from_micros(micros).clamp(INTERVAL.0, INTERVAL.1)
}

fn start(
    breaches: Arc<Breaches>,
    look: impl Fn() -> Seen + Send + Sync + 'static,
    kill: impl Fn() + Send + Sync + 'static,
) -> AbortHandle {
    let (look, kill) = (Arc::new(look), Arc::new(kill));
    let task = tokio::spawn(async move {
        let mut full = false;
        loop {
            let (looking, killing) = (look.clone(), kill.clone());
            let Ok(Seen { hit, rest }) = tokio::task::spawn_blocking(move || looking()).await else { return };
            // A full workspace stays full: it is told once, and again when it was emptied and filled.
            let told = hit == Some(LimitHit::Disk) && full;
            full = hit == Some(LimitHit::Disk);
            if let Some(hit) = hit
                && !told
            {
                breaches.push(hit);
                let _ = tokio::task::spawn_blocking(move || killing()).await;
            }
            tokio::time::sleep(rest).await;
        }
    });
    task.abort_handle()
}

/// Folders whose sizes together have a limit.
struct Disk {
    folders: Vec<PathBuf>,
    limit_bytes: u64,
    used_bytes: u64,
    /// What was free around them when they were last counted.
    free_bytes: u64,
    /// When they are to be counted again at the latest.
    due: Instant,
}

impl Disk {
    fn new(folders: Vec<PathBuf>, limit_bytes: u64) -> Self {
        Self { folders, limit_bytes, used_bytes: 0, free_bytes: 0, due: Instant::now() }
    }

    /// What they may still take; none when that is less than nothing. Counting many files takes long, so it is done now and
    /// then, and at once when more went from the disk around them than half of what was left.
    fn room(&mut self, first: Option<u32>) -> Option<u64> {
        let free = self.folders.first().and_then(|folder| rustix::fs::statvfs(folder).ok());
        let free = free.map_or(0, |free| free.f_bfree * free.f_frsize);
        let left = self.limit_bytes.saturating_sub(self.used_bytes);
        if Instant::now() >= self.due || self.free_bytes.saturating_sub(free) > left / 2 {
            let started = Instant::now();
            self.used_bytes = folders_bytes(&self.folders);
            if let (Some(first), Some(folder)) = (first, self.folders.first()) {
                self.used_bytes = self.used_bytes.saturating_add(nameless_bytes(first, folder));
            }
            self.free_bytes = free;
            self.due = Instant::now() + started.elapsed() * REST;
        }
        self.limit_bytes.checked_sub(self.used_bytes)
    }
}

/// The memory that a cell takes, in bytes: of its processes and of its temporary file systems. What is shared is told apart
/// only when all together it is more than `enough`, since that takes longer.
fn memory(first: u32, enough: u64) -> u64 {
    let root = root(first);
    let processes = processes(&root);
    let temporary = IN_MEMORY.iter().filter_map(|folder| rustix::fs::statvfs(root.join(folder)).ok());
    let temporary: u64 = temporary.map(|found| (found.f_blocks - found.f_bfree) * found.f_frsize).sum();
    let page = rustix::param::page_size() as u64;
    let resident = processes.iter().filter_map(|process| {
        let text = fs::read_to_string(process.join("statm")).ok()?;
        text.split(' ').nth(1)?.parse::<u64>().ok()
    });
    let resident = resident.sum::<u64>() * page;
    if temporary + resident <= enough {
        return temporary + resident;
    }
    let own = processes.iter().filter_map(|process| {
        let text = fs::read_to_string(process.join("smaps_rollup")).ok()?;
        let fields =
            text.lines().filter(|line| line.starts_with("Pss_Anon:") || line.starts_with("Pss_Shmem:"));
        Some(fields.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).sum::<u64>())
    });
    temporary + own.sum::<u64>() * 1024
}

/// A cell's file system, as its first process sees it.
fn root(first: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{first}/root"))
}

/// The folders of a cell's processes. Its own /proc lists them alone, which keeps a look cheap on a busy machine.
fn processes(root: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root.join("proc")).into_iter().flatten().flatten();
    let entries = entries.filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok());
    entries.map(|entry| entry.path()).collect()
}

/// What files take that have no name any more, on the disk of a folder, as long as a process has one open or mapped.
fn nameless_bytes(first: u32, folder: &Path) -> u64 {
    let Ok(disk) = fs::metadata(folder).map(|metadata| metadata.dev()) else { return 0 };
    let mut files: HashMap<u64, u64> = HashMap::new();
    let processes = processes(&root(first));
    for process in &processes {
        // Of those that are mapped alone nobody tells the size: no more than what is mapped, then.
        let maps = fs::read_to_string(process.join("maps")).unwrap_or_default();
        for line in maps.lines().filter(|line| line.ends_with(" (deleted)")) {
            if let Some((inode, bytes)) = mapped(line, disk) {
                let known = files.entry(inode).or_default();
                *known = known.saturating_add(bytes);
            }
        }
    }
    for process in &processes {
        for entry in fs::read_dir(process.join("fd")).into_iter().flatten().flatten() {
            let Ok(metadata) = fs::metadata(entry.path()) else { continue };
            if metadata.nlink() == 0 && metadata.dev() == disk && metadata.is_file() {
                files.insert(metadata.ino(), metadata.blocks() * 512);
            }
        }
    }
    files.values().fold(0, |sum, bytes| sum.saturating_add(*bytes))
}

/// The number of a mapped file of a disk, and how much of it is mapped.
fn mapped(line: &str, disk: u64) -> Option<(u64, u64)> {
    let mut fields = line.split_ascii_whitespace();
    let (begin, end) = fields.next()?.split_once('-')?;
    let (major, minor) = fields.nth(2)?.split_once(':')?;
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let number = |text: &str| u32::from_str_radix(text, 16).ok();
    let here = rustix::fs::makedev(number(major)?, number(minor)?) == disk;
    let inode = fields.next()?.parse().ok()?;
    here.then_some((inode, hex(end)?.checked_sub(hex(begin)?)?))
}

/// What folders hold, in bytes on the disk; endlessly much when there are too many files to count, or some cannot be seen.
pub(crate) fn folders_bytes(folders: &[PathBuf]) -> u64 {
    let (mut bytes, mut files) = (0, 0);
    let mut waiting: Vec<PathBuf> = folders.to_vec();
    while let Some(folder) = waiting.pop() {
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            // It went meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            // Closed to us, or so deep that its path is too long: a place to hide things.
            Err(_) => return u64::MAX,
        };
        for entry in entries.flatten() {
            files += 1;
            if files > FILES_MAX {
                return u64::MAX;
            }
            let Ok(metadata) = entry.metadata() else { continue };
            bytes += metadata.blocks() * 512;
            if metadata.is_dir() {
                waiting.push(entry.path());
            }
        }
    }
    bytes
}
