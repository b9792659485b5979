//! How often and how far a log is asked for bytes: what a log on the other side of a network costs.

use std::io::Read;
use std::sync::Arc;

use ct_log::{Limits, Log, StoredRange};

use crate::support::counting::Counting;
use crate::support::zip::{self, STORED, ZSTD};
use crate::support::{generated, logs, sample_bytes};

fn open(bytes: Vec<u8>) -> (Counting, Log) {
    let source = Counting::new(bytes);
    let log = Log::from_source(Arc::new(source.clone()), Limits::default()).unwrap();
    (source, log)
}

#[test]
fn a_header_costs_three_requests_and_a_sample_one() {
    let mut archives = 0;
    for path in logs() {
        if path.to_str().unwrap().contains("truncated_") || path.extension().unwrap() != "eval" {
            continue;
        }
        let (source, log) = open(std::fs::read(&path).unwrap());
        // The form and the directory.
        assert_eq!(source.take_requests().len(), 2, "opening {}", path.display());
        let inferred = log.header().unwrap().inferred;
        // The header's member, or the journal's start and its updates.
        let updates = log.archive().unwrap().entries().iter().filter(|e| e.name.contains("config_updates"));
        let members = if inferred { 1 + updates.count() } else { 1 };
        assert_eq!(source.take_requests().len(), members, "the header of {}", path.display());
        log.header().unwrap();
        let samples = log.samples().unwrap();
        assert_eq!(source.take_requests(), [], "listing {}", path.display());
        for sample in samples.iter().filter(|s| !s.is_chunked()) {
            let read = sample_bytes(&log, sample);
            assert_eq!(source.take_requests().len(), 1, "{} of {}", sample.member_name(), path.display());
            assert!(read.is_ok() || path.ends_with("corrupt_sample_bytes.eval"));
        }
        archives += 1;
    }
    assert_eq!(archives, 37);
}

#[test]
fn a_sample_is_fetched_with_little_around_it() {
    let (source, log) = open(std::fs::read(generated("tools_epochs.eval")).unwrap());
    let entry = log.archive().unwrap().get("samples/sum_epoch_2.json").unwrap().clone();
    source.take_requests();
    sample_bytes(&log, log.sample("sum", 2).unwrap()).unwrap();
    let name = entry.name.len() as u64;
    assert_eq!(source.take_requests(), [(entry.header_offset, 30 + name + 256 + entry.compressed_size)]);
    assert!(source.take_streamed_bytes() <= 30 + name + 256 + entry.compressed_size);
}

#[test]
fn a_long_extra_field_costs_one_request_more() {
    let mut members = zip::log(ZSTD, &["a", "b"]);
    members[1].local_extra = vec![0; 4000];
    let (source, log) = open(zip::zip(members));
    source.take_requests();
    sample_bytes(&log, log.sample("a", 1).unwrap()).unwrap();
    assert_eq!(source.take_requests().len(), 2);
    sample_bytes(&log, log.sample("b", 1).unwrap()).unwrap();
    assert_eq!(source.take_requests().len(), 1);
}

