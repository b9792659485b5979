//! Logs to a server.
//!
//! To a `ct` a log goes in parts ([`parts`]); to other servers by the contract's single PUT.

mod direct;
mod parts;
mod reader;

use std::fs::File;
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use ct_model::{LogFormat, LogHash, LogHasher};
use md5::{Digest as _, Md5};
use reqwest::Method;
use reqwest::header::{ETAG, HeaderName, IF_NONE_MATCH};
use serde::Deserialize;
use serde_json::json;
use url::Url;

use crate::download::{has_md5_tag, hex, md5_tag};
use crate::http::{Call, Patience, accepts_json, header};
use crate::pages::with_query;
use crate::{Client, ClientError, Result};

pub use reader::LogReader;

const VERSION_ID: HeaderName = HeaderName::from_static("x-amz-version-id");

/// A log to upload.
#[derive(Clone, Copy)]
pub struct LogFile<'a> {
    /// Its bytes.
    pub reader: &'a LogReader,
    /// Its form.
    pub format: LogFormat,
    /// Its name and hash, which may become known while it is on its way.
    pub name: &'a LogName,
}

/// What a log is to be called, once somebody knows. Told once; who waits for it waits until then.
#[derive(Debug, Default)]
pub struct LogName(OnceLock<Told>);

#[derive(Debug)]
enum Told {
    Name(Named),
    Stop(Stop),
}

/// A log that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// The key it gets: `<run id>.eval` or `.json`.
    pub filename: String,
    /// SHA-256 of its bytes.
    pub hash: LogHash,
}

/// Why an upload is not to be completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The server has the log: what was sent of it is of no use.
    NotNeeded,
    /// For another reason; what was sent waits for the next attempt.
    ForNow,
}

impl LogName {
    /// A name that is known from the beginning.
    pub fn known(named: Named) -> Self {
        let name = Self::default();
        name.tell(named);
        name
    }

    /// Tells it.
    pub fn tell(&self, named: Named) {
        // Only the first counts.
        let _ = self.0.set(Told::Name(named));
    }

    /// Nobody will tell it, and the upload ends.
    pub fn stop(&self, stop: Stop) {
        let _ = self.0.set(Told::Stop(stop));
    }

    fn get(&self) -> Option<&Named> {
        match self.0.get() {
            Some(Told::Name(named)) => Some(named),
            _ => None,
        }
    }

    fn wait(&self) -> std::result::Result<&Named, Stop> {
        match self.0.wait() {
            Told::Name(named) => Ok(named),
            Told::Stop(stop) => Err(*stop),
        }
    }

