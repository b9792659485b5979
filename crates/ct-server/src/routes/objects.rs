//! `/objects`: logs themselves, by signed addresses without a token. See [`crate::signing`].

use axum::extract::{Request, State};
use axum::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG,
    EXPECT, IF_NONE_MATCH, IF_RANGE, RANGE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ct_model::ObjectKey;
use ct_store::{Actor, Conflict, StoreError, StoredObject};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::error::ApiError;
use crate::extract::{Params, Path};
use crate::signing::{Signature, SignatureError};
use crate::{auth, body, limits, shown};

const REPR_DIGEST: HeaderName = HeaderName::from_static("repr-digest");

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(get_object, put_object))
}

/// Checks the address, and says which log it is.
fn check(
    app: &App,
    method: &str,
    (bucket, key): &(String, String),
    signature: &Signature,
) -> Result<ObjectKey, ApiError> {
    app.signer.check(method, key, signature, app.store.now()).map_err(|error| {
        ApiError::forbidden(match error {
            SignatureError::Expired => "the address has expired; ask for a new one",
            SignatureError::Wrong => "the address is not one that this server made",
        })
    })?;
    let not_found = || ApiError::not_found(format!("log {key} was not found"));
    if *bucket != app.config.bucket {
        return Err(not_found());
    }
    key.parse().map_err(|_| not_found())
}

/// Read a log, or a range of it.
#[utoipa::path(get, path = "/objects/{bucket}/{key}", tag = "uploads",
    params(("bucket" = String, Path), ("key" = String, Path), ("expires" = u64, Query), ("signature" = String, Query)),
    security(()), responses(
    (status = 200, description = "the bytes", content_type = "application/octet-stream"),
    (status = 206, description = "the range that was asked for", content_type = "application/octet-stream"),
    (status = 302, description = "the bucket that has it, by an address good for minutes"),
    (status = 304, description = "the caller has it already"),
    (status = 403, description = "the address is not good, or not any more"),
    (status = 404, description = "it is not there"), (status = 416, description = "the range lies outside")))]
async fn get_object(
    State(app): State<App>,
    Path(path): Path<(String, String)>,
    Params(signature): Params<Signature>,
    request: Request,
) -> Result<Response, ApiError> {
    let (parts, _) = request.into_parts();
    let key = check(&app, "GET", &path, &signature)?;
    auth::stays(&parts.extensions);
    let (object, elsewhere) = app
        .blocking(move |app| {
            let object = app.store.object(&key)?;
            let object = object.ok_or_else(|| ApiError::not_found(format!("log {key} was not found")))?;
            let elsewhere = if app.config.proxy_logs {
                None
            } else {
                app.store.presign_log(&object.log, &key.to_string(), limits::SIGNED_FOR)?
            };
            Ok((object, elsewhere))
        })
        .await?;
    match elsewhere {
        Some(address) => Ok(shown::redirect(address.url.as_str())),
        None => send(&app, &object, &parts.headers).await,
    }
}

async fn send(app: &App, object: &StoredObject, asked: &HeaderMap) -> Result<Response, ApiError> {
    let size_bytes = object.log.size_bytes;
    let e_tag = object.e_tag();
    let mut headers = HeaderMap::new();
    let mut set = |name, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    };
    set(ETAG, &e_tag);
    set(ACCEPT_RANGES, "bytes");
    set(CACHE_CONTROL, "private");
    set(REPR_DIGEST, &format!("sha-256=:{}:", STANDARD.encode(digest(object))));
    if asked.get(IF_NONE_MATCH).is_some_and(|tags| names(tags, &e_tag)) {
        return Ok((StatusCode::NOT_MODIFIED, headers).into_response());
    }
    let mut set = |name, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    };
    // A range of another log than the caller began with is of no use.
    let same = asked.get(IF_RANGE).is_none_or(|tag| tag.as_bytes() == e_tag.as_bytes());
    let range = asked.get(RANGE).and_then(|range| range.to_str().ok()).filter(|_| same);
    let (status, start, end) = match range.map_or(Range::Whole, |range| parse_range(range, size_bytes)) {
        Range::Whole => (StatusCode::OK, 0, size_bytes),
        Range::Part(start, end) => {
            set(CONTENT_RANGE, &format!("bytes {start}-{}/{size_bytes}", end - 1));
            (StatusCode::PARTIAL_CONTENT, start, end)
        }
        Range::Outside => {
            set(CONTENT_RANGE, &format!("bytes */{size_bytes}"));
            let sentence = format!("the range lies outside of the {size_bytes} bytes");
            let mut response = ApiError::new(StatusCode::RANGE_NOT_SATISFIABLE, sentence).into_response();
            response.headers_mut().extend(headers);
            return Ok(response);
        }
    };
    set(CONTENT_TYPE, "application/octet-stream");
    set(CONTENT_DISPOSITION, &format!("attachment; filename=\"{}\"", object.key));
    set(X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(CONTENT_LENGTH, &(end - start).to_string());
    let log = object.log.clone();
    let reader = app.blocking(move |app| {
        let source = app.store.open_log(&log)?;
        source.stream(start, end - start).map_err(|error| ApiError::internal(&error))
    });
    Ok((status, headers, body::of_reader(reader.await?)).into_response())
}

