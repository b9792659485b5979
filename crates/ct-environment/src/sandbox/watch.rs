//! Watches what the kernel does not bound: the memory of all processes of a cell together, and the size of its folders.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::AbortHandle;

use super::cell::{Breaches, CellSpec};
use super::exec::LimitHit;

/// The shortest time between two looks.
const INTERVAL: Duration = Duration::from_millis(100);
/// Looking may take one part in so many of the time.
const REST: u32 = 20;
/// A workspace with more files than this is over its limit.
const FILES_MAX: u64 = 500_000;

/// Watches a cell. `first` is its first process, where memory is not bounded otherwise; `kill` ends the others.
pub(crate) fn watch(
    first: Option<u32>,
    spec: &CellSpec,
    breaches: Arc<Breaches>,
    kill: impl Fn() + Send + Sync + 'static,
) -> AbortHandle {
    let (settings, folders) = (spec.settings.clone(), spec.bounded.clone());
    let look = move || {
        if first.is_some_and(|first| memory(first) > settings.memory_bytes) {
            return Some(LimitHit::Memory);
        }
        (folders_bytes(&folders) > settings.disk_bytes).then_some(LimitHit::Disk)
    };
    start(breaches, look, kill)
}

fn start(
    breaches: Arc<Breaches>,
    look: impl Fn() -> Option<LimitHit> + Send + Sync + 'static,
    kill: impl Fn() + Send + Sync + 'static,
) -> AbortHandle {
    let (look, kill) = (Arc::new(look), Arc::new(kill));
    let task = tokio::spawn(async move {
        let mut full = false;
        let mut rest = INTERVAL;
        loop {
            tokio::time::sleep(rest).await;
            let (looking, killing) = (look.clone(), kill.clone());
            let started = Instant::now();
            let Ok(hit) = tokio::task::spawn_blocking(move || looking()).await else { return };
            rest = INTERVAL.max(started.elapsed() * REST);
            // A full workspace stays full: it is told once, and again when it was emptied and filled.
            let told = hit == Some(LimitHit::Disk) && full;
            full = hit == Some(LimitHit::Disk);
            if let Some(hit) = hit
                && !told
            {
                breaches.push(hit);
                let _ = tokio::task::spawn_blocking(move || killing()).await;
            }
        }
    });
    task.abort_handle()
}

/// The memory of a cell's own pages, in bytes.
fn memory(first: u32) -> u64 {
    // The cell's own /proc lists its processes alone, which keeps a look cheap on a busy machine.
    let Ok(entries) = fs::read_dir(format!("/proc/{first}/root/proc")) else { return 0 };
    let page = rustix::param::page_size() as u64;
    let pages = entries.flatten().filter_map(|entry| {
        entry.file_name().to_str()?.parse::<u32>().ok()?;
        let text = fs::read_to_string(entry.path().join("statm")).ok()?;
        let mut fields = text.split(' ').skip(1).map_while(|field| field.parse::<u64>().ok());
        Some(fields.next()?.saturating_sub(fields.next()?))
    });
    pages.sum::<u64>() * page
}

/// What folders hold, in bytes on the disk; endlessly much when there are too many files to count.
pub(crate) fn folders_bytes(folders: &[PathBuf]) -> u64 {
    let (mut bytes, mut files) = (0, 0);
    let mut waiting: Vec<PathBuf> = folders.to_vec();
    while let Some(folder) = waiting.pop() {
        for (path, metadata) in entries(&folder) {
            files += 1;
            if files > FILES_MAX {
                return u64::MAX;
            }
            bytes += std::os::unix::fs::MetadataExt::blocks(&metadata) * 512;
            if metadata.is_dir() {
                waiting.push(path);
            }
        }
    }
    bytes
}

fn entries(folder: &Path) -> impl Iterator<Item = (PathBuf, fs::Metadata)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)))
}
