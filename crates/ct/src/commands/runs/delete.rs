//! `ct runs delete`.

use clap::Args;
use ct_model::RunId;
use serde_json::json;

use crate::commands::{Context, target};
use crate::error::CliError;
use crate::home::Home;
use crate::output::{self, Format};

const EXAMPLES: &str = "\
Examples:
  ct runs delete 3fa94c1b
  ct runs restore 3fa94c1b               Bring it back
  ct store gc --purge-deleted 30d        Remove what was deleted more than 30 days ago for good";

/// Delete runs. They are hidden, keep their logs, and can be restored.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DeleteArgs {
    /// The runs: ids, beginnings of ids, or addresses
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<String>,
    /// How to print what was done: table or json
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: Format,
}

/// Deletes the runs.
pub(super) fn delete(arguments: &DeleteArgs, context: &Context) -> Result<(), CliError> {
    each_run(&arguments.runs, arguments.format, context, |home, run| {
        let changed = home.delete_run(run)?;
        let said = if changed {
            format!("deleted run {run}; bring it back with: ct runs restore {run}")
        } else {
            format!("run {run} was deleted already")
        };
        Ok((changed, said))
    })
}

/// Does something to runs, deleted or not, and prints what changed; all names are looked up before the first is touched.
pub(super) fn each_run(
    names: &[String],
    format: Format,
    context: &Context,
    work: impl Fn(&Home, &RunId) -> Result<(bool, String), CliError>,
) -> Result<(), CliError> {
    let mut runs = Vec::with_capacity(names.len());
    for text in names {
        let home = context.home_of(text)?;
        let run = target::run_with_deleted(&home, text)?;
        runs.push((home, run));
    }
    let mut items = Vec::with_capacity(runs.len());
    for (home, run) in runs {
        let (changed, said) = work(&home, &run)?;
        if format == Format::Table {
            context.printer.note(&said);
        }
        items.push(json!({"run_id": run, "changed": changed}));
    }
    match format {
        Format::Table => Ok(()),
        Format::Json => context.printer.data(&output::pretty(&json!({"schema_version": 1, "items": items}))?),
    }
}
