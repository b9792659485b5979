//! Where the samples of stored logs lie, to check what documents say of it.

use std::collections::HashMap;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ct_log::source::Source;
use ct_log::{Limits, Log, LogError, StoredRange};
use ct_model::convert::HeaderFacts;
use ct_model::{LogHash, SampleRange, TrajectoryDocument};

use crate::blob::COPY_BYTES;

/// Logs whose index is kept at hand: those that are being registered.
const KEPT_MAX: usize = 8;

/// The indexes of the logs that were asked for last.
#[derive(Default)]
pub(crate) struct LogIndexes(Mutex<Vec<(LogHash, Arc<LogIndex>)>>);

impl LogIndexes {
    /// The index of a stored log, made when it is not at hand.
    pub(super) fn get(&self, hash: &LogHash, source: Arc<dyn Source>) -> Result<Arc<LogIndex>, LogError> {
        let kept = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, index)) = kept().iter().find(|(kept, _)| kept == hash) {
            return Ok(Arc::clone(index));
        }
        let index = Arc::new(LogIndex::open(source)?);
        let mut kept = kept();
        if kept.len() == KEPT_MAX {
            kept.remove(0);
        }
        kept.push((hash.clone(), Arc::clone(&index)));
        Ok(index)
    }
}

/// The samples of one log.
pub(super) struct LogIndex {
    log: Log,
    /// Of its header, once it was read.
    facts: OnceLock<HeaderFacts>,
    /// Positions in the list of samples.
    by_sample: HashMap<(String, u64), usize>,
    by_member: HashMap<String, usize>,
    /// Of a JSON document: where its samples lie, by position. An archive has a directory instead.
    document_ranges: Vec<StoredRange>,
}

impl LogIndex {
    fn open(source: Arc<dyn Source>) -> Result<Self, LogError> {
        let log = Log::from_source(Arc::clone(&source), Limits::default())?;
        let samples = log.samples()?;
        let by_sample = samples.iter().enumerate().map(|(i, s)| ((s.id.clone(), s.epoch), i)).collect();
        let by_member = samples.iter().enumerate().map(|(i, s)| (s.member_name(), i)).collect();
        let document_ranges = match log.archive() {
            Some(_) => Vec::new(),
            None => document_ranges(&log, &source)?,
        };
        Ok(Self { by_sample, by_member, document_ranges, log, facts: OnceLock::new() })
    }

    /// What the header says. A registration that is tried again does not read it again.
    pub(super) fn facts(&self) -> Result<HeaderFacts, LogError> {
        if let Some(facts) = self.facts.get() {
            return Ok(facts.clone());
        }
        let facts = HeaderFacts::from_value(&self.log.header()?.value);
        Ok(self.facts.get_or_init(|| facts).clone())
    }

    /// What was found to be wrong with the log, in sentences.
    pub(super) fn defects(&self) -> Vec<String> {
        self.log.defects().iter().map(ToString::to_string).collect()
    }

    /// Checks that the log holds the document's sample where the document says, and tells its place among the samples.
    pub(super) fn check(&self, document: &TrajectoryDocument) -> Result<usize, String> {
        let (id, epoch) = (&document.eval_sample_id, document.epoch);
        let by_sample = self.by_sample.get(&(id.clone(), epoch)).copied();
        let Some(range) = &document.eval_sample_range else {
            return by_sample.ok_or_else(|| format!("the log has no sample {id:?} with epoch {epoch}"));
        };
        let path = &range.sample_path;
        let position = *self
            .by_member
            .get(path)
            .ok_or_else(|| format!("eval_sample_range.samplePath: the log has no sample {path:?}"))?;
        let samples = self.log.samples().map_err(|error| error.to_string())?;
        let sample = &samples[position];
        // A name that tells no epoch tells no id either: then the sample's own words are the only ones.
        if sample.epoch > 0 && by_sample != Some(position) {
            return Err(format!(
                "eval_sample_range.samplePath: {path:?} is not sample {id:?} with epoch {epoch}"
            ));
        }
        if sample.is_chunked() {
            return Err(format!("eval_sample_range: sample {path:?} lies in many pieces, and has no range"));
        }
        let found = self.range_of(position, &range.into()).map_err(|error| error.to_string())?;
        compare(range, &found)?;
        Ok(position)
    }

    /// Where a sample lies. What is said of it costs no request where it is right.
    fn range_of(&self, position: usize, said: &StoredRange) -> Result<StoredRange, LogError> {
        if let Some(range) = self.document_ranges.get(position) {
            return Ok(range.clone());
        }
        let sample = &self.log.samples()?[position];
        let archive = self.log.archive().ok_or(LogError::Empty)?;
        let name = sample.member_name();
        let entry = archive.get(&name);
        let entry = entry.ok_or_else(|| LogError::NoSample { id: sample.id.clone(), epoch: sample.epoch })?;
        Ok(if archive.is_filled_by(entry, said) { said.clone() } else { archive.stored_range(entry)? })
    }
}

/// Where the samples of a JSON document lie. It has no list of checksums: its bytes are read, once.
fn document_ranges(log: &Log, source: &Arc<dyn Source>) -> Result<Vec<StoredRange>, LogError> {
    let mut ranges = Vec::new();
    for sample in log.samples()? {
        let range = log.read_sample(sample)?.stored_range();
        ranges.extend(range);
    }
    let mut order: Vec<&mut StoredRange> = ranges.iter_mut().collect();
    order.sort_by_key(|range| range.start);
    let mut whole =
        io::BufReader::with_capacity(COPY_BYTES, Arc::clone(source).stream(0, source.size_bytes())?);
    let mut at = 0;
    for range in order {
        io::copy(&mut whole.by_ref().take(range.start - at), &mut io::sink())?;
        let mut sum = Sum(crc32fast::Hasher::new());
        io::copy(&mut whole.by_ref().take(range.compressed_size), &mut sum)?;
        range.crc32 = sum.0.finalize();
        at = range.start + range.compressed_size;
    }
    Ok(ranges)
}

/// The CRC-32 of what is written into it.
struct Sum(crc32fast::Hasher);

impl io::Write for Sum {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn compare(said: &SampleRange, found: &StoredRange) -> Result<(), String> {
    for (field, said, found) in [
        ("compressionMethod", u64::from(said.compression_method), u64::from(found.method)),
        ("compressedStart", said.compressed_start, found.start),
        ("compressedSize", said.compressed_size, found.compressed_size),
        ("uncompressedSize", said.uncompressed_size, found.uncompressed_size),
        ("crc32", u64::from(said.crc32), u64::from(found.crc32)),
    ] {
        if said != found {
            return Err(format!("eval_sample_range.{field}: {said}, and in the log it is {found}"));
        }
    }
    Ok(())
}
