//! `/`: where to begin.

use axum::Router;
use axum::response::Html;
use axum::routing::get;
use ct_pages::page;

use super::visitor::Visitor;
use crate::app::App;
use crate::error::ApiError;

pub(super) fn routes() -> Router<App> {
    Router::new().route("/", get(home))
}

async fn home(visitor: Visitor) -> Result<Html<String>, ApiError> {
    Ok(Html(page::home::page(&visitor.visit)))
}
