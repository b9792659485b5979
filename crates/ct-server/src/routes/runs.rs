//! `/api/runs`: headers of runs, and their logs.

use axum::Json;
use axum::extract::State;
use axum::http::header::{ETAG, IF_MATCH};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use ct_model::{Comment, RunEdit, RunHeader, RunId, RunQuery, RunRecord, RunRow};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::comments;
use crate::address::BaseUrl;
use crate::app::App;
use crate::auth::{Reader, Writer};
use crate::error::{ApiError, ErrorEnvelope};
use crate::extract::{Body, Filters, Params, Path};
use crate::paging::{Page, Paging};
use crate::walks::{Part, Walker, page};
use crate::{limits, shown};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(resolve))
        .routes(routes!(of_eval))
        .routes(routes!(get_run, edit, delete))
        .routes(routes!(restore))
        .routes(routes!(eval))
}

/// A run in a list.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes what list answers")]
enum RunItem {
    Header(RunHeader),
    Row(RunRow),
}

/// A run by itself.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes what get_run answers")]
enum RunBody {
    Header(Box<RunHeader>),
    Record(Box<RunRecord>),
}

/// Which runs.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes what query reads")]
struct RunFilters {
    /// `header` (the default) for whole headers, `row` for what a table shows.
    #[param(pattern = "^(header|row)$")]
    view: Option<String>,
    /// Tags that the run carries, all of them; several between commas.
    tags_include: Option<String>,
    /// As `tags_include`.
    tags: Option<String>,
    /// Part of the name, without regard to case.
    name: Option<String>,
    /// Policy, any of those between commas; a whole value or its last path segment.
    policy: Option<String>,
    /// Task set, any of.
    task_set: Option<String>,
    /// A trajectory of the run has this environment, any of.
    environment: Option<String>,
    /// A trajectory of the run has this main task, any of.
    main_task: Option<String>,
    /// A trajectory of the run has this side task, any of.
    side_task: Option<String>,
    /// A trajectory of the run used this model, any of.
    model: Option<String>,
    /// A trajectory of the run has this author, any of.
    author: Option<String>,
    /// How the log ended, any of `started`, `success`, `cancelled`, `error`, `unknown`.
    status: Option<String>,
    /// A trajectory of the run has this outcome of its main task, any of `pass`, `fail`, `unscored`.
    main_outcome: Option<String>,
    /// A trajectory of the run has this outcome of its side task, any of.
    side_outcome: Option<String>,
    /// Registered at this time, or from the beginning of this day, or later.
    #[param(format = DateTime)]
    created_from: Option<String>,
    /// Registered before this time or day.
    #[param(format = DateTime)]
    created_before: Option<String>,
    /// Deleted runs too.
    include_deleted: Option<bool>,
    /// What to order by.
    #[param(pattern = "^(created|name|policy|task_set|status|cost|trajectories|main_rate)$")]
    sort: Option<String>,
    /// Largest, or newest, first; the default.
    descending: Option<bool>,
}

/// Reads the filters.
pub(crate) fn query(params: &mut Filters) -> Result<RunQuery, ApiError> {
    let mut tags = params.texts("tags_include");
    tags.extend(params.texts("tags"));
    Ok(RunQuery {
        name: params.text("name"),
        policy: params.texts("policy"),
        task_set: params.texts("task_set"),
        environment: params.texts("environment"),
        main_task: params.texts("main_task"),
        side_task: params.texts("side_task"),
        model: params.texts("model"),
        author: params.texts("author"),
        status: params.values("status")?,
        tags,
        main_outcome: params.values("main_outcome")?,
        side_outcome: params.values("side_outcome")?,
        created_from: params.time("created_from")?,
        created_before: params.time("created_before")?,
        include_deleted: params.flag("include_deleted")?.unwrap_or(false),
        sort: params.value("sort")?.unwrap_or_default(),
        descending: params.flag("descending")?.unwrap_or(true),
        ..RunQuery::default()
    })
}

/// Runs, newest first.
#[utoipa::path(get, path = "/api/runs", tag = "runs", params(Paging, RunFilters), responses(
    (status = 200, description = "Headers of runs; rows with `view=row`.", body = Page<RunItem>),
    (status = 400, description = "A parameter cannot be understood.", body = ErrorEnvelope),
    (status = 401, description = "A token is needed.", body = ErrorEnvelope)))]
