//! Signatures of requests, version 4: in a header for our own, in the query for addresses that are handed out.

use std::fmt::Write as _;
use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest as _, Sha256};
use url::Url;

use crate::config::Credentials;

/// What needs no escape in a signature.
const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
const KEPT_IN_PATH: &AsciiSet = &KEPT.remove(b'/');
/// The body is not part of the signature; what arrives is checked by checksums instead.
pub(crate) const UNSIGNED: &str = "UNSIGNED-PAYLOAD";

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Reads.
    Get,
    /// Looks.
    Head,
    /// Adds.
    Put,
    /// Begins or ends an upload in parts.
    Post,
    /// Removes.
    Delete,
}

impl Method {
    /// As in a request.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Put => "PUT",
            Self::Post => "POST",
            Self::Delete => "DELETE",
        }
    }
}

/// An address that is good for one request, without any keys. It is a secret as long as it is good.
#[derive(Clone, PartialEq, Eq)]
pub struct Presigned {
    /// The address.
    pub url: Url,
    /// Headers that have to go along, as they are.
    pub headers: Vec<(String, String)>,
}

impl std::fmt::Debug for Presigned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Presigned({}…)", self.url.path())
    }
}

/// Escaped as in a path whose steps are told apart by slashes.
pub(crate) fn escape_path(path: &str) -> String {
    utf8_percent_encode(path, KEPT_IN_PATH).to_string()
}

fn escape(text: &str) -> String {
    utf8_percent_encode(text, KEPT).to_string()
}

/// A query in the order in which it is signed, escaped.
pub(crate) fn query(pairs: &[(&str, &str)]) -> String {
    let mut pairs: Vec<_> = pairs.iter().map(|(name, value)| (escape(name), escape(value))).collect();
    pairs.sort();
    let pairs: Vec<_> = pairs.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join("&")
}

/// Signs for a region.
pub(crate) struct Signer<'a> {
    pub(crate) credentials: &'a Credentials,
    pub(crate) region: &'a str,
    pub(crate) now: Timestamp,
}

impl Signer<'_> {
    fn day(&self) -> String {
        self.now.strftime("%Y%m%d").to_string()
    }

    fn time(&self) -> String {
        self.now.strftime("%Y%m%dT%H%M%SZ").to_string()
    }

    fn scope(&self) -> String {
        format!("{}/{}/s3/aws4_request", self.day(), self.region)
    }

    /// The headers that sign a request whose query is escaped and in order. Give all headers that shall be signed, in
    /// lower case, but `host`.
    pub(crate) fn headers(
        &self,
        method: Method,
        url: &Url,
        headers: &[(String, String)],
        body_hash: &str,
    ) -> Vec<(String, String)> {
        let mut all = headers.to_vec();
        all.push(("x-amz-content-sha256".to_owned(), body_hash.to_owned()));
        all.push(("x-amz-date".to_owned(), self.time()));
        if let Some(token) = &self.credentials.session_token {
            all.push(("x-amz-security-token".to_owned(), token.clone()));
        }
        let (names, signature) = self.sign(method, url, url.query().unwrap_or_default(), &all, body_hash);
        all.push((
            "authorization".to_owned(),
            format!(
                "AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={names}, Signature={signature}",
                self.credentials.access_key_id,
                self.scope()
            ),
        ));
        all
    }

    /// The address that is good for one request for a time.
    pub(crate) fn address(
        &self,
        method: Method,
        mut url: Url,
        pairs: &[(&str, &str)],
        headers: &[(String, String)],
        valid_for: Duration,
    ) -> Presigned {
        let mut names: Vec<&str> = headers.iter().map(|(name, _)| name.as_str()).chain(["host"]).collect();
        names.sort_unstable();
        let names = names.join(";");
        let credential = format!("{}/{}", self.credentials.access_key_id, self.scope());
        let (time, seconds) = (self.time(), valid_for.as_secs().to_string());
        let mut pairs = pairs.to_vec();
        pairs.extend([
            ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
            ("X-Amz-Credential", credential.as_str()),
            ("X-Amz-Date", time.as_str()),
            ("X-Amz-Expires", seconds.as_str()),
            ("X-Amz-SignedHeaders", names.as_str()),
        ]);
        if let Some(token) = &self.credentials.session_token {
            pairs.push(("X-Amz-Security-Token", token));
        }
        let query = query(&pairs);
        let (_, signature) = self.sign(method, &url, &query, headers, UNSIGNED);
        url.set_query(Some(&format!("{query}&X-Amz-Signature={signature}")));
        Presigned { url, headers: headers.to_vec() }
    }

    /// The names of the signed headers, and the signature.
    fn sign(
        &self,
        method: Method,
        url: &Url,
        query: &str,
        headers: &[(String, String)],
        body_hash: &str,
    ) -> (String, String) {
        let host = match (url.host_str().unwrap_or_default(), url.port()) {
            (host, Some(port)) => format!("{host}:{port}"),
            (host, None) => host.to_owned(),
        };
        let mut lines: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (n.as_str(), v.trim())).collect();
        lines.push(("host", &host));
        lines.sort_unstable();
        let names = lines.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
        let lines: String = lines.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        let request = format!("{}\n{}\n{query}\n{lines}\n{names}\n{body_hash}", method.as_str(), url.path());
        let text = format!(
            "AWS4-HMAC-SHA256\n{}\n{}\n{}",
            self.time(),
            self.scope(),
            hex(&Sha256::digest(request.as_bytes()))
        );
        let mut key = mac(format!("AWS4{}", self.credentials.secret_access_key).as_bytes(), &self.day());
        for step in [self.region, "s3", "aws4_request"] {
            key = mac(&key, step);
        }
        (names, hex(&mac(&key, &text)))
    }
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length is good for this kind of key");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example in the public description of these signatures.
    #[test]
    fn the_published_example() {
        let credentials = Credentials {
            access_key_id: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret_access_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
            session_token: None,
        };
        let now = "2013-05-24T00:00:00Z".parse().unwrap();
        let signer = Signer { credentials: &credentials, region: "us-east-1", now };
        let url: Url = "https://examplebucket.s3.amazonaws.com/test.txt".parse().unwrap();
        let signed = signer.address(Method::Get, url.clone(), &[], &[], Duration::from_secs(86400));
        let expected = "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";
        assert!(signed.url.as_str().ends_with(&format!("&X-Amz-Signature={expected}")), "{}", signed.url);
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let range = [("range".to_owned(), "bytes=0-9".to_owned())];
        let headers = signer.headers(Method::Get, &url, &range, empty);
        let expected = "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41";
        assert!(headers.last().unwrap().1.ends_with(expected));
    }

    #[test]
    fn secrets_are_not_printed() {
        let credentials = Credentials {
            access_key_id: "id".to_owned(),
            secret_access_key: "hush".to_owned(),
            session_token: Some("hush".to_owned()),
        };
        assert!(!format!("{credentials:?}").contains("hush"));
        let url = "http://h/b/k?X-Amz-Signature=hush".parse().unwrap();
        assert!(!format!("{:?}", Presigned { url, headers: Vec::new() }).contains("hush"));
    }
}
