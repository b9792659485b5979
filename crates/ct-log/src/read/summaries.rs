//! Summary rows: one small object per sample, enough for a list.

use std::collections::{HashMap, HashSet};

use super::archive_log::numbered;
use super::{LogError, SampleEntry};
use crate::archive::Archive;
use crate::format::{JOURNAL_SUMMARIES, SUMMARIES};
use crate::json::{self, JsonError, Reader};

/// Bytes of one row. Writers thin rows to some kilobytes; old ones kept whole inputs.
const ROW_BYTES_MAX: usize = 64 << 20;

/// A summary row as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SummaryRow {
    /// The sample's id as text.
    pub id: String,
    /// Counts from 1.
    pub epoch: u64,
    /// The row's JSON.
    pub raw: Vec<u8>,
}

impl SummaryRow {
    /// Whether the row is about this sample.
    pub fn is_of(&self, sample: &SampleEntry) -> bool {
        self.id == sample.id && self.epoch == sample.epoch
    }
}

/// The members that hold the rows.
fn members(archive: &Archive) -> Vec<usize> {
    match archive.entries().iter().rposition(|e| e.name == SUMMARIES) {
        Some(index) => vec![index],
        None => numbered(archive, JOURNAL_SUMMARIES).into_iter().map(|(_, index)| index).collect(),
    }
}

/// Id and epoch of every row, each once, without keeping a row.
pub(super) fn keys(archive: &Archive) -> Result<HashSet<(String, u64)>, LogError> {
    let mut keys = HashSet::new();
    for member in members(archive) {
        let entry = &archive.entries()[member];
        Reader::new(archive.read(entry)?)
            .array(|_, r| {
                let (mut id, mut epoch) = (None, None);
                r.fields(&["id", "epoch"], |name, r| {
                    match name {
                        "id" => id = r.raw(json::KEY_BYTES_MAX)?,
                        _ => epoch = r.number()?,
                    }
                    Ok::<_, JsonError>(())
                })?;
                if let (Some(id), Some(epoch)) = (id.as_deref().and_then(id_text), epoch) {
                    keys.insert((id, epoch as u64));
                }
                Ok(())
            })
            .map_err(|e| LogError::json(&entry.name, e))?;
    }
    Ok(keys)
}

/// An id as text.
fn id_text(raw: &[u8]) -> Option<String> {
    Some(match json::parse(raw).ok()? {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    })
}

/// Hands out rows from `summaries.json`, else from the journal. Several passes over these small members instead of
/// keeping them: the first finds out which rows are superseded, and only what supersedes them is kept.
pub(super) fn read<E: From<LogError>>(
    archive: &Archive,
    f: &mut dyn FnMut(SummaryRow) -> Result<(), E>,
) -> Result<(), E> {
    let members = members(archive);
    // First and last row of each sample.
    let mut rows: HashMap<(String, u64), (usize, usize)> = HashMap::new();
    let mut n = 0;
    each(archive, &members, &mut |row| {
        rows.entry((row.id, row.epoch)).or_insert((n, n)).1 = n;
        n += 1;
        Ok::<_, LogError>(())
    })?;
    let mut later: HashMap<usize, SummaryRow> = HashMap::new();
    if rows.len() < n {
        n = 0;
        each(archive, &members, &mut |row| {
            if let Some(&(first, last)) = rows.get(&(row.id.clone(), row.epoch))
                && first < last
                && last == n
            {
                later.insert(first, row);
            }
            n += 1;
            Ok::<_, LogError>(())
        })?;
    }
    n = 0;
    each(archive, &members, &mut |row| {
        let first = rows.get(&(row.id.clone(), row.epoch)).is_some_and(|&(first, _)| first == n);
        let row = later.remove(&n).unwrap_or(row);
        n += 1;
        if first { f(row) } else { Ok(()) }
    })
}

fn each<E: From<LogError>>(
    archive: &Archive,
    members: &[usize],
    f: &mut dyn FnMut(SummaryRow) -> Result<(), E>,
) -> Result<(), E> {
    for &member in members {
        let entry = &archive.entries()[member];
        let reader = archive.read(entry).map_err(LogError::from)?;
        let mut failed = None;
        let walked = Reader::new(reader).array(|_, r| {
            let Some(raw) = r.raw(ROW_BYTES_MAX)? else { return Ok(()) };
            let Some((id, epoch)) = key(&raw) else { return Ok(()) };
            f(SummaryRow { id, epoch, raw }).map_err(|e| {
                failed = Some(e);
                JsonError::UnexpectedEnd { offset: 0 }
            })
        });
        if let Some(e) = failed {
            return Err(e);
        }
        walked.map_err(|e| LogError::json(&entry.name, e))?;
    }
    Ok(())
}

/// Id as text and epoch of a row.
fn key(raw: &[u8]) -> Option<(String, u64)> {
    let (mut id, mut epoch) = (None, None);
    Reader::with_window(raw, 4096)
        .object(|key, r| {
            match key {
                "id" => id = r.raw(json::KEY_BYTES_MAX)?,
                "epoch" => epoch = r.number()?,
                _ => {}
            }
            Ok::<_, JsonError>(())
        })
        .ok()?;
    Some((id_text(&id?)?, epoch? as u64))
}
