//! `/runs`: the table of runs.

use ct_model::{RunPage, RunRow};
use maud::{Markup, html};

use super::rows::{self, List};
use crate::filter::{self, Field, Kind, OUTCOMES};
use crate::part::{self, Of, Sort, Span};
use crate::{Asset, Frame, Query, Section, Visit, count, text, time};

const PATH: &str = "/runs";
const WHAT: (&str, &str) = ("run", "runs");

const FIELDS: [Field; 13] = [
    Field { name: "policy", label: "Policy", kind: Kind::Text },
    Field { name: "task_set", label: "Task set", kind: Kind::Text },
    Field { name: "environment", label: "Environment", kind: Kind::Text },
    Field { name: "main_task", label: "Main task", kind: Kind::Text },
    Field { name: "side_task", label: "Side task", kind: Kind::Text },
    Field { name: "model", label: "Model", kind: Kind::Text },
    Field { name: "tags", label: "Tags, all of", kind: Kind::Text },
    Field { name: "author", label: "Author", kind: Kind::Text },
    Field { name: "created_from", label: "Registered from", kind: Kind::Day },
    Field { name: "created_before", label: "Registered before", kind: Kind::Day },
    Field { name: "main_outcome", label: "A main task ended in", kind: OUTCOMES },
    Field { name: "side_outcome", label: "A side task ended in", kind: OUTCOMES },
    Field {
        name: "status",
        label: "Status of the log",
        kind: Kind::Words(&["success", "error", "cancelled", "started", "unknown"]),
    },
];

/// What is in the address of the page, in order; everything else is ignored.
pub const PARAMETERS: [&str; 18] = [
    "name",
    "policy",
    "task_set",
    "environment",
    "main_task",
    "side_task",
    "model",
    "tags",
    "author",
    "created_from",
    "created_before",
    "main_outcome",
    "side_outcome",
    "status",
    "sort",
    "descending",
    "from",
    "cursor",
];

/// The page. `query` has [`PARAMETERS`], `span` says where in the list it is.
pub fn page(visit: &Visit, query: &Query, runs: &RunPage, span: Span) -> String {
    let is_filtered = query.get("name").is_some() || filter::set_count(query, &FIELDS) > 0;
    let search = Some(("name", "Search runs by name"));
    let body = html! {
        div.page-head {
            h1 { "Runs" }
            span.count { (count(runs.total_count)) @if is_filtered { " that match" } }
        }
        (filter::form(PATH, query, search, &FIELDS, &known(&runs.items), &["sort", "descending"]))
        @if runs.items.is_empty() && is_filtered {
            (rows::nothing_matches(PATH, WHAT))
        } @else if runs.items.is_empty() {
            (none_yet())
        } @else {
            @let cursor = runs.next_cursor.as_ref().map(|cursor| cursor.as_str());
            @let list = List { path: PATH, query, span, cursor, what: WHAT };
            (list.around(&table(visit, query, &runs.items, true), visit.may_write().then(|| actions(visit)).as_ref()))
        }
    };
    Frame { title: "Runs", section: Section::Runs, assets: &[Asset::TableJs] }.around(visit, &body)
}

/// Values that fields can be filled with: those in sight.
fn known(rows: &[RunRow]) -> Vec<(&'static str, Vec<String>)> {
    let values = |of: fn(&RunRow) -> Vec<String>| rows::values(rows, of);
    vec![
        ("policy", values(|row| row.policy.iter().cloned().collect())),
        ("task_set", values(|row| row.task_set.iter().cloned().collect())),
        ("environment", values(|row| row.environments.listed.clone())),
        ("main_task", values(|row| row.main_tasks.listed.clone())),
        ("side_task", values(|row| row.side_tasks.listed.clone())),
        ("model", values(|row| row.models.listed.clone())),
        ("tags", values(|row| row.tags.clone())),
    ]
}

/// What the first cell of a row has.
const TEXTS: [Sort; 4] = [
    Sort::by("name", "Run"),
    Sort::by("policy", "Policy"),
    Sort::by("task_set", "Task set"),
    Sort::by("status", "Status"),
];

