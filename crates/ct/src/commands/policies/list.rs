//! `ct policies list`.

use clap::Args;
use ct_eval::POLICIES;
use serde_json::{Value, json};

use crate::commands::Context;
use crate::error::CliError;
use crate::output::{self, Format};

const EXAMPLES: &str = "\
Examples:
  ct policies list                      The policies and their arguments
  ct policies list --format json        The same for programs";

/// List the policies of ct run eval and what may be given to each with -p.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ListArgs {
    /// How to print them: table or json
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: Format,
}

/// Prints them.
pub(super) fn list(arguments: &ListArgs, context: &Context) -> Result<(), CliError> {
    if arguments.format == Format::Json {
        let items: Vec<Value> = POLICIES
            .iter()
            .map(|policy| {
                let arguments = policy.arguments.iter();
                json!({
                    "name": policy.name, "about": policy.about, "needs_model": policy.needs_model,
                    "side_tasks": policy.attacks,
                    "arguments": arguments.map(|a| json!({"name": a.name, "about": a.about})).collect::<Vec<_>>(),
                })
            })
            .collect();
        return context.printer.data(&output::pretty(&json!({"schema_version": 1, "items": items}))?);
    }
    let mut text = String::new();
    for policy in POLICIES {
        text.push_str(&format!("{:<10}{}\n", policy.name, policy.about));
        for argument in policy.arguments {
            text.push_str(&format!("{:<12}-p {}=…: {}\n", "", argument.name, argument.about));
        }
    }
    context.printer.data(&text)
}
