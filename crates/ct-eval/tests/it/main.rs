//! Models over HTTP, against a server that speaks the providers' protocols.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod models;
mod provider;
