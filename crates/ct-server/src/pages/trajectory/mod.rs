//! `/trajectories/<id>`: the transcript of a trajectory, and its pieces as script asks for them.

mod neighbours;
mod parts;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::Uri;
use axum::response::{Html, IntoResponse as _, Response};
use axum::routing::{get, post};
use ct_model::TrajectoryId;
use ct_model::transcript::{Index, StepView, suspicion_scale};
use ct_pages::transcript::{CHUNK_STEPS, Diff, Page, Place, Progress, Rest, Steps, Strip};
use ct_pages::{Query, transcript};
use serde::Serialize;

use super::answer;
use super::form::Form;
use super::visitor::Visitor;
use crate::app::App;
use crate::error::ApiError;
use crate::extract::{Filters, Path};
use crate::routes::comments::author;
use crate::routes::trajectories::trajectory_id;
use crate::sample::{Found, find, open_log, unreadable};
use crate::transcripts::Transcript;

/// What of an address the page knows: the filter of the list, and where it is in it.
const PARAMETERS: [&str; 16] = [
    "run_id",
    "environment",
    "main_task",
    "side_task",
    "tag",
    "tags",
    "dataset",
    "versioned_dataset",
    "versioned_dataset_version",
    "main_task_outcome",
    "main_outcome",
    "side_task_outcome",
    "side_outcome",
    "errored",
    "include_deleted",
    "at",
];
/// Scores that are shown.
const SCORES_SHOWN: usize = 100;
/// Messages that are shown of what the agent was told first.
const PROMPT_SHOWN: usize = 4;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/trajectories/{id}", get(page))
        .route("/trajectories/{id}/steps", get(steps))
        .route("/trajectories/{id}/state", get(state))
        .route("/trajectories/{id}/comments", post(comment))
        .merge(parts::routes())
}

/// A trajectory whose sample is being read, or was.
struct Opened {
    found: Found,
    transcript: Arc<Transcript>,
}

fn opened(app: &App, id: &TrajectoryId) -> Result<Opened, ApiError> {
    let found = find(app, id)?;
    let size = found.document.eval_sample_range.as_ref().map(|range| range.uncompressed_size);
    let transcript = app.transcripts.get(id, &found.run.log.hash, size, || {
        let log = open_log(app, &found.run.log)?;
        log.read(&found.document).map_err(|error| unreadable(id, &error))
    })?;
    Ok(Opened { found, transcript })
}

/// The filter that an address carries.
fn filter(uri: &Uri) -> Query {
    let pairs = Filters::parse(uri.query().unwrap_or_default()).into_pairs();
    Query::new(pairs.into_iter().filter(|(name, _)| PARAMETERS.contains(&name.as_str())))
}

/// Which piece an address asks for: the one with an action, or from a step on.
#[derive(Clone, Copy)]
struct Wanted {
    action: Option<usize>,
    from: usize,
}

impl Wanted {
    fn read(params: &mut Filters) -> Result<Self, ApiError> {
        Ok(Self { action: params.value("action")?, from: params.value::<usize>("from")?.unwrap_or(0) })
    }

    /// Whether the piece is there.
    fn is_in(self, index: &Index) -> bool {
        match self.action {
            Some(action) => index
                .action(action)
                .is_some_and(|action| index.step_count() > self.chunk(action.step as usize) + CHUNK_STEPS),
            None => index.step_count() > self.chunk(self.from) + CHUNK_STEPS,
        }
    }

    fn chunk(self, step: usize) -> usize {
        step / CHUNK_STEPS * CHUNK_STEPS
    }

    /// The number of its first step.
    fn begin(self, index: &Index) -> usize {
        let step = self
            .action
            .and_then(|action| index.action(action))
            .map_or(self.from, |found| found.step as usize);
        self.chunk(step.min(index.step_count().saturating_sub(1)))
    }
}

fn progress(transcript: &Transcript) -> Progress {
    let index = transcript.index();
    Progress {
        complete: index.is_complete(),
        read_bytes: transcript.spooled_bytes(),
        size_bytes: transcript.size_bytes,
        failure: transcript.failure(),
        left_out: index.left_out(),
        steps: index.step_count(),
        actions: index.action_count(),
    }
}

fn read_steps(app: &App, opened: &Opened, wanted: Wanted) -> Result<Steps, ApiError> {
    let transcript = &opened.transcript;
    transcript.wait_for(|index| wanted.is_in(index));
    let from = wanted.begin(&transcript.index());
    let reader = transcript.reader();
    let mut steps: Vec<StepView> = Vec::with_capacity(CHUNK_STEPS);
    for number in from..from + CHUNK_STEPS {
        match reader.step(number) {
            Ok(Some(step)) => steps.push(step),
            Ok(None) => break,
            Err(error) => return Err(parts::failed(opened, &error)),
        }
    }
    let comments = app.store.trajectory_comments(&opened.found.document)?.step_comments;
    Ok(Steps { from, steps, comments })
}

