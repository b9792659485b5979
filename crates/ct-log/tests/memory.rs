//! The memory that reading takes does not grow with what is read. In a binary of its own, because the measure is the peak
//! of the whole process.
#![cfg(target_os = "linux")]

use std::io;
use std::sync::Arc;

use ct_log::json::Reader;
use ct_log::source::Source;
use ct_log::{Limits, Log};

const SAMPLE_BYTES: u64 = 300 << 20;
const PEAK_BYTES_MAX: u64 = 40 << 20;

/// A file that is made up as it is read: a beginning, one unit again and again, an end.
struct Made {
    head: Vec<u8>,
    unit: Vec<u8>,
    count: u64,
    tail: Vec<u8>,
}

impl Made {
    fn body_end(&self) -> u64 {
        self.head.len() as u64 + self.unit.len() as u64 * self.count
    }
}

impl Source for Made {
    fn size_bytes(&self) -> u64 {
        self.body_end() + self.tail.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let head = self.head.len() as u64;
        let piece = if offset < head {
            &self.head[offset as usize..]
        } else if offset < self.body_end() {
            &self.unit[((offset - head) % self.unit.len() as u64) as usize..]
        } else {
            let from = (offset - self.body_end()).min(self.tail.len() as u64);
            &self.tail[from as usize..]
        };
        let n = piece.len().min(buffer.len());
        buffer[..n].copy_from_slice(&piece[..n]);
        Ok(n)
    }
}

/// One event with a long text.
fn unit() -> Vec<u8> {
    format!(r#"{{"event":"info","data":{{"text":"{}\n","list":[1,2.5,null]}}}},"#, "word ".repeat(20_000))
        .into_bytes()
}

/// A log with one stored sample of [`SAMPLE_BYTES`].
fn archive() -> Made {
    let unit = unit();
    let count = SAMPLE_BYTES / unit.len() as u64;
    let start = br#"{"id":"big","epoch":1,"events":["#;
    let end = b"null]}";
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(start);
    for _ in 0..count {
        hasher.update(&unit);
    }
    hasher.update(end);
    let size = start.len() as u64 + unit.len() as u64 * count + end.len() as u64;
    let name = b"samples/big_epoch_1.json";

    // Version, flags, method, time, date, then what local header and directory row have in common.
    let mut common = vec![20, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    common.extend(hasher.finalize().to_le_bytes());
    common.extend((size as u32).to_le_bytes());
    common.extend((size as u32).to_le_bytes());
    common.extend((name.len() as u16).to_le_bytes());
    common.extend([0, 0]);

    let mut head = b"PK\x03\x04".to_vec();
    head.extend(&common);
    head.extend(name);
    let directory = head.len() as u64 + size;
    head.extend(start);
    let mut tail = end.to_vec();
    tail.extend(b"PK\x01\x02\x14\x00");
    tail.extend(&common);
    tail.extend([0; 14]);
    tail.extend(name);
    let directory_bytes = tail.len() - end.len();
    tail.extend(b"PK\x05\x06\0\0\0\0\x01\0\x01\0");
    tail.extend((directory_bytes as u32).to_le_bytes());
    tail.extend((directory as u32).to_le_bytes());
    tail.extend([0, 0]);
    Made { head, unit, count, tail }
}

/// A JSON log with one sample of [`SAMPLE_BYTES`].
fn document() -> Made {
    let unit = unit();
    let count = SAMPLE_BYTES / unit.len() as u64;
    let head =
        br#"{"version":2,"status":"success","eval":{},"samples":[{"id":"big","epoch":1,"events":["#.to_vec();
    Made { head, unit, count, tail: b"null]}]}".to_vec() }
}

/// The most memory the process has had so far.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux states it");
    line.trim_end_matches("kB").trim().parse::<u64>().expect("a number of KiB") * 1024
}

#[test]
fn a_sample_larger_than_memory_is_read_through_a_window() {
    for made in [archive(), document()] {
        let log = Log::from_source(Arc::new(made), Limits::default()).unwrap();
        let sample = log.sample("big", 1).unwrap();
        let size = log.read_sample(sample).unwrap().stored_range().unwrap().uncompressed_size;
        assert!(size > SAMPLE_BYTES * 99 / 100);

        // Skipped as a whole.
        let mut reader = Reader::new(log.read_sample(sample).unwrap());
        reader.skip().unwrap();
        reader.end().unwrap();
        assert_eq!(reader.offset(), size);

        // Walked, with the beginning of each text kept and what is too long dropped.
        let mut reader = Reader::new(log.read_sample(sample).unwrap());
        let (mut events, mut texts) = (0, 0);
        reader
            .object(|key, r| {
                if key != "events" {
                    assert_eq!(r.raw(usize::MAX)?.unwrap().len(), if key == "id" { 5 } else { 1 });
                    return Ok(());
                }
                r.array(|i, r| {
                    events += 1;
                    if i % 2 == 0 && r.peek()? == ct_log::json::Kind::Object {
                        assert_eq!(r.raw(1000)?, None);
                        return Ok(());
                    }
                    r.object(|_, r| {
                        r.object(|key, r| {
                            if key == "text" {
                                let text = r.text(100)?.unwrap();
                                assert!(text.cut && text.text.len() == 100);
                                texts += 1;
                            }
                            Ok::<_, ct_log::json::JsonError>(())
                        })
                    })
                })
            })
            .unwrap();
        reader.end().unwrap();
        assert!(events > 3000 && texts > 1500, "{events} {texts}");
    }
    let peak = peak_bytes();
    assert!(peak < PEAK_BYTES_MAX, "{} MiB", peak >> 20);
}
