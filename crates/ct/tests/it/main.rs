//! Runs the built program in a temporary home and compares the whole of what it says.
//!
//! What a command means for data is tested with the crates that do it; here it is wiring: options, output, errors,
//! exit codes.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[cfg(unix)]
mod api;
#[cfg(unix)]
mod browser;
mod completions;
mod contract;
mod dataset;
mod download;
mod edit;
#[cfg(target_os = "linux")]
mod envs;
#[cfg(target_os = "linux")]
mod eval;
#[cfg(target_os = "linux")]
mod folders;
mod full_disk;
mod help;
#[cfg(target_os = "linux")]
mod hindered;
mod homes;
mod http;
mod identity;
mod info;
#[cfg(unix)]
mod kill;
mod list;
#[cfg(unix)]
mod login;
mod logs;
mod long_answers;
mod make;
mod mounts;
#[cfg(unix)]
mod odd_uploads;
#[cfg(target_os = "linux")]
#[expect(dead_code, reason = "the tests of the models use the rest of it")]
#[path = "../../../ct-eval/tests/it/provider.rs"]
mod provider;
mod roundtrip;
#[cfg(unix)]
mod s3;
#[cfg(unix)]
mod s3_faults;
#[cfg(unix)]
mod s3_keys;
mod sample;
#[cfg(target_os = "linux")]
mod sandboxes;
#[cfg(unix)]
mod serve;
mod server;
mod servers;
mod show;
mod store;
#[cfg(unix)]
mod strangers;
mod support;
mod tls;
mod together;
mod tokens;
mod users;
