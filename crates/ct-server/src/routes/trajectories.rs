//! `/api/trajectories`: rows, ids and documents of trajectories, and their samples.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use ct_model::{
    DatasetKind, DatasetName, Outcome, TrajectoryDocument, TrajectoryId, TrajectoryPage, TrajectoryQuery,
    TrajectoryRow,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::address::BaseUrl;
use crate::app::App;
use crate::auth::Reader;
use crate::error::{ApiError, ErrorEnvelope};
use crate::extract::{Body, Filters, Params, Path};
use crate::paging::{Page, Paging};
use crate::walks::{Part, Walker, page};
use crate::{limits, sample, shown};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(resolve))
        .routes(routes!(zip, zip_of_body))
        .routes(routes!(get_trajectory))
        .routes(routes!(eval))
}

/// A whole document; these are the fields that each one has, and there are many more.
#[derive(Serialize, ToSchema)]
struct StoredDocument {
    trajectory_id: String,
    run_id: String,
    eval_log_url: String,
    eval_sample_id: String,
    epoch: u64,
    name: String,
    tags: Vec<String>,
    datasets: Vec<String>,
    main_task_success: Option<bool>,
    side_task_success: Option<bool>,
    number_of_actions: u64,
    models: Vec<String>,
}

/// A trajectory in a list.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes what list answers")]
enum TrajectoryItem {
    Row(Box<TrajectoryRow>),
    Id(String),
    Document(StoredDocument),
}

/// Which trajectories, and how much of them.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes what query and list read")]
struct TrajectoryFilters {
    /// Items are ids; a page holds up to 10,000 of them.
    ids_only: Option<bool>,
    /// Items are whole stored documents; a page holds up to 200 of them.
    documents: Option<bool>,
    /// Of this run.
    run_id: Option<String>,
    /// Environment, any of those between commas; a whole value or its last path segment.
    environment: Option<String>,
    /// Main task, any of.
    main_task: Option<String>,
    /// Side task, any of.
    side_task: Option<String>,
    /// It used this model, any of; a whole value or its last path segment.
    model: Option<String>,
    /// It has this author, any of.
    author: Option<String>,
    /// Policy of its run, any of; a whole value or its last path segment.
    policy: Option<String>,
    /// Task set of its run, any of.
    task_set: Option<String>,
    /// How the log of its run ended, any of `started`, `success`, `cancelled`, `error`, `unknown`.
    status: Option<String>,
    /// Part of the name of its run, without regard to case.
    run_name: Option<String>,
    /// Its run was registered at this time, or from the beginning of this day, or later.
    #[param(format = DateTime)]
    created_from: Option<String>,
    /// Its run was registered before this time or day.
    #[param(format = DateTime)]
    created_before: Option<String>,
    /// Tags that the trajectory or its run carries, all of them.
    tag: Option<String>,
    /// As `tag`.
    tags: Option<String>,
    /// The dataset label of its run, or one of its own, any of.
    dataset: Option<String>,
    /// Items of this versioned dataset, or of the runs in it.
    versioned_dataset: Option<String>,
    /// Of this version of it; the newest when absent.
    #[param(minimum = 1)]
    versioned_dataset_version: Option<u64>,
    /// Outcome of the main task, any of `pass`, `fail`, `unscored`.
    main_task_outcome: Option<String>,
    /// As `main_task_outcome`.
    main_outcome: Option<String>,
    /// Outcome of the side task, any of; a trajectory without a side task has none.
    side_task_outcome: Option<String>,
    /// As `side_task_outcome`.
    side_outcome: Option<String>,
    /// Only those with a side task, or only those without one.
    has_side_task: Option<bool>,
    /// Only those that ended with an error, or only those that did not.
    errored: Option<bool>,
    /// Trajectories of deleted runs too.
    include_deleted: Option<bool>,
    /// What to order by; those of which it is not known come last. `policy` is that of the run.
    #[param(
        pattern = "^(created|started|suspicion|actions|duration|cost|environment|main_task|side_task|policy)$"
    )]
    sort: Option<String>,
    /// Largest, or newest, first; the default.
    descending: Option<bool>,
}

