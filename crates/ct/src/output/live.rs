//! Several things at work at the same time: a line each, and one for all of them, redrawn in place on a terminal.

use std::collections::BTreeMap;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::neutral;

/// Lines of single things, at most.
const LINES_MAX: usize = 12;

/// The lines. Hidden, they cost nothing.
#[derive(Debug)]
pub(crate) struct Live {
    lines: MultiProgress,
    total: Option<ProgressBar>,
    bars: BTreeMap<String, ProgressBar>,
}

impl Live {
    pub(super) fn new(visible: bool) -> Self {
        let target =
            if visible { ProgressDrawTarget::stderr_with_hz(8) } else { ProgressDrawTarget::hidden() };
        let lines = MultiProgress::with_draw_target(target);
        let total = visible.then(|| lines.add(ProgressBar::new_spinner().with_style(style())));
        Self { lines, total, bars: BTreeMap::new() }
    }

    /// Whether somebody sees it.
    pub(crate) fn is_visible(&self) -> bool {
        self.total.is_some()
    }

    /// Says what is known of one thing.
    pub(crate) fn line(&mut self, key: &str, text: &str) {
        let Some(total) = &self.total else { return };
        if !self.bars.contains_key(key) {
            if self.bars.len() >= LINES_MAX {
                return;
            }
            let bar = self.lines.insert_before(total, ProgressBar::new_spinner().with_style(style()));
            self.bars.insert(key.to_owned(), bar);
        }
        if let Some(bar) = self.bars.get(key) {
            bar.set_message(neutral(text).into_owned());
        }
    }

    /// Takes a thing off.
    pub(crate) fn done(&mut self, key: &str) {
        if let Some(bar) = self.bars.remove(key) {
            bar.finish_and_clear();
            self.lines.remove(&bar);
        }
    }

    /// Says what is known of all of them.
    pub(crate) fn total(&self, text: &str) {
        if let Some(total) = &self.total {
            total.set_message(neutral(text).into_owned());
        }
    }

    /// Puts a line above them that stays.
    pub(crate) fn above(&self, text: &str) {
        if self.is_visible() {
            // Nothing can be done about a terminal that does not take text.
            let _ = self.lines.println(neutral(text));
        }
    }

    /// Takes everything off the screen.
    pub(crate) fn clear(&mut self) {
        self.bars.clear();
        if self.total.is_some() {
            let _ = self.lines.clear();
        }
    }
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template("{wide_msg}").unwrap_or_else(|_| ProgressStyle::default_spinner())
}
