//! One file per command, by noun and verb.

pub(crate) mod completions;
pub(crate) mod runs;
pub(crate) mod store;
mod target;

use ct_store::Store;

use crate::config::Config;
use crate::error::CliError;
use crate::output::Printer;

/// What every command gets.
pub(crate) struct Context {
    pub(crate) printer: Printer,
    pub(crate) config: Config,
}

impl Context {
    /// Opens the store, and makes it when there is none.
    pub(crate) fn store(&self) -> Result<Store, CliError> {
        Ok(Store::open(&self.config.data_dir)?)
    }
}
