//! How fast documents are registered: a log becomes documents, and these are registered in batches of 50.
//!
//! usage: `cargo run --release -p ct-store --example register -- LOG` (`ct-log`'s example `grow` makes large ones)

use std::fs::File;
use std::path::PathBuf;
use std::time::Instant;

use ct_log::Log;
use ct_model::convert::{HeaderFacts, RunOptions, TrajectoryIds, convert_log, run_header};
use ct_store::{Actor, Registration, Store};
use serde_json::value::RawValue;

fn main() {
    let path = PathBuf::from(std::env::args().nth(1).expect("usage: register LOG"));
    let log = Log::open(&path).expect("the log opens");
    let facts = HeaderFacts::from_value(&log.header().expect("a header").value);
    let mut ids = TrajectoryIds::new(&facts, &"0".repeat(64));
    let mut documents: Vec<Vec<u8>> = Vec::new();
    convert_log(&log, log.samples().expect("samples"), &facts, None, 2, |_, converted| {
        let converted = converted?;
        let mut document = converted.document;
        document.trajectory_id = Some(ids.assign(&converted.facts));
        document.run_id = Some("run".parse().expect("an id"));
        documents.push(serde_json::to_vec(&document).expect("JSON"));
        Ok::<_, ct_log::LogError>(())
    })
    .expect("the log is whole");
    let mut header = run_header(&facts, &RunOptions::default());
    header.run_id = Some("run".parse().expect("an id"));
    let header = serde_json::to_value(header).expect("JSON");

    let folder = tempfile::tempdir_in(path.parent().expect("a folder")).expect("a folder");
    let store = Store::open(folder.path()).expect("a store");
    let key = "run.eval".parse().expect("a key");
    let size_bytes = path.metadata().expect("a file").len();
    let mut file = File::open(&path).expect("the log opens");
    store.put_object(&key, size_bytes, &mut file, &Actor::local()).expect("stored");

    let started = Instant::now();
    let bytes: usize = documents.iter().map(Vec::len).sum();
    let last = documents.len().saturating_sub(1) / 50;
    for (number, batch) in documents.chunks(50).enumerate() {
        // As they come over the wire.
        let documents =
            batch.iter().map(|text| serde_json::from_slice::<Box<RawValue>>(text).expect("JSON")).collect();
        let header = (number == last).then(|| header.clone());
        let batch = Registration { documents, header, bucket: "logs".to_owned(), ..Registration::default() };
        if number == last {
            report("documents", documents_before(number), started);
        }
        store.register(batch, &Actor::local()).expect("registered");
    }
    report("all", documents.len(), started);
    report_bytes(bytes);
}

fn documents_before(batches: usize) -> usize {
    batches * 50
}

#[expect(clippy::print_stdout, reason = "that is what the example is for")]
#[expect(clippy::cast_precision_loss, reason = "counts are small")]
fn report(what: &str, count: usize, started: Instant) {
    let seconds = started.elapsed().as_secs_f64();
    println!("{what}: {count} in {seconds:.2} s, {:.0} a second", count as f64 / seconds);
}

#[expect(clippy::print_stdout, reason = "that is what the example is for")]
fn report_bytes(bytes: usize) {
    println!("{bytes} bytes of JSON");
}
