//! Run folders: `run.json` and a file per trajectory, written from a log or from the store, and brought back to what
//! they should be.
//!
//! A file is written under a temporary name and renamed when it is whole, so a process that is killed, or two at once,
//! never leave half a file under a trajectory's name. A file already there is compared by its frame, its size and the
//! sample's CRC, and written again only when it differs.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};

use ct_log::json::Reader;
use ct_log::{Inflater, Log, LogError, SampleEntry};
use ct_model::convert::{
    Converted, HeaderFacts, Registration, SampleFacts, TrajectoryIds, convert_json, convert_sample, in_order,
    run_id_of, sample_range,
};
use ct_model::{BundleFrame, LogHash, PriceTable, RunHeader, RunId, TrajectoryDocument, TrajectoryId};
use serde_json::{Value, json};

use super::input::{self, Input};
use super::make::finish_document;
use super::{FailedItem, FolderReport, MakeOptions, Selection, threads};
use crate::error::CliError;
use crate::home::{Home, HomeLog};
use crate::output::Progress;

/// The file that describes the run.
pub(crate) const RUN_FILE: &str = "run.json";
/// Around the name of a file that is being written. Nothing else in the program uses this suffix.
const PARTIAL_PREFIX: &str = ".ct-";
const PARTIAL_SUFFIX: &str = ".json.partial";
/// The member of `run.json` that lists the trajectories in the folder.
pub(super) const IDS_KEY: &str = "trajectory_ids";
/// A sample up to this size is inflated once and held; a larger one is inflated a second time to be written.
const HELD_BYTES_MAX: u64 = 16 << 20;
const COPY_BYTES: usize = 128 * 1024;

/// Writes the run folder of `source`: `run.json` and a file per trajectory.
pub(crate) fn save_dir(
    source: &Path,
    folder: &Path,
    overwrite: bool,
    options: &MakeOptions,
    progress: &Progress,
) -> Result<FolderReport, CliError> {
    let input = Input::open(source, options, progress)?;
    let prices = input::prices(options.prices.as_deref())?;
    let log = input::open(&input.path)?;
    let log_error = |e: &LogError| CliError::log(source, e);
    let header = log.header().map_err(|e| log_error(&e))?;
    let facts = HeaderFacts::from_value(&header.value);
    let samples = log.samples().map_err(|e| log_error(&e))?;

    let mut registration = Registration::default();
    // Memory goes from sample to sample, at most one's a thread.
    let spare = Mutex::new(Vec::new());
    // The log is hashed while the first samples are read; they wait for its hash before they are written.
    let target = OnceLock::new();
    let begin = || {
        let hash = hash_file(&input.path, progress)?;
        let run_id = run_id_of(hash.as_str()).map_err(|e| CliError::internal(e.to_string()))?;
        let writer = FolderWriter::new(folder, &run_id, overwrite)?;
        progress.items("writing", samples.len() as u64);
        let ids = Turns::new(TrajectoryIds::new(&facts, hash.as_str()));
        Ok::<_, CliError>(Target { hash, run_id, writer, ids })
    };
    let (worked, missing) = std::thread::scope(|scope| {
        scope.spawn(|| {
            // Nobody waits for ever, whatever becomes of this thread.
            let _given = Given(&target);
            drop(target.set(begin()));
        });
        // There is time for it while the log is hashed.
        let missing = super::make::missing(&log);
        let worked = in_order(
            samples.len(),
            threads(),
            |index| {
                let sample = &samples[index];
                let scratch = spare.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
                let read = ReadSample::new(&log, sample, &facts, prices.as_ref(), scratch);
                let Ok(target) = target.wait() else { return Ok(None) };
                let turn = target.ids.turn(index);
                let mut read = match read {
                    Ok(read) => read,
                    Err(LogError::Io(e)) => {
                        return Err(Trouble { id: sample.member_name(), reason: e.to_string(), full: None });
                    }
                    Err(e) => {
                        let lost = super::make::lost(&sample.member_name(), &e);
                        target.writer.count(|report| report.defects.push(lost));
                        return Ok(None);
                    }
                };
                let id = turn.take(|ids| ids.assign(&read.facts));
                finish_document(&mut read.document, &target.run_id, id);
                target.writer.bring(&read.document, || read.open(&log, sample))?;
                spare.lock().unwrap_or_else(PoisonError::into_inner).push(read.scratch);
                Ok(Some((read.document, read.facts.control_setting().map(str::to_owned))))
            },
            |_, result| {
                progress.advance(1);
                match (result, target.get()) {
                    (Ok(Some((document, setting))), _) => registration.add(&document, setting.as_deref()),
                    (Err(trouble), Some(Ok(target))) => target.writer.failed(trouble)?,
                    _ => {}
                }
                Ok::<_, CliError>(())
            },
        );
        (worked, missing)
    });
    let target = target.into_inner().ok_or_else(|| CliError::internal("nobody hashed the log"))??;
    let Target { hash, run_id, writer, .. } = target;
    if let Err(error) = worked {
        return writer.stopped(error);
    }

    let mut run = super::make::header_of(&facts, &input.options);
    registration.apply(&mut run);
    run.run_id = Some(run_id);
    let count = registration.trajectory_count();
    let size_bytes = fs::metadata(&input.path).map_err(|e| CliError::io("read", &input.path, &e))?.len();
    let log_part = LogPart::of(&log, Some(&hash), size_bytes, count)?;
    let mut report = writer.finish(&run, &log_part)?;
    let before = input.defects.into_iter().chain(log.defects().into_iter().map(|d| d.to_string()));
    report.defects.splice(0..0, before);
    report.defects.extend(missing);
    Ok(report)
}

