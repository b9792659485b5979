//! `ct run …`.

mod eval;
mod finish;
mod live;
mod replays;
mod resume;
mod screen;
mod selection;
mod watch;

use clap::Subcommand;

use super::Context;
use crate::error::CliError;

pub(crate) const EXAMPLES: &str = "\
Examples:
  ct run eval --policy attack --env web_scraping --main-task crawl_depth --side-task visit_malicious_website
  ct run eval --policy scripted --env web_scraping --all";

/// Run agents.
#[derive(Debug, Subcommand)]
pub(crate) enum RunCommand {
    Eval(Box<eval::EvalArgs>),
}

/// Runs one of them.
pub(crate) fn run(command: RunCommand, context: &Context) -> Result<(), CliError> {
    match command {
        RunCommand::Eval(arguments) => eval::eval(*arguments, context),
    }
}
