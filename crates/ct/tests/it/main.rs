//! Runs the built program in a temporary home and compares the whole of what it says.
//!
//! What a command means for data is tested with the crates that do it; here it is wiring: options, output, errors,
//! exit codes.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod completions;
mod download;
mod edit;
mod help;
mod info;
mod list;
mod make;
mod sample;
mod show;
mod store;
mod support;
