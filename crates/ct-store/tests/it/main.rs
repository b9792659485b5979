//! The store as its callers see it. Whatever keeps the metadata, these hold.

mod check;
mod crash;
mod edit;
mod ingest;
mod list;
mod paging;
mod schema;
mod support;
