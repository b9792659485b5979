//! Logs that come in parts, in any order and from several clients at once, over several starts of the server.
//!
//! All parts are written to their places in one file. A part counts once its CRC-32 was right and its row is written: it
//! then outlives the process. A power cut may cost bytes whose rows are there; the hash of the whole, without which no
//! log counts as stored, tells. It is computed as parts arrive in their order, and behind those that do not, so that
//! completing reads little; in a new process it is computed again from the file. Completing gives the file its name.
//! Nobody waits for the disk, which is kept at work behind the parts: see [`super::settling`].

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufRead};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ct_model::convert::run_id_of;
use ct_model::{LogHash, LogHasher, LogRef, ObjectKey, RunId};
use jiff::{SignedDuration, Timestamp};

use super::FilesLock;
use super::objects::make_uploads_folder;
use super::ranges::Ranges;
use crate::actor::Actor;
use crate::blob::COPY_BYTES;
use crate::error::{Conflict, Result, StoreError};
use crate::meta::UploadRow;
use crate::record::{Expected, LogTag, StoredObject, Upload, UploadOf, UploadPart};
use crate::store::Store;

/// An upload that nobody touched for so long is given up.
pub(super) const UPLOAD_KEPT: SignedDuration = SignedDuration::from_hours(7 * 24);
/// A log that was uploaded and not registered for so long is collected.
pub(super) const OBJECT_KEPT: SignedDuration = SignedDuration::from_hours(24);
/// Uploads whose state is at hand; the rest is read again when it is needed.
const LIVE_MAX: usize = 256;
/// How long bytes may wait before the disk is asked to write them. One that goes at once would be in the way of what
/// arrives fast, which ends soon, and then waits for it anyway.
const FLUSH_AFTER: Duration = Duration::from_secs(5);
/// How long a part waits for those before it, to be hashed as it arrives. What arrives fast is there by then; from what
/// does not, such a moment takes nothing: the system goes on receiving.
const TURN_WAIT: Duration = Duration::from_millis(50);
/// Missing ranges that are told.
const MISSING_MAX: usize = 100;

/// What is at hand of the uploads of this process.
#[derive(Default)]
pub(crate) struct LiveUploads(Mutex<HashMap<String, Arc<Live>>>);

struct Live {
    row: UploadRow,
    path: PathBuf,
    covered: Mutex<Ranges>,
    receiving: Mutex<Receiving>,
    /// Told when a claim ends.
    received: Condvar,
    whole: Mutex<Whole>,
    /// When the disk was asked last.
    flushed: Mutex<Instant>,
}

/// Where bytes are arriving.
#[derive(Default)]
struct Receiving {
    /// Claims so far.
    count: u64,
    /// Number, start, end.
    claims: Vec<(u64, u64, u64)>,
}