    fn stopped(&self) -> Option<Stop> {
        match self.0.get() {
            Some(Told::Stop(stop)) => Some(*stop),
            _ => None,
        }
    }
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
    /// SHA-256 of its bytes, where the server says it.
    pub hash: Option<LogHash>,
    /// It was there before.
    pub was_there: bool,
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
            #[serde(default)]
            sha256: Option<LogHash>,
        }
        let url = with_query(self.url(&["eval-logs", "head"]), &[("filename", filename.to_owned())]);
        match self.http().json::<Head>(&accepts_json(Call::get(url))) {
            Ok(head) => Ok(Some(StoredObject {
                bucket: head.bucket,
                key: filename.to_owned(),
                size_bytes: head.size_bytes,
                e_tag: head.e_tag,
                version_id: head.version_id,
                hash: head.sha256,
                was_there: true,
            })),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Uploads a log; goes on with what an earlier attempt left. `progress` is told how many bytes have arrived. `None`:
    /// it was stopped ([`LogName::stop`]). Whoever tells no name has to compare the hash of what is stored.
    pub fn upload_log(
        &self,
        log: &LogFile<'_>,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Option<StoredObject>> {
        if let Some(named) = log.name.get()
            && let Some(there) = self.already_stored(log, named)?
        {
            return Ok(Some(there));
        }
        if self.is_ct()? {
            return self.upload_parts(log, progress);
        }
        match log.name.wait() {
            Ok(named) => self.upload_whole(log, named, progress).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// The log under its key, if it is there already.
    fn already_stored(&self, log: &LogFile<'_>, named: &Named) -> Result<Option<StoredObject>> {
        let Some(there) = self.stored_object(&named.filename)? else { return Ok(None) };
        let conflict = |message| ClientError::Conflict {
            server: self.server(),
            message,
            candidates: Vec::new(),
            deleted_run: None,
        };
        let (name, size) = (&named.filename, log.reader.size_bytes());
        if there.size_bytes != size {
            let found = there.size_bytes;
            return Err(conflict(format!("{name} is stored with {found} bytes, and this log has {size}")));
        }
        if let Some(found) = there.hash.as_ref().filter(|found| **found != named.hash) {
            let own = &named.hash;
            return Err(conflict(format!(
                "{name} is stored with the SHA-256 {found}, and this log has {own}"
            )));
        }
        Ok(Some(there))
    }

    /// As [`Client::already_stored`], when the server has just said that the key is taken.
    fn taken(&self, log: &LogFile<'_>, named: &Named, error: ClientError) -> Result<StoredObject> {
        self.already_stored(log, named)?.ok_or(error)
    }

    fn upload_whole(
        &self,
        log: &LogFile<'_>,
        named: &Named,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<StoredObject> {
        #[derive(Deserialize)]
        struct Plan {
            url: String,
            bucket: String,
        }
        let mut patience = Patience::new();
        loop {
            let call = accepts_json(Call::new(Method::POST, self.url(&["eval-logs", "upload"])).repeatable());
            let call = call.json(&json!({"filename": named.filename, "size_bytes": log.reader.size_bytes()}));
            let plan: Plan = match self.http().json(&call) {
                Ok(plan) => plan,
                Err(error @ ClientError::Conflict { .. }) => return self.taken(log, named, error),
                Err(error) => return Err(error),
            };
            let url = self.url(&[]).join(&plan.url).map_err(|error| ClientError::Protocol {
                server: self.server(),
                problem: format!("the address for the upload is none ({error})"),
            })?;
            progress(0);
            let error = match self.put_whole(log, named, &url, progress) {
                Ok((e_tag, version_id)) => {
                    return Ok(StoredObject {
                        bucket: plan.bucket,
                        key: named.filename.clone(),
                        size_bytes: log.reader.size_bytes(),
                        e_tag,
                        version_id,
                        hash: None,
                        was_there: false,
                    });
                }
                Err(error @ ClientError::Conflict { .. }) => return self.taken(log, named, error),
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
        named: &Named,
        url: &Url,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<(Option<String>, Option<String>)> {
        let file = File::open(log.reader.path()).map_err(|source| log.reader.unreadable(source))?;
        let sums = Arc::new(Mutex::new((LogHasher::new(), Md5::new())));
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
            let response = self.http().send_body(&call, body, log.reader.size_bytes());
            finished.store(true, Ordering::Relaxed);
            response
        })?;
        let e_tag = header(&response, &ETAG).map(str::to_owned);
        let version_id = header(&response, &VERSION_ID).map(str::to_owned);
        let (sha256, md5) = std::mem::take(&mut *sums.lock().unwrap_or_else(PoisonError::into_inner));
        if sha256.finish() != named.hash {
            return Err(log.reader.changed());
        }
        let md5 = hex(&md5.finalize());
        let tag = e_tag.as_deref().and_then(md5_tag).filter(|_| has_md5_tag(&response));
        if let Some(tag) = tag.filter(|tag| *tag != md5) {
            return Err(ClientError::Altered {
                what: named.filename.clone(),
                problem: format!("the server got bytes with md5 {tag}, and {md5} were sent"),
            });
        }
        progress(log.reader.size_bytes());
        Ok((e_tag, version_id))
    }
}

/// Hashes what goes out.
struct Hashing {
    file: File,
    sums: Arc<Mutex<(LogHasher, Md5)>>,
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
