//! An `.eval` log, written sample by sample.

use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::WriteError;
use super::archive::{ArchiveWriter, Member, Row};
use super::edit::{RawObject, join_array};
use super::summary::summary_row;
use crate::archive::{Archive, ArchiveError};
use crate::format::{
    self, HEADER, JOURNAL_CONFIG_UPDATES, JOURNAL_START, JOURNAL_SUMMARIES, REDUCTIONS, SUMMARIES,
};
use crate::json::{JsonError, Kind, Reader};
use crate::{Defect, Log, LogError, SampleEntry};

/// Bytes of rows kept in memory before they go into the journal unasked.
const ROWS_BYTES_MAX: usize = 8 << 20;

/// Where a sample's summary row comes from.
pub(super) enum RowOf {
    /// Made from the sample.
    Sample,
    /// It is at hand.
    Given(Vec<u8>),
    /// It will be added on its own ([`LogWriter::add_row`]).
    Later,
}

impl From<Option<Vec<u8>>> for RowOf {
    fn from(row: Option<Vec<u8>>) -> Self {
        row.map_or(Self::Sample, Self::Given)
    }
}

/// Writes an `.eval` log so that a process killed at any moment leaves every finished sample readable.
///
/// A sample is in the file when [`LogWriter::add_sample`] returns. After [`LogWriter::flush`] the file is a whole archive
/// for any reader, until the next sample begins; a file torn in between is put right by [`crate::Log`], which finds the
/// samples without a directory. Samples are best added in the order of [`format::sample_order`].
///
/// Memory: a window per sample, the rows since the last flush, and one directory row for each sample.
pub struct LogWriter {
    path: PathBuf,
    archive: ArchiveWriter,
    /// Rows not yet in the journal.
    rows: Vec<Vec<u8>>,
    rows_bytes: usize,
    /// Journal members written so far.
    summaries: u64,
    config_updates: u64,
}

impl LogWriter {
    /// Begins a log. `start` is `{version, eval, plan}` (see [`start_of`]). The file must not exist.
    pub fn create(path: &Path, start: &[u8]) -> Result<Self, WriteError> {
        let failed = |source| WriteError::Io { path: path.to_owned(), source };
        let file = File::options().read(true).write(true).create_new(true).open(path).map_err(failed)?;
        Self::begin(file, path, start)
    }

    /// As [`LogWriter::create`], in an empty file that was made already.
    pub(super) fn begin(file: File, path: &Path, start: &[u8]) -> Result<Self, WriteError> {
        RawObject::parse(start).map_err(|source| WriteError::Document { what: "the start", source })?;
        let archive = ArchiveWriter::new(file, 0, Vec::new());
        let mut writer = Self {
            path: path.to_owned(),
            archive: archive.map_err(|source| WriteError::Io { path: path.to_owned(), source })?,
            rows: Vec::new(),
            rows_bytes: 0,
            summaries: 0,
            config_updates: 0,
        };
        writer.add_member(JOURNAL_START, start)?;
        Ok(writer)
    }

    /// Opens a log that was never finished, to go on writing it, and says what of it was lost. Rows that are missing are
    /// made from their samples.
    pub fn resume(path: &Path) -> Result<(Self, Vec<Defect>), WriteError> {
        let log = Log::open(path)?;
        let Some(archive) = log.archive() else {
            return Err(LogError::NotALog { problem: "a JSON document, not an archive" }.into());
        };
        if archive.get(HEADER).is_some() {
            return Err(WriteError::Finished { path: path.to_owned() });
        }
        if archive.get(JOURNAL_START).is_none() {
            return Err(LogError::NotALog { problem: "an archive without a start" }.into());
        }
        let failed = |source| WriteError::Io { path: path.to_owned(), source };
        let (rows, end) = members_of(archive)?;
        let (missing, summaries) = numbers(&rows, JOURNAL_SUMMARIES);
        let (_, config_updates) = numbers(&rows, JOURNAL_CONFIG_UPDATES);
        let file = File::options().read(true).write(true).open(path).map_err(failed)?;
        let mut writer = Self {
            path: path.to_owned(),
            archive: ArchiveWriter::new(file, end, rows).map_err(failed)?,
            rows: Vec::new(),
            rows_bytes: 0,
            summaries,
            config_updates,
        };
        let mut with_row = HashSet::new();
        log.summaries(&mut |row| {
            with_row.insert((row.id, row.epoch));
            Ok::<_, LogError>(())
        })?;
        let mut defects = log.defects();
        for sample in log.samples()? {
            if with_row.contains(&(sample.id.clone(), sample.epoch)) {
                continue;
            }
            match summary_row(&mut log.read_sample(sample)?) {
                Ok(row) => writer.add_row(row)?,
                Err(e) => defects.push(Defect::sample(&sample.member_name(), e)),
            }
        }
        // Inspect reads the journal from 1 to the highest number and fails where one is missing.
        for number in missing {
            writer.add_member(&format!("{JOURNAL_SUMMARIES}{number}.json"), b"[]")?;
        }
        Ok((writer, defects))
    }

