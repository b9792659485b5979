//! Pieces of a sample: more of a text, of the events of a step, of what a model was given; raw JSON; images; what is
//! found. Named by numbers, and by where they lie in the sample's JSON.

use std::io::Read as _;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{Html, IntoResponse as _, Response};
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ct_log::json::JsonError;
use ct_model::transcript::{Place, Search, image_type};
use ct_pages::transcript;
use futures_util::stream;
use serde::Serialize;
use serde_json::json;

use super::{Opened, Visitor, filter, opened, place};
use crate::app::App;
use crate::error::{ApiError, causes};
use crate::extract::{Filters, Path};
use crate::limits;
use crate::routes::trajectories::trajectory_id;
use crate::transcripts::Transcript;

/// Events that come with one request for more.
const MORE_EVENTS: usize = 25;
/// Messages that come with one request for more of what a model was given.
const MORE_MESSAGES: usize = 20;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/trajectories/{id}/events", get(events))
        .route("/trajectories/{id}/input", get(input))
        .route("/trajectories/{id}/raw", get(raw))
        .route("/trajectories/{id}/text", get(text))
        .route("/trajectories/{id}/part", get(part))
        .route("/trajectories/{id}/image", get(image))
        .route("/trajectories/{id}/find", get(find))
        .route("/trajectories/{id}/suspicious", get(suspicious))
}

/// A step that cannot be read although the sample could.
pub(super) fn failed(opened: &Opened, error: &JsonError) -> ApiError {
    let id = opened.found.document.trajectory_id.as_ref();
    tracing::error!(trajectory = ?id, cause = %causes(error), "a part of a stored sample cannot be read");
    ApiError::damaged("this part of the stored sample cannot be read; `ct store check` tells more")
}

fn nothing() -> ApiError {
    ApiError::not_found("there is nothing at this place of the sample")
}

/// What an address names by where it lies.
fn named(params: &mut Filters) -> Result<Place, ApiError> {
    let number = |params: &mut Filters, name: &str| {
        params.value::<u64>(name)?.ok_or_else(|| ApiError::invalid(format!("the parameter {name} is needed")))
    };
    Ok(Place { offset: number(params, "at")?, size_bytes: number(params, "size")? })
}

/// Whether it is in the sample, as far as that is there.
fn within(transcript: &Transcript, place: Place) -> Result<Place, ApiError> {
    let end = place.offset.checked_add(place.size_bytes);
    let there = !place.is_empty() && end.is_some_and(|end| end <= transcript.spooled_bytes());
    if there { Ok(place) } else { Err(nothing()) }
}

fn fragment(markup: ct_pages::Markup) -> Response {
    Html(markup.into_string()).into_response()
}

async fn events(
    State(app): State<App>,
    visitor: Visitor,
    Path(id): Path<String>,
    uri: axum::http::Uri,
    mut params: Filters,
) -> Result<Response, ApiError> {
    let id = trajectory_id(&id)?;
    let step = params.value("step")?.unwrap_or(0);
    let from = params.value("from")?.unwrap_or(0);
    app.blocking(move |app| {
        let opened = opened(app, &id)?;
        let events = opened.transcript.reader().more_events(step, from, MORE_EVENTS);
        let events = events.map_err(|error| failed(&opened, &error))?;
        let (id, filter) = (id.to_string(), filter(&uri));
        let place = place(&id, &opened, &filter, &visitor);
        Ok(fragment(transcript::more_events(&place, step, from, &events, MORE_EVENTS)))
    })
    .await
}

async fn input(
    State(app): State<App>,
    visitor: Visitor,
    Path(id): Path<String>,
    uri: axum::http::Uri,
    mut params: Filters,
) -> Result<Response, ApiError> {
    let id = trajectory_id(&id)?;
    let event: usize = params.value("event")?.unwrap_or(0);
    let from: usize = params.value("from")?.unwrap_or(0);
    app.blocking(move |app| {
        let opened = opened(app, &id)?;
        let input = opened.transcript.reader().input(event, from, MORE_MESSAGES);
        let input = input.map_err(|error| failed(&opened, &error))?;
        let (id, filter) = (id.to_string(), filter(&uri));
        let place = place(&id, &opened, &filter, &visitor);
        Ok(fragment(transcript::more_input(&place, &input, event)))
    })
    .await
}

