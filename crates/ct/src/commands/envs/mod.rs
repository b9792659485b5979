//! `ct envs …`: the environments that agents run in.

mod list;
mod show;
mod validate;

use clap::Subcommand;

use super::Context;
use crate::error::CliError;

pub(crate) const EXAMPLES: &str = "\
Examples:
  ct envs list
  ct envs show web_scraping
  ct envs validate ./environments/my_world --run";

/// List, show and check environments. The help of each is that of its arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum EnvsCommand {
    List(list::ListArgs),
    Show(show::ShowArgs),
    Validate(validate::ValidateArgs),
}

/// Runs one of them.
pub(crate) fn run(command: EnvsCommand, context: &Context) -> Result<(), CliError> {
    match command {
        EnvsCommand::List(arguments) => list::list(&arguments, context),
        EnvsCommand::Show(arguments) => show::show(&arguments, context),
        EnvsCommand::Validate(arguments) => validate::validate(&arguments, context),
    }
}