/// The table; `sorts` where its columns lead to other orders.
pub(super) fn table(visit: &Visit, query: &Query, rows: &[RunRow], sorts: bool) -> Markup {
    let chooses = sorts && visit.may_write();
    let head = |sort: Sort| {
        if sorts {
            part::sortable(PATH, query, "number", sort)
        } else {
            html! { th.number scope="col" { (sort.title) } }
        }
    };
    html! {
        table.runs.stacks data-rows {
            thead {
                tr {
                    @if chooses { (rows::choose_all()) }
                    @if sorts { (part::sortable_texts(PATH, query, &TEXTS)) } @else { th scope="col" { "Run" } }
                    th scope="col" { "Environment" }
                    th scope="col" { "Side task" }
                    th scope="col" { "Model" }
                    (head(Sort::by("main_rate", "Main passed")))
                    th.number scope="col" { "Side passed" }
                    (head(Sort::by("trajectories", "Size")))
                    (head(Sort::by("cost", "Cost")))
                    (head(Sort { by_default: true, ..Sort::by("created", "Registered") }))
                }
            }
            tbody { @for row in rows { (shown_row(visit, row, chooses)) } }
        }
    }
}

fn shown_row(visit: &Visit, row: &RunRow, chooses: bool) -> Markup {
    let id = row.run_id.as_str();
    html! {
        tr.is-deleted[row.deleted_at.is_some()] data-row {
            @if chooses { (rows::choose("run", id, &row.name)) }
            td.name {
                a.main-link href=(part::run_path(id)) data-open { (text(&row.name)) } " "
                (part::status(row.status))
                @if row.deleted_at.is_some() { span.mark.is-warn { "deleted" } }
                span.sub {
                    @if let Some(policy) = &row.policy { (part::short(policy)) " · " }
                    @if let Some(task_set) = &row.task_set { (part::short(task_set)) " · " }
                    span.mono title=(id) { (&id[..id.len().min(8)]) }
                    (part::tags(&row.tags, PATH, "tags"))
                }
            }
            td data-label="Environment" {
                (part::values(&row.environments))
                span.sub { (part::values(&row.main_tasks)) }
            }
            td data-label="Side task" { (part::values(&row.side_tasks)) }
            td data-label="Model" { (part::values(&row.models)) }
            td.number data-label="Main passed" { (part::rate(&row.counts.main, Of::Main)) }
            td.number data-label="Side passed" { (part::rate(&row.counts.side, Of::Side)) }
            td.number data-label="Size" {
                (count(row.trajectory_count))
                @if row.counts.errored > 0 {
                    span.sub.is-bad { (count(row.counts.errored)) " errored" }
                }
            }
            td.number data-label="Cost" { (part::cost(row.total_cost_usd, row.cost_incomplete)) }
            td.number data-label="Registered" { (time(row.created_at, visit.now)) }
        }
    }
}

/// What can be done with chosen runs. Without script it is always there.
fn actions(visit: &Visit) -> Markup {
    html! {
        form.actions.no-print #actions method="post" action="/runs/chosen" data-actions {
            (visit.csrf_field())
            input type="hidden" name="back" value=(visit.address);
            // What Enter in a field does: the first button of a form.
            button.visually-hidden type="submit" name="action" value="filled" tabindex="-1" aria-hidden="true" { "Go" }
            strong data-chosen-count { "With the chosen runs" }
            fieldset.row {
                legend.visually-hidden { "Tag" }
                input type="text" name="tag" placeholder="Tag" aria-label="Tag" maxlength="200" autocomplete="off";
                button type="submit" name="action" value="tag" { "Add tag" }
                button type="submit" name="action" value="untag" { "Remove tag" }
            }
            fieldset.row {
                legend.visually-hidden { "Sample into a dataset" }
                input.short-input type="number" name="count" min="1" placeholder="10" value="10" aria-label="How many trajectories";
                input type="text" name="dataset" placeholder="Dataset" aria-label="Name of the dataset"
                    pattern="[A-Za-z0-9][A-Za-z0-9._\\-]*" maxlength="128" autocomplete="off";
                button type="submit" name="action" value="sample" title="Draw this many trajectories of the chosen runs, at random, into a new version of a dataset" { "Sample" }
            }
            button.danger type="submit" name="action" value="delete" { "Delete" }
        }
    }
}

/// Instead of the table, in an empty store.
pub(super) fn none_yet() -> Markup {
    rows::nothing_yet(
        "runs",
        "Make a run of an eval log. It shows up here when it is complete.",
        "ct runs make logs/my-eval.eval",
    )
}
