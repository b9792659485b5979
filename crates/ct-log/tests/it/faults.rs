//! Damage by chance: files cut anywhere, bytes flipped anywhere. What is read is what was written, or an error.

use std::collections::BTreeMap;
use std::path::Path;

use ct_log::archive::Archive;
use ct_log::{DefectKind, Limits, Log};
use proptest::prelude::*;

use crate::support::{logs, open_bytes, sample_bytes_both_ways};

type Samples = BTreeMap<(String, u64), Vec<u8>>;

/// What can be read of the samples, and how many of those listed cannot.
fn read(log: &Log) -> (Samples, usize) {
    let mut lost = 0;
    let mut samples = Samples::new();
    for sample in log.samples().map(<[_]>::to_vec).unwrap_or_default() {
        match sample_bytes_both_ways(log, &sample) {
            Ok(bytes) => {
                samples.insert((sample.id.clone(), sample.epoch), bytes);
            }
            Err(_) => lost += 1,
        }
    }
    (samples, lost)
}

/// Every content that any copy of a sample's member has. A torn archive may end before the copy that counts.
fn copies(archive: &Archive) -> BTreeMap<String, Vec<Vec<u8>>> {
    let mut copies = BTreeMap::<String, Vec<Vec<u8>>>::new();
    for entry in archive.entries() {
        if let Ok(bytes) = archive.read_to_vec(entry) {
            copies.entry(entry.name.clone()).or_default().push(bytes);
        }
    }
    copies
}

fn is_archive(path: &Path) -> bool {
    path.extension().unwrap() == "eval"
}

