//! The HTTP API over a store: what existing clients of the protocol speak, and what `ct` adds to it. And the pages that
//! people look at, over the same store.
//!
//! Handlers are thin: they parse, ask the [`ct_store::Store`], and answer. The store blocks, so everything that touches it
//! runs on blocking threads (`App::blocking`); big things stream through bounded channels. Statuses and envelopes
//! are decided in `error` alone, who may do what in `auth` alone. There is no SQL, no HTML and no command line here.

mod address;
mod app;
mod auth;
mod body;
mod connection;
mod crowd;
mod error;
mod extract;
mod gate;
mod limits;
mod metrics;
mod pages;
mod paging;
mod proxies;
mod refusal;
mod request_log;
mod routes;
mod sample;
mod serve;
mod shown;
mod signing;
mod throttle;
mod transcripts;
mod walks;
mod zip;

pub use app::{Mode, ServerConfig};
pub use proxies::{Network, NetworkError};
pub use routes::openapi;
pub use serve::{ServeError, serve};
