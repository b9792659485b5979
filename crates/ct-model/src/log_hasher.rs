//! SHA-256 of logs as they come by.

use ring::digest::{Context, SHA256};

use crate::LogHash;

/// Hashes a log piece by piece. Logs are large, so this is the fastest implementation at hand.
#[derive(Clone)]
pub struct LogHasher(Context);

impl LogHasher {
    /// Of nothing yet.
    pub fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    /// Of these bytes.
    pub fn hash(bytes: &[u8]) -> LogHash {
        let mut hasher = Self::new();
        hasher.update(bytes);
        hasher.finish()
    }

    /// Adds what comes next.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The hash of all that was added.
    pub fn finish(self) -> LogHash {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(self.0.finish().as_ref());
        LogHash::from_bytes(bytes)
    }
}

impl Default for LogHasher {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for LogHasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LogHasher(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_sha_256() {
        // As FIPS 180 says.
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(LogHasher::hash(b"abc").as_str(), expected);
        let mut hasher = LogHasher::new();
        hasher.update(b"a");
        let so_far = hasher.clone();
        hasher.update(b"bc");
        assert_eq!(hasher.finish().as_str(), expected);
        assert_eq!(so_far.finish(), LogHasher::hash(b"a"));
    }
}