/// Reads the filters. None: the run cannot be one, so nothing is found.
pub(crate) fn query(params: &mut Filters) -> Result<Option<TrajectoryQuery>, ApiError> {
    let both = |params: &mut Filters, a: &str, b: &str| {
        let mut values: Vec<Outcome> = params.values(a)?;
        values.extend(params.values::<Outcome>(b)?);
        Ok::<_, ApiError>(values)
    };
    let mut tags = params.texts("tag");
    tags.extend(params.texts("tags"));
    let run = params.text("run_id");
    let run_id = run.as_deref().and_then(|id| id.parse().ok());
    let query = TrajectoryQuery {
        environment: params.texts("environment"),
        main_task: params.texts("main_task"),
        side_task: params.texts("side_task"),
        model: params.texts("model"),
        author: params.texts("author"),
        policy: params.texts("policy"),
        task_set: params.texts("task_set"),
        status: params.values("status")?,
        run_name: params.text("run_name"),
        created_from: params.time("created_from")?,
        created_before: params.time("created_before")?,
        tags,
        dataset: params.texts("dataset"),
        versioned_dataset: params.value("versioned_dataset")?,
        versioned_dataset_version: params.value("versioned_dataset_version")?,
        main_outcome: both(params, "main_task_outcome", "main_outcome")?,
        side_outcome: both(params, "side_task_outcome", "side_outcome")?,
        has_side_task: params.flag("has_side_task")?,
        errored: params.flag("errored")?,
        include_deleted: params.flag("include_deleted")?.unwrap_or(false),
        sort: params.value("sort")?.unwrap_or_default(),
        descending: params.flag("descending")?.unwrap_or(true),
        run_id,
        ..TrajectoryQuery::default()
    };
    Ok((run.is_none() || query.run_id.is_some()).then_some(query))
}

/// Trajectories, those of newer runs first where no order is asked for.
#[utoipa::path(get, path = "/api/trajectories", tag = "trajectories", params(Paging, TrajectoryFilters), responses(
    (status = 200, description = "Rows; ids with `ids_only`, documents with `documents`.", body = Page<TrajectoryItem>),
    (status = 400, description = "A parameter cannot be understood.", body = ErrorEnvelope),
    (status = 401, description = "A token is needed.", body = ErrorEnvelope),
    (status = 404, description = "There is no such versioned dataset.", body = ErrorEnvelope)))]
async fn list(
    State(app): State<App>,
    walker: Walker,
    Params(paging): Params<Paging>,
    mut params: Filters,
) -> Result<Response, ApiError> {
    let what = match (params.flag("ids_only")?, params.flag("documents")?) {
        (Some(true), Some(true)) => {
            return Err(ApiError::invalid("items are either ids or documents, not both"));
        }
        (Some(true), _) => What::Ids,
        (_, Some(true)) => What::Documents,
        _ => What::Rows,
    };
    let mut window = paging.window(match what {
        What::Rows => limits::PAGE_SIZE_MAX,
        What::Ids => limits::IDS_PAGE_SIZE_MAX,
        What::Documents => limits::DOCUMENTS_PAGE_SIZE_MAX,
    })?;
    let query = query(&mut params)?;
    window.warnings.extend(params.ignored());
    let Some(query) = query else {
        return Ok(Json(Page::<TrajectoryRow>::new(&window, Vec::new(), 0, None)).into_response());
    };
    app.blocking(move |app| {
        let key = (what, &query);
        let part =
            |cursor, skip, limit| TrajectoryQuery { cursor, skip, limit: Some(limit), ..query.clone() };
        match what {
            What::Rows => Ok(Json(page(app, &walker, &key, &window, |slice| {
                Ok(app.store.trajectories(&part(slice.cursor, slice.skip, slice.limit))?.into())
            })?)
            .into_response()),
            What::Ids => Ok(Json(page(app, &walker, &key, &window, |slice| {
                Ok(app.store.trajectory_ids(&part(slice.cursor, slice.skip, slice.limit))?.into())
            })?)
            .into_response()),
            What::Documents => Ok(Json(page(app, &walker, &key, &window, |slice| {
                let query = part(slice.cursor, slice.skip, slice.limit);
                let mut found: Part<TrajectoryDocument> = app.store.trajectory_documents(&query)?.into();
                let mut formats = shown::Formats::default();
                for document in &mut found.items {
                    let format = formats.of(app, document)?;
                    shown::complete_document(app, document, format);
                }
                Ok(found)
            })?)
            .into_response()),
        }
    })
    .await
}

