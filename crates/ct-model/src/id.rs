//! Identifiers that are safe to put into a path, a URL and a terminal, by construction.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The longest id accepted, in bytes.
const ID_BYTES_MAX: usize = 128;

/// Why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an id: {text:?} (letters, digits, `-`, `_` and inner `.`, at most {ID_BYTES_MAX} characters)")]
pub struct IdError {
    /// What was given, shortened.
    pub text: String,
}

fn check(text: &str) -> Result<(), IdError> {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let ok = !text.is_empty()
        && text.len() <= ID_BYTES_MAX
        && text.bytes().all(inner)
        && !text.starts_with(['.', '-'])
        && !text.ends_with('.');
    if ok { Ok(()) } else { Err(IdError { text: text.chars().take(ID_BYTES_MAX).collect() }) }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Checks and wraps an id.
            pub fn new(text: impl Into<String>) -> Result<Self, IdError> {
                let text = text.into();
                check(&text)?;
                Ok(Self(text))
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }
    };
}

id! {
    /// Names a run. Runs made here have the first 32 hex digits of their log's SHA-256.
    RunId
}
id! {
    /// Names a trajectory: the id recorded in the log, else one derived from the eval and the sample.
    TrajectoryId
}
id! {
    /// Names a dataset. The same letters as in an id, so that a name goes into an address or a path as it is.
    DatasetName
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_ids_and_refuses_paths() {
        for good in ["a", "0f3a", "550e8400-e29b-41d4-a716-446655440000", "x_y.z", &"a".repeat(128)] {
            assert_eq!(RunId::new(good).unwrap().as_str(), good);
        }
        for bad in [
            "",
            ".",
            "..",
            "../x",
            "a/b",
            "a\\b",
            "a b",
            "a\0",
            ".hidden",
            "-flag",
            "é",
            "a.",
            &"a".repeat(129),
        ] {
            assert!(RunId::new(bad).is_err(), "{bad:?}");
        }
    }
}
