//! `/runs/<id>`: one run, its numbers as CSV, and changes to it.

use std::ops::ControlFlow;

use axum::Router;
use axum::extract::State;
use axum::http::Uri;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{Html, IntoResponse as _, Response};
use axum::routing::{get, post};
use ct_model::{Csv, RunEdit, RunId, Scope, TrajectoryNumbers, TrajectoryQuery};
use ct_pages::measure::Measure;
use ct_pages::{Flash, page};

use super::answer;
use super::chosen::{failed, told};
use super::comments::earlier;
use super::flash::done;
use super::form::Form;
use super::listing::Listing;
use super::visitor::Visitor;
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::extract::{Filters, Path};
use crate::routes::comments::author;
use crate::routes::runs::{record, run_id};

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/runs/{id}", get(run))
        .route("/runs/{id}/edit", post(edit))
        .route("/runs/{id}/comments", post(comment))
        .route("/runs/{id}/plots/{name}", get(plot))
        .route("/runs/{id}/trajectories.csv", get(trajectories))
}

async fn run(
    State(app): State<App>,
    visitor: Visitor,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Response, ApiError> {
    let run = run_id(&id)?;
    let mut listing = match Listing::read(&uri, &page::trajectories::parameters()) {
        Ok(listing) => listing,
        Err(address) => return Ok(answer::to(&address)),
    };
    listing.query = listing.query.without(&["run_id"]);
    app.blocking(move |app| {
        let record = match record(app, &run, true) {
            Ok(record) => record,
            Err(error) => match app.store.resolve_run(run.as_str()) {
                // The beginning of an id, as it is shown in tables.
                Ok(whole) if whole != run => {
                    return Ok(answer::to(&listing.query.on(&format!("/runs/{whole}"))));
                }
                _ => return Err(error),
            },
        };
        let include_deleted = record.deleted_at.is_some();
        let found = super::trajectories::find(app, &listing, |query| TrajectoryQuery {
            run_id: Some(run.clone()),
            include_deleted,
            ..query
        })?;
        let summary = app.summaries.of(app, &run, &record)?;
        let shown = page::run::Run {
            record: &record,
            summary: &summary,
            query: &listing.query,
            span: listing.span(found.items.len(), found.total_count),
            trajectories: &found,
            earlier: &earlier(app, &format!("run {run}"), &record.header.comments)?,
            is_admin: visitor.identity.as_ref().is_some_and(|identity| identity.scope >= Scope::Admin),
        };
        Ok(Html(page::run::page(&visitor.visit, &shown)).into_response())
    })
    .await
}

async fn edit(
    State(app): State<App>,
    Path(id): Path<String>,
    Form { caller, visitor, mut fields }: Form,
) -> Result<Response, ApiError> {
    let run = run_id(&id)?;
    let path = format!("/runs/{run}");
    let deletes = fields.text("action").as_deref() == Some("delete");
    let flash = app
        .blocking(move |app| {
            let done =
                if deletes { delete(app, &caller, &run) } else { save(app, &caller, &run, &mut fields) };
            Ok(done.unwrap_or_else(failed))
        })
        .await?;
    let to = if deletes && !flash.is_error { "/runs" } else { &path };
    Ok(done(to, &flash, visitor.secure))
}

fn delete(app: &App, caller: &Caller, run: &RunId) -> Result<Flash, ApiError> {
    app.store.delete_run(run, &caller.actor())?;
    Ok(Flash { restorable: vec![run.to_string()], ..told("The run is deleted".to_owned()) })
}

/// Changes what is different from what the form began with.
fn save(app: &App, caller: &Caller, run: &RunId, fields: &mut Filters) -> Result<Flash, ApiError> {
    let before = record(app, run, false)?.header;
    let if_version = fields.value::<u64>("version")?;
    let tags = fields.text("tags").unwrap_or_default();
    // As they were shown: a tag with a comma in it stays one.
    let tags: Vec<String> = if tags == before.tags.join(", ") {
        before.tags.clone()
    } else {
        tags.split(',').map(str::trim).filter(|tag| !tag.is_empty()).map(str::to_owned).collect()
    };
    let mut text = |name: &str| {
        let text = fields.text(name).map(|text| text.replace("\r\n", "\n").trim().to_owned());
        text.filter(|text| !text.is_empty())
    };
    let name = text("name").ok_or_else(|| ApiError::invalid("a run needs a name"))?;
    let policy = text("policy");
    let dataset = text("dataset");
    let description = text("description");
    let edit = RunEdit {
        name: (name != before.name).then_some(name),
        policy: (policy != before.policy).then_some(policy),
        dataset: (dataset != before.dataset).then_some(dataset),
        description: (description != before.description).then_some(description),
        set_tags: (tags != before.tags).then_some(tags),
        author: Some(caller.identity.username.clone()),
        if_version,
        ..RunEdit::default()
    };
    app.store.patch_run(run, &edit, &author(caller))?;
    Ok(told("Saved".to_owned()))
}

async fn comment(
    State(app): State<App>,
    Path(id): Path<String>,
    Form { caller, visitor, mut fields }: Form,
) -> Result<Response, ApiError> {
    let run = run_id(&id)?;
    let back = format!("/runs/{run}#comments");
    let flash = app
        .blocking(move |app| {
            let text = fields.text("text").unwrap_or_default().replace("\r\n", "\n");
            let id = fields.text("comment").unwrap_or_default();
            let by = author(&caller);
            let done = match fields.text("change").as_deref() {
                Some("edit") => app.store.edit_run_comment(&run, &id, &text, &by),
                Some("delete") => app.store.delete_run_comment(&run, &id, &by),
                Some("restore") => app.store.restore_run_comment(&run, &id, &by),
                _ => app.store.comment_on_run(&run, &text, &by),
            };
            Ok(done.err().map(|error| failed(error.into())))
        })
        .await?;
    Ok(match flash {
        Some(flash) => done(&back, &flash, visitor.secure),
        None => answer::to(&back),
    })
}

/// The numbers behind a plot, one line per trajectory.
async fn plot(
    State(app): State<App>,
    _: Visitor,
    Path((id, name)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    let run = run_id(&id)?;
    let measure = name.strip_suffix(".csv").and_then(Measure::from_word);
    let measure = measure.ok_or_else(|| ApiError::not_found("there is no such plot"))?;
    let header = ["trajectory_id", measure.column(), "has_side_task"];
    csv(app, run, &format!("-{}", measure.as_str()), &header, move |numbers| {
        let value = measure.of(numbers).map(|value| value.to_string()).unwrap_or_default();
        vec![value, numbers.side.is_some().to_string()]
    })
    .await
}

/// All of the numbers.
async fn trajectories(
    State(app): State<App>,
    _: Visitor,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let run = run_id(&id)?;
    let header = [
        "trajectory_id",
        "main_outcome",
        "side_outcome",
        "errored",
        Measure::Suspicion.column(),
        Measure::Cost.column(),
        Measure::Length.column(),
        Measure::Time.column(),
    ];
    csv(app, run, "", &header, |numbers| {
        let number =
            |measure: Measure| measure.of(numbers).map(|value| value.to_string()).unwrap_or_default();
        let side = numbers.side.map(|side| side.as_str().to_owned()).unwrap_or_default();
        let mut fields = vec![numbers.main.as_str().to_owned(), side, numbers.errored.to_string()];
        fields.extend(Measure::ALL.map(number));
        fields
    })
    .await
}

/// A file of one line per trajectory of a run: its id, and what is told of its numbers.
async fn csv(
    app: App,
    run: RunId,
    ending: &str,
    header: &[&str],
    mut rest: impl FnMut(&TrajectoryNumbers) -> Vec<String> + Send + 'static,
) -> Result<Response, ApiError> {
    let name = format!("attachment; filename=\"{run}{ending}.csv\"");
    let mut csv = Csv::new(header);
    let text = app
        .blocking(move |app| {
            record(app, &run, true)?;
            app.store.documents(&run, &mut |document| {
                let id = document.trajectory_id.as_ref().map(ToString::to_string).unwrap_or_default();
                csv.row(std::iter::once(id).chain(rest(&TrajectoryNumbers::of(&document))));
                ControlFlow::Continue(())
            })?;
            Ok(csv.finish())
        })
        .await?;
    Ok(([(CONTENT_TYPE, "text/csv; charset=utf-8".to_owned()), (CONTENT_DISPOSITION, name)], text)
        .into_response())
}
