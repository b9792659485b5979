//! `s3://bucket/prefix`.

use std::fmt;
use std::str::FromStr;

use crate::error::S3Error;

/// A bucket, and a key or the beginning of keys in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct S3Address {
    bucket: String,
    key: String,
}

impl S3Address {
    /// The bucket's name.
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// The key, or the beginning of keys; empty for the whole bucket.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The key as a folder: empty, or with a slash at the end.
    pub fn folder(&self) -> String {
        let key = self.key.trim_end_matches('/');
        if key.is_empty() { String::new() } else { format!("{key}/") }
    }

    /// Whether a text means one of these.
    pub fn is_one(text: &str) -> bool {
        text.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("s3://"))
    }

    /// Another key in the same bucket.
    pub fn with_key(&self, key: &str) -> Self {
        Self { bucket: self.bucket.clone(), key: key.to_owned() }
    }
}

impl FromStr for S3Address {
    type Err = S3Error;

    fn from_str(text: &str) -> Result<Self, S3Error> {
        let wrong =
            |problem: &str| S3Error::Address { address: text.to_owned(), problem: problem.to_owned() };
        if !Self::is_one(text) {
            return Err(wrong("it does not begin with s3://"));
        }
        let rest = text.get(5..).unwrap_or_default();
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if !(3..=63).contains(&bucket.len()) || !bucket.chars().all(good) || bucket.starts_with(['.', '-']) {
            return Err(wrong("a bucket's name is 3 to 63 of the characters a-z 0-9 . -"));
        }
        // Such keys exist, but every layer of the web takes them for other ones.
        if key.split('/').any(|step| matches!(step, "." | "..")) || key.starts_with('/') || key.contains("//")
        {
            return Err(wrong("its key has an empty step, or one of dots"));
        }
        if key.len() > 1024 || key.chars().any(char::is_control) {
            return Err(wrong("its key is longer than 1024 bytes, or has control characters"));
        }
        Ok(Self { bucket: bucket.to_owned(), key: key.to_owned() })
    }
}

impl fmt::Display for S3Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}", self.bucket)?;
        if self.key.is_empty() { Ok(()) } else { write!(f, "/{}", self.key) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart() {
        let whole: S3Address = "s3://logs".parse().unwrap();
        assert_eq!((whole.bucket(), whole.key(), whole.folder().as_str()), ("logs", "", ""));
        let some: S3Address = "S3://team-logs/a/b c.eval".parse().unwrap();
        assert_eq!((some.bucket(), some.key()), ("team-logs", "a/b c.eval"));
        assert_eq!(some.to_string(), "s3://team-logs/a/b c.eval");
        assert_eq!("s3://logs/a/".parse::<S3Address>().unwrap().folder(), "a/");
        for bad in ["logs", "s3:/logs", "s3://", "s3://ab", "s3://a b/c", "s3://logs/a/../b", "s3://logs//a"]
        {
            assert!(bad.parse::<S3Address>().is_err(), "{bad}");
        }
    }
}
