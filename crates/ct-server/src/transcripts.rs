//! Samples that someone reads, inflated into files that nobody else can open, with an index of each.
//!
//! A compressed sample cannot be read from the middle, so the first reader of one starts a thread that inflates it into
//! a file without a name, which is gone with the process, and makes its index on the way. Whoever reads meanwhile gets
//! what is there so far. Those read last are kept, as long as files and indexes fit their limits.
//!
//! Cost: one pass per sample and stay. Memory: the indexes.

use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ct_log::json::Reader;
use ct_log::source::Source;
use ct_model::transcript::{Index, PartReader, scan};
use ct_model::{LogHash, TrajectoryId};

use crate::error::{ApiError, causes};
use crate::limits;

/// How often someone who waits looks.
const LOOK_EVERY: Duration = Duration::from_millis(4);

/// The samples that are read.
pub(crate) struct Transcripts {
    folder: PathBuf,
    /// Those used last come last.
    open: Mutex<Vec<Arc<Transcript>>>,
}

/// A sample that is read.
pub(crate) struct Transcript {
    id: TrajectoryId,
    log: LogHash,
    spool: Arc<Spool>,
    index: Mutex<Index>,
    /// Bytes of the whole sample, where they are known.
    pub(crate) size_bytes: Option<u64>,
    done: AtomicBool,
    failed: Mutex<Option<String>>,
    /// Nobody wants it any more.
    dropped: AtomicBool,
}

impl Transcripts {
    /// Keeps its files in this folder.
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, open: Mutex::new(Vec::new()) }
    }

    fn open(&self) -> MutexGuard<'_, Vec<Arc<Transcript>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sample of a trajectory; `read` gives its JSON when it is not there yet.
    pub(crate) fn get<R: Read + Send + 'static>(
        &self,
        id: &TrajectoryId,
        log: &LogHash,
        size_bytes: Option<u64>,
        read: impl FnOnce() -> Result<R, ApiError>,
    ) -> Result<Arc<Transcript>, ApiError> {
        if let Some(found) = Self::kept(&mut self.open(), id, log) {
            return Ok(found);
        }
        if size_bytes.is_some_and(|size| size > limits::SPOOL_BYTES_MAX) {
            return Err(ApiError::invalid(
                "the sample is too large for the viewer; the trajectory can be downloaded instead",
            ));
        }
        // The log may lie far away; nobody else waits for it.
        let reader = read()?;
        let mut open = self.open();
        if let Some(found) = Self::kept(&mut open, id, log) {
            return Ok(found);
        }
        Self::make_room(&mut open, size_bytes.unwrap_or(0));
        if open.iter().filter(|one| !one.is_done()).count() >= limits::SPOOLS_AT_A_TIME {
            return Err(ApiError::unavailable("too many samples are being read").retry_after(2));
        }
        let file = private_file(&self.folder).map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull => ApiError::unavailable("the server's disk is full"),
            _ => ApiError::internal(&error),
        })?;
        let transcript = Arc::new(Transcript {
            id: id.clone(),
            log: log.clone(),
            spool: Arc::new(Spool { file, size_bytes: AtomicU64::new(0) }),
            index: Mutex::new(Index::default()),
            size_bytes,
            done: AtomicBool::new(false),
            failed: Mutex::new(None),
            dropped: AtomicBool::new(false),
        });
        let inflating = Arc::clone(&transcript);
        let thread = std::thread::Builder::new().name("transcript".to_owned());
        thread.spawn(move || inflating.fill(reader)).map_err(|error| ApiError::internal(&error))?;
        open.push(Arc::clone(&transcript));
        Ok(transcript)
    }

    /// One that is there already and was not broken off; it is the one used last from now on.
    fn kept(open: &mut Vec<Arc<Transcript>>, id: &TrajectoryId, log: &LogHash) -> Option<Arc<Transcript>> {
        let at = open.iter().position(|one| one.id == *id && one.log == *log)?;
        let found = open.remove(at);
        if found.is_failed() {
            return None;
        }
        open.push(Arc::clone(&found));
        Some(found)
    }

    /// Forgets those that were not used for longest, until there is room for one more.
    fn make_room(open: &mut Vec<Arc<Transcript>>, size_bytes: u64) {
        while let Some(oldest) = open.first() {
            let spooled: u64 =
                open.iter().map(|one| one.size_bytes.unwrap_or(0).max(one.spool.size_bytes())).sum();
            let indexed: usize = open.iter().map(|one| one.index().memory_bytes()).sum();
            if open.len() < limits::SPOOLS_MAX
                && spooled.saturating_add(size_bytes) <= limits::SPOOL_BYTES_MAX
                && indexed <= limits::INDEX_BYTES_MAX
            {
                return;
            }
            oldest.dropped.store(true, Ordering::Relaxed);
            open.remove(0);
        }
    }
}

