//! Any bytes as a log: everything in it is listed and read. Whatever the bytes are, nothing panics, nothing is handed out
//! that its checksum denies, and reading in other pieces gives the same.
#![no_main]

use std::io::Read;
use std::sync::Arc;

use ct_log::archive::ArchiveError;
use ct_log::{Limits, Log, LogError};
use libfuzzer_sys::fuzz_target;

/// Small, so that what is slow is so for another reason than size.
fn limits() -> Limits {
    Limits {
        entries_max: 2_000,
        directory_bytes_max: 1 << 20,
        entry_bytes_max: 4 << 20,
        expanded_bytes_max: 16 << 20,
        expansion_ratio_max: 1_000,
        expansion_free_bytes: 4 << 20,
        zstd_window_log_max: 23,
        header_bytes_max: 1 << 20,
    }
}

/// Reads to the end in pieces of `piece` bytes: what came, and whether it ended well.
fn read(mut from: impl Read, piece: usize) -> (Vec<u8>, bool) {
    let mut all = Vec::new();
    let mut buffer = vec![0; piece];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return (all, true),
            Ok(n) => all.extend_from_slice(&buffer[..n]),
            Err(_) => return (all, false),
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let Ok(log) = Log::from_source(Arc::new(data.to_vec()), limits()) else { return };
    let _ = log.header();
    if let Some(archive) = log.archive() {
        for entry in archive.entries() {
            let Ok(reader) = archive.read(entry) else { continue };
            let (bytes, whole) = read(reader, 4096);
            assert!(bytes.len() as u64 <= entry.uncompressed_size, "more than declared");
            if whole {
                assert_eq!(bytes.len() as u64, entry.uncompressed_size);
                assert_eq!(crc32fast::hash(&bytes), entry.crc32);
                assert!(archive.read_to_vec(entry).ok().is_none_or(|again| again == bytes));
            }
        }
    }
    let Ok(samples) = log.samples() else { return };
    for sample in samples {
        assert_eq!(log.sample(&sample.id, sample.epoch).ok(), Some(sample));
        let Ok(reader) = log.read_sample(sample) else { continue };
        let (bytes, whole) = read(reader, 65_536);
        if bytes.len() < 20_000 {
            let (again, whole_again) = log.read_sample(sample).map(|r| read(r, 7)).unwrap_or_default();
            assert_eq!(whole, whole_again, "whole or not");
            // How much comes before the damage is noticed depends on the pieces.
            let common = bytes.len().min(again.len());
            assert!(bytes[..common] == again[..common] && (!whole || bytes.len() == again.len()));
        }
        if whole {
            let _ = ct_log::json::parse(&bytes);
        }
    }
    let mut rows = 0;
    let _ = log.summaries(&mut |_| {
        rows += 1;
        if rows > 10_000 { Err(LogError::from(ArchiveError::Directory { problem: "long" })) } else { Ok(()) }
    });
    let _ = log.reductions();
    for defect in log.defects() {
        let _ = defect.to_string();
    }
});
