//! Comments: at the actions and steps that they are about, and beside them those on the whole.

use std::collections::BTreeMap;

use ct_model::Comment;
use maud::{Markup, html};
use serde_json::Value;

use super::{Place, panel};
use crate::comments::is_deleted;
use crate::format::count;

/// Numbers of commented actions or steps that lead there.
const PLACES_SHOWN: usize = 200;

/// The comments of a trajectory, by what they are about.
#[derive(Debug, Clone, Default)]
pub struct Comments {
    whole: Vec<Comment>,
    actions: BTreeMap<u64, Vec<Comment>>,
    steps: BTreeMap<u64, Vec<Comment>>,
}

impl Comments {
    /// Those on the whole and on steps, which have a `step`, and those on actions by their numbers.
    pub fn new(others: Vec<Comment>, actions: BTreeMap<u64, Vec<Comment>>) -> Self {
        let mut comments = Self { actions, ..Self::default() };
        for comment in others {
            match comment.extra.get("step").and_then(Value::as_u64) {
                Some(step) => comments.steps.entry(step).or_default().push(comment),
                None => comments.whole.push(comment),
            }
        }
        comments
    }

    pub(super) fn on_action(&self, place: &Place<'_>, action: u32) -> Markup {
        on(place, "action", u64::from(action), self.actions.get(&u64::from(action)))
    }

    pub(super) fn on_step(&self, place: &Place<'_>, step: usize) -> Markup {
        on(place, "step", step as u64, self.steps.get(&(step as u64)))
    }
}

fn on(place: &Place<'_>, name: &str, number: u64, comments: Option<&Vec<Comment>>) -> Markup {
    let fields = html! { (next(place)) input type="hidden" name=(name) value=(number); };
    html! { @if let Some(comments) = comments { (place.comments().list(comments, &fields)) } }
}

/// Where a form leads back to.
fn next(place: &Place<'_>) -> Markup {
    html! { input type="hidden" name="next" value=(place.filter.on(&place.path())); }
}

/// Comments on the whole, and where the others are.
pub(super) fn panel(place: &Place<'_>, comments: &Comments) -> Markup {
    let may_write = place.visit.may_write();
    if !may_write && comments.whole.is_empty() && comments.actions.is_empty() && comments.steps.is_empty() {
        return html! {};
    }
    let body = html! {
        div.comment-list {
        (places("On actions", &comments.actions, |action| html! {
            a href=(place.action(action)) data-go=(action) { (action) }
        }))
        (places("On steps", &comments.steps, |step| html! {
            a href=(place.step(step)) data-go-step=(step) { (step) }
        }))
        (place.comments().list(&comments.whole, &next(place)))
        }
        @if may_write {
            form.comment-form.no-print method="post" action=(place.below("comments")) #write-comment {
                (place.visit.csrf_field())
                (next(place))
                label.visually-hidden for="write-text" { "Comment on the trajectory" }
                textarea #write-text name="text" rows="2" required maxlength="100000" dir="auto"
                    placeholder="Comment on the trajectory" {}
                div.form-actions {
                    button type="submit" { "Comment" }
                    span.comment-about {
                        label { "on action " input type="number" name="action" min="0"; }
                        label { " or step " input type="number" name="step" min="0"; }
                    }
                }
            }
        }
    };
    html! { div #comments { (panel::panel("Comments", true, &body)) } }
}

fn places(title: &str, places: &BTreeMap<u64, Vec<Comment>>, link: impl Fn(u64) -> Markup) -> Markup {
    let there = |comments: &Vec<Comment>| comments.iter().any(|comment| !is_deleted(comment));
    let numbers: Vec<u64> =
        places.iter().filter(|(_, comments)| there(comments)).map(|(number, _)| *number).collect();
    html! {
        @if !numbers.is_empty() {
            p.comment-places {
                span.faint { (title) " " }
                @for number in numbers.iter().take(PLACES_SHOWN) {
                    (link(*number)) " "
                }
                @if numbers.len() > PLACES_SHOWN { span.faint { "and " (count((numbers.len() - PLACES_SHOWN) as u64)) " more" } }
            }
        }
    }
}
