//! One request at a time: signed, tried again where that may help, and what an answer means.

use std::collections::hash_map::RandomState;
use std::error::Error as _;
use std::hash::BuildHasher as _;
use std::io::Read;
use std::time::{Duration, Instant};

use bytes::Bytes;
use jiff::Timestamp;
use reqwest::StatusCode;
use reqwest::blocking::{Client, Response};
use reqwest::header::{HeaderName, HeaderValue, RETRY_AFTER};
use url::Url;

use crate::config::Config;
use crate::error::S3Error;
use crate::sign::{Method, Signer, UNSIGNED, escape_path, query};
use crate::{Result, xml};

/// Bytes of an answer that is a document.
const DOCUMENT_BYTES_MAX: u64 = 16 << 20;
/// Bytes of an error's body that are looked at.
const ERROR_BYTES_MAX: u64 = 64 << 10;
const MESSAGE_CHARS_MAX: usize = 300;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The slowest connection that is waited for, in bytes a second.
const SLOWEST: u64 = 32 << 10;
/// The longest pause that a service may ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);

/// How long to go on trying.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// How often a request is tried.
    pub attempts_max: u32,
    /// The first pause between attempts; it doubles.
    pub pause_first: Duration,
    /// The longest pause of our own choice.
    pub pause_max: Duration,
    /// How long an answer may take to begin, and a pause within it.
    pub answer_timeout: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            attempts_max: 6,
            pause_first: Duration::from_millis(200),
            pause_max: Duration::from_secs(5),
            answer_timeout: Duration::from_secs(60),
        }
    }
}

/// Attempts so far.
#[derive(Debug)]
pub(crate) struct Attempts {
    patience: Patience,
    count: u32,
}

impl Attempts {
    pub(crate) fn new(patience: Patience) -> Self {
        Self { patience, count: 0 }
    }

    /// Waits before another attempt. False: it has been tried enough.
    pub(crate) fn wait(&mut self, asked: Option<Duration>) -> bool {
        self.count += 1;
        if self.count >= self.patience.attempts_max {
            return false;
        }
        let doubled = self.patience.pause_first.saturating_mul(2u32.saturating_pow(self.count - 1));
        let longest = doubled.min(self.patience.pause_max);
        // Half of it for certain, half at random, so that many do not come back at once.
        let share = u32::try_from(RandomState::new().hash_one(self.count) % 1000).unwrap_or_default();
        let own = longest / 2 + longest / 2 * share / 1000;
        std::thread::sleep(asked.map_or(own, |asked| asked.min(RETRY_AFTER_MAX).max(own)));
        true
    }
}

/// A request, which can be sent again.
pub(crate) struct Request<'a> {
    pub(crate) method: Method,
    /// Empty: the bucket itself.
    pub(crate) key: &'a str,
    pub(crate) query: &'a [(&'a str, &'a str)],
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Bytes,
    /// SHA-256 of the body in hex, when it is known: the service checks it.
    pub(crate) body_sha256: Option<String>,
    /// Such as "list objects".
    pub(crate) doing: &'static str,
}

impl<'a> Request<'a> {
    pub(crate) fn new(method: Method, key: &'a str, doing: &'static str) -> Self {
        Self { method, key, query: &[], headers: Vec::new(), body: Bytes::new(), body_sha256: None, doing }
    }

    pub(crate) fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }
}

/// An attempt that failed, and whether another may help.
pub(crate) struct Failed {
    pub(crate) error: S3Error,
    again: bool,
    pause: Option<Duration>,
}

impl Failed {
    pub(crate) fn for_now(error: S3Error) -> Self {
        Self { error, again: true, pause: None }
    }

    pub(crate) fn for_good(error: S3Error) -> Self {
        Self { error, again: false, pause: None }
    }
}

/// Sends requests to one bucket.
pub(crate) struct Http {
    client: Client,
    pub(crate) config: Config,
    pub(crate) bucket: String,
    url: Url,
    pub(crate) public_url: Url,
}

