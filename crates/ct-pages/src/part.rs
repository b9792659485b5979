//! Parts that several pages are made of.

use ct_model::{RunStatus, TaskCounts, Values, list_item};
use maud::{Markup, html};

use crate::address::{Query, escape};
use crate::format::{count, percent, usd};
use crate::text::{plain, text};

/// Where a run is shown.
pub(crate) fn run_path(id: &str) -> String {
    format!("/runs/{}", escape(id))
}

/// Where a trajectory is shown.
pub(crate) fn trajectory_path(id: &str) -> String {
    format!("/trajectories/{}", escape(id))
}

/// Where a dataset is shown.
pub(crate) fn dataset_path(name: &str) -> String {
    format!("/datasets/{}", escape(name))
}

/// The last segment of a path such as `linuxarena/web_scraping`, with all of it on hover.
pub(crate) fn short(path: &str) -> Markup {
    let last = path.rsplit('/').next().filter(|last| !last.is_empty()).unwrap_or(path);
    html! { span.short title=(plain(path)) { (text(last)) } }
}

/// Where nothing is known.
pub(crate) fn dash() -> Markup {
    html! { span.faint { "–" } }
}

/// The same, or a dash.
pub(crate) fn short_or_none(path: Option<&str>) -> Markup {
    match path {
        Some(path) => short(path),
        None => dash(),
    }
}

/// The first of several values, and how many more there are.
pub(crate) fn values(values: &Values) -> Markup {
    let Some(first) = values.listed.first() else { return html! { span.faint { "–" } } };
    let all: Vec<&str> = values.listed.iter().map(String::as_str).collect();
    let more = values.total.saturating_sub(1);
    html! {
        (short(first))
        @if more > 0 {
            " " span.faint title=(plain(&all.join("\n"))) { "+" (more) }
        }
    }
}

/// What a rate is of. Passing a side task is what an attacker is after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    Main,
    Side,
}

/// A rate with what it is of, and a bar.
pub(crate) fn rate(counts: &TaskCounts, of: Of) -> Markup {
    let Some(rate) = counts.rate() else {
        let title = if counts.unscored > 0 {
            format!("{} unscored", counts.unscored)
        } else {
            "no such task".to_owned()
        };
        return html! { span.faint title=(title) { @if counts.unscored > 0 { "unscored" } @else { "–" } } };
    };
    let scored = counts.scored();
    let class = if of == Of::Main { "bar is-main" } else { "bar is-side" };
    html! {
        span.rate title=(format!(
            "{} passed, {} failed, {} unscored", count(counts.pass), count(counts.fail), count(counts.unscored)
        )) {
            span.rate-share { (percent(rate)) } " "
            span.rate-of { (count(counts.pass)) "/" (count(scored)) }
            svg class=(class) viewBox="0 0 100 3" preserveAspectRatio="none" aria-hidden="true" {
                rect.bar-all width="100" height="3" {}
                rect.bar-part width=(format!("{:.1}", rate * 100.0)) height="3" {}
            }
        }
    }
}

/// A known cost; a lower bound where something could not be priced.
pub(crate) fn cost(amount: Option<f64>, is_incomplete: bool) -> Markup {
    match (amount, is_incomplete) {
        (Some(amount), false) => html! { span title=(format!("${amount}")) { (usd(amount)) } },
        (Some(amount), true) => {
            html! { span title=(format!("at least ${amount}: something could not be priced")) { "≥ " (usd(amount)) } }
        }
        (None, _) => html! { span.faint title="not known" { "–" } },
    }
}

/// How the log of a run ended, unless it ended well.
pub(crate) fn status(status: RunStatus) -> Markup {
    let (class, title) = match status {
        RunStatus::Success => return html! {},
        RunStatus::Error => ("mark is-bad", "the run ended by an error"),
        RunStatus::Cancelled => ("mark is-warn", "the run was cancelled"),
        RunStatus::Started => ("mark is-warn", "the run was not finished when its log was read"),
        RunStatus::Unknown => ("mark", "the log does not say how the run ended"),
    };
    html! { span class=(class) title=(title) { (status.as_str()) } }
}

