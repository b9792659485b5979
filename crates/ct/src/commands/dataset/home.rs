//! Datasets wherever they are.

use ct_model::{Dataset, DatasetChange, DatasetEdit, DatasetKind, DatasetLock, DatasetName, DatasetVersion};

use crate::commands::target;
use crate::error::{CliError, Kind};
use crate::home::Home;

/// The datasets of a home.
pub(crate) struct Datasets<'a> {
    home: &'a Home,
}

impl<'a> Datasets<'a> {
    /// Those of a home.
    pub(crate) fn new(home: &'a Home) -> Self {
        Self { home }
    }

    /// The home they are in.
    pub(super) fn home(&self) -> &Home {
        self.home
    }

    /// All datasets, newest first.
    pub(super) fn list(&self, kind: Option<DatasetKind>) -> Result<Vec<Dataset>, CliError> {
        self.home.datasets(kind)
    }

    /// One version with its items; the newest when not told which.
    pub(super) fn get(
        &self,
        name: &DatasetName,
        version: Option<u64>,
    ) -> Result<(DatasetVersion, Vec<String>), CliError> {
        let mut found = self.home.dataset(name, version).map_err(named)?;
        let items = found.item_ids.take().unwrap_or_default();
        Ok((found, items))
    }

    /// As [`Datasets::get`], the newest; none when there is no such dataset.
    pub(crate) fn find(&self, name: &DatasetName) -> Result<Option<(DatasetVersion, Vec<String>)>, CliError> {
        match self.get(name, None) {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.kind() == Kind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All versions, newest first, without their items.
    pub(super) fn versions(&self, name: &DatasetName) -> Result<Vec<DatasetVersion>, CliError> {
        self.home.dataset_versions(name).map_err(named)
    }

    /// Makes a version, or nothing.
    pub(crate) fn edit(&self, name: &DatasetName, edit: &DatasetEdit) -> Result<DatasetChange, CliError> {
        self.home.edit_dataset(name, edit).map_err(|error| match error.kind() {
            // What a server cannot take of an edit came from the command line, as it does here.
            Kind::Data if self.home.client().is_some() => CliError::usage(error.reason()),
            _ => named(error),
        })
    }

    /// What an edit tells that changes nothing.
    pub(super) fn unchanged(found: &DatasetVersion, items: &[String]) -> DatasetChange {
        DatasetChange {
            name: found.name.clone(),
            kind: found.kind,
            version: found.version,
            item_count: items.len() as u64,
            created_at: found.created_at.unwrap_or_default(),
            created_by: found.created_by.clone(),
            description: found.description.clone(),
            added: Vec::new(),
            already_present: items.to_vec(),
            removed: Vec::new(),
            not_found: Vec::new(),
            changed: false,
        }
    }

    /// Refuses new versions from now on.
    pub(super) fn lock(&self, name: &DatasetName, reason: Option<&str>) -> Result<DatasetLock, CliError> {
        self.home.lock_dataset(name, reason).map_err(named)
    }

    /// Takes new versions again. False: it was not locked.
    pub(super) fn unlock(&self, name: &DatasetName) -> Result<bool, CliError> {
        self.home.unlock_dataset(name).map_err(named)
    }

    /// The whole id of a run or trajectory that a word on the command line means.
    pub(super) fn resolve(&self, kind: DatasetKind, word: &str) -> Result<String, CliError> {
        match kind {
            DatasetKind::Trajectory => target::trajectory(self.home, word).map(String::from),
            DatasetKind::Run => target::run(self.home, word).map(String::from),
        }
    }
}

/// Says where names and versions are when one was not found.
fn named(error: CliError) -> CliError {
    let hint = match error.kind() {
        Kind::NotFound if error.message().starts_with("version") => {
            "list its versions with: ct dataset versions NAME"
        }
        Kind::NotFound if error.message().starts_with("dataset") => "list the datasets with: ct dataset list",
        _ => return error,
    };
    error.hint(hint)
}
