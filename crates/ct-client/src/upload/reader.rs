//! A log that is hashed while it is sent, unless that only makes both slower.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use ct_log::source::{FileSource, Source as _};
use ct_model::{LogHash, LogHasher};

use crate::{ClientError, Result};

/// Bytes that are hashed at a time.
const PIECE_BYTES: u64 = 1 << 20;
/// Bytes that a processor keeps near itself.
const NEAR_BYTES: usize = 256 << 10;
/// A machine of so many processors hashes beside whatever else it does.
const PROCESSORS_ENOUGH: usize = 4;
/// Bytes a second from which on sending keeps the processors of a smaller one busy, and is over soon.
const FAST: f64 = 150e6;
/// Bytes after which a rate can be told.
const RATE_BYTES: u64 = 32 << 20;
/// How often it is looked whether sending is still fast.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A log file. Its length is taken when it is opened.
pub struct LogReader {
    path: PathBuf,
    source: FileSource,
    sending: Mutex<Option<Sending>>,
    ended: Condvar,
}

/// What is being sent.
struct Sending {
    since: Instant,
    size_bytes: u64,
}

impl Sending {
    fn is_fast(&self) -> bool {
        #[expect(clippy::cast_precision_loss, reason = "a rate need not be exact")]
        let rate = self.size_bytes as f64 / self.since.elapsed().as_secs_f64();
        self.size_bytes >= RATE_BYTES && rate >= FAST
    }
}

impl LogReader {
    /// Opens a log.
    pub fn open(path: &Path) -> Result<Self> {
        let source = FileSource::open(path).map_err(|source| unreadable(path, source))?;
        Ok(Self { path: path.to_owned(), source, sending: Mutex::default(), ended: Condvar::new() })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its length.
    pub fn size_bytes(&self) -> u64 {
        self.source.size_bytes()
    }

    /// SHA-256 of the whole. `progress` is told how many bytes are hashed.
    pub fn hash(&self, progress: &dyn Fn(u64)) -> Result<LogHash> {
        let few =
            thread::available_parallelism().is_ok_and(|processors| processors.get() < PROCESSORS_ENOUGH);
        let mut hasher = LogHasher::new();
        let mut piece = BytesMut::new();
        let mut at = 0;
        while at < self.size_bytes() {
            if few {
                self.give_way();
            }
            piece = self.read(at, (self.size_bytes() - at).min(PIECE_BYTES), piece)?;
            hasher.update(&piece);
            at += piece.len() as u64;
            progress(at);
        }
        Ok(hasher.finish())
    }

    /// Waits while the log is sent fast.
    fn give_way(&self) {
        let mut sending = self.sending();
        while sending.as_ref().is_some_and(Sending::is_fast) {
            let waited = self.ended.wait_timeout(sending, LOOK_EVERY);
            sending = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Reads into a buffer whose room is used again.
    pub(super) fn read(&self, start: u64, size_bytes: u64, buffer: BytesMut) -> Result<BytesMut> {
        self.read_pieces(start, size_bytes, buffer, |_| ())
    }

    /// As [`Self::read`], with the CRC-32 of what was read.
    pub(super) fn read_summed(
        &self,
        start: u64,
        size_bytes: u64,
        buffer: BytesMut,
    ) -> Result<(BytesMut, u32)> {
        let mut sum = crc32fast::Hasher::new();
        let buffer = self.read_pieces(start, size_bytes, buffer, |piece| sum.update(piece))?;
        Ok((buffer, sum.finalize()))
    }

    /// Shows each piece while the processor has it at hand.
    fn read_pieces(
        &self,
        start: u64,
        size_bytes: u64,
        mut buffer: BytesMut,
        mut see: impl FnMut(&[u8]),
    ) -> Result<BytesMut> {
        let length =
            usize::try_from(size_bytes).map_err(|_| self.unreadable(io::ErrorKind::InvalidInput.into()))?;
        buffer.resize(length, 0);
        let mut at = start;
        for piece in buffer.chunks_mut(NEAR_BYTES) {
            self.source.read_exact_at(at, piece).map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => self.changed(),
                _ => self.unreadable(error),
            })?;
            see(piece);
            at += piece.len() as u64;
        }
        Ok(buffer)
    }

    fn sending(&self) -> MutexGuard<'_, Option<Sending>> {
        self.sending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that sending begins.
    pub(super) fn sending_begins(&self) {
        *self.sending() = Some(Sending { since: Instant::now(), size_bytes: 0 });
    }

    /// Says that so many more bytes were sent.
    pub(super) fn sent(&self, size_bytes: u64) {
        if let Some(sending) = &mut *self.sending() {
            sending.size_bytes += size_bytes;
        }
    }

    /// Says that it is over.
    pub(super) fn sending_ends(&self) {
        *self.sending() = None;
        self.ended.notify_all();
    }

    pub(super) fn unreadable(&self, source: io::Error) -> ClientError {
        unreadable(&self.path, source)
    }

    pub(super) fn changed(&self) -> ClientError {
        ClientError::SourceChanged { path: self.path.display().to_string() }
    }
}

fn unreadable(path: &Path, source: io::Error) -> ClientError {
    ClientError::Io { doing: format!("read {}", path.display()), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_hashed_whatever_is_sent_meanwhile() {
        let path = std::env::temp_dir().join(format!("ct-client-reader-{}", std::process::id()));
        let bytes: Vec<u8> = (0..5_000_000_u32).map(|i| (i % 251) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        let reader = LogReader::open(&path).unwrap();
        let expected = LogHasher::hash(&bytes);
        assert_eq!(reader.hash(&|_| ()).unwrap(), expected);
        reader.sending_begins();
        assert_eq!(reader.hash(&|_| ()).unwrap(), expected, "slow sending is not waited for");
        reader.sent(u64::MAX / 2);
        let hashed = thread::scope(|scope| {
            let hashed = scope.spawn(|| reader.hash(&|_| ()).unwrap());
            reader.sending_ends();
            hashed.join().unwrap()
        });
        assert_eq!(hashed, expected);
        std::fs::remove_file(&path).unwrap();
    }
}
