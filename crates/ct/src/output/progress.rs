//! Progress bars on standard error, with rate and time left. A hidden one costs nothing.

use std::borrow::Cow;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::neutral;

/// Bytes, with a rate.
const BYTES: &str =
    "{prefix}{msg} {bar:24} {decimal_bytes}/{decimal_total_bytes}, {decimal_bytes_per_sec}, {eta} left";
/// Items, with a rate.
const ITEMS: &str = "{prefix}{msg} {bar:24} {human_pos}/{human_len}, {per_sec}, {eta} left";

/// A handle to a bar; clones share it, and threads may hold one each.
#[derive(Debug, Clone)]
pub(crate) struct Progress {
    bar: ProgressBar,
    visible: bool,
}

impl Progress {
    pub(super) fn new(visible: bool) -> Self {
        let bar = if visible {
            ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr_with_hz(10))
        } else {
            ProgressBar::hidden()
        };
        Self { bar, visible }
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
        if self.visible {
            let style =
                ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
            self.bar.reset();
            self.bar.set_style(style.progress_chars("=> "));
            self.bar.set_length(total);
            let label: Cow<'_, str> = neutral(label);
            self.bar.set_message(label.into_owned());
        }
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

    /// Takes the bar off the screen.
    pub(crate) fn clear(&self) {
        if self.visible {
            self.bar.finish_and_clear();
        }
    }
}
