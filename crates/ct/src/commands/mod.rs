//! One file per command, by noun and verb.

pub(crate) mod completions;
pub(crate) mod dataset;
pub(crate) mod runs;
pub(crate) mod serve;
pub(crate) mod store;
mod target;
pub(crate) mod tokens;
pub(crate) mod users;

use std::path::PathBuf;

use ct_store::{Store, StoreError};

use crate::config::{Config, Origin};
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

    /// Opens the store for a command that has nothing to do without one.
    pub(crate) fn existing_store(&self) -> Result<Store, CliError> {
        Store::open_existing(&self.config.data_dir).map_err(|error| self.none_here(error))
    }

    /// As [`Context::existing_store`], for commands to which no store is an empty one. A data folder named on the command
    /// line has to be there; one that the environment names is missed aloud.
    pub(crate) fn store_if_any(&self) -> Result<Option<Store>, CliError> {
        match Store::open_existing(&self.config.data_dir) {
            Ok(store) => Ok(Some(store)),
            Err(error @ StoreError::NoStore { .. }) if self.logs().is_none() => {
                match &self.config.data_dir_origin {
                    Origin::Flag(_) => return Err(self.none_here(error)),
                    Origin::Default => {}
                    origin => self.printer.warning(&format!("{error}; the data folder is {origin}")),
                }
                Ok(None)
            }
            Err(error) => Err(self.none_here(error)),
        }
    }

    /// As [`Context::store_if_any`], for commands that look after the logs too, which may be there without a database.
    pub(crate) fn store_or_logs(&self) -> Result<Option<Store>, CliError> {
        if self.logs().is_some() { self.store().map(Some) } else { self.store_if_any() }
    }

    /// The folder of logs, when there is one.
    fn logs(&self) -> Option<PathBuf> {
        Some(self.config.data_dir.join("logs")).filter(|logs| logs.is_dir())
    }

    fn none_here(&self, error: StoreError) -> CliError {
        if !matches!(error, StoreError::NoStore { .. }) {
            return error.into();
        }
        let converted = CliError::from(error);
        if let Some(logs) = self.logs() {
            let logs = logs.display();
            return converted.hint(format!(
                "logs are there without their database; make their runs again with: ct runs make {logs}"
            ));
        }
        match &self.config.data_dir_origin {
            Origin::Default => converted,
            origin => converted.hint(format!("the data folder is {origin}: is it the right one?")),
        }
    }
}
