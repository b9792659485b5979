//! A ZIP archive, written member by member.
//!
//! Members stand in the file whole or not at all: their data goes in first, and the local header, which is zeros until
//! then, last. So a reader that walks the local headers of a torn file finds what was finished and nothing else. The
//! directory is written on request and cut off again by the next member.
//!
//! Cost: each input byte is compressed and hashed once; a member that compresses to less than [`HELD_BYTES_MAX`] is one
//! write. Memory: that much, the compressor, and one directory row for each member.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use zstd::stream::raw::{Encoder, InBuffer, Operation, OutBuffer};

use crate::archive::{StoredRange, method};

/// Input bytes of one zstd frame. Decoders of the web viewer overflow at 256 MiB of compressed data.
const FRAME_BYTES: u64 = 200 << 20;
/// Compressed bytes of a member held in memory before its place in the file is taken.
const HELD_BYTES_MAX: usize = 4 << 20;
/// Room made for the compressor's output at a time.
const OUTPUT_BYTES: usize = 128 * 1024;
/// Inspect's level.
const ZSTD_LEVEL: i32 = 3;

const LOCAL_HEADER_BYTES: usize = 30;
/// General-purpose flag: the name is UTF-8.
const FLAG_UTF8: u16 = 0x800;
/// General-purpose flag: sizes and CRC follow the data.
const FLAG_DESCRIPTOR: u16 = 8;
/// Unix regular file, mode 0600, as Python's writer sets it.
const ATTRIBUTES: u32 = 0o600 << 16;
const HOST_UNIX: u16 = 3 << 8;
/// The first of January 1980: the same input gives the same bytes.
const DATE: u16 = 0x21;
const ZIP64_EXTRA: u16 = 1;
/// An extra field that means nothing, in place of a zip64 field that turned out not to be needed.
const PADDING_EXTRA: u16 = 0xd935;
/// Bytes of a zip64 extra field with both sizes in a local header.
const LOCAL_EXTRA_BYTES: usize = 20;

/// What the directory says of a member.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) method: u16,
    pub(super) crc32: u32,
    pub(super) compressed_size: u64,
    pub(super) uncompressed_size: u64,
    pub(super) offset: u64,
    /// Size and CRC stand behind the data, and the local header leaves them open.
    pub(super) descriptor: bool,
    /// The sizes in its descriptor have 64 bits, whatever they are.
    pub(super) wide: bool,
}

impl Row {
    fn flags(&self) -> u16 {
        let name = if self.name.is_ascii() { 0 } else { FLAG_UTF8 };
        if self.descriptor { name | FLAG_DESCRIPTOR } else { name }
    }

    fn version_needed(&self, zip64: bool) -> u16 {
        match self.method {
            method::ZSTD => 63,
            _ if zip64 => 45,
            _ => 20,
        }
    }
}

/// Sizes and offsets from which on the 64-bit fields are used; tests lower them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sentinels {
    pub(super) size: u64,
    pub(super) count: u64,
}

impl Default for Sentinels {
    fn default() -> Self {
        Self { size: u64::from(u32::MAX), count: u64::from(u16::MAX) }
    }
}

pub(super) struct ArchiveWriter {
    file: File,
    /// Where the next member begins: behind the last finished one.
    end: u64,
    rows: Vec<Row>,
    /// Something stands behind `end`.
    tail: bool,
    encoder: Encoder<'static>,
    held: Vec<u8>,
    sentinels: Sentinels,
    held_bytes_max: usize,
    frame_bytes: u64,
}

impl ArchiveWriter {
    /// Goes on behind `end` in a file that holds the members of `rows` before it.
    pub(super) fn new(file: File, end: u64, rows: Vec<Row>) -> io::Result<Self> {
        Ok(Self {
            file,
            end,
            rows,
            tail: true,
            encoder: Encoder::new(ZSTD_LEVEL)?,
            held: Vec::new(),
            sentinels: Sentinels::default(),
            held_bytes_max: HELD_BYTES_MAX,
            frame_bytes: FRAME_BYTES,
        })
    }

