//! `ct tokens list`.

use clap::Args;
use ct_model::TokenRow;
use jiff::Timestamp;
use serde_json::json;

use crate::commands::Context;
use crate::error::CliError;
use crate::output::{self, Align, Format, Table};

const EXAMPLES: &str = "\
Examples:
  ct tokens list
  ct tokens list --user ana --all
  ct tokens list --format json";

/// List the tokens that are good; with --all also those that expired or were revoked.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ListArgs {
    /// The tokens of this user alone
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Also those that expired or were revoked
    #[arg(long)]
    all: bool,
    /// How to print them: table or json
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: Format,
}

/// Prints the tokens.
pub(super) fn list(arguments: &ListArgs, context: &Context) -> Result<(), CliError> {
    let mut tokens = context.existing_store()?.tokens(arguments.user.as_deref())?;
    let now = Timestamp::now();
    tokens.retain(|token| arguments.all || state(token, now) == "good");
    let printer = &context.printer;
    if arguments.format == Format::Json {
        return printer.data(&output::pretty(&json!({"schema_version": 1, "items": tokens}))?);
    }
    if tokens.is_empty() {
        printer.note("there are no tokens");
        return Ok(());
    }
    let ago = |time: Option<Timestamp>| time.map_or("-".to_owned(), |at| output::age(&at.to_string(), now));
    let columns = [
        ("TOKEN", Align::Whole),
        ("USER", Align::Left),
        ("LABEL", Align::Left),
        ("SCOPE", Align::Whole),
        ("STATE", Align::Whole),
        ("EXPIRES", Align::Whole),
        ("USED", Align::Right),
        ("AGE", Align::Right),
    ];
    let mut table = Table::new(printer, &columns);
    for token in &tokens {
        table.row([
            token.token_id.as_str(),
            &token.username,
            &token.label,
            token.scope.as_str(),
            state(token, now),
            &token.expires_at.map_or("-".to_owned(), |at| at.strftime("%Y-%m-%d").to_string()),
            &ago(token.last_used_at),
            &ago(Some(token.created_at)),
        ]);
    }
    printer.data(&table.finish())
}

fn state(token: &TokenRow, now: Timestamp) -> &'static str {
    if token.revoked_at.is_some() {
        "revoked"
    } else if token.expires_at.is_some_and(|at| at <= now) {
        "expired"
    } else {
        "good"
    }
}
