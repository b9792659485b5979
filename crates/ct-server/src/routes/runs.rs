//! `/api/runs`: headers of runs, and their logs.

use axum::Json;
use axum::extract::{Path, State};
use ct_model::{RunHeader, RunId};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::auth::Reader;
use crate::error::ApiError;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(get_run))
}

/// One run's header.
#[utoipa::path(get, path = "/api/runs/{id}", tag = "runs", params(("id" = String, Path)),
    responses((status = 200, description = "the header"), (status = 404, description = "no such run")))]
async fn get_run(
    State(app): State<App>,
    _: Reader,
    Path(id): Path<String>,
) -> Result<Json<RunHeader>, ApiError> {
    let run = RunId::new(id.clone()).map_err(|_| ApiError::not_found(format!("run {id} was not found")))?;
    app.blocking(move |app| {
        let record = app.store.run(&run)?;
        if record.deleted_at.is_some() {
            return Err(ApiError::not_found(format!("run {run} was not found")));
        }
        Ok(Json(record.header))
    })
    .await
}
