//! The store as its callers see it. Whatever keeps the metadata, these hold.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod accounts;
mod check;
mod clock;
mod comments;
mod copy;
mod crash;
mod datasets;
mod edit;
mod ingest;
mod list;
mod paging;
mod schema;
mod settling;
mod support;
mod uploads;
