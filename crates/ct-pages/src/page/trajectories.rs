//! `/trajectories`, and the table of trajectories that other pages show as well.

use ct_model::{TrajectoryPage, TrajectoryRow};
use jiff::Timestamp;
use maud::{Markup, html};

use crate::filter::{self, Field, Kind, OUTCOMES};
use crate::part::{self, Of, Span};
use crate::{Asset, Frame, Query, Section, Visit, count, number, plain, text, time};

const PATH: &str = "/trajectories";

const ERRORED: Kind = Kind::One(&[("true", "with an error"), ("false", "without an error")]);

/// Filters within a run or a dataset.
pub(super) const FIELDS: [Field; 7] = [
    Field { name: "environment", label: "Environment", kind: Kind::Text },
    Field { name: "main_task", label: "Main task", kind: Kind::Text },
    Field { name: "side_task", label: "Side task", kind: Kind::Text },
    Field { name: "tag", label: "Tags, all of", kind: Kind::Text },
    Field { name: "main_outcome", label: "Main task ended in", kind: OUTCOMES },
    Field { name: "side_outcome", label: "Side task ended in", kind: OUTCOMES },
    Field { name: "errored", label: "Ended", kind: ERRORED },
];

const ALL_FIELDS: [Field; 11] = [
    FIELDS[0],
    FIELDS[1],
    FIELDS[2],
    FIELDS[3],
    Field { name: "run_id", label: "Run", kind: Kind::Text },
    Field { name: "dataset", label: "Dataset label", kind: Kind::Text },
    Field { name: "versioned_dataset", label: "Dataset", kind: Kind::Text },
    Field { name: "versioned_dataset_version", label: "Version of the dataset", kind: Kind::Text },
    FIELDS[4],
    FIELDS[5],
    FIELDS[6],
];

/// What is in the address of a page with such a table.
pub const PARAMETERS: [&str; 13] = [
    "environment",
    "main_task",
    "side_task",
    "tag",
    "run_id",
    "dataset",
    "versioned_dataset",
    "versioned_dataset_version",
    "main_outcome",
    "side_outcome",
    "errored",
    "from",
    "cursor",
];

/// The page. `query` has [`PARAMETERS`].
pub fn page(visit: &Visit, query: &Query, trajectories: &TrajectoryPage, span: Span) -> String {
    let is_filtered = filter::set_count(query, &ALL_FIELDS) > 0;
    let body = html! {
        div.page-head {
            h1 { "Trajectories" }
            span.count { (count(trajectories.total_count)) @if is_filtered { " that match" } }
        }
        (filter::form(PATH, query, None, &ALL_FIELDS, &known(&trajectories.items), &[]))
        (list(visit, PATH, query, query, trajectories, span, true))
    };
    Frame { title: "Trajectories", section: Section::Trajectories, assets: &[Asset::TableJs] }
        .around(visit, &body)
}

/// Values that fields can be filled with: those in sight.
pub(super) fn known(rows: &[TrajectoryRow]) -> Vec<(&'static str, Vec<String>)> {
    let collect = |of: &dyn Fn(&TrajectoryRow) -> Vec<String>| {
        let mut values: Vec<String> = rows.iter().flat_map(of).collect();
        values.sort();
        values.dedup();
        values.truncate(100);
        values
    };
    vec![
        ("environment", collect(&|row| row.environment_id.iter().cloned().collect())),
        ("main_task", collect(&|row| row.main_task_id.iter().cloned().collect())),
        ("side_task", collect(&|row| row.side_task_id.iter().cloned().collect())),
        ("tag", collect(&|row| row.tags.clone())),
    ]
}

/// The table with what is below it. `query` is that of the page at `path`, `within` says for the page of one
/// trajectory which list it belongs to.
pub(super) fn list(
    visit: &Visit,
    path: &str,
    query: &Query,
    within: &Query,
    trajectories: &TrajectoryPage,
    span: Span,
    shows_run: bool,
) -> Markup {
    let is_filtered = filter::set_count(query, &ALL_FIELDS) > 0;
    if trajectories.items.is_empty() {
        return html! {
            div.panel {
                div.empty {
                    @if is_filtered {
                        h2 { "No trajectory matches" }
                        p { "Take off a filter, or look at all of them." }
                        p { a.button href=(path) { "All trajectories" } }
                    } @else {
                        h2 { "No trajectories yet" }
                        p { "They come with runs. Make one of an eval log:" }
                        pre { "ct runs make logs/my-eval.eval" }
                    }
                }
            }
        };
    }
    let within = within.without(&["cursor", "from"]);
    html! {
        div.table-box {
            div.table-scroll { (table(visit, &within, span.first, &trajectories.items, shows_run)) }
            @if visit.may_write() { (actions(visit, within.get("versioned_dataset"))) }
            div.table-foot {
                (part::pager(path, query, span, trajectories.next_cursor.as_ref().map(|cursor| cursor.as_str()),
                    ("trajectory", "trajectories")))
            }
        }
    }
}

