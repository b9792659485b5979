//! The transcript of a trajectory: the page around it, and its steps in pieces as script asks for them.
//!
//! Everything shown here was written by an agent, a tool or a stranger. It goes through [`crate::text_in`], stands in
//! elements that isolate its direction, and no part of it becomes an address: what is long, and images, are named by
//! where they lie in the sample.

mod panel;
mod paper;
mod piece;
mod step;
mod strip;
mod talk;

use ct_model::transcript::{Input, ScoreView, StepView, VerdictView};
use ct_model::{RunHeader, TrajectoryDocument};
use maud::{Markup, html};

use crate::address::Query;
use crate::asset::Asset;
use crate::comments::{self, Earlier};
use crate::format::{bytes, count, duration_ms, usd};
use crate::frame::{Frame, Section, Visit};
use crate::part::{Of, outcome, run_path, short, tags, trajectory_path};
use crate::text::text;

pub use panel::{Diff, Rest};
pub use paper::{Later, Paper, paper, step_on_paper, unreadable};
pub use piece::{more_events, more_input, more_text, raw, whole};
pub use strip::Strip;
pub use talk::Comments;

/// Steps that are loaded at a time; pieces begin at multiples of it.
pub const CHUNK_STEPS: usize = 20;

/// Modules that others import are named here as well, so that a browser asks for all of them at once.
const ASSETS: [Asset; 6] = [
    Asset::TranscriptCss,
    Asset::PiecesJs,
    Asset::WhereJs,
    Asset::FindJs,
    Asset::TalkJs,
    Asset::TranscriptJs,
];

/// Monitors whose highest verdict is told above the steps.
const MONITORS_SHOWN: usize = 6;

/// A piece of the transcript.
#[derive(Debug, Default)]
pub struct Steps {
    /// The number of its first step.
    pub from: usize,
    /// The steps.
    pub steps: Vec<StepView>,
    /// Comments of the trajectory.
    pub comments: Comments,
}

/// Which trajectory it is, for those that lead to parts of it.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The trajectory.
    pub id: &'a str,
    /// The filter it was found with.
    pub filter: &'a Query,
    /// Milliseconds since the Unix epoch that times are told from.
    pub began_ms: Option<i64>,
    /// The monitors' scale: 1, 10 or 100.
    pub scale: f32,
    /// Who looks.
    pub visit: &'a Visit,
    /// What comments said before they were edited.
    pub earlier: &'a [Earlier],
    /// May change comments of others.
    pub may_change_all: bool,
    /// For a screen, or for paper.
    pub medium: Medium,
}

/// What a transcript is drawn on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Medium {
    /// Where more can be asked for.
    #[default]
    Screen,
    /// Where everything has to be there.
    Paper {
        /// With what is in the events that are no step.
        events: bool,
    },
}

impl Place<'_> {
    fn is_paper(&self) -> bool {
        self.medium != Medium::Screen
    }

    fn path(&self) -> String {
        trajectory_path(self.id)
    }

    fn below(&self, name: &str) -> String {
        format!("{}/{name}", self.path())
    }

    /// The address of an action, for those without script as well.
    fn action(&self, action: u64) -> String {
        let query = self.filter.with("action", action.to_string());
        format!("{}#action-{action}", query.on(&self.path()))
    }

    /// The address of a step.
    fn step(&self, step: u64) -> String {
        let from = step / CHUNK_STEPS as u64 * CHUNK_STEPS as u64;
        let query = self.filter.with("from", from.to_string());
        format!("{}#step-{step}", query.on(&self.path()))
    }

    fn comments(&self) -> comments::Comments<'_> {
        let Self { visit, earlier, may_change_all, .. } = *self;
        comments::Comments { visit, earlier, may_change_all, path: self.below("comments") }
    }
}

/// How much of the sample has been read.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// All of it.
    pub complete: bool,
    /// So many bytes.
    pub read_bytes: u64,
    /// Of so many.
    pub size_bytes: Option<u64>,
    /// Why it stopped before the end.
    pub failure: Option<String>,
    /// Things that are too many to be shown.
    pub left_out: u64,
    /// Steps so far.
    pub steps: usize,
    /// Actions so far.
    pub actions: usize,
}

/// The trajectories beside this one in the list it was found in.
#[derive(Debug, Clone, Default)]
pub struct Neighbours {
    /// The id and the place in the list of the one before.
    pub previous: Option<(String, u64)>,
    /// Of the one behind.
    pub next: Option<(String, u64)>,
    /// Its own place in the list, from 0.
    pub at: Option<u64>,
    /// How many are in the list.
    pub total: u64,
}