/// The SHA-256 as bytes.
fn digest(object: &StoredObject) -> Vec<u8> {
    let digits = object.log.hash.as_str();
    (0..digits.len())
        .step_by(2)
        .filter_map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok())
        .collect()
}

/// Whether a list of tags has this one, or is `*`.
fn names(tags: &HeaderValue, e_tag: &str) -> bool {
    let Ok(tags) = tags.to_str() else { return false };
    tags.split(',').map(str::trim).any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == e_tag)
}

#[derive(Debug, PartialEq, Eq)]
enum Range {
    /// None was asked for, or one that is not understood, which counts as none.
    Whole,
    /// From the first, up to and without the second.
    Part(u64, u64),
    /// It has no byte in common with the log.
    Outside,
}

/// One range. Several in one request are answered with the whole, as is allowed.
fn parse_range(text: &str, size_bytes: u64) -> Range {
    let parse = || {
        let (first, last) = text.strip_prefix("bytes=")?.trim().split_once('-')?;
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            digits.then(|| text.parse().unwrap_or(u64::MAX))
        };
        if first.is_empty() {
            let count = number(last)?.min(size_bytes);
            return Some((size_bytes - count, size_bytes));
        }
        let first = number(first)?;
        let last = if last.is_empty() { u64::MAX } else { number(last)? };
        (first <= last).then(|| (first, last.saturating_add(1).min(size_bytes)))
    };
    match parse() {
        None => Range::Whole,
        Some((start, end)) if start < end => Range::Part(start, end),
        Some(_) => Range::Outside,
    }
}

/// Put a log. It never takes the place of another.
#[utoipa::path(put, path = "/objects/{bucket}/{key}", tag = "uploads",
    params(("bucket" = String, Path), ("key" = String, Path), ("expires" = u64, Query), ("signature" = String, Query)),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"), security(()), responses(
    (status = 200, description = "it is stored; `ETag` is the MD5 of its bytes, in quotes"),
    (status = 400, description = "it has another length than was announced"),
    (status = 403, description = "the address is not good, or not any more"),
    (status = 404, description = "there is no such place"),
    (status = 412, description = "there is a log of this name meanwhile"),
    (status = 507, description = "the disk is full")))]
async fn put_object(
    State(app): State<App>,
    Path(path): Path<(String, String)>,
    Params(signature): Params<Signature>,
    request: Request,
) -> Result<Response, ApiError> {
    let (parts, sent) = request.into_parts();
    let checked = check(&app, "PUT", &path, &signature).and_then(|key| {
        let size =
            signature.size.ok_or_else(|| ApiError::forbidden("the address is not one for an upload"))?;
        match body::content_length(&parts.headers) {
            Some(length) if length != size => {
                Err(ApiError::invalid(format!("there are {length} bytes instead of {size}")))
            }
            _ => Ok((key, size)),
        }
    });
    let checked = match checked {
        Ok((key, size)) => {
            auth::stays(&parts.extensions);
            app.blocking(move |app| {
                app.store.check_key_is_free(&key).map_err(refused)?;
                Ok((key, size))
            })
            .await
        }
        refused => refused,
    };
    let (key, size_bytes) = match checked {
        Ok(checked) => checked,
        Err(error) => {
            // Who asks before sending has not sent yet.
            if !parts.headers.contains_key(EXPECT) {
                body::drain(sent).await;
            }
            return Err(error);
        }
    };
    let actor = Actor { user: signature.by, token_id: None, origin: auth::origin(&parts) };
    let put = body::read_body(&app, sent, move |app, source| {
        app.store.put_object(&key, size_bytes, source, &actor).map_err(refused)
    });
    let object = put.await?;
    Ok(([(ETAG, object.e_tag())], StatusCode::OK).into_response())
}

/// A name that is taken is a condition that failed, whether the client stated it or not.
fn refused(error: StoreError) -> ApiError {
    match &error {
        StoreError::Conflict(Conflict::ObjectTaken { .. } | Conflict::RunDeleted { .. }) => {
            ApiError::new(StatusCode::PRECONDITION_FAILED, error.to_string())
        }
        _ => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_to_the_log() {
        for (text, expected) in [
            ("bytes=0-0", Range::Part(0, 1)),
            ("bytes=2-5", Range::Part(2, 6)),
            ("bytes=2-", Range::Part(2, 10)),
            ("bytes=2-99", Range::Part(2, 10)),
            ("bytes=-3", Range::Part(7, 10)),
            ("bytes=-99", Range::Part(0, 10)),
            ("bytes=0-18446744073709551616", Range::Part(0, 10)),
            ("bytes=10-", Range::Outside),
            ("bytes=99-100", Range::Outside),
            ("bytes=-0", Range::Outside),
            ("bytes=5-2", Range::Whole),
            ("bytes=0-1,3-4", Range::Whole),
            ("bytes=+1-2", Range::Whole),
            ("bytes=-", Range::Whole),
            ("lines=0-1", Range::Whole),
        ] {
            assert_eq!(parse_range(text, 10), expected, "{text}");
        }
        assert_eq!(parse_range("bytes=0-", 0), Range::Outside);
    }
}
