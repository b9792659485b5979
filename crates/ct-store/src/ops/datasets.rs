//! Versioned datasets of trajectories or runs, for callers.

use ct_model::{
    DatasetChange, DatasetEdit, DatasetLock, DatasetName, DatasetPage, DatasetQuery, DatasetVersion,
    DatasetVersionQuery,
};

use crate::actor::Actor;
use crate::error::{Result, StoreError};
use crate::store::Store;

/// Characters of the reason of a lock.
const REASON_CHARS_MAX: usize = 1000;

impl Store {
    /// Lists datasets, newest first.
    pub fn datasets(&self, query: &DatasetQuery) -> Result<DatasetPage> {
        self.meta().datasets(query)
    }

    /// One version of a dataset with its items; the newest when not told which.
    pub fn dataset(&self, name: &DatasetName, version: Option<u64>) -> Result<DatasetVersion> {
        self.meta().dataset(name, version)
    }

    /// Lists the versions of a dataset, newest first.
    pub fn dataset_versions(
        &self,
        name: &DatasetName,
        query: &DatasetVersionQuery,
    ) -> Result<DatasetPage<DatasetVersion>> {
        self.meta().dataset_versions(name, query)
    }

    /// Makes a version of a dataset, from a whole list or from changes to the newest version. Makes none when it would
    /// be as the newest one. Items that come in have to exist and not to be deleted; those that are in stay in,
    /// whatever becomes of them.
    pub fn edit_dataset(
        &self,
        name: &DatasetName,
        edit: &DatasetEdit,
        actor: &Actor,
    ) -> Result<DatasetChange> {
        self.meta().edit_dataset(name, edit, actor, self.now())
    }

    /// Makes a dataset refuse new versions, and says why.
    pub fn lock_dataset(
        &self,
        name: &DatasetName,
        reason: Option<&str>,
        actor: &Actor,
    ) -> Result<DatasetLock> {
        let reason = reason.map(str::trim).filter(|reason| !reason.is_empty());
        if reason.is_some_and(|reason| reason.chars().nth(REASON_CHARS_MAX).is_some()) {
            return Err(StoreError::invalid(format!("a reason has at most {REASON_CHARS_MAX} characters")));
        }
        self.meta().lock_dataset(name, reason, actor, self.now())
    }

    /// Undoes [`Store::lock_dataset`]. False: it was not locked.
    pub fn unlock_dataset(&self, name: &DatasetName, actor: &Actor) -> Result<bool> {
        self.meta().unlock_dataset(name, actor, self.now())
    }
}