impl Transcript {
    /// What is known so far.
    pub(crate) fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads parts of it.
    pub(crate) fn reader(&self) -> PartReader<'_> {
        PartReader::new(Arc::clone(&self.spool) as Arc<dyn Source>, &self.index)
    }

    /// Bytes that are there.
    pub(crate) fn spooled_bytes(&self) -> u64 {
        self.spool.size_bytes()
    }

    /// Nothing more will come.
    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    fn is_failed(&self) -> bool {
        self.failure().is_some()
    }

    /// Why the sample could not be read to its end.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until something is known, or everything, or for as long as someone at a screen may wait.
    pub(crate) fn wait_for(&self, known: impl Fn(&Index) -> bool) {
        let begin = Instant::now();
        while !self.is_done() && begin.elapsed() < limits::FIRST_SCREEN_WAIT {
            // What is known already is enough, unless the whole will come soon.
            if begin.elapsed() > limits::WHOLE_SAMPLE_WAIT && known(&self.index()) {
                return;
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn fill(&self, reader: impl Read) {
        let tee = Tee { from: reader, to: &self.spool, dropped: &self.dropped };
        if let Err(error) = scan(&mut Reader::new(tee), &self.index)
            && !self.dropped.load(Ordering::Relaxed)
        {
            let cause = causes(&error);
            tracing::error!(trajectory = %self.id, %cause, "a stored sample cannot be read to its end");
            *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(cause);
        }
        self.done.store(true, Ordering::Release);
    }
}

/// The inflated bytes, as far as they are there.
struct Spool {
    file: File,
    size_bytes: AtomicU64,
}

impl Source for Spool {
    fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::Acquire)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.size_bytes().saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(left);
        read_at(&self.file, offset, &mut buffer[..wanted])
    }
}

#[cfg(unix)]
fn read_at(file: &File, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, offset)
}

#[cfg(windows)]
fn read_at(file: &File, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buffer, offset)
}

#[cfg(unix)]
fn write_at(file: &File, offset: u64, buffer: &[u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, buffer, offset)
}

#[cfg(windows)]
fn write_at(file: &File, mut offset: u64, mut buffer: &[u8]) -> io::Result<()> {
    while !buffer.is_empty() {
        let n = std::os::windows::fs::FileExt::seek_write(file, buffer, offset)?;
        buffer = &buffer[n..];
        offset += n as u64;
    }
    Ok(())
}

/// A file without a name, for this process and its user alone.
fn private_file(folder: &Path) -> io::Result<File> {
    std::fs::create_dir_all(folder)?;
    let mut file = tempfile::tempfile_in(folder)?;
    file.flush()?;
    Ok(file)
}

/// Writes what it reads into the spool before it hands it on.
struct Tee<'a, R> {
    from: R,
    to: &'a Spool,
    dropped: &'a AtomicBool,
}

impl<R: Read> Read for Tee<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.dropped.load(Ordering::Relaxed) {
            return Err(io::Error::other("nobody reads the sample any more"));
        }
        let n = self.from.read(buffer)?;
        let at = self.to.size_bytes();
        if at + n as u64 > limits::SPOOL_BYTES_MAX {
            return Err(io::Error::other("the sample is larger than the viewer takes"));
        }
        write_at(&self.to.file, at, &buffer[..n])?;
        self.to.size_bytes.store(at + n as u64, Ordering::Release);
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(texts: usize) -> Vec<u8> {
        let message = r#"{"role": "user", "content": "text"}"#;
        format!(r#"{{"messages": [{}]}}"#, vec![message; texts].join(",")).into_bytes()
    }

    fn get(all: &Transcripts, number: u32, json: Vec<u8>) -> Arc<Transcript> {
        let id = TrajectoryId::new(format!("t{number}")).unwrap();
        let log: LogHash = "0".repeat(64).parse().unwrap();
        let size = Some(json.len() as u64);
        all.get(&id, &log, size, || Ok(io::Cursor::new(json))).unwrap()
    }

    fn done(transcript: &Transcript) {
        while !transcript.is_done() {
            std::thread::sleep(LOOK_EVERY);
        }
    }

    #[test]
    fn a_sample_is_read_once_and_stays_readable() {
        let folder = tempfile::tempdir().unwrap();
        let all = Transcripts::new(folder.path().join("tmp"));
        let first = get(&all, 1, sample(3));
        done(&first);
        assert!(Arc::ptr_eq(&first, &get(&all, 1, Vec::new())));
        assert_eq!((first.index().step_count(), first.failure()), (3, None));
        assert_eq!(first.reader().step(2).unwrap().unwrap().role, "user");
        // The file has no name, so nobody finds it and nothing is left of it.
        assert_eq!(std::fs::read_dir(folder.path().join("tmp")).unwrap().count(), 0);
    }

    #[test]
    fn those_not_used_for_longest_are_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let all = Transcripts::new(folder.path().to_owned());
        let first = get(&all, 0, sample(1));
        for number in 1..=limits::SPOOLS_MAX as u32 {
            done(&get(&all, number, sample(1)));
        }
        assert_eq!(all.open().len(), limits::SPOOLS_MAX);
        assert!(first.dropped.load(Ordering::Relaxed) && !Arc::ptr_eq(&first, &get(&all, 0, sample(1))));
    }

    #[test]
    fn a_damaged_sample_says_so_and_is_read_again_when_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let all = Transcripts::new(folder.path().to_owned());
        let mut json = sample(5);
        json.truncate(100);
        let torn = get(&all, 1, json);
        done(&torn);
        assert_eq!(torn.index().step_count(), 2);
        assert!(torn.failure().unwrap().contains("ends"));
        assert!(!Arc::ptr_eq(&torn, &get(&all, 1, sample(5))));
    }
}
