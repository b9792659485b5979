//! `/datasets/<name>?version=N`: one version of a dataset.

use ct_model::{DatasetPage, DatasetVersion, RunRecord, TrajectoryPage};
use maud::{Markup, html};

use super::{datasets, manifest, trajectories};
use crate::filter;
use crate::part::{self, Of, Span};
use crate::{Asset, Frame, Query, Section, Visit, count, text, time};

/// The items that are on the page.
#[derive(Debug)]
pub enum Items<'a> {
    /// Of a list of trajectories: those of runs that are not deleted.
    Trajectories(&'a TrajectoryPage),
    /// Of a list of runs: each id with what is known of it.
    Runs(&'a [(String, Option<RunRecord>)]),
}

/// What is in the address of the page.
pub fn parameters() -> Vec<&'static str> {
    let fields = trajectories::fields_of_runs().into_iter().map(|field| field.name);
    std::iter::once("version").chain(fields).chain(["sort", "descending", "from", "cursor"]).collect()
}

/// The page.
pub fn page(
    visit: &Visit,
    query: &Query,
    set: &DatasetVersion,
    versions: &DatasetPage<DatasetVersion>,
    items: &Items<'_>,
    span: Span,
) -> String {
    let name = set.name.as_str();
    let path = part::dataset_path(name);
    let is_newest = versions.items.first().is_none_or(|newest| newest.version == set.version);
    let body = html! {
        nav.crumbs aria-label="Where this is" { a href="/datasets" { "Datasets" } }
        div.page-head {
            h1 { (name) }
            span.count { "version " (set.version) " · " (count(set.item_count)) " " (datasets::kind_name(set.kind)) }
            @if set.lock.is_some() { span.mark.is-warn { "locked" } }
            div.page-actions.no-print { (actions(visit, set, &path)) }
        }
        @if !is_newest {
            p.notice { "This is not the newest version. " a href=(path) { "Show the newest" } }
        }
        dl.facts {
            @if let Some(at) = set.created_at {
                div { dt { "Made" } dd { (time(at, visit.now)) @if let Some(by) = &set.created_by { " by " (text(by)) } } }
            }
            @if let Some(lock) = &set.lock {
                div {
                    dt { "Locked" }
                    dd {
                        (time(lock.locked_at, visit.now))
                        @if let Some(by) = &lock.locked_by { " by " (text(by)) }
                        @if let Some(reason) = &lock.reason { ": " (text(reason)) }
                    }
                }
            }
        }
        @if let Some(description) = set.description.as_deref().filter(|text| !text.trim().is_empty()) {
            (manifest::description(name, description))
        }
        section.section #items {
            (shown_items(visit, query, set, items, span, &path))
        }
        (shown_versions(visit, set, versions, &path))
    };
    Frame { title: name, section: Section::Datasets, assets: &[Asset::TableJs] }.around(visit, &body)
}

fn actions(visit: &Visit, set: &DatasetVersion, path: &str) -> Markup {
    let zip = Query::default()
        .with("versioned_dataset", set.name.as_str())
        .with("versioned_dataset_version", set.version.to_string())
        .on("/api/trajectories/zip");
    html! {
        @if visit.may_write() {
            @if set.lock.is_some() {
                form method="post" action=(format!("{path}/lock")) {
                    (visit.csrf_field())
                    button type="submit" name="action" value="unlock" { "Unlock" }
                }
            } @else {
                details.menu {
                    summary.button { "Lock" }
                    form.menu-form.form method="post" action=(format!("{path}/lock")) {
                        (visit.csrf_field())
                        div.field {
                            label for="reason" { "Reason" }
                            input #reason type="text" name="reason" maxlength="1000" autocomplete="off";
                            p.hint { "A locked dataset takes no new version." }
                        }
                        div.form-actions { button.primary type="submit" name="action" value="lock" { "Lock" } }
                    }
                }
            }
        }
        details.menu {
            summary.button { "Download" }
            ul.menu-list {
                li { a href=(zip) download { "Trajectories as ZIP" } }
                li { a href=(format!("/api{path}/versions/{}", set.version)) { "Ids as JSON" } }
            }
        }
    }
}

