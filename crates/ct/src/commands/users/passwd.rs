//! `ct users passwd`.

use clap::Args;
use ct_store::Actor;

use super::{PasswordArgs, report};
use crate::commands::Context;
use crate::error::CliError;
use crate::output::Format;

const EXAMPLES: &str = "\
Examples:
  ct users passwd ana                             Asks for the new password
  ct users passwd ana --revoke-tokens             Who has a token must sign in again
  ct users passwd ci --password-stdin < password.txt";

/// Give a user another password.
///
/// Tokens stay good, unless --revoke-tokens is given.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PasswdArgs {
    /// The user name
    #[arg(value_name = "NAME")]
    username: String,
    /// Revoke all tokens of the user
    #[arg(long)]
    revoke_tokens: bool,
    #[command(flatten)]
    password: PasswordArgs,
    /// How to print what was done: table or json
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: Format,
}

/// Changes the password.
pub(super) fn passwd(arguments: &PasswdArgs, context: &Context) -> Result<(), CliError> {
    let store = context.existing_store()?;
    let username = &arguments.username;
    store.check_user(username)?;
    store.set_password(username, &arguments.password.read()?, arguments.revoke_tokens, &Actor::local())?;
    let tokens = if arguments.revoke_tokens { "; all tokens are revoked" } else { "" };
    report(context, arguments.format, username, true, &format!("changed the password of {username}{tokens}"))
}
