//! `/api/uploads`: logs in parts, which go on where they were broken off.

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use ct_model::{LogFormat, LogHash};
use ct_store::{Actor, Expected, Upload, UploadOf, UploadPart};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::direct::Direct;
use super::eval_logs::key;
use crate::app::App;
use crate::auth::Writer;
use crate::body;
use crate::error::ApiError;
use crate::extract::Body;

/// CRC-32 of a part, a number.
const PART_CRC: &str = "x-ct-crc32";

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(begin))
        .routes(routes!(show, give_up))
        .routes(routes!(put_part))
        .routes(routes!(complete))
}

/// Letters of what a client calls a log.
const UNNAMED_MAX: usize = 128;

/// A log to be uploaded in parts.
#[derive(Debug, Deserialize, ToSchema)]
struct NewUpload {
    /// `<run id>.eval` or `<run id>.json`; absent: it is told when the log is all there.
    #[serde(default)]
    filename: Option<String>,
    /// Without a filename: what finds this upload again, and no other of this user. At most 128 characters.
    #[serde(default)]
    #[schema(max_length = 128)]
    resume_key: Option<String>,
    /// Its exact length.
    size_bytes: u64,
}

/// An upload, and what is there of it.
#[derive(Debug, Serialize, ToSchema)]
struct UploadState {
    upload_id: String,
    /// The length of the log.
    size_bytes: u64,
    /// By where they begin. They may overlap.
    parts: Vec<Part>,
    /// The most bytes of a part; null: as many as the disk has room for.
    part_bytes_max: Option<u64>,
    /// A log of this length is stored already; it may be this one.
    same_size: bool,
    /// Logs lie in a bucket here, and parts can be put there: see `/api/uploads/{id}/addresses`.
    #[serde(skip_serializing_if = "Option::is_none")]
    direct: Option<Direct>,
}

/// A part that is there.
#[derive(Debug, Serialize, ToSchema)]
struct Part {
    /// Its first byte.
    start: u64,
    /// Its length.
    size_bytes: u64,
    /// CRC-32 of its bytes.
    crc32: u32,
}

/// What the log has to be.
#[derive(Debug, Deserialize, ToSchema)]
struct Complete {
    /// SHA-256 of the whole log, in hex. Absent: it is told, and the log gets the name that goes with it.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    sha256: Option<LogHash>,
    /// Without a hash: `eval` or `json`.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    format: Option<LogFormat>,
    /// Its name, `<run id>.eval` or `<run id>.json`, when the upload was begun without.
    #[serde(default)]
    filename: Option<String>,
}

/// The log that the upload became.
#[derive(Debug, Serialize, ToSchema)]
struct Completed {
    /// For `s3://<bucket>/<key>`.
    bucket: String,
    /// Its name.
    key: String,
    /// Tells its bytes from others.
    e_tag: String,
    /// Its length.
    size_bytes: u64,
    /// SHA-256 of its bytes, in hex.
    #[schema(value_type = String)]
    sha256: LogHash,
}

impl From<UploadPart> for Part {
    fn from(part: UploadPart) -> Self {
        Self { start: part.start, size_bytes: part.size_bytes, crc32: part.crc32 }
    }
}

impl From<Upload> for UploadState {
    fn from(upload: Upload) -> Self {
        Self {
            upload_id: upload.upload_id,
            size_bytes: upload.size_bytes,
            parts: upload.parts.into_iter().map(Part::from).collect(),
            part_bytes_max: None,
            same_size: upload.same_size,
            direct: None,
        }
    }
}

/// An upload, with what is there of it in the bucket when parts go there.
fn state(app: &App, upload: Upload, actor: &Actor) -> Result<UploadState, ApiError> {
    let id = upload.upload_id.clone();
    let mut state = UploadState::from(upload);
    // What began to come through here goes on so.
    if !app.config.proxy_logs && state.parts.is_empty() {
        state.direct = app.store.direct_upload(&id, actor)?.map(Direct::from);
    }
    Ok(state)
}

/// Begin an upload in parts, or go on with the one of the same user, name (or `resume_key`) and length.
#[utoipa::path(post, path = "/api/uploads", tag = "uploads", request_body = NewUpload, responses(
    (status = 200, body = UploadState), (status = 400, description = "not a name of a log, or no length"),
    (status = 401, description = "no token"), (status = 403, description = "the token may not write"),
    (status = 409, description = "there is a log of this name already; the sentence says which"),
    (status = 507, description = "the disk has no room for it; the sentence says how much it has")))]
async fn begin(
    State(app): State<App>,
    Writer(caller): Writer,
    Body(log): Body<NewUpload>,
) -> Result<Json<UploadState>, ApiError> {
    let of = match (log.filename, log.resume_key) {
        (Some(filename), _) => UploadOf::Key(key(&filename)?),
        // What goes to the bucket goes there by its name.
        (None, Some(_)) if !app.config.proxy_logs && app.store.has_bucket() => {
            return Err(ApiError::invalid("logs lie in a bucket here, so a filename is needed"));
        }
        (None, Some(text)) if text.len() <= UNNAMED_MAX => UploadOf::Unnamed(text),
        (None, Some(_)) => {
            return Err(ApiError::invalid(format!("resume_key: longer than {UNNAMED_MAX} characters")));
        }
        (None, None) => return Err(ApiError::invalid("a filename or a resume_key is missing")),
    };
    app.blocking(move |app| {
        let upload = app.store.begin_upload(&of, log.size_bytes, &caller.actor())?;
        state(app, upload, &caller.actor()).map(Json)
    })
    .await
}

