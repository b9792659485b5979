//! Plots as SVG. Sizes are in units of the drawing, which is scaled to its column; colours come from the style sheet.

use maud::{Markup, html};

use crate::format::{count, duration_ms, number, usd};
use crate::measure::{Distribution, Measure};

const WIDTH: f64 = 320.0;
const HEIGHT: f64 = 112.0;
const BASE: f64 = 92.0;
const TOP: f64 = 8.0;

/// A value with its unit.
pub(crate) fn value(measure: Measure, value: f64) -> String {
    match measure {
        Measure::Cost => usd(value),
        Measure::Time => duration_ms(value as u64),
        Measure::Suspicion | Measure::Length => number((value * 1e6).round() / 1e6),
    }
}

/// A histogram: trajectories without a side task below, those with one above them.
pub(crate) fn histogram(measure: Measure, distribution: &Distribution) -> Markup {
    let bins = &distribution.bins;
    let most = bins.iter().map(|[a, b]| a + b).max().unwrap_or(0).max(1) as f64;
    let step = WIDTH / bins.len() as f64;
    let height = |count: u64| (BASE - TOP) * count as f64 / most;
    let at = |position: usize| distribution.start + distribution.width * position as f64;
    let x_of = |value: f64| {
        ((value - distribution.start) / (at(bins.len()) - distribution.start) * WIDTH).clamp(0.0, WIDTH)
    };
    let label = |position: usize, [without, with]: [u64; 2]| {
        let range = format!("{} to {}", value(measure, at(position)), value(measure, at(position + 1)));
        match distribution.has_both() {
            true => format!("{range}: {} with a side task, {} without", count(with), count(without)),
            false => format!("{range}: {}", count(with + without)),
        }
    };
    let summary = format!(
        "{} known values; median {}, 90th percentile {}, maximum {}",
        count(distribution.known),
        value(measure, distribution.median),
        value(measure, distribution.p90),
        value(measure, distribution.max)
    );
    let middle = bins.len() / 2;
    html! {
        svg.plot viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(summary) {
            line.plot-axis x1="0" x2=(WIDTH) y1=(BASE + 0.5) y2=(BASE + 0.5) {}
            @for (position, bin) in bins.iter().enumerate() {
                @let x = step * position as f64;
                @let [without, with] = bin.map(height);
                g.plot-bin {
                    title { (label(position, *bin)) }
                    // The whole height answers the mouse.
                    rect.plot-hit x=(round(x)) y="0" width=(round(step)) height=(BASE) {}
                    @if bin[0] > 0 {
                        rect.plot-without x=(round(x + 0.75)) width=(round(step - 1.5))
                            y=(round(BASE - without.max(1.0))) height=(round(without.max(1.0))) {}
                    }
                    @if bin[1] > 0 {
                        rect.plot-with x=(round(x + 0.75)) width=(round(step - 1.5))
                            y=(round(BASE - without - with.max(1.0))) height=(round(with.max(1.0))) {}
                    }
                }
            }
            line.plot-median x1=(round(x_of(distribution.median))) x2=(round(x_of(distribution.median)))
                y1="2" y2=(BASE) {}
            text.plot-label x="0" y=(HEIGHT - 5.0) { (value(measure, at(0))) }
            text.plot-label.is-middle x=(round(step * middle as f64)) y=(HEIGHT - 5.0) { (value(measure, at(middle))) }
            text.plot-label.is-end x=(WIDTH) y=(HEIGHT - 5.0) { (value(measure, at(bins.len()))) }
        }
    }
}

fn round(value: f64) -> String {
    format!("{value:.2}")
}
