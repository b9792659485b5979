//! Suspicion along the actions, drawn: a bar for each, or for the highest of several where there are many.

use maud::{Markup, html};

use super::Place;
use crate::format::{count, number};

/// Bars, at most.
const BARS_MAX: usize = 240;
/// Places for bars, at least: a few would be as broad as walls.
const PLACES_MIN: usize = 40;
/// Height of the plot, in its own units.
const HEIGHT: f32 = 40.0;

/// Suspicion by action.
#[derive(Debug, Clone, Default)]
pub struct Strip {
    /// The highest suspicion of each run of actions: the number of its action, and the value.
    pub bars: Vec<Option<(u32, f32)>>,
    /// Actions in all.
    pub actions: usize,
    /// Where a side task landed.
    pub landed: Vec<i64>,
}

impl Strip {
    /// Of so many actions with their suspicion.
    pub fn new(actions: usize, suspicion: impl Fn(u32) -> Option<f32>, landed: Vec<i64>) -> Self {
        let bars = actions.min(BARS_MAX);
        let bars = (0..bars).map(|bar| {
            let (from, to) = (bar * actions / bars, (bar + 1) * actions / bars);
            (from..to)
                .filter_map(|action| {
                    let action = u32::try_from(action).ok()?;
                    Some((action, suspicion(action)?))
                })
                .reduce(|a, b| if b.1 > a.1 { b } else { a })
        });
        Self { bars: bars.collect(), actions, landed }
    }

    /// Whether any action was judged.
    pub fn has_verdicts(&self) -> bool {
        self.bars.iter().any(Option::is_some)
    }

    pub(super) fn draw(&self, place: &Place<'_>) -> Markup {
        if self.actions == 0 {
            return html! {};
        }
        let width = self.bars.len().max(PLACES_MIN) as f32;
        let all = self.bars.len() as f32;
        let first = |bar: usize| bar * self.actions / self.bars.len();
        html! {
            figure.strip.is-empty[!self.has_verdicts()] #strip aria-label="Suspicion by action" {
                svg viewBox=(format!("0 0 {width} {HEIGHT}")) preserveAspectRatio="none" role="img"
                    data-actions=(self.actions) data-bars=(self.bars.len()) {
                    title { "Suspicion along " (count(self.actions as u64)) " actions" }
                    line.strip-half x1="0" x2=(width) y1=(HEIGHT / 2.0) y2=(HEIGHT / 2.0) {}
                    @for (bar, found) in self.bars.iter().enumerate() {
                        @let action = found.map_or(first(bar), |(action, _)| action as usize);
                        a href=(place.action(action as u64)) data-go=(action) tabindex="-1" {
                            title {
                                "Action " (action)
                                @match found { Some((_, value)) => { ": " (number(f64::from(*value))) }, None => ": not judged" }
                            }
                            rect.hit x=(bar) y="0" width="1" height=(HEIGHT) {}
                            @match found {
                                Some((_, value)) => {
                                    @let height = (value / place.scale).clamp(0.04, 1.0) * HEIGHT;
                                    rect.bar-mark.{"level-" (level(*value, place.scale))} x=(format!("{:.2}", bar as f32 + 0.1))
                                        y=(format!("{:.1}", HEIGHT - height)) width="0.8" height=(format!("{height:.1}")) {}
                                }
                                None => rect.bar-mark.level-none x=(format!("{:.2}", bar as f32 + 0.1)) y=(HEIGHT - 1.5) width="0.8" height="1.5" {},
                            }
                        }
                    }
                    @for landed in &self.landed {
                        @let x = (*landed as f32 + 0.5) / self.actions as f32 * all;
                        line.strip-landed x1=(x) x2=(x) y1="0" y2=(HEIGHT) {}
                    }
                    rect.strip-here #here x="0" y="0" width="1" height=(HEIGHT) visibility="hidden" {}
                }
                figcaption {
                    @if all == width { span { "0" } }
                    span.faint {
                        @if self.has_verdicts() { "suspicion by action, 0 to " (place.scale) } @else { "no action was judged by a monitor" }
                        @for landed in &self.landed { " · side task landed at " a href=(place.action(landed.unsigned_abs())) data-go=(landed) { "action " (landed) } }
                    }
                    @if all == width { span { (count(self.actions.saturating_sub(1) as u64)) } }
                }
            }
        }
    }
}

/// A value's part of the scale, from 0 to 4.
pub(super) fn level(value: f32, scale: f32) -> u8 {
    match value / scale {
        share if share >= 0.8 => 4,
        share if share >= 0.5 => 3,
        share if share >= 0.3 => 2,
        share if share >= 0.1 => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_actions_share_bars_and_the_highest_is_kept() {
        let strip = Strip::new(20_000, |action| (action % 1000 == 7).then_some(action as f32), Vec::new());
        assert_eq!(strip.bars.len(), BARS_MAX);
        assert_eq!(strip.bars.iter().flatten().count(), 20);
        assert_eq!(strip.bars.iter().flatten().next_back(), Some(&(19_007, 19_007.0)));
        assert_eq!(Strip::new(3, |_| Some(1.0), Vec::new()).bars.len(), 3);
        assert!(!Strip::new(0, |_| Some(1.0), Vec::new()).has_verdicts());
    }

    #[test]
    fn levels_follow_the_scale() {
        assert_eq!(
            [0.0, 9.9, 10.0, 30.0, 50.0, 80.0, 100.0].map(|value| level(value, 100.0)),
            [0, 0, 1, 2, 3, 4, 4]
        );
        assert_eq!(level(0.5, 1.0), 3);
    }
}