async fn raw(
    State(app): State<App>,
    visitor: Visitor,
    Path(id): Path<String>,
    uri: axum::http::Uri,
    mut params: Filters,
) -> Result<Response, ApiError> {
    let id = trajectory_id(&id)?;
    let event: Option<usize> = params.value("event")?;
    app.blocking(move |app| {
        let opened = opened(app, &id)?;
        let at = match event {
            Some(event) => {
                opened.transcript.index().event(event).map(|event| event.place).ok_or_else(nothing)?
            }
            None => named(&mut params)?,
        };
        let at = within(&opened.transcript, at)?;
        let json = opened.transcript.reader().json(at, limits::RAW_BYTES);
        let json = json.map_err(|error| failed(&opened, &error))?;
        let (id, filter) = (id.to_string(), filter(&uri));
        let place = place(&id, &opened, &filter, &visitor);
        Ok(fragment(transcript::raw(&place, &json)))
    })
    .await
}

async fn text(
    State(app): State<App>,
    visitor: Visitor,
    Path(id): Path<String>,
    uri: axum::http::Uri,
    mut params: Filters,
) -> Result<Response, ApiError> {
    let id = trajectory_id(&id)?;
    let from: u64 = params.value("from")?.unwrap_or(0);
    let at = named(&mut params)?;
    app.blocking(move |app| {
        let opened = opened(app, &id)?;
        let at = within(&opened.transcript, at)?;
        let (piece, next) = piece(&opened.transcript, at, from, limits::MORE_TEXT_BYTES)?;
        let (id, filter) = (id.to_string(), filter(&uri));
        let place = place(&id, &opened, &filter, &visitor);
        Ok(fragment(transcript::more_text(&place, &piece, at, next)))
    })
    .await
}

/// A piece of a text, or of the JSON of anything else as it is written.
fn piece(
    transcript: &Transcript,
    at: Place,
    from: u64,
    bytes_max: usize,
) -> Result<(String, Option<u64>), ApiError> {
    let reader = transcript.reader();
    let mut first = [0];
    let mut json = reader.raw(Place { size_bytes: 1, ..at }).map_err(|_| nothing())?;
    json.read_exact(&mut first).map_err(|_| nothing())?;
    if first == *b"\"" {
        return reader.piece(at, from, bytes_max).map_err(|_| nothing());
    }
    let left = at.size_bytes.checked_sub(from).ok_or_else(nothing)?;
    let wanted = left.min(bytes_max as u64);
    let json = reader.raw(Place { offset: at.offset + from, size_bytes: wanted }).map_err(|_| nothing())?;
    let mut bytes = Vec::with_capacity(wanted as usize);
    json.take(wanted).read_to_end(&mut bytes).map_err(|_| nothing())?;
    // A character that is cut comes whole with the next piece.
    if let Err(error) = std::str::from_utf8(&bytes)
        && error.error_len().is_none()
        && wanted < left
    {
        bytes.truncate(error.valid_up_to());
    }
    let end = from + bytes.len() as u64;
    let next = (end < at.size_bytes && !bytes.is_empty()).then_some(end);
    Ok((String::from_utf8_lossy(&bytes).into_owned(), next))
}

/// All of a text, or the JSON of anything else, as plain text.
async fn part(
    State(app): State<App>,
    _: Visitor,
    Path(id): Path<String>,
    mut params: Filters,
) -> Result<Response, ApiError> {
    let id = trajectory_id(&id)?;
    let at = named(&mut params)?;
    let transcript = app
        .blocking(move |app| {
            let opened = opened(app, &id)?;
            within(&opened.transcript, at)?;
            Ok(opened.transcript)
        })
        .await?;
    let pieces = stream::unfold((transcript, Some(0)), move |(transcript, from)| async move {
        let from = from?;
        let reading = Arc::clone(&transcript);
        let read = move || piece(&reading, at, from, limits::STREAM_PIECE_BYTES);
        match tokio::task::spawn_blocking(read).await {
            Ok(Ok((text, next))) => Some((Ok(Bytes::from(text)), (transcript, next))),
            _ => Some((Err(std::io::Error::other("the sample cannot be read")), (transcript, None))),
        }
    });
    Ok(([(CONTENT_TYPE, "text/plain; charset=utf-8")], Body::from_stream(pieces)).into_response())
}

