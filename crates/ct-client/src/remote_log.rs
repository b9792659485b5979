//! A log that lies with a server: read by ranges over an address that is good for a short time.
//!
//! Cost: one request to find the log, one for its length, then one for each range. A body that breaks off is asked for
//! again from where it broke.

use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ct_log::source::Source;
use ct_model::{LogHash, RunId};
use reqwest::StatusCode;
use reqwest::blocking::Response;
use reqwest::header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderName, IF_RANGE, LOCATION, RANGE};
use url::Url;

use crate::address::shown;
use crate::download::has_md5_tag;
use crate::http::{Call, Http, Patience, header};
use crate::{BaseUrl, Client, ClientError, Origin, Result};

/// Addresses a log may be sent on to before it is found.
const REDIRECTS_MAX: u32 = 5;
const REPR_DIGEST: HeaderName = HeaderName::from_static("repr-digest");

/// Where a log is asked for.
#[derive(Debug, Clone)]
pub enum LogPlace {
    /// The log of a run of a server.
    Run(Client, RunId),
    /// Any http or https address. Nobody's token goes there.
    Address(Url),
}

impl LogPlace {
    /// A plain address.
    pub fn address(text: &str) -> Result<Self> {
        let wrong = |problem: &str| ClientError::Address { url: shown(text), problem: problem.to_owned() };
        let url = Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
        if matches!(url.scheme(), "http" | "https") {
            Ok(Self::Address(url))
        } else {
            Err(wrong("it is neither http nor https"))
        }
    }
}

/// A request for the log's bytes.
#[derive(Debug, Clone)]
struct Fetch {
    url: Url,
    anonymous: bool,
}

/// A log that lies elsewhere.
#[derive(Debug)]
pub struct RemoteLog {
    http: Http,
    place: LogPlace,
    /// Goes stale; found again then.
    fetch: Mutex<Fetch>,
    size_bytes: Option<u64>,
    e_tag: Option<String>,
    has_md5_tag: bool,
    sha256: Option<LogHash>,
    ranges: bool,
}

impl RemoteLog {
    /// Finds a log, and how long it is.
    pub fn open(place: LogPlace) -> Result<Arc<Self>> {
        let http = match &place {
            LogPlace::Run(client, _) => client.http().clone(),
            LogPlace::Address(url) => {
                Client::new(BaseUrl::parse(&origin_address(url))?, None)?.http().clone()
            }
        };
        let mut log = Self {
            http,
            fetch: Mutex::new(first_fetch(&place)),
            place,
            size_bytes: None,
            e_tag: None,
            has_md5_tag: false,
            sha256: None,
            ranges: false,
        };
        let response = log.get(Some((0, 0)))?;
        log.e_tag = header(&response, &ETAG).filter(|tag| !tag.starts_with("W/")).map(str::to_owned);
        log.has_md5_tag = has_md5_tag(&response);
        log.sha256 = header(&response, &REPR_DIGEST).and_then(digest);
        log.ranges = response.status() == StatusCode::PARTIAL_CONTENT;
        log.size_bytes = if log.ranges {
            header(&response, &CONTENT_RANGE)
                .and_then(|range| range.rsplit_once('/')?.1.parse().ok())
                .ok_or_else(|| log.odd("it answers a range without saying of how much"))
                .map(Some)?
        } else {
            header(&response, &CONTENT_LENGTH).and_then(|length| length.parse().ok())
        };
        Ok(Arc::new(log))
    }

    /// Whether parts of it can be asked for, as a [`Source`] must.
    pub fn has_ranges(&self) -> bool {
        self.ranges
    }

    /// Its length, if the server tells.
    pub fn length(&self) -> Option<u64> {
        self.size_bytes
    }

    /// The strong entity tag.
    pub fn e_tag(&self) -> Option<&str> {
        self.e_tag.as_deref()
    }

    /// Whether the entity tag, if it looks like an MD5, is that of the bytes.
    pub(crate) fn has_md5_tag(&self) -> bool {
        self.has_md5_tag
    }

