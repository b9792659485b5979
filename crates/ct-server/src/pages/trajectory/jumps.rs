//! Where to go on in a transcript: steps that hold a text, actions that a monitor found suspicious.

use axum::response::{IntoResponse as _, Response};
use ct_model::transcript::Search;
use serde_json::json;

use super::asked::Asked;
use crate::error::ApiError;
use crate::limits;

/// Steps that hold a text: some of them, and where to go on.
pub(super) async fn find(mut asked: Asked) -> Result<Response, ApiError> {
    let text = asked.params.text("q").unwrap_or_default();
    let from: usize = asked.params.value("from")?.unwrap_or(0);
    let search =
        Search::new(&text).ok_or_else(|| ApiError::invalid("what is searched for is empty or too long"))?;
    asked
        .read(move |reading| {
            let reader = reading.reader();
            let found = search.run(&reader, from, limits::FIND_HITS, limits::FIND_BYTES);
            let (hits, next) = found.map_err(|error| reading.opened.failed(&error.into()))?;
            let hits: Vec<_> =
                hits.iter().map(|hit| json!({"step": hit.step, "action": hit.action})).collect();
            Ok(axum::Json(json!({"hits": hits, "next": next})).into_response())
        })
        .await
}

/// The next action with a suspicion of at least `least`: behind `after`, or before `before`.
pub(super) async fn suspicious(mut asked: Asked) -> Result<Response, ApiError> {
    let least: f32 = asked.params.value("least")?.unwrap_or(0.0);
    let after: Option<u32> = asked.params.value("after")?;
    let before: Option<u32> = asked.params.value("before")?;
    asked
        .read(move |reading| {
            let index = reading.opened.transcript.index();
            let action = match before {
                Some(_) => index.previous_suspicious(before, least),
                None => index.next_suspicious(after, least),
            };
            Ok(axum::Json(json!({"action": action})).into_response())
        })
        .await
}
