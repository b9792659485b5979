//! Objects that come in parts: begun, gone on with by whoever has the addresses, and finished or given up.

use std::collections::VecDeque;
use std::io::Read;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use md5::{Digest as _, Md5};

use crate::bucket::Tag;
use crate::error::S3Error;
use crate::http::{Request, header};
use crate::list::decode;
use crate::sign::{Method, Presigned, escape_path};
use crate::{Bucket, Result, xml};

/// The smallest part of services, but for the last one of an object.
const PART_BYTES_MIN: u64 = 5 << 20;
/// Bytes of a part, where an object is not too large for that.
const PART_BYTES: u64 = 8 << 20;
/// Parts of an object.
const PARTS_MAX: u64 = 10_000;
/// Parts on their way at a time.
const WORKERS: usize = 3;
/// Parts that are copied within the service.
const COPY_PART_BYTES: u64 = 1 << 30;
/// Objects up to this are copied in one piece.
const COPY_BYTES_MAX: u64 = 4 << 30;

/// A part that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// From 1.
    pub number: u64,
    /// Its length.
    pub size_bytes: u64,
    /// Its entity tag in quotes: mostly the MD5 of its bytes.
    pub e_tag: String,
}

/// An upload in parts that was begun and not finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// The key of its object.
    pub key: String,
    /// Its id.
    pub upload_id: String,
    /// When it was begun.
    pub begun: Option<jiff::Timestamp>,
}

/// How an object is cut: parts of one size, but for the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartSizes {
    /// Of the object.
    pub size_bytes: u64,
    /// Of a part.
    pub part_bytes: u64,
}

impl PartSizes {
    /// For an object of a length.
    pub fn of(size_bytes: u64) -> Self {
        let least = size_bytes.div_ceil(PARTS_MAX).next_multiple_of(1 << 20);
        Self { size_bytes, part_bytes: PART_BYTES.max(least).max(PART_BYTES_MIN) }
    }

    /// The number of parts.
    pub fn count(self) -> u64 {
        self.size_bytes.div_ceil(self.part_bytes).max(1)
    }

    /// The first byte of a part, and behind its last.
    pub fn range(self, number: u64) -> (u64, u64) {
        let start = number.saturating_sub(1).saturating_mul(self.part_bytes).min(self.size_bytes);
        (start, start.saturating_add(self.part_bytes).min(self.size_bytes))
    }
}

impl Bucket {
    /// Begins an upload in parts: its id.
    pub fn begin_parts(&self, key: &str) -> Result<String> {
        let query = [("uploads", "")];
        let mut request = Request::new(Method::Post, key, "begin an upload")
            .header("content-type", "application/octet-stream");
        request.query = &query;
        let root = self.http.document(&request)?;
        let id = root.get("UploadId").filter(|id| !id.is_empty());
        id.map(str::to_owned).ok_or_else(|| self.odd("it begins an upload without an id"))
    }

    /// Puts a part. The service checks its MD5.
    pub fn put_part(&self, key: &str, upload_id: &str, number: u64, bytes: Bytes) -> Result<Part> {
        let number_text = number.to_string();
        let query = [("partNumber", number_text.as_str()), ("uploadId", upload_id)];
        let digest = Md5::digest(&bytes);
        let size_bytes = bytes.len() as u64;
        let mut request =
            Request::new(Method::Put, key, "put a part").header("content-md5", STANDARD.encode(digest));
        request.query = &query;
        request.body = bytes;
        let response = self.http.send(&request)?;
        let tag = Tag::of(&response).e_tag.ok_or_else(|| self.odd("it takes a part without an ETag"))?;
        Ok(Part { number, size_bytes, e_tag: tag })
    }

    /// The address by which anyone can put a part within a time.
    pub fn presign_part(
        &self,
        key: &str,
        upload_id: &str,
        number: u64,
        size_bytes: u64,
        valid_for: Duration,
    ) -> Result<Presigned> {
        let number = number.to_string();
        let query = [("partNumber", number.as_str()), ("uploadId", upload_id)];
        let headers = [("content-length".to_owned(), size_bytes.to_string())];
        let url = self.http.object_url(key, true)?;
        Ok(self.http.signer().address(Method::Put, url, &query, &headers, valid_for))
    }

    /// The parts that are there, by number.
    pub fn parts(&self, key: &str, upload_id: &str) -> Result<Vec<Part>> {
        let mut parts: Vec<Part> = Vec::new();
        let mut after = String::new();
        loop {
            let mut query = vec![("uploadId", upload_id), ("max-parts", "1000")];
            if !after.is_empty() {
                query.push(("part-number-marker", &after));
            }
            let request = Request { query: &query, ..Request::new(Method::Get, key, "list parts") };
            let root = match self.http.document(&request) {
                Err(S3Error::NotFound { bucket, key }) => return Err(S3Error::NoUpload { bucket, key }),
                root => root?,
            };
            for part in root.all("Part") {
                let number = part.get("PartNumber").and_then(|text| text.parse().ok());
                let size = part.get("Size").and_then(|text| text.parse().ok());
                let (Some(number), Some(size_bytes)) = (number, size) else {
                    return Err(self.odd("it lists parts without number or length"));
                };
                let e_tag = format!("\"{}\"", part.get("ETag").unwrap_or_default().trim_matches('"'));
                parts.push(Part { number, size_bytes, e_tag });
            }
            let next = root.get("NextPartNumberMarker").unwrap_or_default().to_owned();
            if root.get("IsTruncated") != Some("true") || next.is_empty() || next == after {
                parts.sort_by_key(|part| part.number);
                return Ok(parts);
            }
            after = next;
        }
    }

