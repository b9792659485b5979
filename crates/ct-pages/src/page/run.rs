//! `/runs/<id>`: one run.

use ct_model::{RunRecord, TrajectoryPage};
use jiff::Timestamp;
use maud::{Markup, html};
use serde_json::Value;

use super::outcomes;
use super::trajectories;
use crate::comments::{Comments, is_deleted};
use crate::filter;
use crate::measure::Summary;
use crate::part::{self, Span};
use crate::{Asset, Earlier, Frame, Query, Section, Visit, bytes, count, number, text, time};

/// What is shown of a run.
#[derive(Debug)]
pub struct Run<'a> {
    /// All that is known of it.
    pub record: &'a RunRecord,
    /// What its trajectories come to.
    pub summary: &'a Summary,
    /// The filters of the table, as in the address.
    pub query: &'a Query,
    /// The table.
    pub trajectories: &'a TrajectoryPage,
    /// Where in the list it is.
    pub span: Span,
    /// What comments said before they were edited.
    pub earlier: &'a [Earlier],
    /// May change comments of others.
    pub is_admin: bool,
}

/// The page.
pub fn page(visit: &Visit, run: &Run<'_>) -> String {
    let record = run.record;
    let header = &record.header;
    let id = header.run_id.as_ref().map(|id| id.as_str()).unwrap_or_default();
    let path = part::run_path(id);
    let body = html! {
        nav.crumbs aria-label="Where this is" { a href="/runs" { "Runs" } }
        (head(visit, record, &path, id))
        (facts(visit, record, id))
        @if let Some(description) = header.description.as_deref().filter(|text| !text.trim().is_empty()) {
            div.prose dir="auto" { (crate::text_in(description)) }
        }
        (problems(visit, record, id))
        @if record.header.trajectory_count.unwrap_or(1) > 0 {
            div.split {
                (outcomes::matrix(run.summary, id))
                (outcomes::distributions(run.summary, &path))
            }
        }
        (metrics(record))
        (comments(visit, run, &path))
        (table(visit, run, &path, id))
        (more(visit, record))
    };
    let title = header.name.as_str();
    Frame { title, section: Section::Runs, assets: &[Asset::TableJs] }.around(visit, &body)
}

fn comments(visit: &Visit, run: &Run<'_>, path: &str) -> Markup {
    let comments = &run.record.header.comments;
    let path = format!("{path}/comments");
    let shown = Comments { visit, path: path.clone(), earlier: run.earlier, may_change_all: run.is_admin };
    let there = comments.iter().filter(|comment| !is_deleted(comment)).count();
    html! {
        section.section #comments {
            div.section-head { h2 { "Comments" } @if there > 0 { span.muted { (count(there as u64)) } } }
            @if comments.is_empty() && !visit.may_write() { p.muted { "Nobody has commented." } }
            (shown.list(comments, &html! {}))
            @if visit.may_write() {
                form.form.comment-form.no-print method="post" action=(path) {
                    (visit.csrf_field())
                    textarea name="text" aria-label="A comment" placeholder="Write a comment" required
                        maxlength="100000" dir="auto" {}
                    div.form-actions { button type="submit" { "Comment" } }
                }
            }
        }
    }
}

fn head(visit: &Visit, record: &RunRecord, path: &str, id: &str) -> Markup {
    let header = &record.header;
    let zip = Query::new([("run_id".to_owned(), id.to_owned())]).on("/api/trajectories/zip");
    html! {
        div.page-head {
            h1 { (text(&header.name)) }
            (part::status(record.status))
            @if record.deleted_at.is_some() { span.mark.is-warn { "deleted" } }
            (part::tags(&header.tags, "/runs", "tags"))
            div.page-actions.no-print {
                @if visit.may_write() && record.deleted_at.is_none() { (edit(visit, record, path)) }
                details.menu {
                    summary.button { "Download" }
                    ul.menu-list {
                        li { a href=(format!("/api{path}/eval")) download {
                            "Eval log" span.faint { (bytes(record.log.size_bytes)) }
                        } }
                        li { a href=(zip) download { "Trajectories as ZIP" } }
                        li { a href=(format!("{path}/trajectories.csv")) download { "Trajectories as CSV" } }
                        li { a href=(format!("/api{path}?view=record")) { "Record as JSON" } }
                    }
                }
            }
        }
    }
}

