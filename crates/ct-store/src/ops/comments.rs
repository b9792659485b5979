//! Comments on runs, on trajectories and on single actions of them. Who and when are decided here.
//!
//! A comment is not lost: a deleted one is marked, and what it said before an edit is in the audit log. Users change
//! their own comments; who may administer, and who works on the data folder itself, changes any.

use std::collections::BTreeMap;

use ct_model::{
    AuditQuery, AuditRow, Comment, RunEdit, RunEditError, RunId, TrajectoryDocument, TrajectoryId, transcript,
};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::accounts::random_hex;
use crate::actor::Actor;
use crate::error::{Conflict, Result, StoreError};
use crate::meta::{About, CommentNote, TrajectoryComment};
use crate::store::Store;

/// Comments on one run or one trajectory, at most.
const COMMENTS_MAX: usize = 1000;
const COMMENT_ID_BYTES: usize = 8;
const COMMENT_ID_MAX: usize = 64;
/// How often an edit is tried while others edit the same run.
const EDIT_ATTEMPTS: u32 = 20;

const CREATE: &str = "comment.create";
const EDIT: &str = "comment.edit";
const DELETE: &str = "comment.delete";
const RESTORE: &str = "comment.restore";

/// Who comments.
#[derive(Debug, Clone)]
pub struct Author {
    /// For the record; a comment's author is its user.
    pub actor: Actor,
    /// May change comments of others.
    pub any: bool,
}

/// Comments on a trajectory, in the form of the wire contract, oldest first. Deleted ones are marked so.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TrajectoryComments {
    /// On the whole of it, and on steps without actions; these have a `step`.
    pub comments: Vec<Comment>,
    /// On single actions, by their number from 0.
    pub step_comments: BTreeMap<u64, Vec<Comment>>,
}

impl Store {
    /// As [`Store::edit_run`] for a client of the wire contract, whose `comments` are the whole list as it should be:
    /// known ids with another text are edited, missing ones deleted, new ones added.
    pub fn patch_run(&self, run: &RunId, edit: &RunEdit, by: &Author) -> Result<()> {
        let Some(given) = &edit.comments else { return self.edit_run(run, edit, &by.actor) };
        let mut attempts = 0;
        loop {
            let record = self.run(run)?;
            let merged = RunEdit {
                comments: Some(merge_comments(&record.header.comments, given, by, self.now())?),
                if_version: Some(edit.if_version.unwrap_or(record.version)),
                ..edit.clone()
            };
            attempts += 1;
            match self.edit_run(run, &merged, &by.actor) {
                Err(StoreError::Conflict(Conflict::Changed { .. }))
                    if edit.if_version.is_none() && attempts < EDIT_ATTEMPTS => {}
                result => return result,
            }
        }
    }

    /// Adds a comment to a run.
    pub fn comment_on_run(&self, run: &RunId, text: &str, by: &Author) -> Result<Comment> {
        check_text(text)?;
        let now = self.now();
        let comment = new_comment(random_hex(COMMENT_ID_BYTES)?, text, by, now);
        self.change_run_comments(run, by, now, &mut |comments| {
            check_count(comments.len())?;
            comments.push(comment.clone());
            Ok(Some(note(CREATE, &comment.id, Some(text), None)))
        })?;
        Ok(comment)
    }

    /// Gives a comment on a run another text.
    pub fn edit_run_comment(&self, run: &RunId, id: &str, text: &str, by: &Author) -> Result<Comment> {
        check_text(text)?;
        let now = self.now();
        let mut changed = None;
        self.change_run_comments(run, by, now, &mut |comments| {
            let comment = find(comments.iter_mut(), |comment| comment.id == id, id)?;
            check_own(is_own(comment, by), by, id)?;
            if is_deleted(comment) {
                return Err(not_found(id));
            }
            let before = (comment.text != text).then(|| set_text(comment, text, now));
            changed = Some(comment.clone());
            Ok(before.map(|before| note(EDIT, id, Some(text), Some(&before))))
        })?;
        changed.ok_or_else(|| not_found(id))
    }

