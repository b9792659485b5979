//! The same suite over logs in a bucket of a real service: what is about logs and their runs.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[path = "../it/check.rs"]
mod check;
#[path = "../it/copy.rs"]
mod copy;
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
#[path = "../it/support.rs"]
mod support;
#[path = "../it/uploads.rs"]
mod uploads;
