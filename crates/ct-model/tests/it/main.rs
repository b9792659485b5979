//! Conversion of logs, against answers of other tools.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod convert;