impl Http {
    pub(crate) fn new(config: Config, bucket: &str) -> Result<Self> {
        // Whoever came first has chosen the same one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = || {
            Client::builder()
                .user_agent(concat!("ct/", env!("CARGO_PKG_VERSION")))
                .redirect(reqwest::redirect::Policy::none())
                .connect_timeout(CONNECT_TIMEOUT)
                .timeout(None)
                .tcp_nodelay(true)
                .tcp_keepalive(Duration::from_secs(30))
                .referer(false)
                // Lengths and hashes are of the bytes as they come.
                .no_gzip()
        };
        let url = config.bucket_url(bucket, false)?;
        let public_url = config.bucket_url(bucket, true)?;
        // A machine without any certificates can still talk to services that need none.
        let client =
            builder().build().or_else(|error| builder().tls_certs_only([]).build().map_err(|_| error));
        let client = client.map_err(|error| S3Error::Config { problem: chain(&error) })?;
        Ok(Self { client, bucket: bucket.to_owned(), url, public_url, config })
    }

    pub(crate) fn endpoint(&self) -> String {
        self.config.endpoint()
    }

    /// The address of an object, without a query.
    pub(crate) fn object_url(&self, key: &str, public: bool) -> Result<Url> {
        let base = if public { &self.public_url } else { &self.url };
        let text = format!("{}/{}", base.as_str().trim_end_matches('/'), escape_path(key));
        let text = if key.is_empty() { text.trim_end_matches('/').to_owned() } else { text };
        Url::parse(&text).map_err(|error| S3Error::Config { problem: format!("{text:?}: {error}") })
    }

    pub(crate) fn signer(&self) -> Signer<'_> {
        Signer { credentials: &self.config.credentials, region: &self.config.region, now: Timestamp::now() }
    }

    fn send_once(&self, request: &Request<'_>) -> std::result::Result<Response, Failed> {
        let mut url = self.object_url(request.key, false).map_err(Failed::for_good)?;
        if !request.query.is_empty() {
            url.set_query(Some(&query(request.query)));
        }
        let hash = request.body_sha256.as_deref().unwrap_or(UNSIGNED);
        let headers = self.signer().headers(request.method, &url, &request.headers, hash);
        let method = match request.method {
            Method::Get => reqwest::Method::GET,
            Method::Head => reqwest::Method::HEAD,
            Method::Put => reqwest::Method::PUT,
            Method::Post => reqwest::Method::POST,
            Method::Delete => reqwest::Method::DELETE,
        };
        let timeout =
            self.config.patience.answer_timeout + Duration::from_secs(request.body.len() as u64 / SLOWEST);
        let mut sent = self.client.request(method, url).timeout(timeout);
        for (name, value) in headers {
            let header = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(&value));
            let (Ok(name), Ok(mut value)) = header else {
                let problem = "a key or a token holds characters that no header takes".to_owned();
                return Err(Failed::for_good(S3Error::Config { problem }));
            };
            value.set_sensitive(name == reqwest::header::AUTHORIZATION);
            sent = sent.header(name, value);
        }
        if matches!(request.method, Method::Put | Method::Post) {
            sent = sent.body(request.body.clone());
        }
        let started = Instant::now();
        let response = sent.send().map_err(|error| {
            let problem = chain(&error);
            let endpoint = self.endpoint();
            // A certificate does not get better.
            let lower = problem.to_ascii_lowercase();
            let good = lower.contains("certificate") || lower.contains("invalidcontenttype");
            let error = S3Error::Unreachable { endpoint, problem };
            if good { Failed::for_good(error) } else { Failed::for_now(error) }
        })?;
        tracing::debug!(
            method = request.method.as_str(),
            bucket = self.bucket,
            key = request.key,
            status = response.status().as_u16(),
            took_ms = started.elapsed().as_millis(),
            "asked the bucket"
        );
        if response.status().is_success() { Ok(response) } else { Err(self.refused(request, response)) }
    }

    /// Sends it until it is answered or patience ends, and reads the answer. One that breaks off counts as none.
    pub(crate) fn read<T>(
        &self,
        request: &Request<'_>,
        read: impl Fn(Response) -> std::result::Result<T, Failed>,
    ) -> Result<T> {
        let mut attempts = Attempts::new(self.config.patience);
        loop {
            let failed = match self.send_once(request).and_then(&read) {
                Ok(value) => return Ok(value),
                Err(failed) => failed,
            };
            if !failed.again || !attempts.wait(failed.pause) {
                return Err(failed.error);
            }
            tracing::debug!(doing = request.doing, error = %failed.error, "trying again");
        }
    }

    pub(crate) fn send(&self, request: &Request<'_>) -> Result<Response> {
        self.read(request, Ok)
    }

    /// Sends it and reads a document.
    pub(crate) fn document(&self, request: &Request<'_>) -> Result<xml::Element> {
        self.read(request, |response| self.read_document(request, response))
    }

    pub(crate) fn read_document(
        &self,
        request: &Request<'_>,
        response: Response,
    ) -> std::result::Result<xml::Element, Failed> {
        let (status, endpoint) = (response.status(), self.endpoint());
        let mut bytes = Vec::new();
        response.take(DOCUMENT_BYTES_MAX).read_to_end(&mut bytes).map_err(|error| {
            let problem = format!("the answer broke off: {error}");
            Failed::for_now(S3Error::Unreachable { endpoint: endpoint.clone(), problem })
        })?;
        let root = xml::parse(&bytes).map_err(|problem| {
            // Half an answer of a proxy's is one that broke off.
            Failed::for_now(S3Error::Protocol { endpoint, problem })
        })?;
        // Some things go wrong after the status has been sent.
        if root.name == "Error" { Err(self.meaning(request, status, &root, None)) } else { Ok(root) }
    }

    /// Sends it and has no use for the answer.
    pub(crate) fn done(&self, request: &Request<'_>) -> Result<()> {
        self.read(request, |response| {
            // Read to its end, so that the connection can be used again.
            let _ = std::io::copy(&mut response.take(ERROR_BYTES_MAX), &mut std::io::sink());
            Ok(())
        })
    }

    fn refused(&self, request: &Request<'_>, response: Response) -> Failed {
        let status = response.status();
        let pause = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let region = response.headers().get("x-amz-bucket-region").and_then(|value| value.to_str().ok());
        if let Some(region) = region.filter(|region| *region != self.config.region && status != 404) {
            let problem = format!("bucket {} is in region {region}: set AWS_REGION={region}", self.bucket);
            return Failed::for_good(S3Error::Config { problem });
        }
        let mut bytes = Vec::new();
        let _ = response.take(ERROR_BYTES_MAX).read_to_end(&mut bytes);
        let root = xml::parse(&bytes).unwrap_or_default();
        self.meaning(request, status, &root, pause.map(Duration::from_secs))
    }

    /// What a refusal means.
    fn meaning(
        &self,
        request: &Request<'_>,
        status: StatusCode,
        root: &xml::Element,
        pause: Option<Duration>,
    ) -> Failed {
        let (endpoint, bucket, key) = (self.endpoint(), self.bucket.clone(), request.key.to_owned());
        let cut = |text: &str| text.chars().filter(|c| !c.is_control()).take(MESSAGE_CHARS_MAX).collect();
        let code: String = cut(root.get("Code").unwrap_or_default());
        let known = root.get("Message").filter(|text| !text.is_empty());
        let message: String =
            cut(known.unwrap_or_else(|| status.canonical_reason().unwrap_or("no reason given")));
        let doing = request.doing;
        let error = match (status.as_u16(), code.as_str()) {
            (_, "NoSuchBucket") => S3Error::NoBucket { bucket, endpoint },
            (_, "NoSuchUpload") => S3Error::NoUpload { bucket, key },
            (_, "RequestTimeTooSkewed") => S3Error::Clock { endpoint, message },
            (
                _,
                "InvalidAccessKeyId"
                | "SignatureDoesNotMatch"
                | "ExpiredToken"
                | "InvalidToken"
                | "TokenRefreshRequired"
                | "AuthorizationHeaderMalformed",
            ) => S3Error::Keys { endpoint, code, message },
            (507, _)
            | (_, "QuotaExceeded" | "StorageFull" | "InsufficientStorage" | "XMinioStorageFull")
            | (_, "XMinioAdminBucketQuotaExceeded") => S3Error::Full { endpoint, bucket, message },
            (_, "BadDigest" | "XAmzContentSHA256Mismatch" | "InvalidDigest") => {
                return Failed::for_now(S3Error::Altered { bucket, key, message });
            }
            // Two conditional requests at once: the other one won, or neither did.
            (409, "ConditionalRequestConflict") => {
                return Failed::for_now(S3Error::Precondition { bucket, key });
            }
            (412, _) => S3Error::Precondition { bucket, key },
            (404, _) if key.is_empty() => S3Error::NoBucket { bucket, endpoint },
            (404, _) => S3Error::NotFound { bucket, key },
            (401 | 403, _) => {
                let code = if code.is_empty() { status.as_u16().to_string() } else { code };
                S3Error::Forbidden { bucket, doing, code, message }
            }
            (408 | 429 | 500..=599, _) | (_, "RequestTimeout" | "SlowDown" | "IncompleteBody") | (200, _) => {
                let status = status.as_u16();
                let error = S3Error::Busy { endpoint, status, code, message };
                return Failed { error, again: true, pause };
            }
            (status, _) => S3Error::Refused { endpoint, doing, status, code, message },
        };
        Failed::for_good(error)
    }
}

/// An error with its causes, each said once.
pub(crate) fn chain(error: &reqwest::Error) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut next = error.source();
    while let Some(source) = next {
        let text = source.to_string();
        // What the layers of the client say of themselves helps nobody.
        if !text.starts_with("client error") && !texts.iter().any(|said| said.contains(&text)) {
            texts.push(text);
        }
        next = source.source();
    }
    if texts.is_empty() { error.to_string() } else { texts.join(": ") }
}

/// A header of an answer.
pub(crate) fn header<'r>(response: &'r Response, name: &str) -> Option<&'r str> {
    response.headers().get(name)?.to_str().ok()
}
