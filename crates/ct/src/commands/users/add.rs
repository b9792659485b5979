//! `ct users add`.

use clap::Args;
use ct_store::Actor;

use super::{PasswordArgs, ScopeArg, report};
use crate::commands::Context;
use crate::error::CliError;
use crate::output::Format;

const EXAMPLES: &str = "\
Examples:
  ct users add ana                                Asks for the password; ana may read and write
  ct users add root --scope admin
  ct users add ci --password-stdin < password.txt";

/// Add an account.
///
/// The password is asked for on a terminal, or read with --password-stdin. Upper and lower case of a name are the same.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AddArgs {
    /// The user name: letters, digits, and . _ - @ +
    #[arg(value_name = "NAME")]
    username: String,
    /// What the user may do: read; write, too; or admin, everything
    #[arg(long, value_enum, default_value = "write", hide_possible_values = true)]
    scope: ScopeArg,
    #[command(flatten)]
    password: PasswordArgs,
    /// How to print what was done: table or json
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: Format,
}

/// Adds the user.
pub(super) fn add(arguments: &AddArgs, context: &Context) -> Result<(), CliError> {
    let store = context.store()?;
    let scope = ct_model::Scope::from(arguments.scope);
    let username = &arguments.username;
    store.check_new_user(username)?;
    store.add_user(username, &arguments.password.read()?, scope, &Actor::local())?;
    report(context, arguments.format, username, true, &format!("added user {username} ({scope})"))
}
