//! `ct users list`.

use clap::Args;
use jiff::Timestamp;
use serde_json::json;

use crate::commands::Context;
use crate::error::CliError;
use crate::output::{self, Align, Format, Table};

const EXAMPLES: &str = "\
Examples:
  ct users list
  ct users list --format json";

/// List the accounts.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ListArgs {
    /// How to print them: table or json
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: Format,
}

/// Prints the users.
pub(super) fn list(arguments: &ListArgs, context: &Context) -> Result<(), CliError> {
    let users = context.store_if_any()?.map_or(Ok(Vec::new()), |store| store.users())?;
    let printer = &context.printer;
    match arguments.format {
        Format::Json => printer.data(&output::pretty(&json!({"schema_version": 1, "items": users}))?),
        Format::Table if users.is_empty() => {
            printer.note("there is no account yet: add one with: ct users add NAME --scope admin");
            Ok(())
        }
        Format::Table => {
            let now = Timestamp::now();
            let mut table = Table::new(
                printer,
                &[
                    ("USER", Align::Whole),
                    ("SCOPE", Align::Whole),
                    ("STATE", Align::Whole),
                    ("TOKENS", Align::Right),
                    ("AGE", Align::Right),
                ],
            );
            for user in &users {
                table.row([
                    user.username.as_str(),
                    user.scope.as_str(),
                    if user.disabled_at.is_some() { "disabled" } else { "enabled" },
                    &output::count(user.token_count),
                    &output::age(&user.created_at.to_string(), now),
                ]);
            }
            printer.data(&table.finish())
        }
    }
}
