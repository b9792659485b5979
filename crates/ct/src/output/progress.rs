//! Progress bars on standard error, with rate and time left. A hidden one costs nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use super::neutral;

/// Bytes, with a rate.
const BYTES: &str =
    "{prefix}{msg} {bar:24} {decimal_bytes}/{decimal_total_bytes}, {decimal_bytes_per_sec}, {eta} left";
/// Items, with a rate.
const ITEMS: &str = "{prefix}{msg} {bar:24} {human_pos}/{human_len}, {rate}, {eta} left";

/// A handle to a bar; clones share it, and threads may hold one each.
#[derive(Debug, Clone)]
pub(crate) struct Progress {
    bar: ProgressBar,
    visible: bool,
    /// Until there is something to count, nothing is drawn.
    started: Arc<AtomicBool>,
}

impl Progress {
    pub(super) fn new(visible: bool) -> Self {
        Self { bar: ProgressBar::hidden(), visible, started: Arc::default() }
    }

    /// Starts counting bytes from zero.
    pub(crate) fn bytes(&self, label: &str, total: u64) {
        self.start(BYTES, label, total);
    }

    /// Starts counting items from zero.
    pub(crate) fn items(&self, label: &str, total: u64) {
        self.start(ITEMS, label, total);
    }

    fn start(&self, template: &str, label: &str, total: u64) {
        if !self.visible {
            return;
        }
        let rate = |state: &ProgressState, out: &mut dyn std::fmt::Write| {
            // A rate that cannot be written is not worth an error.
            let _ = write!(out, "{:.0}/s", state.per_sec());
        };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        // Hidden meanwhile, or a mixture of the old bar and the new one would be drawn.
        self.bar.set_draw_target(ProgressDrawTarget::hidden());
        self.bar.reset();
        self.bar.set_length(total);
        self.bar.set_message(neutral(label).into_owned());
        self.bar.set_style(style.with_key("rate", rate).progress_chars("=> "));
        self.bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
        self.started.store(true, Ordering::Relaxed);
    }

    /// Says before every bar which of several things is at work, such as `[2/5] `.
    pub(crate) fn prefix(&self, prefix: String) {
        if self.visible {
            self.bar.set_prefix(prefix);
        }
    }

    /// That much more is done.
    pub(crate) fn advance(&self, amount: u64) {
        if self.visible {
            self.bar.inc(amount);
        }
    }

    /// So much is done in all.
    pub(crate) fn set(&self, position: u64) {
        if self.visible {
            self.bar.set_position(position);
        }
    }

    /// Takes the bar off the screen.
    pub(crate) fn clear(&self) {
        if self.started.swap(false, Ordering::Relaxed) {
            self.bar.finish_and_clear();
            self.bar.set_draw_target(ProgressDrawTarget::hidden());
        }
    }
}
