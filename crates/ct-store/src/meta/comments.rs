//! Comments, and the audit log: the interface that another database can implement.

use ct_model::{AuditQuery, AuditRow, Comment, RunId, TrajectoryId};
use jiff::Timestamp;
use serde_json::Value;

use crate::actor::Actor;
use crate::error::Result;

/// What is done to a comment, for the audit log.
pub(crate) struct CommentNote {
    pub(crate) action: &'static str,
    pub(crate) detail: Value,
}

/// What of a trajectory a comment is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum About {
    /// All of it.
    #[default]
    Whole,
    /// An action, by its number from 0.
    Action(u64),
    /// A step that calls no tool, by its number from 0: see `ct_model::transcript`.
    Step(u64),
}

/// A comment on a trajectory, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TrajectoryComment {
    pub(crate) comment_id: String,
    pub(crate) about: About,
    pub(crate) text: String,
    pub(crate) created_at: Timestamp,
    pub(crate) created_by: Option<String>,
    pub(crate) edited_at: Option<Timestamp>,
    pub(crate) deleted_at: Option<Timestamp>,
}

/// Where comments are kept. Those on a run are part of what users changed of it.
pub(crate) trait CommentStore: Send + Sync {
    /// Changes the comments of a run that is not deleted. Without a note nothing is changed.
    fn change_run_comments(
        &self,
        run: &RunId,
        change: &mut dyn FnMut(&mut Vec<Comment>) -> Result<Option<CommentNote>>,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<()>;
    /// The comments on a trajectory, oldest first.
    fn trajectory_comments(&self, trajectory: &TrajectoryId) -> Result<Vec<TrajectoryComment>>;
    /// As [`CommentStore::change_run_comments`], of a trajectory whose run is not deleted.
    fn change_trajectory_comments(
        &self,
        trajectory: &TrajectoryId,
        change: &mut dyn FnMut(&mut Vec<TrajectoryComment>) -> Result<Option<CommentNote>>,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<()>;
    /// Rows of the audit log, newest first.
    fn audit_rows(&self, query: &AuditQuery) -> Result<Vec<AuditRow>>;
}
