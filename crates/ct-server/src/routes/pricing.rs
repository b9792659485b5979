//! `GET /api/pricing`: the rates that the server was given.

use axum::Json;
use axum::extract::State;
use ct_model::PriceRow;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::auth::Reader;
use crate::error::{ApiError, ErrorEnvelope};
use crate::extract::Params;
use crate::limits;
use crate::paging::{Page, Paging};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(pricing))
}

/// Prices by model: those of the rate file that the server was started with, or none. All of them are on one page
/// unless pages are asked for.
#[utoipa::path(get, path = "/api/pricing", tag = "pricing", params(Paging), responses(
    (status = 200, body = Page<PriceRow>),
    (status = 400, description = "A parameter cannot be understood.", body = ErrorEnvelope),
    (status = 401, description = "A token is needed.", body = ErrorEnvelope)))]
async fn pricing(
    State(app): State<App>,
    _: Reader,
    Params(paging): Params<Paging>,
) -> Result<Json<Page<PriceRow>>, ApiError> {
    let window = paging.window_of(limits::PRICES_PAGE_SIZE_MAX, limits::PRICES_PAGE_SIZE_MAX)?;
    let rows = app.config.prices.rows();
    let total = rows.len() as u64;
    let start = usize::try_from(window.skip).unwrap_or(usize::MAX);
    let size = usize::try_from(window.page_size).unwrap_or(usize::MAX);
    let items = rows.skip(start).take(size).collect();
    Ok(Json(Page::new(&window, items, total, None)))
}
