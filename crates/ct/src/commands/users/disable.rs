//! `ct users disable` and `ct users enable`.

use clap::Args;
use ct_store::Actor;

use super::report;
use crate::commands::Context;
use crate::error::CliError;
use crate::output::Format;

const DISABLE_EXAMPLES: &str = "\
Examples:
  ct users disable ana
  ct users enable ana                             Undo it";

const ENABLE_EXAMPLES: &str = "\
Examples:
  ct users enable ana";

/// Stop a user from signing in, and all tokens of the user from working, at once.
#[derive(Debug, Args)]
#[command(after_help = DISABLE_EXAMPLES)]
pub(crate) struct DisableArgs {
    /// The user name
    #[arg(value_name = "NAME")]
    username: String,
    /// How to print what was done: table or json
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: Format,
}

/// Let a disabled user sign in again. Tokens that were not revoked work again, too.
#[derive(Debug, Args)]
#[command(after_help = ENABLE_EXAMPLES)]
pub(crate) struct EnableArgs {
    /// The user name
    #[arg(value_name = "NAME")]
    username: String,
    /// How to print what was done: table or json
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: Format,
}

/// Disables the user.
pub(super) fn disable(arguments: &DisableArgs, context: &Context) -> Result<(), CliError> {
    set(context, &arguments.username, true, arguments.format)
}

/// Enables the user.
pub(super) fn enable(arguments: &EnableArgs, context: &Context) -> Result<(), CliError> {
    set(context, &arguments.username, false, arguments.format)
}

fn set(context: &Context, username: &str, disabled: bool, format: Format) -> Result<(), CliError> {
    let changed = context.existing_store()?.set_user_disabled(username, disabled, &Actor::local())?;
    let verb = if disabled { "disabled" } else { "enabled" };
    let said = if changed {
        format!("{verb} user {username}")
    } else {
        format!("user {username} was {verb} already")
    };
    report(context, format, username, changed, &said)
}
