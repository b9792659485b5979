//! A ZIP archive written from front to back into something that cannot go back: a connection.
//!
//! Members whose size and CRC are known stand behind headers that say so, and their compressed bytes are copied as they
//! are. Only what is too large to be compressed in memory first gets its numbers behind it, in a descriptor; it is
//! deflate, whose end can be told without them. Every member can so be read while it arrives.
//!
//! Memory: one buffer of [`HELD_BYTES_MAX`], and the directory (a hundred bytes and the name for each member).

use std::io::{self, Read, Write};

use flate2::Compression;
use flate2::write::DeflateEncoder;

use super::archive::{Row, Sentinels, central_header, check_name, end_records, local_header, push32, push64};
use crate::archive::{StoredRange, method};

/// Bytes that are compressed in memory, so that their header can say what they come to.
const HELD_BYTES_MAX: u64 = 4 << 20;
/// Bytes that do not get smaller worth mentioning.
const SMALL_BYTES: usize = 128;
const COPY_BYTES: usize = 128 << 10;
/// Fast, as it happens while someone waits.
const LEVEL: u32 = 1;

/// Writes an archive of stored and deflated members.
pub struct ZipStream<W> {
    out: Counting<W>,
    directory: Vec<u8>,
    count: u64,
    sentinels: Sentinels,
    held_bytes_max: u64,
}

impl<W: Write> ZipStream<W> {
    /// Begins an archive.
    pub fn new(out: W) -> Self {
        Self {
            out: Counting { out, written: 0 },
            directory: Vec::new(),
            count: 0,
            sentinels: Sentinels::default(),
            held_bytes_max: HELD_BYTES_MAX,
        }
    }

    /// Adds a member whose content is at hand.
    pub fn add(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        check_name(name)?;
        let crc32 = crc32fast::hash(content);
        let mut deflated = Vec::new();
        if content.len() >= SMALL_BYTES {
            let mut encoder = DeflateEncoder::new(&mut deflated, Compression::new(LEVEL));
            encoder.write_all(content)?;
            encoder.finish()?;
        }
        let (method, data) = if !deflated.is_empty() && deflated.len() < content.len() {
            (method::DEFLATE, deflated.as_slice())
        } else {
            (method::STORED, content)
        };
        let row = self.row(name, method, crc32, data.len() as u64, content.len() as u64);
        self.out.write_all(&local_header(&row, self.sentinels, false))?;
        self.out.write_all(data)?;
        self.finish_member(&row);
        Ok(())
    }