    /// Begins a member. Dropped before [`Member::finish`], it leaves no trace.
    pub(super) fn member(&mut self, name: &str) -> io::Result<Member<'_>> {
        check_name(name)?;
        self.cut_tail()?;
        self.encoder.reinit()?;
        self.held.clear();
        let frame_left = self.frame_bytes;
        Ok(Member {
            archive: self,
            name: name.to_owned(),
            crc: crc32fast::Hasher::new(),
            uncompressed_size: 0,
            spilled: 0,
            frame_left,
            done: false,
        })
    }

    /// A member whose content is at hand.
    pub(super) fn add(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        let mut member = self.member(name)?;
        member.write_all(content)?;
        member.finish()
    }

    /// A member that is compressed already. The caller knows that range and data belong together.
    pub(super) fn add_compressed(
        &mut self,
        name: &str,
        range: &StoredRange,
        data: &mut dyn Read,
    ) -> io::Result<()> {
        check_name(name)?;
        self.cut_tail()?;
        let row = Row {
            name: name.to_owned(),
            method: range.method,
            crc32: range.crc32,
            compressed_size: range.compressed_size,
            uncompressed_size: range.uncompressed_size,
            offset: self.end,
            descriptor: false,
            wide: false,
        };
        let reserve = row.compressed_size.max(row.uncompressed_size) >= self.sentinels.size;
        let header = local_header(&row, self.sentinels, reserve);
        self.tail = true;
        let header_bytes = header.len() as u64;
        let copied = self.copy_behind(&header, data);
        match copied {
            Ok(n) if n == range.compressed_size => {
                self.end += header_bytes + n;
                self.rows.push(row);
                self.tail = false;
                Ok(())
            }
            Ok(_) => {
                self.cut_tail()?;
                Err(io::ErrorKind::UnexpectedEof.into())
            }
            Err(e) => {
                // The first failure is the one to tell.
                let _ = self.cut_tail();
                Err(e)
            }
        }
    }

    /// Writes zeros in place of the header, the data, then the header.
    fn copy_behind(&mut self, header: &[u8], data: &mut dyn Read) -> io::Result<u64> {
        self.file.seek(SeekFrom::Start(self.end))?;
        self.file.write_all(&vec![0; header.len()])?;
        let n = io::copy(data, &mut self.file)?;
        self.file.seek(SeekFrom::Start(self.end))?;
        self.file.write_all(header)?;
        Ok(n)
    }

    /// Removes what stands behind the members.
    fn cut_tail(&mut self) -> io::Result<()> {
        if self.tail {
            self.file.set_len(self.end)?;
            self.tail = false;
        }
        Ok(())
    }

    /// Writes the directory, so that the file is a whole archive until the next member begins.
    pub(super) fn write_directory(&mut self) -> io::Result<()> {
        self.cut_tail()?;
        self.tail = true;
        self.file.seek(SeekFrom::Start(self.end))?;
        let mut out = io::BufWriter::with_capacity(OUTPUT_BYTES, &self.file);
        let mut directory_bytes = 0;
        let mut bytes = Vec::new();
        for row in &self.rows {
            bytes.clear();
            central_header(&mut bytes, row, self.sentinels);
            directory_bytes += bytes.len() as u64;
            out.write_all(&bytes)?;
        }
        bytes.clear();
        end_records(&mut bytes, self.rows.len() as u64, directory_bytes, self.end, self.sentinels);
        out.write_all(&bytes)?;
        out.flush()
    }

    /// Makes what was written so far survive a power failure.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }
}

/// The header before a member's data. `reserve`: with room for 64-bit sizes, needed or not.
pub(super) fn local_header(row: &Row, sentinels: Sentinels, reserve: bool) -> Vec<u8> {
    let zip64 = row.wide || row.compressed_size.max(row.uncompressed_size) >= sentinels.size;
    let reserve = reserve || zip64;
    let size = |size: u64| if zip64 { u32::MAX } else { size as u32 };
    let mut header = Vec::with_capacity(LOCAL_HEADER_BYTES + row.name.len() + LOCAL_EXTRA_BYTES);
    header.extend_from_slice(b"PK\x03\x04");
    push16(&mut header, &[row.version_needed(zip64), row.flags(), row.method, 0, DATE]);
    push32(&mut header, &[row.crc32, size(row.compressed_size), size(row.uncompressed_size)]);
    let extra_bytes = if reserve { LOCAL_EXTRA_BYTES } else { 0 };
    push16(&mut header, &[row.name.len() as u16, extra_bytes as u16]);
    header.extend_from_slice(row.name.as_bytes());
    if reserve {
        let id = if zip64 { ZIP64_EXTRA } else { PADDING_EXTRA };
        push16(&mut header, &[id, LOCAL_EXTRA_BYTES as u16 - 4]);
        let sizes = if zip64 { [row.uncompressed_size, row.compressed_size] } else { [0, 0] };
        push64(&mut header, &sizes);
    }
    header
}

