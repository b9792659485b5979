//! A bucket, blocking: who asks and where ([`Config`]), objects read by range ([`ObjectSource`]), added without ever
//! taking the place of others, listed, and addresses that are good for one thing and a short time.
//!
//! Why not through a general object store crate: what is handed to clients are signed addresses of single requests with
//! headers signed in (`If-None-Match: *`, so that an address adds and never replaces; a checksum, so that the service
//! refuses other bytes) and of single parts of an upload that the server began; and what such an upload has so far is
//! asked of the service. General crates sign a method and a path, keep the parts of an upload to themselves, and are
//! asynchronous, while stores and readers here block. What is needed of the protocol is eleven requests and one way to
//! sign them, over the HTTP client that is there already.
//!
//! Every request is tried again while that is safe and may help (see [`Patience`]). Requests that add state the
//! condition that nothing is there, so that trying again never replaces anything either.
//!
//! This crate knows nothing of logs but that they are read by range, and reads neither the environment nor flags.

mod address;
mod bucket;
mod config;
mod error;
mod http;
mod list;
mod multipart;
mod sign;
mod source;
mod xml;

pub use address::S3Address;
pub use bucket::{Bucket, Head, Tag};
pub use config::{Config, Credentials, Place, Variables};
pub use error::S3Error;
pub use http::Patience;
pub use list::{Listed, Listing};
pub use multipart::{Part, PartSizes, Unfinished};
pub use sign::{Method, Presigned};
pub use source::ObjectSource;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, S3Error>;
