//! Addresses that the server tells: of itself, of logs, and signed ones.

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::HOST;
use axum::http::request::Parts;
use ct_model::ObjectKey;

use crate::app::App;
use crate::error::ApiError;
use crate::limits;
use crate::signing::seconds;

/// The address by which the caller reaches the server, without a `/` at the end.
///
/// It is what the server was told at its start, else the `Host` header of the request. Of what proxies add only
/// `X-Forwarded-Proto: https` is believed: who forges it misleads nobody but themselves.
#[derive(Debug, Clone)]
pub(crate) struct BaseUrl(String);

impl FromRequestParts<App> for BaseUrl {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        if let Some(url) = &app.config.public_url {
            return Ok(Self(url.trim_end_matches('/').to_owned()));
        }
        let host = parts.headers.get(HOST).and_then(|host| host.to_str().ok());
        let host = host.filter(|host| is_host(host)).ok_or_else(|| {
            ApiError::invalid(
                "the request has no usable Host header, and the server was told no public address",
            )
        })?;
        let scheme = if is_secure(app, &parts.headers) { "https" } else { "http" };
        Ok(Self(format!("{scheme}://{host}")))
    }
}

impl BaseUrl {
    /// The address.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether the caller reaches the server over TLS.
pub(crate) fn is_secure(app: &App, headers: &HeaderMap) -> bool {
    match &app.config.public_url {
        Some(url) => url.starts_with("https:"),
        None => headers.get("x-forwarded-proto").is_some_and(|proto| proto == "https"),
    }
}

/// Whether it is a host and perhaps a port, and nothing that an address would read as more.
fn is_host(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':' | b'[' | b']');
    !text.is_empty() && text.len() <= 255 && text.bytes().all(inner)
}

impl App {
    /// A short-lived address of a log, that needs no token.
    pub(crate) fn signed_get(&self, base: &BaseUrl, key: &ObjectKey) -> String {
        let key = key.to_string();
        let query = self.signer.sign("GET", &key, None, None, self.address_expiry());
        format!("{}/objects/{}/{key}?{query}", base.0, self.config.bucket)
    }

    /// A short-lived address to which a log of that size can be put once, without a token.
    pub(crate) fn signed_put(&self, base: &BaseUrl, key: &ObjectKey, size_bytes: u64, user: &str) -> String {
        let key = key.to_string();
        let query = self.signer.sign("PUT", &key, Some(size_bytes), Some(user), self.address_expiry());
        format!("{}/objects/{}/{key}?{query}", base.0, self.config.bucket)
    }

    /// When an address ends that is signed now.
    fn address_expiry(&self) -> u64 {
        seconds(self.store.now()) + limits::SIGNED_FOR.as_secs()
    }

    /// The lasting name of a log: `s3://<bucket>/<key>`.
    pub(crate) fn log_url(&self, key: &ObjectKey) -> String {
        format!("s3://{}/{key}", self.config.bucket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_hosts() {
        for good in ["a.example", "127.0.0.1:3000", "[::1]:3000", "my_host"] {
            assert!(is_host(good), "{good}");
        }
        for bad in ["", "a/b", "a@b", "a?b", "a#b", "a b", "a\\b", "é"] {
            assert!(!is_host(bad), "{bad}");
        }
    }
}