    /// Adds a member that is stored or deflated already. The caller knows that range and data belong together.
    pub fn add_compressed(&mut self, name: &str, range: &StoredRange, data: &mut dyn Read) -> io::Result<()> {
        check_name(name)?;
        if !matches!(range.method, method::STORED | method::DEFLATE) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "neither stored nor deflated"));
        }
        let row = self.row(name, range.method, range.crc32, range.compressed_size, range.uncompressed_size);
        self.out.write_all(&local_header(&row, self.sentinels, false))?;
        let copied = copy(&mut data.take(range.compressed_size), &mut self.out)?;
        if copied != range.compressed_size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.finish_member(&row);
        Ok(())
    }

    /// Adds a member that is compressed here. `size_bytes` is the length of `data` when it is known; the data has to be
    /// right, as an error in the middle leaves a broken archive.
    pub fn add_reader(&mut self, name: &str, size_bytes: Option<u64>, data: &mut dyn Read) -> io::Result<()> {
        if size_bytes.is_some_and(|size| size <= self.held_bytes_max) {
            let mut content = Vec::new();
            data.take(self.held_bytes_max + 1).read_to_end(&mut content)?;
            return self.add(name, &content);
        }
        check_name(name)?;
        // Deflate can make a little more of what it cannot make less of.
        let wide = size_bytes.is_none_or(|size| size.saturating_add(size / 64) >= self.sentinels.size);
        let mut row = self.row(name, method::DEFLATE, 0, 0, 0);
        row.descriptor = true;
        row.wide = wide;
        self.out.write_all(&local_header(&row, self.sentinels, false))?;
        let before = self.out.written;
        let mut hasher = crc32fast::Hasher::new();
        let mut encoder = DeflateEncoder::new(&mut self.out, Compression::new(LEVEL));
        let mut buffer = vec![0; COPY_BYTES];
        loop {
            match data.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => {
                    hasher.update(&buffer[..n]);
                    row.uncompressed_size += n as u64;
                    encoder.write_all(&buffer[..n])?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        encoder.finish()?;
        row.crc32 = hasher.finalize();
        row.compressed_size = self.out.written - before;
        let mut descriptor = b"PK\x07\x08".to_vec();
        push32(&mut descriptor, &[row.crc32]);
        if wide {
            push64(&mut descriptor, &[row.compressed_size, row.uncompressed_size]);
        } else {
            // Declared small, and checked by who read it.
            push32(&mut descriptor, &[row.compressed_size as u32, row.uncompressed_size as u32]);
        }
        self.out.write_all(&descriptor)?;
        self.finish_member(&row);
        Ok(())
    }

    /// Sends on what is waiting.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Writes the directory.
    pub fn finish(mut self) -> io::Result<W> {
        let begin = self.out.written;
        self.out.write_all(&self.directory)?;
        let mut end = Vec::new();
        end_records(&mut end, self.count, self.directory.len() as u64, begin, self.sentinels);
        self.out.write_all(&end)?;
        self.out.flush()?;
        Ok(self.out.out)
    }

    fn row(&self, name: &str, method: u16, crc32: u32, compressed_size: u64, uncompressed_size: u64) -> Row {
        Row {
            name: name.to_owned(),
            method,
            crc32,
            compressed_size,
            uncompressed_size,
            offset: self.out.written,
            descriptor: false,
            wide: false,
        }
    }

    fn finish_member(&mut self, row: &Row) {
        central_header(&mut self.directory, row, self.sentinels);
        self.count += 1;
    }
}

fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<u64> {
    let mut buffer = vec![0; COPY_BYTES];
    let mut copied = 0;
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(copied),
            Ok(n) => {
                to.write_all(&buffer[..n])?;
                copied += n as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

struct Counting<W> {
    out: W,
    written: u64,
}

impl<W: Write> Write for Counting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.out.write(bytes)?;
        self.written += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Limits;
    use crate::archive::Archive;

    fn contents(bytes: Vec<u8>) -> Vec<(String, u16, Vec<u8>)> {
        let (archive, defects) = Archive::open(Arc::new(bytes), Limits::default()).unwrap();
        assert!(defects.is_empty(), "{defects:?}");
        let read = |entry| (archive.read_to_vec(entry).unwrap(), entry);
        let members = archive.entries().iter().map(read);
        members.map(|(content, entry)| (entry.name.clone(), entry.method, content)).collect()
    }

    fn written(sentinels: Sentinels, held_bytes_max: u64) -> Vec<u8> {
        let mut zip = ZipStream { sentinels, held_bytes_max, ..ZipStream::new(Vec::new()) };
        let long = b"abc".repeat(1000);
        zip.add("small", b"x").unwrap();
        zip.add("added", &long).unwrap();
        zip.add_reader("known", Some(3000), &mut long.as_slice()).unwrap();
        zip.add_reader("unknown", None, &mut long.as_slice()).unwrap();
        let mut deflated = Vec::new();
        let mut encoder = DeflateEncoder::new(&mut deflated, Compression::best());
        encoder.write_all(&long).unwrap();
        encoder.finish().unwrap();
        let range = StoredRange {
            method: method::DEFLATE,
            start: 0,
            compressed_size: deflated.len() as u64,
            uncompressed_size: 3000,
            crc32: crc32fast::hash(&long),
        };
        zip.add_compressed("copied", &range, &mut deflated.as_slice()).unwrap();
        zip.finish().unwrap()
    }

    #[test]
    fn data_that_ends_too_early_is_an_error() {
        let range = StoredRange {
            method: method::STORED,
            start: 0,
            compressed_size: 3,
            uncompressed_size: 3,
            crc32: 0,
        };
        let mut zip = ZipStream::new(Vec::new());
        assert!(zip.add_compressed("torn", &range, &mut &b"ab"[..]).is_err());
        let zstd = StoredRange { method: method::ZSTD, ..range };
        assert!(zip.add_compressed("other", &zstd, &mut &b"abc"[..]).is_err());
    }

    #[test]
    fn every_form_is_read_as_it_was_written() {
        let long = b"abc".repeat(1000);
        for (size, count) in [(u64::from(u32::MAX), u64::from(u16::MAX)), (1, 1), (2000, 2)] {
            for held in [HELD_BYTES_MAX, 0] {
                let found = contents(written(Sentinels { size, count }, held));
                let names: Vec<&str> = found.iter().map(|(name, ..)| name.as_str()).collect();
                assert_eq!(names, ["small", "added", "known", "unknown", "copied"]);
                assert_eq!((found[0].1, found[0].2.as_slice()), (method::STORED, &b"x"[..]));
                for (name, method, content) in &found[1..] {
                    assert!(*method == method::DEFLATE && *content == long, "{name}");
                }
            }
        }
    }
}
