//! `/datasets`: all of them.

use ct_model::{Dataset, DatasetPage};
use maud::{Markup, html};

use crate::part::{self, Span};
use crate::{Asset, Frame, Query, Section, Visit, count, plain, text, time};

const PATH: &str = "/datasets";

/// What is in the address of the page.
pub const PARAMETERS: [&str; 3] = ["kind", "from", "cursor"];

/// The page.
pub fn page(visit: &Visit, query: &Query, sets: &DatasetPage, span: Span) -> String {
    let chosen = query.get("kind");
    let body = html! {
        div.page-head {
            h1 { "Datasets" }
            span.count { (count(sets.total_count)) }
            nav.tabs aria-label="Kind" {
                @for (word, name) in [(None, "All"), (Some("trajectory"), "Of trajectories"), (Some("run"), "Of runs")] {
                    @let query = word.map_or_else(Query::default, |word| Query::default().with("kind", word));
                    a href=(query.on(PATH)) aria-current=[(chosen == word).then_some("page")] { (name) }
                }
            }
        }
        @if sets.items.is_empty() {
            div.panel {
                div.empty {
                    h2 { "No datasets yet" }
                    p { "A dataset is a named list of trajectories or runs, in numbered versions. Choose some in a table and add them to one, or draw a sample:" }
                    pre { "ct runs sample <run> 10 --dataset pilot" }
                }
            }
        } @else {
            div.table-box {
                div.table-scroll { (table(visit, &sets.items)) }
                div.table-foot {
                    (part::pager(PATH, query, span, sets.next_cursor.as_ref().map(|cursor| cursor.as_str()),
                        ("dataset", "datasets")))
                }
            }
        }
    };
    Frame { title: "Datasets", section: Section::Datasets, assets: &[Asset::TableJs] }.around(visit, &body)
}

pub(super) fn table(visit: &Visit, sets: &[Dataset]) -> Markup {
    html! {
        table.stacks data-rows {
            thead {
                tr {
                    th scope="col" { "Dataset" }
                    th scope="col" { "Of" }
                    th.number scope="col" { "Items" }
                    th.number scope="col" { "Version" }
                    th scope="col" { "By" }
                    th.number scope="col" { "Changed" }
                }
            }
            tbody {
                @for set in sets {
                    tr data-row {
                        td {
                            a.main-link href=(part::dataset_path(set.name.as_str())) data-open { (set.name) }
                            @if let Some(lock) = &set.lock {
                                " " span.mark title=(plain(lock.reason.as_deref().unwrap_or("takes no new version"))) { "locked" }
                            }
                        }
                        td data-label="Of" { (kind_name(set.kind)) }
                        td.number data-label="Items" { (count(set.item_count)) }
                        td.number data-label="Version" { (count(set.latest_version)) }
                        td data-label="By" { @if let Some(by) = set.updated_by.as_ref().or(set.created_by.as_ref()) { (text(by)) } @else { (part::dash()) } }
                        td.number data-label="Changed" {
                            @if let Some(at) = set.updated_at.or(set.created_at) { (time(at, visit.now)) }
                        }
                    }
                }
            }
        }
    }
}

pub(super) fn kind_name(kind: ct_model::DatasetKind) -> &'static str {
    match kind {
        ct_model::DatasetKind::Trajectory => "trajectories",
        ct_model::DatasetKind::Run => "runs",
    }
}