fn place<'a>(id: &'a str, opened: &Opened, filter: &'a Query, visitor: &'a Visitor) -> Place<'a> {
    // The first event is the beginning; a document may count from when its run began.
    let first = opened.transcript.reader().model_call(0).ok().and_then(|event| event.began_ms);
    let timing = opened.found.document.timing.as_ref();
    // The document knows the highest verdict before the sample is read.
    let monitors = opened.found.document.monitors.iter().flat_map(|monitors| monitors.values());
    let scale = match monitors.filter_map(|monitor| monitor.max).reduce(f64::max) {
        Some(highest) => suspicion_scale(highest as f32),
        None => opened.transcript.index().suspicion_scale(),
    };
    Place {
        id,
        filter,
        began_ms: first.or(timing.and_then(|timing| timing.time_started)),
        scale,
        visit: &visitor.visit,
    }
}

async fn page(
    State(app): State<App>,
    visitor: Visitor,
    Path(id): Path<String>,
    uri: Uri,
    mut params: Filters,
) -> Result<Response, ApiError> {
    let id = trajectory_id(&id)?;
    let wanted = Wanted::read(&mut params)?;
    app.blocking(move |app| {
        let opened = opened(app, &id)?;
        let filter = filter(&uri);
        let steps = read_steps(app, &opened, wanted)?;
        let document = &opened.found.document;
        let transcript = &opened.transcript;
        let reader = transcript.reader();
        let failed = |error| parts::failed(&opened, &error);
        let score_count = transcript.index().scores().len().min(SCORES_SHOWN);
        let mut scores = Vec::new();
        let mut diff = None;
        for number in 0..score_count {
            let Some(score) = reader.score(number).map_err(failed)? else { continue };
            match score.name.as_str() {
                "workspace_diff" => diff = Diff::of(&score),
                "tasks" => {}
                _ => scores.push(score),
            }
        }
        let prompt_event = transcript.index().first_model_event();
        let prompt = match prompt_event {
            Some(event) => Some(reader.input(event, 0, PROMPT_SHOWN).map_err(failed)?),
            None => None,
        };
        let landed = document.task_scores.iter().filter_map(|score| score.landed_at.flatten());
        let strip = {
            let index = transcript.index();
            Strip::new(index.action_count(), |action| index.suspicion(action), landed.collect())
        };
        let rest = transcript
            .index()
            .sections()
            .iter()
            .map(|section| Rest { name: section.name.clone(), place: section.place })
            .collect();
        let id_text = id.to_string();
        let page = Page {
            document,
            run: &opened.found.run.header,
            place: place(&id_text, &opened, &filter, &visitor),
            progress: progress(transcript),
            steps,
            neighbours: neighbours::of(app, &id, document, &filter)?,
            strip,
            verdicts: reader.verdicts(None).map_err(failed)?,
            scores,
            prompt,
            prompt_event: prompt_event.unwrap_or(0),
            diff,
            rest,
            comments: app.store.trajectory_comments(document)?.comments,
        };
        Ok(Html(page.page()).into_response())
    })
    .await
}

async fn steps(
    State(app): State<App>,
    visitor: Visitor,
    Path(id): Path<String>,
    uri: Uri,
    mut params: Filters,
) -> Result<Response, ApiError> {
    let id = trajectory_id(&id)?;
    let wanted = Wanted::read(&mut params)?;
    app.blocking(move |app| {
        let opened = opened(app, &id)?;
        let filter = filter(&uri);
        let steps = read_steps(app, &opened, wanted)?;
        let total = opened.transcript.index().step_count();
        let id = id.to_string();
        let place = place(&id, &opened, &filter, &visitor);
        Ok(Html(transcript::steps(&place, &steps, total).into_string()).into_response())
    })
    .await
}

/// How far a sample has been read.
#[derive(Serialize)]
struct Reading {
    complete: bool,
    done: bool,
    read_bytes: u64,
    steps: usize,
    actions: usize,
}

async fn state(State(app): State<App>, _: Visitor, Path(id): Path<String>) -> Result<Response, ApiError> {
    let id = trajectory_id(&id)?;
    app.blocking(move |app| {
        let opened = opened(app, &id)?;
        let progress = progress(&opened.transcript);
        Ok(axum::Json(Reading {
            complete: progress.complete,
            done: opened.transcript.is_done(),
            read_bytes: progress.read_bytes,
            steps: progress.steps,
            actions: progress.actions,
        })
        .into_response())
    })
    .await
}

async fn comment(
    State(app): State<App>,
    Path(id): Path<String>,
    Form { caller, mut fields, .. }: Form,
) -> Result<Response, ApiError> {
    let id = trajectory_id(&id)?;
    let action: Option<u64> = match fields.text("action") {
        Some(text) => {
            Some(text.trim().parse().map_err(|_| ApiError::invalid("an action is told by its number"))?)
        }
        None => None,
    };
    let text = fields.text("text").unwrap_or_default();
    let next = super::own_address(&mut fields, "next").unwrap_or_else(|| format!("/trajectories/{id}"));
    let author = author(&caller);
    app.blocking(move |app| Ok(app.store.comment_on_trajectory(&id, action, &text, &author)?)).await?;
    let next = match action {
        Some(action) => {
            let mark = if next.contains('?') { '&' } else { '?' };
            format!("{next}{mark}action={action}#action-{action}")
        }
        None => next,
    };
    Ok(answer::to(&next))
}
