//! A client of the HTTP API: sign in, list, upload with resume, download with checks.
//!
//! It speaks the wire contract with any server, and what `ct` adds to it with a server that says it is one
//! ([`Client::kind`]). It blocks. It knows no environment, no terminal and no files but those it is given; the documents
//! are those of [`ct_model`].

mod accounts;
mod address;
mod datasets;
mod download;
mod error;
mod http;
mod pages;
mod register;
mod remote_log;
mod runs;
mod trajectories;
mod upload;

use std::sync::{Arc, OnceLock};

use serde::Deserialize;
use serde_json::Value;

pub use address::{BaseUrl, Origin};
pub use download::{Downloaded, download};
pub use error::{ClientError, Result};
pub use http::Token;
pub use register::Register;
pub use remote_log::{LogPlace, RemoteLog};
pub use runs::unanswered;
pub use upload::{LogFile, LogName, LogReader, Named, Stop, StoredObject};

use http::{Call, Http, accepts_json};

/// What a server can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerKind {
    /// Another `ct`: everything.
    Ct {
        /// What it says of itself.
        version: String,
    },
    /// The wire contract.
    Contract,
}

/// A server, and who asks. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Client(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    http: Http,
    base: BaseUrl,
    kind: OnceLock<ServerKind>,
}

impl Client {
    /// A client of the server at `base`. `token` goes to its origin alone.
    pub fn new(base: BaseUrl, token: Option<Token>) -> Result<Self> {
        let agent = concat!("ct/", env!("CARGO_PKG_VERSION"));
        let http = Http::new(base.origin(), token, agent)?;
        Ok(Self(Arc::new(Parts { http, base, kind: OnceLock::new() })))
    }

    /// The server's address.
    pub fn base(&self) -> &BaseUrl {
        &self.0.base
    }

    /// Whether a token is sent.
    pub fn has_token(&self) -> bool {
        self.0.http.token().is_some()
    }

    /// What the server can do; asked once.
    pub fn kind(&self) -> Result<&ServerKind> {
        if let Some(kind) = self.0.kind.get() {
            return Ok(kind);
        }
        #[derive(Deserialize)]
        struct Health {
            server: String,
            #[serde(default)]
            version: String,
        }
        // Health needs no token, so none is shown to a server that may not be one.
        let call = accepts_json(Call::get(self.url(&["health"])).anonymous());
        let kind = match self.0.http.json::<Value>(&call) {
            Ok(value) => match serde_json::from_value::<Health>(value) {
                Ok(health) if health.server == "ct" => ServerKind::Ct { version: health.version },
                _ => ServerKind::Contract,
            },
            // Any other answer comes from a server all the same.
            Err(
                ClientError::NotFound { .. }
                | ClientError::Unauthorized { .. }
                | ClientError::TokenNeeded { .. }
                | ClientError::Forbidden { .. }
                | ClientError::Invalid { .. }
                | ClientError::Server { .. }
                | ClientError::Redirected { .. }
                | ClientError::Protocol { .. }
                | ClientError::TooLong { .. },
            ) => ServerKind::Contract,
            Err(error) => return Err(error),
        };
        Ok(self.0.kind.get_or_init(|| kind))
    }

    /// Whether the server is a `ct`.
    pub fn is_ct(&self) -> Result<bool> {
        Ok(matches!(self.kind()?, ServerKind::Ct { .. }))
    }

    /// Fails when only a `ct` can do this.
    fn needs_ct(&self, what: &str) -> Result<()> {
        if self.is_ct()? {
            return Ok(());
        }
        Err(ClientError::Unsupported { server: self.server(), what: what.to_owned() })
    }

    /// The server's name in messages.
    fn server(&self) -> String {
        self.0.base.origin().to_string()
    }

    fn http(&self) -> &Http {
        &self.0.http
    }

    /// An address below `/api`.
    fn url(&self, parts: &[&str]) -> url::Url {
        let mut all = vec!["api"];
        all.extend(parts);
        self.0.base.join(&all)
    }
}
