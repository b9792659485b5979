//! Writes a log again: converted, repaired or filtered.
//!
//! Cost: a sample that stays as it is, is inflated once for its CRC and copied compressed; one that changes is inflated
//! twice, walked twice and compressed once. Memory: windows, and one key for each sample.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

use super::edit::{Edited, raw_array};
use super::header::{NewHeader, document, filter_reductions};
use super::log_writer::{LogWriter, RowOf, check_object, start_of};
use super::sample::{Changes, Scan, plan};
use super::summary::{summary_row, without_scores};
use super::{Glob, WriteError};
use crate::archive::ArchiveError;
use crate::format::{self, MACOS_TWINS};
use crate::json::{JsonError, Reader};
use crate::{Defect, Format, Log, LogError, SampleEntry};

/// What to change on the way. The default changes nothing.
#[derive(Debug, Clone, Default)]
pub struct RewriteOptions {
    /// Scorers whose scores are left out everywhere.
    pub drop_scores: Vec<Glob>,
    /// What is written into the header.
    pub header: HeaderEdits,
}

/// Entries of `eval.metadata` to set; what is `None` or empty stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeaderEdits {
    /// `run_name`
    pub run_name: Option<String>,
    /// `policy`
    pub policy: Option<String>,
    /// `task_set`
    pub task_set: Option<String>,
    /// Added to `tags`, behind those that the log has there or else in `eval.tags`.
    pub tags: Vec<String>,
}

/// How far a rewrite is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Samples written or given up.
    pub samples: u64,
    /// Samples there are.
    pub samples_total: u64,
    /// Bytes of JSON gone through.
    pub bytes: u64,
}

/// What a rewrite did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rewritten {
    /// Samples in the new log.
    pub samples: u64,
    /// Whether the new log is finished: an unfinished one stays so.
    pub finished: bool,
    /// What the old log had lost.
    pub defects: Vec<Defect>,
}

/// Writes a log again, as an archive or as one document by the extension of `out`. The file appears whole or not at all,
/// and the same log and options give the same bytes.
///
/// Samples that cannot be read to their end are left out and reported; chunked ones are written whole. What has to change
/// for Inspect to read everything is changed: message pools of the version 3 experiment become `events_data`, the single
/// score of old samples gets its name, and a log that does not list its samples does so now.
pub fn rewrite(
    log: &Log,
    out: &Path,
    options: &RewriteOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Rewritten, WriteError> {
    let extension = out.extension().unwrap_or_default().to_ascii_lowercase();
    let format = match extension.to_str() {
        Some("eval") => Format::Eval,
        Some("json") => Format::Json,
        _ => return Err(WriteError::Extension { path: out.to_owned() }),
    };
    let old = log.header()?;
    let mut header = NewHeader::new(old, format).map_err(document)?;
    let single_score = match format {
        Format::Eval => header.single_score_name(),
        Format::Json => None,
    };
    header.drop_scores(&options.drop_scores).map_err(document)?;
    header.apply(&options.header).map_err(document)?;
    header.list_samples(|| sample_ids(log))?;
    let reductions = match log.reductions()? {
        Some(raw) if !options.drop_scores.is_empty() => {
            let what = "the list of reductions";
            Some(
                filter_reductions(&raw, &options.drop_scores)
                    .map_err(|source| WriteError::Document { what, source })?,
            )
        }
        other => other,
    };
    let started = old.value.get("status").and_then(|s| s.as_str()).is_none_or(|s| s == "started");
    let unfinished = old.inferred || started && log.format() == Format::Json && header.fits_journal();

    let temp = Temp::beside(out)?;
    let mut work = Work {
        log,
        changes: Changes { drop: &options.drop_scores, single_score: single_score.as_deref() },
        defects: Vec::new(),
        done: Progress { samples: 0, samples_total: log.samples()?.len() as u64, bytes: 0 },
        progress,
    };
    let samples = match format {
        Format::Eval => work.write_archive(&temp, &header, reductions.as_deref(), !unfinished)?,
        Format::Json => work.write_document(&temp, &header, reductions.as_deref())?,
    };
    temp.rename(out)?;
    let mut defects = log.defects();
    defects.append(&mut work.defects);
    Ok(Rewritten { samples, finished: !unfinished && !started, defects })
}

/// The ids of all samples as written, each once.
fn sample_ids(log: &Log) -> Result<Vec<Vec<u8>>, WriteError> {
    /// Ends the reading of a sample early.
    enum Stop {
        Found,
        Json,
    }
    impl From<JsonError> for Stop {
        fn from(_: JsonError) -> Self {
            Self::Json
        }
    }
    let mut ids = Vec::new();
    let mut seen = HashSet::new();
    for sample in log.samples()? {
        // What is wrong with a sample is found when it is written.
        let Ok(reader) = log.read_sample(sample) else { continue };
        let mut id = None;
        let walked = Reader::new(reader).object(|key, r| {
            if key != "id" {
                return Ok(());
            }
            id = r.raw(crate::json::KEY_BYTES_MAX)?;
            Err(Stop::Found)
        });
        if matches!(walked, Err(Stop::Found))
            && let Some(id) = id
            && seen.insert(id.clone())
        {
            ids.push(id);
        }
    }
    Ok(ids)
}

struct Work<'a> {
    log: &'a Log,
    changes: Changes<'a>,
    defects: Vec<Defect>,
    done: Progress,
    progress: &'a mut dyn FnMut(Progress),
}

