//! `/trajectories`, and the table of trajectories that other pages show as well.

use ct_model::{TrajectoryPage, TrajectoryRow};
use jiff::Timestamp;
use maud::{Markup, html};

use super::rows::{self, List};
use crate::filter::{self, Field, Kind, OUTCOMES};
use crate::part::{self, Of, Sort, Span};
use crate::{Asset, Frame, Query, Section, Visit, count, duration_ms, number, plain, text, time};

const PATH: &str = "/trajectories";
const WHAT: (&str, &str) = ("trajectory", "trajectories");

const WITH_OR_WITHOUT: Kind = Kind::One(&[("true", "with one"), ("false", "without one")]);
const ERRORED: Kind = Kind::One(&[("true", "with an error"), ("false", "without an error")]);
const STATUSES: Kind = Kind::Words(&["success", "error", "cancelled", "started", "unknown"]);

const SEARCH: (&str, &str) = ("run_name", "Search by the name of the run");

/// What differs between the trajectories of one run.
pub(super) const OWN_FIELDS: [Field; 10] = [
    Field { name: "environment", label: "Environment", kind: Kind::Text },
    Field { name: "main_task", label: "Main task", kind: Kind::Text },
    Field { name: "side_task", label: "Side task", kind: Kind::Text },
    Field { name: "model", label: "Model", kind: Kind::Text },
    Field { name: "author", label: "Author", kind: Kind::Text },
    Field { name: "tag", label: "Tags, all of", kind: Kind::Text },
    Field { name: "main_outcome", label: "Main task ended in", kind: OUTCOMES },
    Field { name: "side_outcome", label: "Side task ended in", kind: OUTCOMES },
    Field { name: "has_side_task", label: "A side task", kind: WITH_OR_WITHOUT },
    Field { name: "errored", label: "Ended", kind: ERRORED },
];

/// What their runs decide.
const RUN_FIELDS: [Field; 5] = [
    Field { name: "policy", label: "Policy", kind: Kind::Text },
    Field { name: "task_set", label: "Task set", kind: Kind::Text },
    Field { name: "created_from", label: "Registered from", kind: Kind::Day },
    Field { name: "created_before", label: "Registered before", kind: Kind::Day },
    Field { name: "status", label: "Status of the log", kind: STATUSES },
];

const PLACE_FIELDS: [Field; 4] = [
    Field { name: "run_id", label: "Run", kind: Kind::Text },
    Field { name: "dataset", label: "Dataset label", kind: Kind::Text },
    Field { name: "versioned_dataset", label: "Dataset", kind: Kind::Text },
    Field { name: "versioned_dataset_version", label: "Version of the dataset", kind: Kind::Text },
];

/// Filters among the trajectories of several runs.
pub(super) fn fields_of_runs() -> Vec<Field> {
    let [policy, task_set, from, before, status] = RUN_FIELDS;
    let [environment, main_task, side_task, model, author, tag, ends @ ..] = OWN_FIELDS;
    let texts = [policy, task_set, environment, main_task, side_task, model, tag, author, from, before];
    texts.into_iter().chain(ends).chain([status]).collect()
}

fn all_fields() -> Vec<Field> {
    let fields = fields_of_runs();
    let (texts, choices): (Vec<Field>, Vec<Field>) =
        fields.into_iter().partition(|field| matches!(field.kind, Kind::Text | Kind::Day));
    texts.into_iter().chain(PLACE_FIELDS).chain(choices).collect()
}

/// What is in the address of a page with such a table, in order; everything else is ignored.
pub fn parameters() -> Vec<&'static str> {
    let fields = all_fields().into_iter().map(|field| field.name);
    fields.chain([SEARCH.0, "sort", "descending", "from", "cursor"]).collect()
}

/// How many filters are set.
pub(super) fn set_count(query: &Query) -> usize {
    filter::set_count(query, &all_fields()) + query.all(SEARCH.0).count()
}

/// The page. `query` has [`parameters`].
pub fn page(visit: &Visit, query: &Query, trajectories: &TrajectoryPage, span: Span) -> String {
    let fields = all_fields();
    let known = known(&trajectories.items);
    let body = html! {
        div.page-head {
            h1 { "Trajectories" }
            span.count { (count(trajectories.total_count)) @if set_count(query) > 0 { " that match" } }
        }
        (filter::form(PATH, query, Some(SEARCH), &fields, &known, &["sort", "descending"]))
        (list(visit, PATH, query, query, trajectories, span, true))
    };
    Frame { title: "Trajectories", section: Section::Trajectories, assets: &[Asset::TableJs] }
        .around(visit, &body)
}

