//! What `ct` keeps: the metadata of runs and trajectories, the original logs, and the operations over both.
//!
//! One data folder holds everything:
//!
//! ```text
//! ct.sqlite                      metadata
//! logs/<hash, 2 digits>/<hash>.eval   original logs, byte for byte, under the SHA-256 of their bytes
//! uploads/…                      bytes that arrive: parts of uploads, and what is being put
//! tmp/…                          what an ingest works on; nothing here matters once it ended
//! ingest.lock                    shared by ingests, exclusive for collection and repair
//! ```
//!
//! A log is published (written through to the disk, then renamed) before the one transaction that inserts its run with
//! all trajectories. So a run is there as a whole or not at all, its log is there whenever it is, and a process killed
//! at any point leaves at most files that nothing refers to, which [`Store::gc`] collects.
//!
//! The logs may be in a bucket instead, under the same names; `logs.place` then says in which, and everything else stays
//! as it is.
//!
//! This crate knows nothing of the command line, the network, or the inside of a log, but that a registered
//! sample has to lie in it where its document says. Which index answers a query is
//! the matter of `meta::sqlite` alone.

mod actor;
mod blob;
mod error;
mod hashing;
mod meta;
mod ops;
mod record;
mod store;

pub use actor::Actor;
pub use blob::LogPlace;
pub use error::{Conflict, StoreError, TakenBy};
pub use meta::About;
pub use ops::{Author, Identity, Ingest, Registration, TrajectoryComments, hash_log, merge_comments};
pub use record::{
    CheckProgress, CheckReport, CommitMode, Committed, CopyFailure, CopyProgress, CopyReport, DirectPart,
    DirectUpload, Expected, Finding, FindingKind, GcItem, GcKind, GcOptions, GcReport, KnownRun, LogTag,
    NewRun, Registered, StagedLog, StoredObject, Totals, Upload, UploadOf, UploadPart,
};
pub use store::{Clock, Store};
