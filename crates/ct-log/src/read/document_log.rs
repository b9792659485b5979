//! A log that is one JSON document.
//!
//! The header stands before the samples, so reading it stops there. Listing the samples walks the document once and
//! remembers where each one lies; a document that ends too early gives its whole samples and a defect.

use std::io::Read;
use std::sync::{Arc, OnceLock};

use super::{Header, Inner, Location, LogError, SampleEntry, assemble, header};
use crate::archive::{StoredRange, method};
use crate::format;
use crate::json::{JsonError, Kind, Reader};
use crate::source::Source;
use crate::{Defect, Limits};

/// Characters kept of a sample's id.
const ID_CHARS_MAX: usize = 64 * 1024;

/// Where a sample lies in the document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DocumentSample {
    start: u64,
    size_bytes: u64,
}

pub(super) struct DocumentLog {
    source: Arc<dyn Source>,
    /// Length of the byte order mark.
    start: u64,
    limits: Limits,
    index: OnceLock<Index>,
}

#[derive(Default)]
struct Index {
    header: Vec<(String, Vec<u8>)>,
    samples: Vec<SampleEntry>,
    reductions: Option<Vec<u8>>,
    defects: Vec<Defect>,
}

enum Stop {
    /// The samples begin here.
    Samples,
    Json(JsonError),
}

impl From<JsonError> for Stop {
    fn from(e: JsonError) -> Self {
        Self::Json(e)
    }
}

impl DocumentLog {
    pub(super) fn new(source: Arc<dyn Source>, start: u64, limits: Limits) -> Self {
        Self { source, start, limits, index: OnceLock::new() }
    }

    fn stream(&self, start: u64, size_bytes: u64) -> Result<Box<dyn Read + Send>, LogError> {
        Ok(Arc::clone(&self.source).stream(start, size_bytes)?)
    }

    fn whole(&self) -> Result<Reader<Box<dyn Read + Send>>, LogError> {
        Ok(Reader::new(self.stream(self.start, self.source.size_bytes() - self.start)?))
    }

    pub(super) fn header(&self) -> Result<Header, LogError> {
        let mut members = Vec::new();
        let walked = self.whole()?.object(|key, r| {
            // Other writers may order the keys otherwise: without an eval so far, go on.
            if key == "samples" && members.iter().any(|(k, _)| k == "eval") {
                return Err(Stop::Samples);
            }
            self.member(key, r, &mut members)?;
            Ok(())
        });
        match walked {
            Ok(()) | Err(Stop::Samples) => {}
            // A torn document still has what came before.
            Err(Stop::Json(JsonError::UnexpectedEnd { .. })) if members.iter().any(|(k, _)| k == "eval") => {}
            Err(Stop::Json(e)) => return Err(LogError::json("the log", e)),
        }
        if !members.iter().any(|(key, _)| key == "eval") {
            return Err(LogError::NotALog { problem: "a JSON document without `eval`" });
        }
        header(assemble(&members), false, "the header")
    }

    /// Takes in one member of the document that is part of the header.
    fn member(
        &self,
        key: &str,
        r: &mut Reader<Box<dyn Read + Send>>,
        members: &mut Vec<(String, Vec<u8>)>,
    ) -> Result<(), JsonError> {
        if matches!(key, "samples" | "reductions") {
            return r.skip();
        }
        if let Some(raw) = r.raw(self.limits.header_bytes_max)? {
            members.retain(|(k, _)| k != key);
            members.push((key.to_owned(), raw));
        }
        Ok(())
    }

    fn index(&self) -> Result<&Index, LogError> {
        if let Some(index) = self.index.get() {
            return Ok(index);
        }
        let index = self.walk()?;
        Ok(self.index.get_or_init(|| index))
    }

    fn walk(&self) -> Result<Index, LogError> {
        let mut index = Index::default();
        let mut samples: Vec<SampleEntry> = Vec::new();
        let mut reader = self.whole()?;
        let walked = reader.object(|key, r| match key {
            "samples" => {
                samples.clear();
                r.array(|i, r| {
                    r.peek()?;
                    let start = r.offset();
                    let (mut id, mut epoch) = (None, None);
                    r.object(|key, r| {
                        match key {
                            "id" => id = scalar(r)?,
                            "epoch" => epoch = scalar(r)?,
                            _ => {}
                        }
                        Ok::<_, JsonError>(())
                    })?;
                    let range = DocumentSample { start: self.start + start, size_bytes: r.offset() - start };
                    samples.push(SampleEntry {
                        id: id.unwrap_or_else(|| (i + 1).to_string()),
                        epoch: epoch.and_then(|e| e.parse().ok()).unwrap_or(1),
                        odd_name: None,
                        location: Location::Document(range),
                    });
                    Ok(())
                })
            }
            "reductions" => {
                index.reductions = r.raw(self.limits.header_bytes_max)?.filter(|raw| raw != b"null");
                Ok(())
            }
            _ => self.member(key, r, &mut index.header),
        });
        if let Err(e) = walked.and_then(|()| reader.end()) {
            match LogError::json("the log", e) {
                LogError::Json { source, .. } => index.defects.push(Defect::sample(
                    "",
                    format_args!("{source}; {} whole samples before that were kept", samples.len()),
                )),
                other => return Err(other),
            }
        }
        // The last one of a repeated sample counts.
        let mut seen = std::collections::HashSet::new();
        samples.reverse();
        samples.retain(|s| seen.insert((s.id.clone(), s.epoch)));
        samples.sort_by_cached_key(|s| (format::sample_order(&s.id, s.epoch), s.id.clone()));
        index.samples = samples;
        Ok(index)
    }

    pub(super) fn samples(&self) -> Result<&[SampleEntry], LogError> {
        Ok(&self.index()?.samples)
    }

    pub(super) fn reductions(&self) -> Result<Option<Vec<u8>>, LogError> {
        Ok(self.index()?.reductions.clone())
    }

    pub(super) fn defects(&self) -> Vec<Defect> {
        self.index.get().map(|index| index.defects.clone()).unwrap_or_default()
    }

    pub(super) fn read_sample(&self, sample: &DocumentSample) -> Result<Inner, LogError> {
        Ok(Inner::Document {
            data: self.stream(sample.start, sample.size_bytes)?,
            range: StoredRange {
                method: method::STORED,
                start: sample.start,
                compressed_size: sample.size_bytes,
                uncompressed_size: sample.size_bytes,
                crc32: 0,
            },
            hasher: crc32fast::Hasher::new(),
        })
    }
}

/// A string or a number as text; R's writer puts scalars into lists of one.
fn scalar<R: Read>(r: &mut Reader<R>) -> Result<Option<String>, JsonError> {
    match r.peek()? {
        Kind::String => Ok(r.text(ID_CHARS_MAX)?.map(|t| t.text)),
        Kind::Number => {
            let raw = r.raw(crate::json::NUMBER_BYTES_MAX)?.unwrap_or_default();
            Ok(Some(String::from_utf8_lossy(&raw).into_owned()))
        }
        Kind::Array => {
            let mut first = None;
            r.array(|i, r| {
                if i == 0 && r.peek()? != Kind::Array {
                    first = scalar(r)?;
                }
                Ok::<_, JsonError>(())
            })?;
            Ok(first)
        }
        _ => {
            r.skip()?;
            Ok(None)
        }
    }
}
