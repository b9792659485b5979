//! See [`crate::meta::CommentStore`].

use super::SqliteStore;
use crate::meta::CommentStore;

impl CommentStore for SqliteStore {}
