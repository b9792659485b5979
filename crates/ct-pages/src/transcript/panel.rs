//! What stands beside the steps: tasks, scores, what monitors say, what the agent was told.

use ct_model::transcript::{Cut, Input, Part, ScoreView, VerdictView};
use ct_model::{TaskRole, TrajectoryDocument};
use maud::{Markup, html};

use super::paper::{self, Later};
use super::{Place, step};
use crate::format::{bytes, count, number};
use crate::part::{Of, outcome};
use crate::text::{text, text_in};

/// Bytes that are shown of the error that a sample ended with.
const ERROR_BYTES: usize = 4_000;

/// What an agent changed in its workspace: the text of a diff.
#[derive(Debug, Clone)]
pub struct Diff {
    /// The diff, or its beginning.
    pub text: Cut,
}

/// Another member of the sample.
#[derive(Debug, Clone)]
pub struct Rest {
    /// Its key.
    pub name: String,
    /// Where it lies.
    pub place: ct_model::transcript::Place,
}

pub(super) fn panel(title: &str, open: bool, body: &Markup) -> Markup {
    html! {
        details.panel.side-panel open[open] {
            summary { span.twist aria-hidden="true" {} h2 { (title) } }
            (body)
        }
    }
}

pub(super) fn error(document: &TrajectoryDocument, place: &Place<'_>) -> Markup {
    html! {
        @if let Some(error) = &document.error {
            @let message = error.message.as_str();
            @let end = if place.is_paper() { message.len() } else { message.floor_char_boundary(ERROR_BYTES) };
            div.notice.is-bad.sample-error dir="auto" {
                b { (text(error.error_type.as_deref().unwrap_or("Error"))) } " "
                span.content { (text_in(&message[..end])) }
                @if end < message.len() {
                    span.cut {
                        " " span.faint { "cut; " (bytes(message.len() as u64)) " in all" } " "
                        a href=(step::sample_path(place)) download { "the sample" }
                    }
                }
            }
        }
    }
}

pub(super) fn tasks(document: &TrajectoryDocument, place: &Place<'_>) -> Markup {
    let scores = |role: TaskRole| document.task_scores.iter().filter(move |score| score.role == role);
    let paragraph = |value: Option<&String>| {
        html! { @if let Some(value) = value.filter(|value| !value.is_empty()) { p.task-text dir="auto" { (text_in(value)) } } }
    };
    let list = |role: TaskRole| {
        html! {
            @for score in scores(role) {
                p.task-score {
                    (text(&score.id)) ": " b { @match score.value { Some(value) => (number(value)), None => "unscored" } }
                    @if let Some(Some(at)) = score.landed_at { " · landed at " a href=(place.action(at.unsigned_abs())) data-go=(at) { "action " (at) } }
                    @if let Some(reason) = &score.reason { " · " span.faint { (text(reason)) } }
                }
            }
        }
    };
    html! {
        @if let Some(task) = &document.main_task {
            (panel("Main task", true, &html! {
                p.task-name { (outcome(document.main_task_success, Of::Main)) " " (text(task.name.as_deref().or(task.id.as_deref()).unwrap_or("–"))) }
                (list(TaskRole::Main))
                (paragraph(task.description.as_ref().or(task.short_description.as_ref())))
                @if let Some(category) = &task.task_category { p.faint { (text(category)) } }
            }))
        }
        @if let Some(task) = &document.side_task {
            (panel("Side task", true, &html! {
                p.task-name { (outcome(document.side_task_success, Of::Side)) " " (text(task.name.as_deref().or(task.id.as_deref()).unwrap_or("–"))) }
                (list(TaskRole::Side))
                (paragraph(task.goal.as_ref().or(task.short_description.as_ref())))
                @if let Some(kind) = &task.failure_type { p.faint { (text(kind)) } }
            }))
        }
        @if let Some(environment) = document.environment.as_ref().filter(|environment| environment.short_description.is_some()) {
            (panel("Environment", place.is_paper(), &html! {
                p { (text(environment.display_name.as_deref().or(environment.id.as_deref()).unwrap_or("–"))) }
                (paragraph(environment.short_description.as_ref()))
            }))
        }
    }
}

pub(super) fn verdicts(verdicts: &[VerdictView], place: &Place<'_>) -> Markup {
    html! {
        @if !verdicts.is_empty() { (panel("Monitors on the whole", true, &step::verdicts(place, verdicts))) }
    }
}

