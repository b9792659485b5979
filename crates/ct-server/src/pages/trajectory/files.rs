//! Values of a sample as files: all of a text, images.

use std::io::Read as _;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ct_model::transcript::{Place, image_type};
use futures_util::stream;

use super::asked::Asked;
use crate::error::ApiError;
use crate::extract::Filters;
use crate::limits;
use crate::sample;
use crate::transcripts::Transcript;

pub(super) fn nothing() -> ApiError {
    ApiError::not_found("there is nothing at this place of the sample")
}

/// What an address names by where it lies.
pub(super) fn named(params: &mut Filters) -> Result<Place, ApiError> {
    let number = |params: &mut Filters, name: &str| {
        params.value::<u64>(name)?.ok_or_else(|| ApiError::invalid(format!("the parameter {name} is needed")))
    };
    Ok(Place { offset: number(params, "at")?, size_bytes: number(params, "size")? })
}

/// Whether it is in the sample, as far as that is there.
pub(super) fn within(transcript: &Transcript, place: Place) -> Result<Place, ApiError> {
    let end = place.offset.checked_add(place.size_bytes);
    let there = !place.is_empty() && end.is_some_and(|end| end <= transcript.spooled_bytes());
    if there { Ok(place) } else { Err(nothing()) }
}

/// A piece of a text, or of the JSON of anything else as it is written.
pub(super) fn piece(
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

/// All of a text, or the JSON of anything else, as plain text; or of an event with what it refers to.
pub(super) async fn part(mut asked: Asked) -> Result<Response, ApiError> {
    if let Some(event) = asked.params.value("event")? {
        return whole(asked, event).await;
    }
    let at = named(&mut asked.params)?;
    let transcript = asked
        .read(move |reading| {
            within(&reading.opened.transcript, at)?;
            Ok(Arc::clone(&reading.opened.transcript))
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

async fn whole(asked: Asked, event: usize) -> Result<Response, ApiError> {
    let reader = asked
        .read(move |reading| {
            let reader = reading.reader();
            let whole = reader.whole(event).map_err(|error| reading.opened.failed(&error))?;
            Ok(reader.read_whole(whole.ok_or_else(nothing)?))
        })
        .await?;
    let pieces = stream::unfold(Some(reader), |reader| async move {
        let mut reader = reader?;
        let read =
            tokio::task::spawn_blocking(move || sample::piece(&mut reader).map(|piece| (piece, reader)));
        match read.await.map_err(std::io::Error::other).flatten() {
            Ok((piece, reader)) => Some((Ok(piece.bytes), (!piece.last).then_some(reader))),
            Err(error) => Some((Err(error), None)),
        }
    });
    Ok(([(CONTENT_TYPE, "text/plain; charset=utf-8")], Body::from_stream(pieces)).into_response())
}

/// An image that lies in the sample as a data URI, when its bytes are those of one.
pub(super) async fn image(mut asked: Asked) -> Result<Response, ApiError> {
    let at = named(&mut asked.params)?;
    if at.size_bytes > limits::IMAGE_BYTES_MAX {
        return Err(ApiError::invalid("the image is too large to be shown"));
    }
    asked
        .read(move |reading| {
            let at = within(&reading.opened.transcript, at)?;
            let reader = reading.reader();
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