    /// Marks a comment on a run as deleted.
    pub fn delete_run_comment(&self, run: &RunId, id: &str, by: &Author) -> Result<Comment> {
        let now = self.now();
        let mut changed = None;
        self.change_run_comments(run, by, now, &mut |comments| {
            let comment = find(comments.iter_mut(), |comment| comment.id == id, id)?;
            check_own(is_own(comment, by), by, id)?;
            let was_there = !is_deleted(comment);
            if was_there {
                comment.extra.insert("deleted".to_owned(), json!(now));
            }
            changed = Some(comment.clone());
            Ok(was_there.then(|| note(DELETE, id, None, None)))
        })?;
        changed.ok_or_else(|| not_found(id))
    }

    /// Takes back that a comment on a run was deleted.
    pub fn restore_run_comment(&self, run: &RunId, id: &str, by: &Author) -> Result<Comment> {
        let now = self.now();
        let mut changed = None;
        self.change_run_comments(run, by, now, &mut |comments| {
            let comment = find(comments.iter_mut(), |comment| comment.id == id, id)?;
            check_own(is_own(comment, by), by, id)?;
            let was_deleted = is_deleted(comment);
            if was_deleted {
                comment.extra.insert("deleted".to_owned(), Value::Null);
            }
            changed = Some(comment.clone());
            Ok(was_deleted.then(|| note(RESTORE, id, None, None)))
        })?;
        changed.ok_or_else(|| not_found(id))
    }

    /// The comments on a trajectory: those that came with its document, then those made here.
    pub fn trajectory_comments(&self, document: &TrajectoryDocument) -> Result<TrajectoryComments> {
        let mut found = recorded(document);
        let Some(trajectory) = &document.trajectory_id else { return Ok(found) };
        for comment in self.meta().trajectory_comments(trajectory)? {
            let list = match comment.about {
                About::Action(action) => found.step_comments.entry(action).or_default(),
                About::Whole | About::Step(_) => &mut found.comments,
            };
            list.push(shown(comment));
        }
        Ok(found)
    }

    /// Adds a comment to a trajectory, or to one of its actions or steps.
    pub fn comment_on_trajectory(
        &self,
        trajectory: &TrajectoryId,
        about: About,
        text: &str,
        by: &Author,
    ) -> Result<Comment> {
        check_text(text)?;
        match about {
            About::Whole => {}
            About::Action(action) => {
                let actions = match self.document(trajectory)?.number_of_actions {
                    // Without a conversation there are those of the model calls, which only who reads the sample counts.
                    0 => transcript::limits::CALLS_MAX as u64,
                    actions => actions,
                };
                if action >= actions {
                    let what = format!(
                        "trajectory {trajectory} has {actions} actions, counted from 0: none is {action}"
                    );
                    return Err(StoreError::invalid(what));
                }
            }
            // Only who reads the sample knows how many there are.
            About::Step(step) if step >= transcript::limits::STEPS_MAX as u64 => {
                return Err(StoreError::invalid(format!("no trajectory has a step {step}")));
            }
            About::Step(_) => {}
        }
        let comment = TrajectoryComment {
            comment_id: random_hex(COMMENT_ID_BYTES)?,
            about,
            text: text.to_owned(),
            created_at: self.now(),
            created_by: by.actor.user.clone(),
            edited_at: None,
            deleted_at: None,
        };
        let mut change = |comments: &mut Vec<TrajectoryComment>| {
            check_count(comments.len())?;
            comments.push(comment.clone());
            let mut note = note(CREATE, &comment.comment_id, Some(text), None);
            if let Some((name, number)) = numbered(about) {
                note.detail[name] = json!(number);
            }
            Ok(Some(note))
        };
        self.meta().change_trajectory_comments(trajectory, &mut change, &by.actor, comment.created_at)?;
        Ok(shown(comment))
    }

    /// Gives a comment on a trajectory another text.
    pub fn edit_trajectory_comment(
        &self,
        trajectory: &TrajectoryId,
        id: &str,
        text: &str,
        by: &Author,
    ) -> Result<Comment> {
        check_text(text)?;
        let now = self.now();
        self.change_trajectory_comment(trajectory, id, by, now, &mut |comment| {
            if comment.deleted_at.is_some() {
                return Err(not_found(id));
            }
            if comment.text == text {
                return Ok(None);
            }
            let before = std::mem::replace(&mut comment.text, text.to_owned());
            comment.edited_at = Some(now);
            Ok(Some(note(EDIT, id, Some(text), Some(&before))))
        })
    }

