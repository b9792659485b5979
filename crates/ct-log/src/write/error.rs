//! Why a log cannot be written.

use std::io;
use std::path::PathBuf;

use crate::LogError;
use crate::json::JsonError;

/// Why a log cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The file cannot be created, written or renamed.
    #[error("cannot write {path:?}")]
    Io {
        /// The file that was to be written.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// A sample cannot be read to its end or is no JSON object. It was not added; the writer goes on.
    #[error("cannot add the sample {id:?} with epoch {epoch}")]
    Sample {
        /// The sample's id.
        id: String,
        /// The sample's epoch.
        epoch: u64,
        /// What is wrong with it.
        #[source]
        source: JsonError,
    },
    /// A header, start or list of reductions that is no JSON of the right kind.
    #[error("{what} is not what a log holds")]
    Document {
        /// Which document.
        what: &'static str,
        /// What is wrong with it.
        #[source]
        source: JsonError,
    },
    /// The log that is to be written again cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The name ends neither in `.eval` nor in `.json`.
    #[error("cannot tell from the name {path:?} which kind of log to write (`.eval` or `.json`)")]
    Extension {
        /// The name.
        path: PathBuf,
    },
    /// The log is finished: nothing can be appended.
    #[error("{path:?} is finished, nothing can be added")]
    Finished {
        /// The file.
        path: PathBuf,
    },
}
