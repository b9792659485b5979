//! A log to a server, and the registration of its run.
//!
//! To a `ct` a log goes in parts, several at a time, each with its CRC-32; what arrived is there for the next attempt,
//! also for one by another process. Memory: [`WORKERS`] parts. To other servers it goes by the contract's single PUT.

mod direct;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use ct_log::source::{FileSource, Source as _};
use ct_model::{LogHash, RunHeader, RunId};
use md5::Md5;
use reqwest::Method;
use reqwest::header::{ETAG, HeaderName, IF_NONE_MATCH};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use url::Url;

use self::direct::Direct;
use crate::download::{has_md5_tag, hex, md5_tag};
use crate::http::{ANSWER_TIMEOUT, Call, Patience, accepts_json, header};
use crate::pages::with_query;
use crate::{Client, ClientError, Result};

/// Parts on their way at a time.
const WORKERS: usize = 3;
/// Bytes of a part, unless the server or a proxy takes less.
const PART_BYTES: u64 = 8 << 20;
/// A part is not made smaller than this.
const PART_BYTES_MIN: u64 = 16 << 10;
/// The slowest connection that is waited for, in bytes a second.
const SLOWEST: u64 = 32 << 10;
/// How long a server may take to check a whole log, or to register documents.
const CHECK_TIMEOUT: Duration = Duration::from_secs(900);
/// Times that a server may find parts missing that were sent.
const ROUNDS_MAX: u32 = 3;
/// Uploads that may be lost under way.
const UPLOADS_MAX: u32 = 3;
/// Documents of one registration.
const DOCUMENTS_MAX: usize = 50;
/// Bytes of one registration.
const REGISTER_BYTES_MAX: usize = 4_000_000;
/// Bytes of a registration that are not documents.
const REGISTER_BYTES_ROOM: usize = 1024;

const PART_CRC: HeaderName = HeaderName::from_static("x-ct-crc32");
const VERSION_ID: HeaderName = HeaderName::from_static("x-amz-version-id");

/// A log to upload.
#[derive(Debug, Clone, Copy)]
pub struct LogFile<'a> {
    /// Where it is.
    pub path: &'a Path,
    /// The key it gets: `<run id>.eval` or `.json`.
    pub filename: &'a str,
    /// Its length.
    pub size_bytes: u64,
    /// SHA-256 of its bytes.
    pub hash: &'a LogHash,
}

/// A log that a server stores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredObject {
    /// Its bucket.
    pub bucket: String,
    /// Its key.
    pub key: String,
    /// Its length.
    pub size_bytes: u64,
    /// Its entity tag.
    pub e_tag: Option<String>,
    /// Its version, where objects have versions.
    pub version_id: Option<String>,
    /// It was there before.
    pub was_there: bool,
}

/// What is registered with the documents.
#[derive(Debug)]
pub struct Register<'a> {
    /// The run's header.
    pub run: &'a RunHeader,
    /// The key of its log, and the length.
    pub log: (&'a str, u64),
    /// The run that gets log and documents in place of those it has. Only a `ct` knows it.
    pub replaces: Option<&'a RunId>,
}

#[derive(Debug, Deserialize)]
struct Upload {
    upload_id: String,
    #[serde(default)]
    parts: Vec<Part>,
    #[serde(default)]
    part_bytes_max: Option<u64>,
    /// Parts go to a bucket.
    #[serde(default)]
    direct: Option<Direct>,
}

#[derive(Debug, Deserialize)]
struct Part {
    start: u64,
    size_bytes: u64,
    crc32: u32,
}

