//! Bytes on their way to a file, hashed meanwhile by threads of their own.

use std::io::Read;
use std::sync::{Arc, mpsc};
use std::thread::{Scope, ScopedJoinHandle};

use ct_model::{LogHash, LogHasher};
use md5::{Digest as _, Md5};

use crate::blob::{COPY_BYTES, fill};
use crate::error::{Result, StoreError};

/// What to compute besides the length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hashes {
    pub(crate) sha256: bool,
    pub(crate) md5: bool,
}

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Hashed {
    pub(crate) size_bytes: u64,
    /// Absent when it was not asked for.
    pub(crate) sha256: Option<LogHash>,
    /// In hex; absent when it was not asked for.
    pub(crate) md5: Option<String>,
}

/// Hands a source on piece by piece, in pieces of [`COPY_BYTES`] but for the last. Memory: three pieces.
pub(crate) fn copy_hashed(
    source: &mut dyn Read,
    hashes: Hashes,
    mut write: impl FnMut(&[u8]) -> Result<()>,
) -> Result<Hashed> {
    let mut read = |buffer: &mut [u8]| fill(source, buffer).map_err(|source| StoreError::Source { source });
    let mut first = vec![0; COPY_BYTES];
    let n = read(&mut first)?;
    if n < first.len() {
        // What is small is done before a thread is there to help.
        let bytes = &first[..n];
        if n > 0 {
            write(bytes)?;
        }
        return Ok(Hashed {
            size_bytes: n as u64,
            sha256: hashes.sha256.then(|| LogHasher::hash(bytes)),
            md5: hashes.md5.then(|| Hasher::finish(Md5::new_with_prefix(bytes))),
        });
    }
    std::thread::scope(|scope| {
        let (give_back, returned) = mpsc::sync_channel(SPARE);
        let sha256 = hashes.sha256.then(|| start(scope, LogHasher::new(), give_back.clone()));
        let md5 = hashes.md5.then(|| start(scope, Md5::new(), give_back.clone()));
        let mut spare: Vec<Vec<u8>> = (1..SPARE).map(|_| vec![0; COPY_BYTES]).collect();
        let mut hashed = Hashed::default();
        let mut next = Some((first, n));
        while let Some((buffer, n)) = next {
            let piece = Arc::new(Piece { buffer, n });
            for to_hash in sha256.iter().map(|h| &h.0).chain(md5.iter().map(|h| &h.0)) {
                // It takes them as long as it can be sent to: hashing does not fail.
                let _ = to_hash.send(Arc::clone(&piece));
            }
            write(&piece.buffer[..n])?;
            hashed.size_bytes += n as u64;
            hand_back(piece, &give_back);
            next = match spare.pop().or_else(|| returned.recv().ok()) {
                Some(mut buffer) => Some(read(&mut buffer)?).filter(|n| *n > 0).map(|n| (buffer, n)),
                None => None,
            };
        }
        hashed.sha256 = sha256.map(finish);
        hashed.md5 = md5.map(finish);
        Ok(hashed)
    })
}

/// What a thread of its own computes.
trait Hasher: Send {
    type Hash: Send;
    fn update(&mut self, bytes: &[u8]);
    fn finish(self) -> Self::Hash;
}

impl Hasher for LogHasher {
    type Hash = LogHash;

    fn update(&mut self, bytes: &[u8]) {
        self.update(bytes);
    }

    fn finish(self) -> LogHash {
        self.finish()
    }
}

impl Hasher for Md5 {
    /// In hex.
    type Hash = String;

    fn update(&mut self, bytes: &[u8]) {
        md5::Digest::update(self, bytes);
    }

    fn finish(self) -> String {
        self.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Buffers that go round: one is filled and written while others are hashed.
const SPARE: usize = 3;

struct Piece {
    buffer: Vec<u8>,
    n: usize,
}

/// The last one who has a piece gives its buffer back.
fn hand_back(piece: Arc<Piece>, give_back: &mpsc::SyncSender<Vec<u8>>) {
    if let Some(piece) = Arc::into_inner(piece) {
        // Nobody waits for the last ones.
        let _ = give_back.send(piece.buffer);
    }
}

type Hashing<'scope, H> = (mpsc::SyncSender<Arc<Piece>>, ScopedJoinHandle<'scope, H>);

fn start<'scope, H: Hasher + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    mut hasher: H,
    give_back: mpsc::SyncSender<Vec<u8>>,
) -> Hashing<'scope, H::Hash> {
    let (to_hash, pieces) = mpsc::sync_channel::<Arc<Piece>>(SPARE);
    let thread = scope.spawn(move || {
        for piece in pieces {
            hasher.update(&piece.buffer[..piece.n]);
            hand_back(piece, &give_back);
        }
        hasher.finish()
    });
    (to_hash, thread)
}

fn finish<H>(hashing: Hashing<'_, H>) -> H {
    drop(hashing.0);
    match hashing.1.join() {
        Ok(hash) => hash,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn bytes_arrive_in_order_and_are_hashed() {
        let bytes: Vec<u8> = (0..3 * COPY_BYTES + 17).map(|i| (i % 251) as u8).collect();
        let mut copy = Vec::new();
        let all = Hashes { sha256: true, md5: true };
        let hashed = copy_hashed(&mut bytes.as_slice(), all, |piece| {
            copy.extend_from_slice(piece);
            Ok(())
        })
        .unwrap();
        assert!(copy == bytes);
        assert_eq!(hashed.size_bytes, bytes.len() as u64);
        assert_eq!(hashed.sha256, Some(LogHasher::hash(&bytes)));
        let exact = copy_hashed(&mut &bytes[..COPY_BYTES], all, |_| Ok(())).unwrap();
        assert_eq!(exact.sha256, Some(LogHasher::hash(&bytes[..COPY_BYTES])));
        let empty = copy_hashed(&mut io::empty(), all, |_| Ok(())).unwrap();
        assert_eq!((empty.size_bytes, empty.md5.as_deref()), (0, Some("d41d8cd98f00b204e9800998ecf8427e")));
        let none = Hashes { sha256: false, md5: false };
        let hashed = copy_hashed(&mut b"abc".as_slice(), none, |_| Ok(())).unwrap();
        assert_eq!((hashed.size_bytes, hashed.sha256, hashed.md5), (3, None, None));
        let md5 = copy_hashed(&mut b"abc".as_slice(), all, |_| Ok(())).unwrap().md5.unwrap();
        // As the RFC of MD5 says.
        assert_eq!(md5, "900150983cd24fb0d6963f7d28e17f72");
    }

    #[test]
    fn a_failing_writer_ends_it() {
        let bytes = vec![0; 9 * COPY_BYTES];
        let all = Hashes { sha256: true, md5: true };
        let failed = copy_hashed(&mut bytes.as_slice(), all, |_| Err(StoreError::invalid("stop")));
        assert!(matches!(failed, Err(StoreError::Invalid { .. })));
    }
}
