//! How the trajectories of a run ended, as a matrix, and how their numbers are distributed.

use ct_model::Outcome;
use maud::{Markup, html};

use crate::measure::{Cell, MAIN, Measure, SIDE, Summary};
use crate::plot;
use crate::{Query, count, percent};

fn name(outcome: Option<Outcome>) -> &'static str {
    outcome.map_or("none", Outcome::as_str)
}

/// Main task by side task. Cells lead to their trajectories.
pub(super) fn matrix(summary: &Summary, run: &str) -> Markup {
    let mut total = Cell::default();
    summary.matrix.iter().flatten().for_each(|cell| total += *cell);
    let columns: Vec<usize> =
        (0..SIDE.len()).filter(|column| summary.matrix.iter().any(|row| row[*column].count > 0)).collect();
    let only_none = columns == [3];
    // The outer option says whether the side task matters.
    let link = |main: Option<Outcome>, side: Option<Option<Outcome>>| {
        let mut pairs = Vec::new();
        pairs.extend(main.map(|main| ("main_outcome".to_owned(), main.as_str().to_owned())));
        pairs.extend(side.map(|side| match side {
            Some(outcome) => ("side_outcome".to_owned(), outcome.as_str().to_owned()),
            None => ("has_side_task".to_owned(), "false".to_owned()),
        }));
        Query::new(pairs).on(&format!("{}#trajectories", crate::part::run_path(run)))
    };
    let cell = |cell: Cell, main: Option<Outcome>, side: Option<Option<Outcome>>, heat: bool| {
        let share = cell.count as f64 / total.count.max(1) as f64;
        let class = match (heat && cell.count > 0, (share * 5.0).ceil() as u8) {
            (true, step) => format!("number heat-{}", step.clamp(1, 5)),
            (false, _) => "number".to_owned(),
        };
        html! {
            td class=(class) {
                @if cell.count == 0 { span.faint { "0" } } @else {
                    a href=(link(main, side)) title=(percent(share)) { (count(cell.count)) }
                    @if cell.errored > 0 { span.sub.is-bad { (count(cell.errored)) " errored" } }
                }
            }
        }
    };
    html! {
        section.section {
            div.section-head { h2 { "Outcomes" } }
            div.table-box {
                div.table-scroll {
                table.matrix {
                    thead {
                        tr {
                            th scope="col" { "Main task" }
                            @for column in &columns {
                                th.number scope="col" {
                                    @if SIDE[*column].is_some() { "Side " (name(SIDE[*column])) } @else { "No side task" }
                                }
                            }
                            @if columns.len() > 1 { th.number scope="col" { "All" } }
                        }
                    }
                    tbody {
                        @for (row, main) in MAIN.iter().enumerate() {
                            @let cells = summary.matrix[row];
                            tr {
                                th scope="row" { (main.as_str()) }
                                @for column in &columns {
                                    (cell(cells[*column], Some(*main), Some(SIDE[*column]), true))
                                }
                                @if columns.len() > 1 { (cell(sum(cells), Some(*main), None, false)) }
                            }
                        }
                        tr.is-total {
                            th scope="row" { "All" }
                            @for column in &columns {
                                @let cells = [0, 1, 2].map(|row| summary.matrix[row][*column]);
                                (cell(sum(cells), None, Some(SIDE[*column]), false))
                            }
                            @if columns.len() > 1 { (cell(total, None, None, false)) }
                        }
                    }
                }
                }
            }
            p.caption {
                "Rates count what was scored: main "
                (rate_of([0, 1].map(|row| sum(summary.matrix[row]).count)))
                @if !only_none {
                    ", side " (rate_of([0, 1].map(|column| sum([0, 1, 2].map(|row| summary.matrix[row][column])).count)))
                }
                "."
            }
        }
    }
}

fn rate_of([pass, fail]: [u64; 2]) -> Markup {
    let scored = pass + fail;
    html! {
        @if scored == 0 { "none" } @else {
            b { (percent(pass as f64 / scored as f64)) } " of " (count(scored))
        }
    }
}

fn sum<const N: usize>(cells: [Cell; N]) -> Cell {
    let mut sum = Cell::default();
    cells.into_iter().for_each(|cell| sum += cell);
    sum
}

fn title(measure: Measure) -> &'static str {
    match measure {
        Measure::Suspicion => "Suspicion",
        Measure::Cost => "Cost",
        Measure::Length => "Length in actions",
        Measure::Time => "Time",
    }
}

/// A plot for each measure of which something is known.
pub(super) fn distributions(summary: &Summary, path: &str) -> Markup {
    let has = |series: usize| {
        summary.distributions.iter().flatten().any(|one| one.bins.iter().any(|bin| bin[series] > 0))
    };
    html! {
        section.section {
            div.section-head {
                h2 { "Distributions" }
                span.legend {
                    @if has(1) { span.swatch.is-with {} "with a side task" }
                    @if has(0) { span.swatch.is-without {} "without a side task" }
                }
            }
            div.plots {
                @for (measure, distribution) in Measure::ALL.iter().zip(&summary.distributions) {
                    figure.panel.plot-panel {
                        figcaption {
                            h3 { (title(*measure)) }
                            a.faint.no-print href=(format!("{path}/plots/{}.csv", measure.as_str())) download { "CSV" }
                        }
                        @match distribution {
                            Some(distribution) => {
                                (plot::histogram(*measure, distribution))
                                p.caption {
                                    "median " (plot::value(*measure, distribution.median))
                                    " · 90% ≤ " (plot::value(*measure, distribution.p90))
                                    " · max " (plot::value(*measure, distribution.max))
                                    @if distribution.unknown > 0 { " · " (count(distribution.unknown)) " unknown" }
                                }
                            }
                            None => p.plot-none.faint { "Nothing is recorded" },
                        }
                    }
                }
            }
        }
    }
}