#[derive(Debug, Clone, Copy, Serialize)]
enum What {
    Rows,
    Ids,
    Documents,
}

impl<T> From<TrajectoryPage<T>> for Part<T> {
    fn from(page: TrajectoryPage<T>) -> Self {
        Self { items: page.items, total_count: page.total_count, next_cursor: page.next_cursor }
    }
}

/// Reads an id; what cannot be one is not found.
pub(crate) fn trajectory_id(text: &str) -> Result<TrajectoryId, ApiError> {
    TrajectoryId::new(text).map_err(|_| ApiError::not_found(format!("trajectory {text:.80} was not found")))
}

/// One trajectory: its metadata, and its sample as Inspect recorded it.
///
/// The sample is the very JSON of the log: numbers of any size, `NaN` and unknown fields are as they were written. What a
/// log pools or keeps as attachments is not put back into its place. A sample that turns out to be damaged on the way
/// breaks the connection off.
#[utoipa::path(get, path = "/api/trajectories/{id}", tag = "trajectories",
    params(("id" = String, Path), TrajectoryView), responses(
    (status = 200, description = "`{\"metadata\": …, \"sample\": …}`; the stored document with `view=document`.",
        body = TrajectoryBody),
    (status = 400, description = "A parameter cannot be understood.", body = ErrorEnvelope),
    (status = 401, description = "A token is needed.", body = ErrorEnvelope),
    (status = 404, description = "There is no such trajectory.", body = ErrorEnvelope),
    (status = 500, description = "The stored sample is damaged.", body = ErrorEnvelope)))]
async fn get_trajectory(
    State(app): State<App>,
    _: Reader,
    Path(id): Path<String>,
    mut params: Filters,
) -> Result<Response, ApiError> {
    let id = trajectory_id(&id)?;
    match params.text("view").as_deref() {
        None | Some("bundle") => sample::respond(&app, id).await,
        Some("document") => {
            app.blocking(move |app| {
                let mut found = sample::find(app, &id)?;
                shown::complete_document(app, &mut found.document, found.run.log.format);
                Ok(Json(found.document).into_response())
            })
            .await
        }
        Some(_) => Err(ApiError::invalid("the parameter view is bundle or document")),
    }
}

/// How a trajectory is told.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes what get_trajectory reads")]
struct TrajectoryView {
    /// `bundle` (the default) is metadata and sample; `document` is what is stored about it, without the sample.
    #[param(pattern = "^(bundle|document)$")]
    view: Option<String>,
}

/// A trajectory by itself.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes what get_trajectory answers")]
enum TrajectoryBody {
    Bundle(Bundle),
    Document(StoredDocument),
}

/// A trajectory with its sample.
#[derive(Serialize, ToSchema)]
struct Bundle {
    /// Ids, name, tags, datasets, comments and what else is known.
    metadata: serde_json::Value,
    /// The sample as it is in the log.
    sample: serde_json::Value,
}

/// Where the whole log of a trajectory can be fetched.
#[utoipa::path(get, path = "/api/trajectories/{id}/eval", tag = "trajectories", params(("id" = String, Path)),
    responses(
    (status = 302, description = "To a signed address that is good for a short time."),
    (status = 401, description = "A token is needed.", body = ErrorEnvelope),
    (status = 404, description = "There is no such trajectory.", body = ErrorEnvelope)))]
