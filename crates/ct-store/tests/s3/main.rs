//! The same suite over logs in a bucket of a real service, and what there is of buckets alone.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[path = "../it/accounts.rs"]
mod accounts;
#[path = "../it/check.rs"]
mod check;
#[path = "../it/comments.rs"]
mod comments;
#[path = "../it/copy.rs"]
mod copy;
#[path = "../it/crash.rs"]
mod crash;
#[path = "../it/datasets.rs"]
mod datasets;
mod direct;
#[path = "../it/edit.rs"]
mod edit;
mod faults;
#[path = "../it/ingest.rs"]
mod ingest;
#[path = "../it/list.rs"]
mod list;
#[path = "../it/paging.rs"]
mod paging;
#[path = "../it/schema.rs"]
mod schema;
#[path = "../it/support.rs"]
mod support;
#[path = "../it/uploads.rs"]
mod uploads;
