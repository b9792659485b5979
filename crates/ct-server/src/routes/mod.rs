//! The routes, one file per resource, named as in their paths.

mod accounts;
mod audit;
pub(crate) mod comments;
mod datasets;
mod direct;
mod eval_logs;
mod health;
mod metrics;
mod objects;
mod openapi;
mod pricing;
mod register;
pub(crate) mod runs;
pub(crate) mod trajectories;
mod uploads;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::middleware;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use crate::app::App;
use crate::error::{ApiError, ErrorEnvelope};
use crate::{gate, limits, pages, request_log};

pub(crate) use accounts::{create as create_token, revoke as revoke_token, sign_in};

/// The description of the whole API, made from the handlers.
#[derive(OpenApi)]
#[openapi(info(title = "ct"), components(schemas(ErrorEnvelope)))]
struct Document;

fn api() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(Document::openapi())
        .merge(accounts::routes())
        .merge(audit::routes())
        .merge(comments::routes())
        .merge(datasets::routes())
        .merge(health::routes())
        .merge(runs::routes())
        .merge(eval_logs::routes())
        .merge(objects::routes())
        .merge(trajectories::routes())
        .merge(register::routes())
        .merge(pricing::routes())
        .merge(metrics::routes())
        .merge(openapi::routes())
        .merge(uploads::routes())
        .merge(direct::routes())
}

/// The OpenAPI document.
pub fn openapi() -> utoipa::openapi::OpenApi {
    openapi::complete(api().to_openapi())
}

pub(crate) fn router(app: App) -> Router {
    let (router, _) = api().split_for_parts();
    router
        .merge(pages::routes())
        .fallback(async || ApiError::not_found("there is no such route"))
        .method_not_allowed_fallback(async || {
            ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "this route does not take this method")
        })
        .layer(DefaultBodyLimit::max(limits::JSON_BYTES_MAX))
        .layer(CatchPanicLayer::new())
        .layer(middleware::from_fn_with_state(app.clone(), gate::pass))
        .layer(middleware::from_fn_with_state(app.clone(), gate::envelope))
        .layer(middleware::map_response(pages::answer::guard))
        .layer(middleware::from_fn_with_state(app.clone(), gate::count))
        .layer(middleware::from_fn(request_log::log))
        .with_state(app)
}
