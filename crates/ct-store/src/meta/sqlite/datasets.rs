//! See [`crate::meta::DatasetStore`].

use super::SqliteStore;
use crate::meta::DatasetStore;

impl DatasetStore for SqliteStore {}