/// What stands behind the directory, which begins at `end` and has `count` rows.
pub(super) fn end_records(
    out: &mut Vec<u8>,
    count: u64,
    directory_bytes: u64,
    end: u64,
    sentinels: Sentinels,
) {
    let zip64 = count >= sentinels.count || directory_bytes >= sentinels.size || end >= sentinels.size;
    if zip64 {
        out.extend_from_slice(b"PK\x06\x06");
        push64(out, &[44]);
        push16(out, &[HOST_UNIX | 45, 45]);
        push32(out, &[0, 0]);
        push64(out, &[count, count, directory_bytes, end]);
        out.extend_from_slice(b"PK\x06\x07");
        push32(out, &[0]);
        push64(out, &[end + directory_bytes]);
        push32(out, &[1]);
    }
    let small = |n: u64, from: u64, or: u64| if n >= from { or } else { n };
    let count = small(count, sentinels.count, u64::from(u16::MAX)) as u16;
    out.extend_from_slice(b"PK\x05\x06");
    push16(out, &[0, 0, count, count]);
    let size = |n| small(n, sentinels.size, u64::from(u32::MAX)) as u32;
    push32(out, &[size(directory_bytes), size(end)]);
    push16(out, &[0]);
}

pub(super) fn central_header(out: &mut Vec<u8>, row: &Row, sentinels: Sentinels) {
    let mut wide = Vec::new();
    let mut small = |n: u64| {
        if n >= sentinels.size {
            wide.push(n);
            u32::MAX
        } else {
            n as u32
        }
    };
    // In the order of the zip64 extra field.
    let uncompressed_size = small(row.uncompressed_size);
    let compressed_size = small(row.compressed_size);
    let offset = small(row.offset);
    let extra_bytes = if wide.is_empty() { 0 } else { 4 + 8 * wide.len() as u16 };
    let version = row.version_needed(!wide.is_empty());
    out.extend_from_slice(b"PK\x01\x02");
    push16(out, &[HOST_UNIX | version, version, row.flags(), row.method, 0, DATE]);
    push32(out, &[row.crc32, compressed_size, uncompressed_size]);
    push16(out, &[row.name.len() as u16, extra_bytes, 0, 0, 0]);
    push32(out, &[ATTRIBUTES, offset]);
    out.extend_from_slice(row.name.as_bytes());
    if !wide.is_empty() {
        push16(out, &[ZIP64_EXTRA, extra_bytes - 4]);
        push64(out, &wide);
    }
}

pub(super) fn check_name(name: &str) -> io::Result<()> {
    if name.len() > usize::from(u16::MAX) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "a member's name is longer than 65,535 bytes",
        ));
    }
    Ok(())
}

fn push16(out: &mut Vec<u8>, numbers: &[u16]) {
    for n in numbers {
        out.extend_from_slice(&n.to_le_bytes());
    }
}

pub(super) fn push32(out: &mut Vec<u8>, numbers: &[u32]) {
    for n in numbers {
        out.extend_from_slice(&n.to_le_bytes());
    }
}

pub(super) fn push64(out: &mut Vec<u8>, numbers: &[u64]) {
    for n in numbers {
        out.extend_from_slice(&n.to_le_bytes());
    }
}

/// A member being written.
pub(super) struct Member<'a> {
    archive: &'a mut ArchiveWriter,
    name: String,
    crc: crc32fast::Hasher,
    uncompressed_size: u64,
    /// Compressed bytes in the file already; the rest is held.
    spilled: u64,
    frame_left: u64,
    done: bool,
}

