//! `GET /api/openapi.json`: the description of the API, made from the handlers.

use std::sync::OnceLock;

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Components, OpenApi, Ref, RefOr, ResponseBuilder, content::ContentBuilder};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::auth::Reader;
use crate::error::ErrorEnvelope;
use crate::limits;

const SCHEME: &str = "token";
/// Routes that never need a token.
const OPEN: &[&str] = &["/api/health", "/api/ready", "/api/auth/login"];
/// Reads whose parameters are too long for an address.
const READS: &[&str] = &["/api/trajectories/zip"];

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(openapi))
}

/// This document.
#[utoipa::path(get, path = "/api/openapi.json", tag = "health", responses((status = 200, body = serde_json::Value),
    (status = 401, description = "A token is needed.", body = ErrorEnvelope)))]
async fn openapi(_: Reader) -> Response {
    static TEXT: OnceLock<String> = OnceLock::new();
    let text = TEXT.get_or_init(|| super::openapi().to_json().unwrap_or_default());
    ([(CONTENT_TYPE, "application/json")], text.as_str()).into_response()
}

/// Adds what all routes have in common: the token, the error, and the limits.
pub(super) fn complete(mut document: OpenApi) -> OpenApi {
    document.info.description = Some(description());
    let components = document.components.get_or_insert_with(Components::new);
    let mut token = Http::new(HttpAuthScheme::Bearer);
    token.description =
        Some("A token of `POST /api/auth/login`. Reads of a public server need none.".to_owned());
    components.add_security_scheme(SCHEME, SecurityScheme::Http(token));
    for (path, item) in &mut document.paths.paths {
        let open = OPEN.contains(&path.as_str()) || path.starts_with("/objects/");
        for operation in [&mut item.get, &mut item.head].into_iter().flatten() {
            describe(operation, open, true);
        }
        for operation in
            [&mut item.post, &mut item.put, &mut item.patch, &mut item.delete].into_iter().flatten()
        {
            describe(operation, open, READS.contains(&path.as_str()));
        }
    }
    document
}

fn describe(operation: &mut Operation, open: bool, read: bool) {
    let token = SecurityRequirement::new::<_, [&str; 0], _>(SCHEME, []);
    operation.security = Some(match (open, read) {
        (true, _) => Vec::new(),
        (false, true) => vec![SecurityRequirement::default(), token],
        (false, false) => vec![token],
    });
    let error = ResponseBuilder::new()
        .description("Anything else that went wrong, in the same envelope.")
        .content(
            "application/json",
            ContentBuilder::new().schema(Some(Ref::from_schema_name("ErrorEnvelope"))).build(),
        )
        .build();
    operation.responses.responses.entry("default".to_owned()).or_insert_with(|| RefOr::T(error));
}

fn description() -> String {
    format!(
        "Runs and trajectories of AI-agent evaluations. Errors are `{{\"error\": \"<one sentence>\"}}`.\n\n\
         Lists are windowed by `page` and `page_size` (or `limit` for the newest), or by `cursor`. The server remembers for \
         {walk} minutes how far a client has come, so a client that asks for page after page sees each row that was there \
         throughout exactly once, whatever others add or delete meanwhile.\n\n\
         Limits: {page} items on a page ({page_default} unless asked otherwise), {ids} of ids, {documents} of documents; \
         larger pages are cut to that, which `page_size` and `warnings` tell. {zip} trajectories in a ZIP file. JSON bodies \
         of {body} bytes and {depth} levels. Headers of {header} bytes. {requests} requests are worked on at a time, \
         and {open} of those that anybody may send with a body; {queue} wait up to {wait} seconds; beyond that the answer is 503 with `Retry-After`. Answers other than \
         transfers begin within {timeout} seconds. Signed addresses are good for {signed} minutes.",
        walk = limits::WALK_LIFETIME.as_secs() / 60,
        page = limits::PAGE_SIZE_MAX,
        page_default = limits::PAGE_SIZE_DEFAULT,
        ids = limits::IDS_PAGE_SIZE_MAX,
        documents = limits::DOCUMENTS_PAGE_SIZE_MAX,
        zip = limits::ZIP_TRAJECTORIES_MAX,
        body = limits::JSON_BYTES_MAX,
        depth = limits::JSON_DEPTH_MAX,
        header = limits::HEADER_BYTES_MAX,
        requests = limits::REQUESTS_MAX,
        open = limits::OPEN_REQUESTS_MAX,
        queue = limits::QUEUE_MAX,
        wait = limits::QUEUE_TIMEOUT.as_secs(),
        timeout = limits::ANSWER_TIMEOUT.as_secs(),
        signed = limits::SIGNED_FOR.as_secs() / 60,
    )
}