/// Lengths to cut at: both ends densely, and some in between.
fn cuts(len: usize) -> Vec<usize> {
    let mut cuts: Vec<usize> = (0..40.min(len)).chain(len.saturating_sub(30)..len).collect();
    cuts.extend((0..25).map(|i| i * len / 25));
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

#[test]
fn a_cut_archive_gives_every_whole_sample_and_reports_the_rest() {
    for path in logs().iter().filter(|p| is_archive(p)) {
        let bytes = std::fs::read(path).unwrap();
        // Whole files are cut here; two are cut already, and one is damaged inside.
        let Ok(whole) = Log::open(path) else { continue };
        let archive = whole.archive().unwrap();
        let samples = whole.samples().unwrap();
        if !whole.defects().is_empty() || samples.iter().any(|s| s.is_chunked()) || bytes.len() > 60_000 {
            continue;
        }
        let contents = copies(archive);
        // The last copy before a cut, by name, with the offset at which it ends.
        let mut ends: Vec<(u64, &str, Option<&[u8]>)> = Vec::new();
        let mut nth = BTreeMap::<&str, usize>::new();
        for entry in archive.entries() {
            let Ok(reader) = archive.read(entry) else { continue };
            let range = reader.stored_range();
            let n = nth.entry(&entry.name).or_default();
            let plain = contents.get(&entry.name).and_then(|all| all.get(*n)).map(Vec::as_slice);
            *n += 1;
            ends.push((range.start + range.compressed_size, &entry.name, plain));
        }
        let end_record = memchr::memmem::rfind(&bytes, b"PK\x05\x06").unwrap();
        let damaged = path.ends_with("corrupt_sample_bytes.eval");
        for cut in cuts(bytes.len()) {
            let context = format!("{} cut at {cut}", path.display());
            let log = match open_bytes(bytes[..cut].to_vec()) {
                Ok(log) => log,
                Err(_) => {
                    let first = ends.iter().map(|(end, ..)| *end).min();
                    assert!(first.is_none_or(|end| end > cut as u64), "{context}");
                    continue;
                }
            };
            let mut expected = Samples::new();
            for (_, name, plain) in ends.iter().filter(|(end, ..)| *end <= cut as u64) {
                let sample = samples.iter().find(|s| s.member_name() == *name);
                if let (Some(sample), Some(plain)) = (sample, plain) {
                    expected.insert((sample.id.clone(), sample.epoch), plain.to_vec());
                }
            }
            let (found, lost) = read(&log);
            if !damaged {
                assert!(found == expected, "{context}: {:?}", found.keys().collect::<Vec<_>>());
                assert_eq!(lost, 0, "{context}");
            }
            // Behind the end record stands at most a comment, which nobody misses.
            assert_eq!(
                log.defects().iter().any(|d| d.kind == DefectKind::Directory),
                cut < end_record + 22,
                "{context}: a missing directory is reported"
            );
            let torn = ends
                .iter()
                .zip(archive.entries())
                .find(|((end, ..), entry)| entry.header_offset + 64 <= cut as u64 && *end > cut as u64);
            if let Some((_, entry)) = torn {
                assert!(log.defects().iter().any(|d| d.name == entry.name), "{context}: {:?}", log.defects());
            }
        }
    }
}

#[test]
fn a_cut_document_gives_every_whole_sample_and_reports_the_rest() {
    let mut cut_inside = 0;
    for path in logs().iter().filter(|p| !is_archive(p)) {
        let bytes = std::fs::read(path).unwrap();
        let whole = Log::open(path).unwrap();
        let (all, _) = read(&whole);
        let mut ends = Vec::new();
        for sample in whole.samples().unwrap() {
            let reader = whole.read_sample(sample).unwrap();
            let range = reader.stored_range().unwrap();
            ends.push(((sample.id.clone(), sample.epoch), range.start + range.compressed_size));
        }
        let text_end = bytes.trim_ascii_end().len();
        for cut in cuts(bytes.len()) {
            let context = format!("{} cut at {cut}", path.display());
            let Ok(log) = open_bytes(bytes[..cut].to_vec()) else {
                assert_eq!(cut, 0, "{context}");
                continue;
            };
            let expected: Samples = all
                .iter()
                .filter(|(key, _)| ends.iter().any(|(k, end)| k == *key && *end <= cut as u64))
                .map(|(key, bytes)| (key.clone(), bytes.clone()))
                .collect();
            let (found, lost) = read(&log);
            assert!(found == expected && lost == 0, "{context}: {:?}", found.keys().collect::<Vec<_>>());
            assert_eq!(log.defects().is_empty(), cut >= text_end, "{context}");
            if !expected.is_empty() && cut < text_end {
                assert_eq!(log.header().unwrap().raw, whole.header().unwrap().raw, "{context}");
                cut_inside += 1;
            }
        }
    }
    assert!(cut_inside > 50);
}

/// Whether each sample read of a damaged archive is what was written, and under its own name.
fn only_true_samples(path: &Path, original: &Log, damaged: Vec<u8>) -> Result<(), TestCaseError> {
    let Ok(log) = open_bytes(damaged) else { return Ok(()) };
    let _ = log.header();
    let _ = log.summaries(&mut |_| Ok::<_, ct_log::LogError>(()));
    let all: Vec<Vec<u8>> = copies(original.archive().unwrap()).into_values().flatten().collect();
    let (found, _) = read(&log);
    for ((id, epoch), bytes) in found {
        // The CRC covers the content; a name may be damaged, as nothing covers names.
        prop_assert!(all.contains(&bytes), "{}: {id:?} {epoch} has become other bytes", path.display());
    }
    Ok(())
}

fn archives() -> &'static [(std::path::PathBuf, Vec<u8>, Log)] {
    static ARCHIVES: std::sync::OnceLock<Vec<(std::path::PathBuf, Vec<u8>, Log)>> =
        std::sync::OnceLock::new();
    ARCHIVES.get_or_init(|| {
        logs()
            .into_iter()
            .filter(|p| is_archive(p))
            .map(|p| (p.clone(), std::fs::read(&p).unwrap(), Log::open(&p).unwrap()))
            .filter(|(_, bytes, log)| {
                bytes.len() < 40_000 && log.samples().unwrap().iter().all(|s| !s.is_chunked())
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn flipped_bytes_never_change_a_sample(
        which in any::<prop::sample::Index>(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1_u8..), 1..6),
    ) {
        let (path, bytes, original) = which.get(archives());
        let mut damaged = bytes.clone();
        for (at, flip) in flips {
            *at.get_mut(&mut damaged) ^= flip;
        }
        only_true_samples(path, original, damaged)?;
    }

    #[test]
    fn a_flip_in_the_directory_never_changes_a_sample(
        which in any::<prop::sample::Index>(),
        flips in prop::collection::vec((0_usize..600, any::<u8>()), 1..6),
    ) {
        let (path, bytes, original) = which.get(archives());
        let mut damaged = bytes.clone();
        for (back, value) in flips {
            let at = damaged.len().saturating_sub(1 + back);
            damaged[at] = value;
        }
        only_true_samples(path, original, damaged)?;
    }

    #[test]
    fn missing_and_zeroed_pieces_never_change_a_sample(
        which in any::<prop::sample::Index>(),
        from in any::<prop::sample::Index>(),
        len in 1_usize..3000,
        zero: bool,
    ) {
        let (path, bytes, original) = which.get(archives());
        let mut damaged = bytes.clone();
        let from = from.index(damaged.len());
        let to = (from + len).min(damaged.len());
        if zero {
            damaged[from..to].fill(0);
        } else {
            damaged.drain(from..to);
        }
        only_true_samples(path, original, damaged)?;
    }
}

#[test]
fn a_document_with_flipped_bytes_is_read_or_refused() {
    // A JSON document has no checksum, so its content cannot be guarded: but reading it must end well.
    let mut seed = 1_u64;
    let mut next = move |n: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % n
    };
    for path in logs().iter().filter(|p| !is_archive(p)) {
        let bytes = std::fs::read(path).unwrap();
        for _ in 0..60 {
            let mut damaged = bytes.clone();
            for _ in 0..1 + next(3) {
                let at = next(damaged.len());
                damaged[at] = next(256) as u8;
            }
            let Ok(log) = Log::from_source(std::sync::Arc::new(damaged), Limits::default()) else { continue };
            let _ = log.header();
            for bytes in read(&log).0.into_values() {
                let _ = ct_log::json::parse(&bytes);
            }
        }
    }
}

#[test]
fn bytes_behind_an_archive_do_no_harm() {
    for (path, bytes, original) in archives() {
        if path.to_str().unwrap().contains("truncated_") {
            continue;
        }
        let mut longer = bytes.clone();
        longer.extend(std::iter::repeat_n(0, 5000));
        let log = open_bytes(longer).unwrap();
        assert_eq!(log.samples().unwrap(), original.samples().unwrap());
        assert_eq!(log.defects(), original.defects());
    }
}
