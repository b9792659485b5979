//! Reads everything, compares, and repairs what can be repaired without loss.

use std::collections::{BTreeMap, HashSet};

use super::{FilesLock, gc};
use crate::blob::{FoundFile, LogKey, LogState};
use crate::error::{Result, StoreError};
use crate::meta::LogUse;
use crate::record::{CheckProgress, CheckReport, Finding, FindingKind};
use crate::store::Store;

/// A repair keeps ingests out for as long as it takes, so that no log changes between reading it and moving it. A mere
/// check runs beside them.
pub(crate) fn check(
    store: &Store,
    repair: bool,
    progress: &mut dyn FnMut(CheckProgress),
) -> Result<CheckReport> {
    let lock = if repair { Some(FilesLock::exclusive(store.data_dir())?) } else { None };
    let audit = store.meta().audit(repair)?;
    let mut report = CheckReport {
        runs: audit.runs,
        trajectories: audit.trajectories,
        findings: audit.findings,
        ..CheckReport::default()
    };
    let uses = store.meta().log_uses()?;
    check_logs(store, &uses, repair, progress, &mut report)?;
    check_uploaded(store, &uses, &mut report)?;
    // What is not referred to is a leftover only while no ingest is about to refer to it.
    let lock = match lock {
        Some(lock) => Some(lock),
        None => match FilesLock::exclusive(store.data_dir()) {
            Ok(lock) => Some(lock),
            Err(StoreError::Busy { .. } | StoreError::ReadOnly { .. }) => None,
            Err(error) => return Err(error),
        },
    };
    if lock.is_some() {
        let no_runs = store.meta().log_uses()?.is_empty();
        if let Some(logs) = gc::lost_logs(store, no_runs)? {
            report.findings.push(Finding {
                kind: FindingKind::DatabaseDamaged,
                subject: "database".to_owned(),
                detail: gc::lost(store, logs),
                size_bytes: None,
                done: None,
                resolved: false,
            });
            // They are no leftovers: nothing else holds these runs.
            return Ok(report);
        }
    }
    if lock.is_some() {
        check_leftovers(store, repair, &mut report.findings)?;
    }
    Ok(report)
}

fn check_logs(
    store: &Store,
    uses: &[LogUse],
    repair: bool,
    progress: &mut dyn FnMut(CheckProgress),
    report: &mut CheckReport,
) -> Result<()> {
    let mut by_log: BTreeMap<&LogKey, Vec<&LogUse>> = BTreeMap::new();
    for log in uses {
        by_log.entry(&log.key).or_default().push(log);
    }
    let bytes_total = by_log.values().map(|uses| uses[0].size_bytes).sum();
    let mut bytes_done = 0;
    for (key, uses) in by_log {
        let size_bytes = uses[0].size_bytes;
        let mut read = 0;
        let state = store.logs().verify(key, size_bytes, &mut |bytes| {
            read += bytes;
            progress(CheckProgress { bytes_done: bytes_done + read, bytes_total });
        })?;
        bytes_done += size_bytes;
        let subject = format!("log of {}", uses.iter().map(|log| name(log)).collect::<Vec<_>>().join(", "));
        let mut finding = Finding {
            kind: FindingKind::LogMissing,
            subject,
            detail: format!("{} is not there", store.logs().name(key)),
            size_bytes: Some(size_bytes),
            done: None,
            resolved: false,
        };
        match state {
            LogState::Whole => {
                report.logs += 1;
                report.log_bytes += size_bytes;
                check_range(&uses, size_bytes, &mut report.findings);
                continue;
            }
            // It may have been collected or made again since the list was read.
            _ if !repair && !is_still_so(store, key, size_bytes, &state)? => continue,
            LogState::Missing => {}
            LogState::Damaged(detail) => {
                finding.kind = FindingKind::LogDamaged;
                finding.detail = format!("{}: {detail}", store.logs().name(key));
                if repair {
                    let target = store.logs().set_aside(key)?;
                    finding.done = Some(format!("moved to {target}"));
                }
            }
        }
        finding.detail.push_str("; `ct runs make` with the original log restores it");
        report.findings.push(finding);
    }
    Ok(())
}

