//! What is done with the runs that were chosen in the table: tag, sample into a dataset, delete, and undo that.

use std::ops::ControlFlow;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use ct_model::sampling::{self, DrawnFrom, Item, Manifest, Request, STRATA_DEFAULT, Size, Sizes, Source};
use ct_model::{DatasetEdit, DatasetKind, DatasetName, RunEdit, RunId};
use ct_pages::{Flash, count};

use super::flash::done;
use super::form::Form;
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::extract::Filters;
use crate::limits;
use crate::routes::runs::{record, run_id};

pub(super) fn routes() -> Router<App> {
    Router::new().route("/runs/chosen", post(chosen)).route("/runs/restore", post(restore))
}

async fn chosen(
    State(app): State<App>,
    Form { caller, visitor, mut fields }: Form,
) -> Result<Response, ApiError> {
    let back = super::own_address(&mut fields, "back").unwrap_or_else(|| "/runs".to_owned());
    let flash = app.blocking(move |app| Ok(act(app, &caller, &mut fields).unwrap_or_else(failed))).await?;
    Ok(done(&back, &flash, visitor.secure))
}

/// Tells on the page that was left why nothing was done.
pub(super) fn failed(error: ApiError) -> Flash {
    Flash { sentence: error.sentence().to_owned(), is_error: true, restorable: Vec::new() }
}

fn act(app: &App, caller: &Caller, fields: &mut Filters) -> Result<Flash, ApiError> {
    let runs = fields.texts("run").iter().map(|id| run_id(id)).collect::<Result<Vec<_>, _>>()?;
    if runs.is_empty() {
        return Err(ApiError::invalid("no run was chosen: tick the boxes of those that are meant"));
    }
    if runs.len() > limits::CHOSEN_MAX {
        return Err(ApiError::invalid(format!("more than {} runs were chosen", limits::CHOSEN_MAX)));
    }
    for run in &runs {
        record(app, run, false)?;
    }
    let tag = fields.text("tag").map(|tag| tag.trim().to_owned()).filter(|tag| !tag.is_empty());
    let names_dataset = fields.has("dataset");
    let action = fields.text("action").unwrap_or_default();
    let action = match action.as_str() {
        "filled" if names_dataset => "sample",
        "filled" => "tag",
        action => action,
    };
    match action {
        "tag" | "untag" => {
            let tag = tag.ok_or_else(|| ApiError::invalid("write the tag first"))?;
            let tags = vec![tag.clone()];
            let edit = match action {
                "tag" => RunEdit { add_tags: tags, ..RunEdit::default() },
                _ => RunEdit { remove_tags: tags, ..RunEdit::default() },
            };
            let edit = RunEdit { author: Some(caller.identity.username.clone()), ..edit };
            app.store.edit_runs(&runs, &edit, &caller.actor())?;
            let what = if action == "tag" { "carry" } else { "no longer carry" };
            Ok(told(format!("{} now {what} the tag {tag}", runs_of(runs.len()))))
        }
        "delete" => {
            app.store.delete_runs(&runs, &caller.actor())?;
            let restorable = runs.iter().map(ToString::to_string).collect();
            Ok(Flash { restorable, ..told(format!("{} deleted", runs_of(runs.len()))) })
        }
        "sample" => {
            let name = super::dataset_name(fields)?;
            let size = fields.value::<u64>("count")?.filter(|count| *count > 0);
            let size = size.ok_or_else(|| ApiError::invalid("say how many trajectories to draw"))?;
            sample(app, caller, &runs, name, size)
        }
        _ => Err(ApiError::invalid("nothing was asked for")),
    }
}

/// Draws over all of the runs, in shares of their environments and tasks.
fn sample(
    app: &App,
    caller: &Caller,
    runs: &[RunId],
    name: DatasetName,
    size: u64,
) -> Result<Flash, ApiError> {
    let invalid = |error: &dyn std::error::Error| ApiError::invalid(error.to_string());
    let sizes = Sizes::new(vec![Size::Count(size)], false).map_err(|error| invalid(&error))?;
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).map_err(|error| ApiError::internal(&error))?;
    let seed = u64::from(u32::from_le_bytes(bytes));
    let request = Request { sizes, stratify_by: STRATA_DEFAULT.to_vec(), group_by: None, seed };
    let mut items = Vec::new();
    let mut refused = None;
    for run in runs {
        app.store.documents(run, &mut |document| {
            match Item::new(&document, &request) {
                Ok(item) => items.push(item),
                Err(error) => refused = Some(error),
            }
            if refused.is_some() || items.len() > limits::SAMPLED_FROM_MAX {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
    }
    if let Some(error) = refused {
        return Err(invalid(&error));
    }
    if items.len() > limits::SAMPLED_FROM_MAX {
        return Err(ApiError::invalid(format!(
            "the chosen runs have more than {} trajectories: draw with ct runs sample",
            count(limits::SAMPLED_FROM_MAX as u64)
        )));
    }
    let draw = sampling::draw(&items, &request).map_err(|error| invalid(&error))?;
    let mut from = Vec::with_capacity(runs.len());
    for run in runs {
        let log_sha256 = app.store.run(run)?.log.hash.to_string();
        from.push(DrawnFrom { run_id: run.clone(), log_sha256 });
    }
    let mut from = from.into_iter();
    let run = from.next().ok_or_else(|| ApiError::invalid("no run was chosen"))?;
    let source = Source { run, more_runs: from.collect(), filters: Vec::new() };
    let manifest = Manifest::new(source, &request, &draw);
    let ids: Vec<String> = draw.parts.iter().flat_map(|part| &part.ids).map(ToString::to_string).collect();
    let drawn = ids.len();
    let edit = DatasetEdit {
        item_ids: Some(ids),
        kind: Some(DatasetKind::Trajectory),
        description: Some(serde_json::to_string(&manifest).map_err(|error| ApiError::internal(&error))?),
        ..DatasetEdit::default()
    };
    let change = app.store.edit_dataset(&name, &edit, &caller.actor())?;
    Ok(told(format!(
        "Dataset {name} has version {}: {drawn} of {} trajectories",
        change.version,
        items.len()
    )))
}

async fn restore(
    State(app): State<App>,
    Form { caller, visitor, mut fields }: Form,
) -> Result<Response, ApiError> {
    let flash = app
        .blocking(move |app| {
            let runs = fields.texts("run");
            let runs =
                runs.iter().take(limits::CHOSEN_MAX).map(|run| run_id(run)).collect::<Result<Vec<_>, _>>()?;
            app.store.restore_runs(&runs, &caller.actor())?;
            Ok(told(format!("{} restored", runs_of(runs.len()))))
        })
        .await?;
    Ok(done("/runs", &flash, visitor.secure))
}

/// Tells what was done.
pub(super) fn told(sentence: String) -> Flash {
    Flash { sentence, ..Flash::default() }
}

fn runs_of(number: usize) -> String {
    if number == 1 { "1 run".to_owned() } else { format!("{number} runs") }
}