    /// The SHA-256 that the server says it has.
    pub fn sha256(&self) -> Option<&LogHash> {
        self.sha256.as_ref()
    }

    /// The address as it may be shown.
    pub fn shown(&self) -> String {
        match &self.place {
            LogPlace::Run(client, run) => format!("the log of run {run} at {}", client.base()),
            LogPlace::Address(url) => shown(url.as_str()),
        }
    }

    /// Reads from `offset` to the end, going on where a body breaks off.
    pub fn read_from(self: &Arc<Self>, offset: u64) -> LogReader {
        LogReader {
            log: Arc::clone(self),
            at: offset,
            end: self.size_bytes,
            ends_early: false,
            response: None,
            patience: Patience::new(),
        }
    }

    fn odd(&self, problem: &str) -> ClientError {
        let url = &self.fetch.lock().unwrap_or_else(PoisonError::into_inner).url;
        ClientError::Protocol { server: Origin::of(url).to_string(), problem: problem.to_owned() }
    }

    /// The answer for a range, first and last byte; finds the log again when its address has gone stale.
    fn get(&self, range: Option<(u64, u64)>) -> Result<Response> {
        let mut fetch = self.fetch.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut renewed = fetch.url == first_fetch(&self.place).url;
        let mut redirects = 0;
        loop {
            let mut call = Call::get(fetch.url.clone());
            call.anonymous = fetch.anonymous;
            call.redirects = true;
            if let Some((first, last)) = range {
                call = call.header(RANGE, &format!("bytes={first}-{last}"));
                if let Some(tag) = &self.e_tag {
                    call = call.header(IF_RANGE, tag);
                }
            }
            let response = match self.http.send(&call) {
                Ok(response) => response,
                Err(error) if is_stale(&error) && !renewed => {
                    renewed = true;
                    redirects = 0;
                    fetch = first_fetch(&self.place);
                    continue;
                }
                Err(error) => return Err(error),
            };
            if !response.status().is_redirection() {
                *self.fetch.lock().unwrap_or_else(PoisonError::into_inner) = fetch;
                return Ok(response);
            }
            let location = header(&response, &LOCATION).and_then(|text| fetch.url.join(text).ok());
            let Some(location) = location.filter(|url| matches!(url.scheme(), "http" | "https")) else {
                return Err(self.odd("it sends on to no address"));
            };
            redirects += 1;
            if redirects > REDIRECTS_MAX {
                return Err(self.odd("it sends on from address to address"));
            }
            // From here on nobody is told who asks.
            fetch = Fetch { url: location, anonymous: true };
        }
    }

    /// The bytes from `first` on, up to and with `last` or more.
    fn body_from(&self, first: u64, last: Option<u64>) -> Result<Response> {
        if !self.ranges || (first == 0 && last.is_none()) {
            let mut response = self.get(None)?;
            let skipped = io::copy(&mut (&mut response).take(first), &mut io::sink());
            return match skipped {
                Ok(n) if n == first => Ok(response),
                _ => Err(self.broken("the body ended before it came to where it broke off")),
            };
        }
        let last = last.or(self.size_bytes.map(|size| size.saturating_sub(1))).unwrap_or(u64::MAX);
        let response = self.get(Some((first, last)))?;
        if response.status() != StatusCode::PARTIAL_CONTENT {
            return Err(ClientError::Altered {
                what: self.shown(),
                problem: "it was replaced meanwhile".to_owned(),
            });
        }
        let start = header(&response, &CONTENT_RANGE)
            .and_then(|range| range.strip_prefix("bytes ")?.split_once('-')?.0.parse::<u64>().ok());
        if start != Some(first) {
            return Err(self.odd("it answers another range than it was asked for"));
        }
        Ok(response)
    }

    fn broken(&self, problem: &str) -> ClientError {
        let url = &self.fetch.lock().unwrap_or_else(PoisonError::into_inner).url;
        ClientError::Unreachable { server: Origin::of(url).to_string(), problem: problem.to_owned() }
    }
}