fn name(log: &LogUse) -> String {
    match log.revision {
        None => format!("run {}", log.run),
        Some(revision) => format!("run {}, revision {revision}", log.run),
    }
}

fn is_still_so(store: &Store, key: &LogKey, size_bytes: u64, state: &LogState) -> Result<bool> {
    let known = store.meta().run_of_log(&key.hash)?.is_some();
    Ok(known && store.logs().verify(key, size_bytes, &mut |_| ())? == *state)
}

fn check_range(uses: &[&LogUse], size_bytes: u64, findings: &mut Vec<Finding>) {
    for log in uses {
        let Some(end) = log.range_end.filter(|end| *end > size_bytes) else { continue };
        findings.push(Finding {
            kind: FindingKind::RangeOutside,
            subject: name(log),
            detail: format!("a sample is said to end at byte {end} of a log of {size_bytes} bytes"),
            size_bytes: None,
            done: None,
            resolved: false,
        });
    }
}

/// The logs that were uploaded and that no run has yet.
fn check_uploaded(store: &Store, uses: &[LogUse], report: &mut CheckReport) -> Result<()> {
    let used: HashSet<&LogKey> = uses.iter().map(|log| &log.key).collect();
    for (name, key, size_bytes) in store.meta().object_logs()? {
        if used.contains(&key) {
            continue;
        }
        let (kind, detail) = match store.logs().verify(&key, size_bytes, &mut |_| ())? {
            LogState::Whole => {
                report.logs += 1;
                report.log_bytes += size_bytes;
                continue;
            }
            LogState::Missing => (FindingKind::LogMissing, "it is not there".to_owned()),
            LogState::Damaged(detail) => (FindingKind::LogDamaged, detail),
        };
        report.findings.push(Finding {
            kind,
            subject: format!("uploaded log {name}"),
            detail,
            size_bytes: Some(size_bytes),
            done: None,
            resolved: false,
        });
    }
    Ok(())
}

fn check_leftovers(store: &Store, repair: bool, findings: &mut Vec<Finding>) -> Result<()> {
    let uses = store.meta().log_uses()?;
    let uploaded = store.meta().object_logs()?;
    let needed: HashSet<&LogKey> =
        uses.iter().map(|log| &log.key).chain(uploaded.iter().map(|(_, key, _)| key)).collect();
    let logs = store.logs();
    let mut found: Vec<(FindingKind, &str, bool, FoundFile)> = Vec::new();
    for file in logs.list()? {
        match &file.key {
            Some(key) if needed.contains(key) => {}
            Some(_) => found.push((FindingKind::LogUnreferenced, "no run needs it", true, file)),
            None => found.push((FindingKind::Stranger, "it is no log by its name and place", false, file)),
        }
    }
    for file in logs.list_set_aside()? {
        let healed = match &file.key {
            Some(key) => logs.exists(key)?,
            None => false,
        };
        let detail = if healed { "it has been made again since" } else { "an earlier repair moved it here" };
        found.push((FindingKind::SetAside, detail, healed, file));
    }
    for file in store.work().list_temporary()? {
        found.push((FindingKind::TemporaryFile, "an interrupted operation left it", true, file));
    }
    for file in gc::leftover_uploads(store, &[])? {
        found.push((FindingKind::TemporaryFile, "an upload left it when it broke off", true, file));
    }
    for (kind, detail, removable, file) in found {
        let removed = repair && removable;
        if removed {
            logs.remove(&file)?;
        }
        findings.push(Finding {
            kind,
            subject: file.place.to_string(),
            detail: detail.to_owned(),
            size_bytes: Some(file.size_bytes),
            done: removed.then(|| "removed".to_owned()),
            resolved: removed,
        });
    }
    if repair {
        store.work().remove_temporary()?;
    }
    Ok(())
}
