//! Removes what nothing needs.

use std::collections::HashSet;

use jiff::Timestamp;

use super::FilesLock;
use super::uploads::is_idle;
use crate::actor::Actor;
use crate::blob::{FoundFile, LogKey, Logs};
use crate::error::{Result, StoreError};
use crate::meta::{Abandoned, LogUse};
use crate::record::{GcItem, GcKind, GcOptions, GcReport};
use crate::store::Store;

/// Logs that a database without any run may leave behind: of a first run that was killed.
pub(super) const ORPHANS_MAX: usize = 1;

/// A database that knows no run at all beside several logs was lost or emptied, and these logs are all there is left.
fn refuse_after_a_loss(store: &Store, no_runs: bool) -> Result<()> {
    match lost_logs(store, no_runs)? {
        Some(logs) => Err(StoreError::Corrupt { what: "the database".to_owned(), detail: lost(store, logs) }),
        None => Ok(()),
    }
}

/// How many logs there are that a database without runs does not know.
pub(super) fn lost_logs(store: &Store, no_runs: bool) -> Result<Option<usize>> {
    if !no_runs {
        return Ok(None);
    }
    let uploaded = store.meta().object_logs()?;
    let known: HashSet<&LogKey> = uploaded.iter().map(|(_, key, _)| key).collect();
    let logs = store.logs().list()?.iter().filter(|file| is_log(file, |key| !known.contains(key))).count();
    Ok((logs > ORPHANS_MAX).then_some(logs))
}

/// Says that the database seems lost, and how to get it back.
pub(super) fn lost(store: &Store, logs: usize) -> String {
    format!(
        "it knows no run, but {logs} logs are kept; `ct runs make {}` makes their runs again",
        match store.logs().bucket() {
            Some(bucket) => bucket.folder_address(),
            None => store.data_dir().join("logs").display().to_string(),
        }
    )
}

/// With the lock held nobody is between publishing a log and storing its run, so a log without a run is a leftover.
///
/// Leftovers go first, and those of interrupted work before anything is written: on a full disk that makes the room that
/// the rest needs.
pub(crate) fn gc(store: &Store, options: GcOptions) -> Result<GcReport> {
    let _lock = match FilesLock::exclusive(store.data_dir()) {
        // Where nothing can be written nobody is adding anything either.
        Err(StoreError::ReadOnly { .. }) if options.dry_run => None,
        lock => Some(lock?),
    };
    let mut items = Vec::new();
    let uses = store.meta().log_uses()?;
    refuse_after_a_loss(store, uses.is_empty())?;
    let logs = store.logs();
    for file in store.work().list_temporary()? {
        items.push(remove(logs, GcKind::TemporaryFile, &file, options)?);
    }
    if !options.dry_run {
        store.work().remove_temporary()?;
    }
    let abandoned = abandoned(store, options, &mut items)?;
    let uploaded = store.meta().object_logs()?;
    let uploaded = uploaded.iter().filter(|(name, ..)| !abandoned.objects.iter().any(|gone| gone.0 == *name));
    let used: HashSet<&LogKey> =
        uses.iter().map(|log| &log.key).chain(uploaded.map(|(_, key, _)| key)).collect();
    let unneeded = logs.list()?.into_iter().filter(|file| is_log(file, |key| !used.contains(key)));
    let mut healed = Vec::new();
    for file in logs.list_set_aside()? {
        if let Some(key) = &file.key
            && logs.exists(key)?
        {
            healed.push(file);
        }
    }
    let leftovers = unneeded
        .map(|file| (GcKind::Log, file))
        .chain(healed.into_iter().map(|file| (GcKind::SetAside, file)));
    for (kind, file) in leftovers {
        items.push(remove(logs, kind, &file, options)?);
    }
    if let Some(before) = options.purge_deleted_before {
        purge(store, &uses, before, options, &mut items)?;
    }
    Ok(GcReport { items, dry_run: options.dry_run })
}

/// What was uploaded and never registered or completed, and what uploads left behind when they broke off.
fn abandoned(store: &Store, options: GcOptions, items: &mut Vec<GcItem>) -> Result<Abandoned> {
    let (uploads_before, objects_before) = store.expiry();
    let mut found = store.meta().abandoned(uploads_before, objects_before, false, store.now())?;
    if !options.dry_run && !found.is_empty() {
        found = store.meta().abandoned(uploads_before, objects_before, true, store.now())?;
    }
    for (name, _) in &found.objects {
        items.push(GcItem { kind: GcKind::UploadedLog, subject: name.clone(), size_bytes: 0 });
    }
    for (run, _) in &found.pending {
        items.push(GcItem { kind: GcKind::Documents, subject: run.clone(), size_bytes: 0 });
    }
    for file in leftover_uploads(store, &found.uploads)? {
        items.push(remove(store.logs(), GcKind::Upload, &file, options)?);
    }
    if !options.dry_run {
        found.uploads.iter().for_each(|id| store.forget_upload(id));
    }
    Ok(found)
}

/// Files among the uploads that belong to none, or to one of `gone`, and that nobody writes to.
pub(super) fn leftover_uploads(store: &Store, gone: &[String]) -> Result<Vec<FoundFile>> {
    let known = store.meta().upload_ids()?;
    let mut files = store.work().list_uploads()?;
    files.retain(|file| {
        let Some(path) = file.path() else { return false };
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let wanted = known.contains(&name) && !gone.contains(&name);
        !wanted && is_idle(path)
    });
    files.extend(super::direct::leftovers(store, gone)?);
    Ok(files)
}

fn is_log(file: &FoundFile, f: impl FnOnce(&LogKey) -> bool) -> bool {
    file.key.as_ref().is_some_and(f)
}

fn remove(logs: &Logs, kind: GcKind, file: &FoundFile, options: GcOptions) -> Result<GcItem> {
    if !options.dry_run {
        logs.remove(file)?;
    }
    Ok(GcItem { kind, subject: file.place.to_string(), size_bytes: file.size_bytes })
}

/// Removes runs that were deleted before a time, each with the logs that nothing else needs.
fn purge(
    store: &Store,
    uses: &[LogUse],
    before: Timestamp,
    options: GcOptions,
    items: &mut Vec<GcItem>,
) -> Result<()> {
    let mut purged = HashSet::new();
    for log in uses {
        if log.deleted_at.is_some_and(|deleted_at| deleted_at < before) && purged.insert(&log.run) {
            let removed =
                options.dry_run || store.meta().purge_run(&log.run, &Actor::local(), store.now())?;
            if removed {
                let subject = log.run.to_string();
                items.push(GcItem { kind: GcKind::DeletedRun, subject, size_bytes: 0 });
            } else {
                // Someone restored it meanwhile.
                purged.remove(&log.run);
            }
        }
    }
    let keys = |of_purged: bool| {
        let uses = uses.iter().filter(|log| purged.contains(&log.run) == of_purged);
        uses.map(|log| &log.key).collect::<HashSet<_>>()
    };
    let (gone, needed) = (keys(true), keys(false));
    for file in store.logs().list()? {
        if is_log(&file, |key| gone.contains(key) && !needed.contains(key)) {
            items.push(remove(store.logs(), GcKind::Log, &file, options)?);
        }
    }
    Ok(())
}
