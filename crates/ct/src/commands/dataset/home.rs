//! Datasets wherever they are.

use ct_model::{
    Dataset, DatasetChange, DatasetEdit, DatasetKind, DatasetLock, DatasetName, DatasetQuery, DatasetVersion,
    DatasetVersionQuery,
};
use ct_store::{Actor, Store};

use crate::commands::target;
use crate::error::{CliError, Kind};

/// The datasets of a store.
pub(crate) struct Datasets<'a> {
    store: &'a Store,
}

impl<'a> Datasets<'a> {
    /// Those of a store.
    pub(crate) fn new(store: &'a Store) -> Self {
        Self { store }
    }

    /// The store they are in.
    pub(super) fn store(&self) -> &Store {
        self.store
    }

    /// All datasets, newest first.
    pub(super) fn list(&self, kind: Option<DatasetKind>) -> Result<Vec<Dataset>, CliError> {
        Ok(self.store.datasets(&DatasetQuery { kind, ..DatasetQuery::default() })?.items)
    }

    /// One version with its items; the newest when not told which.
    pub(super) fn get(
        &self,
        name: &DatasetName,
        version: Option<u64>,
    ) -> Result<(DatasetVersion, Vec<String>), CliError> {
        let mut found = self.store.dataset(name, version).map_err(|error| named(error.into()))?;
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
        let query = DatasetVersionQuery::default();
        Ok(self.store.dataset_versions(name, &query).map_err(|error| named(error.into()))?.items)
    }

    /// Makes a version, or nothing.
    pub(crate) fn edit(&self, name: &DatasetName, edit: &DatasetEdit) -> Result<DatasetChange, CliError> {
        self.store.edit_dataset(name, edit, &Actor::local()).map_err(|error| named(error.into()))
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
        self.store.lock_dataset(name, reason, &Actor::local()).map_err(|error| named(error.into()))
    }

    /// Takes new versions again. False: it was not locked.
    pub(super) fn unlock(&self, name: &DatasetName) -> Result<bool, CliError> {
        self.store.unlock_dataset(name, &Actor::local()).map_err(|error| named(error.into()))
    }

    /// The whole id of a run or trajectory that a word on the command line means.
    pub(super) fn resolve(&self, kind: DatasetKind, word: &str) -> Result<String, CliError> {
        match kind {
            DatasetKind::Trajectory => target::trajectory(self.store, word).map(String::from),
            DatasetKind::Run => target::run(self.store, word).map(String::from),
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