pub(super) fn scores(scores: &[ScoreView], left_out: usize, place: &Place<'_>) -> Markup {
    // The tasks' own scores are told with the tasks; verdicts stand at their actions.
    html! {
        @if !scores.is_empty() {
            (panel("Scores", true, &html! {
                @if left_out > 0 {
                    p.faint { "The first of " (count((scores.len() + left_out) as u64)) "; " a href=(step::sample_path(place)) download { "the sample" } " has all." }
                }
                @for score in scores {
                    @let long = score.value.as_ref().is_some_and(|value| value.text.len() > 200 || value.text.contains('\n'));
                    div.score {
                        p.score-head {
                            b { (text(&score.name)) }
                            @if let Some(value) = score.value.as_ref().filter(|_| !long) { " " code.score-value { (text_in(&value.text)) } }
                            " " a.raw-link data-raw href=(step::part_query(score.place).on(&place.below("raw"))) title="Raw JSON" { "{ }" }
                        }
                        @if let Some(value) = score.value.as_ref().filter(|_| long) {
                            details open[place.is_paper()] { summary { span.twist aria-hidden="true" {} "value, " (bytes(value.size_bytes)) } div.text.is-code { (step::cut(place, value)) } }
                        }
                        @if let Some(answer) = score.answer.as_ref().filter(|answer| answer.size_bytes > 0) {
                            div.member { span.member-name { "answer" } div.member-value dir="auto" { (step::cut(place, answer)) } }
                        }
                        @if let Some(why) = score.explanation.as_ref().filter(|why| why.size_bytes > 0) {
                            div.explanation dir="auto" { (step::cut(place, why)) }
                        }
                        @if !score.rest.is_empty() {
                            details open[place.is_paper()] { summary { span.twist aria-hidden="true" {} "more" } (step::parts(place, &score.rest)) }
                        }
                    }
                }
            }))
        }
    }
}

pub(super) fn diff(diff: Option<&Diff>, place: &Place<'_>) -> Markup {
    let Some(diff) = diff else { return html! {} };
    let class = |line: &str| match line.as_bytes() {
        [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => "diff-file",
        [b'+', ..] => "diff-added",
        [b'-', ..] => "diff-removed",
        [b'@', b'@', ..] => "diff-place",
        _ => "diff-same",
    };
    panel(
        "Workspace diff",
        true,
        &html! {
            div.diff dir="ltr" {
                @for line in diff.text.text.lines() { div class=(class(line)) { (text_in(line)) } }
            }
            @if let Some(next) = diff.text.next {
                @if place.is_paper() {
                    pre.diff { (paper::later(&Later::Text { place: diff.text.place, from: next })) }
                } @else { (step::rest(place, diff.text.place, next, diff.text.size_bytes)) }
            }
        },
    )
}

/// What the agent was told, as its model saw it.
pub(super) fn prompt(place: &Place<'_>, prompt: Option<&Input>, event: usize) -> Markup {
    let Some(prompt) = prompt.filter(|prompt| !prompt.messages.is_empty()) else { return html! {} };
    html! {
        details.prompt open[place.is_paper()] {
            summary {
                span.twist aria-hidden="true" {}
                "What the agent was told first "
                span.faint { "as its model saw it: " (prompt.count) @if prompt.count == 1 { " message" } @else { " messages" } }
            }
            (input(place, prompt, event))
        }
    }
}

/// Messages that a model was given.
pub(super) fn input(place: &Place<'_>, input: &Input, event: usize) -> Markup {
    let end = input.from + input.messages.len();
    let query = crate::address::Query::new([
        ("event".to_owned(), event.to_string()),
        ("from".to_owned(), end.to_string()),
    ]);
    html! {
        ol.input {
            @for (role, parts) in &input.messages {
                li { span.role { (text(role)) } div.step-body dir="auto" { (step::parts(place, parts)) } }
            }
            @if input.messages.is_empty() { li.faint { "The log does not hold it." } }
        }
        @if end < input.count && !input.messages.is_empty() && place.is_paper() {
            (paper::later(&Later::Input { event, from: end }))
        } @else if end < input.count {
            p.more { a data-more href=(query.on(&place.below("input"))) { (input.count - end) " more messages" } }
        }
    }
}

pub(super) fn rest(rest: &[Rest], place: &Place<'_>) -> Markup {
    html! {
        @if !rest.is_empty() {
            (panel("Everything else in the sample", false, &html! {
                ul.rest {
                    @for one in rest {
                        li {
                            code { (text(&one.name)) } " " span.faint { (bytes(one.place.size_bytes)) } " "
                            a.raw-link data-raw href=(step::part_query(one.place).on(&place.below("raw"))) { "{ }" }
                        }
                    }
                }
            }))
        }
    }
}

/// The parts of a panel that hold a diff.
impl Diff {
    /// Of a score that holds one: its explanation, or the text among its parts that looks like one.
    pub fn of(score: &ScoreView) -> Option<Self> {
        let looks = |cut: &&Cut| {
            let text = cut.text.trim_start();
            ["diff ", "--- ", "+++ ", "@@ ", "Index: "].iter().any(|start| text.starts_with(start))
        };
        let parts = score.rest.iter().filter_map(|part| match part {
            Part::Member { value, json: false, .. } => Some(value),
            _ => None,
        });
        let all = score.explanation.iter().chain(score.answer.iter()).chain(score.value.iter()).chain(parts);
        let texts: Vec<&Cut> = all.filter(|cut| cut.size_bytes > 0).collect();
        let found = texts.iter().copied().find(|cut| looks(cut)).or(texts.first().copied())?;
        Some(Self { text: found.clone() })
    }
}
