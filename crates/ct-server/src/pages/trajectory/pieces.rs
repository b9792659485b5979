//! Pieces of a sample as fragments of the page: more of a text, of the events of a step, of what a model was given; raw
//! JSON. Named by numbers, and by where they lie in the sample's JSON.

use axum::response::Response;
use ct_model::transcript::Place;
use ct_pages::transcript;

use super::asked::Asked;
use super::files::{named, nothing, piece, within};
use crate::error::ApiError;
use crate::limits;

/// Events that come with one request for more.
pub(super) const MORE_EVENTS: usize = 25;
/// Messages that come with one request for more of what a model was given.
pub(super) const MORE_MESSAGES: usize = 20;

pub(super) async fn events(mut asked: Asked) -> Result<Response, ApiError> {
    let step = asked.params.value("step")?.unwrap_or(0);
    let from = asked.params.value("from")?.unwrap_or(0);
    asked
        .fragment(move |reading| {
            let events = reading.reader().more_events(step, from, MORE_EVENTS);
            let events = events.map_err(|error| reading.opened.failed(&error))?;
            Ok(transcript::more_events(&reading.place(&[]), step, from, &events, MORE_EVENTS))
        })
        .await
}

pub(super) async fn input(mut asked: Asked) -> Result<Response, ApiError> {
    let event: usize = asked.params.value("event")?.unwrap_or(0);
    let from: usize = asked.params.value("from")?.unwrap_or(0);
    asked
        .fragment(move |reading| {
            let input = reading.reader().input(event, from, MORE_MESSAGES);
            let input = input.map_err(|error| reading.opened.failed(&error))?;
            Ok(transcript::more_input(&reading.place(&[]), &input, event))
        })
        .await
}

pub(super) async fn raw(mut asked: Asked) -> Result<Response, ApiError> {
    let event: Option<usize> = asked.params.value("event")?;
    let place: Option<Place> = if event.is_none() { Some(named(&mut asked.params)?) } else { None };
    let wants_whole = asked.params.flag("whole")?.unwrap_or(false);
    asked
        .fragment(move |reading| {
            let transcript = &reading.opened.transcript;
            let failed = |error| reading.opened.failed(&error);
            // A model call may only refer to what it was given.
            let whole = match event {
                Some(event) => transcript.reader().whole(event).map_err(failed)?.map(|whole| (event, whole)),
                None => None,
            };
            if let Some((event, whole)) = &whole
                && wants_whole
            {
                let json = transcript.reader().whole_json(whole.clone(), limits::RAW_BYTES);
                return Ok(transcript::whole(&reading.place(&[]), &json.map_err(failed)?, *event));
            }
            let of_event = event.and_then(|event| transcript.index().event(event).map(|event| event.place));
            let at = within(transcript, of_event.or(place).ok_or_else(nothing)?)?;
            let json = transcript.reader().json(at, limits::RAW_BYTES);
            let refers = whole.map(|(event, _)| event);
            Ok(transcript::raw(&reading.place(&[]), &json.map_err(failed)?, refers))
        })
        .await
}

pub(super) async fn text(mut asked: Asked) -> Result<Response, ApiError> {
    let from: u64 = asked.params.value("from")?.unwrap_or(0);
    let at = named(&mut asked.params)?;
    asked
        .fragment(move |reading| {
            let at = within(&reading.opened.transcript, at)?;
            let (piece, next) = piece(&reading.opened.transcript, at, from, limits::MORE_TEXT_BYTES)?;
            Ok(transcript::more_text(&reading.place(&[]), &piece, at, next))
        })
        .await
}
