//! Comments, with what they said before.

use ct_model::Comment;
use jiff::Timestamp;
use maud::{Markup, html};
use serde_json::Value;

use crate::{Visit, count, text, text_in, time};

/// What a comment said before an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Earlier {
    /// Which comment.
    pub comment_id: String,
    /// What it said.
    pub text: String,
    /// Until when.
    pub until: Timestamp,
}

/// The comments of a page.
pub(super) struct Comments<'a> {
    /// The page; `<path>/comments` takes what is written.
    pub(super) path: &'a str,
    pub(super) comments: &'a [Comment],
    pub(super) earlier: &'a [Earlier],
    pub(super) may_change_all: bool,
}

/// A time in a comment, which anything may have written.
fn at(comment: &Comment, key: &str) -> Option<Timestamp> {
    comment.extra.get(key).and_then(Value::as_str).and_then(|at| at.parse().ok())
}

fn author(comment: &Comment) -> Option<&str> {
    ["created_by", "author"].iter().find_map(|key| comment.extra.get(*key).and_then(Value::as_str))
}

fn is_deleted(comment: &Comment) -> bool {
    !matches!(comment.extra.get("deleted"), None | Some(Value::Null | Value::Bool(false)))
}

impl Comments<'_> {
    pub(super) fn section(&self, visit: &Visit) -> Markup {
        let there = self.comments.iter().filter(|comment| !is_deleted(comment)).count();
        html! {
            section.section #comments {
                div.section-head { h2 { "Comments" } @if there > 0 { span.muted { (count(there as u64)) } } }
                @if self.comments.is_empty() && !visit.may_write() { p.muted { "Nobody has commented." } }
                ol.comments { @for comment in self.comments { (self.comment(visit, comment)) } }
                @if visit.may_write() {
                    form.form.comment-form.no-print method="post" action=(format!("{}/comments", self.path)) {
                        (visit.csrf_field())
                        textarea name="text" aria-label="A comment" placeholder="Write a comment" required
                            maxlength="100000" dir="auto" {}
                        div.form-actions { button type="submit" name="action" value="add" { "Comment" } }
                    }
                }
            }
        }
    }

    fn comment(&self, visit: &Visit, comment: &Comment) -> Markup {
        let deleted = is_deleted(comment);
        let user = visit.user.as_ref().map(|user| user.name.as_str());
        let own = user.is_some() && author(comment) == user;
        let may_change = visit.may_write() && !deleted && (own || self.may_change_all);
        let earlier: Vec<&Earlier> =
            self.earlier.iter().filter(|earlier| earlier.comment_id == comment.id).collect();
        html! {
            li.comment.is-deleted[deleted] id=(format!("comment-{}", comment.id)) {
                div.comment-head {
                    b { (text(author(comment).unwrap_or("someone"))) }
                    @if let Some(created) = at(comment, "created") { " " span.faint { (time(created, visit.now)) } }
                    @if let Some(edited) = at(comment, "edited") { " " span.faint { "edited " (time(edited, visit.now)) } }
                    @if deleted { " " span.faint { "deleted " @if let Some(at) = at(comment, "deleted") { (time(at, visit.now)) } } }
                }
                @if deleted {
                    details { summary.faint { "Show what it said" } div.prose dir="auto" { (text_in(&comment.text)) } }
                } @else {
                    div.prose dir="auto" { (text_in(&comment.text)) }
                }
                @if !earlier.is_empty() {
                    details.history {
                        summary.faint { "History" }
                        @for earlier in &earlier {
                            p.faint { "Until " (time(earlier.until, visit.now)) }
                            div.prose dir="auto" { (text_in(&earlier.text)) }
                        }
                    }
                }
                @if may_change {
                    details.no-print {
                        summary.faint { "Edit" }
                        form.form method="post" action=(format!("{}/comments", self.path)) {
                            (visit.csrf_field())
                            input type="hidden" name="comment" value=(comment.id);
                            textarea name="text" aria-label="The comment" required maxlength="100000" dir="auto" {
                                "\n" (comment.text)
                            }
                            div.form-actions {
                                button type="submit" name="action" value="edit" { "Save" }
                                button.danger type="submit" name="action" value="delete" formnovalidate { "Delete" }
                            }
                        }
                    }
                }
            }
        }
    }
}
