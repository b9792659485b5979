//! A whole transcript for paper: made step by step while it is sent, so it takes the memory of one step.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use ct_pages::transcript::{Medium, Steps, step_on_paper, unreadable_step};
use futures_util::stream;

use super::asked::{Asked, Reading};
use super::comments::Commented;
use super::whole;
use crate::error::ApiError;
use crate::limits;

/// How often is looked whether the sample was read to its end.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A sheet that is being filled.
struct Sheet {
    reading: Reading,
    comments: Commented,
    tail: String,
}

enum State {
    /// Nothing was sent; the sample is still being read.
    Waiting(Box<Reading>),
    /// The number of the step to come.
    Step(Arc<Sheet>, usize),
    End,
}

/// The answer; with `events` it has what is in each event.
pub(super) async fn print(asked: Asked, events: bool) -> Result<Response, ApiError> {
    let reading = asked.take(move |reading| Ok(reading.on(Medium::Paper { events }))).await?;
    let pieces = stream::unfold(State::Waiting(Box::new(reading)), next);
    Ok(([(CONTENT_TYPE, "text/html; charset=utf-8")], Body::from_stream(pieces)).into_response())
}

async fn next(state: State) -> Option<(Result<Bytes, std::io::Error>, State)> {
    if let State::Waiting(reading) = &state {
        while !reading.opened.transcript.is_done() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
    let made = tokio::task::spawn_blocking(move || match state {
        State::Waiting(reading) => begin(*reading).map(Some),
        State::Step(sheet, number) => Ok(Some(step(sheet, number))),
        State::End => Ok(None),
    });
    match made.await.map_err(std::io::Error::other).flatten() {
        Ok(made) => made.map(|(bytes, state)| (Ok(bytes), state)),
        Err(error) => Some((Err(error), State::End)),
    }
}

fn begin(reading: Reading) -> Result<(Bytes, State), std::io::Error> {
    // Why was logged; the answer has begun, so it can only break off.
    let other = |_: ApiError| std::io::Error::other("the sample cannot be read");
    let comments = Commented::read(&reading).map_err(other)?;
    let (head, tail) = whole(&reading, Steps::default(), &comments).map_err(other)?.paper();
    Ok((head.into(), State::Step(Arc::new(Sheet { reading, comments, tail }), 0)))
}

/// Some steps: enough for a piece of the answer.
fn step(sheet: Arc<Sheet>, mut number: usize) -> (Bytes, State) {
    let Sheet { reading, comments, tail } = &*sheet;
    let place = reading.place(&comments.earlier);
    let reader = reading.reader();
    let mut text = String::new();
    while text.len() < limits::STREAM_PIECE_BYTES {
        match reader.step(number) {
            Ok(Some(view)) => {
                text.push_str(&step_on_paper(&place, &view, &comments.placed).into_string());
            }
            Ok(None) => {
                text.push_str(tail);
                return (text.into(), State::End);
            }
            Err(error) => {
                let _ = reading.opened.failed(&error);
                text.push_str(&unreadable_step(number).into_string());
            }
        }
        number += 1;
    }
    (text.into(), State::Step(sheet, number))
}