/// Sees to it that there is a target, or an error instead, when its thread ends.
struct Given<'a>(&'a OnceLock<Result<Target, CliError>>);

impl Drop for Given<'_> {
    fn drop(&mut self) {
        let _ = self.0.set(Err(CliError::internal("hashing the log broke off")));
    }
}

/// What writing the folder of a log needs to know of the log as a whole.
struct Target {
    hash: LogHash,
    run_id: RunId,
    writer: FolderWriter,
    ids: Turns<TrajectoryIds>,
}

/// Writes the folder of a run in the store, or repairs it. The folder of another run is a conflict unless `overwrite`.
pub(crate) fn download(
    home: &Home,
    run: &RunId,
    selection: &Selection,
    folder: &Path,
    overwrite: bool,
    progress: &Progress,
) -> Result<FolderReport, CliError> {
    let known = home.run(run)?;
    let record = &known.record;
    let writer = FolderWriter::new(folder, run, overwrite)?;
    let logs = home.log(&known, run)?;
    let count_of_run = record.header.trajectory_count.unwrap_or_default();
    let count = selection.trajectories.as_ref().map_or(count_of_run, |ids| ids.len() as u64);
    progress.items("writing", count);
    let sums = Mutex::new(Registration::default());
    let worked = each_document(home, run, selection, |document| {
        let result = writer.bring(document, || sample_of(&logs, document));
        progress.advance(1);
        sums.lock().unwrap_or_else(PoisonError::into_inner).add(document, None);
        match result {
            Ok(()) => Ok(()),
            Err(trouble) => writer.failed(trouble),
        }
    });
    if let Err(error) = worked {
        return writer.stopped(error);
    }
    let mut header = record.header.clone();
    if selection.trajectories.is_some() {
        // The settings are not in the documents; the run's stay.
        let settings = header.control_settings.take();
        sums.into_inner().unwrap_or_else(PoisonError::into_inner).apply(&mut header);
        header.control_settings = settings;
    }
    let hash = known.log.as_ref().map(|log| &log.hash);
    let log_part = LogPart::of(logs.log()?, hash, logs.size_bytes(), count_of_run)?;
    writer.finish(&header, &log_part)
}

