//! The first page.

use maud::html;

use crate::{Frame, Section, Visit};

/// The first page.
pub fn page(visit: &Visit) -> String {
    let body = html! { h1 { "Runs of evaluations" } };
    Frame { title: "Home", section: Section::Home, assets: &[] }.around(visit, &body)
}