/// What is there of an upload.
#[utoipa::path(get, path = "/api/uploads/{id}", tag = "uploads", params(("id" = String, Path)), responses(
    (status = 200, body = UploadState), (status = 401, description = "no token"),
    (status = 403, description = "the token may not write"),
    (status = 404, description = "this user has no such upload")))]
async fn show(
    State(app): State<App>,
    Writer(caller): Writer,
    Path(id): Path<String>,
) -> Result<Json<UploadState>, ApiError> {
    app.blocking(move |app| {
        let upload = app.store.upload(&id, &caller.actor())?;
        state(app, upload, &caller.actor()).map(Json)
    })
    .await
}

/// Give an upload up.
#[utoipa::path(delete, path = "/api/uploads/{id}", tag = "uploads", params(("id" = String, Path)), responses(
    (status = 204, description = "it is gone"), (status = 401, description = "no token"),
    (status = 403, description = "the token may not write"),
    (status = 404, description = "this user has no such upload"),
    (status = 503, description = "parts of it are arriving")))]
async fn give_up(
    State(app): State<App>,
    Writer(caller): Writer,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    app.blocking(move |app| {
        app.store.drop_upload(&id, &caller.actor())?;
        Ok(StatusCode::NO_CONTENT)
    })
    .await
}

/// Put the bytes from `start` on: a part of any length, with its CRC-32 in `x-ct-crc32`. Repeating it is fine.
#[utoipa::path(put, path = "/api/uploads/{id}/parts/{start}", tag = "uploads",
    params(("id" = String, Path), ("start" = u64, Path), ("x-ct-crc32" = Option<u32>, Header)),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"), responses(
    (status = 200, body = Part), (status = 400, description = "it has another length, or lies outside of the log"),
    (status = 401, description = "no token"), (status = 403, description = "the token may not write"),
    (status = 404, description = "this user has no such upload"),
    (status = 409, description = "other bytes are there already"),
    (status = 422, description = "its CRC-32 is not what was said"),
    (status = 503, description = "the same bytes are arriving from someone else"),
    (status = 507, description = "the disk is full")))]
async fn put_part(
    State(app): State<App>,
    Writer(caller): Writer,
    Path((id, start)): Path<(String, String)>,
    request: Request,
) -> Result<Json<Part>, ApiError> {
    let start: u64 =
        start.parse().map_err(|_| ApiError::invalid("a part begins at a byte, counted from 0"))?;
    let (parts, sent) = request.into_parts();
    let crc32 = part_crc(&parts.headers)?;
    let size_bytes = body::content_length(&parts.headers);
    let actor = caller.actor();
    let followed = (id.clone(), actor.clone());
    let part = body::read_body(&app, sent, move |app, source| {
        Ok(app.store.put_part(&id, start, size_bytes, crc32, source, &actor)?)
    });
    let part = part.await?;
    // The answer waits neither for the hash of the whole nor for the disk.
    for behind in [ct_store::Store::follow_upload, ct_store::Store::flush_upload] {
        let (app, (id, actor)) = (app.clone(), followed.clone());
        tokio::task::spawn_blocking(move || {
            if let Err(error) = behind(&app.store, &id, &actor) {
                tracing::debug!(%error, "an upload was not followed");
            }
        });
    }
    Ok(Json(part.into()))
}

fn part_crc(headers: &HeaderMap) -> Result<Option<u32>, ApiError> {
    let Some(value) = headers.get(PART_CRC) else { return Ok(None) };
    let crc32 = value.to_str().ok().and_then(|text| text.parse().ok());
    Ok(Some(crc32.ok_or_else(|| ApiError::invalid(format!("{PART_CRC}: not a CRC-32 as a number")))?))
}

/// Make a log of the parts, when their bytes have this hash; or without one, of the parts that are there.
#[utoipa::path(post, path = "/api/uploads/{id}/complete", tag = "uploads", params(("id" = String, Path)),
    request_body = Complete, responses(
    (status = 200, body = Completed), (status = 400, description = "not a SHA-256, or not the name of a log"),
    (status = 401, description = "no token"), (status = 403, description = "the token may not write"),
    (status = 404, description = "this user has no such upload"),
    (status = 409, description = "parts are missing, or there is a log of this name meanwhile"),
    (status = 422, description = "the bytes have another hash"),
    (status = 503, description = "parts are arriving")))]
async fn complete(
    State(app): State<App>,
    Writer(caller): Writer,
    Path(id): Path<String>,
    Body(complete): Body<Complete>,
) -> Result<Json<Completed>, ApiError> {
    let expected = match (complete.sha256, complete.format) {
        (Some(hash), _) => Expected::Hash(hash, complete.filename.as_deref().map(key).transpose()?),
        (None, Some(format)) => Expected::Any(format),
        (None, None) => return Err(ApiError::invalid("either sha256 or format is needed")),
    };
    app.blocking(move |app| {
        let object = app.store.complete_upload(&id, &expected, &caller.actor())?;
        Ok(Json(Completed {
            bucket: app.config.bucket.clone(),
            key: object.key.to_string(),
            e_tag: object.e_tag(),
            size_bytes: object.log.size_bytes,
            sha256: object.log.hash,
        }))
    })
    .await
}