/// Values that fields can be filled with: those in sight.
pub(super) fn known(rows: &[TrajectoryRow]) -> Vec<(&'static str, Vec<String>)> {
    let values = |of: fn(&TrajectoryRow) -> Vec<String>| rows::values(rows, of);
    vec![
        ("environment", values(|row| row.environment_id.iter().cloned().collect())),
        ("main_task", values(|row| row.main_task_id.iter().cloned().collect())),
        ("side_task", values(|row| row.side_task_id.iter().cloned().collect())),
        ("author", values(|row| row.authors.clone())),
        ("tag", values(|row| row.tags.clone())),
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
    if trajectories.items.is_empty() && set_count(query) > 0 {
        return rows::nothing_matches(path, WHAT);
    }
    if trajectories.items.is_empty() {
        return rows::nothing_yet(
            "trajectories",
            "They come with runs. Make one of an eval log:",
            "ct runs make logs/my-eval.eval",
        );
    }
    let within = within.without(&["cursor", "from"]);
    let cursor = trajectories.next_cursor.as_ref().map(|cursor| cursor.as_str());
    let table = Table {
        path,
        query,
        within: &within,
        first: span.first,
        shows_run,
        chooses: visit.may_write(),
        scale: scale(&trajectories.items),
    };
    let actions = visit.may_write().then(|| actions(visit, within.get("versioned_dataset")));
    List { path, query, span, cursor, what: WHAT }
        .around(&table.of(visit, &trajectories.items), actions.as_ref())
}

/// The end of the scale that scores seem to be on.
fn scale(rows: &[TrajectoryRow]) -> f64 {
    match rows.iter().filter_map(|row| row.max_suspicion_score).reduce(f64::max) {
        Some(max) if max <= 1.0 => 1.0,
        Some(max) if max <= 10.0 => 10.0,
        Some(max) => max.max(100.0),
        None => 1.0,
    }
}

struct Table<'a> {
    path: &'a str,
    query: &'a Query,
    /// The list, for the page of one trajectory.
    within: &'a Query,
    /// The number of the first row.
    first: u64,
    shows_run: bool,
    chooses: bool,
    scale: f64,
}

impl Table<'_> {
    fn of(&self, visit: &Visit, rows: &[TrajectoryRow]) -> Markup {
        let head = |word, title| part::sortable(self.path, self.query, "number", Sort::by(word, title));
        let texts = |sorts: &[Sort]| part::sortable_texts(self.path, self.query, sorts);
        let created = Sort { by_default: true, ..Sort::by("created", "Trajectory") };
        html! {
            table.trajectories.stacks data-rows {
                thead {
                    tr {
                        @if self.chooses { (rows::choose_all()) }
                        (part::sortable(self.path, self.query, "", created))
                        (texts(&[Sort::by("environment", "Environment"), Sort::by("main_task", "Main task")]))
                        (texts(&[Sort::by("side_task", "Side task")]))
                        th scope="col" { "Main" }
                        th scope="col" { "Side" }
                        (head("suspicion", "Suspicion"))
                        (head("actions", "Actions"))
                        (head("duration", "Time"))
                        (head("cost", "Cost"))
                        (head("started", "Started"))
                        @if self.shows_run { th scope="col" { "Run" } }
                    }
                }
                tbody {
                    @for (position, row) in (self.first.saturating_sub(1)..).zip(rows) {
                        (self.row(visit, &self.within.with("at", position.to_string()), row))
                    }
                }
            }
        }
    }

    fn row(&self, visit: &Visit, within: &Query, row: &TrajectoryRow) -> Markup {
        let id = row.trajectory_id.as_str();
        let has_side = row.side_task_id.is_some() || row.side_task_success.is_some();
        html! {
            tr data-row {
                @if self.chooses { (rows::choose("trajectory", id, &row.eval_sample_id)) }
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
                td data-label="Environment" {
                    (part::short_or_none(row.environment_id.as_deref()))
                    span.sub { (part::short_or_none(row.main_task_id.as_deref())) }
                }
                td data-label="Side task" { (part::short_or_none(row.side_task_id.as_deref())) }
                td data-label="Main" { (part::outcome(row.main_task_success, Of::Main)) }
                td data-label="Side" {
                    @if has_side { (part::outcome(row.side_task_success, Of::Side)) } @else { (part::dash()) }
                }
                td.number data-label="Suspicion" { (suspicion(row.max_suspicion_score, self.scale)) }
                td.number data-label="Actions" { (count(row.actions_count)) }
                td.number data-label="Time" {
                    @if let Some(ms) = row.duration_ms { (duration_ms(ms)) } @else { (part::dash()) }
                }
                td.number data-label="Cost" { (part::cost(row.cost_usd, false)) }
                td.number data-label="Started" { (started(row.time_started, visit.now)) }
                @if self.shows_run {
                    td data-label="Run" { a.mono href=(part::run_path(row.run_id.as_str())) title=(row.run_id) {
                        (row.run_id.as_str().get(..8).unwrap_or(row.run_id.as_str()))
                    } }
                }
            }
        }
    }
}

/// A score, and a bar along the scale that it seems to be on.
fn suspicion(score: Option<f64>, scale: f64) -> Markup {
    let Some(score) = score.filter(|score| score.is_finite()) else { return part::dash() };
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
        None => part::dash(),
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
