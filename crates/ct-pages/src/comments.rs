//! Comments, with what they said before, and the forms that change them.

use ct_model::Comment;
use jiff::Timestamp;
use maud::{Markup, html};
use serde_json::Value;

use crate::format::time;
use crate::frame::Visit;
use crate::text::{text, text_in};

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

/// How comments are shown to who looks at them.
#[derive(Debug, Clone)]
pub(crate) struct Comments<'a> {
    pub(crate) visit: &'a Visit,
    /// Takes the forms.
    pub(crate) path: String,
    pub(crate) earlier: &'a [Earlier],
    pub(crate) may_change_all: bool,
}

/// A time in a comment, which anything may have written.
fn at(comment: &Comment, key: &str) -> Option<Timestamp> {
    comment.extra.get(key).and_then(Value::as_str).and_then(|at| at.parse().ok())
}

fn author(comment: &Comment) -> Option<&str> {
    ["created_by", "author"].iter().find_map(|key| comment.extra.get(*key).and_then(Value::as_str))
}

/// Whether a comment was taken back.
pub(crate) fn is_deleted(comment: &Comment) -> bool {
    !matches!(comment.extra.get("deleted"), None | Some(Value::Null | Value::Bool(false)))
}

impl Comments<'_> {
    /// A list of comments; `fields` go with their forms.
    pub(crate) fn list<'c>(
        &self,
        comments: impl IntoIterator<Item = &'c Comment>,
        fields: &Markup,
    ) -> Markup {
        let mut comments = comments.into_iter().peekable();
        if comments.peek().is_none() {
            return html! {};
        }
        html! { ol.comments { @for comment in comments { (self.one(comment, fields)) } } }
    }

    fn one(&self, comment: &Comment, fields: &Markup) -> Markup {
        let visit = self.visit;
        let deleted = is_deleted(comment);
        let user = visit.user.as_ref().map(|user| user.name.as_str());
        let own = user.is_some() && author(comment) == user;
        let may_change = visit.may_write() && (own || self.may_change_all);
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
                @if may_change && deleted {
                    form.comment-restore.no-print method="post" action=(self.path) data-own[own] {
                        (visit.csrf_field())
                        (fields)
                        input type="hidden" name="comment" value=(comment.id);
                        button.quiet type="submit" name="change" value="restore" title="Restore your comment (z)" { "Restore" }
                    }
                } @else if may_change {
                    details.comment-edit.no-print data-own[own] {
                        summary.faint { "Edit" }
                        form.form method="post" action=(self.path) {
                            (visit.csrf_field())
                            (fields)
                            input type="hidden" name="comment" value=(comment.id);
                            textarea name="text" aria-label="The comment" required maxlength="100000" dir="auto" {
                                "\n" (comment.text)
                            }
                            div.form-actions {
                                button type="submit" name="change" value="edit" { "Save" }
                                button.danger type="submit" name="change" value="delete" formnovalidate { "Delete" }
                            }
                        }
                    }
                }
            }
        }
    }
}
