//! A transcript on paper: everything at once, nothing to ask for. It is made step by step, whatever its size.

use ct_model::transcript::StepView;
use maud::{Markup, PreEscaped, html};

use super::{Comments, Medium, Page, Place, panel, step, talk};
use crate::asset::Asset;
use crate::format::count;
use crate::frame::{Frame, Section};
use crate::part::run_path;
use crate::text::text;

/// Stands for the steps. Text of others has no such characters: they are escaped there.
const STEPS: &str = "<!--steps-->";
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

/// One step.
pub fn step_on_paper(place: &Place<'_>, view: &StepView, comments: &Comments) -> Markup {
    step::draw(place, view, comments)
}

/// In the place of a step that cannot be read.
pub fn unreadable_step(number: usize) -> Markup {
    html! { p.notice.is-bad { "Step " (number) " cannot be read; `ct store check` tells more." } }
}

impl Page<'_> {
    /// What comes before the steps, and what behind them.
    pub fn paper(&self) -> (String, String) {
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
                (panel::error(document))
                (panel::tasks(document, place))
                (panel::verdicts(&self.verdicts, place))
                (panel::scores(&self.scores, place))
                (panel::diff(self.diff.as_ref(), place))
                (talk::panel(place, &self.comments))
                (panel::prompt(place, self.prompt.as_ref(), self.prompt_event))
                div.chunks { (PreEscaped(STEPS)) }
                (self.progress())
            }
        };
        let page =
            Frame { title: self.title(), section: Section::Trajectories, assets: &[Asset::TranscriptCss] }
                .around(place.visit, &body);
        let (head, tail) = page.split_once(STEPS).unwrap_or((&page, ""));
        (head.to_owned(), tail.to_owned())
    }
}
