//! One request at a time: the token's way, retries, and what an answer means.
//!
//! The client underneath has no default headers and follows no redirect, so a token is on a request only where this file
//! puts it: on requests to the origin of the base address.

use std::collections::hash_map::RandomState;
use std::error::Error as _;
use std::hash::BuildHasher as _;
use std::io::{self, Read};
use std::time::{Duration, Instant};

use bytes::Bytes;
use jiff::Timestamp;
use reqwest::blocking::{Body, Client as Inner, Response};
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER,
};
use reqwest::{Method, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::Url;

use crate::address::shown;
use crate::{ClientError, Origin, Result};

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a small answer may take, and a pause within a large one.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a server may take to check a whole log, or to register documents.
pub(crate) const CHECK_TIMEOUT: Duration = Duration::from_secs(900);
/// How often a request is tried.
pub(crate) const ATTEMPTS_MAX: u32 = 6;
/// The first pause between attempts; it doubles.
const PAUSE_FIRST: Duration = Duration::from_millis(200);
/// The longest pause of our own choice.
const PAUSE_MAX: Duration = Duration::from_secs(8);
/// The longest pause that a server may ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);
/// How long all attempts of one request may pause together.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a server may go on saying that it is busy with the very thing that is asked for, and when to ask again.
const BUSY_PATIENCE: Duration = Duration::from_secs(15 * 60);
/// Bytes of an answer that tells a few things.
const SHORT_BYTES_MAX: u64 = 1 << 20;
/// Bytes of an answer with a page of a list, or with something that users make as long as they like.
const LONG_BYTES_MAX: u64 = 32 << 20;
/// Bytes of an error's body that are looked at.
const ERROR_BYTES_MAX: u64 = 64 << 10;
/// Characters of a server's message that are shown.
const MESSAGE_CHARS_MAX: usize = 500;

/// A bearer token. Nothing prints it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Wraps a token; an odd one could not stand in a header.
    pub fn new(text: impl Into<String>) -> Option<Self> {
        let text = text.into().trim().to_owned();
        let good = !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
        good.then_some(Self(text))
    }

    /// The secret itself.
    pub fn secret(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Sends requests.
#[derive(Debug, Clone)]
pub(crate) struct Http {
    inner: Inner,
    /// The only origin that sees the token.
    home: Origin,
    token: Option<Token>,
}

/// Whether doing it twice is doing it once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// It is.
    Safe,
    /// Only when the first was certainly not done.
    Unsafe,
}

/// A request that can be sent again.
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<Bytes>,
    pub(crate) repeat: Repeat,
    /// For the answer's beginning, and for every pause within it.
    pub(crate) timeout: Option<Duration>,
    /// Never with a token, wherever it goes.
    pub(crate) anonymous: bool,
    /// Redirects are answers.
    pub(crate) redirects: bool,
    /// The most bytes of an answer that is held.
    answer_bytes_max: u64,
    /// Tried once, whatever comes of it.
    pub(crate) once: bool,
    /// For how long a server that is busy, and says when to ask again, is asked again.
    pub(crate) busy_for: Option<Duration>,
}

impl Call {
    pub(crate) fn new(method: Method, url: Url) -> Self {
        let safe = method != Method::POST;
        Self {
            method,
            url,
            headers: HeaderMap::new(),
            body: None,
            repeat: if safe { Repeat::Safe } else { Repeat::Unsafe },
            timeout: Some(ANSWER_TIMEOUT),
            anonymous: false,
            redirects: false,
            answer_bytes_max: SHORT_BYTES_MAX,
            once: false,
            busy_for: None,
        }
    }

    pub(crate) fn get(url: Url) -> Self {
        Self::new(Method::GET, url)
    }

    pub(crate) fn json(mut self, body: &Value) -> Self {
        self.body = Some(body.to_string().into());
        self.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self
    }

    pub(crate) fn header(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
        self
    }

    pub(crate) fn bytes(mut self, content_type: &'static str, body: Bytes) -> Self {
        self.body = Some(body);
        self.headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        self
    }

    pub(crate) fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// A request that may be sent again although its method does not say so.
    pub(crate) fn repeatable(mut self) -> Self {
        self.repeat = Repeat::Safe;
        self
    }

    /// Waits for a server that is busy as long as that is likely to lead anywhere.
    pub(crate) fn through_busy(mut self) -> Self {
        self.busy_for = Some(BUSY_PATIENCE);
        self
    }

    /// The answer may be long.
    pub(crate) fn long(mut self) -> Self {
        self.answer_bytes_max = LONG_BYTES_MAX;
        self
    }