/// The page of a trajectory.
#[derive(Debug)]
pub struct Page<'a> {
    /// Its document.
    pub document: &'a TrajectoryDocument,
    /// Its run.
    pub run: &'a RunHeader,
    /// Where it is.
    pub place: Place<'a>,
    /// How far the sample has been read.
    pub progress: Progress,
    /// The steps of the first screen.
    pub steps: Steps,
    /// The list that it was found in.
    pub neighbours: Neighbours,
    /// Suspicion by action.
    pub strip: Strip,
    /// What monitors say of the whole.
    pub verdicts: Vec<VerdictView>,
    /// The scores.
    pub scores: Vec<ScoreView>,
    /// Scores that are not shown.
    pub scores_left_out: usize,
    /// What the agent was told.
    pub prompt: Option<Input>,
    /// The event of the model call that was told it.
    pub prompt_event: usize,
    /// What the agent changed in its workspace.
    pub diff: Option<Diff>,
    /// What else the sample holds.
    pub rest: Vec<Rest>,
    /// Comments.
    pub comments: Comments,
}

impl Page<'_> {
    /// The whole page.
    pub fn page(&self) -> String {
        let Page { document, run, place, .. } = self;
        let title = self.title();
        let address =
            |(id, at): &(String, u64)| place.filter.with("at", at.to_string()).on(&trajectory_path(id));
        let run_id = document.run_id.as_ref().map(ToString::to_string).unwrap_or_default();
        let body = html! {
            div.transcript-page #transcript-page
                data-path=(place.path()) data-query=(place.filter.on(""))
                data-steps=(self.progress.steps) data-actions=(self.progress.actions)
                data-complete=(self.progress.complete) data-chunk=(CHUNK_STEPS) data-scale=(place.scale) {
                div.trail {
                    a href=(run_path(&run_id)) { (text(&run.name)) }
                    span.faint aria-hidden="true" { "›" }
                    nav.neighbours aria-label="Trajectories in the list" {
                        @match &self.neighbours.previous {
                            Some(previous) => a rel="prev" href=(address(previous)) title="Previous trajectory ([)" { "‹ Previous" },
                            None => span.faint { "‹ Previous" },
                        }
                        @if let Some(at) = self.neighbours.at {
                            span.muted { (count(at + 1)) " of " (count(self.neighbours.total)) }
                        }
                        @match &self.neighbours.next {
                            Some(next) => a rel="next" href=(address(next)) title="Next trajectory (])" { "Next ›" },
                            None => span.faint { "Next ›" },
                        }
                        a rel="up" href=(place.filter.without(&["at"]).on("/trajectories")) title="Back to the list (u)" { "List" }
                    }
                }
                div.page-head {
                    h1 { (text(title)) }
                    div.page-actions.no-print {
                        a.button.quiet href=(paper::address(place, false)) data-print title="All of it, to be printed (P)" { "Print" }
                        a.button.quiet href=(format!("/api{}", place.path())) download=(format!("{}.json", place.id)) { "Sample" }
                        a.button.quiet href=(format!("/api{}/eval", place.path())) { "Log" }
                    }
                }
                (self.facts())
                (panel::error(document, place))
                (self.progress())
                (paper::unfinished(self))
                div.cockpit {
                    (self.strip.draw(place))
                    (self.toolbar())
                }
                div.columns {
                    div.steps-column {
                        (panel::prompt(place, self.prompt.as_ref(), self.prompt_event))
                        (steps(place, &self.steps, self.progress.steps))
                        (self.paging())
                    }
                    aside.side aria-label="About this trajectory" {
                        (panel::tasks(document, place))
                        (panel::verdicts(&self.verdicts, place))
                        (panel::scores(&self.scores, self.scores_left_out, place))
                        (panel::diff(self.diff.as_ref(), place))
                        (talk::panel(place, &self.comments))
                        (panel::rest(&self.rest, place))
                    }
                }
                div.toast role="status" aria-live="polite" #toast hidden {}
            }
        };
        Frame { title, section: Section::Trajectories, assets: &ASSETS }.around(place.visit, &body)
    }

    fn title(&self) -> &str {
        if self.document.name.is_empty() { self.place.id } else { &self.document.name }
    }

    fn facts(&self) -> Markup {
        let document = self.document;
        let timing = document.timing.as_ref();
        let took = timing.and_then(|timing| timing.time_to_run).and_then(|ms| u64::try_from(ms).ok());
        let cost = document.cost.as_ref();
        let tokens = cost.and_then(|cost| cost.total_tokens);
        let policy = document.metadata.get("policy").and_then(|policy| policy.as_str());
        html! {
            dl.facts {
                div { dt { "Main task" } dd { (outcome(document.main_task_success, Of::Main)) } }
                @if document.side_task.is_some() {
                    div { dt { "Side task" } dd { (outcome(document.side_task_success, Of::Side)) } }
                }
                @for (name, monitor) in document.monitors.iter().flatten().take(MONITORS_SHOWN) {
                    div { dt { "Suspicion" } dd {
                        @match monitor.max {
                            Some(max) => span.level.{"level-" (strip::level(max as f32, self.place.scale))} { (crate::number(max)) },
                            None => span.faint { "–" },
                        }
                        " " span.faint { (short(name)) }
                        @if monitor.unscored > 0 { " " span.faint { "(" (monitor.unscored) " unscored)" } }
                    } }
                }
                @if let Some(policy) = policy { div { dt { "Policy" } dd { (text(policy)) } } }
                @if let Some(id) = document.environment.as_ref().and_then(|environment| environment.id.as_deref()) {
                    div { dt { "Environment" } dd { (short(id)) } }
                }
                @if let Some(model) = document.models.first() {
                    div { dt { "Model" } dd { (short(model)) @if document.models.len() > 1 {
                        " " span.faint title=(crate::plain(&document.models.join("\n"))) { "+" (document.models.len() - 1) } } } }
                }
                div { dt { "Actions" } dd { (count(document.number_of_actions.max(self.progress.actions as u64))) } }
                @if let Some(took) = took { div { dt { "Time" } dd { (duration_ms(took)) } } }
                @if let Some(tokens) = tokens { div { dt { "Tokens" } dd { (count(tokens)) } } }
                @if let Some(total) = cost.and_then(|cost| cost.total_cost) { div { dt { "Cost" } dd { (usd(total)) } } }
                div { dt { "Sample" } dd { (text(&document.eval_sample_id)) " " span.faint { "epoch " (document.epoch) } } }
                @if !document.tags.is_empty() {
                    div { dt { "Tags" } dd { (tags(&document.tags, "/trajectories", "tag")) } }
                }
            }
        }
    }

    fn progress(&self) -> Markup {
        let progress = &self.progress;
        html! {
            @if let Some(failure) = &progress.failure {
                p.notice.is-bad { "The sample cannot be read to its end: " (text(failure)) ". What was read is shown." }
            }
            @if progress.left_out > 0 {
                p.notice { (count(progress.left_out)) " parts of this sample are beyond what is shown; download the sample to see them." }
            }
            p.notice.reading #reading hidden[progress.complete || progress.failure.is_some()] role="status" {
                "Reading the sample: " span data-read { (bytes(progress.read_bytes)) }
                @if let Some(size) = progress.size_bytes { " of " (bytes(size)) }
                ". Times, tokens and events come when it is read."
            }
        }
    }

    fn toolbar(&self) -> Markup {
        let scale = self.place.scale;
        html! {
            div.toolbar.no-print #toolbar {
                form.find role="search" hidden #find {
                    label.visually-hidden for="find-text" { "Find in this transcript" }
                    input #find-text type="search" name="q" placeholder="Find in transcript" autocomplete="off" data-search maxlength="300";
                    output.faint #find-count {}
                    button.quiet type="button" data-find="-1" title="Previous hit (Shift+Enter)" { "↑" }
                    button.quiet type="button" data-find="1" title="Next hit (Enter)" { "↓" }
                }
                @if self.strip.has_verdicts() || self.document.monitors.as_ref().is_some_and(|monitors| !monitors.is_empty()) {
                    label.threshold { "Suspicious from "
                        input #threshold type="number" min="0" max=(scale) step=(scale / 20.0) value=(scale / 2.0) {}
                    }
                    button.quiet type="button" data-suspicious="-1" hidden title="Previous suspicious action (p)" { "‹ Suspicious" }
                    button.quiet type="button" data-suspicious="1" hidden title="Next suspicious action (n)" { "Suspicious ›" }
                }
                span.toolbar-end {
                    button.quiet type="button" data-fold hidden title="Fold or unfold everything (E)" { "Fold all" }
                    span.faint #where {}
                }
            }
        }
    }

    /// For those without script.
    fn paging(&self) -> Markup {
        let from = self.steps.from;
        let address = |from: usize| self.place.filter.with("from", from.to_string()).on(&self.place.path());
        let shown = self.steps.steps.len();
        html! {
            nav.paging #paging aria-label="Parts of the transcript" {
                @if from > 0 { a.button rel="prev" href=(address(from.saturating_sub(CHUNK_STEPS))) { "Steps before" } }
                span.muted { "Steps " (count(from as u64)) " to " (count((from + shown).saturating_sub(1) as u64)) " of " (count(self.progress.steps as u64)) }
                @if from + shown < self.progress.steps { a.button href=(address(from + shown)) { "Steps behind" } }
            }
        }
    }
}

/// The comments that stand beside the steps.
pub fn comments(place: &Place<'_>, comments: &Comments) -> Markup {
    talk::panel(place, comments)
}

/// A piece of the transcript, as the page holds it and as script asks for it.
pub fn steps(place: &Place<'_>, steps: &Steps, total: usize) -> Markup {
    html! {
        div.chunks #chunks {
            div.chunk data-from=(steps.from) data-total=(total) {
                @for view in &steps.steps { (step::draw(place, view, &steps.comments)) }
                @if steps.steps.is_empty() && total == 0 {
                    div.empty { h2 { "Nothing to read yet" } p { "The sample holds no messages and no events, or they come at its end." } }
                }
            }
        }
    }
}
