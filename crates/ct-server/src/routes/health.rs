//! `GET /api/health`: is it up, what is it. `GET /api/ready`: can it do its work. Both without a token.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::error::{ApiError, ErrorEnvelope};

/// What the server is.
#[derive(Debug, Serialize, ToSchema)]
struct Health {
    /// Always `ok`.
    status: &'static str,
    /// Always `ct`; other servers of the protocol say something else, or nothing.
    server: &'static str,
    /// Version and commit.
    version: &'static str,
}

/// Whether the server can do its work.
#[derive(Debug, Serialize, ToSchema)]
struct Ready {
    /// Always `ready`.
    status: &'static str,
}

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(health)).routes(routes!(ready))
}

/// The server is up.
#[utoipa::path(get, path = "/api/health", tag = "health", responses((status = 200, body = Health)))]
async fn health(State(app): State<App>) -> Json<Health> {
    Json(Health { status: "ok", server: "ct", version: app.config.version })
}

/// The server can do its work: its database answers.
#[utoipa::path(get, path = "/api/ready", tag = "health", responses((status = 200, body = Ready),
    (status = 503, description = "The database does not answer.", body = ErrorEnvelope)))]
async fn ready(State(app): State<App>) -> Result<Json<Ready>, ApiError> {
    let asked = app.blocking(|app| Ok(app.store.resolve_run_with_deleted("ready?").is_ok()));
    let failed = || ApiError::unavailable("the database does not answer").retry_after(5);
    match tokio::time::timeout(crate::limits::READY_TIMEOUT, asked).await {
        Ok(Ok(_)) => Ok(Json(Ready { status: "ready" })),
        _ => Err(failed()),
    }
}
