//! Reading a log of any form: what it says of itself, the list of its samples, one sample, or all of them.
//!
//! Cost: a header is read without touching the samples; a sample of an archive is one ranged read. Memory: the list of
//! samples, and a window per sample being read, whatever the size of the log or of the sample (see [`crate::json`]).

mod archive_log;
mod chunked;
mod document_log;
mod summaries;

use std::collections::HashSet;
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

pub use summaries::SummaryRow;

use crate::archive::{Archive, ArchiveError, EntryReader, StoredRange};
use crate::json::{self, JsonError};
use crate::source::{FileSource, Source};
use crate::{Defect, Inflater, Limits};
use archive_log::ArchiveLog;
use document_log::{DocumentLog, DocumentSample};

/// Why a log, or a part of it, cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file cannot be opened or read.
    #[error("cannot read the log")]
    Io(#[from] io::Error),
    /// The file is empty.
    #[error("the file is empty")]
    Empty,
    /// A pointer that Git LFS left in place of the log.
    #[error("this is a Git LFS pointer, not the log itself (`git lfs pull` fetches it)")]
    LfsPointer,
    /// Neither an archive nor a JSON log.
    #[error("not an eval log: {problem}")]
    NotALog {
        /// What it is instead.
        problem: &'static str,
    },
    /// The archive or one of its members is not as it should be.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// A document in the log is not as it should be.
    #[error("{what}")]
    Json {
        /// Which document.
        what: String,
        /// What is wrong with it.
        #[source]
        source: JsonError,
    },
    /// No sample of that id and epoch.
    #[error("no sample {id:?} with epoch {epoch}")]
    NoSample {
        /// The id asked for.
        id: String,
        /// The epoch asked for.
        epoch: u64,
    },
}

impl LogError {
    /// A JSON error in some part of a log; an error of the source or the archive underneath comes as such.
    pub fn json(what: impl Into<String>, source: JsonError) -> Self {
        match source {
            JsonError::Io(io) => match crate::archive::unwrap_io(io) {
                ArchiveError::Io(io) => Self::Io(io),
                other => Self::Archive(other),
            },
            source => Self::Json { what: what.into(), source },
        }
    }
}

/// The two containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A ZIP archive, `.eval`.
    Eval,
    /// One JSON document, `.json`.
    Json,
}

/// What a log says of itself: Inspect's `EvalLog` without samples and reductions.
#[derive(Debug, Clone)]
pub struct Header {
    /// The document as written, or put together from its parts. Every field survives in here.
    pub raw: Vec<u8>,
    /// The same, built; see [`json::parse`] for what that loses.
    pub value: Value,
    /// The log has no final header: the run is still going on, or died.
    pub inferred: bool,
}

/// A sample in the list of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleEntry {
    /// The id as text. Never a path of this machine.
    pub id: String,
    /// Counts from 1.
    pub epoch: u64,
    /// The member's name when it is not made of id and epoch.
    odd_name: Option<String>,
    location: Location,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Location {
    /// Index among the archive's members.
    Member(usize),
    /// Folder of a chunked sample.
    Chunked(String),
    /// Range of the JSON document.
    Document(DocumentSample),
}

impl SampleEntry {
    /// Name of the sample's member, or the name it would have.
    pub fn member_name(&self) -> String {
        self.odd_name.clone().unwrap_or_else(|| crate::format::sample_name(&self.id, self.epoch))
    }

    /// Whether the sample lies in many members and is put together when read.
    pub fn is_chunked(&self) -> bool {
        matches!(self.location, Location::Chunked(_))
    }
}

enum Form {
    Archive(ArchiveLog),
    Document(DocumentLog),
}

/// An opened log.
pub struct Log {
    form: Form,
    header: OnceLock<(Header, Vec<Defect>)>,
}

impl Log {
    /// Opens a local file of any form.
    pub fn open(path: &Path) -> Result<Self, LogError> {
        Self::from_source(Arc::new(FileSource::open(path)?), Limits::default())
    }

