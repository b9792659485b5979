//! Objects: looked at, added, copied, removed, and addresses of requests for others to make.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use reqwest::blocking::Response;
use sha2::{Digest as _, Sha256};

use crate::config::Config;
use crate::error::S3Error;
use crate::http::{Http, Request, header};
use crate::sign::{Method, Presigned, escape_path, hex};
use crate::{ObjectSource, Result};

/// One bucket. Cheap to clone; threads share it.
#[derive(Clone)]
pub struct Bucket {
    pub(crate) http: Arc<Http>,
}

impl std::fmt::Debug for Bucket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bucket({} at {})", self.http.bucket, self.http.endpoint())
    }
}

/// What tells the bytes of an object from others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tag {
    /// The entity tag, in quotes.
    pub e_tag: Option<String>,
    /// Its version, where the bucket keeps versions.
    pub version_id: Option<String>,
}

impl Tag {
    pub(crate) fn of(response: &Response) -> Self {
        let quoted = |tag: &str| if tag.starts_with('"') { tag.to_owned() } else { format!("\"{tag}\"") };
        let version = header(response, "x-amz-version-id").filter(|id| *id != "null");
        Self { e_tag: header(response, "etag").map(quoted), version_id: version.map(str::to_owned) }
    }
}

/// What a service says of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Its length.
    pub size_bytes: u64,
    /// Its tag.
    pub tag: Tag,
    /// The SHA-256 of all its bytes, when the service keeps one: it checked it when they came.
    pub sha256: Option<[u8; 32]>,
}

impl Bucket {
    /// A bucket. Nothing is asked yet.
    pub fn new(config: Config, name: &str) -> Result<Self> {
        Ok(Self { http: Arc::new(Http::new(config, name)?) })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.http.bucket
    }

    /// How it is reached.
    pub fn config(&self) -> &Config {
        &self.http.config
    }

    /// Asks whether the bucket is there and may be read, by listing nothing of it.
    pub fn check(&self) -> Result<()> {
        let query = [("list-type", "2"), ("max-keys", "1")];
        let request = Request { query: &query, ..Request::new(Method::Get, "", "list objects") };
        self.http.document(&request).map(drop)
    }

    /// Makes the bucket, unless it is there.
    pub fn make(&self) -> Result<()> {
        match self.http.done(&Request::new(Method::Put, "", "make a bucket")) {
            Err(S3Error::Refused { status: 409, .. }) => Ok(()),
            done => done,
        }
    }

    /// Looks at an object; absent when it is not there.
    pub fn head(&self, key: &str) -> Result<Option<Head>> {
        let request =
            Request::new(Method::Head, key, "look at an object").header("x-amz-checksum-mode", "ENABLED");
        match self.http.send(&request) {
            Ok(response) => {
                let size = header(&response, "content-length").and_then(|text| text.parse().ok());
                let size_bytes = size.ok_or_else(|| self.odd("it does not tell the length of an object"))?;
                // Of an object in parts it is a hash of hashes, with their number behind a dash.
                let whole = header(&response, "x-amz-checksum-type").is_none_or(|kind| kind == "FULL_OBJECT");
                let sum = header(&response, "x-amz-checksum-sha256").filter(|_| whole);
                let sha256 = sum.and_then(|text| STANDARD.decode(text).ok()?.try_into().ok());
                Ok(Some(Head { size_bytes, tag: Tag::of(&response), sha256 }))
            }
            Err(S3Error::NotFound { .. }) => Ok(None),
            // An answer without a body does not tell why: that of another request may.
            Err(error @ S3Error::Forbidden { .. }) => Err(self.check().err().unwrap_or(error)),
            Err(error) => Err(error),
        }
    }

    /// Adds an object of these bytes; fails with [`S3Error::Precondition`] when there is one. The service checks their
    /// SHA-256.
    pub fn add(&self, key: &str, bytes: Bytes) -> Result<Tag> {
        self.put(key, bytes, true)
    }

    /// As [`Bucket::add`], in place of what is there.
    pub fn replace(&self, key: &str, bytes: Bytes) -> Result<Tag> {
        self.put(key, bytes, false)
    }