fn edit(visit: &Visit, record: &RunRecord, path: &str) -> Markup {
    let header = &record.header;
    let field = |name: &str, label: &str, value: &str| {
        html! {
            div.field {
                label for=(format!("edit-{name}")) { (label) }
                input id=(format!("edit-{name}")) type="text" name=(name) value=(value) maxlength="1000" autocomplete="off";
            }
        }
    };
    html! {
        details.menu {
            summary.button { "Edit" }
            form.menu-form.form method="post" action=(format!("{path}/edit")) {
                (visit.csrf_field())
                input type="hidden" name="version" value=(record.version);
                (field("name", "Name", &header.name))
                (field("tags", "Tags, between commas", &header.tags.join(", ")))
                (field("policy", "Policy", header.policy.as_deref().unwrap_or_default()))
                (field("dataset", "Dataset label", header.dataset.as_deref().unwrap_or_default()))
                div.field {
                    label for="edit-description" { "Description" }
                    textarea #edit-description name="description" rows="4" maxlength="100000" dir="auto" {
                        // A browser drops the first line break.
                        "\n" (header.description.as_deref().unwrap_or_default())
                    }
                }
                div.form-actions {
                    button.primary type="submit" name="action" value="save" { "Save" }
                    button.danger.push type="submit" name="action" value="delete" { "Delete the run" }
                }
            }
        }
    }
}

fn facts(visit: &Visit, record: &RunRecord, id: &str) -> Markup {
    let header = &record.header;
    let models = header.models.as_deref().unwrap_or_default();
    let fact = |name: &str, value: Markup| html! { div { dt { (name) } dd { (value) } } };
    let optional = |name: &str, value: Option<&str>| {
        html! { @if let Some(value) = value { (fact(name, part::short(value))) } }
    };
    html! {
        dl.facts {
            (optional("Policy", header.policy.as_deref()))
            (optional("Task set", header.task_set.as_deref()))
            (optional("Dataset", header.dataset.as_deref()))
            @if let Some((first, rest)) = models.split_first() {
                (fact("Models", html! {
                    (part::short(first))
                    @for model in rest { ", " (part::short(model)) }
                }))
            }
            (fact("Trajectories", html! {
                (count(header.trajectory_count.unwrap_or(0)))
                @if record.counts.errored > 0 { span.is-bad { ", " (count(record.counts.errored)) " errored" } }
            }))
            (fact("Cost", part::cost(header.total_cost_usd, record.cost_incomplete)))
            (fact("Registered", html! {
                (time(record.created_at, visit.now))
                @if let Some(by) = &header.created_by { " by " (text(by)) }
            }))
            @if let Some(created) = record.eval_created.as_deref().and_then(|at| at.parse::<Timestamp>().ok()) {
                (fact("Evaluated", time(created, visit.now)))
            }
            (fact("Id", html! { span.mono { (id) } }))
        }
    }
}

fn problems(visit: &Visit, record: &RunRecord, id: &str) -> Markup {
    html! {
        @if record.deleted_at.is_some() {
            div.notice.row {
                p { "This run is deleted: it is in no list. It can be restored until it is collected." }
                @if visit.may_write() {
                    form.push method="post" action="/runs/restore" {
                        (visit.csrf_field())
                        input type="hidden" name="run" value=(id);
                        button type="submit" { "Restore" }
                    }
                }
            }
        }
        @if !record.defects.is_empty() {
            details.notice {
                summary { "The log is damaged: " (count(record.defects.len() as u64)) " things were lost in reading it" }
                ul.plain-list { @for defect in &record.defects { li { (text(defect)) } } }
            }
        }
    }
}