/// Writes some trajectories of any runs into a folder, without a `run.json`.
pub(crate) fn download_trajectories(
    home: &Home,
    trajectories: &[ct_model::TrajectoryId],
    folder: &Path,
    progress: &Progress,
) -> Result<FolderReport, CliError> {
    let writer = FolderWriter::plain(folder)?;
    progress.items("writing", trajectories.len() as u64);
    let mut logs: Option<(RunId, Arc<HomeLog>)> = None;
    let mut work = Vec::with_capacity(trajectories.len());
    for id in trajectories {
        let document = home.document(id)?;
        let Some(run) = document.run_id.clone() else { continue };
        let log = match &logs {
            Some((of, log)) if *of == run => Arc::clone(log),
            _ => Arc::new(home.log(&home.run(&run)?, &run)?),
        };
        logs = Some((run, Arc::clone(&log)));
        work.push((document, log));
    }
    let worked = in_order(
        work.len(),
        threads(),
        |index| {
            let (document, log) = &work[index];
            writer.bring(document, || sample_of(log, document))
        },
        |_, result| {
            progress.advance(1);
            result.or_else(|trouble| writer.failed(trouble))
        },
    );
    if let Err(error) = worked {
        return writer.stopped(error);
    }
    Ok(writer.report())
}

/// Hands the documents of a run to several threads. The first error stops them all.
fn each_document(
    home: &Home,
    run: &RunId,
    selection: &Selection,
    work: impl Fn(&TrajectoryDocument) -> Result<(), CliError> + Sync,
) -> Result<(), CliError> {
    let threads = threads();
    let (send, receive) = mpsc::sync_channel::<TrajectoryDocument>(2 * threads);
    let receive = Mutex::new(receive);
    let stopped = AtomicBool::new(false);
    let first = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let next = receive.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(document) = next else { return };
                    // Once stopped, take the rest off the channel so that the sender is not left waiting.
                    if stopped.load(Ordering::Relaxed) {
                        continue;
                    }
                    if let Err(e) = work(&document) {
                        stopped.store(true, Ordering::Relaxed);
                        first.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(e);
                    }
                }
            });
        }
        let walked = home.documents(run, &mut |document| {
            let wanted = selection
                .trajectories
                .as_ref()
                .is_none_or(|ids| document.trajectory_id.as_ref().is_some_and(|id| ids.contains(id)));
            if wanted && send.send(document).is_err() || stopped.load(Ordering::Relaxed) {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        drop(send);
        walked
    })?;
    first.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

/// A document's sample on its way into its file.
fn sample_of(log: &HomeLog, document: &TrajectoryDocument) -> io::Result<SampleJson<'static>> {
    Ok(SampleJson::Stream(log.stored.read(document).map_err(io::Error::other)?))
}

/// The log of a trajectory's run.
pub(crate) fn log_of(home: &Home, document: &TrajectoryDocument) -> Result<HomeLog, CliError> {
    let run =
        document.run_id.as_ref().ok_or_else(|| CliError::internal("a stored document without a run"))?;
    home.log(&home.run(run)?, run)
}

/// A sample's JSON on its way into a file.
enum SampleJson<'a> {
    Held(&'a [u8]),
    Stream(Box<dyn Read>),
}

impl SampleJson<'_> {
    fn write_to(self, file: &mut File) -> io::Result<()> {
        match self {
            Self::Held(bytes) => file.write_all(bytes),
            Self::Stream(mut json) => copy(&mut json, file),
        }
    }
}

impl Read for SampleJson<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Held(bytes) => bytes.read(buffer),
            Self::Stream(json) => json.read(buffer),
        }
    }
}

/// A sample that was read once for its document.
struct ReadSample {
    facts: SampleFacts,
    document: TrajectoryDocument,
    /// Whether the sample was small enough to be held; then its JSON is in `scratch`.
    held: bool,
    scratch: Scratch,
}

