//! Bytes on their way to a file, hashed meanwhile by threads of their own.

use std::io::Read;
use std::sync::{Arc, mpsc};

use ct_model::LogHash;
use md5::Md5;
use sha2::{Digest as _, Sha256};

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
    std::thread::scope(|scope| {
        let (give_back, returned) = mpsc::sync_channel(SPARE);
        let sha256 = hashes.sha256.then(|| start(scope, Sha256::new(), give_back.clone()));
        let md5 = hashes.md5.then(|| start(scope, Md5::new(), give_back.clone()));
        let mut spare = vec![vec![0; COPY_BYTES]; SPARE];
        let mut hashed = Hashed::default();
        while let Some(mut buffer) = spare.pop().or_else(|| returned.recv().ok()) {
            let n = fill(source, &mut buffer).map_err(|source| StoreError::Source { source })?;
            if n == 0 {
                break;
            }
            let piece = Arc::new(Piece { buffer, n });
            for to_hash in sha256.iter().map(|h| &h.0).chain(md5.iter().map(|h| &h.0)) {
                // It takes them as long as it can be sent to: hashing does not fail.
                let _ = to_hash.send(Arc::clone(&piece));
            }
            write(&piece.buffer[..n])?;
            hashed.size_bytes += n as u64;
            hand_back(piece, &give_back);
        }
        hashed.sha256 = sha256.map(finish::<Sha256>).map(|digest| LogHash::from_bytes(digest.into()));
        hashed.md5 =
            md5.map(finish::<Md5>).map(|digest| digest.iter().map(|byte| format!("{byte:02x}")).collect());
        Ok(hashed)
    })
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

type Hasher<'scope, D> =
    (mpsc::SyncSender<Arc<Piece>>, std::thread::ScopedJoinHandle<'scope, sha2::digest::Output<D>>);

fn start<'scope, D: sha2::digest::Digest + Send + 'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    mut hasher: D,
    give_back: mpsc::SyncSender<Vec<u8>>,
) -> Hasher<'scope, D>
where
    sha2::digest::Output<D>: Send,
{
    let (to_hash, pieces) = mpsc::sync_channel::<Arc<Piece>>(SPARE);
    let thread = scope.spawn(move || {
        for piece in pieces {
            hasher.update(&piece.buffer[..piece.n]);
            hand_back(piece, &give_back);
        }
        hasher.finalize()
    });
    (to_hash, thread)
}

fn finish<D: sha2::digest::Digest>(hasher: Hasher<'_, D>) -> sha2::digest::Output<D> {
    drop(hasher.0);
    match hasher.1.join() {
        Ok(digest) => digest,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(hashed.sha256, Some(LogHash::from_bytes(Sha256::digest(&bytes).into())));
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
