//! `/api/uploads/{id}/addresses`: where clients put parts of a log that goes to a bucket, not through here.

use axum::Json;
use axum::extract::{Path, State};
use ct_store::{DirectPart, DirectUpload};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::auth::Writer;
use crate::error::ApiError;
use crate::extract::Body;
use crate::limits;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(addresses))
}

/// How the parts of an upload go to a bucket.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Direct {
    /// The length of every part but the last; parts are counted from 1.
    part_bytes: u64,
    /// The parts that are there.
    parts: Vec<PartThere>,
}

/// A part that is there.
#[derive(Debug, Serialize, ToSchema)]
struct PartThere {
    number: u64,
    /// Mostly the MD5 of its bytes in hex, in quotes; null: it is there for good.
    e_tag: Option<String>,
}

impl From<DirectUpload> for Direct {
    fn from(upload: DirectUpload) -> Self {
        let there = |part: DirectPart| PartThere { number: part.number, e_tag: part.e_tag };
        Self { part_bytes: upload.part_bytes, parts: upload.parts.into_iter().map(there).collect() }
    }
}

/// Parts to be put.
#[derive(Debug, Deserialize, ToSchema)]
struct Wanted {
    /// Numbers of parts, from 1; at most 1000.
    parts: Vec<u64>,
}

/// Where to put them.
#[derive(Debug, Serialize, ToSchema)]
struct Addresses {
    parts: Vec<Address>,
}

/// Where to put a part.
#[derive(Debug, Serialize, ToSchema)]
struct Address {
    number: u64,
    /// Its first byte.
    start: u64,
    /// Its length.
    size_bytes: u64,
    /// Takes one PUT of exactly these bytes within minutes, without a token. `Content-MD5` is checked.
    url: String,
}

/// Ask where to put parts of a log that goes to a bucket. Repeating it is fine.
#[utoipa::path(post, path = "/api/uploads/{id}/addresses", tag = "uploads", params(("id" = String, Path)),
    request_body = Wanted, responses(
    (status = 200, body = Addresses), (status = 400, description = "no such parts, or logs do not go to a bucket here"),
    (status = 401, description = "no token"), (status = 403, description = "the token may not write"),
    (status = 404, description = "this user has no such upload"),
    (status = 503, description = "the bucket is out of reach")))]
async fn addresses(
    State(app): State<App>,
    Writer(caller): Writer,
    Path(id): Path<String>,
    Body(wanted): Body<Wanted>,
) -> Result<Json<Addresses>, ApiError> {
    app.blocking(move |app| {
        let signed = app.store.presign_parts(&id, &wanted.parts, limits::SIGNED_FOR, &caller.actor())?;
        let address = |(part, signed): (DirectPart, ct_s3::Presigned)| Address {
            number: part.number,
            start: part.start,
            size_bytes: part.size_bytes,
            url: signed.url.into(),
        };
        Ok(Json(Addresses { parts: signed.into_iter().map(address).collect() }))
    })
    .await
}
