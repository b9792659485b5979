//! Conversion of logs, against answers of other tools, and reading of transcripts.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod convert;
mod transcript;