    pub(crate) fn anonymous(mut self) -> Self {
        self.anonymous = true;
        self
    }
}

/// An attempt that failed, and whether another may help.
pub(crate) struct Failed {
    pub(crate) error: ClientError,
    again: bool,
    pause: Option<Duration>,
}

impl Failed {
    pub(crate) fn for_good(error: ClientError) -> Self {
        Self { error, again: false, pause: None }
    }

    pub(crate) fn for_now(error: ClientError) -> Self {
        Self { error, again: true, pause: None }
    }
}

/// Pauses between attempts, with an end.
#[derive(Debug)]
pub(crate) struct Patience {
    attempt: u32,
    until: Instant,
    /// Until when a busy server is waited for.
    busy_until: Instant,
}

impl Patience {
    pub(crate) fn new() -> Self {
        Self::through_busy(Duration::ZERO)
    }

    /// As [`Self::new`], and longer for a server that says how long it is busy.
    fn through_busy(busy_for: Duration) -> Self {
        let now = Instant::now();
        Self { attempt: 0, until: now + PATIENCE, busy_until: now + busy_for }
    }

    /// Waits as long as a busy server asks for. False: it has been too long altogether.
    fn wait_for_busy(&self, asked: Duration) -> bool {
        let pause = asked.clamp(PAUSE_FIRST, RETRY_AFTER_MAX);
        if Instant::now() + pause > self.busy_until {
            return false;
        }
        tracing::debug!(pause_ms = pause.as_millis(), "the server is busy: trying again");
        std::thread::sleep(pause);
        true
    }

    /// Waits before another attempt, as long as asked or a random time that grows. False: it has been tried enough.
    pub(crate) fn wait(&mut self, asked: Option<Duration>) -> bool {
        self.attempt += 1;
        if self.attempt >= ATTEMPTS_MAX {
            return false;
        }
        let longest = (PAUSE_FIRST * 2u32.pow(self.attempt - 1)).min(PAUSE_MAX);
        // Half of it for certain, half at random, so that many clients do not come back at once.
        let share = RandomState::new().hash_one(self.attempt) % 1000;
        let own = longest / 2 + longest / 2 * u32::try_from(share).unwrap_or_default() / 1000;
        let pause = asked.map_or(own, |asked| asked.min(RETRY_AFTER_MAX).max(own));
        if Instant::now() + pause > self.until {
            return false;
        }
        tracing::debug!(attempt = self.attempt, pause_ms = pause.as_millis(), "trying again");
        std::thread::sleep(pause);
        true
    }
}

