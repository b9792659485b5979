//! `GET /metrics`: numbers for Prometheus.

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::auth::Reader;
use crate::error::{ApiError, ErrorEnvelope};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(metrics))
}

/// Requests by route, durations, bytes, connections and what the store holds, in the text format of OpenMetrics.
#[utoipa::path(get, path = "/metrics", tag = "health", responses(
    (status = 200, body = String, content_type = "application/openmetrics-text"),
    (status = 401, description = "A token is needed.", body = ErrorEnvelope)))]
async fn metrics(State(app): State<App>, _: Reader) -> Result<Response, ApiError> {
    let text = app.blocking(|app| app.metrics.text(app)).await?;
    Ok(([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text).into_response())
}
