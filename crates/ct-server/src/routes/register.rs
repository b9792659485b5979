//! `POST /api/trajectories/register`: runs whose logs were uploaded.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use ct_model::RunId;
use ct_store::Registration;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::auth::Writer;
use crate::error::ApiError;
use crate::extract::Body;
use crate::limits;

/// Whose clients are served.
const CLIENT: &str = "control-tower";
/// The version of the documents.
const SCHEMA_VERSION: u64 = 3;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(register))
}

/// A batch of trajectory documents. The last one of a run carries its header.
#[derive(Debug, Deserialize, ToSchema)]
struct Batch {
    /// `control-tower`
    client: String,
    /// 3
    schema_version: u64,
    /// At most 1000, and 8 MiB with all the rest.
    #[serde(default)]
    #[schema(value_type = Vec<Object>, max_items = 1000)]
    trajectories: Vec<Box<RawValue>>,
    /// The header.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    run: Option<Value>,
    /// Beyond the contract: a run of the same eval, which gets this log and these documents in place of those it has. It
    /// keeps its id and what users said about it, and its log becomes an earlier revision. With every batch.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    replaces: Option<RunId>,
    /// The lengths of the logs by key.
    #[serde(default)]
    eval_log_sizes: Option<BTreeMap<String, u64>>,
}

/// What came of it.
#[derive(Debug, Serialize, ToSchema)]
struct Answer {
    /// Documents that were not there before.
    registered: u64,
    /// Documents that were.
    already_there: u64,
    /// The run, once its header is there; then it is in lists.
    run_id: Option<String>,
    /// The most documents that a batch may have.
    documents_max: usize,
    /// The most bytes that a batch may have.
    bytes_max: usize,
}

/// Register documents, and with the last of them their run.
#[utoipa::path(post, path = "/api/trajectories/register", tag = "uploads", request_body = Batch, responses(
    (status = 200, body = Answer), (status = 400, description = "it is not valid; the sentence says where and why"),
    (status = 401, description = "no token"), (status = 403, description = "the token may not write"),
    (status = 409, description = "something different is there already"),
    (status = 413, description = "the batch is too large")))]
async fn register(
    State(app): State<App>,
    Writer(caller): Writer,
    Body(batch): Body<Batch>,
) -> Result<Json<Answer>, ApiError> {
    if batch.client != CLIENT {
        return Err(ApiError::invalid(format!("client: {:?}, and {CLIENT:?} is served", batch.client)));
    }
    if batch.schema_version != SCHEMA_VERSION {
        let found = batch.schema_version;
        return Err(ApiError::invalid(format!("schema_version: {found}, and {SCHEMA_VERSION} is served")));
    }
    let count = batch.trajectories.len();
    if count > limits::REGISTER_DOCUMENTS_MAX {
        let max = limits::REGISTER_DOCUMENTS_MAX;
        return Err(ApiError::invalid(format!(
            "trajectories: {count} in one batch, and at most {max} are taken"
        )));
    }
    app.blocking(move |app| {
        let registration = Registration {
            documents: batch.trajectories,
            header: batch.run,
            replaces: batch.replaces,
            log_sizes: batch.eval_log_sizes.unwrap_or_default(),
            bucket: app.config.bucket.clone(),
        };
        let registered = app.store.register(registration, &caller.actor())?;
        Ok(Json(Answer {
            registered: registered.added,
            already_there: registered.already_there,
            run_id: registered.run_id.map(String::from),
            documents_max: limits::REGISTER_DOCUMENTS_MAX,
            bytes_max: limits::JSON_BYTES_MAX,
        }))
    })
    .await
}
