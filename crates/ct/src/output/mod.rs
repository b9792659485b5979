//! How results leave the program: data on standard output, everything else on standard error.
//!
//! One [`Printer`] decides quiet, verbose, colour, progress, and whether messages are text or JSON. Whatever comes from
//! a log or a file name goes through [`neutral`] before a person sees it.

mod human;
mod json;
mod live;
mod neutral;
mod printer;
mod progress;
mod table;

pub(crate) use ct_model::Csv;
pub(crate) use human::{age, bytes, count, duration, plural, rate, tokens, usd};
pub(crate) use json::{JsonTerminal, compact, pretty};
pub(crate) use live::Live;
pub(crate) use neutral::{neutral, neutral_block};
pub(crate) use printer::{ColorChoice, Level, Printer};
pub(crate) use progress::Progress;
pub(crate) use table::{Align, Table};

/// How one thing is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Table,
    /// One JSON document.
    Json,
}

/// How a list is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum ListFormat {
    /// For people.
    #[default]
    Table,
    /// One JSON document.
    Json,
    /// One JSON document a line, a line an item.
    Ndjson,
    /// A header line, then a line an item.
    Csv,
}
