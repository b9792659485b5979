//! `ct tokens …`: what clients sign in with, on the data folder itself.

mod create;
mod list;
mod revoke;

use clap::Subcommand;

use super::Context;
use crate::error::CliError;

pub(crate) const EXAMPLES: &str = "\
Examples:
  ct tokens list --user ana
  ct tokens create ana --label nightly --scope read --expires 90d
  ct tokens revoke 5f0c2a7719e3d6b8

They work on the data folder, also while a server runs.";

/// List, create and revoke the tokens of a server. The help of each is that of its arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum TokensCommand {
    List(list::ListArgs),
    Create(create::CreateArgs),
    Revoke(revoke::RevokeArgs),
}

/// Runs one of them.
pub(crate) fn run(command: TokensCommand, context: &Context) -> Result<(), CliError> {
    match command {
        TokensCommand::List(arguments) => list::list(&arguments, context),
        TokensCommand::Create(arguments) => create::create(&arguments, context),
        TokensCommand::Revoke(arguments) => revoke::revoke(&arguments, context),
    }
}