async fn list(
    State(app): State<App>,
    walker: Walker,
    Params(paging): Params<Paging>,
    mut params: Filters,
) -> Result<Response, ApiError> {
    let mut window = paging.window(limits::PAGE_SIZE_MAX)?;
    let query = query(&mut params)?;
    let rows = match params.text("view").as_deref() {
        None | Some("header") => false,
        Some("row") => true,
        Some(_) => return Err(ApiError::invalid("the parameter view is header or row")),
    };
    window.warnings.extend(params.ignored());
    app.blocking(move |app| {
        let part = |cursor, skip, limit| RunQuery { cursor, skip, limit: Some(limit), ..query.clone() };
        if rows {
            let page = page(app, &walker, &("rows", &query), &window, |slice| {
                let found = app.store.runs(&part(slice.cursor, slice.skip, slice.limit))?;
                Ok(Part {
                    items: found.items,
                    total_count: found.total_count,
                    next_cursor: found.next_cursor,
                })
            })?;
            return Ok(Json(page).into_response());
        }
        let page = page(app, &walker, &("headers", &query), &window, |slice| {
            let found = app.store.run_headers(&part(slice.cursor, slice.skip, slice.limit))?;
            let headers = found.items.into_iter().map(|(mut header, format)| {
                shown::complete_header(app, &mut header, format);
                header
            });
            Ok(Part {
                items: headers.collect(),
                total_count: found.total_count,
                next_cursor: found.next_cursor,
            })
        })?;
        Ok(Json(page).into_response())
    })
    .await
}

/// Reads an id; what cannot be one is not found.
pub(crate) fn run_id(text: &str) -> Result<RunId, ApiError> {
    RunId::new(text).map_err(|_| ApiError::not_found(format!("run {text:.80} was not found")))
}

/// Everything about a run; a deleted one is not found, unless asked for.
pub(crate) fn record(app: &App, run: &RunId, with_deleted: bool) -> Result<RunRecord, ApiError> {
    let mut record = app.store.run(run)?;
    if record.deleted_at.is_some() && !with_deleted {
        return Err(ApiError::not_found(format!("run {run} was not found")));
    }
    shown::complete_header(app, &mut record.header, record.log.format);
    Ok(record)
}

fn versioned(version: u64, body: impl IntoResponse) -> Response {
    let mut response = body.into_response();
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{version}\"")) {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}

/// How much of a run.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes what get_run reads")]
struct RunView {
    /// `header` (the default), or `record` for everything that is known.
    #[param(pattern = "^(header|record)$")]
    view: Option<String>,
    /// A deleted run too.
    include_deleted: Option<bool>,
}

/// One run's header.
#[utoipa::path(get, path = "/api/runs/{id}", tag = "runs", params(("id" = String, Path), RunView), responses(
    (status = 200, description = "The header, bare; the record with `view=record`. `ETag` is the run's version.",
        body = RunBody),
    (status = 400, description = "A parameter cannot be understood.", body = ErrorEnvelope),
    (status = 401, description = "A token is needed.", body = ErrorEnvelope),
    (status = 404, description = "There is no such run.", body = ErrorEnvelope)))]
async fn get_run(
    State(app): State<App>,
    _: Reader,
    Path(id): Path<String>,
    mut params: Filters,
) -> Result<Response, ApiError> {
    let run = run_id(&id)?;
    let with_deleted = params.flag("include_deleted")?.unwrap_or(false);
    let whole = match params.text("view").as_deref() {
        None | Some("header") => false,
        Some("record") => true,
        Some(_) => return Err(ApiError::invalid("the parameter view is header or record")),
    };
    app.blocking(move |app| {
        let record = record(app, &run, with_deleted)?;
        let version = record.version;
        Ok(if whole { versioned(version, Json(record)) } else { versioned(version, Json(record.header)) })
    })
    .await
}

/// Reads a merge-patch.
fn run_edit(patch: Map<String, Value>) -> Result<RunEdit, ApiError> {
    let mut edit = RunEdit::default();
    for (key, value) in patch {
        match key.as_str() {
            "name" => match text(&key, value)? {
                Some(name) => edit.name = Some(name),
                None => return Err(ApiError::invalid("a run's name cannot be cleared")),
            },
            "policy" => edit.policy = Some(text(&key, value)?),
            "dataset" => edit.dataset = Some(text(&key, value)?),
            "description" => edit.description = Some(text(&key, value)?),
            "tags" => edit.set_tags = Some(tags(value)?),
            "comments" => {
                let comments = if value.is_null() { Value::Array(Vec::new()) } else { value };
                let comments = serde_json::from_value(comments);
                let comments = comments.map_err(|error| ApiError::invalid(format!("comments: {error}")))?;
                edit.comments = Some(comments);
            }
            other => {
                let sentence = format!(
                    "{other:.80?} cannot be changed: a patch takes name, tags, comments, policy, dataset and description"
                );
                return Err(ApiError::invalid(sentence));
            }
        }
    }
    Ok(edit)
}