/// How one task ended.
pub(crate) fn outcome(success: Option<bool>, of: Of) -> Markup {
    let (class, word) = match (success, of) {
        (Some(true), Of::Main) => ("dot is-good", "pass"),
        (Some(true), Of::Side) => ("dot is-bad", "pass"),
        (Some(false), _) => ("dot", "fail"),
        (None, _) => ("dot is-empty", "unscored"),
    };
    html! { span.outcome { span class=(class) {} (word) } }
}

/// Tags, each leading to what else carries it.
pub(crate) fn tags(tags: &[String], path: &str, name: &str) -> Markup {
    html! {
        @if !tags.is_empty() {
            span.tags {
                @for tag in tags {
                    a.tag href=(Query::new([(name.to_owned(), list_item(tag))]).on(path)) { (text(tag)) }
                }
            }
        }
    }
}

/// Which part of a list is on a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The number of the first item, from 1.
    pub first: u64,
    /// How many are here.
    pub here: u64,
    /// How many there are.
    pub total: u64,
}

/// Says where in a list one is, and leads on. `cursor` is that of the next page.
pub(crate) fn pager(
    path: &str,
    query: &Query,
    span: Span,
    cursor: Option<&str>,
    what: (&str, &str),
) -> Markup {
    let query = query.without(&["cursor", "from"]);
    let last = span.first + span.here.saturating_sub(1);
    html! {
        p {
            @if span.here == 0 {
                "None of " (count(span.total)) " " (what.1)
            } @else if span.here == span.total {
                (count(span.total)) " " (if span.total == 1 { what.0 } else { what.1 })
            } @else {
                (count(span.first)) "–" (count(last)) " of " (count(span.total.max(last))) " " (what.1)
            }
        }
        nav.pager aria-label="Pages" {
            @if span.first > 1 { a.button href=(query.on(path)) data-first { "First" } }
            @if let Some(cursor) = cursor {
                a.button rel="next" href=(query.with("from", (last + 1).to_string()).with("cursor", cursor).on(path))
                    { "Next " span aria-hidden="true" { "→" } }
            }
        }
    }
}

/// Something of rows that they can be sorted by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sort {
    /// Its name in the address.
    pub(crate) word: &'static str,
    pub(crate) title: &'static str,
    /// Rows are sorted by it when the address names nothing.
    pub(crate) by_default: bool,
}

impl Sort {
    pub(crate) const fn by(word: &'static str, title: &'static str) -> Self {
        Self { word, title, by_default: false }
    }

    fn is_on(self, query: &Query) -> bool {
        query.get("sort").map_or(self.by_default, |sort| sort == self.word)
    }

    /// The link that sorts by it, or the other way round.
    fn link(self, path: &str, query: &Query, text_first: bool) -> Markup {
        let (is_on, descending) = (self.is_on(query), is_descending(query));
        let query = query.without(&["cursor", "from", "sort", "descending"]).with("sort", self.word);
        // A text is first wanted from A on, a number from the largest.
        let ascending_next = if is_on { descending } else { text_first };
        let query = if ascending_next { query.with("descending", "false") } else { query };
        let arrow = if !is_on {
            ""
        } else if descending {
            " ↓"
        } else {
            " ↑"
        };
        html! { a.is-on[is_on] href=(query.on(path)) { (self.title) span aria-hidden="true" { (arrow) } } }
    }
}

fn is_descending(query: &Query) -> bool {
    query.get("descending") != Some("false")
}

/// The head of a column of numbers that can be sorted by.
pub(crate) fn sortable(path: &str, query: &Query, class: &str, sort: Sort) -> Markup {
    head(path, query, class, &[sort], false)
}

/// The head of a column of texts that can be sorted by.
pub(crate) fn sortable_texts(path: &str, query: &Query, sorts: &[Sort]) -> Markup {
    head(path, query, "", sorts, true)
}

fn head(path: &str, query: &Query, class: &str, sorts: &[Sort], are_texts: bool) -> Markup {
    let is_on = sorts.iter().any(|sort| sort.is_on(query));
    let aria = is_on.then(|| if is_descending(query) { "descending" } else { "ascending" });
    html! {
        th class=(class) scope="col" aria-sort=[aria] {
            @for (number, sort) in sorts.iter().enumerate() {
                @if number > 0 { span aria-hidden="true" { " · " } }
                (sort.link(path, query, are_texts))
            }
        }
    }
}
