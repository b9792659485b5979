//! Objects as sources of bytes: every range is one request, and one that breaks off goes on where it broke.

use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

use ct_log::source::Source;
use reqwest::blocking::Response;

use crate::bucket::Tag;
use crate::error::S3Error;
use crate::http::{Attempts, Request, header};
use crate::sign::Method;
use crate::{Bucket, Result};

/// An object of a known length. All its ranges are of the same bytes: another object under its key is an error.
#[derive(Debug)]
pub struct ObjectSource {
    bucket: Bucket,
    key: String,
    size_bytes: u64,
    /// Known from the first answer on.
    e_tag: Mutex<Option<String>>,
}

impl ObjectSource {
    pub(crate) fn new(bucket: Bucket, key: &str, size_bytes: u64, e_tag: Option<String>) -> Self {
        Self { bucket, key: key.to_owned(), size_bytes, e_tag: Mutex::new(e_tag) }
    }

    /// Its key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The tag, once something was read.
    pub fn e_tag(&self) -> Option<String> {
        self.e_tag.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The whole object from front to back.
    pub fn read_all(self: &Arc<Self>) -> Box<dyn Read + Send> {
        Box::new(ObjectReader::new(Arc::clone(self), 0, self.size_bytes))
    }

    /// The answer for a range that is not empty.
    fn range(&self, start: u64, end: u64) -> Result<Response> {
        let mut request = Request::new(Method::Get, &self.key, "read an object")
            .header("range", format!("bytes={start}-{}", end - 1));
        let known = self.e_tag();
        if let Some(tag) = &known {
            request = request.header("if-match", tag.as_str());
        }
        let response = self.bucket.http.send(&request)?;
        let said = header(&response, "content-range").and_then(|text| text.strip_prefix("bytes "));
        let right = said.is_some_and(|text| text == format!("{start}-{}/{}", end - 1, self.size_bytes));
        // What answers with the whole has the right bytes only when the whole was asked for.
        let whole = start == 0
            && end == self.size_bytes
            && response.status() == 200
            && header(&response, "content-length") == Some(self.size_bytes.to_string().as_str());
        if !right && !whole {
            return Err(self.bucket.odd(&format!(
                "asked for bytes {start} to {end} of {} in {}, it answers with {}",
                self.size_bytes,
                self.key,
                said.unwrap_or("something else")
            )));
        }
        if known.is_none() {
            *self.e_tag.lock().unwrap_or_else(PoisonError::into_inner) = Tag::of(&response).e_tag;
        }
        Ok(response)
    }
}

impl Source for ObjectSource {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let length = (buffer.len() as u64).min(self.size_bytes.saturating_sub(offset));
        let n = usize::try_from(length).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut reader = Ranged { source: self, at: offset, end: offset + length, response: None };
        let mut attempts = Attempts::new(self.bucket.http.config.patience);
        let mut filled = 0;
        while filled < n {
            filled += reader.read(&mut buffer[filled..n], &mut attempts)?;
        }
        Ok(n)
    }

    fn stream(self: Arc<Self>, offset: u64, size_bytes: u64) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(ObjectReader::new(self, offset, size_bytes)))
    }
}

/// A range on its way.
struct Ranged<'a> {
    source: &'a ObjectSource,
    at: u64,
    end: u64,
    response: Option<Response>,
}

impl Ranged<'_> {
    /// Some bytes; 0 at the end only.
    fn read(&mut self, buffer: &mut [u8], attempts: &mut Attempts) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        let n = buffer.len().min(left);
        if n == 0 {
            return Ok(0);
        }
        loop {
            let response = match &mut self.response {
                Some(response) => response,
                None => {
                    let opened = self.source.range(self.at, self.end).map_err(S3Error::into_io)?;
                    self.response.insert(opened)
                }
            };
            let problem = match response.read(&mut buffer[..n]) {
                Ok(0) => "the answer ended too early".to_owned(),
                Ok(n) => {
                    self.at += n as u64;
                    // At its end the connection is free for the next request.
                    if self.at == self.end {
                        let _ = response.read(&mut [0; 1]);
                        self.response = None;
                    }
                    *attempts = Attempts::new(self.source.bucket.http.config.patience);
                    return Ok(n);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => format!("the answer broke off: {error}"),
            };
            self.response = None;
            tracing::debug!(key = self.source.key, at = self.at, problem, "a range broke off");
            if !attempts.wait(None) {
                let endpoint = self.source.bucket.http.endpoint();
                return Err(S3Error::Unreachable { endpoint, problem }.into_io());
            }
        }
    }
}

/// Reads a range from front to back.
struct ObjectReader {
    source: Arc<ObjectSource>,
    at: u64,
    end: u64,
    /// More was asked for than there is.
    ends_early: bool,
    response: Option<Response>,
    attempts: Attempts,
}

impl ObjectReader {
    fn new(source: Arc<ObjectSource>, offset: u64, size_bytes: u64) -> Self {
        let wanted = offset.saturating_add(size_bytes);
        let end = wanted.min(source.size_bytes).max(offset);
        let attempts = Attempts::new(source.bucket.http.config.patience);
        Self { at: offset, end, ends_early: end < wanted, source, response: None, attempts }
    }
}

impl Read for ObjectReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut ranged =
            Ranged { source: &self.source, at: self.at, end: self.end, response: self.response.take() };
        let read = ranged.read(buffer, &mut self.attempts);
        self.at = ranged.at;
        self.response = ranged.response;
        match read {
            Ok(0) if self.ends_early && !buffer.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            read => read,
        }
    }
}
