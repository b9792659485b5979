//! The first page.

use ct_model::{DatasetPage, RunPage};
use maud::html;

use super::{datasets, runs};
use crate::{Asset, Frame, Query, Section, Visit, count};

/// The page: the newest runs and datasets, and how much there is of each thing.
pub fn page(visit: &Visit, trajectory_count: u64, newest: &RunPage, sets: &DatasetPage) -> String {
    let body = html! {
        h1.visually-hidden { "Runs of evaluations" }
        @if newest.items.is_empty() {
            (runs::none_yet())
        } @else {
            ul.totals {
                @for (path, number, one, many) in [
                    ("/runs", newest.total_count, "run", "runs"),
                    ("/trajectories", trajectory_count, "trajectory", "trajectories"),
                    ("/datasets", sets.total_count, "dataset", "datasets"),
                ] {
                    li { a href=(path) { b { (count(number)) } span { (if number == 1 { one } else { many }) } } }
                }
            }
            form.home-search method="get" action="/runs" role="search" data-filters {
                input type="search" name="name" placeholder="Search runs by name" aria-label="Search runs by name"
                    data-search autocomplete="off" spellcheck="false";
            }
            section.section {
                div.section-head { h2 { "Newest runs" } a.more href="/runs" { "All runs" } }
                div.table-box { div.table-scroll { (runs::table(visit, &Query::default(), &newest.items, false)) } }
            }
            @if !sets.items.is_empty() {
                section.section {
                    div.section-head { h2 { "Newest datasets" } a.more href="/datasets" { "All datasets" } }
                    div.table-box { div.table-scroll { (datasets::table(visit, &sets.items)) } }
                }
            }
        }
    };
    Frame { title: "Home", section: Section::Home, assets: &[Asset::TableJs] }.around(visit, &body)
}
