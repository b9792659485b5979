//! `/api/datasets`: named lists of trajectories or runs, in versions that never change.

use axum::Json;
use axum::extract::{Path, State};
use ct_model::{
    Dataset, DatasetChange, DatasetEdit, DatasetKind, DatasetName, DatasetQuery, DatasetVersion,
    DatasetVersionQuery,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::auth::{Reader, Writer};
use crate::error::ApiError;
use crate::extract::{Body, Params};
use crate::limits;
use crate::paging::{Page, Paging};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(get_newest))
        .routes(routes!(versions, edit))
        .routes(routes!(get_version))
        .routes(routes!(lock, unlock))
}

/// The dataset of an address. What cannot be a name names nothing.
fn existing(name: String) -> Result<DatasetName, ApiError> {
    DatasetName::new(name)
        .map_err(|error| ApiError::not_found(format!("dataset {} was not found", error.text)))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ListParams {
    /// Only lists of these.
    kind: Option<DatasetKind>,
}

/// Datasets, newest first.
#[utoipa::path(get, path = "/api/datasets", tag = "datasets", params(ListParams, Paging),
    responses((status = 200, body = Page<Dataset>), (status = 400, description = "not a kind, page or cursor"),
        (status = 401, description = "no token")))]
async fn list(
    State(app): State<App>,
    _: Reader,
    Params(ListParams { kind }): Params<ListParams>,
    Params(paging): Params<Paging>,
) -> Result<Json<Page<Dataset>>, ApiError> {
    let window = paging.window(limits::PAGE_SIZE_MAX)?;
    app.blocking(move |app| {
        let query = DatasetQuery {
            kind,
            limit: Some(window.page_size),
            cursor: window.cursor.clone(),
            skip: window.skip,
        };
        let page = app.store.datasets(&query)?;
        Ok(Json(Page::new(&window, page.items, page.total_count, page.next_cursor)))
    })
    .await
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ItemsParams {
    /// `false`: without the items.
    #[serde(default = "yes")]
    item_ids: bool,
}

fn yes() -> bool {
    true
}

async fn read(
    app: App,
    name: String,
    version: Option<u64>,
    items: bool,
) -> Result<Json<DatasetVersion>, ApiError> {
    let name = existing(name)?;
    app.blocking(move |app| {
        let mut found = app.store.dataset(&name, version)?;
        if !items {
            found.item_ids = None;
        }
        Ok(Json(found))
    })
    .await
}

/// The newest version of a dataset.
#[utoipa::path(get, path = "/api/datasets/{name}", tag = "datasets", params(("name" = String, Path), ItemsParams),
    responses((status = 200, body = DatasetVersion), (status = 401, description = "no token"),
        (status = 404, description = "no such dataset")))]
async fn get_newest(
    State(app): State<App>,
    _: Reader,
    Path(name): Path<String>,
    Params(items): Params<ItemsParams>,
) -> Result<Json<DatasetVersion>, ApiError> {
    read(app, name, None, items.item_ids).await
}

/// One version of a dataset.
#[utoipa::path(get, path = "/api/datasets/{name}/versions/{version}", tag = "datasets",
    params(("name" = String, Path), ("version" = u64, Path, minimum = 1), ItemsParams),
    responses((status = 200, body = DatasetVersion), (status = 401, description = "no token"),
        (status = 404, description = "no such dataset or version")))]
async fn get_version(
    State(app): State<App>,
    _: Reader,
    Path((name, version)): Path<(String, String)>,
    Params(items): Params<ItemsParams>,
) -> Result<Json<DatasetVersion>, ApiError> {
    let Ok(number) = version.parse() else {
        return Err(ApiError::not_found(format!("version {version} of dataset {name} was not found")));
    };
    read(app, name, Some(number), items.item_ids).await
}

/// The versions of a dataset, newest first. A page tells 200,000 item ids at most; versions behind those come without
/// `item_ids`, and are to be asked for one by one.
#[utoipa::path(get, path = "/api/datasets/{name}/versions", tag = "datasets",
    params(("name" = String, Path), ItemsParams, Paging),
    responses((status = 200, body = Page<DatasetVersion>), (status = 400, description = "not a page or cursor"),
        (status = 401, description = "no token"), (status = 404, description = "no such dataset")))]
