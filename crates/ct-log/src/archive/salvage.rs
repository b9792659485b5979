//! Finds members without a directory: walks the local headers, keeps what is whole, and looks for the next header where
//! the chain is broken.

use std::io::{self, Read};
use std::sync::Arc;

use super::{
    ArchiveError, DESCRIPTOR_SIGNATURE, Entry, EntryReader, FLAG_DESCRIPTOR, FLAG_ENCRYPTED,
    LOCAL_HEADER_BYTES, LOCAL_SIGNATURE, MemberProblem, check_entry, check_expanded, check_sizes, u16_at,
    u32_at, u64_at, unwrap_io, widen,
};
use crate::source::{Blocks, Source};
use crate::{Defect, Limits};

/// Bytes searched at a time.
const BLOCK_BYTES: usize = 256 * 1024;
/// Defects after which the search is given up.
const DEFECTS_MAX: usize = 10_000;
/// Bytes that may be inflated or searched in vain, per byte of the file, before the search is given up: damage costs
/// little, only a file made for it costs more.
const VAIN_RATIO_MAX: u64 = 64;

/// Lists the whole members in physical order. Each was inflated and checked.
pub(super) fn walk(
    source: &Arc<dyn Source>,
    limits: &Limits,
    defects: &mut Vec<Defect>,
) -> Result<Vec<Entry>, ArchiveError> {
    // The walk is made of many small steps forward, which may not be a request each.
    let source: &Arc<dyn Source> = &(Arc::new(Blocks::new(Arc::clone(source))) as _);
    let file_bytes = source.size_bytes();
    let mut entries = Vec::new();
    let mut vain_left = file_bytes.saturating_mul(VAIN_RATIO_MAX);
    let mut total = 0_u64;
    let mut at = 0;
    while let Some(header_at) = find(&**source, at, LOCAL_SIGNATURE)? {
        let Some((entry, end)) = local_entry(&**source, header_at, &mut vain_left)? else {
            at = header_at + 4;
            continue;
        };
        if entries.len() == limits.entries_max {
            return Err(ArchiveError::Limit {
                limit: "entries_max",
                found: entries.len() as u64 + 1,
                allowed: limits.entries_max as u64,
            });
        }
        if defects.len() >= DEFECTS_MAX {
            defects.push(Defect::given_up(header_at));
            break;
        }
        // A header found among damage may claim anything: what exceeds the limits costs no more than that member.
        let with_this = total.saturating_add(entry.uncompressed_size);
        if let Err(e) =
            check_entry(&entry, limits).and_then(|()| check_expanded(with_this, file_bytes, limits))
        {
            defects.push(Defect::member(&entry.name, header_at, &e.to_string()));
            at = header_at + 4;
            continue;
        }
        match verify(source, &entry, limits) {
            Ok(()) => {
                total = with_this;
                entries.push(entry);
                at = end;
            }
            Err((ArchiveError::Member { problem, .. }, inflated)) => {
                defects.push(Defect::member(&entry.name, header_at, &problem.to_string()));
                if vain_left < inflated {
                    defects.push(Defect::given_up(header_at));
                    break;
                }
                vain_left -= inflated;
                // A member that is damaged inside but followed by another header ends where it says.
                let next = problem != MemberProblem::Torn && starts_with_signature(&**source, end)?;
                at = if next { end } else { header_at + 4 };
            }
            Err((other, _)) => return Err(other),
        }
    }
    check_sizes(&entries, file_bytes, limits)?;
    Ok(entries)
}

/// Inflates a member for its CRC; on failure says how many bytes that took.
fn verify(source: &Arc<dyn Source>, entry: &Entry, limits: &Limits) -> Result<(), (ArchiveError, u64)> {
    let mut reader = EntryReader::open(source, entry, limits).map_err(|e| (e, 0))?;
    let mut buffer = vec![0; BLOCK_BYTES];
    let mut inflated = 0;
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => inflated += n as u64,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err((unwrap_io(e), inflated)),
        }
    }
}

