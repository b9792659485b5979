//! What is said once on the next page. It travels in a cookie, so that the address of a page stays clean.

use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_TYPE, SET_COOKIE};
use axum::middleware::Next;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ct_pages::Flash;
use serde::{Deserialize, Serialize};

use super::{answer, cookies};

const COOKIE: &str = "ct_flash";
const MAX_AGE_SECONDS: u64 = 60;
/// Browsers keep cookies of 4096 bytes.
const RESTORABLE_MAX: usize = 50;
const SENTENCE_CHARS_MAX: usize = 300;

#[derive(Serialize, Deserialize)]
struct Kept {
    sentence: String,
    is_error: bool,
    restorable: Vec<String>,
}

/// 303: something was done, or not; the page says so.
pub(super) fn done(address: &str, flash: &Flash, secure: bool) -> Response {
    let restorable = &flash.restorable;
    let kept = Kept {
        sentence: flash.sentence.chars().take(SENTENCE_CHARS_MAX).collect(),
        is_error: flash.is_error,
        restorable: if restorable.len() > RESTORABLE_MAX { Vec::new() } else { restorable.clone() },
    };
    let mut response = answer::to(address);
    if let Ok(json) = serde_json::to_vec(&kept) {
        let value = URL_SAFE_NO_PAD.encode(json);
        response
            .headers_mut()
            .append(SET_COOKIE, cookies::set(COOKIE, &value, Some(MAX_AGE_SECONDS), secure));
    }
    response
}

/// What is to be said now. It is text of ours, but cookies can be set by others: it is shown as text.
pub(super) fn of(headers: &HeaderMap) -> Option<Flash> {
    let json = URL_SAFE_NO_PAD.decode(cookies::get(headers, COOKIE)?).ok()?;
    let Kept { sentence, is_error, restorable } = serde_json::from_slice(&json).ok()?;
    Some(Flash { sentence, is_error, restorable })
}

/// Forgets it when a page has said it.
pub(super) async fn forget(request: Request, next: Next) -> Response {
    let is_there = cookies::get(request.headers(), COOKIE).is_some();
    let mut response = next.run(request).await;
    let is_page =
        response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
    if is_there && is_page {
        response.headers_mut().append(SET_COOKIE, cookies::set(COOKIE, "", Some(0), false));
    }
    response
}
