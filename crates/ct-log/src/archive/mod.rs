//! ZIP archives: the directory, the members, and what can be saved when the directory is missing.
//!
//! Written here and not taken from a library, because nearly all of it is about archives that are not as they should
//! be: torn ones are walked by their local headers, repeated names are legal and the last one counts, end records are
//! searched as Python's writer leaves them, and every size is checked against [`Limits`] before it is believed.
//!
//! Cost: opening reads the last `TAIL_BYTES` bytes, and the directory when it does not fit in there; a member is one
//! ranged read. Members are never inflated to be listed.

mod directory;
mod entry;
mod inflater;
mod salvage;

use std::collections::HashMap;
use std::sync::Arc;

pub use entry::{EntryReader, StoredRange};
pub use inflater::Inflater;

use crate::source::Source;
use crate::{Defect, Limits};

/// Bytes read from the end of a file to find its directory: the longest comment and a directory of about 1,500 members.
const TAIL_BYTES: u64 = 256 * 1024;

/// ZIP's numbers for the compression methods in use.
pub mod method {
    /// Bytes as they are.
    pub const STORED: u16 = 0;
    /// Deflate, the default up to Inspect 0.3.205.
    pub const DEFLATE: u16 = 8;
    /// Zstandard, the default since.
    pub const ZSTD: u16 = 93;
}

const LOCAL_SIGNATURE: &[u8; 4] = b"PK\x03\x04";
const CENTRAL_SIGNATURE: &[u8; 4] = b"PK\x01\x02";
const DESCRIPTOR_SIGNATURE: &[u8; 4] = b"PK\x07\x08";
const LOCAL_HEADER_BYTES: u64 = 30;
/// General-purpose flag: the member is encrypted.
const FLAG_ENCRYPTED: u16 = 1;
/// General-purpose flag: sizes and CRC follow the data.
const FLAG_DESCRIPTOR: u16 = 8;
/// What follows then has this length, with sizes of 32 or 64 bits.
const DESCRIPTOR_BYTES: [u64; 2] = [16, 24];

/// Why an archive or a member cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The source failed.
    #[error("reading failed")]
    Io(#[from] std::io::Error),
    /// There is no usable directory; the members may still be there.
    #[error("the central directory is {problem}")]
    Directory {
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The archive asks for more than [`Limits`] grants.
    #[error("the archive exceeds the limit {limit} ({found} > {allowed})")]
    Limit {
        /// Name of the field of [`Limits`].
        limit: &'static str,
        /// What the archive has.
        found: u64,
        /// What is granted.
        allowed: u64,
    },
    /// Two members share bytes, as only bombs do.
    #[error("the archive exceeds the limit entries_overlap: {first:?} and {second:?} share bytes")]
    Overlap {
        /// Name of the first member.
        first: String,
        /// Name of the second.
        second: String,
    },
    /// A member cannot be read.
    #[error("member {name:?} at byte {offset}: {problem}")]
    Member {
        /// Its name.
        name: String,
        /// Offset of its local header.
        offset: u64,
        /// What is wrong with it.
        problem: MemberProblem,
    },
}

/// What is wrong with a member.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MemberProblem {
    /// The file ends before the member does.
    #[error("the file ends inside it")]
    Torn,
    /// No local header where the directory says.
    #[error("no local header there")]
    NoHeader,
    /// The bytes are not what the writer wrote.
    #[error("CRC mismatch (stored {stored:08x}, found {found:08x})")]
    Crc {
        /// As the directory says.
        stored: u32,
        /// As computed.
        found: u32,
    },
    /// It inflates to another size than declared.
    #[error("inflates to {found} bytes instead of {declared}")]
    Size {
        /// As the directory says.
        declared: u64,
        /// As found; at least this when longer.
        found: u64,
    },
    /// The compressed bytes are damaged.
    #[error("damaged {0} data")]
    Damaged(&'static str),
    /// A method other than stored, deflate and zstd.
    #[error("compression method {0} is not supported")]
    Method(u16),
    /// It needs a password.
    #[error("it is encrypted")]
    Encrypted,
}

/// One member of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Name as written, read as UTF-8. Never a path of this machine.
    pub name: String,
    /// See [`method`].
    pub method: u16,
    /// Bytes in the file.
    pub compressed_size: u64,
    /// Bytes inflated.
    pub uncompressed_size: u64,
    /// CRC-32 of the inflated bytes.
    pub crc32: u32,
    /// Offset of the local header.
    pub header_offset: u64,
    flags: u16,
    /// Length of the name as it stands in the file.
    name_bytes: u64,
    /// Where what stands behind it begins: the next member, or the directory.
    next_offset: u64,
}

