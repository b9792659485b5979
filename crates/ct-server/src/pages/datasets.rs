//! `/datasets` and `/datasets/<name>`.

use axum::Router;
use axum::extract::State;
use axum::http::Uri;
use axum::response::{Html, IntoResponse as _, Response};
use axum::routing::{get, post};
use ct_model::{
    DatasetKind, DatasetName, DatasetQuery, DatasetVersion, DatasetVersionQuery, RunRecord, TrajectoryQuery,
};
use ct_pages::{Span, page};

use super::answer;
use super::chosen::{failed, told};
use super::flash::done;
use super::form::Form;
use super::listing::Listing;
use super::visitor::Visitor;
use crate::app::App;
use crate::error::ApiError;
use crate::extract::Path;
use crate::limits;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/datasets", get(list))
        .route("/datasets/{name}", get(dataset))
        .route("/datasets/{name}/lock", post(lock))
}

async fn list(State(app): State<App>, visitor: Visitor, uri: Uri) -> Result<Response, ApiError> {
    let listing = match Listing::read(&uri, &page::datasets::PARAMETERS) {
        Ok(listing) => listing,
        Err(address) => return Ok(answer::to(&address)),
    };
    let kind = listing.filters().value::<DatasetKind>("kind")?;
    app.blocking(move |app| {
        let query = DatasetQuery {
            kind,
            cursor: listing.cursor(),
            limit: Some(listing.limit),
            ..DatasetQuery::default()
        };
        let found = app.store.datasets(&query)?;
        let span = listing.span(found.items.len(), found.total_count);
        Ok(Html(page::datasets::page(&visitor.visit, &listing.query, &found, span)).into_response())
    })
    .await
}

fn named(name: String) -> Result<DatasetName, ApiError> {
    let shown: String = name.chars().take(80).collect();
    DatasetName::new(name).map_err(|_| ApiError::not_found(format!("dataset {shown} was not found")))
}

async fn dataset(
    State(app): State<App>,
    visitor: Visitor,
    Path(name): Path<String>,
    uri: Uri,
) -> Result<Response, ApiError> {
    let name = named(name)?;
    let listing = match Listing::read(&uri, &page::dataset::parameters()) {
        Ok(listing) => listing,
        Err(address) => return Ok(answer::to(&address)),
    };
    let version = listing.filters().value::<u64>("version")?;
    app.blocking(move |app| {
        let query =
            DatasetVersionQuery { limit: Some(limits::VERSIONS_OF_A_PAGE), ..DatasetVersionQuery::default() };
        let versions = app.store.dataset_versions(&name, &query)?;
        let set = match versions.items.iter().find(|set| version.is_none_or(|version| set.version == version))
        {
            // A list of trajectories is read through the index: its ids, which can be very many, are not needed.
            Some(set) if set.kind == DatasetKind::Trajectory => set.clone(),
            _ => app.store.dataset(&name, version)?,
        };
        let visit = &visitor.visit;
        let text = match set.kind {
            DatasetKind::Trajectory => {
                let found = super::trajectories::find(app, &listing, |query| TrajectoryQuery {
                    versioned_dataset: Some(name.clone()),
                    versioned_dataset_version: Some(set.version),
                    ..query
                })?;
                let span = listing.span(found.items.len(), found.total_count);
                let items = page::dataset::Items::Trajectories(&found);
                page::dataset::page(visit, &listing.query, &set, &versions, &items, span)
            }
            DatasetKind::Run => {
                let (runs, span) = runs(app, &listing, &set);
                let items = page::dataset::Items::Runs(&runs);
                page::dataset::page(visit, &listing.query, &set, &versions, &items, span)
            }
        };
        Ok(Html(text).into_response())
    })
    .await
}

/// The runs on a page of a list of runs. One that was removed for good is an id alone.
fn runs(app: &App, listing: &Listing, set: &DatasetVersion) -> (Vec<(String, Option<RunRecord>)>, Span) {
    let ids = set.item_ids.as_deref().unwrap_or_default();
    let total = ids.len() as u64;
    let from = listing.query.get("from").and_then(|from| from.parse::<u64>().ok()).unwrap_or(1);
    let first = from.clamp(1, total.max(1));
    let skip = usize::try_from(first - 1).unwrap_or(usize::MAX);
    let here = ids.iter().skip(skip).take(usize::try_from(listing.limit).unwrap_or(usize::MAX));
    let runs: Vec<_> = here
        .map(|id| {
            let run = id.parse().ok().and_then(|run| app.store.run(&run).ok());
            (id.clone(), run)
        })
        .collect();
    let span = Span { first, here: runs.len() as u64, total };
    (runs, span)
}

async fn lock(
    State(app): State<App>,
    Path(name): Path<String>,
    Form { caller, visitor, mut fields }: Form,
) -> Result<Response, ApiError> {
    let name = named(name)?;
    let back = format!("/datasets/{name}");
    let flash = app
        .blocking(move |app| {
            let unlocks = fields.text("action").as_deref() == Some("unlock");
            let done = if unlocks {
                app.store.unlock_dataset(&name, &caller.actor()).map(|_| "It takes new versions again")
            } else {
                let reason = fields.text("reason");
                let lock = app.store.lock_dataset(&name, reason.as_deref(), &caller.actor());
                lock.map(|_| "It is locked: it takes no new version")
            };
            Ok(done.map_or_else(|error| failed(error.into()), |sentence| told(sentence.to_owned())))
        })
        .await?;
    Ok(done(&back, &flash, visitor.secure))
}