fn shown_items(
    visit: &Visit,
    query: &Query,
    set: &DatasetVersion,
    items: &Items<'_>,
    span: Span,
    path: &str,
) -> Markup {
    match items {
        Items::Trajectories(page) => {
            let within = query
                .without(&["version"])
                .with("versioned_dataset", set.name.as_str())
                .with("versioned_dataset_version", set.version.to_string());
            let known = trajectories::known(&page.items);
            let set_filters = trajectories::set_count(query);
            let fields = trajectories::fields_of_runs();
            html! {
                div.section-head { h2 { "Trajectories" } span.muted {
                    (count(page.total_count)) @if set_filters > 0 { " that match" }
                    @if set_filters == 0 && page.total_count < set.item_count {
                        ", " (count(set.item_count - page.total_count)) " more of deleted runs"
                    }
                } }
                (filter::form(path, query, None, &fields, &known, &["version", "sort", "descending"]))
                (trajectories::list(visit, path, query, &within, page, span, true))
            }
        }
        Items::Runs(runs) => html! {
            div.section-head { h2 { "Runs" } }
            div.table-box {
                div.table-scroll {
                    table.stacks data-rows {
                        thead { tr {
                            th scope="col" { "Run" }
                            th.number scope="col" { "Main passed" }
                            th.number scope="col" { "Side passed" }
                            th.number scope="col" { "Size" }
                            th.number scope="col" { "Registered" }
                        } }
                        tbody { @for (id, record) in *runs { (run_row(visit, id, record.as_ref())) } }
                    }
                }
                div.table-foot {
                    p { (count(span.total)) " runs" }
                    nav.pager aria-label="Pages" {
                        @let last = span.first + span.here.saturating_sub(1);
                        @if span.first > 1 { a.button href=(query.without(&["from"]).on(path)) { "First" } }
                        @if last < span.total {
                            a.button rel="next" href=(query.with("from", (last + 1).to_string()).on(path)) { "Next →" }
                        }
                    }
                }
            }
        },
    }
}

fn run_row(visit: &Visit, id: &str, record: Option<&RunRecord>) -> Markup {
    html! {
        tr data-row {
            @match record {
                Some(record) => {
                    td {
                        a.main-link href=(part::run_path(id)) data-open { (text(&record.header.name)) } " "
                        (part::status(record.status))
                        @if record.deleted_at.is_some() { span.mark.is-warn { "deleted" } }
                        span.sub.mono { (id) }
                    }
                    td.number data-label="Main passed" { (part::rate(&record.counts.main, Of::Main)) }
                    td.number data-label="Side passed" { (part::rate(&record.counts.side, Of::Side)) }
                    td.number data-label="Size" { (count(record.header.trajectory_count.unwrap_or(0))) }
                    td.number data-label="Registered" { (time(record.created_at, visit.now)) }
                }
                None => td colspan="5" { span.mono { (id) } " " span.faint { "is not here any more" } },
            }
        }
    }
}

fn shown_versions(
    visit: &Visit,
    set: &DatasetVersion,
    versions: &DatasetPage<DatasetVersion>,
    path: &str,
) -> Markup {
    html! {
        section.section {
            div.section-head { h2 { "Versions" } span.muted { (count(versions.total_count)) } }
            div.table-box {
                table.stacks {
                    thead { tr {
                        th.number.narrow-column scope="col" { "Version" }
                        th.number.narrow-column scope="col" { "Items" }
                        th scope="col" { "Description" }
                        th.number scope="col" { "Made" }
                    } }
                    tbody {
                        @for version in &versions.items {
                            tr.is-current[version.version == set.version] {
                                td.number data-label="Version" {
                                    a href=(Query::default().with("version", version.version.to_string()).on(path)) { (version.version) }
                                }
                                td.number data-label="Items" { (count(version.item_count)) }
                                td.is-wide data-label="Description" { @if let Some(description) = &version.description { (first_line(description)) } }
                                td.number data-label="Made" {
                                    @if let Some(at) = version.created_at { (time(at, visit.now)) }
                                    @if let Some(by) = &version.created_by { span.sub { (text(by)) } }
                                }
                            }
                        }
                    }
                }
                @if versions.total_count > versions.items.len() as u64 {
                    div.table-foot { p { "The newest " (count(versions.items.len() as u64)) ". " a href=(format!("/api{path}/versions?item_ids=false")) { "All of them as JSON" } } }
                }
            }
        }
    }
}

fn first_line(description: &str) -> Markup {
    const CHARS_MAX: usize = 160;
    let line = description.lines().next().unwrap_or_default();
    if let Some(drawn) = manifest::in_short(description) {
        return drawn;
    }
    let short: String = line.chars().take(CHARS_MAX).collect();
    html! { (text(&short)) @if short.len() < description.len() { "…" } }
}