fn table(visit: &Visit, within: &Query, first: u64, rows: &[TrajectoryRow], shows_run: bool) -> Markup {
    let chooses = visit.may_write();
    let suspicions = rows.iter().filter_map(|row| row.max_suspicion_score);
    let scale = match suspicions.reduce(f64::max) {
        Some(max) if max <= 1.0 => 1.0,
        Some(max) if max <= 10.0 => 10.0,
        Some(max) => max.max(100.0),
        None => 1.0,
    };
    html! {
        table.trajectories data-rows {
            thead {
                tr {
                    @if chooses {
                        th.check scope="col" {
                            input type="checkbox" data-choose-all hidden aria-label="Choose all on this page";
                        }
                    }
                    th scope="col" { "Trajectory" }
                    th.wide scope="col" { "Environment" }
                    th.wide scope="col" { "Side task" }
                    th scope="col" { "Main" }
                    th scope="col" { "Side" }
                    th.number scope="col" title="The highest score that a monitor gave" { "Suspicion" }
                    th.number scope="col" { "Actions" }
                    th.number.wide scope="col" { "Started" }
                    @if shows_run { th.wide scope="col" { "Run" } }
                }
            }
            tbody {
                @for (position, row) in (first.saturating_sub(1)..).zip(rows) {
                    (shown_row(visit, &within.with("at", position.to_string()), row, scale, shows_run, chooses))
                }
            }
        }
    }
}

fn shown_row(
    visit: &Visit,
    within: &Query,
    row: &TrajectoryRow,
    scale: f64,
    shows_run: bool,
    chooses: bool,
) -> Markup {
    let id = row.trajectory_id.as_str();
    let has_side = row.side_task_id.is_some() || row.side_task_success.is_some();
    html! {
        tr data-row {
            @if chooses {
                td.check {
                    input type="checkbox" name="trajectory" value=(id) form="actions" data-choose
                        aria-label=(format!("Choose {}", plain(&row.eval_sample_id)));
                }
            }
            td.name {
                a.main-link href=(within.on(&part::trajectory_path(id))) data-open { (text(&row.eval_sample_id)) }
                @if row.epoch > 1 { " " span.faint title="epoch" { "×" (row.epoch) } }
                @if let Some(error) = &row.error {
                    " " span.mark.is-bad title=(plain(&error.message)) {
                        (text(error.error_type.as_deref().unwrap_or("error")))
                    }
                }
                span.sub.mono title=(id) { (id.get(..12).unwrap_or(id)) }
                (part::tags(&row.tags, PATH, "tag"))
            }
            td.wide {
                (part::short_or_none(row.environment_id.as_deref()))
                span.sub { (part::short_or_none(row.main_task_id.as_deref())) }
            }
            td.wide { (part::short_or_none(row.side_task_id.as_deref())) }
            td { (part::outcome(row.main_task_success, Of::Main)) }
            td { @if has_side { (part::outcome(row.side_task_success, Of::Side)) } @else { span.faint { "–" } } }
            td.number { (suspicion(row.max_suspicion_score, scale)) }
            td.number { (count(row.actions_count)) }
            td.number.wide { (started(row.time_started, visit.now)) }
            @if shows_run {
                td.wide { a.mono href=(part::run_path(row.run_id.as_str())) title=(row.run_id) {
                    (row.run_id.as_str().get(..8).unwrap_or(row.run_id.as_str()))
                } }
            }
        }
    }
}

/// A score, and a bar along the scale that it seems to be on.
fn suspicion(score: Option<f64>, scale: f64) -> Markup {
    let Some(score) = score.filter(|score| score.is_finite()) else { return html! { span.faint { "–" } } };
    let share = (score / scale).clamp(0.0, 1.0) * 100.0;
    html! {
        span.rate.is-narrow {
            (number(score))
            svg.bar.is-suspicion viewBox="0 0 100 3" preserveAspectRatio="none" aria-hidden="true" {
                rect.bar-all width="100" height="3" {}
                rect.bar-part width=(format!("{share:.1}")) height="3" {}
            }
        }
    }
}

fn started(milliseconds: Option<i64>, now: Timestamp) -> Markup {
    match milliseconds.and_then(|at| Timestamp::from_millisecond(at).ok()) {
        Some(at) => time(at, now),
        None => html! { span.faint { "–" } },
    }
}

fn actions(visit: &Visit, dataset: Option<&str>) -> Markup {
    html! {
        form.actions.no-print #actions method="post" action="/trajectories/chosen" data-actions {
            (visit.csrf_field())
            input type="hidden" name="back" value=(visit.address);
            strong data-chosen-count data-one="trajectory" data-many="trajectories" { "With the chosen trajectories" }
            fieldset.row {
                legend.visually-hidden { "Put into a dataset" }
                input type="text" name="dataset" value=[dataset] placeholder="Dataset" aria-label="Name of the dataset" required
                    pattern="[A-Za-z0-9_][A-Za-z0-9._\\-]*" maxlength="128" autocomplete="off";
                button type="submit" name="action" value="add" { "Add to the dataset" }
                button type="submit" name="action" value="remove" { "Take out" }
            }
        }
    }
}
