//! Writing logs that Inspect reads.
//!
//! [`LogWriter`] takes a log apart into what a crash must not lose: every finished sample stands in the file before the
//! next one begins. [`rewrite`] turns any log that can be read into a whole one. [`summary_row`] makes the small row
//! that lists need of a sample.
//!
//! Nothing is built and printed again: samples, headers and rows are copied as bytes, and what changes is cut out of
//! them or put into them. So unknown fields, `NaN`, integers beyond 64 bits and lone surrogates survive.

mod archive;
mod edit;
mod error;
mod glob;
mod header;
mod log_writer;
mod part;
mod rewrite;
mod sample;
mod stream;
mod summary;

pub use error::WriteError;
pub use glob::Glob;
pub use log_writer::{LogWriter, start_of};
pub use part::{Part, header_of_part};
pub use rewrite::{HeaderEdits, Progress, RewriteOptions, Rewritten, rewrite};
pub use stream::ZipStream;
pub use summary::summary_row;
