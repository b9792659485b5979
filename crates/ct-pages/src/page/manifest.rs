//! How the trajectories of a dataset were drawn: the manifest of a draw, which is its description.

use ct_model::RunId;
use ct_model::sampling::{Manifest, ManifestPart, ManifestStratum};
use maud::{Markup, html};

use crate::part;
use crate::{count, text, text_in};

/// Strata in sight; the manifest as JSON has all of them.
const STRATA_MAX: usize = 200;

/// Runs in sight of those drawn from.
const RUNS_MAX: usize = 12;

/// What a description says: a draw where it is a manifest of one, else text.
pub(super) fn description(dataset: &str, description: &str) -> Markup {
    let parsed =
        description.trim_start().starts_with('{').then(|| serde_json::from_str::<Manifest>(description));
    match parsed {
        Some(Ok(manifest)) => shown(dataset, &manifest, description),
        _ => html! { div.prose dir="auto" { (text_in(description)) } },
    }
}

/// The same in one line, where it is a manifest.
pub(super) fn in_short(description: &str) -> Option<Markup> {
    let manifest: Manifest =
        description.trim_start().starts_with('{').then(|| serde_json::from_str(description).ok())??;
    let more = manifest.more_runs.len();
    Some(html! {
        "drawn from run " (run(&manifest.run_id))
        @if more > 0 { " and " (count(more as u64)) @if more == 1 { " other" } @else { " others" } }
        " with seed " (manifest.seed)
    })
}

fn run(id: &RunId) -> Markup {
    let id = id.as_str();
    html! { a.mono href=(part::run_path(id)) title=(id) { (id.get(..8).unwrap_or(id)) } }
}

fn shown(dataset: &str, manifest: &Manifest, json: &str) -> Markup {
    let more = &manifest.more_runs[..manifest.more_runs.len().min(RUNS_MAX)];
    let names = |names: Vec<String>| if names.is_empty() { part::dash() } else { text(&names.join(", ")) };
    html! {
        section.section {
            div.section-head { h2 { "How it was drawn" } }
            @for warning in &manifest.warnings { p.notice { (text(warning)) } }
            dl.facts {
                div { dt { @if more.is_empty() { "From run" } @else { "From runs" } } dd {
                    (run(&manifest.run_id))
                    @for from in more { ", " (run(&from.run_id)) }
                    @if more.len() < manifest.more_runs.len() { " and " (count((manifest.more_runs.len() - more.len()) as u64)) " more" }
                } }
                div { dt { "Of" } dd {
                    (count(manifest.population.trajectories as u64)) " trajectories"
                    @if manifest.population.errored > 0 {
                        span.is-bad { ", " (count(manifest.population.errored as u64)) " errored" }
                    }
                } }
                @if !manifest.filters.is_empty() { div { dt { "That pass" } dd.mono { (text(&manifest.filters.join("  "))) } } }
                div { dt { "In shares of" } dd { (names(manifest.stratify_by.iter().map(ToString::to_string).collect())) } }
                @if let Some(group) = &manifest.group_by { div { dt { "In groups of one" } dd { (text(&group.to_string())) } } }
                div { dt { "Seed" } dd { (manifest.seed) } }
                div { dt { "Algorithm" } dd { (text(&manifest.algorithm)) } }
            }
            (parts(dataset, manifest))
            (strata(manifest))
            details.json {
                summary { "Manifest as JSON" }
                pre dir="auto" { (text_in(json)) }
            }
        }
    }
}

fn parts(dataset: &str, manifest: &Manifest) -> Markup {
    html! {
        div.table-box {
            div.table-scroll {
                table {
                    thead { tr {
                        th scope="col" { "Part" }
                        th.number scope="col" { "Asked" }
                        th.number scope="col" { "Trajectories" }
                        th.number scope="col" { "Errored" }
                    } }
                    tbody {
                        @for part in &manifest.parts {
                            tr.is-current[is_of(dataset, part)] {
                                td { (text(&part.name)) @if is_of(dataset, part) { " " span.mark.is-good { "this dataset" } } }
                                td.number {
                                    @match &part.asked { Some(size) => (size), None => "the rest" }
                                }
                                td.number { (count(part.trajectories as u64)) }
                                td.number { (count(part.errored as u64)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Datasets of parts are called after them.
fn is_of(dataset: &str, part: &ManifestPart) -> bool {
    let end = part.name.strip_prefix("part-").unwrap_or(&part.name);
    dataset.strip_suffix(end).is_some_and(|begin| begin.ends_with('-'))
}

fn strata(manifest: &Manifest) -> Markup {
    let shown = &manifest.strata[..manifest.strata.len().min(STRATA_MAX)];
    html! {
        @if !manifest.stratify_by.is_empty() {
            details.json {
                summary { (count(manifest.strata.len() as u64)) " strata" }
                div.table-box {
                    div.table-scroll {
                        table.stacks {
                            thead { tr {
                                @for field in &manifest.stratify_by { th scope="col" { (text(&field.to_string())) } }
                                th.number scope="col" { "All" }
                                @for part in &manifest.parts { th.number scope="col" { (text(&part.name)) } }
                            } }
                            tbody { @for stratum in shown { (row(manifest, stratum)) } }
                        }
                    }
                    @if shown.len() < manifest.strata.len() {
                        div.table-foot { p { "The first " (count(shown.len() as u64)) "; the manifest as JSON has all of them." } }
                    }
                }
            }
        }
    }
}

fn row(manifest: &Manifest, stratum: &ManifestStratum) -> Markup {
    html! {
        tr {
            @for (field, value) in manifest.stratify_by.iter().zip(&stratum.key) {
                td data-label=(crate::plain(&field.to_string())) { @match value { Some(value) => (text(value)), None => (part::dash()) } }
            }
            td.number data-label="All" { (count(stratum.units as u64)) }
            @for (part, share) in manifest.parts.iter().zip(&stratum.shares) {
                td.number data-label=(crate::plain(&part.name)) title=(format!("exactly {}", share.exact)) { (count(share.got as u64)) }
            }
        }
    }
}