    /// Adds a sample from its plain JSON, in bounded memory, and makes its summary row.
    ///
    /// A sample that cannot be read to its end or is no JSON object is [`WriteError::Sample`]: it leaves no trace, and the
    /// writer goes on. A sample added twice counts as it was added last.
    pub fn add_sample(&mut self, id: &str, epoch: u64, sample: &mut dyn Read) -> Result<(), WriteError> {
        self.add_json(id, epoch, sample, RowOf::Sample)
    }

    /// As [`LogWriter::add_sample`], with a row that is already there.
    pub fn add_sample_with_row(
        &mut self,
        id: &str,
        epoch: u64,
        sample: &mut dyn Read,
        row: Option<Vec<u8>>,
    ) -> Result<(), WriteError> {
        self.add_json(id, epoch, sample, row.into())
    }

    /// Adds a sample of another log. A whole member of an archive is checked, then copied as it lies there.
    pub fn add_sample_from(
        &mut self,
        log: &Log,
        sample: &SampleEntry,
        row: Option<Vec<u8>>,
    ) -> Result<(), WriteError> {
        let mut reader = log.read_sample(sample)?;
        if sample.is_chunked() || log.archive().is_none() {
            return self.add_sample_with_row(&sample.id, sample.epoch, &mut reader, row);
        }
        let row = match row {
            Some(row) => io::copy(&mut reader, &mut io::sink()).map(|_| row).map_err(JsonError::Io),
            None => summary_row(&mut reader),
        };
        let row =
            row.map_err(|source| WriteError::Sample { id: sample.id.clone(), epoch: sample.epoch, source })?;
        self.copy_member(log, &sample.member_name())?;
        self.add_row(row)
    }

    /// Copies a member that the caller knows to be whole.
    pub(super) fn copy_member(&mut self, log: &Log, name: &str) -> Result<(), WriteError> {
        let found = log.archive().and_then(|archive| Some((archive, archive.get(name)?)));
        let Some((archive, entry)) = found else {
            return Err(LogError::NotALog { problem: "not an archive with that member" }.into());
        };
        let range = archive.read(entry).map_err(LogError::from)?.stored_range();
        let mut data = archive.read_compressed(entry).map_err(LogError::from)?;
        self.archive.add_compressed(name, &range, &mut data).map_err(|e| match e.downcast::<ArchiveError>() {
            Ok(source) => WriteError::Log(source.into()),
            Err(source) => self.failed(source),
        })
    }

    pub(super) fn add_json(
        &mut self,
        id: &str,
        epoch: u64,
        sample: &mut dyn Read,
        row: RowOf,
    ) -> Result<(), WriteError> {
        let path = &self.path;
        let failed = |source| WriteError::Io { path: path.clone(), source };
        let mut member = self.archive.member(&format::sample_name(id, epoch)).map_err(failed)?;
        let mut tee = Tee { source: sample, member: &mut member, failed: None };
        let row = match row {
            RowOf::Sample => summary_row(&mut tee).map(Some),
            RowOf::Given(row) => check_object(&mut tee).map(|()| Some(row)),
            RowOf::Later => check_object(&mut tee).map(|()| None),
        };
        if let Some(e) = tee.failed {
            return Err(failed(e));
        }
        let row = row.map_err(|source| WriteError::Sample { id: id.to_owned(), epoch, source })?;
        member.finish().map_err(failed)?;
        match row {
            Some(row) => self.add_row(row),
            None => Ok(()),
        }
    }

    /// Adds a row alone: for samples whose row did not come with them, or that were not logged.
    pub fn add_row(&mut self, row: Vec<u8>) -> Result<(), WriteError> {
        self.rows_bytes += row.len();
        self.rows.push(row);
        if self.rows_bytes > ROWS_BYTES_MAX {
            self.write_journal()?;
        }
        Ok(())
    }

    /// Records a change of settings while running: one of the header's `config_updates`.
    pub fn add_config_update(&mut self, update: &[u8]) -> Result<(), WriteError> {
        self.config_updates += 1;
        self.add_member(&format!("{JOURNAL_CONFIG_UPDATES}{}.json", self.config_updates), update)
    }

    pub(super) fn add_member(&mut self, name: &str, content: &[u8]) -> Result<(), WriteError> {
        self.archive.add(name, content).map_err(|e| self.failed(e))
    }

    fn failed(&self, source: io::Error) -> WriteError {
        WriteError::Io { path: self.path.clone(), source }
    }

