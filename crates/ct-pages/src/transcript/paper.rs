//! A transcript on paper: everything at once, nothing to ask for.
//!
//! It may be larger than memory. So where something long begins a mark is left, and who sends the page puts there what
//! follows, piece by piece.

use ct_model::transcript::StepView;
use maud::{Markup, PreEscaped, html};

use super::{Comments, Medium, Page, Place, panel, step, talk};
use crate::asset::Asset;
use crate::format::count;
use crate::frame::{Frame, Section};
use crate::part::run_path;
use crate::text::text;

/// What a mark is between. Text of others has no such characters: they are escaped there.
const MARK: (&str, &str) = ("<!--", "-->");
/// Steps beyond which it is said that a browser will take long.
const MANY_STEPS: usize = 3_000;

/// Where a transcript is for paper.
pub(super) fn address(place: &Place<'_>, events: bool) -> String {
    let print = if events { "events" } else { "steps" };
    place.filter.with("print", print).on(&place.path())
}

/// Said on paper alone: the page has some steps only.
pub(super) fn unfinished(page: &Page<'_>) -> Markup {
    html! {
        p.notice.print-only #unprinted hidden[page.steps.steps.len() == page.progress.steps] {
            "A part of the transcript. All of it, to be printed, is at " (address(&page.place, false)) "."
        }
    }
}

/// What follows where a mark is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Later {
    /// All steps.
    Steps,
    /// A text from a byte of it on.
    Text {
        /// Where it lies.
        place: ct_model::transcript::Place,
        /// Where the text before ended.
        from: u64,
    },
    /// Events of a step, from one on.
    Events {
        /// The step.
        step: usize,
        /// The first of them.
        from: usize,
    },
    /// Messages that a model was given, from one on.
    Input {
        /// The event of the model call.
        event: usize,
        /// The first of them.
        from: usize,
    },
}

/// A part of a page on paper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Paper {
    /// As it is sent.
    Html(String),
    /// To be put here.
    Later(Later),
}

pub(super) fn later(what: &Later) -> Markup {
    let mark = match what {
        Later::Steps => "steps".to_owned(),
        Later::Text { place, from } => format!("text {} {} {from}", place.offset, place.size_bytes),
        Later::Events { step, from } => format!("events {step} {from}"),
        Later::Input { event, from } => format!("input {event} {from}"),
    };
    PreEscaped(format!("{}{mark}{}", MARK.0, MARK.1))
}

/// What a mark says.
fn marked(mark: &str) -> Option<Later> {
    let mut words = mark.split(' ');
    let kind = words.next()?;
    let numbers: Vec<u64> = words.map(str::parse).collect::<Result<_, _>>().ok()?;
    let index = |number: u64| usize::try_from(number).ok();
    Some(match (kind, numbers.as_slice()) {
        ("steps", []) => Later::Steps,
        ("text", &[offset, size_bytes, from]) => {
            Later::Text { place: ct_model::transcript::Place { offset, size_bytes }, from }
        }
        ("events", &[step, from]) => Later::Events { step: index(step)?, from: index(from)? },
        ("input", &[event, from]) => Later::Input { event: index(event)?, from: index(from)? },
        _ => return None,
    })
}

/// Takes a page apart where something is to follow.
pub fn paper(html: &str) -> Vec<Paper> {
    let mut parts = Vec::new();
    for (number, piece) in html.split(MARK.0).enumerate() {
        let after = match piece.split_once(MARK.1) {
            Some((mark, after)) if number > 0 => {
                parts.extend(marked(mark).map(Paper::Later));
                after
            }
            _ => piece,
        };
        if !after.is_empty() {
            parts.push(Paper::Html(after.to_owned()));
        }
    }
    parts
}

/// One step.
pub fn step_on_paper(place: &Place<'_>, view: &StepView, comments: &Comments) -> Markup {
    step::draw(place, view, comments)
}

/// In the place of what cannot be read.
pub fn unreadable(what: &str) -> Markup {
    html! { span.notice.is-bad { (what) " cannot be read; `ct store check` tells more." } }
}

impl Page<'_> {
    /// The page on paper; see [`paper`].
    pub fn on_paper(&self) -> String {
        let Page { document, run, place, .. } = self;
        let run_id = document.run_id.as_ref().map(ToString::to_string).unwrap_or_default();
        let with_events = place.medium == Medium::Paper { events: true };
        let body = html! {
            div.transcript-page.paper {
                div.trail.no-print {
                    a href=(place.filter.on(&place.path())) { "‹ Transcript" }
                    @if with_events {
                        a href=(address(place, false)) { "Without what is in the events" }
                    } @else {
                        a href=(address(place, true)) { "With what is in the events" }
                    }
                    button type="button" data-print-now hidden { "Print" }
                    @if self.progress.steps > MANY_STEPS {
                        span.muted { (count(self.progress.steps as u64)) " steps: a browser takes long to lay them out." }
                    }
                }
                div.page-head { h1 { (text(self.title())) } }
                p.muted { "Run " a href=(run_path(&run_id)) { (text(&run.name)) } ", trajectory " (text(place.id)) }
                (self.facts())
                (panel::error(document, place))
                (panel::tasks(document, place))
                (panel::verdicts(&self.verdicts, place))
                (panel::scores(&self.scores, self.scores_left_out, place))
                (panel::diff(self.diff.as_ref(), place))
                (talk::panel(place, &self.comments))
                (panel::prompt(place, self.prompt.as_ref(), self.prompt_event))
                div.chunks { (later(&Later::Steps)) }
                (self.progress())
            }
        };
        Frame { title: self.title(), section: Section::Trajectories, assets: &[Asset::TranscriptCss] }
            .around(place.visit, &body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_taken_apart_at_marks_of_ours_alone() {
        let place = ct_model::transcript::Place { offset: 7, size_bytes: 900 };
        let all = [
            Later::Steps,
            Later::Text { place, from: 64 },
            Later::Events { step: 3, from: 25 },
            Later::Input { event: 1, from: 4 },
        ];
        for what in all {
            let page =
                html! { p { "before" (later(&what)) } (crate::text("<!--steps--> behind")) }.into_string();
            let [before, found, behind] = [
                Paper::Html("<p>before".to_owned()),
                Paper::Later(what),
                Paper::Html("</p><bdi>&lt;!--steps--&gt; behind</bdi>".to_owned()),
            ];
            assert_eq!(paper(&page), [before, found, behind]);
        }
        assert_eq!(paper(""), []);
    }
}
