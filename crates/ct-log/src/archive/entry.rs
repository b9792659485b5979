//! One member: its local header, its data, and the check of both.

use std::io::{self, BufReader, Read};
use std::sync::Arc;

use super::{
    ArchiveError, Entry, FLAG_ENCRYPTED, LOCAL_HEADER_BYTES, LOCAL_SIGNATURE, MemberProblem, method, u16_at,
};
use crate::Limits;
use crate::source::Source;

/// Bytes of a local header's extra field that one ranged read allows for. Inspect writes 20 at most.
pub(super) const EXTRA_SLACK_BYTES: u64 = 256;
/// Bytes read ahead of a deflate decoder.
const DEFLATE_BUFFER_BYTES: usize = 64 * 1024;

/// Where some inflated bytes lie in a file, and how to check them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRange {
    /// See [`method`].
    pub method: u16,
    /// Offset of the first data byte.
    pub start: u64,
    /// Bytes in the file.
    pub compressed_size: u64,
    /// Bytes inflated.
    pub uncompressed_size: u64,
    /// CRC-32 of the inflated bytes.
    pub crc32: u32,
}

/// Reads a local header and hands out the data behind it, in one request unless the header is unusually long.
pub(super) fn open_data(
    source: &Arc<dyn Source>,
    entry: &Entry,
) -> Result<(u64, Box<dyn Read + Send>), ArchiveError> {
    let name_slack = entry.name.len() as u64 + EXTRA_SLACK_BYTES;
    // Without a directory a header can claim any size.
    let wanted = entry.compressed_size.saturating_add(LOCAL_HEADER_BYTES + name_slack);
    let available = source.size_bytes().saturating_sub(entry.header_offset);
    let mut stream = Arc::clone(source).stream(entry.header_offset, wanted.min(available))?;

    let mut header = [0; LOCAL_HEADER_BYTES as usize];
    stream.read_exact(&mut header).map_err(|e| torn_or_io(entry, e))?;
    let (names, start) = names_and_start(&header, &**source, entry)?;
    if names > name_slack {
        stream = Arc::clone(source).stream(start, entry.compressed_size)?;
    } else {
        io::copy(&mut (&mut stream).take(names), &mut io::sink()).map_err(|e| torn_or_io(entry, e))?;
    }
    Ok((start, Box::new(FromSource(stream.take(entry.compressed_size)))))
}

/// The offset of a member's first data byte.
pub(super) fn data_start(source: &dyn Source, entry: &Entry) -> Result<u64, ArchiveError> {
    let mut header = [0; LOCAL_HEADER_BYTES as usize];
    source.read_exact_at(entry.header_offset, &mut header).map_err(|e| torn_or_io(entry, e))?;
    Ok(names_and_start(&header, source, entry)?.1)
}

/// The length of what stands between a local header and the data, and where the data begins.
fn names_and_start(header: &[u8], source: &dyn Source, entry: &Entry) -> Result<(u64, u64), ArchiveError> {
    if !header.starts_with(LOCAL_SIGNATURE) {
        return Err(problem(entry, MemberProblem::NoHeader));
    }
    let names = u64::from(u16_at(header, 26)) + u64::from(u16_at(header, 28));
    let start = entry.header_offset.saturating_add(LOCAL_HEADER_BYTES + names);
    if start.saturating_add(entry.compressed_size) > source.size_bytes() {
        return Err(problem(entry, MemberProblem::Torn));
    }
    Ok((names, start))
}

/// Marks errors of the source, so that they are told apart from a decoder's.
struct FromSource<R>(R);

impl<R: Read> Read for FromSource<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(|e| io::Error::new(e.kind(), ArchiveError::Io(e)))
    }
}

fn problem(entry: &Entry, problem: MemberProblem) -> ArchiveError {
    ArchiveError::Member { name: entry.name.clone(), offset: entry.header_offset, problem }
}

fn torn_or_io(entry: &Entry, error: io::Error) -> ArchiveError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => problem(entry, MemberProblem::Torn),
        _ => ArchiveError::Io(error),
    }
}