/// An image that lies in the sample as a data URI, when its bytes are those of one.
async fn image(
    State(app): State<App>,
    _: Visitor,
    Path(id): Path<String>,
    mut params: Filters,
) -> Result<Response, ApiError> {
    let id = trajectory_id(&id)?;
    let at = named(&mut params)?;
    if at.size_bytes > limits::IMAGE_BYTES_MAX {
        return Err(ApiError::invalid("the image is too large to be shown"));
    }
    app.blocking(move |app| {
        let opened = opened(app, &id)?;
        let at = within(&opened.transcript, at)?;
        let reader = opened.transcript.reader();
        let (text, _) = reader.piece(at, 0, limits::IMAGE_BYTES_MAX as usize).map_err(|_| nothing())?;
        let no_image =
            || ApiError::not_found("there is no image that can be shown at this place of the sample");
        let (head, data) = text.split_once(',').ok_or_else(no_image)?;
        let head = head.to_ascii_lowercase();
        if !head.starts_with("data:image/") || !head.ends_with(";base64") {
            return Err(no_image());
        }
        let bytes = STANDARD.decode(data.trim()).map_err(|_| no_image())?;
        let kind = image_type(&bytes).ok_or_else(no_image)?;
        let headers = [
            (CONTENT_TYPE, kind),
            (CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox; frame-ancestors 'none'"),
            (CACHE_CONTROL, "private, max-age=600"),
        ];
        Ok((headers, [("cross-origin-resource-policy", "same-origin")], bytes).into_response())
    })
    .await
}

#[derive(Serialize)]
struct FoundStep {
    step: usize,
    action: Option<u32>,
}

/// Steps that hold a text: some of them, and where to go on.
async fn find(
    State(app): State<App>,
    _: Visitor,
    Path(id): Path<String>,
    mut params: Filters,
) -> Result<Response, ApiError> {
    let id = trajectory_id(&id)?;
    let text = params.text("q").unwrap_or_default();
    let from: usize = params.value("from")?.unwrap_or(0);
    let search =
        Search::new(&text).ok_or_else(|| ApiError::invalid("what is searched for is empty or too long"))?;
    app.blocking(move |app| {
        let opened = opened(app, &id)?;
        let reader = opened.transcript.reader();
        let found = search.run(&reader, from, limits::FIND_HITS, limits::FIND_BYTES);
        let (hits, next) = found.map_err(|error| ApiError::internal(&error))?;
        let hits: Vec<FoundStep> =
            hits.into_iter().map(|hit| FoundStep { step: hit.step, action: hit.action }).collect();
        Ok(axum::Json(json!({"hits": hits, "next": next})).into_response())
    })
    .await
}

/// The next action with a suspicion of at least `least`: behind `after`, or before `before`.
async fn suspicious(
    State(app): State<App>,
    _: Visitor,
    Path(id): Path<String>,
    mut params: Filters,
) -> Result<Response, ApiError> {
    let id = trajectory_id(&id)?;
    let least: f32 = params.value("least")?.unwrap_or(0.0);
    let after: Option<u32> = params.value("after")?;
    let before: Option<u32> = params.value("before")?;
    let back = params.flag("back")?.unwrap_or(false);
    app.blocking(move |app| {
        let opened = opened(app, &id)?;
        let index = opened.transcript.index();
        let action = if back || before.is_some() {
            index.previous_suspicious(before, least)
        } else {
            index.next_suspicious(after, least)
        };
        Ok(axum::Json(json!({"action": action})).into_response())
    })
    .await
}
