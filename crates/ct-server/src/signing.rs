//! Addresses that are good for one thing and a short time, without a token.
//!
//! What is signed: method, key, expiry, and for uploads the size and who asked. The key is the server's and outlives a restart.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use sha2::Sha256;

use crate::limits;

/// Signs and checks.
pub(crate) struct Signer {
    key: Vec<u8>,
}

/// The query of a signed address.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Signature {
    /// Seconds since the Unix epoch.
    expires: u64,
    /// Bytes of an upload.
    #[serde(default)]
    pub(crate) size: Option<u64>,
    /// The user who asked for the address of an upload.
    #[serde(default)]
    pub(crate) by: Option<String>,
    signature: String,
}

/// Why a signed address is no good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignatureError {
    /// It was good once.
    Expired,
    /// It never was.
    Wrong,
}

impl Signer {
    pub(crate) fn new(key: &[u8]) -> Self {
        Self { key: key.to_vec() }
    }

    /// The query that makes `method` on `key` good for a time.
    pub(crate) fn sign(
        &self,
        method: &str,
        key: &str,
        size: Option<u64>,
        by: Option<&str>,
        valid_for: Duration,
    ) -> String {
        let expires = now_seconds() + valid_for.as_secs();
        let mac = self.mac(method, key, size, by, expires);
        let signature = URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes());
        let size = size.map(|size| format!("&size={size}")).unwrap_or_default();
        let by =
            by.map(|by| format!("&by={}", utf8_percent_encode(by, NON_ALPHANUMERIC))).unwrap_or_default();
        format!("expires={expires}{size}{by}&signature={signature}")
    }

    /// Whether that query was made for this method and key, and is still good.
    pub(crate) fn check(&self, method: &str, key: &str, given: &Signature) -> Result<(), SignatureError> {
        let bytes = URL_SAFE_NO_PAD.decode(&given.signature).map_err(|_| SignatureError::Wrong)?;
        let mac = self.mac(method, key, given.size, given.by.as_deref(), given.expires);
        mac.verify_slice(&bytes).map_err(|_| SignatureError::Wrong)?;
        // One that is good for longer than any was made before the clock was set back.
        let now = now_seconds();
        let latest = now + limits::SIGNED_FOR.as_secs();
        if (now..=latest).contains(&given.expires) { Ok(()) } else { Err(SignatureError::Expired) }
    }

    /// Text that only this server can make of a text, and that does not change.
    pub(crate) fn proof(&self, of: &str) -> String {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.key).expect("any length is good for this kind of key");
        // No method of a signed address is like this.
        mac.update(format!("proof\n{of}").as_bytes());
        URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes())
    }

    fn mac(
        &self,
        method: &str,
        key: &str,
        size: Option<u64>,
        by: Option<&str>,
        expires: u64,
    ) -> Hmac<Sha256> {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.key).expect("any length is good for this kind of key");
        let size = size.map_or_else(|| "-".to_owned(), |size| size.to_string());
        // Lines cannot be moved from one to the next: a key with a line break is not a key.
        // The user's name comes last, and may hold anything.
        let by = by.map(|by| format!("\n{by}")).unwrap_or_default();
        mac.update(format!("{method}\n{key}\n{size}\n{expires}{by}").as_bytes());
        mac
    }
}

fn now_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(query: &str) -> Signature {
        let mut signature = Signature { expires: 0, size: None, by: None, signature: String::new() };
        for (name, value) in query.split('&').map(|pair| pair.split_once('=').unwrap()) {
            match name {
                "expires" => signature.expires = value.parse().unwrap(),
                "size" => signature.size = Some(value.parse().unwrap()),
                "by" => signature.by = Some(value.to_owned()),
                _ => signature.signature = value.to_owned(),
            }
        }
        signature
    }

    #[test]
    fn a_signature_is_good_for_what_it_was_made_for_only() {
        let signer = Signer::new(b"key");
        let minute = Duration::from_secs(60);
        let good = parse(&signer.sign("PUT", "a.eval", Some(7), Some("ann"), minute));
        assert_eq!(signer.check("PUT", "a.eval", &good), Ok(()));
        assert_eq!(signer.check("GET", "a.eval", &good), Err(SignatureError::Wrong));
        assert_eq!(signer.check("PUT", "b.eval", &good), Err(SignatureError::Wrong));
        assert_eq!(Signer::new(b"other").check("PUT", "a.eval", &good), Err(SignatureError::Wrong));
        let bigger = Signature { size: Some(8), ..good.clone() };
        assert_eq!(signer.check("PUT", "a.eval", &bigger), Err(SignatureError::Wrong));
        let other = Signature { by: Some("bob".to_owned()), ..good.clone() };
        assert_eq!(signer.check("PUT", "a.eval", &other), Err(SignatureError::Wrong));
        let nobody = Signature { by: None, ..good.clone() };
        assert_eq!(signer.check("PUT", "a.eval", &nobody), Err(SignatureError::Wrong));
        let longer = Signature { expires: good.expires + 1, ..good };
        assert_eq!(signer.check("PUT", "a.eval", &longer), Err(SignatureError::Wrong));
    }

    #[test]
    fn a_signature_ends() {
        let signer = Signer::new(b"key");
        let mut old = parse(&signer.sign("GET", "a", None, None, Duration::ZERO));
        old.expires -= 5;
        let bytes = signer.mac("GET", "a", None, None, old.expires).finalize().into_bytes();
        old.signature = URL_SAFE_NO_PAD.encode(bytes);
        assert_eq!(signer.check("GET", "a", &old), Err(SignatureError::Expired));
    }

    #[test]
    fn a_clock_that_is_set_back_makes_no_signature_last() {
        let signer = Signer::new(b"key");
        let hour = Duration::from_secs(3600);
        // Made an hour before the clock was set back by one.
        let old = parse(&signer.sign("GET", "a", None, None, limits::SIGNED_FOR + hour));
        assert_eq!(signer.check("GET", "a", &old), Err(SignatureError::Expired));
        let new = parse(&signer.sign("GET", "a", None, None, limits::SIGNED_FOR));
        assert_eq!(signer.check("GET", "a", &new), Ok(()));
    }
}