impl Client {
    /// What the server stores under a key; asks for the right to write.
    pub fn stored_object(&self, filename: &str) -> Result<Option<StoredObject>> {
        #[derive(Deserialize)]
        struct Head {
            bucket: String,
            size_bytes: u64,
            #[serde(default)]
            e_tag: Option<String>,
            #[serde(default)]
            version_id: Option<String>,
        }
        let url = with_query(self.url(&["eval-logs", "head"]), &[("filename", filename.to_owned())]);
        match self.http().json::<Head>(&accepts_json(Call::get(url))) {
            Ok(head) => Ok(Some(StoredObject {
                bucket: head.bucket,
                key: filename.to_owned(),
                size_bytes: head.size_bytes,
                e_tag: head.e_tag,
                version_id: head.version_id,
                was_there: true,
            })),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Uploads a log; goes on with what an earlier attempt left. `progress` is told how many bytes have arrived.
    pub fn upload_log(&self, log: &LogFile<'_>, progress: &(dyn Fn(u64) + Sync)) -> Result<StoredObject> {
        if let Some(there) = self.already_stored(log)? {
            return Ok(there);
        }
        if self.is_ct()? { self.upload_parts(log, progress) } else { self.upload_whole(log, progress) }
    }

    /// The log under its key, if it is there already.
    fn already_stored(&self, log: &LogFile<'_>) -> Result<Option<StoredObject>> {
        let Some(there) = self.stored_object(log.filename)? else { return Ok(None) };
        if there.size_bytes != log.size_bytes {
            return Err(ClientError::Conflict {
                server: self.server(),
                message: format!(
                    "{} is stored with {} bytes, and this log has {}",
                    log.filename, there.size_bytes, log.size_bytes
                ),
                candidates: Vec::new(),
                deleted_run: None,
            });
        }
        Ok(Some(there))
    }

    /// As [`Client::already_stored`], when the server has just said that the key is taken.
    fn taken(&self, log: &LogFile<'_>, error: ClientError) -> Result<StoredObject> {
        self.already_stored(log)?.ok_or(error)
    }

    fn upload_parts(&self, log: &LogFile<'_>, progress: &(dyn Fn(u64) + Sync)) -> Result<StoredObject> {
        let source = FileSource::open(log.path).map_err(|source| unreadable(log, source))?;
        if source.size_bytes() != log.size_bytes {
            return Err(changed(log));
        }
        let begin = accepts_json(Call::new(Method::POST, self.url(&["uploads"])).repeatable())
            .json(&json!({"filename": log.filename, "size_bytes": log.size_bytes}));
        let mut lost = None;
        for _ in 0..UPLOADS_MAX {
            let upload: Upload = match self.http().json(&begin) {
                Ok(upload) => upload,
                Err(error @ ClientError::Conflict { .. }) => return self.taken(log, error),
                // An older server.
                Err(ClientError::NotFound { .. }) => return self.upload_whole(log, progress),
                Err(error) => return Err(error),
            };
            match self.upload_rest(log, &source, upload, progress) {
                // Another client of this user completed the upload, or gave it up.
                Err(error @ ClientError::NotFound { .. }) => match self.already_stored(log)? {
                    Some(there) => return Ok(there),
                    None => lost = Some(error),
                },
                done => return done,
            }
        }
        Err(lost.unwrap_or_else(|| changed(log)))
    }

    /// Sends what is missing of an upload, and completes it.
    fn upload_rest(
        &self,
        log: &LogFile<'_>,
        source: &FileSource,
        mut upload: Upload,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<StoredObject> {
        #[derive(Deserialize)]
        struct Complete {
            bucket: String,
            key: String,
            size_bytes: u64,
            #[serde(default)]
            e_tag: Option<String>,
        }
        let id = upload.upload_id.clone();
        let sizes = match &upload.direct {
            Some(direct) => PartSizes::fixed(direct.part_bytes),
            None => PartSizes::new(upload.part_bytes_max),
        };
        for _ in 0..ROUNDS_MAX {
            let missing = match &upload.direct {
                Some(direct) => direct.missing(log.size_bytes, |start, size| {
                    read_part(source, log, start, size).map(Bytes::from)
                })?,
                None => missing(source, log, &upload.parts)?,
            };
            let arrived = AtomicU64::new(log.size_bytes - missing.iter().map(|(_, size)| size).sum::<u64>());
            progress(arrived.load(Ordering::Relaxed));
            let direct = upload.direct.as_ref();
            let sender = Sender { client: self, log, source, id: &id, sizes: &sizes, direct };
            sender.send(missing, &|size| progress(arrived.fetch_add(size, Ordering::Relaxed) + size))?;
            let call = Call::new(Method::POST, self.url(&["uploads", &id, "complete"]))
                .repeatable()
                .timeout(CHECK_TIMEOUT)
                // Another client may be completing the same upload, which takes as long as hashing it.
                .through_busy()
                .json(&json!({"sha256": log.hash}));
            match self.http().json::<Complete>(&accepts_json(call)) {
                Ok(done) => {
                    return Ok(StoredObject {
                        bucket: done.bucket,
                        key: done.key,
                        size_bytes: done.size_bytes,
                        e_tag: done.e_tag,
                        version_id: None,
                        was_there: false,
                    });
                }
                Err(error @ ClientError::Conflict { .. }) => {
                    // Someone else was first, or parts are missing after all.
                    if let Some(there) = self.already_stored(log)? {
                        return Ok(there);
                    }
                    tracing::debug!(%error, "parts are missing");
                    upload = self.http().json(&accepts_json(Call::get(self.url(&["uploads", &id]))))?;
                }
                Err(ClientError::Invalid { status: 422, .. }) => {
                    // What is there is of no use to anybody.
                    let _ = self.http().done(&Call::new(Method::DELETE, self.url(&["uploads", &id])));
                    return Err(changed(log));
                }
                Err(error) => return Err(error),
            }
        }
        Err(ClientError::Protocol {
            server: self.server(),
            problem: "parts of the log get lost there again and again".to_owned(),
        })
    }

    fn upload_whole(&self, log: &LogFile<'_>, progress: &(dyn Fn(u64) + Sync)) -> Result<StoredObject> {
        #[derive(Deserialize)]
        struct Plan {
            url: String,
            bucket: String,
        }
        let mut patience = Patience::new();
        loop {
            let call = accepts_json(Call::new(Method::POST, self.url(&["eval-logs", "upload"])).repeatable());
            let call = call.json(&json!({"filename": log.filename, "size_bytes": log.size_bytes}));
            let plan: Plan = match self.http().json(&call) {
                Ok(plan) => plan,
                Err(error @ ClientError::Conflict { .. }) => return self.taken(log, error),
                Err(error) => return Err(error),
            };
            let url = self.url(&[]).join(&plan.url).map_err(|error| ClientError::Protocol {
                server: self.server(),
                problem: format!("the address for the upload is none ({error})"),
            })?;
            progress(0);
            let error = match self.put_whole(log, &url, progress) {
                Ok((e_tag, version_id)) => {
                    return Ok(StoredObject {
                        bucket: plan.bucket,
                        key: log.filename.to_owned(),
                        size_bytes: log.size_bytes,
                        e_tag,
                        version_id,
                        was_there: false,
                    });
                }
                Err(error @ ClientError::Conflict { .. }) => return self.taken(log, error),
                Err(error) => error,
            };
            // The PUT only ever adds, so doing it again is safe.
            let again = matches!(
                error,
                ClientError::Unreachable { .. }
                    | ClientError::Timeout { .. }
                    | ClientError::Busy { .. }
                    | ClientError::Server { .. }
            );
            if !again || !patience.wait(None) {
                return Err(error);
            }
        }
    }

    /// Entity tag and version.
    fn put_whole(
        &self,
        log: &LogFile<'_>,
        url: &Url,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<(Option<String>, Option<String>)> {
        let file = File::open(log.path).map_err(|source| unreadable(log, source))?;
        let sums = Arc::new(Mutex::new((Sha256::new(), Md5::new())));
        let sent = Arc::new(AtomicU64::new(0));
        let body = Hashing { file, sums: Arc::clone(&sums), sent: Arc::clone(&sent) };
        let mut call = Call::new(Method::PUT, url.clone()).anonymous().header(IF_NONE_MATCH, "*");
        call.timeout = None;
        let finished = AtomicBool::new(false);
        let response = std::thread::scope(|scope| {
            // The body is read on a thread of the HTTP client; what it has read is told from here.
            scope.spawn(|| {
                while !finished.load(Ordering::Relaxed) {
                    progress(sent.load(Ordering::Relaxed));
                    std::thread::sleep(Duration::from_millis(50));
                }
            });
            let response = self.http().send_body(&call, body, log.size_bytes);
            finished.store(true, Ordering::Relaxed);
            response
        })?;
        let e_tag = header(&response, &ETAG).map(str::to_owned);
        let version_id = header(&response, &VERSION_ID).map(str::to_owned);
        let (sha256, md5) = std::mem::take(&mut *sums.lock().unwrap_or_else(PoisonError::into_inner));
        if LogHash::from_bytes(sha256.finalize().into()) != *log.hash {
            return Err(changed(log));
        }
        let md5 = hex(&md5.finalize());
        let tag = e_tag.as_deref().and_then(md5_tag).filter(|_| has_md5_tag(&response));
        if let Some(tag) = tag.filter(|tag| *tag != md5) {
            return Err(ClientError::Altered {
                what: log.filename.to_owned(),
                problem: format!("the server got bytes with md5 {tag}, and {md5} were sent"),
            });
        }
        progress(log.size_bytes);
        Ok((e_tag, version_id))
    }

    /// Registers the documents of a run, one a line in `documents`, in batches, and with the last one the run itself.
    /// Doing it again changes nothing.
    pub fn register(
        &self,
        mut documents: impl BufRead,
        register: &Register<'_>,
        progress: &dyn Fn(u64),
    ) -> Result<()> {
        let read = |source| ClientError::Io { doing: "read the documents of the run".to_owned(), source };
        let run = serde_json::to_vec(register.run).map_err(|error| read(io::Error::other(error)))?;
        let mut batch: Vec<Vec<u8>> = Vec::new();
        let mut bytes = run.len() + REGISTER_BYTES_ROOM;
        loop {
            let mut line = Vec::new();
            documents.read_until(b'\n', &mut line).map_err(read)?;
            let ended = line.is_empty();
            let full = batch.len() == DOCUMENTS_MAX || bytes + line.len() > REGISTER_BYTES_MAX;
            if ended || (full && !batch.is_empty()) {
                self.register_batch(&batch, register, ended.then_some(run.as_slice()))?;
                progress(batch.len() as u64);
                batch.clear();
                bytes = run.len() + REGISTER_BYTES_ROOM;
            }
            if ended {
                return Ok(());
            }
            line.truncate(line.trim_ascii_end().len());
            bytes += line.len() + 1;
            batch.push(line);
        }
    }

    fn register_batch(&self, batch: &[Vec<u8>], register: &Register<'_>, run: Option<&[u8]>) -> Result<()> {
        let mut body = br#"{"client":"control-tower","schema_version":3,"trajectories":["#.to_vec();
        body.extend(batch.join(&b','));
        body.push(b']');
        if let Some(run) = run {
            body.extend_from_slice(br#","run":"#);
            body.extend_from_slice(run);
        }
        if let Some(replaces) = register.replaces {
            body.extend_from_slice(format!(r#","replaces":{}"#, json!(replaces)).as_bytes());
        }
        let (key, size_bytes) = register.log;
        let sizes = Value::from_iter([(key.to_owned(), size_bytes)]);
        body.extend_from_slice(format!(r#","eval_log_sizes":{sizes}}}"#).as_bytes());
        let call = Call::new(Method::POST, self.url(&["trajectories", "register"]))
            .repeatable()
            .timeout(CHECK_TIMEOUT)
            .bytes("application/json", body.into());
        match self.http().done(&call) {
            // Some proxy takes less than the contract's four million bytes.
            Err(ClientError::TooLarge { .. }) if batch.len() > 1 => {
                let (first, second) = batch.split_at(batch.len() / 2);
                self.register_batch(first, register, None)?;
                self.register_batch(second, register, run)
            }
            other => other,
        }
    }
}

/// How large parts are; shrinks when one does not get through.
struct PartSizes {
    size_bytes: AtomicU64,
}

impl PartSizes {
    fn new(bytes_max: Option<u64>) -> Self {
        Self {
            size_bytes: AtomicU64::new(
                bytes_max.map_or(PART_BYTES, |max| max.clamp(PART_BYTES_MIN, PART_BYTES)),
            ),
        }
    }

    /// As a bucket wants them.
    fn fixed(size_bytes: u64) -> Self {
        Self { size_bytes: AtomicU64::new(size_bytes.max(1)) }
    }

    fn now(&self) -> u64 {
        self.size_bytes.load(Ordering::Relaxed)
    }

    /// A part of that size did not get through. False: it cannot be smaller.
    fn shrink(&self, failed: u64) -> bool {
        if failed <= PART_BYTES_MIN {
            return false;
        }
        self.size_bytes.fetch_min((failed / 2).max(PART_BYTES_MIN), Ordering::Relaxed);
        true
    }
}

/// Sends parts from several threads.
struct Sender<'a> {
    client: &'a Client,
    log: &'a LogFile<'a>,
    source: &'a FileSource,
    id: &'a str,
    sizes: &'a PartSizes,
    direct: Option<&'a Direct>,
}

impl Sender<'_> {
    fn send(&self, missing: VecDeque<(u64, u64)>, arrived: &(dyn Fn(u64) + Sync)) -> Result<()> {
        let work = Mutex::new(missing);
        let failed = Mutex::new(None);
        std::thread::scope(|scope| {
            for _ in 0..WORKERS {
                scope.spawn(|| {
                    while let Some((start, size)) = self.take(&work) {
                        match self.part(start, size) {
                            Ok(true) => arrived(size),
                            Ok(false) => {
                                work.lock().unwrap_or_else(PoisonError::into_inner).push_front((start, size));
                            }
                            Err(error) => {
                                work.lock().unwrap_or_else(PoisonError::into_inner).clear();
                                failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                                return;
                            }
                        }
                    }
                });
            }
        });
        failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }

    /// The next part, cut to the size of the moment.
    fn take(&self, work: &Mutex<VecDeque<(u64, u64)>>) -> Option<(u64, u64)> {
        let mut work = work.lock().unwrap_or_else(PoisonError::into_inner);
        let (start, size) = work.pop_front()?;
        let part = size.min(self.sizes.now());
        if part < size {
            work.push_front((start + part, size - part));
        }
        Some((start, part))
    }

    /// False: the part is too large for something on the way, and parts are smaller from now on.
    fn part(&self, start: u64, size: u64) -> Result<bool> {
        let bytes = read_part(self.source, self.log, start, size)?;
        if let Some(direct) = self.direct {
            let timeout = ANSWER_TIMEOUT + Duration::from_secs(size / SLOWEST);
            return self.client.put_direct(self.id, direct, start, &bytes.into(), timeout).map(|()| true);
        }
        let crc32 = crc32fast::hash(&bytes);
        let url = self.client.url(&["uploads", self.id, "parts", &start.to_string()]);
        let call = Call::new(Method::PUT, url)
            .timeout(ANSWER_TIMEOUT + Duration::from_secs(size / SLOWEST))
            .header(PART_CRC, &crc32.to_string())
            .through_busy()
            .bytes("application/octet-stream", Bytes::from(bytes));
        match self.client.http().done(&call) {
            Ok(()) => Ok(true),
            Err(ClientError::TooLarge { .. }) if self.sizes.shrink(size) => Ok(false),
            Err(error @ (ClientError::Unreachable { .. } | ClientError::Timeout { .. })) => {
                // A proxy may cut off what is too large for it instead of saying so: then the rest still works.
                let alive = self
                    .client
                    .http()
                    .json::<Upload>(&accepts_json(Call::get(self.client.url(&["uploads", self.id]))));
                match alive {
                    Ok(_) if self.sizes.shrink(size) => Ok(false),
                    Err(gone @ ClientError::NotFound { .. }) => Err(gone),
                    _ => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }
}

fn read_part(source: &FileSource, log: &LogFile<'_>, start: u64, size: u64) -> Result<Vec<u8>> {
    let length = usize::try_from(size).map_err(|_| unreadable(log, io::ErrorKind::InvalidInput.into()))?;
    let mut bytes = vec![0; length];
    source.read_exact_at(start, &mut bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => changed(log),
        _ => unreadable(log, error),
    })?;
    Ok(bytes)
}

/// The ranges that the server has not, or has otherwise.
fn missing(source: &FileSource, log: &LogFile<'_>, parts: &[Part]) -> Result<VecDeque<(u64, u64)>> {
    let mut parts: Vec<&Part> = parts.iter().collect();
    parts.sort_by_key(|part| part.start);
    let mut missing = VecDeque::new();
    let mut at = 0;
    for part in parts {
        let end = part.start.saturating_add(part.size_bytes);
        // What does not join up or does not fit is sent once more.
        if part.start < at
            || end > log.size_bytes
            || part.size_bytes == 0
            || part.size_bytes > 64 * PART_BYTES
        {
            continue;
        }
        let bytes = read_part(source, log, part.start, part.size_bytes)?;
        if crc32fast::hash(&bytes) != part.crc32 {
            continue;
        }
        if part.start > at {
            missing.push_back((at, part.start - at));
        }
        at = end;
    }
    if at < log.size_bytes {
        missing.push_back((at, log.size_bytes - at));
    }
    Ok(missing)
}

fn unreadable(log: &LogFile<'_>, source: io::Error) -> ClientError {
    ClientError::Io { doing: format!("read {}", log.path.display()), source }
}

fn changed(log: &LogFile<'_>) -> ClientError {
    ClientError::SourceChanged { path: log.path.display().to_string() }
}

/// Hashes what goes out.
struct Hashing {
    file: File,
    sums: Arc<Mutex<(Sha256, Md5)>>,
    sent: Arc<AtomicU64>,
}

impl Read for Hashing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read(buffer)?;
        let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        sums.0.update(&buffer[..n]);
        sums.1.update(&buffer[..n]);
        self.sent.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_missing_or_other_is_sent() {
        let path = std::env::temp_dir().join(format!("ct-client-missing-{}", std::process::id()));
        let bytes: Vec<u8> = (0..100u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        let source = FileSource::open(&path).unwrap();
        let hash = LogHash::from_bytes(Sha256::digest(&bytes).into());
        let log = LogFile { path: &path, filename: "x.eval", size_bytes: 100, hash: &hash };
        let part = |start: usize, size: usize| Part {
            start: start as u64,
            size_bytes: size as u64,
            crc32: crc32fast::hash(&bytes[start..start + size]),
        };
        let find = |parts: &[Part]| missing(&source, &log, parts).unwrap().into_iter().collect::<Vec<_>>();
        assert_eq!(find(&[]), [(0, 100)]);
        assert_eq!(find(&[part(50, 50), part(0, 50)]), []);
        assert_eq!(find(&[part(10, 10), part(40, 20)]), [(0, 10), (20, 20), (60, 40)]);
        let other = Part { crc32: part(1, 49).crc32, ..part(0, 50) };
        let beyond = Part { size_bytes: 51, ..part(50, 50) };
        assert_eq!(find(&[other, beyond]), [(0, 100)]);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn parts_shrink_to_an_end() {
        let sizes = PartSizes::new(Some(1 << 20));
        assert_eq!(sizes.now(), 1 << 20);
        assert!(sizes.shrink(1 << 20));
        assert_eq!(sizes.now(), 1 << 19);
        // A part of the former size that fails later does not make it larger again.
        assert!(sizes.shrink(1 << 20));
        assert_eq!(sizes.now(), 1 << 19);
        assert!(!sizes.shrink(PART_BYTES_MIN));
    }
}