fn text(key: &str, value: Value) -> Result<Option<String>, ApiError> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text)),
        _ => Err(ApiError::invalid(format!("{key} is no text"))),
    }
}

fn tags(value: Value) -> Result<Vec<String>, ApiError> {
    let values = match value {
        Value::Null => return Ok(Vec::new()),
        Value::Array(values) => values,
        _ => return Err(ApiError::invalid("tags is no list of texts")),
    };
    let tags = values
        .into_iter()
        .map(|value| text("a tag", value)?.ok_or_else(|| ApiError::invalid("a tag is no text")));
    tags.collect()
}

/// What a merge-patch of a run can hold. What is absent stays as it is; null clears.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes what run_edit reads")]
struct RunPatch {
    #[schema(max_length = 1000)]
    name: Option<String>,
    /// Each has at most 1000 characters. A log may have brought more tags than this; then none can be added.
    #[schema(max_items = 1000)]
    tags: Option<Vec<String>>,
    /// The whole list as it should be: known ids with another text are edited, missing ones of the caller's own deleted,
    /// new ones added.
    #[schema(max_items = 1000)]
    comments: Option<Vec<Comment>>,
    #[schema(max_length = 1000)]
    policy: Option<String>,
    #[schema(max_length = 1000)]
    dataset: Option<String>,
    #[schema(max_length = 100_000)]
    description: Option<String>,
}

/// Changes what users may change of a run.
///
/// With `If-Match` of an `ETag` that a read gave, only when nobody else changed it meanwhile.
#[utoipa::path(patch, path = "/api/runs/{id}", tag = "runs", params(("id" = String, Path)),
    request_body = RunPatch, responses(
    (status = 200, description = "The whole header as it is now.", body = RunHeader),
    (status = 400, description = "Something else than name, tags, comments, policy, dataset, description, or a value \
        that these cannot have.", body = ErrorEnvelope),
    (status = 401, description = "A token is needed.", body = ErrorEnvelope),
    (status = 403, description = "The token may not write.", body = ErrorEnvelope),
    (status = 404, description = "There is no such run.", body = ErrorEnvelope),
    (status = 409, description = "The run is deleted, or was changed meanwhile.", body = ErrorEnvelope)))]
async fn edit(
    State(app): State<App>,
    Writer(caller): Writer,
    Path(id): Path<String>,
    headers: HeaderMap,
    Body(patch): Body<Map<String, Value>>,
) -> Result<Response, ApiError> {
    let run = run_id(&id)?;
    let mut edit = run_edit(patch)?;
    // `*` asks for a run that is there, which is asked for anyway.
    if let Some(tag) = headers.get(IF_MATCH).filter(|tag| *tag != "*") {
        let version = tag.to_str().ok().and_then(|tag| tag.trim().trim_matches('"').parse().ok());
        edit.if_version =
            Some(version.ok_or_else(|| ApiError::invalid("If-Match is no ETag that a run had"))?);
    }
    edit.author = Some(caller.identity.username.clone());
    app.blocking(move |app| {
        app.store.patch_run(&run, &edit, &comments::author(&caller))?;
        let record = record(app, &run, false)?;
        Ok(versioned(record.version, Json(record.header)))
    })
    .await
}

/// Whether a run is there.
#[derive(Debug, Serialize, ToSchema)]
struct Presence {
    #[schema(value_type = String)]
    run_id: RunId,
    /// Whether it is deleted now.
    deleted: bool,
    /// Whether this request made it so.
    changed: bool,
}

/// Hides a run and its trajectories. Nothing is lost: it can be restored.
#[utoipa::path(delete, path = "/api/runs/{id}", tag = "runs", params(("id" = String, Path)), responses(
    (status = 200, body = Presence),
    (status = 401, description = "A token is needed.", body = ErrorEnvelope),
    (status = 403, description = "The token may not write.", body = ErrorEnvelope),
    (status = 404, description = "There is no such run.", body = ErrorEnvelope)))]
