//! `/`: where to begin.

use axum::Router;
use axum::extract::State;
use axum::response::Html;
use axum::routing::get;
use ct_model::{DatasetQuery, RunQuery};
use ct_pages::page;

use super::visitor::Visitor;
use crate::app::App;
use crate::error::ApiError;

/// Rows of each list.
const NEWEST: u64 = 8;

pub(super) fn routes() -> Router<App> {
    Router::new().route("/", get(home))
}

async fn home(State(app): State<App>, visitor: Visitor) -> Result<Html<String>, ApiError> {
    app.blocking(move |app| {
        let totals = app.store.totals()?;
        let runs = app.store.runs(&RunQuery { limit: Some(NEWEST), ..RunQuery::default() })?;
        let sets = app.store.datasets(&DatasetQuery { limit: Some(NEWEST), ..DatasetQuery::default() })?;
        let totals = page::home::Totals {
            runs: runs.total_count,
            trajectories: totals.trajectories,
            logs_size_bytes: totals.logs_size_bytes,
        };
        Ok(Html(page::home::page(&visitor.visit, totals, &runs, &sets)))
    })
    .await
}
