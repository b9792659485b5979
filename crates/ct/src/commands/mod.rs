//! One file per command, by noun and verb.

pub(crate) mod completions;
pub(crate) mod dataset;
pub(crate) mod login;
pub(crate) mod logout;
pub(crate) mod runs;
pub(crate) mod serve;
pub(crate) mod status;
pub(crate) mod store;
pub(crate) mod target;
pub(crate) mod tokens;
pub(crate) mod users;

use std::path::PathBuf;

use ct_client::{BaseUrl, Client};
use ct_store::{Store, StoreError};
use target::Target;

use crate::config::{Config, Origin, Place};
use crate::error::CliError;
use crate::home::Home;
use crate::output::Printer;

/// What every command gets.
pub(crate) struct Context {
    pub(crate) printer: Printer,
    pub(crate) config: Config,
}

impl Context {
    /// Where runs are kept, for a command that has nothing to do without any.
    pub(crate) fn home(&self) -> Result<Home, CliError> {
        match &self.config.place {
            Place::Local => Ok(Home::Local(Box::new(self.existing_store()?))),
            Place::Server(base) => Ok(Home::Server(self.client(base)?)),
        }
    }

    /// As [`Context::home`], for commands to which no store is an empty one.
    pub(crate) fn home_if_any(&self) -> Result<Option<Home>, CliError> {
        match &self.config.place {
            Place::Local => Ok(self.store_if_any()?.map(|store| Home::Local(Box::new(store)))),
            Place::Server(_) => self.home().map(Some),
        }
    }

    /// As [`Context::home`], for a command that makes runs: the store is made when there is none.
    pub(crate) fn home_to_make(&self) -> Result<Home, CliError> {
        match &self.config.place {
            Place::Local => Ok(Home::Local(Box::new(self.store()?))),
            Place::Server(_) => self.home(),
        }
    }

    /// The home of what a word on the command line names: an address is of its own server, unless `--local` was given.
    pub(crate) fn home_of(&self, text: &str) -> Result<Home, CliError> {
        // Commands take other words too, and say themselves what is wrong with one.
        self.home_at(Target::parse(text).ok().as_ref().and_then(Target::base))
    }

    /// A server's home, unless `--local` was given; without an address the own one.
    pub(crate) fn home_at(&self, base: Option<&BaseUrl>) -> Result<Home, CliError> {
        match base {
            Some(base) if self.config.place_origin != Origin::Flag("--local") => {
                Ok(Home::Server(self.client(base)?))
            }
            _ => self.home(),
        }
    }

    /// A client of a server, with the token for it, if there is any.
    pub(crate) fn client(&self, base: &BaseUrl) -> Result<Client, CliError> {
        let token = self.config.token_for(&base.origin()).map(|(token, _)| token);
        Ok(Client::new(base.clone(), token)?)
    }

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
