//! Archives made by hand, with each field open to lies.

use std::io::Write;

pub(crate) const STORED: u16 = 0;
pub(crate) const DEFLATE: u16 = 8;
pub(crate) const ZSTD: u16 = 93;

/// One member. Fields left at `None` tell the truth.
#[derive(Clone, Default)]
pub(crate) struct Member {
    pub(crate) name: Vec<u8>,
    pub(crate) method: u16,
    pub(crate) flags: u16,
    /// As it lies in the file.
    pub(crate) data: Vec<u8>,
    pub(crate) crc32: u32,
    pub(crate) size: u64,
    pub(crate) compressed_size: Option<u64>,
    pub(crate) offset: Option<u64>,
    /// Extra field of the local header and of the directory's row.
    pub(crate) local_extra: Vec<u8>,
    pub(crate) central_extra: Vec<u8>,
    /// Sizes and CRC behind the data instead of before it.
    pub(crate) descriptor: bool,
    /// Not in the file, only in the directory.
    pub(crate) no_local: bool,
}

pub(crate) fn member(name: impl AsRef<[u8]>, method: u16, plain: &[u8]) -> Member {
    let data = match method {
        DEFLATE => {
            let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::new(5));
            encoder.write_all(plain).unwrap();
            encoder.finish().unwrap()
        }
        ZSTD => zstd::stream::encode_all(plain, 3).unwrap(),
        _ => plain.to_vec(),
    };
    Member {
        name: name.as_ref().to_vec(),
        method,
        data,
        crc32: crc32fast::hash(plain),
        size: plain.len() as u64,
        ..Member::default()
    }
}

#[derive(Clone, Default)]
pub(crate) struct Zip {
    pub(crate) before: Vec<u8>,
    pub(crate) members: Vec<Member>,
    pub(crate) comment: Vec<u8>,
    /// Write the zip64 records and sentinels.
    pub(crate) zip64: bool,
    /// Offsets count from the beginning of the file, not of the archive.
    pub(crate) offsets_from_file: bool,
}

pub(crate) fn zip(members: Vec<Member>) -> Vec<u8> {
    Zip { members, ..Zip::default() }.bytes()
}

impl Zip {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut out = self.before.clone();
        let base = if self.offsets_from_file { 0 } else { self.before.len() as u64 };
        let mut offsets = Vec::new();
        for m in &self.members {
            offsets.push(out.len() as u64 - base);
            if m.no_local {
                continue;
            }
            let flags = m.flags | if m.descriptor { 8 } else { 0 };
            let compressed = m.compressed_size.unwrap_or(m.data.len() as u64);
            out.extend(b"PK\x03\x04\x14\x00");
            out.extend(flags.to_le_bytes());
            out.extend(m.method.to_le_bytes());
            out.extend([0; 4]);
            let facts = if m.descriptor { (0, 0, 0) } else { (m.crc32, clamp(compressed), clamp(m.size)) };
            out.extend(facts.0.to_le_bytes());
            out.extend(facts.1.to_le_bytes());
            out.extend(facts.2.to_le_bytes());
            out.extend((m.name.len() as u16).to_le_bytes());
            out.extend((m.local_extra.len() as u16).to_le_bytes());
            out.extend(&m.name);
            out.extend(&m.local_extra);
            out.extend(&m.data);
            if m.descriptor {
                out.extend(b"PK\x07\x08");
                out.extend(m.crc32.to_le_bytes());
                out.extend((compressed as u32).to_le_bytes());
                out.extend((m.size as u32).to_le_bytes());
            }
        }
        let directory = out.len() as u64;
        for (m, offset) in self.members.iter().zip(offsets) {
            let compressed = m.compressed_size.unwrap_or(m.data.len() as u64);
            let flags = m.flags | if m.descriptor { 8 } else { 0 };
            out.extend(b"PK\x01\x02\x14\x00\x14\x00");
            out.extend(flags.to_le_bytes());
            out.extend(m.method.to_le_bytes());
            out.extend([0; 4]);
            out.extend(m.crc32.to_le_bytes());
            out.extend(clamp(compressed).to_le_bytes());
            out.extend(clamp(m.size).to_le_bytes());
            out.extend((m.name.len() as u16).to_le_bytes());
            out.extend((m.central_extra.len() as u16).to_le_bytes());
            out.extend([0; 10]);
            out.extend(clamp(m.offset.unwrap_or(offset)).to_le_bytes());
            out.extend(&m.name);
            out.extend(&m.central_extra);
        }
        let size = out.len() as u64 - directory;
        let count = self.members.len();
        if self.zip64 {
            let record = out.len() as u64 - base;
            out.extend(b"PK\x06\x06");
            out.extend(44_u64.to_le_bytes());
            out.extend([45, 0, 45, 0]);
            out.extend([0; 8]);
            out.extend((count as u64).to_le_bytes());
            out.extend((count as u64).to_le_bytes());
            out.extend(size.to_le_bytes());
            out.extend((directory - base).to_le_bytes());
            out.extend(b"PK\x06\x07");
            out.extend([0; 4]);
            out.extend(record.to_le_bytes());
            out.extend(1_u32.to_le_bytes());
        }
        out.extend(b"PK\x05\x06\x00\x00\x00\x00");
        let count = if self.zip64 { u16::MAX } else { count.min(65_535) as u16 };
        out.extend(count.to_le_bytes());
        out.extend(count.to_le_bytes());
        let (size, offset) =
            if self.zip64 { (u32::MAX, u32::MAX) } else { (size as u32, (directory - base) as u32) };
        out.extend(size.to_le_bytes());
        out.extend(offset.to_le_bytes());
        out.extend((self.comment.len() as u16).to_le_bytes());
        out.extend(&self.comment);
        out
    }
}

fn clamp(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// A zip64 extra field.
pub(crate) fn zip64_extra(values: &[u64]) -> Vec<u8> {
    let mut out = vec![1, 0];
    out.extend((values.len() as u16 * 8).to_le_bytes());
    out.extend(values.iter().flat_map(|v| v.to_le_bytes()));
    out
}

/// A small sound log: a header and one sample per id.
pub(crate) fn log(method: u16, ids: &[&str]) -> Vec<Member> {
    let mut members = vec![member(
        "header.json",
        method,
        br#"{"version":2,"status":"success","eval":{"task":"t","created":"2026-01-01T00:00:00+00:00"}}"#,
    )];
    members.extend(ids.iter().map(|id| sample(id, method)));
    members
}

pub(crate) fn sample(id: &str, method: u16) -> Member {
    let document = serde_json::json!({ "id": id, "epoch": 1, "input": "q ".repeat(200), "target": id });
    member(format!("samples/{id}_epoch_1.json"), method, document.to_string().as_bytes())
}