enum Decoder {
    Stored(Box<dyn Read + Send>),
    Deflate(flate2::bufread::DeflateDecoder<BufReader<Box<dyn Read + Send>>>),
    Zstd(Box<zstd::stream::read::Decoder<'static, BufReader<Box<dyn Read + Send>>>>),
}

/// Inflates a member. Its end is an error unless size and CRC are as declared.
pub struct EntryReader {
    decoder: Decoder,
    entry: Entry,
    start: u64,
    hasher: crc32fast::Hasher,
    produced: u64,
}

impl EntryReader {
    pub(super) fn open(
        source: &Arc<dyn Source>,
        entry: &Entry,
        limits: &Limits,
    ) -> Result<Self, ArchiveError> {
        if entry.flags & FLAG_ENCRYPTED != 0 {
            return Err(problem(entry, MemberProblem::Encrypted));
        }
        let (start, data) = open_data(source, entry)?;
        Self::decode(entry.clone(), start, data, limits)
    }

    /// Reads bytes whose place is known, without the archive's directory: one ranged read. `name` is for messages.
    pub fn of_range(
        source: &Arc<dyn Source>,
        name: &str,
        range: &StoredRange,
        limits: &Limits,
    ) -> Result<Self, ArchiveError> {
        let entry = Entry {
            name: name.to_owned(),
            method: range.method,
            compressed_size: range.compressed_size,
            uncompressed_size: range.uncompressed_size,
            crc32: range.crc32,
            header_offset: range.start,
            flags: 0,
            name_bytes: 0,
            next_offset: range.start.saturating_add(range.compressed_size),
        };
        let end = range.start.checked_add(range.compressed_size);
        if end.is_none_or(|end| end > source.size_bytes()) {
            return Err(problem(&entry, MemberProblem::Torn));
        }
        let data = FromSource(Arc::clone(source).stream(range.start, range.compressed_size)?);
        Self::decode(entry, range.start, Box::new(data), limits)
    }

    fn decode(
        entry: Entry,
        start: u64,
        data: Box<dyn Read + Send>,
        limits: &Limits,
    ) -> Result<Self, ArchiveError> {
        let decoder = match entry.method {
            method::STORED => Decoder::Stored(data),
            method::DEFLATE => Decoder::Deflate(flate2::bufread::DeflateDecoder::new(
                BufReader::with_capacity(DEFLATE_BUFFER_BYTES, data),
            )),
            method::ZSTD => {
                let mut decoder = zstd::stream::read::Decoder::new(data)?;
                decoder.window_log_max(limits.zstd_window_log_max)?;
                Decoder::Zstd(Box::new(decoder))
            }
            other => return Err(problem(&entry, MemberProblem::Method(other))),
        };
        Ok(Self { decoder, entry, start, hasher: crc32fast::Hasher::new(), produced: 0 })
    }

    /// Where the member's bytes lie.
    pub fn stored_range(&self) -> StoredRange {
        self.entry.range_from(self.start)
    }

    fn fail(&self, found: MemberProblem) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, problem(&self.entry, found))
    }

    /// An error of the decoder means damaged data, unless the source itself failed.
    fn decode_error(&self, error: io::Error, codec: &'static str) -> io::Error {
        match error.get_ref() {
            Some(inner) if inner.is::<ArchiveError>() => error,
            _ => self.fail(MemberProblem::Damaged(codec)),
        }
    }

    fn check_end(&self) -> io::Result<()> {
        if self.produced != self.entry.uncompressed_size {
            return Err(self
                .fail(MemberProblem::Size { declared: self.entry.uncompressed_size, found: self.produced }));
        }
        let found = self.hasher.clone().finalize();
        if found != self.entry.crc32 {
            return Err(self.fail(MemberProblem::Crc { stored: self.entry.crc32, found }));
        }
        Ok(())
    }
}

impl Read for EntryReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (result, codec) = match &mut self.decoder {
            Decoder::Stored(data) => (data.read(buffer), "stored"),
            Decoder::Deflate(decoder) => (decoder.read(buffer), "deflate"),
            Decoder::Zstd(decoder) => (decoder.read(buffer), "zstd"),
        };
        let n = result.map_err(|e| self.decode_error(e, codec))?;
        if n == 0 && !buffer.is_empty() {
            self.check_end()?;
            return Ok(0);
        }
        self.hasher.update(&buffer[..n]);
        self.produced += n as u64;
        if self.produced > self.entry.uncompressed_size {
            return Err(self
                .fail(MemberProblem::Size { declared: self.entry.uncompressed_size, found: self.produced }));
        }
        Ok(n)
    }
}