/// What reading samples that are held takes, used again.
#[derive(Default)]
struct Scratch {
    inflater: Inflater,
    json: Vec<u8>,
}

impl ReadSample {
    /// Reads a sample; into `scratch` when it is small enough to be held.
    fn new(
        log: &Log,
        sample: &SampleEntry,
        header: &HeaderFacts,
        prices: Option<&PriceTable>,
        mut scratch: Scratch,
    ) -> Result<Self, LogError> {
        let Scratch { inflater, json } = &mut scratch;
        let range = log.read_whole_sample(sample, HELD_BYTES_MAX, inflater, json)?;
        let held = range.is_some();
        let Converted { facts, document } = match range {
            Some(range) => {
                let mut reader = Reader::of_bytes(std::mem::take(json));
                let mut converted = convert_json(&mut reader, &sample.member_name(), header, prices)?;
                *json = reader.into_bytes();
                converted.document.eval_sample_range = Some(sample_range(sample, range));
                converted
            }
            None => convert_sample(log, sample, header, prices)?,
        };
        Ok(Self { facts, document, held, scratch })
    }

    fn open(&self, log: &Log, sample: &SampleEntry) -> io::Result<SampleJson<'_>> {
        Ok(match self.held {
            true => SampleJson::Held(&self.scratch.json),
            false => SampleJson::Stream(Box::new(log.read_sample(sample).map_err(io::Error::other)?)),
        })
    }
}

/// Lets threads take their turns at something in the order of their numbers.
struct Turns<T> {
    state: Mutex<(usize, T)>,
    changed: std::sync::Condvar,
}

impl<T> Turns<T> {
    fn new(value: T) -> Self {
        Self { state: Mutex::new((0, value)), changed: std::sync::Condvar::new() }
    }

    /// The turn of this number. It is over when it was taken, or dropped without.
    fn turn(&self, index: usize) -> Turn<'_, T> {
        Turn { turns: self, index, taken: false }
    }
}

struct Turn<'a, T> {
    turns: &'a Turns<T>,
    index: usize,
    taken: bool,
}

impl<T> Turn<'_, T> {
    fn take<R>(mut self, f: impl FnOnce(&mut T) -> R) -> R {
        self.wait(f)
    }

    fn wait<R>(&mut self, f: impl FnOnce(&mut T) -> R) -> R {
        self.taken = true;
        let mut state = self.turns.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.0 < self.index {
            state = self.turns.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let result = f(&mut state.1);
        state.0 += 1;
        self.turns.changed.notify_all();
        result
    }
}

impl<T> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        if !self.taken {
            self.wait(|_| ());
        }
    }
}

/// Why a trajectory has no file.
struct Trouble {
    id: String,
    reason: String,
    /// The disk is full: there is no point in going on.
    full: Option<CliError>,
}

/// Brings the files of one folder to what they should be.
struct FolderWriter {
    folder: PathBuf,
    report: Mutex<FolderReport>,
    /// Trajectories whose files are right now.
    right: Mutex<BTreeSet<TrajectoryId>>,
    /// Trajectories that the `run.json` found here lists.
    previous: BTreeSet<TrajectoryId>,
    overwrite: bool,
    full: AtomicBool,
}