fn metrics(record: &RunRecord) -> Markup {
    let header = &record.header;
    if header.metrics.is_empty() && header.cost_by_model.is_empty() {
        return html! {};
    }
    html! {
        section.section.split.is-even {
            @if !header.metrics.is_empty() {
                div {
                    div.section-head { h2 { "Metrics" } }
                    div.table-box {
                        table.wraps {
                            thead { tr { th scope="col" { "Scorer" } th scope="col" { "Metric" } th.number scope="col" { "Value" } } }
                            tbody {
                                @for (scorer, metrics) in &header.metrics {
                                    @for (metric, value) in metrics {
                                        tr {
                                            td { (text(scorer)) }
                                            td { (text(metric)) }
                                            td.number {
                                                @match value {
                                                    Some(value) => span title=(value) { (number(*value)) },
                                                    None => span.faint title="not a number" { "–" },
                                                }
                                            }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
            @if !header.cost_by_model.is_empty() {
                div {
                    div.section-head { h2 { "Cost by model" } }
                    div.table-box {
                        table.wraps {
                            thead { tr { th scope="col" { "Model" } th.number scope="col" { "Cost" } } }
                            tbody {
                                @for (model, cost) in &header.cost_by_model {
                                    tr { td { (text(model)) } td.number { (part::cost(*cost, false)) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn table(visit: &Visit, run: &Run<'_>, path: &str, id: &str) -> Markup {
    let within = run.query.with("run_id", id);
    // Whoever filters or sorts stays at the table.
    let place = format!("{path}#trajectories");
    let known = trajectories::known(&run.trajectories.items);
    html! {
        section.section #trajectories {
            div.section-head {
                h2 { "Trajectories" }
                span.muted { (count(run.trajectories.total_count)) @if trajectories::set_count(run.query) > 0 { " that match" } }
                a.more href=(within.without(&["from", "cursor"]).on("/trajectories")) { "In the list of all" }
            }
            (filter::form(&place, run.query, None, &trajectories::OWN_FIELDS, &known, &["sort", "descending"]))
            (trajectories::list(visit, &place, run.query, &within, run.trajectories, run.span, false))
        }
    }
}

/// What is rarely looked at.
fn more(visit: &Visit, record: &RunRecord) -> Markup {
    let header = &record.header;
    html! {
        section.section {
            div.section-head { h2 { "Origin" } }
            dl.facts.is-rows.panel {
                div { dt { "Log" } dd.mono { (record.log.hash) "." (record.log.format.as_str()) } }
                @if let Some(eval) = &record.eval_id { div { dt { "Eval id" } dd.mono { (text(eval)) } } }
                @if let Some(source) = &record.source { div { dt { "Source" } dd { (text(source)) } } }
                @if header.name != record.recorded.name {
                    div { dt { "Name in the log" } dd { (text(&record.recorded.name)) } }
                }
                @for revision in &record.revisions {
                    div {
                        dt { "Log before" }
                        dd { span.mono { (revision.log.hash) } " until " (time(revision.replaced_at, visit.now)) }
                    }
                }
            }
            @if !header.metadata.is_empty() {
                details.json {
                    summary { "Metadata of the log" }
                    pre dir="auto" { (crate::text_in(&Value::Object(header.metadata.clone()).pretty())) }
                }
            }
        }
    }
}

trait Pretty {
    fn pretty(&self) -> String;
}

impl Pretty for Value {
    /// With line breaks; cut where it gets long, and the record as JSON has all of it.
    fn pretty(&self) -> String {
        const CHARS_MAX: usize = 20_000;
        let text = format!("{self:#}");
        match text.char_indices().nth(CHARS_MAX) {
            Some((end, _)) => format!("{}\n… cut here; the record as JSON has all of it", &text[..end]),
            None => text,
        }
    }
}
