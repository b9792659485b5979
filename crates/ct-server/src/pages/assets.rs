//! `/assets/…`: names change with what is in them, so browsers may keep them for good.

use axum::Router;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use ct_pages::Asset;

use crate::app::App;
use crate::error::ApiError;

pub(super) fn routes() -> Router<App> {
    Router::new().route("/assets/{name}", get(asset))
}

async fn asset(uri: Uri, headers: HeaderMap) -> Result<Response, ApiError> {
    let asset = Asset::find(uri.path()).ok_or_else(|| ApiError::not_found("there is no such file"))?;
    let kept = [(ETAG, asset.etag()), (CACHE_CONTROL, "public, max-age=31536000, immutable")];
    let known = headers.get_all(IF_NONE_MATCH).iter().any(|tags| {
        tags.to_str().is_ok_and(|tags| {
            tags.split(',')
                .any(|tag| tag.trim() == "*" || tag.trim().trim_start_matches("W/") == asset.etag())
        })
    });
    if known {
        return Ok((StatusCode::NOT_MODIFIED, kept).into_response());
    }
    Ok((kept, [(CONTENT_TYPE, asset.content_type())], asset.body()).into_response())
}