impl Member<'_> {
    fn compress(&mut self, mut input: &[u8]) -> io::Result<()> {
        while !input.is_empty() {
            if self.frame_left == 0 {
                self.end_frame()?;
                self.archive.encoder.reinit()?;
                self.frame_left = self.archive.frame_bytes;
            }
            let n = input.len().min(usize::try_from(self.frame_left).unwrap_or(usize::MAX));
            let mut piece = InBuffer::around(&input[..n]);
            while piece.pos() < n {
                let held = &mut self.archive.held;
                held.reserve(OUTPUT_BYTES);
                let at = held.len();
                self.archive.encoder.run(&mut piece, &mut OutBuffer::around_pos(held, at))?;
                self.spill(self.archive.held_bytes_max)?;
            }
            self.frame_left -= n as u64;
            input = &input[n..];
        }
        Ok(())
    }

    fn end_frame(&mut self) -> io::Result<()> {
        loop {
            let held = &mut self.archive.held;
            held.reserve(OUTPUT_BYTES);
            let at = held.len();
            let left = self.archive.encoder.finish(&mut OutBuffer::around_pos(held, at), true)?;
            self.spill(self.archive.held_bytes_max)?;
            if left == 0 {
                return Ok(());
            }
        }
    }

    /// Moves the held bytes into the file when there are more of them than `held_max`.
    fn spill(&mut self, held_max: usize) -> io::Result<()> {
        let archive = &mut *self.archive;
        if archive.held.len() <= held_max {
            return Ok(());
        }
        if self.spilled == 0 {
            archive.tail = true;
            archive.file.seek(SeekFrom::Start(archive.end))?;
            archive.file.write_all(&vec![0; LOCAL_HEADER_BYTES + self.name.len() + LOCAL_EXTRA_BYTES])?;
        }
        archive.file.write_all(&archive.held)?;
        self.spilled += archive.held.len() as u64;
        archive.held.clear();
        Ok(())
    }

    /// Ends the data and writes the local header.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.end_frame()?;
        if self.spilled > 0 {
            self.spill(0)?;
        }
        let archive = &mut *self.archive;
        let row = Row {
            name: std::mem::take(&mut self.name),
            method: method::ZSTD,
            crc32: self.crc.clone().finalize(),
            compressed_size: self.spilled + archive.held.len() as u64,
            uncompressed_size: self.uncompressed_size,
            offset: archive.end,
            descriptor: false,
            wide: false,
        };
        let wide = row.compressed_size.max(row.uncompressed_size) >= archive.sentinels.size;
        let mut header = local_header(&row, archive.sentinels, wide || self.spilled > 0);
        let member_bytes = header.len() as u64 + row.compressed_size;
        archive.tail = true;
        archive.file.seek(SeekFrom::Start(archive.end))?;
        header.append(&mut archive.held);
        archive.file.write_all(&header)?;
        archive.end += member_bytes;
        archive.tail = false;
        archive.rows.push(row);
        self.done = true;
        Ok(())
    }
}

