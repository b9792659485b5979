//! `/trajectories/<id>`: the transcript of a trajectory, and its pieces as script asks for them.

mod asked;
mod comments;
mod files;
mod jumps;
mod neighbours;
mod paper;
mod pieces;
mod steps;

use axum::Router;
use axum::response::{Html, IntoResponse as _, Response};
use axum::routing::get;
use ct_model::transcript::Room;
use ct_pages::transcript::{Diff, Page, Rest, Steps, Strip};

use asked::{Asked, Reading};
use comments::Commented;
use steps::{Wanted, progress, read_steps};

use crate::app::App;
use crate::error::ApiError;

/// Scores that are shown.
const SCORES_SHOWN: usize = 100;
/// Messages that are shown of what the agent was told first.
const PROMPT_SHOWN: usize = 4;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/trajectories/{id}", get(page))
        .route("/trajectories/{id}/steps", get(steps::steps))
        .route("/trajectories/{id}/state", get(steps::state))
        .route("/trajectories/{id}/comments", get(comments::panel).post(comments::change))
        .route("/trajectories/{id}/events", get(pieces::events))
        .route("/trajectories/{id}/input", get(pieces::input))
        .route("/trajectories/{id}/raw", get(pieces::raw))
        .route("/trajectories/{id}/text", get(pieces::text))
        .route("/trajectories/{id}/part", get(files::part))
        .route("/trajectories/{id}/image", get(files::image))
        .route("/trajectories/{id}/find", get(jumps::find))
        .route("/trajectories/{id}/suspicious", get(jumps::suspicious))
}

async fn page(mut asked: Asked) -> Result<Response, ApiError> {
    if let Some(print) = asked.params.text("print") {
        return paper::print(asked, print == "events").await;
    }
    let wanted = Wanted::read(&mut asked.params)?;
    asked.read(move |reading| Ok(Html(draw(reading, wanted)?).into_response())).await
}

fn draw(reading: &Reading, wanted: Wanted) -> Result<String, ApiError> {
    let comments = Commented::read(reading)?;
    let steps = read_steps(reading, wanted, &comments)?;
    Ok(whole(reading, steps, &comments)?.page())
}

/// The page with these steps.
fn whole<'a>(reading: &'a Reading, steps: Steps, comments: &'a Commented) -> Result<Page<'a>, ApiError> {
    let opened = &reading.opened;
    let document = &opened.found.document;
    let transcript = &opened.transcript;
    let reader = reading.reader();
    let failed = |error| opened.failed(&error);
    let all_scores = transcript.index().scores().len();
    let score_count = all_scores.min(SCORES_SHOWN);
    let mut scores = Vec::new();
    let mut diff = None;
    for number in 0..score_count {
        let Some(score) = reader.score(number).map_err(failed)? else { continue };
        match score.name.as_str() {
            "workspace_diff" => {
                let whole = transcript.reader().with_room(Room::DIFF).score(number).map_err(failed)?;
                diff = whole.as_ref().and_then(Diff::of);
            }
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
    Ok(Page {
        document,
        run: &opened.found.run.header,
        place: reading.place(&comments.earlier),
        progress: progress(transcript),
        steps,
        neighbours: neighbours::of(&reading.app, &reading.id, document, &reading.filter)?,
        strip,
        verdicts: reader.verdicts(None).map_err(failed)?,
        scores,
        scores_left_out: all_scores - score_count,
        prompt,
        prompt_event: prompt_event.unwrap_or(0),
        diff,
        rest,
        comments: comments.placed.clone(),
    })
}
