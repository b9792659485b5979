//! `ct policies …`.

mod list;

use clap::Subcommand;

use super::Context;
use crate::error::CliError;

pub(crate) const EXAMPLES: &str = "\
Examples:
  ct policies list                      The policies and their arguments
  ct policies list --format json        The same for programs";

/// What decides what an agent does.
#[derive(Debug, Subcommand)]
pub(crate) enum PoliciesCommand {
    List(list::ListArgs),
}

/// Runs one of them.
pub(crate) fn run(command: PoliciesCommand, context: &Context) -> Result<(), CliError> {
    match command {
        PoliciesCommand::List(arguments) => list::list(&arguments, context),
    }
}
