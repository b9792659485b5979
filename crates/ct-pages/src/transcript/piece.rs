//! What script asks for when someone wants more of something.

use ct_model::transcript::{Cut, EventView, Input};
use maud::{Markup, html};

use super::{Place, panel, step};
use crate::format::bytes;
use crate::text::text_in;

/// The next piece of a long text.
pub fn more_text(
    place: &Place<'_>,
    piece: &str,
    at: ct_model::transcript::Place,
    next: Option<u64>,
) -> Markup {
    html! {
        span.content { (text_in(piece)) }
        @if let Some(next) = next { (step::rest(place, at, next, at.size_bytes)) }
    }
}

/// More events of a step.
pub fn more_events(
    place: &Place<'_>,
    step: usize,
    from: usize,
    events: &[EventView],
    asked: usize,
) -> Markup {
    html! {
        @for event in events { (step::draw_event(place, event)) }
        @if events.len() == asked { (step::more_events_link(place, step, from + events.len())) }
    }
}

/// What a model was given, or more of it.
pub fn more_input(place: &Place<'_>, input: &Input, event: usize) -> Markup {
    panel::input(place, input, event)
}

/// A value's JSON, laid out where it is not too long.
pub fn raw(place: &Place<'_>, json: &Cut) -> Markup {
    html! {
        div.raw {
            p.raw-head {
                span.faint { (bytes(json.place.size_bytes)) " of JSON"
                    @if json.next.is_some() { ", the beginning as it is written" } }
                " " a href=(step::part_query(json.place).on(&place.below("part"))) target="_blank" rel="noopener" { "all of it, as it is written" }
            }
            pre dir="ltr" { (text_in(&json.text)) }
        }
    }
}