/// The hash of the beginning of the file.
#[derive(Default)]
struct Whole {
    hasher: LogHasher,
    at: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn not_found(id: &str) -> StoreError {
    StoreError::NotFound { what: format!("upload {}", id.chars().take(64).collect::<String>()) }
}

impl Live {
    /// The hash of what is before a part, when there is nothing else before it; waits a moment for what is arriving there.
    fn turn(&self, start: u64) -> Option<MutexGuard<'_, Whole>> {
        let began = Instant::now();
        let mut receiving = lock(&self.receiving);
        loop {
            if let Ok(whole) = self.whole.try_lock()
                && whole.at == start
            {
                return Some(whole);
            }
            let left = TURN_WAIT.checked_sub(began.elapsed())?;
            if !receiving.claims.iter().any(|(_, from, _)| *from < start) {
                return None;
            }
            let waited = self.received.wait_timeout(receiving, left);
            receiving = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Store {
    /// Begins an upload, or goes on with the one that this user began of the same log.
    pub fn begin_upload(&self, of: &UploadOf, size_bytes: u64, actor: &Actor) -> Result<Upload> {
        if size_bytes == 0 {
            return Err(StoreError::invalid("a log has at least one byte"));
        }
        if let UploadOf::Key(key) = of {
            self.check_key_is_free(key)?;
        }
        let known = self.meta().find_upload(of, size_bytes, actor)?;
        let known = known.map(|id| self.upload(&id, actor)).transpose()?;
        let there = known.iter().flat_map(|upload| &upload.parts).map(|part| part.size_bytes).sum();
        self.check_room_for_upload(size_bytes.saturating_sub(there))?;
        if let Some(known) = known {
            return Ok(known);
        }
        let id = super::accounts::random(16)?.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let id = self.meta().begin_upload(&id, of, size_bytes, actor, self.now())?;
        self.upload(&id, actor)
    }

    /// What is there of an upload. Uploads of others are not found.
    pub fn upload(&self, id: &str, actor: &Actor) -> Result<Upload> {
        let row = self.meta().upload(id)?.filter(|row| row.created_by == actor.user);
        let row = row.ok_or_else(|| not_found(id))?;
        if row.hash.is_none() {
            // Parts whose file is lost are none.
            self.live(id, actor)?;
        }
        let parts = self.meta().upload_parts(id)?;
        let same_size = self.meta().has_log_of_size(row.size_bytes)?;
        Ok(Upload { upload_id: id.to_owned(), key: row.key, size_bytes: row.size_bytes, parts, same_size })
    }

    fn live(&self, id: &str, actor: &Actor) -> Result<Arc<Live>> {
        let mut live = lock(&self.live_uploads().0);
        if let Some(found) = live.get(id) {
            let found = Arc::clone(found);
            drop(live);
            return if found.row.created_by == actor.user { Ok(found) } else { Err(not_found(id)) };
        }
        let row = self.meta().upload(id)?.filter(|row| row.created_by == actor.user && row.hash.is_none());
        let row = row.ok_or_else(|| not_found(id))?;
        let path = self.work().uploads_folder().join(id);
        if !path.exists() {
            self.meta().forget_parts(id)?;
        }
        let mut covered = Ranges::default();
        for part in self.meta().upload_parts(id)? {
            covered.add(part.start, part.start.saturating_add(part.size_bytes));
        }
        let found = Arc::new(Live {
            row,
            path,
            covered: Mutex::new(covered),
            receiving: Mutex::default(),
            received: Condvar::new(),
            whole: Mutex::default(),
            flushed: Mutex::new(Instant::now()),
        });
        if live.len() >= LIVE_MAX {
            live.retain(|_, live| Arc::strong_count(live) > 1);
        }
        live.insert(id.to_owned(), Arc::clone(&found));
        Ok(found)
    }

    /// Takes in the bytes from `start` on. Bytes that are there already have to be the same.
    pub fn put_part(
        &self,
        id: &str,
        start: u64,
        size_bytes: Option<u64>,
        crc32: Option<u32>,
        source: &mut dyn BufRead,
        actor: &Actor,
    ) -> Result<UploadPart> {
        let live = self.live(id, actor)?;
        let size = live.row.size_bytes;
        let outside = || StoreError::invalid(format!("the part reaches beyond the {size} bytes of the log"));
        let said_end = size_bytes.map_or(Some(start), |bytes| start.checked_add(bytes));
        let said_end = said_end.filter(|end| *end <= size).ok_or_else(outside)?;
        let mut claim = Claim::new(&live, start, said_end)?;
        let file = self.open_upload(&live)?;
        let mut whole = live.turn(start);
        // Counts once the part does.
        let mut whole_hasher = whole.as_ref().map(|whole| whole.hasher.clone());
        let failed = || StoreError::io("write an upload", &live.path);
        let mut at = start;
        let mut hasher = crc32fast::Hasher::new();
        loop {
            let bytes = match source.fill_buf() {
                Ok([]) => break,
                Ok(bytes) => &bytes[..bytes.len().min(COPY_BYTES)],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(source) => return Err(StoreError::Source { source }),
            };
            let (length, end) = (bytes.len(), at + bytes.len() as u64);
            if end > size {
                return Err(outside());
            }
            claim.extend(end)?;
            hasher.update(bytes);
            if let Some(hasher) = &mut whole_hasher {
                hasher.update(bytes);
            }
            let pieces = lock(&live.covered).cut(at, end);
            for (from, to, there) in pieces {
                let piece = &bytes[offset(from - at)..offset(to - at)];
                if there {
                    let mut stored = vec![0; piece.len()];
                    read_exact_at(&file, from, &mut stored).map_err(failed())?;
                    if stored != piece {
                        return Err(Conflict::PartDiffers { start: from, end: to }.into());
                    }
                } else {
                    write_all_at(&file, from, piece).map_err(failed())?;
                }
            }
            at = end;
            source.consume(length);
        }
        let received = at - start;
        if let Some(said) = size_bytes.filter(|said| *said != received) {
            let found = received;
            return Err(StoreError::invalid(format!("the part has {found} bytes instead of {said}")));
        }
        if received == 0 {
            return Err(StoreError::invalid("a part has at least one byte"));
        }
        let found = hasher.finalize();
        if let Some(expected) = crc32.filter(|expected| *expected != found) {
            return Err(StoreError::PartDamaged { start, expected, found });
        }
        let part = UploadPart { start, size_bytes: received, crc32: found };
        self.meta().add_part(id, &part, self.now())?;
        lock(&live.covered).add(start, at);
        if let (Some(whole), Some(hasher)) = (&mut whole, whole_hasher) {
            **whole = Whole { hasher, at };
        }
        Ok(part)
    }

    /// Opens the file of an upload and keeps collections away from it.
    fn open_upload(&self, live: &Live) -> Result<File> {
        make_uploads_folder(self)?;
        let file = File::options().read(true).write(true).create(true).truncate(false).open(&live.path);
        let file = file.map_err(StoreError::io("open an upload", &live.path))?;
        file.lock_shared().map_err(StoreError::io("lock an upload", &live.path))?;
        Ok(file)
    }

    /// Hashes what has joined up so far, unless someone is at it, so that completing has little left to read.
    pub fn follow_upload(&self, id: &str, actor: &Actor) -> Result<()> {
        let live = self.live(id, actor)?;
        let Ok(mut whole) = live.whole.try_lock() else { return Ok(()) };
        let file = File::open(&live.path).map_err(StoreError::io("read an upload", &live.path))?;
        catch_up(&live, &file, &mut whole)
    }

    /// Keeps the disk at work behind the parts, unless someone is at it, so that little is left for the end.
    pub fn flush_upload(&self, id: &str, actor: &Actor) -> Result<()> {
        let live = self.live(id, actor)?;
        let Ok(mut flushed) = live.flushed.try_lock() else { return Ok(()) };
        if flushed.elapsed() < FLUSH_AFTER {
            return Ok(());
        }
        let file = File::options().write(true).open(&live.path);
        let file = file.map_err(StoreError::io("open an upload", &live.path))?;
        file.sync_data().map_err(StoreError::io("write an upload through to the disk", &live.path))?;
        *flushed = Instant::now();
        Ok(())
    }

    /// Makes a log of an upload whose parts are all there, and that is what is expected. Doing it again answers the same.
    pub fn complete_upload(&self, id: &str, expected: &Expected, actor: &Actor) -> Result<StoredObject> {
        let row = self.meta().upload(id)?.filter(|row| row.created_by == actor.user);
        let row = row.ok_or_else(|| not_found(id))?;
        let key = match (&row.key, expected) {
            (Some(begun), Expected::Hash(_, Some(key))) if begun != key => {
                return Err(StoreError::invalid(format!("the upload is of {begun}, not of {key}")));
            }
            (Some(key), _) | (None, Expected::Hash(_, Some(key))) => Some(key.clone()),
            (None, Expected::Hash(_, None)) => return Err(StoreError::invalid("the log needs a name")),
            (None, Expected::Any(_)) => None,
        };
        if let Some(hash) = &row.hash {
            return self.completed(key.as_ref(), hash, expected);
        }
        let live = self.live(id, actor)?;
        // Nothing arrives from here on.
        let _claim = Claim::new(&live, 0, live.row.size_bytes)?;
        if let Some(UploadRow { key, hash: Some(hash), .. }) = self.meta().upload(id)? {
            return self.completed(key.as_ref(), &hash, expected);
        }
        let size_bytes = live.row.size_bytes;
        let mut missing = lock(&live.covered).missing(size_bytes);
        if !missing.is_empty() {
            if let Expected::Hash(hash, _) = expected
                && let Some(key) = &key
                && self.is_direct(id)?
            {
                let object = self.complete_direct(id, key, size_bytes, hash, actor)?;
                lock(&self.live_uploads().0).remove(id);
                return Ok(object);
            }
            missing.truncate(MISSING_MAX);
            return Err(Conflict::UploadIncomplete { missing }.into());
        }
        let file = self.open_upload(&live)?;
        let mut whole = lock(&live.whole);
        let mut found = digest(&live, &file, &mut whole)?;
        if let Expected::Hash(hash, _) = expected
            && found != *hash
        {
            // What was hashed while it arrived is not believed over what is in the file.
            *whole = Whole::default();
            found = digest(&live, &file, &mut whole)?;
            if found != *hash {
                let (what, expected) = ("the uploaded log".to_owned(), hash.clone());
                return Err(StoreError::HashDiffers { what, expected, found });
            }
        }
        let key = match (key, expected) {
            (Some(key), _) => key,
            (None, Expected::Any(format)) => ObjectKey::new(run_of(&found)?, *format),
            (None, Expected::Hash(..)) => return Err(StoreError::invalid("the log needs a name")),
        };
        let log = LogRef { hash: found, size_bytes, format: key.format };
        let mut object = StoredObject { key, log, md5: None, tag: LogTag::default() };
        let _lock = FilesLock::shared(self.data_dir())?;
        self.check_key_is_free(&object.key)?;
        object.tag = self.publish_behind(&live.path, &object.log)?;
        self.meta().complete_upload(id, &object, actor, self.now())?;
        lock(&self.live_uploads().0).remove(id);
        // In a bucket there is a copy of it now.
        crate::blob::remove_file(&live.path)?;
        Ok(object)
    }

    fn completed(
        &self,
        key: Option<&ObjectKey>,
        hash: &LogHash,
        expected: &Expected,
    ) -> Result<StoredObject> {
        let gone = || StoreError::NotFound { what: format!("the log with SHA-256 {hash}") };
        let key = key.ok_or_else(gone)?;
        let object = self.object(key)?.ok_or_else(gone)?;
        let same = match expected {
            Expected::Hash(expected, _) => object.log.hash == *expected,
            Expected::Any(_) => object.log.hash == *hash,
        };
        if same { Ok(object) } else { Err(Conflict::ObjectTaken { key: key.clone(), there: None }.into()) }
    }

    /// Gives an upload up.
    pub fn drop_upload(&self, id: &str, actor: &Actor) -> Result<()> {
        let live = self.live(id, actor)?;
        let _claim = Claim::new(&live, 0, live.row.size_bytes)?;
        self.drop_direct(id)?;
        self.meta().drop_upload(id, actor, self.now())?;
        lock(&self.live_uploads().0).remove(id);
        crate::blob::remove_file(&live.path)
    }

    /// Before when uploads must have been touched to be given up, and logs uploaded to be collected.
    pub(super) fn expiry(&self) -> (Timestamp, Timestamp) {
        let before = |age| self.now().checked_sub(age).unwrap_or(Timestamp::MIN);
        (before(UPLOAD_KEPT), before(OBJECT_KEPT))
    }

    /// Forgets what is at hand of an upload that was collected.
    pub(super) fn forget_upload(&self, id: &str) {
        lock(&self.live_uploads().0).remove(id);
    }
}

/// The run that a log of this hash is.
fn run_of(hash: &LogHash) -> Result<RunId> {
    run_id_of(hash.as_str()).map_err(|error| StoreError::invalid(error.to_string()))
}

fn digest(live: &Live, file: &File, whole: &mut Whole) -> Result<LogHash> {
    catch_up(live, file, whole)?;
    Ok(whole.hasher.clone().finish())
}

fn catch_up(live: &Live, file: &File, whole: &mut Whole) -> Result<()> {
    let mut buffer = vec![0; COPY_BYTES];
    loop {
        let end = lock(&live.covered).end_from(whole.at);
        if end == whole.at {
            return Ok(());
        }
        let n = offset((end - whole.at).min(COPY_BYTES as u64));
        read_exact_at(file, whole.at, &mut buffer[..n])
            .map_err(StoreError::io("read an upload", &live.path))?;
        whole.hasher.update(&buffer[..n]);
        whole.at += n as u64;
    }
}

/// Within a piece of [`COPY_BYTES`].
fn offset(bytes: u64) -> usize {
    usize::try_from(bytes).expect("a piece fits into memory")
}

/// Keeps others from writing where bytes are arriving.
struct Claim<'a> {
    live: &'a Live,
    number: u64,
    start: u64,
    end: u64,
}

impl<'a> Claim<'a> {
    fn new(live: &'a Live, start: u64, end: u64) -> Result<Self> {
        let mut receiving = lock(&live.receiving);
        receiving.count += 1;
        let mut claim = Self { live, number: receiving.count, start, end: start };
        receiving.claims.push((claim.number, start, start));
        drop(receiving);
        claim.extend(end)?;
        Ok(claim)
    }