#[test]
fn a_directory_beyond_the_tail_costs_one_request_more() {
    let ids: Vec<String> = (0..6000).map(|i| format!("sample-{i:06}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let (source, log) = open(zip::zip(zip::log(STORED, &ids)));
    assert_eq!(source.take_requests().len(), 3);
    assert_eq!(log.samples().unwrap().len(), 6000);
    assert_eq!(log.header().unwrap().value["status"], "success");
    assert_eq!(source.take_requests().len(), 1);
}

#[test]
fn a_member_is_not_fetched_further_than_it_is_read() {
    let mut members = zip::log(STORED, &[]);
    let plain = "x".repeat(4 << 20);
    members.push(zip::member("samples/big_epoch_1.json", STORED, plain.as_bytes()));
    let (source, log) = open(zip::zip(members));
    source.take_streamed_bytes();
    let mut start = [0; 1000];
    log.read_sample(log.sample("big", 1).unwrap()).unwrap().read_exact(&mut start).unwrap();
    assert!(source.take_streamed_bytes() < 10_000);
}

#[test]
fn the_header_of_a_document_ends_where_its_samples_begin() {
    let head = r#"{"version":2,"status":"success","eval":{"task":"t"},"plan":{},"samples":["#;
    let sample = |id: usize| format!(r#"{{"id":{id},"epoch":1,"input":"{}"}}"#, "x".repeat(100_000));
    let samples: Vec<String> = (1..=50).map(sample).collect();
    let document = format!("{head}{}]}}", samples.join(","));
    let (source, log) = open(document.clone().into_bytes());
    assert_eq!(source.take_requests().len(), 1);
    assert_eq!(log.header().unwrap().value["plan"], serde_json::json!({}));
    assert_eq!(source.take_requests().len(), 1);
    assert!(source.take_streamed_bytes() <= 128 * 1024, "no more than one window");

    // The list is one walk, made once; each sample is one range after that.
    assert_eq!(log.samples().unwrap().len(), 50);
    assert_eq!(source.take_requests(), [(0, document.len() as u64)]);
    let sample = log.sample("7", 1).unwrap();
    assert_eq!(sample_bytes(&log, sample).unwrap(), samples[6].as_bytes());
    let requests = source.take_requests();
    assert_eq!(requests, [(document.find(&samples[6]).unwrap() as u64, samples[6].len() as u64)]);
}

#[test]
fn where_samples_lie_is_known_from_the_directory() {
    let (mut known, mut others) = (0, Vec::new());
    for path in logs() {
        if path.extension().unwrap() != "eval" {
            continue;
        }
        let (source, log) = open(std::fs::read(&path).unwrap());
        let archive = log.archive().unwrap();
        for entry in archive.entries() {
            let range = archive.stored_range(entry).unwrap();
            source.take_requests();
            if archive.is_filled_by(entry, &range) {
                known += 1;
            } else {
                others.push(format!("{} of {}", entry.name, path.file_name().unwrap().display()));
            }
            assert_eq!(source.take_requests(), []);
            for wrong in [
                StoredRange { start: range.start - 1, ..range.clone() },
                StoredRange { start: range.start + 1, ..range.clone() },
                StoredRange { compressed_size: range.compressed_size + 1, ..range.clone() },
                StoredRange { uncompressed_size: range.uncompressed_size + 1, ..range.clone() },
                StoredRange { crc32: !range.crc32, ..range.clone() },
                StoredRange { method: 99, ..range.clone() },
            ] {
                assert!(!archive.is_filled_by(entry, &wrong), "{entry:?} {wrong:?}");
            }
        }
    }
    // Behind it lies an earlier header, which is no longer in the directory.
    assert_eq!(others, ["reductions.json of header_rewritten.eval"]);
    assert!(known > 500, "{known}");
}

#[test]
fn a_walk_without_a_directory_takes_large_steps() {
    let count = |members: usize, bytes: usize| {
        let ids: Vec<String> = (0..members).map(|i| format!("sample-{i:06}")).collect();
        let mut members = zip::log(STORED, &ids.iter().map(String::as_str).collect::<Vec<_>>());
        for member in &mut members {
            let mut data = std::mem::take(&mut member.data);
            data.resize(bytes, b' ');
            *member = zip::member(&member.name, STORED, &data);
        }
        let mut archive = zip::zip(members);
        archive.truncate(archive.len() - 30);
        let (source, log) = open(archive);
        (source.take_requests().len(), log.samples().unwrap().len())
    };
    let (few, many) = (count(10, 1000), count(1000, 1000));
    assert_eq!((few.1, many.1, few.0), (10, 1000, many.0), "requests do not grow with the samples");
    let (requests, samples) = count(3, 5 << 20);
    assert!(samples == 3 && requests < 16, "a few for each block of 4 MiB, not {requests}");
}