async fn eval(
    State(app): State<App>,
    _: Reader,
    base: BaseUrl,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let id = trajectory_id(&id)?;
    app.blocking(move |app| {
        let found = sample::find(app, &id)?;
        let run = found.document.run_id.ok_or_else(|| ApiError::not_found("the trajectory has no run"))?;
        Ok(shown::redirect_to_log(app, &base, run, found.run.log.format))
    })
    .await
}

/// Which trajectories to send.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes what zip reads")]
struct ZipParams {
    /// These, between commas.
    trajectory_ids: Option<String>,
    /// Those of this run.
    run_id: Option<String>,
    /// Those in this dataset, or in the runs in it.
    versioned_dataset: Option<String>,
    /// In this version of it; the newest when absent.
    #[param(minimum = 1)]
    versioned_dataset_version: Option<u64>,
}

/// Many trajectories as a ZIP file.
///
/// One of `trajectory_ids`, `run_id` and `versioned_dataset` says which, at most 100,000. For each there are
/// `trajectories/<id>/metadata.json` and `trajectories/<id>/sample.json`; then `manifest.json` and `failed.json`, the
/// latter with what could not be read and why. Members are stored or deflated.
#[utoipa::path(get, path = "/api/trajectories/zip", tag = "trajectories", params(ZipParams), responses(
    (status = 200, description = "The file, sent while it is made.", content_type = "application/zip"),
    (status = 400, description = "None or several of the parameters, or too many trajectories.", body = ErrorEnvelope),
    (status = 401, description = "A token is needed.", body = ErrorEnvelope),
    (status = 404, description = "There is no such run, dataset, or none of the trajectories.", body = ErrorEnvelope),
    (status = 503, description = "Too many are being made.", body = ErrorEnvelope)))]
async fn zip(State(app): State<App>, reader: Reader, mut params: Filters) -> Result<Response, ApiError> {
    let selection = ZipSelection {
        trajectory_ids: params.texts("trajectory_ids"),
        run_id: params.text("run_id"),
        versioned_dataset: params.value("versioned_dataset")?,
        versioned_dataset_version: params.value("versioned_dataset_version")?,
    };
    zip_of(&app, &reader, selection).await
}

/// As the same with GET, for more ids than an address holds. It changes nothing.
#[utoipa::path(post, path = "/api/trajectories/zip", tag = "trajectories", request_body = ZipSelection, responses(
    (status = 200, description = "The file, sent while it is made.", content_type = "application/zip"),
    (status = 400, description = "None or several of the fields, or too many trajectories.", body = ErrorEnvelope),
    (status = 401, description = "A token is needed.", body = ErrorEnvelope),
    (status = 404, description = "There is no such run, dataset, or none of the trajectories.", body = ErrorEnvelope),
    (status = 413, description = "The body is too large.", body = ErrorEnvelope),
    (status = 503, description = "Too many are being made.", body = ErrorEnvelope)))]
async fn zip_of_body(
    State(app): State<App>,
    reader: Reader,
    Body(selection): Body<ZipSelection>,
) -> Result<Response, ApiError> {
    zip_of(&app, &reader, selection).await
}

/// Which trajectories to send: one of three ways to say it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ZipSelection {
    /// These.
    #[serde(default)]
    #[schema(max_items = 100_000)]
    trajectory_ids: Vec<String>,
    /// Those of this run.
    run_id: Option<String>,
    /// Those in this dataset, or in the runs in it.
    #[schema(value_type = Option<String>)]
    versioned_dataset: Option<DatasetName>,
    /// In this version of it; the newest when absent.
    #[schema(minimum = 1)]
    versioned_dataset_version: Option<u64>,
}