impl Http {
    pub(crate) fn new(home: Origin, token: Option<Token>, user_agent: &str) -> Result<Self> {
        // Whoever came first has chosen the same one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = || {
            Inner::builder()
                .user_agent(user_agent)
                .redirect(reqwest::redirect::Policy::none())
                // Lengths and hashes are of the bytes as they come.
                .no_gzip()
                .connect_timeout(CONNECT_TIMEOUT)
                .timeout(None)
                .tcp_nodelay(true)
                .tcp_keepalive(Duration::from_secs(30))
                .referer(false)
        };
        // A machine without any certificates can still talk to servers that need none.
        let inner = builder()
            .build()
            .or_else(|error| builder().tls_certs_only([]).build().map_err(|_| error))
            .map_err(|error| ClientError::Tls { server: home.to_string(), problem: chain(&error) })?;
        Ok(Self { inner, home, token })
    }

    pub(crate) fn token(&self) -> Option<&Token> {
        self.token.as_ref()
    }

    fn send_once(&self, call: &Call) -> std::result::Result<Response, Failed> {
        let mut request =
            self.inner.request(call.method.clone(), call.url.clone()).headers(call.headers.clone());
        if let Some(timeout) = call.timeout {
            request = request.timeout(timeout);
        }
        if let Some(body) = &call.body {
            request = request.body(body.clone());
        }
        let mine = !call.anonymous && Origin::of(&call.url) == self.home;
        let sent_token = self.token.as_ref().filter(|_| mine);
        if let Some(token) = sent_token {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", token.secret())).map_err(|_| {
                Failed::for_good(ClientError::Address {
                    url: shown(call.url.as_str()),
                    problem: "the token holds characters that no token has".to_owned(),
                })
            })?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        let started = Instant::now();
        let response = request.send().map_err(|error| self.trouble(call, &error))?;
        tracing::debug!(
            method = %call.method, url = shown(call.url.as_str()), status = response.status().as_u16(),
            took_ms = started.elapsed().as_millis(), "asked"
        );
        let status = response.status();
        if status.is_success() || (call.redirects && status.is_redirection()) {
            return Ok(response);
        }
        Err(refused(call, response, sent_token.is_some()))
    }

    /// Sends it, again where that is safe and may help, and reads the answer. An answer that breaks off counts as none.
    pub(crate) fn read<T>(
        &self,
        call: &Call,
        read: impl Fn(Response) -> std::result::Result<T, Failed>,
    ) -> Result<T> {
        let mut patience = Patience::through_busy(call.busy_for.unwrap_or_default());
        loop {
            let failed = match self.send_once(call).and_then(&read) {
                Ok(value) => return Ok(value),
                Err(failed) => failed,
            };
            if let (ClientError::Busy { status: 503, .. }, Some(asked)) = (&failed.error, failed.pause)
                && patience.wait_for_busy(asked)
            {
                continue;
            }
            if call.once || !failed.again || !patience.wait(failed.pause) {
                return Err(failed.error);
            }
        }
    }

    pub(crate) fn send(&self, call: &Call) -> Result<Response> {
        self.read(call, Ok)
    }

    pub(crate) fn json<T: DeserializeOwned>(&self, call: &Call) -> Result<T> {
        self.read(call, |response| {
            let server = Origin::of(response.url()).to_string();
            let bytes = body(response, call.answer_bytes_max, &server).map_err(|error| match error {
                ClientError::TooLong { .. } => Failed::for_good(error),
                error => self.by_repeat(call, error),
            })?;
            serde_json::from_slice(&bytes).map_err(|error| {
                let wrong =
                    ClientError::Protocol { server: server.clone(), problem: odd_answer(&bytes, &error) };
                if error.is_eof() && !bytes.is_empty() {
                    self.by_repeat(call, wrong)
                } else {
                    Failed::for_good(wrong)
                }
            })
        })
    }

    /// Sends it and has no use for the answer.
    pub(crate) fn done(&self, call: &Call) -> Result<()> {
        self.read(call, |response| {
            let server = Origin::of(response.url()).to_string();
            // Read to its end, so that the connection can be used again.
            let _ = body(response, ERROR_BYTES_MAX, &server);
            Ok(())
        })
    }

    /// Sends a body that can be read once only. Nothing is retried.
    pub(crate) fn send_body(
        &self,
        call: &Call,
        body: impl Read + Send + 'static,
        size_bytes: u64,
    ) -> Result<Response> {
        let mut request =
            self.inner.request(call.method.clone(), call.url.clone()).headers(call.headers.clone());
        if let Some(timeout) = call.timeout {
            request = request.timeout(timeout);
        }
        let response = request
            .body(Body::sized(body, size_bytes))
            .send()
            .map_err(|error| self.trouble(call, &error).error)?;
        if response.status().is_success() { Ok(response) } else { Err(refused(call, response, false).error) }
    }

    #[expect(clippy::unused_self, reason = "part of sending")]
    fn by_repeat(&self, call: &Call, error: ClientError) -> Failed {
        match call.repeat {
            Repeat::Safe => Failed::for_now(error),
            Repeat::Unsafe => Failed::for_good(error),
        }
    }

    /// No answer at all.
    fn trouble(&self, call: &Call, error: &reqwest::Error) -> Failed {
        let server = Origin::of(&call.url).to_string();
        let problem = chain(error);
        let lower = problem.to_ascii_lowercase();
        let tls = call.url.scheme() == "https"
            && ["certificate", "tls", "handshake", "invalidcontenttype", "unknownissuer"]
                .iter()
                .any(|word| lower.contains(word));
        if tls {
            return Failed::for_good(ClientError::Tls { server, problem });
        }
        let (connect, timeout) = (error.is_connect(), error.is_timeout());
        let error = if timeout {
            ClientError::Timeout { server }
        } else {
            ClientError::Unreachable { server, problem }
        };
        match (connect, timeout) {
            // The system has knocked several times already.
            (true, true) => Failed::for_good(error),
            // What never got a connection was not done.
            (true, false) => Failed::for_now(error),
            (false, _) => self.by_repeat(call, error),
        }
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
    if texts.is_empty() { "the request could not be made".to_owned() } else { texts.join(": ") }
}

