//! Names of uploaded logs.

use std::fmt;
use std::str::FromStr;

use crate::{LogFormat, RunId};

/// Names an uploaded log: `<run id>.eval` or `<run id>.json`, nothing else. Safe in a path and in an address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// The run that the log is, or will be, of.
    pub run: RunId,
    /// The form of the log.
    pub format: LogFormat,
}

/// Why a text is not an [`ObjectKey`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a name of a log: {text:?} (expected `<run id>.eval` or `<run id>.json`)")]
pub struct ObjectKeyError {
    /// What was given, shortened.
    pub text: String,
}

impl ObjectKey {
    /// The log of a run.
    pub fn new(run: RunId, format: LogFormat) -> Self {
        Self { run, format }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.run, self.format.as_str())
    }
}

impl FromStr for ObjectKey {
    type Err = ObjectKeyError;

    fn from_str(text: &str) -> Result<Self, ObjectKeyError> {
        let parse = || {
            let (run, ending) = text.rsplit_once('.')?;
            let format = match ending {
                "eval" => LogFormat::Eval,
                "json" => LogFormat::Json,
                _ => return None,
            };
            Some(Self { run: run.parse().ok()?, format })
        };
        parse().ok_or_else(|| ObjectKeyError { text: text.chars().take(160).collect() })
    }
}

/// The address of a sample in a log: that of the log, and the sample's id, escaped but for `:`.
pub fn sample_url(log_url: &str, sample_id: &str) -> String {
    let mut url = format!("{log_url}/samples/sample/");
    for byte in sample_id.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~:".contains(&byte) {
            url.push(char::from(byte));
        } else {
            url.push_str(&format!("%{byte:02X}"));
        }
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_samples_are_escaped_in_addresses() {
        assert_eq!(
            sample_url("s3://b/r.eval", "a:1/ü x+~"),
            "s3://b/r.eval/samples/sample/a:1%2F%C3%BC%20x%2B~"
        );
    }

    #[test]
    fn a_key_is_an_id_and_an_ending() {
        for good in ["a.eval", "a.json", "0f3a-1.eval", "a.b.eval", "x.eval.json"] {
            assert_eq!(good.parse::<ObjectKey>().unwrap().to_string(), good);
        }
        for bad in
            ["", "a", ".eval", "a.zip", "a.EVAL", "../a.eval", "a/b.eval", "a\\b.eval", "a..eval", "a\n.eval"]
        {
            assert!(bad.parse::<ObjectKey>().is_err(), "{bad:?}");
        }
        assert!(format!("{}.eval", "a".repeat(129)).parse::<ObjectKey>().is_err());
    }
}
