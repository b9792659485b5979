//! One step: what was said, the tools called, what happened meanwhile.

use ct_model::transcript::{CallView, Cut, EventView, ModelCall, Part, Speaker, StepView, VerdictView};
use maud::{Markup, html};

use super::paper::{self, Later};
use super::strip::level;
use super::{Comments, Medium, Place};
use crate::address::Query;
use crate::format::{bytes, count, duration_ms, number, usd};
use crate::part::short;
use crate::text::{plain, text, text_in};

/// The query that names a part of the sample.
pub(super) fn part_query(place: ct_model::transcript::Place) -> Query {
    Query::new([
        ("at".to_owned(), place.offset.to_string()),
        ("size".to_owned(), place.size_bytes.to_string()),
    ])
}

pub(super) fn draw(place: &Place<'_>, step: &StepView, comments: &Comments) -> Markup {
    let class = match step.speaker {
        _ if step.role == "events" => "step is-events",
        _ if step.aside => "step is-aside",
        Speaker::System => "step is-system",
        Speaker::User => "step is-user",
        Speaker::Tool => "step is-tool",
        Speaker::Model => "step is-model",
    };
    // A step with actions is stopped at there; its head belongs to the first of them.
    let stop = step.calls.iter().all(|call| call.action.is_none());
    let began = step.model_calls.iter().find_map(|call| call.began_ms);
    html! {
        article class=(class) id=(format!("step-{}", step.number)) data-step=(step.number)
            aria-label=(format!("Step {}: {}", step.number, plain(&step.role))) {
            header.step-head.stop[stop] tabindex=[stop.then_some("-1")] {
                span.role { (role(step)) }
                @if let Some(call) = step.model_calls.iter().find(|call| call.usage.is_some()).or(step.model_calls.first()) {
                    span.faint { (short(&call.model)) }
                    @if let Some(role) = call.role.as_deref().filter(|_| step.aside) { span.mark { (text(role)) } }
                }
                span.step-end {
                    @if let (Some(at), Some(began)) = (began, place.began_ms) {
                        span.faint title="since the sample began" { "+" (since(at, began)) }
                    }
                    @if stop && place.visit.may_write() {
                        (comment_link())
                    }
                    a.address href=(format!("#step-{}", step.number)) title="Address of this step" { "step " (step.number) }
                    (raw_link(place, step.place))
                }
            }
            div.step-body dir="auto" { (parts(place, &step.parts)) }
            (comments.on_step(place, step.number))
            @for call in &step.calls { (draw_call(place, step, call, comments)) }
            @if step.calls_left_out > 0 {
                p.muted.left-out {
                    (count(step.calls_left_out as u64)) " more calls are not shown here; " a href=(sample_path(place)) download { "the sample" } " has them."
                }
            }
            @if step.spent {
                p.notice.left-out {
                    "This step is larger than what is shown at once: its end is left out. "
                    a href=(sample_path(place)) download { "The sample" } " has all of it."
                }
            }
            @if !step.model_calls.is_empty() { (model_calls(place, step)) }
            @if !step.events.is_empty() || step.events_left_out > 0 {
                details.events open[step.role == "events" || place.is_paper()] {
                    summary {
                        span.twist aria-hidden="true" {}
                        (count((step.events.len() + step.events_left_out) as u64))
                        @if step.events.len() + step.events_left_out == 1 { " event: " } @else { " events: " }
                        span.faint { (kinds(&step.events)) }
                    }
                    @for event in &step.events { (draw_event(place, event)) }
                    @if step.events_left_out > 0 { (more_events_link(place, step.number, step.events.len())) }
                }
            }
        }
    }
}

pub(super) fn more_events_link(place: &Place<'_>, step: usize, from: usize) -> Markup {
    if place.is_paper() {
        return paper::later(&Later::Events { step, from });
    }
    let query = Query::new([("step".to_owned(), step.to_string()), ("from".to_owned(), from.to_string())]);
    html! { p.more { a data-more href=(query.on(&place.below("events"))) { "More events" } } }
}

fn role(step: &StepView) -> Markup {
    html! {
        @match step.role.as_str() {
            "assistant" if step.aside => "Model call",
            "assistant" => "Agent",
            "user" => "User",
            "system" => "System",
            "tool" => "Tool",
            "events" => "Events",
            other => (text(other)),
        }
    }
}

fn kinds(events: &[EventView]) -> Markup {
    let mut seen: Vec<(&str, u64)> = Vec::new();
    for event in events {
        match seen.iter_mut().find(|(kind, _)| *kind == event.kind) {
            Some((_, times)) => *times += 1,
            None => seen.push((&event.kind, 1)),
        }
    }
    html! {
        @for (place, (kind, times)) in seen.into_iter().enumerate() {
            @if place > 0 { ", " }
            (text(kind)) @if times > 1 { " ×" (times) }
        }
    }
}