impl Work<'_> {
    fn write_archive(
        &mut self,
        temp: &Temp,
        header: &NewHeader,
        reductions: Option<&[u8]>,
        finish: bool,
    ) -> Result<u64, WriteError> {
        let raw = header.to_bytes();
        let mut writer = LogWriter::begin(temp.file()?, &temp.path, &start_of(&raw)?)?;
        if !finish {
            for update in header.config_updates().map_err(document)? {
                writer.add_config_update(&update)?;
            }
        }
        let mut rows = HashSet::new();
        self.log.summaries(&mut |row| {
            rows.insert((row.id, row.epoch));
            Ok::<_, LogError>(())
        })?;
        let samples = self.log.samples()?;
        let mut written = HashSet::new();
        let mut missed = HashSet::new();
        for sample in samples {
            let key = (sample.id.clone(), sample.epoch);
            let added = self.add_to_archive(&mut writer, sample, rows.contains(&key));
            if self.settle(sample, added)? {
                written.insert(key);
            } else {
                missed.insert(key);
            }
        }
        let changes = &self.changes;
        let defects = &mut self.defects;
        self.log.summaries(&mut |row| {
            let key = (row.id, row.epoch);
            // A log without any sample was written that way.
            if !written.contains(&key) && !samples.is_empty() {
                if !missed.contains(&key) {
                    let name = format::sample_name(&key.0, key.1);
                    defects.push(Defect::sample(&name, "missing, though it has a summary"));
                }
                return Ok(());
            }
            let raw = match changes.drop {
                [] => row.raw,
                _ => without_scores(&row.raw, &|name| changes.drops(name))
                    .map_err(|e| LogError::json("a summary", e))?,
            };
            writer.add_row(raw)
        })?;
        self.copy_others(&mut writer)?;
        if finish {
            writer.finish(&raw, reductions)?
        } else {
            writer.close()?
        }
        Ok(written.len() as u64)
    }

    /// Copies members that no part of the format accounts for.
    fn copy_others(&mut self, writer: &mut LogWriter) -> Result<(), WriteError> {
        let Some(archive) = self.log.archive() else { return Ok(()) };
        for entry in archive.entries().iter().filter(|e| archive.is_current(e)) {
            let name = entry.name.as_str();
            let known = matches!(name, format::HEADER | format::SUMMARIES | format::REDUCTIONS)
                || ["_journal/", format::SAMPLES, MACOS_TWINS].iter().any(|prefix| name.starts_with(prefix));
            let hostile = name.starts_with(['/', '\\']) || name.split(['/', '\\']).any(|part| part == "..");
            if known || hostile || name.ends_with('/') {
                continue;
            }
            let copied = archive
                .read(entry)
                .map_err(|e| WriteError::Log(e.into()))
                .and_then(|mut reader| {
                    io::copy(&mut reader, &mut io::sink())
                        .map_err(|e| WriteError::Log(LogError::json(name, JsonError::Io(e))))
                })
                .and_then(|_| writer.copy_member(self.log, name));
            if let Some(reason) = lost(copied)? {
                self.defects.push(Defect::member(name, entry.header_offset, &reason));
            }
        }
        Ok(())
    }

    /// Takes note of what became of a sample; true when it was written.
    fn settle(&mut self, sample: &SampleEntry, added: Result<u64, WriteError>) -> Result<bool, WriteError> {
        self.done.samples += 1;
        self.done.bytes += *added.as_ref().unwrap_or(&0);
        let reason = lost(added.map(drop))?;
        (self.progress)(self.done);
        if let Some(reason) = &reason {
            self.defects.push(Defect::sample(&sample.member_name(), reason));
        }
        Ok(reason.is_none())
    }

    /// Adds a sample and gives back how many bytes of JSON that took.
    fn add_to_archive(
        &self,
        writer: &mut LogWriter,
        sample: &SampleEntry,
        has_row: bool,
    ) -> Result<u64, WriteError> {
        let bad = |source| WriteError::Sample { id: sample.id.clone(), epoch: sample.epoch, source };
        let row = || if has_row { RowOf::Later } else { RowOf::Sample };
        let member = self.log.format() == Format::Eval && !sample.is_chunked();
        let mut bytes = 0;
        if self.changes.drop.is_empty() && self.changes.single_score.is_none() {
            let mut scan = Scan::new(self.log.read_sample(sample)?);
            let made = match (member, has_row) {
                (true, false) => summary_row(&mut scan).map(Some).map_err(bad)?,
                _ => io::copy(&mut scan, &mut io::sink()).map(|_| None).map_err(|e| bad(JsonError::Io(e)))?,
            };
            bytes = scan.bytes;
            if !scan.found {
                if !member {
                    let mut reader = self.log.read_sample(sample)?;
                    writer.add_json(&sample.id, sample.epoch, &mut reader, row())?;
                    return Ok(bytes);
                }
                writer.copy_member(self.log, &sample.member_name())?;
                if let Some(made) = made {
                    writer.add_row(made)?;
                }
                return Ok(bytes);
            }
        }
        let mut edited = self.edited(sample, &mut bytes)?;
        writer.add_json(&sample.id, sample.epoch, &mut edited, row())?;
        Ok(bytes)
    }

    /// The sample with its changes.
    fn edited(&self, sample: &SampleEntry, bytes: &mut u64) -> Result<Edited<'_>, WriteError> {
        let mut scan = Scan::new(self.log.read_sample(sample)?);
        let edits = plan(&mut scan, &self.changes).map_err(|source| WriteError::Sample {
            id: sample.id.clone(),
            epoch: sample.epoch,
            source,
        })?;
        *bytes = scan.bytes;
        let log = self.log;
        let sample = sample.clone();
        let again = move || {
            let reader = log.read_sample(&sample).map_err(|e| match e {
                LogError::Io(io) => io,
                other => io::Error::new(io::ErrorKind::InvalidData, other),
            })?;
            Ok(Box::new(reader) as Box<dyn Read>)
        };
        Edited::new(edits, again).map_err(|e| WriteError::Log(LogError::Io(e)))
    }

    fn write_document(
        &mut self,
        temp: &Temp,
        header: &NewHeader,
        reductions: Option<&[u8]>,
    ) -> Result<u64, WriteError> {
        let path = &temp.path;
        let failed = |source| WriteError::Io { path: path.to_owned(), source };
        let mut out = BufWriter::with_capacity(256 * 1024, temp.file()?);
        let mut header = header.to_bytes();
        header.pop();
        header.extend_from_slice(br#","samples":["#);
        out.write_all(&header).map_err(failed)?;
        let mut written = 0;
        for sample in self.log.samples()? {
            let before = out.stream_position().map_err(failed)?;
            if written > 0 {
                out.write_all(b",").map_err(failed)?;
            }
            let added = self.add_to_document(path, &mut out, sample);
            if self.settle(sample, added)? {
                written += 1;
            } else {
                out.seek(io::SeekFrom::Start(before)).map_err(failed)?;
                out.get_ref().set_len(before).map_err(failed)?;
            }
        }
        out.write_all(b"]").map_err(failed)?;
        if let Some(reductions) = reductions
            && raw_array(reductions).is_ok_and(|r| r.is_some())
        {
            out.write_all(br#","reductions":"#).map_err(failed)?;
            out.write_all(reductions).map_err(failed)?;
        }
        out.write_all(b"}").map_err(failed)?;
        let file = out.into_inner().map_err(|e| failed(e.into_error()))?;
        file.sync_all().map_err(failed)?;
        Ok(written)
    }

    fn add_to_document(
        &self,
        path: &Path,
        out: &mut BufWriter<File>,
        sample: &SampleEntry,
    ) -> Result<u64, WriteError> {
        let mut bytes = 0;
        let mut edited = self.edited(sample, &mut bytes)?;
        let mut tee = Tee { source: &mut edited, out, failed: None };
        let checked = check_object(&mut tee);
        if let Some(source) = tee.failed {
            return Err(WriteError::Io { path: path.to_owned(), source });
        }
        checked.map_err(|source| WriteError::Sample {
            id: sample.id.clone(),
            epoch: sample.epoch,
            source,
        })?;
        Ok(bytes)
    }
}

/// Why a part of the log is lost; what hinders the whole rewrite is an error.
fn lost(result: Result<(), WriteError>) -> Result<Option<String>, WriteError> {
    let error = match result {
        Ok(()) => return Ok(None),
        Err(WriteError::Sample { source, .. }) => LogError::json("no sample", source),
        Err(WriteError::Log(error)) => error,
        Err(other) => return Err(other),
    };
    match error {
        // What is put together from several members fails as it is read.
        LogError::Io(io) if io.kind() == io::ErrorKind::InvalidData => Ok(Some(io.to_string())),
        LogError::Io(_) | LogError::Archive(ArchiveError::Io(_)) => Err(error.into()),
        LogError::Archive(ArchiveError::Member { problem, .. }) => Ok(Some(problem.to_string())),
        LogError::Json { source, .. } => Ok(Some(source.to_string())),
        other => Ok(Some(other.to_string())),
    }
}

/// Passes on what it reads, to be written too.
struct Tee<'a> {
    source: &'a mut dyn Read,
    out: &'a mut BufWriter<File>,
    failed: Option<io::Error>,
}

