//! `/runs`: the table of runs.

use axum::Router;
use axum::extract::State;
use axum::http::Uri;
use axum::response::{Html, IntoResponse as _, Response};
use axum::routing::get;
use ct_model::RunQuery;
use ct_pages::page;

use super::answer;
use super::listing::Listing;
use super::visitor::Visitor;
use crate::app::App;
use crate::error::ApiError;
use crate::routes::runs;

pub(super) fn routes() -> Router<App> {
    Router::new().route("/runs", get(list))
}

async fn list(State(app): State<App>, visitor: Visitor, uri: Uri) -> Result<Response, ApiError> {
    let listing = match Listing::read(&uri, &page::runs::PARAMETERS) {
        Ok(listing) => listing,
        Err(address) => return Ok(answer::to(&address)),
    };
    let mut filters = listing.filters();
    let query =
        RunQuery { cursor: listing.cursor(), limit: Some(listing.limit), ..runs::query(&mut filters)? };
    app.blocking(move |app| {
        let found = app.store.runs(&query)?;
        let span = listing.span(found.items.len(), found.total_count);
        Ok(Html(page::runs::page(&visitor.visit, &listing.query, &found, span)).into_response())
    })
    .await
}
