//! A log, to read samples of by the places their documents hold. Where its bytes lie is the source's matter: a file
//! here, or ranges of an object elsewhere.

use std::io::Read;
use std::sync::{Arc, OnceLock};

use ct_log::archive::EntryReader;
use ct_log::source::Source;
use ct_log::{Limits, Log, LogError, StoredRange};

use crate::{SampleRange, TrajectoryDocument};

/// A log whose trajectories are known by their documents. One sample is one ranged read.
pub struct StoredLog {
    source: Arc<dyn Source>,
    limits: Limits,
    /// Needed for samples that lie in many places only.
    opened: OnceLock<Log>,
}

impl StoredLog {
    /// Of bytes that lie anywhere. Nothing is read yet.
    pub fn new(source: Arc<dyn Source>) -> Self {
        Self { source, limits: Limits::default(), opened: OnceLock::new() }
    }

    /// The log itself, opened when it is first asked for.
    pub fn log(&self) -> Result<&Log, LogError> {
        if let Some(log) = self.opened.get() {
            return Ok(log);
        }
        let log = Log::from_source(Arc::clone(&self.source), self.limits.clone())?;
        Ok(self.opened.get_or_init(|| log))
    }

    /// The JSON of a document's sample, from front to back. Its last read fails when the bytes are not those that were
    /// written.
    pub fn read(&self, document: &TrajectoryDocument) -> Result<Box<dyn Read + Send>, LogError> {
        match &document.eval_sample_range {
            Some(range) => {
                let stored = StoredRange::from(range);
                let reader = EntryReader::of_range(&self.source, &range.sample_path, &stored, &self.limits)?;
                Ok(Box::new(reader))
            }
            None => {
                let log = self.log()?;
                let sample = log.sample(&document.eval_sample_id, document.epoch)?;
                Ok(Box::new(log.read_sample(sample)?))
            }
        }
    }

    /// The bytes of a range as they lie in the log, to be copied unread.
    pub fn read_compressed(&self, range: &SampleRange) -> Result<Box<dyn Read + Send>, LogError> {
        Ok(Arc::clone(&self.source).stream(range.compressed_start, range.compressed_size)?)
    }
}

impl From<&SampleRange> for StoredRange {
    fn from(range: &SampleRange) -> Self {
        Self {
            method: range.compression_method,
            start: range.compressed_start,
            compressed_size: range.compressed_size,
            uncompressed_size: range.uncompressed_size,
            crc32: range.crc32,
        }
    }
}