    /// Makes an object of the parts; fails with [`S3Error::Precondition`] when `only_new` and there is one.
    pub fn finish_parts(&self, key: &str, upload_id: &str, parts: &[Part], only_new: bool) -> Result<Tag> {
        let query = [("uploadId", upload_id)];
        let mut body = String::from("<CompleteMultipartUpload>");
        for part in parts {
            let tag = xml::escape(&part.e_tag);
            let number = part.number;
            body.push_str(&format!("<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>"));
        }
        body.push_str("</CompleteMultipartUpload>");
        let mut request =
            Request::new(Method::Post, key, "finish an upload").header("content-type", "application/xml");
        if only_new {
            request = request.header("if-none-match", "*");
        }
        request.query = &query;
        request.body = body.into();
        let answer = self.http.read(&request, |response| {
            let version = Tag::of(&response).version_id;
            Ok((self.http.read_document(&request, response)?, version))
        });
        match answer {
            Ok((root, version_id)) => {
                let tag = root.get("ETag").map(|tag| format!("\"{}\"", tag.trim_matches('"')));
                Ok(Tag { e_tag: tag, version_id })
            }
            Err(error) => Err(error),
        }
    }

    /// Gives an upload up; it does not matter when it is gone already.
    pub fn abort_parts(&self, key: &str, upload_id: &str) -> Result<()> {
        let query = [("uploadId", upload_id)];
        let request = Request { query: &query, ..Request::new(Method::Delete, key, "give an upload up") };
        match self.http.done(&request) {
            Err(S3Error::NotFound { .. } | S3Error::NoUpload { .. }) => Ok(()),
            done => done,
        }
    }

    /// The uploads that were begun and not finished, of keys that begin with `prefix`.
    pub fn unfinished(&self, prefix: &str) -> Result<Vec<Unfinished>> {
        let mut found = Vec::new();
        let (mut key_after, mut id_after) = (String::new(), String::new());
        loop {
            let mut query = vec![("uploads", ""), ("prefix", prefix), ("encoding-type", "url")];
            if !key_after.is_empty() {
                query.push(("key-marker", &key_after));
                query.push(("upload-id-marker", &id_after));
            }
            let request = Request { query: &query, ..Request::new(Method::Get, "", "list uploads") };
            let root = self.http.document(&request)?;
            let encoded = root.get("EncodingType") == Some("url");
            let plain = |text: &str| if encoded { decode(text) } else { text.to_owned() };
            for upload in root.all("Upload") {
                let key = plain(upload.get("Key").unwrap_or_default());
                if key.starts_with(prefix) {
                    let upload_id = upload.get("UploadId").unwrap_or_default().to_owned();
                    let begun = upload.get("Initiated").and_then(|text| text.parse().ok());
                    found.push(Unfinished { key, upload_id, begun });
                }
            }
            let next = plain(root.get("NextKeyMarker").unwrap_or_default());
            let next_id = root.get("NextUploadIdMarker").unwrap_or_default().to_owned();
            let same = next == key_after && next_id == id_after;
            if root.get("IsTruncated") != Some("true") || next.is_empty() || same {
                return Ok(found);
            }
            (key_after, id_after) = (next, next_id);
        }
    }

    /// Adds an object of exactly this length from a reader, in parts when it is not small; fails with
    /// [`S3Error::Precondition`] when there is one. Every part is checked by the service. `finish` is asked at the end,
    /// before the object comes to be: an error gives it up. Memory: a few parts.
    pub fn add_from<E: From<S3Error>>(
        &self,
        key: &str,
        size_bytes: u64,
        source: &mut dyn Read,
        progress: &mut dyn FnMut(&[u8]),
        finish: impl FnOnce() -> std::result::Result<(), E>,
    ) -> std::result::Result<Tag, E> {
        let sizes = PartSizes::of(size_bytes);
        if sizes.count() == 1 {
            let bytes = read_piece(source, size_bytes)?;
            progress(&bytes);
            finish()?;
            return Ok(self.add(key, bytes)?);
        }
        let upload_id = self.begin_parts(key)?;
        let sent = self.send_parts(key, &upload_id, sizes, source, progress);
        let done = sent.map_err(E::from).and_then(|parts| {
            finish()?;
            Ok(self.finish_parts(key, &upload_id, &parts, true)?)
        });
        if done.is_err() {
            // What is left of it is collected some day, whatever becomes of this.
            let _ = self.abort_parts(key, &upload_id);
        }
        done
    }

