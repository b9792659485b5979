//! The central directory: found from the end of the file, read in one piece, believed only within limits.

use super::{
    ArchiveError, CENTRAL_SIGNATURE, Entry, FLAG_DESCRIPTOR, FLAG_ENCRYPTED, LOCAL_HEADER_BYTES,
    LOCAL_SIGNATURE, TAIL_BYTES, check_sizes, u16_at, u32_at, u64_at, widen,
};
use crate::source::Source;
use crate::{Defect, Limits};

const END_SIGNATURE: &[u8; 4] = b"PK\x05\x06";
const END_BYTES: usize = 22;
const ZIP64_END_SIGNATURE: &[u8; 4] = b"PK\x06\x06";
const ZIP64_LOCATOR_SIGNATURE: &[u8; 4] = b"PK\x06\x07";
const ZIP64_LOCATOR_BYTES: usize = 20;
const ZIP64_END_BYTES: usize = 56;
const CENTRAL_HEADER_BYTES: usize = 46;

/// Where the directory lies and how far offsets in it are off, because something stands before the archive.
struct Place {
    offset: u64,
    size: u64,
    shift: u64,
}

/// Bytes from the end of the file.
struct Tail {
    bytes: Vec<u8>,
    offset: u64,
}

/// Reads the directory. Members that reach beyond the file are left out and reported.
pub(super) fn read(
    source: &dyn Source,
    limits: &Limits,
    defects: &mut Vec<Defect>,
) -> Result<Vec<Entry>, ArchiveError> {
    let size = source.size_bytes();
    let tail_bytes = size.min(TAIL_BYTES);
    let mut tail = Tail { bytes: vec![0; tail_bytes as usize], offset: size - tail_bytes };
    source.read_exact_at(tail.offset, &mut tail.bytes)?;

    let mut problem = "missing";
    for at in end_records(&tail.bytes) {
        match place(source, &tail, at, limits)? {
            Some(place) => match parse(source, &tail, &place, limits, defects) {
                Err(ArchiveError::Directory { problem: found }) => problem = found,
                other => return other,
            },
            None => problem = "broken",
        }
    }
    Err(ArchiveError::Directory { problem })
}

/// Positions of possible end records, best first: at the very end without a comment, then those whose comment ends where
/// the file ends, then any (bytes may have been appended to the file).
fn end_records(tail: &[u8]) -> Vec<usize> {
    let mut found: Vec<usize> =
        memchr::memmem::find_iter(tail, END_SIGNATURE).filter(|&at| at + END_BYTES <= tail.len()).collect();
    found.reverse();
    let exact = |at: &usize| at + END_BYTES + usize::from(u16_at(tail, at + 20)) == tail.len();
    let (mut best, rest): (Vec<usize>, Vec<usize>) = found.into_iter().partition(exact);
    // Candidates are plenty only in a file made for it; the real one is among the last few.
    const CANDIDATES_MAX: usize = 16;
    best.extend(rest);
    best.truncate(CANDIDATES_MAX);
    best
}

fn place(
    source: &dyn Source,
    tail: &Tail,
    at: usize,
    limits: &Limits,
) -> Result<Option<Place>, ArchiveError> {
    let end = &tail.bytes[at..];
    let count = u16_at(end, 10);
    let mut size = u64::from(u32_at(end, 12));
    let mut offset = u64::from(u32_at(end, 16));
    let mut directory_end = tail.offset + at as u64;

    let sentinel = count == u16::MAX || size == u64::from(u32::MAX) || offset == u64::from(u32::MAX);
    if sentinel
        && at >= ZIP64_LOCATOR_BYTES
        && tail.bytes[at - ZIP64_LOCATOR_BYTES..].starts_with(ZIP64_LOCATOR_SIGNATURE)
    {
        // The record normally stands right before its locator; the locator's own offset may be shifted.
        let locator = directory_end - ZIP64_LOCATOR_BYTES as u64;
        let stated = u64_at(&tail.bytes, at - ZIP64_LOCATOR_BYTES + 8);
        let mut record = [0; ZIP64_END_BYTES];
        for record_offset in [locator.checked_sub(ZIP64_END_BYTES as u64), Some(stated)].into_iter().flatten()
        {
            if record_offset.checked_add(ZIP64_END_BYTES as u64).is_none_or(|end| end > locator) {
                continue;
            }
            source.read_exact_at(record_offset, &mut record)?;
            if record.starts_with(ZIP64_END_SIGNATURE) {
                size = u64_at(&record, 40);
                offset = u64_at(&record, 48);
                directory_end = record_offset;
                break;
            }
        }
    }
    if size > limits.directory_bytes_max && size <= directory_end {
        return Err(ArchiveError::Limit {
            limit: "directory_bytes_max",
            found: size,
            allowed: limits.directory_bytes_max,
        });
    }
    // As Python does, trust that the directory ends where its end record begins.
    let Some(real) = directory_end.checked_sub(size) else { return Ok(None) };
    Ok(real.checked_sub(offset).map(|shift| Place { offset: real, size, shift }))
}