    /// Opens a log that lies anywhere.
    pub fn from_source(source: Arc<dyn Source>, limits: Limits) -> Result<Self, LogError> {
        let mut start = [0; 64];
        let n = source.size_bytes().min(start.len() as u64) as usize;
        source.read_exact_at(0, &mut start[..n])?;
        let start = &start[..n];
        if start.is_empty() {
            return Err(LogError::Empty);
        }
        if start.starts_with(b"version https://git-lfs") {
            return Err(LogError::LfsPointer);
        }
        let text = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start);
        let form = match text.trim_ascii_start().first() {
            Some(b'{') => Form::Document(DocumentLog::new(source, (start.len() - text.len()) as u64, limits)),
            _ => Form::Archive(ArchiveLog::open(source, limits)?),
        };
        Ok(Self { form, header: OnceLock::new() })
    }

    /// Which container it is.
    pub fn format(&self) -> Format {
        match &self.form {
            Form::Archive(_) => Format::Eval,
            Form::Document(_) => Format::Json,
        }
    }

    /// The archive underneath, for those who copy members.
    pub fn archive(&self) -> Option<&Archive> {
        match &self.form {
            Form::Archive(log) => Some(&log.archive),
            Form::Document(_) => None,
        }
    }

    /// The header. Of an archive it costs one ranged read; of a JSON document it ends where the samples begin.
    pub fn header(&self) -> Result<&Header, LogError> {
        if let Some((header, _)) = self.header.get() {
            return Ok(header);
        }
        let found = match &self.form {
            Form::Archive(log) => log.header()?,
            Form::Document(log) => (log.header()?, Vec::new()),
        };
        Ok(&self.header.get_or_init(|| found).0)
    }

    /// All samples, in the order in which Inspect hands them out. Of a repeated sample the last one counts.
    ///
    /// A JSON document is walked once for it.
    pub fn samples(&self) -> Result<&[SampleEntry], LogError> {
        match &self.form {
            Form::Archive(log) => Ok(&log.samples),
            Form::Document(log) => log.samples(),
        }
    }

    /// The sample of that id and epoch.
    pub fn sample(&self, id: &str, epoch: u64) -> Result<&SampleEntry, LogError> {
        self.samples()?
            .iter()
            .find(|s| s.id == id && s.epoch == epoch)
            .ok_or_else(|| LogError::NoSample { id: id.to_owned(), epoch })
    }

    /// The sample's JSON, from front to back. Its last read fails if the bytes are not those that were written.
    pub fn read_sample(&self, sample: &SampleEntry) -> Result<SampleReader, LogError> {
        let inner = match (&self.form, &sample.location) {
            (Form::Archive(log), Location::Member(index)) => {
                Inner::Member(Box::new(log.archive.read(&log.archive.entries()[*index])?))
            }
            (Form::Archive(log), Location::Chunked(folder)) => {
                Inner::Chunked(Box::new(chunked::ChunkedReader::new(Arc::clone(&log.archive), folder)?))
            }
            (Form::Document(log), Location::Document(range)) => log.read_sample(range)?,
            _ => return Err(LogError::NoSample { id: sample.id.clone(), epoch: sample.epoch }),
        };
        Ok(SampleReader { inner })
    }

    /// Reads a sample that is to be held: replaces `json` by all of it, checked, and says where it lies. `None` when it
    /// has more than `bytes_max` bytes or is chunked; then nothing is read.
    pub fn read_whole_sample(
        &self,
        sample: &SampleEntry,
        bytes_max: u64,
        inflater: &mut Inflater,
        json: &mut Vec<u8>,
    ) -> Result<Option<StoredRange>, LogError> {
        if let (Form::Archive(log), Location::Member(index)) = (&self.form, &sample.location) {
            let entry = &log.archive.entries()[*index];
            if entry.uncompressed_size > bytes_max {
                return Ok(None);
            }
            return Ok(Some(log.archive.read_whole(entry, inflater, json)?));
        }
        let mut reader = self.read_sample(sample)?;
        if reader.stored_range().is_none_or(|range| range.uncompressed_size > bytes_max) {
            return Ok(None);
        }
        json.clear();
        reader.read_to_end(json).map_err(|e| LogError::json(sample.member_name(), e.into()))?;
        Ok(reader.stored_range())
    }

    /// Scores reduced over epochs, as written; `None` when there are none.
    pub fn reductions(&self) -> Result<Option<Vec<u8>>, LogError> {
        match &self.form {
            Form::Archive(log) => log.small_member(crate::format::REDUCTIONS),
            Form::Document(log) => log.reductions(),
        }
    }

    /// Hands out the summary rows that the log holds, the last one of each sample, in the order of their first mention.
    /// A JSON document holds none: see [`crate::write::summary_row`].
    pub fn summaries<E: From<LogError>>(
        &self,
        f: &mut dyn FnMut(SummaryRow) -> Result<(), E>,
    ) -> Result<(), E> {
        match &self.form {
            Form::Archive(log) => summaries::read(&log.archive, f),
            Form::Document(_) => Ok(()),
        }
    }

    /// Samples that have a summary row and are not there, by id and epoch. Unknown, and so none, where a sample's name
    /// does not tell its id, and for a JSON document, which has no rows.
    pub fn missing_samples(&self) -> Result<Vec<(String, u64)>, LogError> {
        let Form::Archive(log) = &self.form else { return Ok(Vec::new()) };
        let keys = summaries::keys(&log.archive)?;
        if keys.len() <= log.samples.len() || log.samples.iter().any(|sample| sample.odd_name.is_some()) {
            return Ok(Vec::new());
        }
        let there: HashSet<(&str, u64)> = log.samples.iter().map(|s| (s.id.as_str(), s.epoch)).collect();
        let lost = keys.iter().filter(|(id, epoch)| !there.contains(&(id.as_str(), *epoch)));
        let mut lost: Vec<_> = lost.cloned().collect();
        lost.sort();
        Ok(lost)
    }

    /// What was found to be damaged or missing so far: opening, the header and the list of samples add to it. Samples
    /// that fail when they are read are their reader's to report.
    pub fn defects(&self) -> Vec<Defect> {
        let mut all = match &self.form {
            Form::Archive(log) => log.defects.clone(),
            Form::Document(log) => log.defects(),
        };
        if let Some((_, defects)) = self.header.get() {
            all.extend(defects.iter().cloned());
        }
        all
    }
}