impl Entry {
    /// The range of its data, which begin at `start`.
    fn range_from(&self, start: u64) -> StoredRange {
        StoredRange {
            method: self.method,
            start,
            compressed_size: self.compressed_size,
            uncompressed_size: self.uncompressed_size,
            crc32: self.crc32,
        }
    }
}

/// An opened archive: the list of its members.
pub struct Archive {
    source: Arc<dyn Source>,
    entries: Vec<Entry>,
    by_name: HashMap<String, usize>,
    limits: Limits,
}

impl Archive {
    /// Reads the directory; when it is missing or broken, finds the members by their local headers. Members that cannot
    /// be read are left out and reported.
    pub fn open(source: Arc<dyn Source>, limits: Limits) -> Result<(Self, Vec<Defect>), ArchiveError> {
        let mut defects = Vec::new();
        let entries = match directory::read(&*source, &limits, &mut defects) {
            Ok(entries) => entries,
            Err(ArchiveError::Directory { problem }) => {
                defects.push(Defect::directory(problem));
                salvage::walk(&source, &limits, &mut defects)?
            }
            Err(other) => return Err(other),
        };
        let by_name = entries.iter().enumerate().map(|(i, e)| (e.name.clone(), i)).collect();
        Ok((Self { source, entries, by_name, limits }, defects))
    }

    /// All members in directory order (physical order when the directory was missing), superseded ones too.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Checks how many pieces something is put together from: they are held in memory as members are.
    pub(crate) fn check_pieces(&self, count: usize) -> Result<(), ArchiveError> {
        if count > self.limits.entries_max {
            return Err(ArchiveError::Limit {
                limit: "entries_max",
                found: count as u64,
                allowed: self.limits.entries_max as u64,
            });
        }
        Ok(())
    }

    /// Checks what is put together from members against the limits for single members and for expansion.
    pub(crate) fn check_assembled(&self, bytes: u64) -> Result<(), ArchiveError> {
        let allowed = self.limits.entry_bytes_max;
        if bytes > allowed {
            return Err(ArchiveError::Limit { limit: "entry_bytes_max", found: bytes, allowed });
        }
        check_expanded(bytes, self.source.size_bytes(), &self.limits)
    }

    /// The member of that name; the last one where there are several.
    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.by_name.get(name).map(|&i| &self.entries[i])
    }

    /// Whether the entry is the one that counts among those of its name.
    pub fn is_current(&self, entry: &Entry) -> bool {
        self.get(&entry.name).is_some_and(|current| current.header_offset == entry.header_offset)
    }

    /// The member's inflated bytes. Size and CRC are checked when the end is reached.
    pub fn read(&self, entry: &Entry) -> Result<EntryReader, ArchiveError> {
        EntryReader::open(&self.source, entry, &self.limits)
    }

    /// Replaces `bytes` by the member's inflated ones, checked, and says where it lies. For members that are fit to be
    /// held: ask the size first.
    pub fn read_whole(
        &self,
        entry: &Entry,
        inflater: &mut Inflater,
        bytes: &mut Vec<u8>,
    ) -> Result<StoredRange, ArchiveError> {
        inflater.inflate(&self.source, entry, &self.limits, bytes)
    }

    /// Whether the member fills its place when its data lies in this range: then no other range can be meant, and nothing
    /// has to be read to know it. False says nothing: some archives have gaps. Then ask [`Archive::stored_range`].
    pub fn is_filled_by(&self, entry: &Entry, range: &StoredRange) -> bool {
        let names_end = entry.header_offset.saturating_add(LOCAL_HEADER_BYTES + entry.name_bytes);
        let data_end = range.start.saturating_add(range.compressed_size);
        let extra = range.start.checked_sub(names_end);
        let behind = entry.next_offset.checked_sub(data_end);
        let descriptors: &[u64] = if entry.flags & FLAG_DESCRIPTOR == 0 { &[0] } else { &DESCRIPTOR_BYTES };
        *range == entry.range_from(range.start)
            && extra.is_some_and(|extra| extra <= entry::EXTRA_SLACK_BYTES)
            && behind.is_some_and(|behind| descriptors.contains(&behind))
    }

    /// Where the member's data lies, as its local header says: one small read.
    pub fn stored_range(&self, entry: &Entry) -> Result<StoredRange, ArchiveError> {
        Ok(entry.range_from(entry::data_start(&*self.source, entry)?))
    }

    /// The member's bytes as they lie in the file, to be copied into another archive unread.
    pub fn read_compressed(&self, entry: &Entry) -> Result<impl std::io::Read + Send + use<>, ArchiveError> {
        Ok(entry::open_data(&self.source, entry)?.1)
    }

    /// A small member whole.
    pub fn read_to_vec(&self, entry: &Entry) -> Result<Vec<u8>, ArchiveError> {
        let bytes_max = self.limits.header_bytes_max;
        if entry.uncompressed_size > bytes_max as u64 {
            return Err(ArchiveError::Limit {
                limit: "header_bytes_max",
                found: entry.uncompressed_size,
                allowed: bytes_max as u64,
            });
        }
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut self.read(entry)?, &mut bytes).map_err(unwrap_io)?;
        Ok(bytes)
    }
}