    fn write_journal(&mut self) -> Result<(), WriteError> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let name = format!("{JOURNAL_SUMMARIES}{}.json", self.summaries + 1);
        self.add_member(&name, &join_array(&self.rows))?;
        self.summaries += 1;
        self.rows.clear();
        self.rows_bytes = 0;
        Ok(())
    }

    /// Makes the file a whole archive, for any reader.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        self.write_journal()?;
        self.archive.write_directory().map_err(|e| self.failed(e))
    }

    /// Ends a log that is finished: all rows in one member, reductions, and the header last, then flushed to disk.
    pub fn finish(mut self, header: &[u8], reductions: Option<&[u8]>) -> Result<(), WriteError> {
        let document = |what| move |source| WriteError::Document { what, source };
        let mut checked = RawObject::parse(header).map_err(document("the header"))?;
        let inner = |key: &str| matches!(key, "samples" | "reductions");
        let header = if checked.keys().any(inner) {
            checked.retain(|key, _| !inner(key));
            &checked.to_bytes()
        } else {
            header
        };
        if let Some(reductions) = reductions {
            let mut reader = Reader::new(reductions);
            reader.skip().and_then(|()| reader.end()).map_err(document("the list of reductions"))?;
        }
        self.flush()?;
        self.write_summaries()?;
        if let Some(reductions) = reductions {
            self.add_member(REDUCTIONS, reductions)?;
        }
        self.add_member(HEADER, header)?;
        self.close()
    }

    /// Puts the rows of the journal together. They are read back from the file: there may be more than memory holds.
    fn write_summaries(&mut self) -> Result<(), WriteError> {
        let log = Log::open(&self.path)?;
        let path = &self.path;
        let failed = |source| WriteError::Io { path: path.clone(), source };
        let mut member = self.archive.member(SUMMARIES).map_err(failed)?;
        let mut first = true;
        member.write_all(b"[").map_err(failed)?;
        log.summaries(&mut |row| {
            if !std::mem::take(&mut first) {
                member.write_all(b",").map_err(failed)?;
            }
            member.write_all(&row.raw).map_err(failed)
        })?;
        member.write_all(b"]").map_err(failed)?;
        member.finish().map_err(failed)
    }

    /// Ends the file, flushed to disk, but leaves the log as it is: without a header its status stays `started`.
    pub fn close(mut self) -> Result<(), WriteError> {
        self.flush()?;
        self.archive.sync().map_err(|e| self.failed(e))
    }
}

/// The directory rows of an archive, and where the next member goes. What only a finished log has is left out: a process
/// may have died between the first of these members and the last.
fn members_of(archive: &Archive) -> Result<(Vec<Row>, u64), WriteError> {
    let mut rows = Vec::new();
    let mut end = 0;
    for entry in archive.entries().iter().filter(|e| e.name != SUMMARIES && e.name != REDUCTIONS) {
        let range = archive.read(entry).map_err(LogError::from)?.stored_range();
        end = end.max(range.start + range.compressed_size);
        rows.push(Row {
            name: entry.name.clone(),
            method: entry.method,
            crc32: entry.crc32,
            compressed_size: entry.compressed_size,
            uncompressed_size: entry.uncompressed_size,
            offset: entry.header_offset,
            descriptor: false,
            wide: false,
        });
    }
    Ok((rows, end))
}

/// Of the members `<prefix><n>.json`: the numbers missing before the highest, and the highest.
fn numbers(rows: &[Row], prefix: &str) -> (Vec<u64>, u64) {
    let found: BTreeSet<u64> = rows
        .iter()
        .filter_map(|row| row.name.strip_prefix(prefix)?.strip_suffix(".json")?.parse().ok())
        .collect();
    let last = found.last().copied().unwrap_or(0);
    // A number beyond the count of members is none of ours; do not fill up to it.
    let missing = (1..=last).take(rows.len()).filter(|n| !found.contains(n)).collect();
    (missing, last)
}

/// Passes on what it reads, to be written too.
struct Tee<'a, 'm> {
    source: &'a mut dyn Read,
    member: &'a mut Member<'m>,
    failed: Option<io::Error>,
}

impl Read for Tee<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.source.read(buffer)?;
        self.member.write_all(&buffer[..n]).map_err(|e| {
            let kind = e.kind();
            self.failed = Some(e);
            io::Error::from(kind)
        })?;
        Ok(n)
    }
}

/// Reads a document to its end and sees that it is an object.
pub(super) fn check_object(source: &mut dyn Read) -> Result<(), JsonError> {
    let mut reader = Reader::new(source);
    if reader.peek()? != Kind::Object {
        return Err(JsonError::Syntax { offset: reader.offset(), expected: "an object" });
    }
    reader.skip()?;
    reader.end()
}

/// What [`LogWriter::create`] takes, out of a header: `version`, `eval` and `plan`.
pub fn start_of(header: &[u8]) -> Result<Vec<u8>, WriteError> {
    let document = |source| WriteError::Document { what: "the header", source };
    let header = RawObject::parse(header).map_err(document)?;
    let mut start = RawObject::default();
    for (key, or) in [("version", "2"), ("eval", "{}"), ("plan", "{}")] {
        start.set(key, header.get(key).unwrap_or(or.as_bytes()).to_vec());
    }
    Ok(start.to_bytes())
}