enum Inner {
    Member(Box<EntryReader>),
    Chunked(Box<chunked::ChunkedReader>),
    Document { data: Box<dyn Read + Send>, range: StoredRange, hasher: crc32fast::Hasher },
}

/// Reads one sample's JSON.
pub struct SampleReader {
    inner: Inner,
}

impl SampleReader {
    /// Where the sample's bytes lie. `None` for a chunked sample, which lies in many places. Of a JSON document the CRC
    /// is that of the bytes read so far, so ask at the end.
    pub fn stored_range(&self) -> Option<StoredRange> {
        match &self.inner {
            Inner::Member(reader) => Some(reader.stored_range()),
            Inner::Chunked(_) => None,
            Inner::Document { range, hasher, .. } => {
                Some(StoredRange { crc32: hasher.clone().finalize(), ..range.clone() })
            }
        }
    }
}

impl Read for SampleReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.inner {
            Inner::Member(reader) => reader.read(buffer),
            Inner::Chunked(reader) => reader.read(buffer),
            Inner::Document { data, hasher, .. } => {
                let n = data.read(buffer)?;
                hasher.update(&buffer[..n]);
                Ok(n)
            }
        }
    }
}

/// Puts a header together from members as written, `key` and raw value each.
fn assemble(members: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut raw = vec![b'{'];
    for (key, value) in members {
        if raw.len() > 1 {
            raw.push(b',');
        }
        raw.extend_from_slice(Value::from(key.as_str()).to_string().as_bytes());
        raw.push(b':');
        raw.extend_from_slice(value);
    }
    raw.push(b'}');
    raw
}

fn header(raw: Vec<u8>, inferred: bool, what: &str) -> Result<Header, LogError> {
    let value = json::parse(&raw).map_err(|e| LogError::json(what, e))?;
    if !value.is_object() {
        return Err(LogError::NotALog { problem: "its header is no object" });
    }
    Ok(Header { raw, value, inferred })
}