    /// Reads on this thread and sends on others.
    fn send_parts(
        &self,
        key: &str,
        upload_id: &str,
        sizes: PartSizes,
        source: &mut dyn Read,
        progress: &mut dyn FnMut(&[u8]),
    ) -> Result<Vec<Part>> {
        let done = Mutex::new(Ok(Vec::new()));
        let note = |sent: Result<Part>| {
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            match (sent, done.as_mut()) {
                (Ok(part), Ok(parts)) => parts.push(part),
                (Err(error), Ok(_)) => *done = Err(error),
                (_, Err(_)) => {}
            }
            done.is_ok()
        };
        std::thread::scope(|scope| {
            let mut going: VecDeque<std::thread::ScopedJoinHandle<'_, bool>> = VecDeque::new();
            for number in 1..=sizes.count() {
                let (start, end) = sizes.range(number);
                let bytes = match read_piece(source, end - start) {
                    Ok(bytes) => bytes,
                    Err(error) => {
                        note(Err(error));
                        return;
                    }
                };
                progress(&bytes);
                going.push_back(scope.spawn(move || note(self.put_part(key, upload_id, number, bytes))));
                if going.len() >= WORKERS
                    && let Some(oldest) = going.pop_front()
                    && !oldest.join().unwrap_or(false)
                {
                    return;
                }
            }
        });
        let mut parts = done.into_inner().unwrap_or_else(PoisonError::into_inner)?;
        parts.sort_by_key(|part| part.number);
        Ok(parts)
    }

    /// Copies an object of any length within the bucket, when the copied one has this tag; in place of what is there.
    pub fn copy_whole(&self, from: &str, to: &str, size_bytes: u64, e_tag: Option<&str>) -> Result<Tag> {
        if size_bytes <= COPY_BYTES_MAX {
            return self.copy(from, to, e_tag);
        }
        let sizes = PartSizes { size_bytes, part_bytes: COPY_PART_BYTES };
        let upload_id = self.begin_parts(to)?;
        let copied =
            (1..=sizes.count()).map(|number| self.copy_part(from, to, &upload_id, sizes, number, e_tag));
        let done = copied
            .collect::<Result<Vec<_>>>()
            .and_then(|parts| self.finish_parts(to, &upload_id, &parts, false));
        if done.is_err() {
            let _ = self.abort_parts(to, &upload_id);
        }
        done
    }

    fn copy_part(
        &self,
        from: &str,
        to: &str,
        upload_id: &str,
        sizes: PartSizes,
        number: u64,
        e_tag: Option<&str>,
    ) -> Result<Part> {
        let (start, end) = sizes.range(number);
        let number_text = number.to_string();
        let query = [("partNumber", number_text.as_str()), ("uploadId", upload_id)];
        let mut request = Request::new(Method::Put, to, "copy a part")
            .header("x-amz-copy-source", format!("/{}/{}", self.http.bucket, escape_path(from)))
            .header("x-amz-copy-source-range", format!("bytes={start}-{}", end - 1));
        if let Some(tag) = e_tag {
            request = request.header("x-amz-copy-source-if-match", tag);
        }
        request.query = &query;
        let root = self.http.document(&request)?;
        let tag = root.get("ETag").ok_or_else(|| self.odd("it copies a part without an ETag"))?;
        Ok(Part { number, size_bytes: end - start, e_tag: format!("\"{}\"", tag.trim_matches('"')) })
    }

    /// The date of the service, as its answers say.
    pub fn service_time(&self) -> Result<Option<jiff::Timestamp>> {
        let query = [("list-type", "2"), ("max-keys", "1")];
        let request = Request { query: &query, ..Request::new(Method::Get, "", "list objects") };
        let response = self.http.send(&request)?;
        let date = header(&response, "date").and_then(|text| jiff::fmt::rfc2822::parse(text).ok());
        Ok(date.map(|date| date.timestamp()))
    }
}

/// Exactly so many bytes.
fn read_piece(source: &mut dyn Read, size_bytes: u64) -> Result<Bytes> {
    let length = usize::try_from(size_bytes)
        .map_err(|_| S3Error::Read { source: std::io::ErrorKind::InvalidInput.into() })?;
    let mut bytes = vec![0; length];
    source.read_exact(&mut bytes).map_err(|source| S3Error::Read { source })?;
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_cut_into_parts_that_services_take() {
        for size in [0, 1, PART_BYTES, PART_BYTES + 1, 100 << 20, 200 << 30, 5 << 40] {
            let sizes = PartSizes::of(size);
            assert!(sizes.part_bytes >= PART_BYTES_MIN && sizes.count() <= PARTS_MAX, "{size}");
            let mut at = 0;
            for number in 1..=sizes.count() {
                let (start, end) = sizes.range(number);
                assert_eq!(start, at);
                at = end;
            }
            assert_eq!(at, size);
        }
    }
}
