//! `ct runs restore`.

use clap::Args;
use serde_json::json;

use crate::commands::{Context, target};
use crate::error::CliError;
use crate::output::{self, Format};

const EXAMPLES: &str = "\
Examples:
  ct runs list --deleted                 See which runs are deleted
  ct runs restore 3fa94c1b";

/// Bring deleted runs back, as they were.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RestoreArgs {
    /// The runs: ids, beginnings of ids, or addresses
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<String>,
    /// How to print what was done: table or json
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: Format,
}

/// Restores the runs; all names are looked up before the first is restored.
pub(super) fn restore(arguments: &RestoreArgs, context: &Context) -> Result<(), CliError> {
    let store = context.store()?;
    let runs = arguments
        .runs
        .iter()
        .map(|text| target::run_with_deleted(&store, text))
        .collect::<Result<Vec<_>, _>>()?;
    let mut items = Vec::with_capacity(runs.len());
    for run in runs {
        let changed = store.restore_run(&run)?;
        if arguments.format == Format::Table {
            context.printer.note(&if changed {
                format!("restored run {run}")
            } else {
                format!("run {run} is not deleted")
            });
        }
        items.push(json!({"run_id": run, "changed": changed}));
    }
    match arguments.format {
        Format::Table => Ok(()),
        Format::Json => context.printer.data(&output::pretty(&json!({"schema_version": 1, "items": items}))?),
    }
}
