//! `/api/datasets`: named lists of trajectories or runs, in versions that never change.

use axum::Json;
use axum::extract::State;
use ct_model::{
    Dataset, DatasetChange, DatasetEdit, DatasetKind, DatasetName, DatasetPage, DatasetQuery, DatasetVersion,
    DatasetVersionQuery,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::auth::{Reader, Writer};
use crate::error::{ApiError, ErrorEnvelope};
use crate::extract::{Body, Filters, Params, Path};
use crate::limits;
use crate::paging::{Page, Paging};
use crate::walks::{Part, Walker, page};

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

impl<T> From<DatasetPage<T>> for Part<T> {
    fn from(page: DatasetPage<T>) -> Self {
        Self { items: page.items, total_count: page.total_count, next_cursor: page.next_cursor }
    }
}

/// Which datasets.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes what list reads")]
struct ListParams {
    /// Only lists of these.
    kind: Option<DatasetKind>,
}

/// Datasets, newest first.
#[utoipa::path(get, path = "/api/datasets", tag = "datasets", params(ListParams, Paging), responses(
    (status = 200, description = "Datasets, each with its newest version.", body = Page<Dataset>),
    (status = 400, description = "A parameter cannot be understood.", body = ErrorEnvelope),
    (status = 401, description = "A token is needed.", body = ErrorEnvelope)))]
async fn list(
    State(app): State<App>,
    walker: Walker,
    Params(paging): Params<Paging>,
    mut params: Filters,
) -> Result<Json<Page<Dataset>>, ApiError> {
    let mut window = paging.window(limits::PAGE_SIZE_MAX)?;
    let kind = params.value("kind")?;
    window.warnings.extend(params.ignored());
    app.blocking(move |app| {
        let found = page(app, &walker, &("datasets", kind), &window, |slice| {
            let query =
                DatasetQuery { kind, limit: Some(slice.limit), cursor: slice.cursor, skip: slice.skip };
            Ok(app.store.datasets(&query)?.into())
        });
        Ok(Json(found?))
    })
    .await
}

/// How much of a version.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes what handlers read")]
struct ItemsParams {
    /// `false`: without the items.
    item_ids: Option<bool>,
}

fn with_items(params: &mut Filters) -> Result<bool, ApiError> {
    Ok(params.flag("item_ids")?.unwrap_or(true))
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
#[utoipa::path(get, path = "/api/datasets/{name}", tag = "datasets",
    params(("name" = String, Path), ItemsParams), responses(
    (status = 200, description = "The version.", body = DatasetVersion),
    (status = 400, description = "A parameter cannot be understood.", body = ErrorEnvelope),
    (status = 401, description = "A token is needed.", body = ErrorEnvelope),
    (status = 404, description = "No such dataset.", body = ErrorEnvelope)))]
async fn get_newest(
    State(app): State<App>,
    _: Reader,
    Path(name): Path<String>,
    mut params: Filters,
) -> Result<Json<DatasetVersion>, ApiError> {
    read(app, name, None, with_items(&mut params)?).await
}

/// One version of a dataset.
#[utoipa::path(get, path = "/api/datasets/{name}/versions/{version}", tag = "datasets",
    params(("name" = String, Path), ("version" = u64, Path, minimum = 1), ItemsParams), responses(
    (status = 200, description = "The version.", body = DatasetVersion),
    (status = 400, description = "A parameter cannot be understood.", body = ErrorEnvelope),
    (status = 401, description = "A token is needed.", body = ErrorEnvelope),
    (status = 404, description = "No such dataset or version.", body = ErrorEnvelope)))]
async fn get_version(
    State(app): State<App>,
    _: Reader,
    Path((name, version)): Path<(String, String)>,
    mut params: Filters,
) -> Result<Json<DatasetVersion>, ApiError> {
    let Ok(number) = version.parse() else {
        return Err(ApiError::not_found(format!("version {version} of dataset {name} was not found")));
    };
    read(app, name, Some(number), with_items(&mut params)?).await
}

/// The versions of a dataset, newest first. A page tells 200,000 item ids at most; versions behind those come without
/// `item_ids`, and are to be asked for one by one.
#[utoipa::path(get, path = "/api/datasets/{name}/versions", tag = "datasets",
    params(("name" = String, Path), ItemsParams, Paging), responses(
    (status = 200, description = "Versions.", body = Page<DatasetVersion>),
    (status = 400, description = "Not a page or cursor.", body = ErrorEnvelope),
    (status = 401, description = "A token is needed.", body = ErrorEnvelope),
    (status = 404, description = "No such dataset.", body = ErrorEnvelope)))]
async fn versions(
    State(app): State<App>,
    walker: Walker,
    Path(name): Path<String>,
    mut params: Filters,
    Params(paging): Params<Paging>,
) -> Result<Json<Page<DatasetVersion>>, ApiError> {
    let name = existing(name)?;
    let mut window = paging.window(limits::PAGE_SIZE_MAX)?;
    let item_ids_max = if with_items(&mut params)? { limits::DATASET_IDS_MAX } else { 0 };
    window.warnings.extend(params.ignored());
    app.blocking(move |app| {
        let key = ("versions", &name, item_ids_max);
        let mut found = page(app, &walker, &key, &window, |slice| {
            let query = DatasetVersionQuery {
                item_ids_max,
                limit: Some(slice.limit),
                cursor: slice.cursor,
                skip: slice.skip,
            };
            Ok(app.store.dataset_versions(&name, &query)?.into())
        })?;
        let first_without = found.items.iter().find(|version| version.item_ids.is_none());
        if let Some(version) = first_without.filter(|_| item_ids_max > 0) {
            found.warnings.push(format!(
                "a page has at most {item_ids_max} item ids: ask for version {} and those before it one by one",
                version.version
            ));
        }
        Ok(Json(found))
    })
    .await
}

/// Publishes a version with exactly these `item_ids`, or makes one of the newest by `add` and `remove`. No version is
/// made when nothing would change.
#[utoipa::path(post, path = "/api/datasets/{name}/versions", tag = "datasets",
    params(("name" = String, Path)),
    request_body = DatasetEdit, responses(
    (status = 200, description = "What changed.", body = DatasetChange),
    (status = 400, description = "Not a name, bad ids, or none of the forms.", body = ErrorEnvelope),
    (status = 401, description = "A token is needed.", body = ErrorEnvelope),
    (status = 403, description = "The token may not write.", body = ErrorEnvelope),
    (status = 404, description = "There is no such dataset to edit.", body = ErrorEnvelope),
    (status = 409, description = "It is locked, of the other kind, or not at `if_version`.", body = ErrorEnvelope),
    (status = 413, description = "The body is too large.", body = ErrorEnvelope)))]
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
    request_body = LockBody, responses(
    (status = 200, description = "The lock.", body = Locked),
    (status = 400, description = "A reason too long.", body = ErrorEnvelope),
    (status = 401, description = "A token is needed.", body = ErrorEnvelope),
    (status = 403, description = "The token may not write.", body = ErrorEnvelope),
    (status = 404, description = "No such dataset.", body = ErrorEnvelope)))]
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
#[utoipa::path(delete, path = "/api/datasets/{name}/lock", tag = "datasets",
    params(("name" = String, Path)), responses(
    (status = 200, description = "Whether it was locked.", body = Unlocked),
    (status = 401, description = "A token is needed.", body = ErrorEnvelope),
    (status = 403, description = "The token may not write.", body = ErrorEnvelope),
    (status = 404, description = "No such dataset.", body = ErrorEnvelope)))]
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
