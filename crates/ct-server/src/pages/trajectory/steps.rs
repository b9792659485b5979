//! The steps of a transcript, some at a time, and how far the sample has been read.

use axum::response::{IntoResponse as _, Response};
use ct_model::transcript::{Index, StepView};
use ct_pages::transcript::{self, CHUNK_STEPS, Progress, Steps};
use serde::Serialize;

use super::asked::{Asked, Reading};
use super::comments::Commented;
use crate::error::ApiError;
use crate::extract::Filters;
use crate::transcripts::Transcript;

/// Which piece an address asks for: the one with an action, or from a step on.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    action: Option<usize>,
    from: usize,
}

impl Wanted {
    pub(super) fn read(params: &mut Filters) -> Result<Self, ApiError> {
        Ok(Self { action: params.value("action")?, from: params.value::<usize>("from")?.unwrap_or(0) })
    }

    /// Whether the piece is there.
    fn is_in(self, index: &Index) -> bool {
        let step = match self.action {
            Some(action) => match index.action(action) {
                Some(action) => action.step as usize,
                None => return false,
            },
            None => self.from,
        };
        index.step_count() > chunk_of(step) + CHUNK_STEPS
    }

    /// The number of its first step.
    fn begin(self, index: &Index) -> usize {
        let action = self.action.and_then(|action| index.action(action));
        let step = action.map_or(self.from, |action| action.step as usize);
        chunk_of(step.min(index.step_count().saturating_sub(1)))
    }
}

/// The first step of the piece with a step.
pub(super) fn chunk_of(step: usize) -> usize {
    step / CHUNK_STEPS * CHUNK_STEPS
}

/// The steps of a piece, when they are there, or what is there of them after a while.
pub(super) fn read_steps(reading: &Reading, wanted: Wanted, comments: &Commented) -> Result<Steps, ApiError> {
    let transcript = &reading.opened.transcript;
    transcript.wait_for(|index| wanted.is_in(index));
    let from = wanted.begin(&transcript.index());
    let reader = reading.reader();
    let mut steps: Vec<StepView> = Vec::with_capacity(CHUNK_STEPS);
    for number in from..from + CHUNK_STEPS {
        match reader.step(number) {
            Ok(Some(step)) => steps.push(step),
            Ok(None) => break,
            Err(error) => return Err(reading.opened.failed(&error)),
        }
    }
    Ok(Steps { from, steps, comments: comments.placed.clone() })
}

pub(super) async fn steps(mut asked: Asked) -> Result<Response, ApiError> {
    let wanted = Wanted::read(&mut asked.params)?;
    asked
        .fragment(move |reading| {
            let comments = Commented::read(reading)?;
            let steps = read_steps(reading, wanted, &comments)?;
            let total = reading.opened.transcript.index().step_count();
            Ok(transcript::steps(&reading.place(&comments.earlier), &steps, total))
        })
        .await
}

pub(super) fn progress(transcript: &Transcript) -> Progress {
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

/// How far a sample has been read.
#[derive(Serialize)]
struct State {
    complete: bool,
    done: bool,
    read_bytes: u64,
}

pub(super) async fn state(asked: Asked) -> Result<Response, ApiError> {
    asked
        .read(|reading| {
            let transcript = &reading.opened.transcript;
            let progress = progress(transcript);
            let state = State {
                complete: progress.complete,
                done: transcript.is_done(),
                read_bytes: progress.read_bytes,
            };
            Ok(axum::Json(state).into_response())
        })
        .await
}