/// Reads a body whole, up to a size.
pub(crate) fn body(response: Response, bytes_max: u64, server: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match response.take(bytes_max + 1).read_to_end(&mut bytes) {
        Ok(_) if bytes.len() as u64 > bytes_max => {
            Err(ClientError::TooLong { server: server.to_owned(), bytes_max })
        }
        Ok(_) => Ok(bytes),
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            Err(ClientError::Timeout { server: server.to_owned() })
        }
        Err(error) => Err(ClientError::Unreachable {
            server: server.to_owned(),
            problem: format!("the answer broke off: {error}"),
        }),
    }
}

/// What to say of an answer that is not the JSON it should be.
fn odd_answer(bytes: &[u8], error: &serde_json::Error) -> String {
    let start = bytes.trim_ascii_start();
    if start.starts_with(b"<") {
        "it answered with a page of HTML".to_owned()
    } else if start.is_empty() {
        "its answer is empty".to_owned()
    } else {
        format!("its answer is not as expected ({error})")
    }
}

/// What a status that is no success means.
fn refused(call: &Call, response: Response, sent_token: bool) -> Failed {
    let server = Origin::of(&call.url).to_string();
    let status = response.status();
    let pause = response.headers().get(RETRY_AFTER).and_then(|value| retry_after(value.to_str().ok()?));
    let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let bytes = body(response, ERROR_BYTES_MAX, &server).unwrap_or_default();
    let envelope: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let message = match envelope.get("error") {
        Some(Value::String(text)) => Some(text.as_str()),
        Some(Value::Object(object)) => object.get("message").and_then(Value::as_str),
        _ => status.canonical_reason(),
    };
    let message: String = message.unwrap_or("no reason given").chars().take(MESSAGE_CHARS_MAX).collect();
    let code = status.as_u16();
    let error = match status {
        StatusCode::UNAUTHORIZED if !sent_token && !call.anonymous => ClientError::TokenNeeded { server },
        StatusCode::UNAUTHORIZED => ClientError::Unauthorized { server, message },
        StatusCode::FORBIDDEN => ClientError::Forbidden { server, message },
        StatusCode::NOT_FOUND | StatusCode::GONE => ClientError::NotFound { server, message },
        StatusCode::CONFLICT | StatusCode::PRECONDITION_FAILED => {
            let listed = envelope.get("candidates").and_then(Value::as_array);
            let texts = listed.into_iter().flatten().filter_map(Value::as_str);
            let deleted_run = envelope.get("deleted_run").and_then(Value::as_str).map(str::to_owned);
            let candidates = texts.map(str::to_owned).collect();
            ClientError::Conflict { server, message, candidates, deleted_run }
        }
        StatusCode::PAYLOAD_TOO_LARGE => ClientError::TooLarge { server, message },
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => ClientError::Busy { server, status: code, message },
        _ if status.is_redirection() => {
            let location = location.unwrap_or_default();
            let location = call.url.join(&location).map_or(location, |url| url.to_string());
            ClientError::Redirected { server, location: shown(&location) }
        }
        _ if status.is_server_error() => ClientError::Server { server, status: code, message },
        _ => ClientError::Invalid { server, status: code, message },
    };
    let again = match status {
        // Said before anything was done.
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => true,
        StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT => call.repeat == Repeat::Safe,
        _ => false,
    };
    Failed { error, again, pause }
}

/// `Retry-After`: seconds, or a date.
fn retry_after(text: &str) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let at = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    Some(Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default())
}

/// Headers that say what an answer is.
pub(crate) fn header<'r>(response: &'r Response, name: &HeaderName) -> Option<&'r str> {
    response.headers().get(name)?.to_str().ok()
}

/// The client takes JSON.
pub(crate) fn accepts_json(call: Call) -> Call {
    call.header(ACCEPT, "application/json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_never_printed() {
        let token = Token::new(" s3cret \n").unwrap();
        assert_eq!(token.secret(), "s3cret");
        assert_eq!(format!("{token:?}"), "Token(…)");
        assert_eq!(Token::new("two words"), None);
        assert_eq!(Token::new(""), None);
    }

    #[test]
    fn a_busy_server_is_waited_for_with_an_end() {
        let asked = Duration::ZERO;
        assert!(!Patience::new().wait_for_busy(asked));
        let patience = Patience::through_busy(PAUSE_FIRST * 3);
        assert!(patience.wait_for_busy(asked));
        assert!(!patience.wait_for_busy(PAUSE_FIRST * 3));
    }

    #[test]
    fn waiting_times_of_servers_are_read() {
        assert_eq!(retry_after("7"), Some(Duration::from_secs(7)));
        assert_eq!(retry_after("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        assert_eq!(retry_after("soon"), None);
    }
}