async fn delete(
    State(app): State<App>,
    Writer(caller): Writer,
    Path(id): Path<String>,
) -> Result<Json<Presence>, ApiError> {
    let run = run_id(&id)?;
    app.blocking(move |app| {
        let changed = app.store.delete_run(&run, &caller.actor())?;
        Ok(Json(Presence { run_id: run, deleted: true, changed }))
    })
    .await
}

/// Shows a deleted run again.
#[utoipa::path(post, path = "/api/runs/{id}/restore", tag = "runs", params(("id" = String, Path)), responses(
    (status = 200, body = Presence),
    (status = 401, description = "A token is needed.", body = ErrorEnvelope),
    (status = 403, description = "The token may not write.", body = ErrorEnvelope),
    (status = 404, description = "There is no such run.", body = ErrorEnvelope)))]
async fn restore(
    State(app): State<App>,
    Writer(caller): Writer,
    Path(id): Path<String>,
) -> Result<Json<Presence>, ApiError> {
    let run = run_id(&id)?;
    app.blocking(move |app| {
        let changed = app.store.restore_run(&run, &caller.actor())?;
        Ok(Json(Presence { run_id: run, deleted: false, changed }))
    })
    .await
}

/// What a prefix stands for.
#[derive(Debug, Serialize, ToSchema)]
struct Resolved {
    #[schema(value_type = String)]
    run_id: RunId,
}

/// The run whose id is, or begins with, a text.
#[utoipa::path(get, path = "/api/runs/resolve", tag = "runs", params(
    ("prefix" = String, Query, description = "The beginning of an id."),
    ("include_deleted" = Option<bool>, Query, description = "Deleted runs too.")), responses(
    (status = 200, body = Resolved),
    (status = 400, description = "A parameter cannot be understood.", body = ErrorEnvelope),
    (status = 401, description = "A token is needed.", body = ErrorEnvelope),
    (status = 404, description = "No run begins like this.", body = ErrorEnvelope),
    (status = 409, description = "Several do, and are listed; or the one that does is deleted.", body = ErrorEnvelope)))]
async fn resolve(State(app): State<App>, _: Reader, mut params: Filters) -> Result<Json<Resolved>, ApiError> {
    let prefix = params.text("prefix").ok_or_else(|| ApiError::invalid("the parameter prefix is missing"))?;
    let with_deleted = params.flag("include_deleted")?.unwrap_or(false);
    app.blocking(move |app| {
        let run_id = if with_deleted {
            app.store.resolve_run_with_deleted(&prefix)?
        } else {
            app.store.resolve_run(&prefix)?
        };
        Ok(Json(Resolved { run_id }))
    })
    .await
}

/// Runs of one eval.
#[derive(Debug, Serialize, ToSchema)]
struct OfEval {
    /// Oldest first.
    #[schema(value_type = Vec<String>)]
    run_ids: Vec<RunId>,
}

/// The runs whose logs are of one eval, whatever their bytes; not deleted ones.
#[utoipa::path(get, path = "/api/runs/of-eval", tag = "runs", params(
    ("eval_id" = String, Query, description = "`eval.eval_id` of a log.")), responses(
    (status = 200, body = OfEval),
    (status = 400, description = "A parameter cannot be understood.", body = ErrorEnvelope),
    (status = 401, description = "A token is needed.", body = ErrorEnvelope)))]
async fn of_eval(State(app): State<App>, _: Reader, mut params: Filters) -> Result<Json<OfEval>, ApiError> {
    let eval_id =
        params.text("eval_id").ok_or_else(|| ApiError::invalid("the parameter eval_id is missing"))?;
    app.blocking(move |app| Ok(Json(OfEval { run_ids: app.store.runs_of_eval(&eval_id)? }))).await
}

/// Where the run's log can be fetched.
#[utoipa::path(get, path = "/api/runs/{id}/eval", tag = "runs", params(("id" = String, Path)), responses(
    (status = 302, description = "To a signed address that is good for a short time."),
    (status = 401, description = "A token is needed.", body = ErrorEnvelope),
    (status = 404, description = "There is no such run.", body = ErrorEnvelope)))]
async fn eval(
    State(app): State<App>,
    _: Reader,
    base: BaseUrl,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let run = run_id(&id)?;
    app.blocking(move |app| {
        let record = record(app, &run, false)?;
        Ok(shown::redirect_to_log(app, &base, run, record.log.format))
    })
    .await
}
