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
            div.panel { (runs::empty(false)) }
        } @else {
            ul.totals {
                li { a href="/runs" { b { (count(newest.total_count)) } span { "runs" } } }
                li { a href="/trajectories" { b { (count(trajectory_count)) } span { "trajectories" } } }
                li { a href="/datasets" { b { (count(sets.total_count)) } span { "datasets" } } }
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