    fn put(&self, key: &str, bytes: Bytes, only_new: bool) -> Result<Tag> {
        let digest: [u8; 32] = Sha256::digest(&bytes).into();
        let mut request = Request::new(Method::Put, key, "add an object")
            .header("content-type", "application/octet-stream")
            .header("x-amz-checksum-sha256", STANDARD.encode(digest));
        if only_new {
            request = request.header("if-none-match", "*");
        }
        request.body = bytes;
        request.body_sha256 = Some(hex(&digest));
        Ok(Tag::of(&self.http.send(&request)?))
    }

    /// An object as a source of bytes. Its length is known, or asked for.
    pub fn open(&self, key: &str, size_bytes: Option<u64>) -> Result<ObjectSource> {
        match size_bytes {
            Some(size_bytes) => Ok(ObjectSource::new(self.clone(), key, size_bytes, None)),
            None => {
                let head = self.head(key)?.ok_or_else(|| self.not_found(key))?;
                Ok(ObjectSource::new(self.clone(), key, head.size_bytes, head.tag.e_tag))
            }
        }
    }

    /// Reads a small object.
    pub fn get(&self, key: &str, bytes_max: u64) -> Result<Vec<u8>> {
        let request = Request::new(Method::Get, key, "read an object");
        self.http.read(&request, |response| {
            let mut bytes = Vec::new();
            match response.take(bytes_max).read_to_end(&mut bytes) {
                Ok(_) => Ok(bytes),
                Err(error) => Err(crate::http::Failed::for_now(S3Error::Unreachable {
                    endpoint: self.http.endpoint(),
                    problem: format!("the answer broke off: {error}"),
                })),
            }
        })
    }

    /// Copies an object within the bucket, when the copied one has this tag; in place of what is there.
    pub fn copy(&self, from: &str, to: &str, e_tag: Option<&str>) -> Result<Tag> {
        let source = format!("/{}/{}", self.http.bucket, escape_path(from));
        let mut request = Request::new(Method::Put, to, "copy an object").header("x-amz-copy-source", source);
        if let Some(tag) = e_tag {
            request = request.header("x-amz-copy-source-if-match", tag);
        }
        let (root, version_id) = self.http.read(&request, |response| {
            let version = Tag::of(&response).version_id;
            Ok((self.http.read_document(&request, response)?, version))
        })?;
        let quoted = |tag: &str| format!("\"{}\"", tag.trim_matches('"'));
        Ok(Tag { e_tag: root.get("ETag").map(quoted), version_id })
    }

    /// Removes an object; it does not matter when it is gone already.
    pub fn remove(&self, key: &str) -> Result<()> {
        match self.http.done(&Request::new(Method::Delete, key, "remove an object")) {
            Err(S3Error::NotFound { .. }) => Ok(()),
            done => done,
        }
    }

    /// The address by which anyone can read an object for a time, under this file name.
    pub fn presign_get(&self, key: &str, file_name: &str, valid_for: Duration) -> Result<Presigned> {
        let plain: String =
            file_name.chars().filter(|c| c.is_ascii_graphic() && !matches!(c, '"' | '\\')).collect();
        let disposition = format!("attachment; filename=\"{plain}\"");
        let query = [
            ("response-content-disposition", disposition.as_str()),
            ("response-content-type", "application/octet-stream"),
        ];
        let url = self.http.object_url(key, true)?;
        Ok(self.http.signer().address(Method::Get, url, &query, &[], valid_for))
    }

    /// The address by which anyone can add an object of exactly this length within a time, if there is none: the
    /// headers that it needs say so. With a SHA-256 the service takes no other bytes.
    pub fn presign_add(
        &self,
        key: &str,
        size_bytes: u64,
        sha256: Option<&[u8; 32]>,
        valid_for: Duration,
    ) -> Result<Presigned> {
        let mut headers = vec![
            ("content-length".to_owned(), size_bytes.to_string()),
            ("if-none-match".to_owned(), "*".to_owned()),
        ];
        if let Some(digest) = sha256 {
            headers.push(("x-amz-checksum-sha256".to_owned(), STANDARD.encode(digest)));
        }
        let url = self.http.object_url(key, true)?;
        Ok(self.http.signer().address(Method::Put, url, &[], &headers, valid_for))
    }

    pub(crate) fn odd(&self, problem: &str) -> S3Error {
        S3Error::Protocol { endpoint: self.http.endpoint(), problem: problem.to_owned() }
    }

    pub(crate) fn not_found(&self, key: &str) -> S3Error {
        S3Error::NotFound { bucket: self.http.bucket.clone(), key: key.to_owned() }
    }
}
