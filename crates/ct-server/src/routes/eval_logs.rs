//! `/api/eval-logs`: where to put the log of a run, and whether it is there.

use axum::Json;
use axum::extract::State;
use ct_model::{LogHash, ObjectKey};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::address::BaseUrl;
use crate::app::App;
use crate::auth::Writer;
use crate::error::ApiError;
use crate::extract::{Body, Params};
use crate::limits;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(plan)).routes(routes!(head))
}

/// A log to be put.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct NewLog {
    /// `<run id>.eval` or `<run id>.json`.
    pub(super) filename: String,
    /// Its exact length.
    pub(super) size_bytes: u64,
}

/// Where to put it.
#[derive(Debug, Serialize, ToSchema)]
struct Plan {
    /// Takes one PUT of exactly that many bytes within minutes, without a token.
    url: String,
    /// For `s3://<bucket>/<filename>`.
    bucket: String,
}

/// A log's name.
#[derive(Debug, Deserialize, IntoParams)]
struct Named {
    /// `<run id>.eval` or `<run id>.json`.
    filename: String,
}

/// A log that is there.
#[derive(Debug, Serialize, ToSchema)]
struct Head {
    /// For `s3://<bucket>/<filename>`.
    bucket: String,
    /// Its length.
    size_bytes: u64,
    /// Tells its bytes from others.
    e_tag: String,
    /// Its version, where it lies in a bucket that keeps versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    version_id: Option<String>,
    /// SHA-256 of its bytes, in hex. Beyond the contract.
    #[schema(value_type = String)]
    sha256: LogHash,
}

pub(super) fn key(filename: &str) -> Result<ObjectKey, ApiError> {
    filename.parse().map_err(|error: ct_model::ObjectKeyError| ApiError::invalid(error.to_string()))
}

/// Plan the upload of a log.
#[utoipa::path(post, path = "/api/eval-logs/upload", tag = "uploads", request_body = NewLog, responses(
    (status = 200, body = Plan), (status = 400, description = "not a name of a log, or no length"),
    (status = 401, description = "no token"), (status = 403, description = "the token may not write"),
    (status = 409, description = "there is a log of this name already; the sentence says which"),
    (status = 507, description = "the disk has no room for it; the sentence says how much it has")))]
async fn plan(
    State(app): State<App>,
    Writer(caller): Writer,
    base: BaseUrl,
    Body(log): Body<NewLog>,
) -> Result<Json<Plan>, ApiError> {
    let key = key(&log.filename)?;
    if log.size_bytes == 0 {
        return Err(ApiError::invalid("a log has at least one byte"));
    }
    let own = app.signed_put(&base, &key, log.size_bytes, &caller.identity.username);
    app.blocking(move |app| {
        app.store.arrived_object(&key, &caller.actor())?;
        app.store.check_key_is_free(&key)?;
        let direct = match log.size_bytes {
            _ if app.config.proxy_logs => None,
            // No service takes more in one piece; through here it goes in parts.
            limits::BUCKET_PUT_BYTES_MAX.. => None,
            size_bytes => app.store.presign_object(&key, size_bytes, limits::SIGNED_FOR)?,
        };
        if direct.is_none() {
            app.store.check_room(log.size_bytes)?;
        }
        let url = direct.map_or(own, |signed| signed.url.into());
        Ok(Json(Plan { url, bucket: app.config.bucket.clone() }))
    })
    .await
}

/// Whether a log is there.
#[utoipa::path(get, path = "/api/eval-logs/head", tag = "uploads", params(Named), responses(
    (status = 200, body = Head), (status = 400, description = "not a name of a log"),
    (status = 401, description = "no token"), (status = 403, description = "the token may not write"),
    (status = 404, description = "it is not there")))]
async fn head(
    State(app): State<App>,
    Writer(caller): Writer,
    Params(named): Params<Named>,
) -> Result<Json<Head>, ApiError> {
    let key = key(&named.filename)?;
    app.blocking(move |app| {
        let object = app.store.arrived_object(&key, &caller.actor())?;
        let object = object.ok_or_else(|| ApiError::not_found(format!("log {key} was not found")))?;
        Ok(Json(Head {
            bucket: app.config.bucket.clone(),
            size_bytes: object.log.size_bytes,
            e_tag: object.e_tag(),
            version_id: object.tag.version_id.clone(),
            sha256: object.log.hash,
        }))
    })
    .await
}