impl Write for Member<'_> {
    fn write(&mut self, input: &[u8]) -> io::Result<usize> {
        self.crc.update(input);
        self.uncompressed_size += input.len() as u64;
        self.compress(input)?;
        Ok(input.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        if !self.done {
            // What is left behind is cut off by the next member or by the directory if not now.
            let _ = self.archive.cut_tail();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::archive::Archive;
    use crate::source::FileSource;
    use crate::{Defect, Limits};

    fn new() -> (tempfile::TempDir, std::path::PathBuf, ArchiveWriter) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.zip");
        let writer = ArchiveWriter::new(File::create_new(&path).unwrap(), 0, Vec::new()).unwrap();
        (dir, path, writer)
    }

    fn read(path: &std::path::Path) -> (Vec<(String, Vec<u8>)>, Vec<Defect>) {
        let (archive, defects) =
            Archive::open(Arc::new(FileSource::open(path).unwrap()), Limits::default()).unwrap();
        let members =
            archive.entries().iter().map(|e| (e.name.clone(), archive.read_to_vec(e).unwrap())).collect();
        (members, defects)
    }

    /// Bytes that do not compress.
    fn noise(n: usize) -> Vec<u8> {
        let mut state = 1_u64;
        (0..n)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 56) as u8
            })
            .collect()
    }

    #[test]
    fn frames_spills_and_wide_fields_read_back() {
        for (size, count, held, frame) in [
            (u64::from(u32::MAX), 65_535, HELD_BYTES_MAX, FRAME_BYTES),
            (u64::from(u32::MAX), 65_535, 1_000, 70_000),
            (1_000, 2, 1_000, 999),
            (1_000, 65_535, HELD_BYTES_MAX, 70_000),
        ] {
            let (_dir, path, mut writer) = new();
            writer.sentinels = Sentinels { size, count };
            writer.held_bytes_max = held;
            writer.frame_bytes = frame;
            let members = [
                ("empty".to_owned(), Vec::new()),
                ("noise/ä\n..".to_owned(), noise(200_000)),
                ("small".to_owned(), b"x".repeat(999)),
                ("even".to_owned(), b"y".repeat(2 * 70_000)),
            ];
            for (name, content) in &members {
                let mut member = writer.member(name).unwrap();
                for piece in content.chunks(7_777) {
                    member.write_all(piece).unwrap();
                }
                member.finish().unwrap();
            }
            writer.write_directory().unwrap();
            let (found, defects) = read(&path);
            assert_eq!(found, members);
            assert_eq!(defects, []);

            // Without its directory the archive is found by the local headers, which so must say the same.
            let end = writer.end;
            drop(writer);
            File::options().write(true).open(&path).unwrap().set_len(end).unwrap();
            let (found, defects) = read(&path);
            assert_eq!(found, members);
            assert_eq!(defects.len(), 1, "{defects:?}");
        }
    }

    #[test]
    fn a_member_given_up_leaves_no_trace() {
        let (_dir, path, mut writer) = new();
        writer.held_bytes_max = 1_000;
        writer.add("a", b"first").unwrap();
        writer.write_directory().unwrap();
        let before = std::fs::read(&path).unwrap();
        let mut member = writer.member("b").unwrap();
        member.write_all(&noise(500_000)).unwrap();
        drop(member);
        let short = StoredRange { method: 0, start: 0, compressed_size: 10, uncompressed_size: 10, crc32: 0 };
        assert!(writer.add_compressed("c", &short, &mut &b"123"[..]).is_err());
        writer.write_directory().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), before);
        assert!(writer.add(&"n".repeat(70_000), b"").is_err());
    }

    #[test]
    fn archives_beyond_4_gib_and_65535_members() {
        let (_dir, path, mut writer) = new();
        writer.add("first", b"1").unwrap();
        // A hole instead of gigabytes of data.
        writer.end = 5 << 30;
        writer.file.set_len(writer.end).unwrap();
        for i in 0..70_000_u32 {
            let content = i.to_string();
            let range = StoredRange {
                method: 0,
                start: 0,
                compressed_size: content.len() as u64,
                uncompressed_size: content.len() as u64,
                crc32: crc32fast::hash(content.as_bytes()),
            };
            writer.add_compressed(&content, &range, &mut content.as_bytes()).unwrap();
        }
        writer.write_directory().unwrap();
        let (archive, defects) =
            Archive::open(Arc::new(FileSource::open(&path).unwrap()), Limits::default()).unwrap();
        assert_eq!(defects, []);
        assert_eq!(archive.entries().len(), 70_001);
        for name in ["first", "0", "69999"] {
            let content = archive.read_to_vec(archive.get(name).unwrap()).unwrap();
            assert_eq!(content, if name == "first" { b"1" } else { name.as_bytes() });
        }
        // The same by another's reader, where there is one.
        let Some(python) = std::env::var_os("CT_TEST_PYTHON") else { return };
        let program = "import sys,zipfile
z=zipfile.ZipFile(sys.argv[1]); assert len(z.namelist())==70001
for n in ('0','40000','69999'): assert z.read(n)==n.encode(), n";
        let done = std::process::Command::new(python).args(["-c", program]).arg(&path).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
}