async fn zip_of(app: &App, reader: &Reader, selection: ZipSelection) -> Result<Response, ApiError> {
    let turn = crate::zip::turn(app, reader)?;
    let ZipSelection { trajectory_ids: ids, run_id: run, versioned_dataset: dataset, .. } = selection;
    let version = selection.versioned_dataset_version;
    app.blocking(move |app| {
        let mut failed = Vec::new();
        let (ids, selection) = match (ids.is_empty(), run, dataset) {
            (false, None, None) => {
                let ids: Vec<TrajectoryId> =
                    ids.iter().map(|id| trajectory_id(id)).collect::<Result<_, _>>()?;
                if !ids.iter().any(|id| sample::find(app, id).is_ok()) {
                    return Err(ApiError::not_found("none of these trajectories was found"));
                }
                (ids, json!({"trajectory_ids": "as listed"}))
            }
            (true, Some(run), None) => {
                let run = super::runs::run_id(&run)?;
                super::runs::record(app, &run, false)?;
                let query = TrajectoryQuery { run_id: Some(run.clone()), ..TrajectoryQuery::default() };
                (app.store.trajectory_ids(&query)?.items, json!({"run_id": run}))
            }
            (true, None, Some(dataset)) => {
                let found = app.store.dataset(&dataset, version)?;
                let query = TrajectoryQuery {
                    versioned_dataset: Some(dataset.clone()),
                    versioned_dataset_version: Some(found.version),
                    ..TrajectoryQuery::default()
                };
                let mut ids = app.store.trajectory_ids(&query)?.items;
                let items = found.item_ids.unwrap_or_default();
                match found.kind {
                    // Those whose run is deleted come last, to be told as failed.
                    DatasetKind::Trajectory => ids.extend(items.iter().filter_map(|id| id.parse().ok())),
                    DatasetKind::Run => failed.extend(items.iter().filter_map(|run| deleted_run(app, run))),
                }
                let selection =
                    json!({"versioned_dataset": dataset, "versioned_dataset_version": found.version});
                (ids, selection)
            }
            _ => {
                return Err(ApiError::invalid(
                    "one of trajectory_ids, run_id and versioned_dataset says which trajectories",
                ));
            }
        };
        crate::zip::respond(app, turn, crate::zip::distinct(ids)?, failed, selection)
    })
    .await
}

/// What to say of a run of a dataset, when there is nothing of it to send.
fn deleted_run(app: &App, run: &str) -> Option<serde_json::Value> {
    let why = match super::runs::run_id(run).and_then(|run| super::runs::record(app, &run, true)) {
        Ok(record) if record.deleted_at.is_none() => return None,
        Ok(_) => format!("run {run} is deleted"),
        Err(error) => error.sentence().to_owned(),
    };
    Some(json!({"run_id": run, "error": why}))
}

/// What a prefix stands for.
#[derive(Debug, Serialize, ToSchema)]
struct ResolvedTrajectory {
    #[schema(value_type = String)]
    trajectory_id: TrajectoryId,
}

/// The trajectory whose id is, or begins with, a text.
#[utoipa::path(get, path = "/api/trajectories/resolve", tag = "trajectories",
    params(("prefix" = String, Query, description = "The beginning of an id.")), responses(
    (status = 200, body = ResolvedTrajectory),
    (status = 400, description = "The prefix is missing.", body = ErrorEnvelope),
    (status = 401, description = "A token is needed.", body = ErrorEnvelope),
    (status = 404, description = "No trajectory begins like this.", body = ErrorEnvelope),
    (status = 409, description = "Several do, and are listed; or the run of the one that does is deleted.",
        body = ErrorEnvelope)))]
async fn resolve(
    State(app): State<App>,
    _: Reader,
    mut params: Filters,
) -> Result<Json<ResolvedTrajectory>, ApiError> {
    let prefix = params.text("prefix").ok_or_else(|| ApiError::invalid("the parameter prefix is missing"))?;
    app.blocking(move |app| {
        Ok(Json(ResolvedTrajectory { trajectory_id: app.store.resolve_trajectory(&prefix)? }))
    })
    .await
}
