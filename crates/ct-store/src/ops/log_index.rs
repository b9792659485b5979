//! Where the samples of stored logs lie, to check what documents say of it.

use std::collections::HashMap;
use std::io::{self, Read as _};
use std::sync::{Arc, Mutex, PoisonError};

use ct_log::source::Source;
use ct_log::{Limits, Log, LogError, SampleEntry, StoredRange};
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
    /// Positions in the list of samples.
    by_sample: HashMap<(String, u64), usize>,
    by_member: HashMap<String, usize>,
}

impl LogIndex {
    fn open(source: Arc<dyn Source>) -> Result<Self, LogError> {
        let log = Log::from_source(source, Limits::default())?;
        let samples = log.samples()?;
        let by_sample = samples.iter().enumerate().map(|(i, s)| ((s.id.clone(), s.epoch), i)).collect();
        let by_member = samples.iter().enumerate().map(|(i, s)| (s.member_name(), i)).collect();
        Ok(Self { by_sample, by_member, log })
    }

    pub(super) fn facts(&self) -> Result<HeaderFacts, LogError> {
        Ok(HeaderFacts::from_value(&self.log.header()?.value))
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
        let found = self.range_of(sample).map_err(|error| error.to_string())?;
        let Some(found) = found else {
            return Err(format!("eval_sample_range: sample {path:?} lies in many pieces, and has no range"));
        };
        compare(range, &found)?;
        Ok(position)
    }

    fn range_of(&self, sample: &SampleEntry) -> Result<Option<StoredRange>, LogError> {
        if sample.is_chunked() {
            return Ok(None);
        }
        if let Some(archive) = self.log.archive()
            && let Some(entry) = archive.get(&sample.member_name())
        {
            return Ok(Some(archive.stored_range(entry)?));
        }
        // A document has no list of checksums: the bytes are read.
        let mut reader = self.log.read_sample(sample)?;
        io::copy(&mut io::BufReader::with_capacity(COPY_BYTES, reader.by_ref()), &mut io::sink())?;
        Ok(reader.stored_range())
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