impl Source for RemoteLog {
    fn size_bytes(&self) -> u64 {
        self.size_bytes.unwrap_or_default()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let length = (buffer.len() as u64).min(self.size_bytes().saturating_sub(offset));
        let Ok(n) = usize::try_from(length) else { return Err(io::ErrorKind::InvalidInput.into()) };
        if n == 0 {
            return Ok(0);
        }
        let mut patience = Patience::new();
        loop {
            let mut response = self.body_from(offset, Some(offset + length - 1)).map_err(io::Error::other)?;
            match response.read_exact(&mut buffer[..n]) {
                Ok(()) => return Ok(n),
                Err(error) if !patience.wait(None) => {
                    return Err(io::Error::other(self.broken(&error.to_string())));
                }
                Err(_) => {}
            }
        }
    }

    fn stream(self: Arc<Self>, offset: u64, size_bytes: u64) -> io::Result<Box<dyn Read + Send>> {
        let end = offset.saturating_add(size_bytes).min(self.size_bytes());
        let ends_early = end < offset.saturating_add(size_bytes);
        let patience = Patience::new();
        Ok(Box::new(LogReader {
            log: self,
            at: offset,
            end: Some(end),
            ends_early,
            response: None,
            patience,
        }))
    }
}

/// Reads a log from somewhere to somewhere.
#[derive(Debug)]
pub struct LogReader {
    log: Arc<RemoteLog>,
    at: u64,
    /// Unknown: to the end of the body.
    end: Option<u64>,
    /// The log is shorter than was asked for.
    ends_early: bool,
    response: Option<Response>,
    patience: Patience,
}

impl Read for LogReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.end.map_or(u64::MAX, |end| end - self.at);
        let n = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        if n == 0 {
            let short = left == 0 && self.ends_early && !buffer.is_empty();
            return if short { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(0) };
        }
        loop {
            let response = match &mut self.response {
                Some(response) => response,
                None => {
                    let last = self.end.map(|end| end - 1);
                    let whole = last.is_some() && self.end == self.log.size_bytes && self.at == 0;
                    let opened = self.log.body_from(self.at, last.filter(|_| !whole));
                    self.response.insert(opened.map_err(io::Error::other)?)
                }
            };
            let problem = match response.read(&mut buffer[..n]) {
                Ok(0) if self.end.is_none() => return Ok(0),
                Ok(0) => "the body ended too early".to_owned(),
                Ok(n) => {
                    self.at += n as u64;
                    self.patience = Patience::new();
                    return Ok(n);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => error.to_string(),
            };
            self.response = None;
            tracing::debug!(at = self.at, problem, "a body broke off");
            if !self.patience.wait(None) {
                return Err(io::Error::other(self.log.broken(&problem)));
            }
        }
    }
}

/// What a signed address says when its time is over, or the server's key is another.
fn is_stale(error: &ClientError) -> bool {
    matches!(
        error,
        ClientError::Unauthorized { .. }
            | ClientError::TokenNeeded { .. }
            | ClientError::Forbidden { .. }
            | ClientError::NotFound { .. }
            | ClientError::Invalid { status: 400, .. }
    )
}

fn first_fetch(place: &LogPlace) -> Fetch {
    match place {
        LogPlace::Run(client, run) => {
            Fetch { url: client.url(&["runs", run.as_str(), "eval"]), anonymous: false }
        }
        LogPlace::Address(url) => Fetch { url: url.clone(), anonymous: true },
    }
}

fn origin_address(url: &Url) -> String {
    Origin::of(url).to_string()
}

/// The SHA-256 in a `Repr-Digest`: `sha-256=:<base64>:`.
fn digest(text: &str) -> Option<LogHash> {
    let value = text.split(',').find_map(|part| part.trim().strip_prefix("sha-256=:")?.strip_suffix(':'))?;
    let bytes: [u8; 32] = STANDARD.decode(value).ok()?.try_into().ok()?;
    Some(LogHash::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_read() {
        let text = "md5=:AAAA:, sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:";
        let expected = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(digest(text).unwrap().as_str(), expected);
        assert_eq!(digest("sha-256=:AAAA:"), None);
        assert_eq!(digest("sha-512=:47DE:"), None);
    }
}
