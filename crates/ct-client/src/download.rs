//! A whole log into a file, going on with what an earlier download left, and checked at the end.

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom, Write};
use std::sync::Arc;

use ct_model::{LogHash, LogHasher};
use md5::{Digest as _, Md5};
use reqwest::blocking::Response;
use reqwest::header::HeaderName;

use crate::http::header;
use crate::{ClientError, RemoteLog, Result};

/// Bytes copied at a time.
const COPY_BYTES: usize = 256 << 10;

/// What was downloaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Downloaded {
    /// SHA-256 of all bytes.
    pub hash: LogHash,
    /// Their number.
    pub size_bytes: u64,
}

/// Brings `file` to hold the whole log. What it holds already is taken for the log's beginning, hashed, and not fetched
/// again. Checked are the length and every hash that is known: `expected`, what the server says, an MD5 entity tag.
pub fn download(
    log: &Arc<RemoteLog>,
    file: &mut File,
    expected: Option<&LogHash>,
    progress: &dyn Fn(u64),
) -> Result<Downloaded> {
    let write = |source| ClientError::Io { doing: "write the downloaded log".to_owned(), source };
    let mut sums = Sums::new(log, expected);
    let mut at = 0;
    file.seek(SeekFrom::Start(0)).map_err(write)?;
    let mut buffer = vec![0; COPY_BYTES];
    if log.has_ranges() {
        loop {
            let n = file.read(&mut buffer).map_err(write)?;
            if n == 0 {
                break;
            }
            sums.add(&buffer[..n]);
            at += n as u64;
            progress(n as u64);
        }
    }
    if !log.has_ranges() || log.length().is_some_and(|length| at > length) {
        file.set_len(0).map_err(write)?;
        file.seek(SeekFrom::Start(0)).map_err(write)?;
        sums = Sums::new(log, expected);
        at = 0;
    }
    copy(log, at, sums, file, write, progress)
}

/// Writes the whole log to `out`, checked at the end.
pub(crate) fn copy(
    log: &Arc<RemoteLog>,
    from: u64,
    mut sums: Sums<'_>,
    out: &mut dyn Write,
    failed: impl Fn(io::Error) -> ClientError,
    progress: &dyn Fn(u64),
) -> Result<Downloaded> {
    let mut reader = log.read_from(from);
    let mut buffer = vec![0; COPY_BYTES];
    loop {
        let n = match reader.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => n,
            Err(error) => return Err(of_io(error, "read the log")),
        };
        sums.add(&buffer[..n]);
        out.write_all(&buffer[..n]).map_err(&failed)?;
        progress(n as u64);
    }
    out.flush().map_err(&failed)?;
    sums.finish()
}

impl RemoteLog {
    /// Writes the whole log to `out`; checked as with [`download`], when all of it is written.
    pub fn write_to(
        self: &Arc<Self>,
        out: &mut dyn Write,
        expected: Option<&LogHash>,
        progress: &dyn Fn(u64),
    ) -> Result<Downloaded> {
        let failed = |source| ClientError::Io { doing: "write the log".to_owned(), source };
        copy(self, 0, Sums::new(self, expected), out, failed, progress)
    }
}

/// The error that a reader wrapped.
pub(crate) fn of_io(error: io::Error, doing: &str) -> ClientError {
    match error.downcast::<ClientError>() {
        Ok(error) => error,
        Err(source) => ClientError::Io { doing: doing.to_owned(), source },
    }
}

/// The hashes that can be checked.
pub(crate) struct Sums<'a> {
    log: &'a RemoteLog,
    sha256: LogHasher,
    expected: Option<&'a LogHash>,
    /// Only where nothing better is known.
    md5: Option<(Md5, String)>,
    size_bytes: u64,
}

impl<'a> Sums<'a> {
    fn new(log: &'a RemoteLog, expected: Option<&'a LogHash>) -> Self {
        let expected = expected.or(log.sha256());
        let md5 = log.e_tag().and_then(md5_tag).filter(|_| expected.is_none() && log.has_md5_tag());
        Self { log, sha256: LogHasher::new(), expected, md5: md5.map(|tag| (Md5::new(), tag)), size_bytes: 0 }
    }

    fn add(&mut self, bytes: &[u8]) {
        self.sha256.update(bytes);
        if let Some((md5, _)) = &mut self.md5 {
            md5.update(bytes);
        }
        self.size_bytes += bytes.len() as u64;
    }

    fn finish(self) -> Result<Downloaded> {
        let altered = |problem: String| Err(ClientError::Altered { what: self.log.shown(), problem });
        if let Some(length) = self.log.length().filter(|&length| length != self.size_bytes) {
            return altered(format!("{} bytes of {length} came", self.size_bytes));
        }
        let hash = self.sha256.finish();
        if let Some(expected) = self.expected.filter(|&expected| *expected != hash) {
            return altered(format!("its sha256 is {hash}, and should be {expected}"));
        }
        if let Some((md5, tag)) = self.md5 {
            let found = hex(&md5.finalize());
            if found != tag {
                return altered(format!("its md5 is {found}, and should be {tag}"));
            }
        }
        Ok(Downloaded { hash, size_bytes: self.size_bytes })
    }
}

/// Says how an object is encrypted at rest: tags of those with keys of their own are no MD5, and look like one.
pub(crate) const ENCRYPTION: HeaderName = HeaderName::from_static("x-amz-server-side-encryption");

/// Whether the tag of an object may be an MD5.
pub(crate) fn has_md5_tag(response: &Response) -> bool {
    header(response, &ENCRYPTION).is_none_or(|how| how == "AES256")
}

/// The MD5 in the entity tag of an object that was put as a whole.
pub(crate) fn md5_tag(tag: &str) -> Option<String> {
    let tag = tag.trim_matches('"');
    (tag.len() == 32 && tag.bytes().all(|b| b.is_ascii_hexdigit())).then(|| tag.to_ascii_lowercase())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
