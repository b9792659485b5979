//! `/`: where to begin.

use axum::Router;
use axum::extract::State;
use axum::response::Html;
use axum::routing::get;
use ct_model::{DatasetQuery, RunQuery, TrajectoryQuery};
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
        let runs = app.store.runs(&RunQuery { limit: Some(NEWEST), ..RunQuery::default() })?;
        let sets = app.store.datasets(&DatasetQuery { limit: Some(NEWEST), ..DatasetQuery::default() })?;
        // The index knows how many there are; counting rows takes its time.
        let one = TrajectoryQuery { limit: Some(1), ..TrajectoryQuery::default() };
        let trajectory_count = app.store.trajectory_ids(&one)?.total_count;
        Ok(Html(page::home::page(&visitor.visit, trajectory_count, &runs, &sets)))
    })
    .await
}
