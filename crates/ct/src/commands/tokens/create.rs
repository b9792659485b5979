//! `ct tokens create`.

use clap::Args;
use ct_model::Scope;
use ct_store::Actor;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::commands::Context;
use crate::commands::runs::filters;
use crate::commands::users::ScopeArg;
use crate::error::CliError;
use crate::output::{self, Format};

const EXAMPLES: &str = "\
Examples:
  ct tokens create ana --label laptop
  ct tokens create ci --label nightly --scope read --expires 90d
  ct tokens create ci --label nightly > token.txt";

/// Make a token of a user. It is printed once, and kept as a hash only.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CreateArgs {
    /// The user name
    #[arg(value_name = "USER")]
    username: String,
    /// What it is for
    #[arg(long, value_name = "TEXT", default_value = "created on the server")]
    label: String,
    /// What it may do: read, write or admin; at most, and by default, what the user may
    #[arg(long, value_enum, hide_possible_values = true)]
    scope: Option<ScopeArg>,
    /// How long it is good: 12h, 90d, 52w; by default until it is revoked
    #[arg(long, value_name = "AGE", value_parser = parse_age)]
    expires: Option<SignedDuration>,
    /// How to print it: table prints the token alone, json what is told of it, too
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: Format,
}

fn parse_age(text: &str) -> Result<SignedDuration, String> {
    let age = filters::age(text).filter(SignedDuration::is_positive);
    age.ok_or_else(|| "expected how long: 90m, 12h, 90d, 52w".to_owned())
}

/// Makes the token and prints it.
pub(super) fn create(arguments: &CreateArgs, context: &Context) -> Result<(), CliError> {
    let store = context.existing_store()?;
    let expires_at = arguments.expires.map(|age| Timestamp::now().checked_add(age)).transpose();
    let expires_at = expires_at.map_err(|_| CliError::usage("--expires goes beyond any calendar"))?;
    let scope = arguments.scope.map(Scope::from);
    let created =
        store.create_token(&arguments.username, &arguments.label, scope, expires_at, &Actor::local())?;
    match arguments.format {
        Format::Table => {
            let details = &created.details;
            let until =
                details.expires_at.map_or("until it is revoked".to_owned(), |at| format!("until {at}"));
            context.printer.note(&format!(
                "token {} of {} ({}), good {until}; it is not shown again",
                details.token_id, details.username, details.scope
            ));
            context.printer.data(&format!("{}\n", created.token))
        }
        Format::Json => {
            let document = json!({"schema_version": 1, "token": created.token, "details": created.details});
            context.printer.data(&output::pretty(&document)?)
        }
    }
}
