//! `ct users scope`.

use clap::Args;
use ct_model::Scope;
use ct_store::Actor;

use super::{ScopeArg, report};
use crate::commands::Context;
use crate::error::CliError;
use crate::output::Format;

const EXAMPLES: &str = "\
Examples:
  ct users scope ana admin
  ct users scope ci read";

/// Change what a user may do.
///
/// It bites at once: no token does more than its user may. More for the user is not more for tokens that were to do less.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ScopeArgs {
    /// The user name
    #[arg(value_name = "NAME")]
    username: String,
    /// What the user may do: read; write, too; or admin, everything
    #[arg(value_enum, value_name = "SCOPE", hide_possible_values = true)]
    scope: ScopeArg,
    /// How to print what was done: table or json
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: Format,
}

/// Changes the scope.
pub(super) fn scope(arguments: &ScopeArgs, context: &Context) -> Result<(), CliError> {
    let (username, scope) = (&arguments.username, Scope::from(arguments.scope));
    let changed = context.existing_store()?.set_user_scope(username, scope, &Actor::local())?;
    let said = if changed {
        format!("user {username} may {scope} now")
    } else {
        format!("user {username} may {scope} already")
    };
    report(context, arguments.format, username, changed, &said)
}
