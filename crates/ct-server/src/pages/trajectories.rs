//! `/trajectories`: the table of trajectories, and what is done with those chosen.

use axum::Router;
use axum::extract::State;
use axum::http::Uri;
use axum::response::{Html, IntoResponse as _, Response};
use axum::routing::{get, post};
use ct_model::{DatasetEdit, DatasetKind, DatasetName, TrajectoryPage, TrajectoryQuery};
use ct_pages::{Flash, count, page};

use super::answer;
use super::chosen::{failed, told};
use super::flash::done;
use super::form::Form;
use super::listing::Listing;
use super::visitor::Visitor;
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::extract::Filters;
use crate::limits;
use crate::routes::trajectories;

pub(super) fn routes() -> Router<App> {
    Router::new().route("/trajectories", get(list)).route("/trajectories/chosen", post(chosen))
}

async fn list(State(app): State<App>, visitor: Visitor, uri: Uri) -> Result<Response, ApiError> {
    let listing = match Listing::read(&uri, &page::trajectories::parameters()) {
        Ok(listing) => listing,
        Err(address) => return Ok(answer::to(&address)),
    };
    app.blocking(move |app| {
        let found = find(app, &listing, |query| query)?;
        let span = listing.span(found.items.len(), found.total_count);
        Ok(Html(page::trajectories::page(&visitor.visit, &listing.query, &found, span)).into_response())
    })
    .await
}

/// The part of a list that a page shows; `within` adds what the page is about.
pub(super) fn find(
    app: &App,
    listing: &Listing,
    within: impl FnOnce(TrajectoryQuery) -> TrajectoryQuery,
) -> Result<TrajectoryPage, ApiError> {
    let Some(query) = trajectories::query(&mut listing.filters())? else {
        return Ok(TrajectoryPage { items: Vec::new(), total_count: 0, next_cursor: None });
    };
    let query = TrajectoryQuery { cursor: listing.cursor(), limit: Some(listing.limit), ..within(query) };
    Ok(app.store.trajectories(&query)?)
}

async fn chosen(
    State(app): State<App>,
    Form { caller, visitor, mut fields }: Form,
) -> Result<Response, ApiError> {
    let back = super::own_address(&mut fields, "back").unwrap_or_else(|| "/trajectories".to_owned());
    let flash = app.blocking(move |app| Ok(act(app, &caller, &mut fields).unwrap_or_else(failed))).await?;
    Ok(done(&back, &flash, visitor.secure))
}

fn act(app: &App, caller: &Caller, fields: &mut Filters) -> Result<Flash, ApiError> {
    let ids = fields.texts("trajectory");
    if ids.is_empty() {
        return Err(ApiError::invalid("no trajectory was chosen: tick the boxes of those that are meant"));
    }
    if ids.len() > limits::CHOSEN_MAX {
        return Err(ApiError::invalid(format!("more than {} trajectories were chosen", limits::CHOSEN_MAX)));
    }
    let name = super::dataset_name(fields)?;
    let takes_out = fields.text("action").as_deref() == Some("remove");
    let exists = app
        .store
        .dataset_versions(&name, &ct_model::DatasetVersionQuery { limit: Some(1), ..Default::default() })
        .is_ok();
    let edit = match (takes_out, exists) {
        (true, _) => DatasetEdit { remove: Some(ids), ..DatasetEdit::default() },
        (false, true) => DatasetEdit { add: Some(ids), ..DatasetEdit::default() },
        (false, false) => DatasetEdit { item_ids: Some(ids), if_version: Some(0), ..DatasetEdit::default() },
    };
    let edit = DatasetEdit { kind: Some(DatasetKind::Trajectory), ..edit };
    let change = app.store.edit_dataset(&name, &edit, &caller.actor())?;
    Ok(told(sentence(&name, &change)))
}

fn sentence(name: &DatasetName, change: &ct_model::DatasetChange) -> String {
    let mut parts = Vec::new();
    for (ids, what) in [
        (&change.added, "added"),
        (&change.already_present, "there already"),
        (&change.removed, "taken out"),
        (&change.not_found, "not in it"),
    ] {
        if !ids.is_empty() {
            parts.push(format!("{} {what}", count(ids.len() as u64)));
        }
    }
    format!(
        "Dataset {name}: {}; it has {} in version {}",
        parts.join(", "),
        count(change.item_count),
        change.version
    )
}
