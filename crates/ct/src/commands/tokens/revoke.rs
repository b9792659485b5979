//! `ct tokens revoke`.

use clap::Args;
use ct_store::Actor;
use serde_json::json;

use crate::commands::Context;
use crate::error::CliError;
use crate::output::{self, Format};

const EXAMPLES: &str = "\
Examples:
  ct tokens list                                  Find its id
  ct tokens revoke 5f0c2a7719e3d6b8";

/// Make tokens worthless at once.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RevokeArgs {
    /// The tokens, by their ids (not the tokens themselves)
    #[arg(value_name = "TOKEN", required = true)]
    tokens: Vec<String>,
    /// How to print what was done: table or json
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: Format,
}

/// Revokes the tokens.
pub(super) fn revoke(arguments: &RevokeArgs, context: &Context) -> Result<(), CliError> {
    if arguments.tokens.iter().any(|token| token.starts_with("ct_")) {
        // It is not repeated here: errors end up in logs.
        return Err(CliError::usage("a token is revoked by its id, not by itself")
            .hint("find its id with: ct tokens list"));
    }
    let store = context.existing_store()?;
    let mut items = Vec::with_capacity(arguments.tokens.len());
    for token_id in &arguments.tokens {
        let changed = store.revoke_token(token_id, None, &Actor::local())?;
        if arguments.format == Format::Table {
            let said = if changed { "revoked token" } else { "already revoked: token" };
            context.printer.note(&format!("{said} {token_id}"));
        }
        items.push(json!({"token_id": token_id, "changed": changed}));
    }
    match arguments.format {
        Format::Table => Ok(()),
        Format::Json => context.printer.data(&output::pretty(&json!({"schema_version": 1, "items": items}))?),
    }
}