fn since(at: i64, began: i64) -> String {
    duration_ms(at.saturating_sub(began).max(0).unsigned_abs())
}

fn took(began: Option<i64>, ended: Option<i64>) -> Option<String> {
    Some(since(ended?, began?))
}

fn raw_link(place: &Place<'_>, at: ct_model::transcript::Place) -> Markup {
    html! {
        @if !at.is_empty() {
            a.raw-link data-raw href=(part_query(at).on(&place.below("raw"))) title="Raw JSON (r)" { "{ }" }
        }
    }
}

/// Without script it leads to the form beside the steps.
fn comment_link() -> Markup {
    html! { a.comment-link.no-print href="#write-comment" data-comment title="Comment (c)" { "Comment" } }
}

fn draw_call(place: &Place<'_>, step: &StepView, call: &CallView, comments: &Comments) -> Markup {
    let id = call.action.map(|action| format!("action-{action}"));
    let suspicion = call.suspicion.map(|value| (level(value, place.scale), value));
    let class = match suspicion {
        Some((level, _)) => format!("action level-{level}"),
        None => "action".to_owned(),
    };
    html! {
        section class=(class) id=[id] data-action=[call.action] aria-label=[call.action.map(|action| format!("Action {action}"))] {
            header.action-head.stop[call.action.is_some()] tabindex=[call.action.map(|_| "-1")] {
                @match call.action {
                    Some(action) => a.action-number href=(format!("#action-{action}")) title="Address of this action" { (action) },
                    None => span.action-number title="a call that the conversation does not hold" { "–" },
                }
                code.function { (text(&call.function)) }
                @if let Some((kind, _)) = &call.error { span.mark.is-bad { (text(kind)) } }
                @if let Some(took) = took(call.began_ms, call.ended_ms) { span.faint title="time the tool took" { (took) } }
                span.step-end {
                    @if let Some((level, value)) = suspicion {
                        span.level.{"level-" (level)} title="highest suspicion" { (number(f64::from(value))) }
                    }
                    @if place.visit.may_write() && call.action.is_some() {
                        (comment_link())
                    }
                    @match call.event {
                        Some(event) => a.raw-link data-raw href=(Query::new([("event".to_owned(), event.to_string())]).on(&place.below("raw"))) title="Raw JSON of the call (r)" { "{ }" },
                        None => (raw_link(place, step.place)),
                    }
                }
            }
            div.call dir="auto" {
                @if call.arguments.is_empty() { p.faint { "without arguments" } }
                (arguments(place, &call.arguments))
                @if let Some(error) = &call.parse_error {
                    p.failure { "The arguments could not be understood: " (cut(place, error)) }
                }
            }
            @if !call.output.is_empty() || call.error.is_some() {
                div.output dir="auto" {
                    @if !call.answer.is_empty() {
                        a.raw-link data-raw href=(part_query(call.answer).on(&place.below("raw"))) title="Raw JSON of the tool's message (r again)" { "{ }" }
                    }
                    (parts(place, &call.output))
                    @if let Some((kind, message)) = &call.error {
                        div.failure { b { (text(kind)) } " " (cut(place, message)) }
                    }
                }
            } @else {
                p.output.faint { "no output" }
            }
            (verdicts(place, &call.verdicts))
            @if let Some(action) = call.action { (comments.on_action(place, action)) }
        }
    }
}

pub(super) fn verdicts(place: &Place<'_>, verdicts: &[VerdictView]) -> Markup {
    html! {
        @if !verdicts.is_empty() {
            ul.verdicts {
                @for verdict in verdicts {
                    li {
                        span.level.{"level-" (verdict.value.map_or("none".to_owned(), |value| level(value, place.scale).to_string()))} {
                            @match verdict.value { Some(value) => (number(f64::from(value))), None => "–" }
                        }
                        span.verdict-by { (text(&verdict.monitor)) " " span.faint { "draw " (verdict.draw) @if verdict.draft { ", of the draft" } } }
                        @if let Some(explanation) = &verdict.explanation { div.verdict-why dir="auto" { (cut(place, explanation)) } }
                    }
                }
            }
        }
    }
}

fn model_calls(place: &Place<'_>, step: &StepView) -> Markup {
    html! {
        ul.model-calls {
            @for call in &step.model_calls { (draw_model_call(place, call)) }
        }
    }
}