/// Takes an [`ArchiveError`] back out of the [`std::io::Error`] that carried it through [`std::io::Read`].
pub(crate) fn unwrap_io(error: std::io::Error) -> ArchiveError {
    match error.downcast::<ArchiveError>() {
        Ok(archive) => archive,
        Err(io) => ArchiveError::Io(io),
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// The payload of an extra field.
fn extra_field(extra: &[u8], id: u16) -> Option<&[u8]> {
    let mut rest = extra;
    while rest.len() >= 4 {
        let size = usize::from(u16_at(rest, 2));
        let payload = rest.get(4..4 + size)?;
        if u16_at(rest, 0) == id {
            return Some(payload);
        }
        rest = &rest[4 + size..];
    }
    None
}

/// Replaces 32-bit sentinels by the 64-bit values of the zip64 extra field, in the order the format gives them.
fn widen<const N: usize>(extra: &[u8], fields: [&mut u64; N]) {
    const ZIP64_EXTRA: u16 = 1;
    let Some(payload) = extra_field(extra, ZIP64_EXTRA) else { return };
    let mut at = 0;
    for field in fields {
        if *field == u64::from(u32::MAX) && payload.len() >= at + 8 {
            *field = u64_at(payload, at);
            at += 8;
        }
    }
}

/// Checks the declared size of one member.
fn check_entry(entry: &Entry, limits: &Limits) -> Result<(), ArchiveError> {
    if entry.uncompressed_size > limits.entry_bytes_max {
        return Err(ArchiveError::Limit {
            limit: "entry_bytes_max",
            found: entry.uncompressed_size,
            allowed: limits.entry_bytes_max,
        });
    }
    Ok(())
}

/// Checks that no more than `limits` grant comes out of a file.
fn check_expanded(total: u64, file_bytes: u64, limits: &Limits) -> Result<(), ArchiveError> {
    let over = |limit, found, allowed| Err(ArchiveError::Limit { limit, found, allowed });
    if total > limits.expanded_bytes_max {
        return over("expanded_bytes_max", total, limits.expanded_bytes_max);
    }
    let ratio = total / file_bytes.max(1);
    if total > limits.expansion_free_bytes && ratio > limits.expansion_ratio_max {
        return over("expansion_ratio_max", ratio, limits.expansion_ratio_max);
    }
    Ok(())
}

/// Checks single sizes, the sum of the sizes, and that no bytes are counted twice. Sorts nothing.
fn check_sizes(entries: &[Entry], file_bytes: u64, limits: &Limits) -> Result<(), ArchiveError> {
    let mut total = 0_u64;
    for entry in entries {
        check_entry(entry, limits)?;
        total = total.saturating_add(entry.uncompressed_size);
    }
    check_expanded(total, file_bytes, limits)?;
    let mut order: Vec<&Entry> = entries.iter().collect();
    order.sort_by_key(|e| e.header_offset);
    for pair in order.windows(2) {
        // Without the name: where its bytes are no UTF-8, its length here is not that in the file.
        let end = pair[0].header_offset.saturating_add(LOCAL_HEADER_BYTES + pair[0].compressed_size);
        if pair[1].header_offset < end {
            return Err(ArchiveError::Overlap { first: pair[0].name.clone(), second: pair[1].name.clone() });
        }
    }
    Ok(())
}