fn parse(
    source: &dyn Source,
    tail: &Tail,
    place: &Place,
    limits: &Limits,
    defects: &mut Vec<Defect>,
) -> Result<Vec<Entry>, ArchiveError> {
    let broken = || ArchiveError::Directory { problem: "broken" };
    if place.shift > 0 {
        let mut start = [0; 4];
        source.read_exact_at(0, &mut start)?;
        if &start == LOCAL_SIGNATURE {
            return Err(ArchiveError::Directory { problem: "that of an archive inside of this one" });
        }
    }
    let owned;
    let mut rest: &[u8] = if place.offset >= tail.offset {
        let from = (place.offset - tail.offset) as usize;
        &tail.bytes[from..from + place.size as usize]
    } else {
        let mut bytes = vec![0; place.size as usize];
        source.read_exact_at(place.offset, &mut bytes)?;
        owned = bytes;
        &owned
    };

    let mut entries: Vec<Entry> = Vec::new();
    let mut torn = Vec::new();
    while !rest.is_empty() {
        if rest.len() < CENTRAL_HEADER_BYTES || !rest.starts_with(CENTRAL_SIGNATURE) {
            return Err(broken());
        }
        let name_bytes = usize::from(u16_at(rest, 28));
        let extra_bytes = usize::from(u16_at(rest, 30));
        let comment_bytes = usize::from(u16_at(rest, 32));
        let name_end = CENTRAL_HEADER_BYTES + name_bytes;
        let next = name_end + extra_bytes + comment_bytes;
        if rest.len() < next {
            return Err(broken());
        }
        let mut entry = Entry {
            name: String::from_utf8_lossy(&rest[CENTRAL_HEADER_BYTES..name_end]).into_owned(),
            method: u16_at(rest, 10),
            compressed_size: u64::from(u32_at(rest, 20)),
            uncompressed_size: u64::from(u32_at(rest, 24)),
            crc32: u32_at(rest, 16),
            header_offset: u64::from(u32_at(rest, 42)),
            flags: u16_at(rest, 8) & (FLAG_ENCRYPTED | FLAG_DESCRIPTOR),
            name_bytes: name_bytes as u64,
            next_offset: 0,
        };
        widen(
            &rest[name_end..name_end + extra_bytes],
            [&mut entry.uncompressed_size, &mut entry.compressed_size, &mut entry.header_offset],
        );
        rest = &rest[next..];
        entry.header_offset = entry.header_offset.saturating_add(place.shift);
        if entries.len() + torn.len() == limits.entries_max {
            return Err(ArchiveError::Limit {
                limit: "entries_max",
                found: limits.entries_max as u64 + 1,
                allowed: limits.entries_max as u64,
            });
        }
        let end =
            entry.header_offset.saturating_add(LOCAL_HEADER_BYTES).saturating_add(entry.compressed_size);
        if end > place.offset {
            torn.push(Defect::member(
                &entry.name,
                entry.header_offset,
                "the directory places it beyond the members",
            ));
        } else {
            entries.push(entry);
        }
    }
    // An empty directory behind other bytes belongs to something else, such as an archive inside of a torn one.
    if entries.is_empty() && place.offset > 0 {
        return Err(broken());
    }
    // The same row twice is harmless; anything else that shares bytes is not.
    let mut seen = std::collections::HashSet::new();
    entries.retain(|e| seen.insert((e.header_offset, e.name.clone())));
    check_sizes(&entries, source.size_bytes(), limits)?;
    find_neighbours(&mut entries, place.offset);
    defects.append(&mut torn);
    Ok(entries)
}

/// Tells each member where the next one begins, the last one where the directory does.
fn find_neighbours(entries: &mut [Entry], directory_offset: u64) {
    let mut order: Vec<&mut Entry> = entries.iter_mut().collect();
    order.sort_by_key(|entry| std::cmp::Reverse(entry.header_offset));
    let mut next_offset = directory_offset;
    for entry in order {
        entry.next_offset = next_offset;
        next_offset = entry.header_offset;
    }
}