fn draw_model_call(place: &Place<'_>, call: &ModelCall) -> Markup {
    let query =
        |name: &str| Query::new([("event".to_owned(), call.event.to_string())]).on(&place.below(name));
    html! {
        li {
            @if let Some(role) = &call.role { span.mark { (text(role)) } }
            span { (short(&call.model)) }
            @if let Some(usage) = &call.usage {
                @if let Some(input) = usage.input_tokens {
                    span.faint { (count(input + usage.input_tokens_cache_read.unwrap_or(0) + usage.input_tokens_cache_write.unwrap_or(0))) " in" }
                }
                @if let Some(output) = usage.output_tokens { span.faint { (count(output)) " out" } }
                @if let Some(reasoning) = usage.reasoning_tokens.filter(|tokens| *tokens > 0) { span.faint { (count(reasoning)) " reasoning" } }
                @if let Some(cost) = usage.total_cost { span.faint { (usd(cost)) } }
            }
            @if let Some(took) = took(call.began_ms, call.ended_ms) { span.faint { (took) } }
            @if call.cached { span.faint { "from a cache" } }
            @if call.retries > 0 { span.mark.is-warn { (call.retries) " retries" } }
            @if let Some(reason) = call.stop_reason.as_deref().filter(|reason| !matches!(*reason, "stop" | "tool_calls" | "unknown")) {
                span.mark { (text(reason)) }
            }
            a data-input href=(query("input")) { "What it saw" }
            a.raw-link data-raw href=(query("raw")) title="Raw JSON" { "{ }" }
            @if let Some(error) = &call.error { div.failure dir="auto" { (cut(place, error)) } }
        }
    }
}

/// An event.
pub(super) fn draw_event(place: &Place<'_>, event: &EventView) -> Markup {
    html! {
        details.event.{"depth-" (event.depth.min(4))} open[place.medium == Medium::Paper { events: true }] data-event=(event.number) {
            summary {
                span.twist aria-hidden="true" {}
                span.event-kind { (text(&event.kind)) }
                span.event-title { (text(&event.title)) }
                span.step-end {
                    @if let (Some(at), Some(began)) = (event.began_ms, place.began_ms) { span.faint { "+" (since(at, began)) } }
                    @if let Some(took) = took(event.began_ms, event.ended_ms) { span.faint { (took) } }
                    a.raw-link data-raw href=(Query::new([("event".to_owned(), event.number.to_string())]).on(&place.below("raw"))) title="Raw JSON" { "{ }" }
                }
            }
            div.event-body dir="auto" {
                @if event.parts.is_empty() { p.faint { "nothing more" } }
                (parts(place, &event.parts))
            }
        }
    }
}

/// Values in order.
pub(super) fn parts(place: &Place<'_>, parts: &[Part]) -> Markup {
    html! {
        @for part in parts {
            @match part {
                Part::Text(value) => div.text { (cut(place, value)) },
                Part::Reasoning { text: value, redacted } => details.reasoning open {
                    summary { span.twist aria-hidden="true" {} "Reasoning" @if *redacted { " (redacted)" } }
                    div.text { (cut(place, value)) }
                },
                Part::Picture(picture) => a.picture href=(part_query(picture.place).on(&place.below("image"))) {
                    img loading=(if place.is_paper() { "eager" } else { "lazy" }) alt="Image in the transcript" src=(part_query(picture.place).on(&place.below("image")));
                },
                Part::Media { kind, name, place: at } => p.media {
                    span.mark { (text(kind)) }
                    @if let Some(name) = name { " " (text(name)) }
                    " " span.faint { (bytes(at.size_bytes)) ", not shown" }
                    " " (raw_link(place, *at))
                },
                Part::Member { name, value, json } => div.member {
                    span.member-name { (text(name)) }
                    div.member-value.is-json[*json] { (cut(place, value)) }
                },
            }
        }
    }
}

/// Arguments: one alone needs no name when it is what such tools are given.
fn arguments(place: &Place<'_>, given: &[Part]) -> Markup {
    if let [Part::Member { name, value, .. }] = given
        && matches!(name.as_str(), "cmd" | "command" | "code" | "input" | "script")
    {
        return html! { div.text.is-code title=(plain(name)) { (cut(place, value)) } };
    }
    parts(place, given)
}

/// A text or its beginning, its true size, and the way to the rest; on paper the rest itself.
pub(super) fn cut(place: &Place<'_>, value: &Cut) -> Markup {
    html! {
        span.content {
            (text_in(&value.text))
            @if place.is_paper() && let Some(from) = value.next { (paper::later(&Later::Text { place: value.place, from })) }
        }
        @if !place.is_paper() && let Some(next) = value.next { (rest(place, value.place, next, value.size_bytes)) }
    }
}

/// The sample as it is written.
pub(super) fn sample_path(place: &Place<'_>) -> String {
    format!("/api{}", place.path())
}

pub(super) fn rest(place: &Place<'_>, at: ct_model::transcript::Place, next: u64, size: u64) -> Markup {
    let query = part_query(at);
    html! {
        span.cut {
            span.faint { "cut; " (bytes(size)) " in all" } " "
            a data-rest href=(query.with("from", next.to_string()).on(&place.below("text"))) { "more" } " "
            a href=(query.on(&place.below("part"))) target="_blank" rel="noopener" { "all of it" }
        }
    }
}
