//! Uploads in parts, several at a time, each with its CRC-32; what arrived is there for the next attempt, also for one by
//! another process. Memory: [`WORKERS`] parts.
//!
//! A log whose hash is not known yet goes out all the same, and gets its name when it is all there: from who has hashed
//! it by then, or else from the server, which hashes it anyway.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use ct_model::{LogHash, LogHasher};
use reqwest::Method;
use reqwest::header::HeaderName;
use serde::Deserialize;
use serde_json::json;

use super::direct::Direct;
use super::{LogFile, Named, Stop, StoredObject};
use crate::http::{ANSWER_TIMEOUT, CHECK_TIMEOUT, Call, accepts_json};
use crate::{Client, ClientError, Result};

/// Parts on their way at a time.
const WORKERS: usize = 3;
/// Bytes of a part, unless the server or a proxy takes less.
const PART_BYTES: u64 = 8 << 20;
/// A part is not made smaller than this.
const PART_BYTES_MIN: u64 = 16 << 10;
/// The slowest connection that is waited for, in bytes a second.
const SLOWEST: u64 = 32 << 10;
/// Times that a server may find parts missing that were sent.
const ROUNDS_MAX: u32 = 3;
/// Uploads of one log that may come to nothing.
const UPLOADS_MAX: u32 = 4;
/// Bytes at either end of a log that tell it from others as long as its hash is not known.
const ENDS_BYTES: u64 = 1 << 20;

const PART_CRC: HeaderName = HeaderName::from_static("x-ct-crc32");

#[derive(Debug, Deserialize)]
struct Upload {
    upload_id: String,
    #[serde(default)]
    parts: Vec<Part>,
    #[serde(default)]
    part_bytes_max: Option<u64>,
    #[serde(default)]
    same_size: bool,
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

/// What came of an upload.
enum End {
    Stored(StoredObject),
    Stopped(Stop),
    /// Someone completed it, or gave it up.
    Gone(ClientError),
    /// What was there already was not of this log.
    Other,
}

impl Client {
    pub(super) fn upload_parts(
        &self,
        log: &LogFile<'_>,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Option<StoredObject>> {
        let mut named = log.name.get();
        let mut error = None;
        for _ in 0..UPLOADS_MAX {
            let what = match named {
                Some(named) => json!({"filename": named.filename, "size_bytes": log.reader.size_bytes()}),
                None => json!({"resume_key": resume_key(log)?, "size_bytes": log.reader.size_bytes()}),
            };
            let begin =
                accepts_json(Call::new(Method::POST, self.url(&["uploads"])).repeatable().long()).json(&what);
            let upload: Upload = match (self.http().json(&begin), named) {
                (Ok(upload), _) => upload,
                (Err(error @ ClientError::Conflict { .. }), Some(named)) => {
                    return self.taken(log, named, error).map(Some);
                }
                // An older server takes no log whose name it does not know, or no parts at all.
                (Err(ClientError::Invalid { .. } | ClientError::NotFound { .. }), None) => {
                    match log.name.wait() {
                        Ok(known) => named = Some(known),
                        Err(_) => return Ok(None),
                    }
                    continue;
                }
                (Err(ClientError::NotFound { .. }), Some(named)) => {
                    return self.upload_whole(log, named, progress).map(Some);
                }
                (Err(error), _) => return Err(error),
            };
            let id = upload.upload_id.clone();
            match self.upload_rest(log, named, upload, progress)? {
                End::Stored(stored) => return Ok(Some(stored)),
                End::Stopped(Stop::ForNow) => return Ok(None),
                End::Stopped(Stop::NotNeeded) => {
                    self.give_up(&id);
                    return Ok(None);
                }
                End::Other => error = Some(log.reader.changed()),
                End::Gone(gone) => error = Some(gone),
            }
            // Its name finds it, and nothing else.
            let Ok(known) = log.name.wait() else { return Ok(None) };
            if let Some(there) = self.already_stored(log, known)? {
                return Ok(Some(there));
            }
            named = Some(known);
        }
        Err(error.unwrap_or_else(|| log.reader.changed()))
    }

    /// What is there of it is of no use to anybody.
    fn give_up(&self, id: &str) {
        // It goes by itself after a while.
        let _ = self.http().done(&Call::new(Method::DELETE, self.url(&["uploads", id])));
    }