async fn versions(
    State(app): State<App>,
    _: Reader,
    Path(name): Path<String>,
    Params(items): Params<ItemsParams>,
    Params(paging): Params<Paging>,
) -> Result<Json<Page<DatasetVersion>>, ApiError> {
    let name = existing(name)?;
    let window = paging.window(limits::PAGE_SIZE_MAX)?;
    app.blocking(move |app| {
        let query = DatasetVersionQuery {
            item_ids_max: if items.item_ids { limits::DATASET_IDS_MAX } else { 0 },
            limit: Some(window.page_size),
            cursor: window.cursor.clone(),
            skip: window.skip,
        };
        let page = app.store.dataset_versions(&name, &query)?;
        Ok(Json(Page::new(&window, page.items, page.total_count, page.next_cursor)))
    })
    .await
}

/// Publishes a version with exactly these `item_ids`, or makes one of the newest by `add` and `remove`. No version is
/// made when nothing would change.
#[utoipa::path(post, path = "/api/datasets/{name}/versions", tag = "datasets", params(("name" = String, Path)),
    request_body = DatasetEdit,
    responses((status = 200, body = DatasetChange),
        (status = 400, description = "not a name, ids that name nothing, or none of the three forms"),
        (status = 401, description = "no token"), (status = 403, description = "the token may not write"),
        (status = 404, description = "there is no such dataset to edit"),
        (status = 409, description = "it is locked, of the other kind, or not at `if_version`"),
        (status = 413, description = "the body is too large")))]
async fn edit(
    State(app): State<App>,
    Writer(caller): Writer,
    Path(name): Path<String>,
    Body(edit): Body<DatasetEdit>,
) -> Result<Json<DatasetChange>, ApiError> {
    let name = DatasetName::new(name).map_err(|error| {
        ApiError::invalid(error.to_string().replacen("an id", "the name of a dataset", 1))
    })?;
    app.blocking(move |app| Ok(Json(app.store.edit_dataset(&name, &edit, &caller.actor())?))).await
}

/// Why a dataset is locked.
#[derive(Debug, Deserialize, ToSchema)]
struct LockBody {
    /// At most 1,000 characters.
    #[serde(default)]
    reason: Option<String>,
}

/// A lock.
#[derive(Debug, Serialize, ToSchema)]
struct Locked {
    #[schema(value_type = String)]
    name: DatasetName,
    /// Absent for someone at the command line of the data folder.
    locked_by: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    locked_at: Timestamp,
    reason: Option<String>,
}

/// Makes a dataset refuse new versions.
#[utoipa::path(put, path = "/api/datasets/{name}/lock", tag = "datasets", params(("name" = String, Path)),
    request_body = LockBody,
    responses((status = 200, body = Locked), (status = 400, description = "a reason too long"),
        (status = 401, description = "no token"), (status = 403, description = "the token may not write"),
        (status = 404, description = "no such dataset")))]
async fn lock(
    State(app): State<App>,
    Writer(caller): Writer,
    Path(name): Path<String>,
    Body(body): Body<LockBody>,
) -> Result<Json<Locked>, ApiError> {
    let name = existing(name)?;
    app.blocking(move |app| {
        let lock = app.store.lock_dataset(&name, body.reason.as_deref(), &caller.actor())?;
        Ok(Json(Locked { name, locked_by: lock.locked_by, locked_at: lock.locked_at, reason: lock.reason }))
    })
    .await
}

/// Whether something was there to be undone.
#[derive(Debug, Serialize, ToSchema)]
struct Unlocked {
    was_locked: bool,
}

/// Makes a dataset take new versions again.
#[utoipa::path(delete, path = "/api/datasets/{name}/lock", tag = "datasets", params(("name" = String, Path)),
    responses((status = 200, body = Unlocked), (status = 401, description = "no token"),
        (status = 403, description = "the token may not write"), (status = 404, description = "no such dataset")))]
async fn unlock(
    State(app): State<App>,
    Writer(caller): Writer,
    Path(name): Path<String>,
) -> Result<Json<Unlocked>, ApiError> {
    let name = existing(name)?;
    app.blocking(move |app| {
        Ok(Json(Unlocked { was_locked: app.store.unlock_dataset(&name, &caller.actor())? }))
    })
    .await
}
