//! A bucket of a real service, whole and through a connection that fails.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod bucket;
mod faults;
