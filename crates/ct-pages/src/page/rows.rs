//! What the tables of runs and of trajectories have in common: boxes to choose rows by, values to fill filters with, what
//! is around a table, and what is there without one.

use maud::{Markup, html};

use crate::part::{self, Span};
use crate::{Query, plain};

/// Values that a filter can be filled with: those in sight.
pub(super) fn values<T>(rows: &[T], of: impl Fn(&T) -> Vec<String>) -> Vec<String> {
    const VALUES_MAX: usize = 100;
    let mut values: Vec<String> = rows.iter().flat_map(of).collect();
    values.sort();
    values.dedup();
    values.truncate(VALUES_MAX);
    values
}

/// The head of the column of boxes. Script shows what chooses all.
pub(super) fn choose_all() -> Markup {
    html! {
        th.check scope="col" {
            input type="checkbox" data-choose-all hidden aria-label="Choose all on this page";
        }
    }
}

/// The box of one row: `id` under `name`, for what people call `title`.
pub(super) fn choose(name: &str, id: &str, title: &str) -> Markup {
    html! {
        td.check {
            input type="checkbox" name=(name) value=(id) form="actions" data-choose
                aria-label=(format!("Choose {}", plain(title)));
        }
    }
}

/// A list on a page.
pub(super) struct List<'a> {
    /// The page, with the filters of the list in `query`.
    pub(super) path: &'a str,
    pub(super) query: &'a Query,
    pub(super) span: Span,
    /// That of the next page.
    pub(super) cursor: Option<&'a str>,
    /// What one and several of the items are called.
    pub(super) what: (&'static str, &'static str),
}

impl List<'_> {
    /// A table in its box, with what can be done with chosen rows, and the way to the next page.
    pub(super) fn around(&self, table: &Markup, actions: Option<&Markup>) -> Markup {
        html! {
            div.table-box {
                div.table-scroll { (table) }
                @if let Some(actions) = actions { (actions) }
                div.table-foot { (part::pager(self.path, self.query, self.span, self.cursor, self.what)) }
            }
        }
    }
}

/// Instead of a table, where filters let nothing through.
pub(super) fn nothing_matches(path: &str, (one, many): (&str, &str)) -> Markup {
    html! {
        div.panel {
            div.empty {
                h2 { "No " (one) " matches" }
                p { "Take off a filter, or look at all of them." }
                p { a.button href=(path) { "All " (many) } }
            }
        }
    }
}

/// Instead of a table, where there is nothing yet: what to do about it.
pub(super) fn nothing_yet(what: &str, how: &str, command: &str) -> Markup {
    html! {
        div.panel {
            div.empty {
                h2 { "No " (what) " yet" }
                p { (how) }
                pre { (command) }
            }
        }
    }
}
