//! Members inflated whole, into memory.

use std::io::Read;
use std::sync::Arc;

use super::entry::{EntryReader, StoredRange, open_data};
use super::{ArchiveError, Entry, FLAG_ENCRYPTED, method, unwrap_io};
use crate::Limits;
use crate::source::Source;

/// Inflates whole members one after another, in memory that it uses again.
///
/// What a member repeats is found in the bytes already there, so none are kept in a window and copied out of it as a
/// stream does: half the memory to go through, which then stays near the core.
#[derive(Default)]
pub struct Inflater {
    compressed: Vec<u8>,
    zstd: zstd::bulk::Decompressor<'static>,
}

impl Inflater {
    /// Replaces `bytes` by those of a member. The caller has seen that its size is fit to be held.
    pub(super) fn inflate(
        &mut self,
        source: &Arc<dyn Source>,
        entry: &Entry,
        limits: &Limits,
        bytes: &mut Vec<u8>,
    ) -> Result<StoredRange, ArchiveError> {
        bytes.clear();
        // Without a directory a size is what the writer claims: what cannot be held is left to the stream to refuse.
        let small = entry.compressed_size <= entry.uncompressed_size;
        if small && entry.method == method::ZSTD && entry.flags & FLAG_ENCRYPTED == 0 {
            let (start, mut data) = open_data(source, entry)?;
            self.compressed.resize(entry.compressed_size as usize, 0);
            data.read_exact(&mut self.compressed).map_err(unwrap_io)?;
            bytes.reserve(entry.uncompressed_size as usize);
            if window_bytes(&self.compressed) <= 1 << limits.zstd_window_log_max
                && self.zstd.decompress_to_buffer(&self.compressed, bytes).is_ok()
                && bytes.len() as u64 == entry.uncompressed_size
                && crc32fast::hash(bytes) == entry.crc32
            {
                return Ok(entry.range_from(start));
            }
            bytes.clear();
        }
        // All other methods, and damage: the stream says what is wrong.
        let mut reader = EntryReader::open(source, entry, limits)?;
        bytes.reserve(entry.uncompressed_size as usize);
        reader.read_to_end(bytes).map_err(unwrap_io)?;
        Ok(reader.stored_range())
    }
}

/// The window that a zstd frame asks of a stream, by its header. None is made here, but what one way of reading refuses
/// the other has to refuse as well.
fn window_bytes(frame: &[u8]) -> u64 {
    const ONE_SEGMENT: u8 = 0x20;
    match frame {
        [_, _, _, _, flags, window, ..] if flags & ONE_SEGMENT == 0 => {
            (8 + u64::from(window & 7)) << (7 + (window >> 3))
        }
        _ => 0,
    }
}