    /// Marks a comment on a trajectory as deleted.
    pub fn delete_trajectory_comment(
        &self,
        trajectory: &TrajectoryId,
        id: &str,
        by: &Author,
    ) -> Result<Comment> {
        let now = self.now();
        self.change_trajectory_comment(trajectory, id, by, now, &mut |comment| {
            if comment.deleted_at.is_some() {
                return Ok(None);
            }
            comment.deleted_at = Some(now);
            Ok(Some(note(DELETE, id, None, None)))
        })
    }

    /// Takes back that a comment on a trajectory was deleted.
    pub fn restore_trajectory_comment(
        &self,
        trajectory: &TrajectoryId,
        id: &str,
        by: &Author,
    ) -> Result<Comment> {
        let now = self.now();
        self.change_trajectory_comment(trajectory, id, by, now, &mut |comment| {
            let was_deleted = comment.deleted_at.take().is_some();
            Ok(was_deleted.then(|| note(RESTORE, id, None, None)))
        })
    }

    /// Rows of the audit log, newest first.
    pub fn audit_rows(&self, query: &AuditQuery) -> Result<Vec<AuditRow>> {
        self.meta().audit_rows(query)
    }

    fn change_run_comments(
        &self,
        run: &RunId,
        by: &Author,
        now: Timestamp,
        change: &mut dyn FnMut(&mut Vec<Comment>) -> Result<Option<CommentNote>>,
    ) -> Result<()> {
        self.meta().change_run_comments(run, change, &by.actor, now)
    }

    fn change_trajectory_comment(
        &self,
        trajectory: &TrajectoryId,
        id: &str,
        by: &Author,
        now: Timestamp,
        change: &mut dyn FnMut(&mut TrajectoryComment) -> Result<Option<CommentNote>>,
    ) -> Result<Comment> {
        let mut changed = None;
        let mut change = |comments: &mut Vec<TrajectoryComment>| {
            let comment = find(comments.iter_mut(), |comment| comment.comment_id == id, id)?;
            let own = comment.created_by.is_some() && comment.created_by == by.actor.user;
            check_own(own, by, id)?;
            let note = change(comment)?;
            changed = Some(comment.clone());
            Ok(note)
        };
        self.meta().change_trajectory_comments(trajectory, &mut change, &by.actor, now)?;
        changed.map(shown).ok_or_else(|| not_found(id))
    }
}

/// What a client's whole list of comments comes to: see [`Store::patch_run`]. Nothing but ids and texts is believed.
/// Comments of others that are missing stay, unless `by` may change any: the client may just not have seen them.
pub fn merge_comments(
    kept: &[Comment],
    given: &[Comment],
    by: &Author,
    now: Timestamp,
) -> Result<Vec<Comment>> {
    let mut merged = kept.to_vec();
    for comment in &mut merged {
        let mut same = given.iter().filter(|given| given.id == comment.id);
        match (same.next(), same.next()) {
            (_, Some(_)) => {
                return Err(StoreError::invalid(format!("comment {} is there twice", comment.id)));
            }
            (Some(given), None) if given.text != comment.text && !is_deleted(comment) => {
                check_text(&given.text)?;
                check_own(is_own(comment, by), by, &comment.id)?;
                set_text(comment, &given.text, now);
            }
            (None, None) if !is_deleted(comment) && (by.any || is_own(comment, by)) => {
                comment.extra.insert("deleted".to_owned(), json!(now));
            }
            _ => {}
        }
    }
    for new in given {
        if kept.iter().any(|kept| kept.id == new.id) {
            continue;
        }
        check_text(&new.text)?;
        check_count(merged.len())?;
        let taken = merged.iter().any(|comment| comment.id == new.id);
        let id = if taken || !is_id(&new.id) { random_hex(COMMENT_ID_BYTES)? } else { new.id.clone() };
        merged.push(new_comment(id, &new.text, by, now));
    }
    Ok(merged)
}