impl Read for Tee<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.source.read(buffer)?;
        self.out.write_all(&buffer[..n]).map_err(|e| {
            let kind = e.kind();
            self.failed = Some(e);
            io::Error::from(kind)
        })?;
        Ok(n)
    }
}

/// A file beside the one to be written, which takes its place or goes away. It is locked for as long as somebody writes
/// it; the system lets go of the lock of a killed process, and the next writer removes what has none.
struct Temp {
    path: PathBuf,
    file: File,
    keep: bool,
}

const TEMP_PREFIX: &str = ".ct-";
const TEMP_SUFFIX: &str = ".part";
/// Elsewhere a locked file cannot be read by its own writer; nothing is locked there, and no leftover removed.
const LOCKS: bool = cfg!(unix);

impl Temp {
    fn beside(out: &Path) -> Result<Self, WriteError> {
        let folder = out.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if LOCKS {
            remove_leftovers(folder);
        }
        let process = std::process::id();
        for n in 0_u32.. {
            let path = out.with_file_name(format!("{TEMP_PREFIX}{process}-{n}{TEMP_SUFFIX}"));
            match File::options().read(true).write(true).create_new(true).open(&path) {
                Ok(file) => {
                    let locked = LOCKS && file.lock().is_ok();
                    // Else another process took it for a leftover before it was locked.
                    if !locked || path.symlink_metadata().is_ok() {
                        return Ok(Self { path, file, keep: false });
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(source) => return Err(WriteError::Io { path: out.to_owned(), source }),
            }
        }
        Err(WriteError::Io { path: out.to_owned(), source: io::ErrorKind::AlreadyExists.into() })
    }

    /// The file, to be written by its path's owner.
    fn file(&self) -> Result<File, WriteError> {
        self.file.try_clone().map_err(|source| WriteError::Io { path: self.path.clone(), source })
    }

    fn rename(mut self, out: &Path) -> Result<(), WriteError> {
        let failed = |source| WriteError::Io { path: out.to_owned(), source };
        std::fs::rename(&self.path, out).map_err(failed)?;
        self.keep = true;
        // The name itself must survive a power failure too.
        #[cfg(unix)]
        {
            let folder = out.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
            File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
        }
        Ok(())
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        if !self.keep {
            // Nothing is to be done about one that cannot be removed.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Removes what killed processes left half written.
fn remove_leftovers(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let numbers =
            name.to_str().and_then(|name| name.strip_prefix(TEMP_PREFIX)?.strip_suffix(TEMP_SUFFIX));
        let is_ours = numbers.and_then(|numbers| numbers.split_once('-')).is_some_and(|(process, n)| {
            [process, n].iter().all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
        });
        if is_ours
            && entry.file_type().is_ok_and(|kind| kind.is_file())
            && File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok())
        {
            // One that cannot be removed does no harm.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