    /// Sends what is missing of an upload, and completes it. `begun_as` is the name that it was begun with.
    fn upload_rest(
        &self,
        log: &LogFile<'_>,
        begun_as: Option<&Named>,
        mut upload: Upload,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<End> {
        #[derive(Deserialize)]
        struct Complete {
            bucket: String,
            key: String,
            size_bytes: u64,
            #[serde(default)]
            e_tag: Option<String>,
            #[serde(default)]
            sha256: Option<LogHash>,
        }
        let id = upload.upload_id.clone();
        let sizes = match &upload.direct {
            Some(direct) => PartSizes::fixed(direct.part_bytes),
            None => PartSizes::new(upload.part_bytes_max),
        };
        if upload.same_size && begun_as.is_none() {
            // It may be the very log: that is worth waiting for.
            match log.name.wait() {
                Ok(named) => {
                    if let Some(there) = self.already_stored(log, named)? {
                        self.give_up(&id);
                        return Ok(End::Stored(there));
                    }
                }
                Err(stop) => return Ok(End::Stopped(stop)),
            }
        }
        let resumed = !upload.parts.is_empty();
        for _ in 0..ROUNDS_MAX {
            let missing = match &upload.direct {
                Some(direct) => Missing {
                    ranges: direct.missing(log.reader.size_bytes(), |start, size| {
                        Ok(log.reader.read(start, size, BytesMut::new())?.freeze())
                    })?,
                    other: false,
                },
                None => missing(log, &upload.parts)?,
            };
            if missing.other && begun_as.is_none() {
                return Ok(End::Other);
            }
            let left = missing.ranges.iter().map(|(_, size)| size).sum::<u64>();
            let arrived = AtomicU64::new(log.reader.size_bytes() - left);
            progress(arrived.load(Ordering::Relaxed));
            let sender = Sender { client: self, log, id: &id, sizes: &sizes, direct: upload.direct.as_ref() };
            let sent = sender
                .send(missing.ranges, &|size| progress(arrived.fetch_add(size, Ordering::Relaxed) + size));
            match sent {
                Err(error @ ClientError::NotFound { .. }) => return Ok(End::Gone(error)),
                // Someone sends another log of the same ends.
                Err(ClientError::Conflict { .. }) if begun_as.is_none() => return Ok(End::Other),
                sent => sent?,
            }
            if let Some(stop) = log.name.stopped() {
                return Ok(End::Stopped(stop));
            }
            // The server hashes it in any case. Who does not know the hash yet compares it later.
            let body = match (log.name.get(), begun_as) {
                (Some(named), Some(_)) => json!({"sha256": named.hash}),
                (Some(named), None) => json!({"sha256": named.hash, "filename": named.filename}),
                (None, _) => json!({"format": log.format}),
            };
            let call = Call::new(Method::POST, self.url(&["uploads", &id, "complete"]));
            // Another client may be completing the same upload, which takes as long as hashing it.
            let call = call.repeatable().timeout(CHECK_TIMEOUT).through_busy().json(&body);
            match self.http().json::<Complete>(&accepts_json(call)) {
                Ok(done) => {
                    return Ok(End::Stored(StoredObject {
                        bucket: done.bucket,
                        key: done.key,
                        size_bytes: done.size_bytes,
                        e_tag: done.e_tag,
                        version_id: None,
                        hash: done.sha256,
                        was_there: false,
                    }));
                }
                Err(error @ ClientError::Conflict { .. }) => {
                    // Someone else was first, or parts are missing after all.
                    let named = match log.name.wait() {
                        Ok(named) => named,
                        Err(stop) => return Ok(End::Stopped(stop)),
                    };
                    if let Some(there) = self.already_stored(log, named)? {
                        self.give_up(&id);
                        return Ok(End::Stored(there));
                    }
                    tracing::debug!(%error, "parts are missing");
                    upload =
                        self.http().json(&accepts_json(Call::get(self.url(&["uploads", &id]))).long())?;
                }
                Err(ClientError::Invalid { status: 422, .. }) => {
                    self.give_up(&id);
                    // Of what an earlier attempt left some may have been lost since.
                    return if resumed { Ok(End::Other) } else { Err(log.reader.changed()) };
                }
                Err(error @ ClientError::NotFound { .. }) => return Ok(End::Gone(error)),
                Err(error) => return Err(error),
            }
        }
        Err(ClientError::Protocol {
            server: self.server(),
            problem: "parts of the log get lost there again and again".to_owned(),
        })
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
    id: &'a str,
    sizes: &'a PartSizes,
    direct: Option<&'a Direct>,
}

impl Sender<'_> {
    fn send(&self, missing: VecDeque<(u64, u64)>, arrived: &(dyn Fn(u64) + Sync)) -> Result<()> {
        self.log.reader.sending_begins();
        let work = Mutex::new(missing);
        let failed = Mutex::new(None);
        std::thread::scope(|scope| {
            for _ in 0..WORKERS {
                scope.spawn(|| {
                    let mut buffer = BytesMut::new();
                    while let Some((start, size)) = self.take(&work) {
                        match self.part(start, size, &mut buffer) {
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
        self.log.reader.sending_ends();
        failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }

    /// The next part, cut to the size of the moment.
    fn take(&self, work: &Mutex<VecDeque<(u64, u64)>>) -> Option<(u64, u64)> {
        if self.log.name.stopped().is_some() {
            return None;
        }
        let mut work = work.lock().unwrap_or_else(PoisonError::into_inner);
        let (start, size) = work.pop_front()?;
        let part = size.min(self.sizes.now());
        if part < size {
            work.push_front((start + part, size - part));
        }
        Some((start, part))
    }

    /// False: the part is too large for something on the way, and parts are smaller from now on.
    fn part(&self, start: u64, size: u64, buffer: &mut BytesMut) -> Result<bool> {
        let (bytes, crc32) = self.log.reader.read_summed(start, size, std::mem::take(buffer))?;
        let bytes = bytes.freeze();
        if let Some(direct) = self.direct {
            let timeout = ANSWER_TIMEOUT + Duration::from_secs(size / SLOWEST);
            self.client.put_direct(self.id, direct, start, &bytes, timeout)?;
            self.log.reader.sent(size);
            return Ok(true);
        }
        let url = self.client.url(&["uploads", self.id, "parts", &start.to_string()]);
        let call = Call::new(Method::PUT, url)
            .timeout(ANSWER_TIMEOUT + Duration::from_secs(size / SLOWEST))
            .header(PART_CRC, &crc32.to_string())
            .through_busy()
            .bytes("application/octet-stream", Bytes::clone(&bytes));
        let done = self.client.http().done(&call);
        drop(call);
        // Its room is used again, unless someone still holds it.
        *buffer = bytes.try_into_mut().unwrap_or_default();
        match done {
            Ok(()) => {
                self.log.reader.sent(size);
                Ok(true)
            }
            Err(ClientError::TooLarge { .. }) if self.sizes.shrink(size) => Ok(false),
            Err(error @ (ClientError::Unreachable { .. } | ClientError::Timeout { .. })) => {
                // A proxy may cut off what is too large for it instead of saying so: then the rest still works.
                let alive = self
                    .client
                    .http()
                    .json::<Upload>(&accepts_json(Call::get(self.client.url(&["uploads", self.id]))).long());
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

/// What is still to be sent.
#[derive(Debug, Default, PartialEq, Eq)]
struct Missing {
    /// Start and length.
    ranges: VecDeque<(u64, u64)>,
    /// The server has something that is not of this log.
    other: bool,
}

/// The ranges that the server has not, or has otherwise.
fn missing(log: &LogFile<'_>, parts: &[Part]) -> Result<Missing> {
    let mut parts: Vec<&Part> = parts.iter().collect();
    parts.sort_by_key(|part| part.start);
    let mut missing = Missing::default();
    let mut buffer = BytesMut::new();
    let mut at = 0;
    for part in parts {
        let end = part.start.saturating_add(part.size_bytes);
        // What does not join up or does not fit is sent once more.
        if part.start < at
            || end > log.reader.size_bytes()
            || part.size_bytes == 0
            || part.size_bytes > 64 * PART_BYTES
        {
            continue;
        }
        let crc32;
        (buffer, crc32) = log.reader.read_summed(part.start, part.size_bytes, buffer)?;
        if crc32 != part.crc32 {
            missing.other = true;
            continue;
        }
        if part.start > at {
            missing.ranges.push_back((at, part.start - at));
        }
        at = end;
    }
    if at < log.reader.size_bytes() {
        missing.ranges.push_back((at, log.reader.size_bytes() - at));
    }
    Ok(missing)
}

/// Finds the upload of a log again whose hash is not known. Two logs of one key are told apart later, by the parts.
fn resume_key(log: &LogFile<'_>) -> Result<String> {
    let ends = ENDS_BYTES.min(log.reader.size_bytes());
    let mut hasher = LogHasher::new();
    hasher.update(&log.reader.size_bytes().to_le_bytes());
    for start in [0, log.reader.size_bytes() - ends] {
        hasher.update(&log.reader.read(start, ends, BytesMut::new())?);
    }
    Ok(hasher.finish().to_string())
}

#[cfg(test)]
mod tests {
    use ct_model::LogFormat;

    use super::super::{LogName, LogReader};
    use super::*;

    #[test]
    fn only_what_is_missing_or_other_is_sent() {
        let path = std::env::temp_dir().join(format!("ct-client-missing-{}", std::process::id()));
        let bytes: Vec<u8> = (0..100u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        let reader = LogReader::open(&path).unwrap();
        let name = LogName::known(Named { filename: "x.eval".to_owned(), hash: LogHasher::hash(&bytes) });
        let log = LogFile { reader: &reader, format: LogFormat::Eval, name: &name };
        let part = |start: usize, size: usize| Part {
            start: start as u64,
            size_bytes: size as u64,
            crc32: crc32fast::hash(&bytes[start..start + size]),
        };
        let missing = |parts: &[Part]| missing(&log, parts).unwrap();
        let find = |parts: &[Part]| missing(parts).ranges.into_iter().collect::<Vec<_>>();
        assert_eq!(find(&[]), [(0, 100)]);
        assert_eq!(find(&[part(50, 50), part(0, 50)]), []);
        assert_eq!(find(&[part(10, 10), part(40, 20)]), [(0, 10), (20, 20), (60, 40)]);
        let other = Part { crc32: part(1, 49).crc32, ..part(0, 50) };
        let beyond = Part { size_bytes: 51, ..part(50, 50) };
        assert!(missing(std::slice::from_ref(&other)).other && !missing(&[part(0, 50)]).other);
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