/// Comments in a document; what is none is left out.
fn recorded(document: &TrajectoryDocument) -> TrajectoryComments {
    let list = |value: &Value| -> Vec<Comment> {
        let values = value.as_array().into_iter().flatten();
        values.filter_map(|value| serde_json::from_value(value.clone()).ok()).collect()
    };
    let comments = document.extra.get("comments").map(list).unwrap_or_default();
    let steps = document.extra.get("step_comments").and_then(Value::as_object).into_iter().flatten();
    let step_comments =
        steps.filter_map(|(action, value)| Some((action.parse().ok()?, list(value)))).collect();
    TrajectoryComments { comments, step_comments }
}

fn new_comment(id: String, text: &str, by: &Author, now: Timestamp) -> Comment {
    let mut extra = Map::new();
    extra.insert("created".to_owned(), json!(now));
    extra.insert("created_by".to_owned(), json!(by.actor.user));
    extra.insert("edited".to_owned(), Value::Null);
    extra.insert("deleted".to_owned(), Value::Null);
    Comment { id, text: text.to_owned(), extra }
}

fn shown(comment: TrajectoryComment) -> Comment {
    let mut extra = Map::new();
    extra.insert("created".to_owned(), json!(comment.created_at));
    extra.insert("created_by".to_owned(), json!(comment.created_by));
    extra.insert("edited".to_owned(), json!(comment.edited_at));
    extra.insert("deleted".to_owned(), json!(comment.deleted_at));
    if let Some((name, number)) = numbered(comment.about) {
        extra.insert(name.to_owned(), json!(number));
    }
    Comment { id: comment.comment_id, text: comment.text, extra }
}

/// What a part of a trajectory is called in documents, and its number.
fn numbered(about: About) -> Option<(&'static str, u64)> {
    match about {
        About::Whole => None,
        About::Action(number) => Some(("action", number)),
        About::Step(number) => Some(("step", number)),
    }
}

/// Gives the text before.
fn set_text(comment: &mut Comment, text: &str, now: Timestamp) -> String {
    comment.extra.insert("edited".to_owned(), json!(now));
    std::mem::replace(&mut comment.text, text.to_owned())
}

/// Logs and other programs may have written anything here: what is not clearly absent is there.
fn is_deleted(comment: &Comment) -> bool {
    !matches!(comment.extra.get("deleted"), None | Some(Value::Null | Value::Bool(false)))
}

/// A comment that nobody signed is nobody's own.
fn is_own(comment: &Comment, by: &Author) -> bool {
    let author = comment.extra.get("created_by").and_then(Value::as_str);
    author.is_some() && author == by.actor.user.as_deref()
}

fn check_own(own: bool, by: &Author, id: &str) -> Result<()> {
    if own || by.any {
        return Ok(());
    }
    Err(StoreError::Forbidden { what: format!("comment {id} is someone else's") })
}

fn check_text(text: &str) -> Result<()> {
    if text.trim().is_empty() {
        return Err(StoreError::invalid("a comment cannot be empty"));
    }
    let chars_max = RunEdit::TEXT_CHARS_MAX;
    if text.chars().nth(chars_max).is_some() {
        return Err(RunEditError::TooLong { what: "a comment", chars_max }.into());
    }
    Ok(())
}

fn check_count(there: usize) -> Result<()> {
    if there >= COMMENTS_MAX {
        return Err(StoreError::invalid(format!(
            "there are {COMMENTS_MAX} comments already, and no more can be added"
        )));
    }
    Ok(())
}

/// Ids that clients choose come into addresses.
fn is_id(id: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    !id.is_empty() && id.len() <= COMMENT_ID_MAX && id.chars().all(good)
}

fn find<'a, T>(
    mut comments: impl Iterator<Item = &'a mut T>,
    is_it: impl Fn(&T) -> bool,
    id: &str,
) -> Result<&'a mut T> {
    comments.find(|comment| is_it(comment)).ok_or_else(|| not_found(id))
}

fn not_found(id: &str) -> StoreError {
    let id: String = id.chars().take(COMMENT_ID_MAX).collect();
    StoreError::NotFound { what: format!("comment {id}") }
}

fn note(action: &'static str, id: &str, text: Option<&str>, before: Option<&str>) -> CommentNote {
    let mut detail = json!({"comment_id": id});
    if let Some(text) = text {
        detail["text"] = json!(text);
    }
    if let Some(before) = before {
        detail["before"] = json!(before);
    }
    CommentNote { action, detail }
}
