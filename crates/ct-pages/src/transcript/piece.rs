//! What script asks for when someone wants more of something.

use ct_model::transcript::{Cut, EventView, Input};
use maud::{Markup, html};

use super::{Place, panel, step};
use crate::address::Query;
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
/// `refers` is the event whose messages lie elsewhere in the sample.
pub fn raw(place: &Place<'_>, json: &Cut, refers: Option<usize>) -> Markup {
    let all = step::part_query(json.place).on(&place.below("part"));
    let whole = refers.map(|event| event_query(event).with("whole", "true").on(&place.below("raw")));
    raw_json(
        json,
        json.place.size_bytes,
        &all,
        &html! {
            @if let Some(whole) = &whole { a data-raw href=(whole) { "with the messages in place" } }
        },
    )
}

/// The JSON of a model call with the messages that its event refers to.
pub fn whole(place: &Place<'_>, json: &Cut, event: usize) -> Markup {
    let all = event_query(event).on(&place.below("part"));
    let as_written = event_query(event).on(&place.below("raw"));
    raw_json(json, json.size_bytes, &all, &html! { a data-raw href=(as_written) { "as it is written" } })
}

fn event_query(event: usize) -> Query {
    Query::new([("event".to_owned(), event.to_string())])
}

fn raw_json(json: &Cut, size_bytes: u64, all: &str, other: &Markup) -> Markup {
    html! {
        div.raw {
            p.raw-head {
                span.faint { (bytes(size_bytes)) " of JSON" @if json.next.is_some() { ", its beginning" } }
                " " (other)
                " " a href=(all) target="_blank" rel="noopener" { "all of it as plain text" }
            }
            pre dir="ltr" tabindex="0" { (text_in(&json.text)) }
        }
    }
}
