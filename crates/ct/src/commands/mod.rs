//! One file per command, by noun and verb.

pub(crate) mod completions;
pub(crate) mod dataset;
pub(crate) mod envs;
pub(crate) mod login;
pub(crate) mod logout;
pub(crate) mod policies;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod serve;
pub(crate) mod status;
pub(crate) mod store;
pub(crate) mod target;
pub(crate) mod tokens;
pub(crate) mod users;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ct_client::{BaseUrl, Client};
use ct_environment::Catalog;
use ct_s3::S3Address;
use ct_store::{LogPlace, Store, StoreError};
use jiff::Timestamp;
use target::Target;

use crate::config::{Config, Origin, Place};
use crate::env;
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

    /// The environments that can be run, nearest first: `./environments`, the folder of the settings, the data folder's,
    /// those that come with the program.
    pub(crate) fn catalog(&self) -> Result<Catalog, CliError> {
        let folders = [
            Some(PathBuf::from("environments")),
            self.config.setting_path(env::SETTINGS_DIR),
            Some(self.config.data_dir.join("environments")),
        ];
        Ok(Catalog::new(folders.into_iter().flatten())?)
    }

    /// A client of a server, with the token for it, if there is any.
    pub(crate) fn client(&self, base: &BaseUrl) -> Result<Client, CliError> {
        let token = self.config.token_for(&base.origin()).map(|(token, _)| token);
        Ok(Client::new(base.clone(), token)?)
    }

    /// Opens the store, and makes it when there is none.
    pub(crate) fn store(&self) -> Result<Store, CliError> {
        self.store_at(self.log_place(None, None)?)
    }

    /// As [`Context::store`], with the logs in a place.
    pub(crate) fn store_at(&self, place: LogPlace) -> Result<Store, CliError> {
        Ok(Store::open_at(&self.config.data_dir, Arc::new(Timestamp::now), place)?)
    }

    /// Where the logs of the store are: as told on the command line, else in the settings, else as the data folder
    /// remembers.
    pub(crate) fn log_place(
        &self,
        given: Option<&str>,
        public_url: Option<&str>,
    ) -> Result<LogPlace, CliError> {
        let given = given.or(self.config.logs.as_ref().map(|(text, _)| text.as_str()));
        let place = self.remembered_place(&self.config.data_dir, given)?;
        match (place, public_url.or(self.config.logs_public_url.as_deref())) {
            (LogPlace::Bucket(config, address), Some(url)) => {
                Ok(LogPlace::Bucket(Box::new(config.with_public_place(url)?), address))
            }
            (place, _) => Ok(place),
        }
    }

    /// Where the logs of any data folder are: as given, else as it remembers.
    pub(crate) fn remembered_place(&self, folder: &Path, given: Option<&str>) -> Result<LogPlace, CliError> {
        let address = match given {
            Some(text) => Some(text.parse::<S3Address>()?),
            None => LogPlace::remembered(folder)?,
        };
        Ok(match address {
            // What needs no log needs no keys.
            Some(address) => match self.config.s3() {
                Ok(config) => LogPlace::Bucket(Box::new(config), address),
                Err(error) => LogPlace::Closed(address, error.reason()),
            },
            None => LogPlace::Folder,
        })
    }

    /// Opens the store for a command that has nothing to do without one.
    pub(crate) fn existing_store(&self) -> Result<Store, CliError> {
        let place = self.log_place(None, None)?;
        Store::open_existing_at(&self.config.data_dir, place).map_err(|error| self.none_here(error))
    }

    /// As [`Context::existing_store`], for commands to which no store is an empty one. A data folder named on the command
    /// line has to be there; one that the environment names is missed aloud.
    pub(crate) fn store_if_any(&self) -> Result<Option<Store>, CliError> {
        match Store::open_existing_at(&self.config.data_dir, self.log_place(None, None)?) {
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
