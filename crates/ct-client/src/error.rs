//! What can go wrong between here and a server.

use std::io;

/// Why a request did not give what it should. `server` is where it went, `message` what the server said about it.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are told above, and by the sentences")]
pub enum ClientError {
    /// Not an address of a server.
    #[error("{url:?} is no address of a server: {problem}")]
    Address { url: String, problem: String },
    /// 401: no token, or one that is not valid there.
    #[error("{server} does not let this token in: {message}")]
    Unauthorized { server: String, message: String },
    /// 401 without a token sent.
    #[error("{server} asks for a token")]
    TokenNeeded { server: String },
    /// 403: the token does not go so far.
    #[error("{server} does not allow this: {message}")]
    Forbidden { server: String, message: String },
    /// 404 or 410.
    #[error("{message} (at {server})")]
    NotFound { server: String, message: String },
    /// 409 or 412: something different is there.
    #[error("{message} (at {server})")]
    Conflict { server: String, message: String, candidates: Vec<String>, deleted_run: Option<String> },
    /// 413: the server, or a proxy before it, takes no body of that size.
    #[error("{server} takes no body of this size: {message}")]
    TooLarge { server: String, message: String },
    /// 400 and other refusals.
    #[error("{server} refuses the request ({status}): {message}")]
    Invalid { server: String, status: u16, message: String },
    /// 429, 502, 503, 504 until patience ended.
    #[error("{server} is busy ({status}): {message}")]
    Busy { server: String, status: u16, message: String },
    /// 5xx.
    #[error("{server} failed ({status}): {message}")]
    Server { server: String, status: u16, message: String },
    /// No connection, or it broke.
    #[error("{server} cannot be reached: {problem}")]
    Unreachable { server: String, problem: String },
    /// The connection cannot be trusted.
    #[error("no trusted connection to {server}: {problem}")]
    Tls { server: String, problem: String },
    /// No answer in time.
    #[error("{server} does not answer in time")]
    Timeout { server: String },
    /// The answer is not one of this protocol.
    #[error("{server} does not speak this protocol: {problem}")]
    Protocol { server: String, problem: String },
    /// The answer is longer than such an answer is.
    #[error("{server} answers with more than the {bytes_max} bytes that are taken here")]
    TooLong { server: String, bytes_max: u64 },
    /// The server wants to be asked elsewhere; a token does not go along.
    #[error("{server} sends requests on to {location}")]
    Redirected { server: String, location: String },
    /// The server lacks a feature of `ct`'s own.
    #[error("{server} cannot {what}: it knows only the common part of the protocol")]
    Unsupported { server: String, what: String },
    /// What arrived is not what was sent.
    #[error("{what} arrived altered: {problem}")]
    Altered { what: String, problem: String },
    /// The file that is sent changes meanwhile.
    #[error("{path} changed while it was sent")]
    SourceChanged { path: String },
    /// A local file.
    #[error("failed to {doing}")]
    Io { doing: String, source: io::Error },
}

impl ClientError {
    /// Whether it is about something not being there.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, ClientError>;
