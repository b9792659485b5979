//! `GET /api/audit`: who changed what, when, and from where.

use axum::Json;
use axum::extract::State;
use ct_model::{AuditPage, AuditQuery};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::auth::Admin;
use crate::error::{ApiError, ErrorEnvelope};
use crate::extract::Params;
use crate::limits;
use crate::paging::Paging;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct AuditParams {
    /// What this user did.
    actor: Option<String>,
    /// What was done to this, such as `run 3f2a`, `trajectory 77`, `user ana`.
    subject: Option<String>,
    /// What was done like this, such as `run.edit`.
    action: Option<String>,
    /// How many rows; the server gives no more than a page of a list has.
    #[param(minimum = 1)]
    limit: Option<u64>,
    /// Where the page before ended, as its `next_cursor` said. Rows are only ever added, before the first page.
    cursor: Option<String>,
}

/// The audit log, newest first. It is never altered; every write adds to it.
#[utoipa::path(get, path = "/api/audit", tag = "accounts", params(AuditParams), responses(
    (status = 200, description = "A page of rows.", body = AuditPage),
    (status = 400, description = "A parameter cannot be understood.", body = ErrorEnvelope),
    (status = 401, description = "A token is needed.", body = ErrorEnvelope),
    (status = 403, description = "It is for administrators.", body = ErrorEnvelope)))]
async fn list(
    State(app): State<App>,
    _: Admin,
    Params(params): Params<AuditParams>,
) -> Result<Json<AuditPage>, ApiError> {
    let before = params.cursor.map(|cursor| cursor.parse::<u64>()).transpose();
    let before = before.map_err(|_| ApiError::invalid("the cursor is not one that a page gave"))?;
    let window = Paging::of_limit(params.limit).window(limits::PAGE_SIZE_MAX)?;
    let (limit, warnings) = (window.page_size, window.warnings);
    let query = AuditQuery {
        actor: params.actor,
        subject: params.subject,
        action: params.action,
        before,
        // One more says whether there is a next page.
        limit: limit + 1,
    };
    app.blocking(move |app| {
        let mut items = app.store.audit_rows(&query)?;
        let more = items.len() as u64 > limit;
        items.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        let next_cursor = items.last().filter(|_| more).map(|row| row.audit_id.to_string());
        Ok(Json(AuditPage { items, next_cursor, page_size: limit, warnings }))
    })
    .await
}
