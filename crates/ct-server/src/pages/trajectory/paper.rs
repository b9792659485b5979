//! A whole transcript for paper: made piece by piece while it is sent, so it takes the memory of one step, whatever the
//! size of the sample or of a text in it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use ct_pages::text_in;
use ct_pages::transcript::{self, Later, Medium, Paper, Place, Steps, paper, step_on_paper, unreadable};
use futures_util::stream;

use super::asked::{Asked, Reading};
use super::comments::Commented;
use super::files::piece;
use super::pieces::{MORE_EVENTS, MORE_MESSAGES};
use super::whole;
use crate::error::ApiError;
use crate::limits;

/// How often is looked whether the sample was read to its end.
const LOOK_EVERY: Duration = Duration::from_millis(20);

enum State {
    /// Nothing was sent; the sample is still being read.
    Waiting(Box<Reading>),
    Sending(Box<Sheet>),
}

/// The answer; with `events` it has what is in each event.
pub(super) async fn print(asked: Asked, events: bool) -> Result<Response, ApiError> {
    let reading = asked.take(move |reading| Ok(reading.on(Medium::Paper { events }))).await?;
    let pieces = stream::unfold(Some(State::Waiting(Box::new(reading))), next);
    Ok(([(CONTENT_TYPE, "text/html; charset=utf-8")], Body::from_stream(pieces)).into_response())
}

async fn next(state: Option<State>) -> Option<(Result<Bytes, std::io::Error>, Option<State>)> {
    let state = state?;
    if let State::Waiting(reading) = &state {
        while !reading.opened.transcript.is_done() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
    let made = tokio::task::spawn_blocking(move || {
        let mut sheet = match state {
            State::Waiting(reading) => Sheet::begin(*reading)?,
            State::Sending(sheet) => *sheet,
        };
        let html = sheet.fill();
        Ok((html, sheet))
    });
    match made.await.map_err(std::io::Error::other).flatten() {
        Ok((html, _)) if html.is_empty() => None,
        Ok((html, sheet)) => Some((Ok(html.into()), Some(State::Sending(Box::new(sheet))))),
        Err(error) => Some((Err(error), None)),
    }
}

/// A sheet that is being filled.
struct Sheet {
    reading: Reading,
    comments: Arc<Commented>,
    /// What is to come, the next at the front.
    waiting: VecDeque<Waiting>,
}

enum Waiting {
    Part(Paper),
    /// A step, and those behind it.
    Step(usize),
}

impl Sheet {
    fn begin(reading: Reading) -> Result<Self, std::io::Error> {
        // Why was logged; the answer has begun, so it can only break off.
        let other = |_: ApiError| std::io::Error::other("the sample cannot be read");
        let comments = Commented::read(&reading).map_err(other)?;
        let page = whole(&reading, Steps::default(), &comments).map_err(other)?.on_paper();
        let mut sheet = Self { reading, comments: Arc::new(comments), waiting: VecDeque::new() };
        sheet.put(&page);
        Ok(sheet)
    }

    /// Puts HTML in front of what is to come.
    fn put(&mut self, html: &str) {
        for part in paper(html).into_iter().rev() {
            self.waiting.push_front(Waiting::Part(part));
        }
    }

    /// Enough for a piece of the answer; nothing at the end.
    fn fill(&mut self) -> String {
        let mut html = String::new();
        while html.len() < limits::STREAM_PIECE_BYTES
            && let Some(waiting) = self.waiting.pop_front()
        {
            match waiting {
                Waiting::Part(Paper::Html(part)) => html.push_str(&part),
                Waiting::Part(Paper::Later(Later::Steps)) => self.waiting.push_front(Waiting::Step(0)),
                Waiting::Part(Paper::Later(Later::Text { place, from })) => {
                    let read = piece(&self.reading.opened.transcript, place, from, limits::MORE_TEXT_BYTES);
                    let Ok((text, next)) = read else {
                        html.push_str(&unreadable("The rest").into_string());
                        continue;
                    };
                    html.push_str(&text_in(&text).into_string());
                    let next = next.map(|from| Waiting::Part(Paper::Later(Later::Text { place, from })));
                    if let Some(next) = next {
                        self.waiting.push_front(next);
                    }
                }
                Waiting::Part(Paper::Later(Later::Events { step, from })) => {
                    let drawn = self.draw("More events", |reading, place| {
                        let events = reading.reader().more_events(step, from, MORE_EVENTS)?;
                        Ok(transcript::more_events(place, step, from, &events, MORE_EVENTS).into_string())
                    });
                    self.put(&drawn);
                }
                Waiting::Part(Paper::Later(Later::Input { event, from })) => {
                    let drawn = self.draw("More messages", |reading, place| {
                        let input = reading.reader().input(event, from, MORE_MESSAGES)?;
                        Ok(transcript::more_input(place, &input, event).into_string())
                    });
                    self.put(&drawn);
                }
                Waiting::Step(number) if number < self.reading.opened.transcript.index().step_count() => {
                    self.waiting.push_front(Waiting::Step(number + 1));
                    let comments = Arc::clone(&self.comments);
                    let drawn = self.draw(&format!("Step {number}"), |reading, place| {
                        let step = reading.reader().step(number)?;
                        let drawn =
                            step.map(|step| step_on_paper(place, &step, &comments.placed).into_string());
                        Ok(drawn.unwrap_or_default())
                    });
                    self.put(&drawn);
                }
                Waiting::Step(_) => {}
            }
        }
        html
    }

    /// What is drawn of a part of the sample, or that it cannot be read.
    fn draw(
        &self,
        what: &str,
        draw: impl FnOnce(&Reading, &Place<'_>) -> Result<String, ct_log::json::JsonError>,
    ) -> String {
        draw(&self.reading, &self.reading.place(&self.comments.earlier)).unwrap_or_else(|error| {
            let _ = self.reading.opened.failed(&error);
            unreadable(what).into_string()
        })
    }
}