/// Reads a local header. `None` when it cannot be one. The second value is where the member ends, as it says.
fn local_entry(
    source: &dyn Source,
    at: u64,
    vain_left: &mut u64,
) -> Result<Option<(Entry, u64)>, ArchiveError> {
    let file_bytes = source.size_bytes();
    let mut header = [0; LOCAL_HEADER_BYTES as usize];
    if at + LOCAL_HEADER_BYTES > file_bytes {
        return Ok(None);
    }
    source.read_exact_at(at, &mut header)?;
    let name_bytes = usize::from(u16_at(&header, 26));
    let extra_bytes = usize::from(u16_at(&header, 28));
    let start = at + LOCAL_HEADER_BYTES + name_bytes as u64 + extra_bytes as u64;
    if start > file_bytes {
        return Ok(None);
    }
    let mut names = vec![0; name_bytes + extra_bytes];
    source.read_exact_at(at + LOCAL_HEADER_BYTES, &mut names)?;
    let flags = u16_at(&header, 6);
    let mut entry = Entry {
        name: String::from_utf8_lossy(&names[..name_bytes]).into_owned(),
        method: u16_at(&header, 8),
        crc32: u32_at(&header, 14),
        compressed_size: u64::from(u32_at(&header, 18)),
        uncompressed_size: u64::from(u32_at(&header, 22)),
        header_offset: at,
        flags: flags & (FLAG_ENCRYPTED | FLAG_DESCRIPTOR),
        name_bytes: name_bytes as u64,
        next_offset: 0,
    };
    widen(&names[name_bytes..], [&mut entry.uncompressed_size, &mut entry.compressed_size]);
    let mut end = start.saturating_add(entry.compressed_size);
    if flags & FLAG_DESCRIPTOR != 0 && entry.crc32 == 0 && entry.compressed_size == 0 {
        match descriptor(source, start, vain_left)? {
            Some((crc32, compressed_size, uncompressed_size, after)) => {
                entry.crc32 = crc32;
                entry.compressed_size = compressed_size;
                entry.uncompressed_size = uncompressed_size;
                end = after;
            }
            // It does not end: as long as the file, so that it counts as torn.
            None => entry.compressed_size = file_bytes,
        }
    }
    entry.next_offset = end;
    Ok(Some((entry, end)))
}

/// Finds the data descriptor behind data that starts at `start`: CRC, compressed and inflated size, and where it ends.
fn descriptor(
    source: &dyn Source,
    start: u64,
    vain_left: &mut u64,
) -> Result<Option<(u32, u64, u64, u64)>, ArchiveError> {
    let mut at = start;
    while *vain_left > 0 {
        let found = find(source, at, DESCRIPTOR_SIGNATURE)?;
        *vain_left = vain_left.saturating_sub(found.unwrap_or(source.size_bytes()) - at);
        let Some(found) = found else { break };
        let mut bytes = [0; 24];
        let available = (source.size_bytes() - found).min(24) as usize;
        source.read_exact_at(found, &mut bytes[..available])?;
        let length = found - start;
        if available >= 16 && u64::from(u32_at(&bytes, 8)) == length {
            return Ok(Some((u32_at(&bytes, 4), length, u64::from(u32_at(&bytes, 12)), found + 16)));
        }
        if available >= 24 && u64_at(&bytes, 8) == length {
            return Ok(Some((u32_at(&bytes, 4), length, u64_at(&bytes, 16), found + 24)));
        }
        at = found + 4;
    }
    Ok(None)
}

fn starts_with_signature(source: &dyn Source, at: u64) -> Result<bool, ArchiveError> {
    if at + 4 > source.size_bytes() {
        return Ok(at == source.size_bytes());
    }
    let mut bytes = [0; 4];
    source.read_exact_at(at, &mut bytes)?;
    Ok(bytes.starts_with(b"PK"))
}

/// The first position of `needle` at or after `from`.
fn find(source: &dyn Source, from: u64, needle: &[u8; 4]) -> Result<Option<u64>, ArchiveError> {
    let finder = memchr::memmem::Finder::new(needle);
    let mut block = vec![0; BLOCK_BYTES];
    let mut at = from;
    // The next header nearly always stands right here.
    let mut block_bytes = 64;
    while at + needle.len() as u64 <= source.size_bytes() {
        let n = (source.size_bytes() - at).min(block_bytes) as usize;
        source.read_exact_at(at, &mut block[..n])?;
        if let Some(found) = finder.find(&block[..n]) {
            return Ok(Some(at + found as u64));
        }
        at += (n - needle.len() + 1) as u64;
        block_bytes = BLOCK_BYTES as u64;
    }
    Ok(None)
}
