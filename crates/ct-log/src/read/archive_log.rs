//! A log in a ZIP archive.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Header, Location, LogError, SampleEntry, assemble, header};
use crate::archive::{Archive, ArchiveError};
use crate::format::{self, HEADER, JOURNAL_CONFIG_UPDATES, JOURNAL_START};
use crate::json::Reader;
use crate::source::Source;
use crate::{Defect, Limits};

pub(super) struct ArchiveLog {
    pub(super) archive: Arc<Archive>,
    pub(super) samples: Vec<SampleEntry>,
    pub(super) defects: Vec<Defect>,
}

impl ArchiveLog {
    pub(super) fn open(source: Arc<dyn Source>, limits: Limits) -> Result<Self, LogError> {
        let (archive, mut defects) = Archive::open(source, limits)?;
        if archive.entries().is_empty() && !defects.is_empty() {
            return Err(LogError::NotALog {
                problem: "neither a JSON document nor an archive with any whole member",
            });
        }
        let samples = list(&archive);
        let known = |name: &str| {
            name == HEADER
                || name == JOURNAL_START
                || name.starts_with(format::SAMPLES)
                || name.starts_with("_journal/")
        };
        if !archive.entries().iter().any(|e| known(&e.name)) {
            return Err(LogError::NotALog { problem: "an archive, but without any member of an eval log" });
        }
        for entry in archive.entries() {
            let hostile =
                entry.name.starts_with(['/', '\\']) || entry.name.split(['/', '\\']).any(|part| part == "..");
            if hostile && !entry.name.starts_with(format::SAMPLES) {
                defects.push(Defect::member(
                    &entry.name,
                    entry.header_offset,
                    "ignored: names must be relative and without `..`",
                ));
            }
        }
        Ok(Self { archive: Arc::new(archive), samples, defects })
    }

    /// A member that may be missing.
    pub(super) fn small_member(&self, name: &str) -> Result<Option<Vec<u8>>, LogError> {
        match self.archive.get(name) {
            Some(entry) => Ok(Some(self.archive.read_to_vec(entry)?)),
            None => Ok(None),
        }
    }

    /// The final header, else what the journal says, else nothing but the status.
    pub(super) fn header(&self) -> Result<(Header, Vec<Defect>), LogError> {
        let mut defects = Vec::new();
        match self.small_member(HEADER).and_then(|raw| raw.map(|raw| header(raw, false, HEADER)).transpose())
        {
            Ok(Some(found)) => return Ok((found, defects)),
            Ok(None) => {}
            Err(e @ (LogError::Io(_) | LogError::Archive(ArchiveError::Io(_)))) => return Err(e),
            Err(e) => defects
                .push(Defect::header(format_args!("{HEADER} is unreadable ({e}), taken from the journal"))),
        }
        match self.journal_header() {
            Ok(Some(found)) => return Ok((found, defects)),
            Ok(None) => {
                defects.push(Defect::header("no header and no journal: nothing is known of the eval"))
            }
            Err(e @ (LogError::Io(_) | LogError::Archive(ArchiveError::Io(_)))) => return Err(e),
            Err(e) => defects.push(Defect::header(format_args!("{JOURNAL_START} is unreadable ({e})"))),
        }
        let raw = br#"{"version":2,"status":"started","eval":{}}"#.to_vec();
        Ok((header(raw, true, HEADER)?, defects))
    }

    fn journal_header(&self) -> Result<Option<Header>, LogError> {
        let Some(start) = self.small_member(JOURNAL_START)? else { return Ok(None) };
        let mut members = Vec::new();
        Reader::new(start.as_slice())
            .object(|key, r| {
                if let Some(raw) = r.raw(usize::MAX)? {
                    members.push((key.to_owned(), raw));
                }
                Ok(())
            })
            .map_err(|e| LogError::json(JOURNAL_START, e))?;
        let at = members.iter().position(|(key, _)| key == "version").map_or(0, |i| i + 1);
        members.insert(at, ("status".to_owned(), br#""started""#.to_vec()));
        let mut updates = vec![b'['];
        for (_, entry) in numbered(&self.archive, JOURNAL_CONFIG_UPDATES) {
            if updates.len() > 1 {
                updates.push(b',');
            }
            updates.extend(self.archive.read_to_vec(&self.archive.entries()[entry])?);
        }
        if updates.len() > 1 {
            updates.push(b']');
            members.push(("config_updates".to_owned(), updates));
        }
        Ok(Some(header(assemble(&members), true, JOURNAL_START)?))
    }
}

/// The epoch of a sample whose name tells none. Epochs count from 1.
const ODD_EPOCH: u64 = 0;

/// The current members `<prefix><n>.json` in numeric order, gaps allowed: number and index.
pub(super) fn numbered(archive: &Archive, prefix: &str) -> Vec<(u64, usize)> {
    let mut found: Vec<(u64, usize)> = archive
        .entries()
        .iter()
        .enumerate()
        .filter(|(_, entry)| archive.is_current(entry))
        .filter_map(|(i, entry)| {
            Some((entry.name.strip_prefix(prefix)?.strip_suffix(".json")?.parse().ok()?, i))
        })
        .collect();
    found.sort_unstable();
    found
}

fn list(archive: &Archive) -> Vec<SampleEntry> {
    let mut found: HashMap<(String, u64), Location> = HashMap::new();
    let mut odd = HashMap::new();
    let mut folders = Vec::new();
    for (i, entry) in archive.entries().iter().enumerate() {
        // A whole sample wins over a chunked one, and a later member over an earlier one.
        if let Some((id, epoch)) = format::parse_sample_name(&entry.name) {
            found.insert((id.to_owned(), epoch), Location::Member(i));
        } else if let Some((folder, id, epoch)) = format::parse_shell_name(&entry.name) {
            folders.push(folder);
            found.entry((id.to_owned(), epoch)).or_insert_with(|| Location::Chunked(folder.to_owned()));
        } else if let Some(stem) = format::odd_sample_name(&entry.name) {
            odd.insert(stem, i);
        }
    }
    folders.sort_unstable();
    let in_folder = |name: &str| {
        // The folders that are prefixes of a name sort right before it.
        let next = folders.partition_point(|folder| *folder <= name);
        folders[..next].iter().rev().take(1).any(|folder| name.starts_with(folder))
    };
    // Inspect takes every other member among the samples for one, too; its id and epoch stand in the body alone.
    for (stem, i) in odd {
        let name = &archive.entries()[i].name;
        if !in_folder(name) {
            found.entry((stem.to_owned(), ODD_EPOCH)).or_insert(Location::Member(i));
        }
    }
    let entry = |((id, epoch), location): ((String, u64), Location)| {
        let odd_name = match &location {
            Location::Member(i) if epoch == ODD_EPOCH => Some(archive.entries()[*i].name.clone()),
            _ => None,
        };
        SampleEntry { id, epoch, odd_name, location }
    };
    let mut samples: Vec<SampleEntry> = found.into_iter().map(entry).collect();
    samples.sort_by_cached_key(|s| (format::sample_order(&s.id, s.epoch), s.id.clone()));
    samples
}