    fn extend(&mut self, end: u64) -> Result<()> {
        if end <= self.end {
            return Ok(());
        }
        let mut receiving = lock(&self.live.receiving);
        if receiving
            .claims
            .iter()
            .any(|(number, from, to)| *number != self.number && *from < end && self.start < *to)
        {
            return Err(StoreError::Busy { what: "the same bytes are arriving from someone else" });
        }
        self.end = end;
        let own = receiving.claims.iter_mut().find(|(number, ..)| *number == self.number);
        if let Some(own) = own {
            own.2 = end;
        }
        Ok(())
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        lock(&self.live.receiving).claims.retain(|(number, ..)| *number != self.number);
        self.live.received.notify_all();
    }
}

#[cfg(unix)]
fn write_all_at(file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, at)
}

#[cfg(unix)]
fn read_exact_at(file: &File, at: u64, bytes: &mut [u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, at)
}

#[cfg(windows)]
fn write_all_at(file: &File, mut at: u64, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let n = std::os::windows::fs::FileExt::seek_write(file, bytes, at)?;
        at += n as u64;
        bytes = &bytes[n..];
    }
    Ok(())
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut at: u64, mut bytes: &mut [u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, bytes, at)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => {
                at += n as u64;
                bytes = &mut bytes[n..];
            }
        }
    }
    Ok(())
}

/// Whether nobody writes to a file of an upload now.
pub(super) fn is_idle(path: &std::path::Path) -> bool {
    // A folder or a link is not ours; what cannot be opened is left alone.
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file())
        && File::options().write(true).open(path).is_ok_and(|file| file.try_lock().is_ok())
}
