//! For tests only: a real S3 service of their own, started once for each test program, and a connection to it that
//! counts, and can be made to fail in the ways of networks and services.
//!
//! What is missing on a machine is said aloud and not tested there; where `CI` is set it is a failure.

mod proxy;
mod weed;

pub use proxy::{Fault, Proxy, Seen};
pub use weed::{S3Service, s3_config};
