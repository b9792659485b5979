//! Removes what nothing needs.

use std::collections::HashSet;

use super::FilesLock;
use crate::blob::{self, LogKey};
use crate::error::{Result, StoreError};
use crate::record::{GcItem, GcKind, GcOptions, GcReport};
use crate::store::Store;

/// Logs that a database without any run may leave behind: of a first run that was killed.
pub(super) const ORPHANS_MAX: usize = 1;

/// A database that knows no run at all beside several logs was lost or emptied, and these logs are all there is left.
fn refuse_after_a_loss(store: &Store, no_runs: bool) -> Result<()> {
    if no_runs {
        let logs = store.logs().list()?.iter().filter(|file| file.key.is_some()).count();
        if logs > ORPHANS_MAX {
            return Err(StoreError::Corrupt { what: "the database".to_owned(), detail: lost(store, logs) });
        }
    }
    Ok(())
}

/// Says that the database seems lost, and how to get it back.
pub(super) fn lost(store: &Store, logs: usize) -> String {
    format!(
        "it knows no run, but {logs} logs are kept; `ct runs make {}` makes their runs again",
        store.data_dir().join("logs").display()
    )
}

/// With the lock held nobody is between publishing a log and storing its run, so a log without a run is a leftover.
pub(crate) fn gc(store: &Store, options: GcOptions) -> Result<GcReport> {
    let _lock = FilesLock::exclusive(store.data_dir())?;
    let mut items = Vec::new();
    let uses = store.meta().log_uses()?;
    refuse_after_a_loss(store, uses.is_empty())?;
    let mut purged = HashSet::new();
    if let Some(before) = options.purge_deleted_before {
        for log in &uses {
            if log.deleted_at.is_some_and(|deleted_at| deleted_at < before) && purged.insert(&log.run) {
                let removed = options.dry_run || store.meta().purge_run(&log.run)?;
                if removed {
                    let subject = log.run.to_string();
                    items.push(GcItem { kind: GcKind::DeletedRun, subject, size_bytes: 0 });
                } else {
                    // Someone restored it meanwhile.
                    purged.remove(&log.run);
                }
            }
        }
    }
    let needed: HashSet<&LogKey> =
        uses.iter().filter(|log| !purged.contains(&log.run)).map(|log| &log.key).collect();

    let logs = store.logs();
    let unneeded =
        logs.list()?.into_iter().filter(|file| file.key.as_ref().is_some_and(|key| !needed.contains(key)));
    let healed = logs
        .list_set_aside()?
        .into_iter()
        .filter(|file| file.key.as_ref().is_some_and(|key| logs.exists(key)));
    let files = unneeded
        .map(|file| (GcKind::Log, file))
        .chain(healed.map(|file| (GcKind::SetAside, file)))
        .chain(logs.list_temporary()?.into_iter().map(|file| (GcKind::TemporaryFile, file)));
    for (kind, file) in files {
        if !options.dry_run {
            blob::remove(&file.path)?;
        }
        items.push(GcItem { kind, subject: file.path.display().to_string(), size_bytes: file.size_bytes });
    }
    if !options.dry_run {
        logs.remove_temporary()?;
    }
    Ok(GcReport { items, dry_run: options.dry_run })
}