impl FolderWriter {
    /// For a run. The folder may hold the same run, or other files; another `run.json` is a conflict unless `overwrite`.
    ///
    /// From here on the folder says whose it is, also when the work does not come to its end.
    fn new(folder: &Path, run: &RunId, overwrite: bool) -> Result<Self, CliError> {
        let mut writer = Self::plain(folder)?;
        writer.overwrite = overwrite;
        let path = folder.join(RUN_FILE);
        let there = match read_regular(&path) {
            Ok(bytes) => Some(ct_log::json::parse(&bytes).unwrap_or_default()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(CliError::io("read", &path, &e)),
        };
        let owner = there.as_ref().map(|value| value.get("run_id").and_then(Value::as_str));
        match owner {
            Some(Some(owner)) if owner == run.as_str() => {}
            Some(other) if !overwrite => {
                let what = other
                    .map_or_else(|| format!("another {RUN_FILE}"), |run| format!("another run: {run:?}"));
                return Err(CliError::conflict(format!("{} holds {what}", folder.display()))
                    .hint("choose another folder, or let its files be replaced with --overwrite"));
            }
            _ => {
                let mark = json!({"run_id": run, "complete": false}).to_string();
                write_whole(&path, |file| file.write_all(mark.as_bytes()))
                    .map_err(|e| CliError::io("write", &path, &e))?;
            }
        }
        let listed = there.as_ref().and_then(|value| value.get(IDS_KEY)).and_then(Value::as_array);
        let ids = listed.into_iter().flatten().filter_map(Value::as_str);
        writer.previous = ids.filter_map(|id| TrajectoryId::new(id).ok()).collect();
        Ok(writer)
    }

    /// For trajectories alone.
    fn plain(folder: &Path) -> Result<Self, CliError> {
        fs::create_dir_all(folder).map_err(|e| CliError::io("make the folder", folder, &e))?;
        remove_leftovers(folder);
        Ok(Self {
            folder: folder.to_owned(),
            report: Mutex::default(),
            right: Mutex::default(),
            previous: BTreeSet::new(),
            overwrite: false,
            full: AtomicBool::new(false),
        })
    }

    fn count(&self, f: impl FnOnce(&mut FolderReport)) {
        f(&mut self.report.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Notes a failure; a full disk ends the work.
    fn failed(&self, trouble: Trouble) -> Result<(), CliError> {
        if let Some(error) = trouble.full {
            self.full.store(true, Ordering::Relaxed);
            return Err(error);
        }
        let path = self.folder.join(format!("{}.json", trouble.id));
        self.count(|report| {
            report.failed.push(FailedItem { trajectory_id: trouble.id, path, reason: trouble.reason });
        });
        Ok(())
    }

    /// Makes the document's file right. `open` gives the sample's JSON; it may be asked twice.
    fn bring<'a>(
        &self,
        document: &TrajectoryDocument,
        open: impl Fn() -> io::Result<SampleJson<'a>>,
    ) -> Result<(), Trouble> {
        let Some(id) = &document.trajectory_id else {
            return Err(Trouble { id: document.name.clone(), reason: "it has no id".to_owned(), full: None });
        };
        if format!("{id}.json").eq_ignore_ascii_case(RUN_FILE) {
            let reason = format!("its file would be {RUN_FILE}, which describes the run");
            return Err(Trouble { id: id.to_string(), reason, full: None });
        }
        // An id is letters, digits and the like by construction, so this stays in the folder.
        let path = self.folder.join(format!("{id}.json"));
        let frame = BundleFrame::new(document);
        let result = (|| {
            let there = path.symlink_metadata().is_ok();
            if there && is_right(&path, document, &frame, &open)? {
                self.count(|report| report.right += 1);
                return Ok(());
            }
            write_whole(&path, |file| {
                file.write_all(frame.head())?;
                open()?.write_to(file)?;
                file.write_all(BundleFrame::TAIL)
            })?;
            self.count(|report| if there { report.repaired += 1 } else { report.written += 1 });
            Ok(())
        })();
        if result.is_ok() {
            self.right.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone());
        }
        result.map_err(|e: io::Error| Trouble {
            id: id.to_string(),
            reason: e.to_string(),
            full: matches!(e.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
                .then(|| CliError::io("write", &path, &e)),
        })
    }

    /// Writes `run.json`, unless it is right, and says what was done. With `overwrite`, files that the former `run.json`
    /// lists and this one does not are removed.
    fn finish(self, run: &RunHeader, log: &LogPart) -> Result<FolderReport, CliError> {
        let path = self.folder.join(RUN_FILE);
        let right = self.right.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let text = run_file(run, log, &right)?;
        if read_regular(&path).ok().as_deref() != Some(&text) {
            write_whole(&path, |file| file.write_all(&text)).map_err(|e| CliError::io("write", &path, &e))?;
        }
        if self.overwrite {
            for id in self.previous.difference(&right) {
                let stale = self.folder.join(format!("{id}.json"));
                match fs::remove_file(&stale) {
                    Err(e) if e.kind() != io::ErrorKind::NotFound => {
                        return Err(CliError::io("remove", &stale, &e));
                    }
                    _ => {}
                }
            }
        }
        Ok(self.report())
    }

    /// After an error: of a full disk the report says what was done until then.
    fn stopped(self, error: CliError) -> Result<FolderReport, CliError> {
        if !self.full.load(Ordering::Relaxed) {
            return Err(error);
        }
        Ok(FolderReport { stopped: Some(error), ..self.report() })
    }

    fn report(self) -> FolderReport {
        let mut report = self.report.into_inner().unwrap_or_else(PoisonError::into_inner);
        report.failed.sort_by(|a, b| a.trajectory_id.cmp(&b.trajectory_id));
        report
    }
}

/// The bytes of a file. What is none, such as a pipe, which would be waited for, has none: it is something else's.
fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    if fs::metadata(path)?.is_file() { fs::read(path) } else { Ok(Vec::new()) }
}

/// Whether a file is the document's, with the sample whole in it.
fn is_right<'a>(
    path: &Path,
    document: &TrajectoryDocument,
    frame: &BundleFrame,
    open: &impl Fn() -> io::Result<SampleJson<'a>>,
) -> io::Result<bool> {
    // Looked at first: opening a pipe would wait for whoever writes into it.
    if !path.symlink_metadata().is_ok_and(|found| found.is_file()) {
        return Ok(false);
    }
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(e),
    };
    let range = document.eval_sample_range.as_ref();
    let differs = |size| file.metadata().is_ok_and(|m| m.len() != frame.file_bytes(size));
    if range.is_some_and(|range| differs(range.uncompressed_size)) {
        return Ok(false);
    }
    let mut head = vec![0; frame.head().len()];
    match file.read_exact(&mut head) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
        Err(e) => return Err(e),
    }
    if head != frame.head() {
        return Ok(false);
    }
    let same = match range {
        Some(range) => crc32((&mut file).take(range.uncompressed_size))? == range.crc32,
        // A chunked sample has no CRC of its own: compare with the sample itself.
        None => same_bytes(&mut file, &mut open()?)?,
    };
    if !same {
        return Ok(false);
    }
    let mut tail = Vec::new();
    file.take(BundleFrame::TAIL.len() as u64 + 1).read_to_end(&mut tail)?;
    Ok(tail == BundleFrame::TAIL)
}

