//! Addresses that are good for one thing and a short time, without a token.
//!
//! What is signed: method, key, expiry, and for uploads the size and who asked. The key is the server's and outlives a restart.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::Timestamp;
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

    /// The query that makes `method` on `key` good until then, in seconds since the Unix epoch.
    pub(crate) fn sign(
        &self,
        method: &str,
        key: &str,
        size: Option<u64>,
        by: Option<&str>,
        expires: u64,
    ) -> String {
        let mac = self.mac(method, key, size, by, expires);
        let signature = URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes());
        let size = size.map(|size| format!("&size={size}")).unwrap_or_default();
        let by =
            by.map(|by| format!("&by={}", utf8_percent_encode(by, NON_ALPHANUMERIC))).unwrap_or_default();
        format!("expires={expires}{size}{by}&signature={signature}")
    }

    /// Whether that query was made for this method and key, and is still good.
    pub(crate) fn check(
        &self,
        method: &str,
        key: &str,
        given: &Signature,
        now: Timestamp,
    ) -> Result<(), SignatureError> {
        let bytes = URL_SAFE_NO_PAD.decode(&given.signature).map_err(|_| SignatureError::Wrong)?;
        let mac = self.mac(method, key, given.size, given.by.as_deref(), given.expires);
        mac.verify_slice(&bytes).map_err(|_| SignatureError::Wrong)?;
        // One that is good for longer than any was made before the clock was set back.
        let now = seconds(now);
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

/// Seconds since the Unix epoch.
pub(crate) fn seconds(time: Timestamp) -> u64 {
    u64::try_from(time.as_second()).unwrap_or(0)
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

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_signature_is_good_for_what_it_was_made_for_only() {
        let signer = Signer::new(b"key");
        let good = parse(&signer.sign("PUT", "a.eval", Some(7), Some("ann"), 60));
        let check = |signer: &Signer, method, key, given: &Signature| signer.check(method, key, given, at(0));
        assert_eq!(check(&signer, "PUT", "a.eval", &good), Ok(()));
        let wrong = Err(SignatureError::Wrong);
        assert_eq!(check(&signer, "GET", "a.eval", &good), wrong);
        assert_eq!(check(&signer, "PUT", "b.eval", &good), wrong);
        assert_eq!(check(&Signer::new(b"other"), "PUT", "a.eval", &good), wrong);
        for other in [
            Signature { size: Some(8), ..good.clone() },
            Signature { by: Some("bob".to_owned()), ..good.clone() },
            Signature { by: None, ..good.clone() },
            Signature { expires: good.expires + 1, ..good.clone() },
        ] {
            assert_eq!(check(&signer, "PUT", "a.eval", &other), wrong, "{other:?}");
        }
    }

    #[test]
    fn a_signature_ends_and_no_clock_makes_it_last() {
        let signer = Signer::new(b"key");
        let good = parse(&signer.sign("GET", "a", None, None, 100_000));
        let first = 100_000 - i64::try_from(limits::SIGNED_FOR.as_secs()).unwrap();
        let is_good = |second: i64| signer.check("GET", "a", &good, at(second));
        for second in [first, 99_999, 100_000] {
            assert_eq!(is_good(second), Ok(()), "{second}");
        }
        // Before it can have been made the clock was ahead.
        for second in [i64::from(i32::MIN), 0, first - 1, 100_001, 1 << 36] {
            assert_eq!(is_good(second), Err(SignatureError::Expired), "{second}");
        }
    }
}
