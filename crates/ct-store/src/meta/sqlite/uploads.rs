//! See [`crate::meta::UploadStore`].

use super::SqliteStore;
use crate::meta::UploadStore;

impl UploadStore for SqliteStore {}