fn crc32(mut from: impl Read) -> io::Result<u32> {
    let mut hasher = crc32fast::Hasher::new();
    let mut buffer = vec![0; COPY_BYTES];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(hasher.finalize()),
            n => hasher.update(&buffer[..n]),
        }
    }
}

/// Whether `file` goes on with all the bytes of `other`.
fn same_bytes(file: &mut File, other: &mut impl Read) -> io::Result<bool> {
    let mut theirs = vec![0; COPY_BYTES];
    let mut ours = vec![0; COPY_BYTES];
    loop {
        let n = other.read(&mut theirs)?;
        if n == 0 {
            return Ok(true);
        }
        match file.read_exact(&mut ours[..n]) {
            Ok(()) if ours[..n] == theirs[..n] => {}
            Ok(()) => return Ok(false),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            Err(e) => return Err(e),
        }
    }
}

fn copy(from: &mut impl Read, to: &mut File) -> io::Result<()> {
    let mut buffer = vec![0; COPY_BYTES];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => to.write_all(&buffer[..n])?,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

/// Writes a file beside its place and renames it there when it is whole.
pub(super) fn write_whole(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(PARTIAL_PREFIX).suffix(PARTIAL_SUFFIX);
    #[cfg(unix)]
    {
        // Not a secret: as open as the user's mask lets other files be.
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    let mut file = loop {
        let file = builder.tempfile_in(folder)?;
        // Tells others that somebody is at work on it. Where files cannot be locked, nobody removes them either.
        let locked = file.as_file().lock().is_ok();
        if !locked || file.path().exists() {
            break file;
        }
        // Another process took it for a leftover before it was locked.
    };
    write(file.as_file_mut())?;
    file.persist(path).map_err(|e| e.error)?;
    Ok(())
}

/// Removes what killed processes left half written. What is still being written is locked.
fn remove_leftovers(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(PARTIAL_PREFIX)
            && name.ends_with(PARTIAL_SUFFIX)
            && entry.file_type().is_ok_and(|kind| kind.is_file())
            && let Ok(file) = File::open(entry.path())
            && file.try_lock().is_ok()
        {
            // One that cannot be removed does no harm.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// SHA-256 of a file.
pub(crate) fn hash_file(path: &Path, progress: &Progress) -> Result<LogHash, CliError> {
    let mut file = File::open(path).map_err(|e| CliError::io("read", path, &e))?;
    progress.bytes("hashing", file.metadata().map_err(|e| CliError::io("read", path, &e))?.len());
    let mut done = 0;
    Ok(ct_store::hash_log(&mut file, &mut |so_far| {
        progress.advance(so_far - done);
        done = so_far;
    })?)
}

/// What `run.json` says of the log, enough to put the log together again from the folder.
pub(super) struct LogPart {
    about: Value,
    header: Vec<u8>,
    reductions: Option<Vec<u8>>,
}

impl LogPart {
    /// `samples` are those of the log that can be read; a folder with fewer holds a part of it. The hash may not be known.
    fn of(log: &Log, hash: Option<&LogHash>, size_bytes: u64, samples: u64) -> Result<Self, CliError> {
        let error = |e: &LogError| CliError::log(Path::new("the log"), e);
        let header = log.header().map_err(|e| error(&e))?;
        let format = match log.format() {
            ct_log::Format::Eval => "eval",
            ct_log::Format::Json => "json",
        };
        Ok(Self {
            about: json!({
                "format": format,
                "sha256": hash,
                "size_bytes": size_bytes,
                "finished": !header.inferred,
                "samples": samples,
            }),
            header: header.raw.clone(),
            reductions: log.reductions().map_err(|e| error(&e))?,
        })
    }
}

/// The text of `run.json`: the run's header, the trajectories in the folder, and under `eval_log` the log's header and reductions as they were written.
fn run_file(run: &RunHeader, log: &LogPart, ids: &BTreeSet<TrajectoryId>) -> Result<Vec<u8>, CliError> {
    let internal = |e: serde_json::Error| CliError::internal(e.to_string());
    let mut text = serde_json::to_vec_pretty(run).map_err(internal)?;
    splice(&mut text, IDS_KEY, &serde_json::to_vec(ids).map_err(internal)?);
    splice(&mut text, "eval_log", &{
        let mut about = serde_json::to_vec(&log.about).map_err(internal)?;
        splice(&mut about, "header", &log.header);
        if let Some(reductions) = &log.reductions {
            splice(&mut about, "reductions", reductions);
        }
        about
    });
    text.push(b'\n');
    Ok(text)
}

/// Adds a member to the end of an object's text. The object has members already.
fn splice(object: &mut Vec<u8>, key: &str, value: &[u8]) {
    object.pop();
    while object.last().is_some_and(u8::is_ascii_whitespace) {
        object.pop();
    }
    object.extend_from_slice(format!(",\n  \"{key}\": ").as_bytes());
    object.extend_from_slice(value);
    object.extend_from_slice(b"\n}");
}
