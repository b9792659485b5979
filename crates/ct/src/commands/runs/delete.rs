//! `ct runs delete`.

use clap::Args;

use crate::commands::{Context, target};
use crate::error::CliError;

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
}

/// Deletes the runs; all names are looked up before the first is deleted.
pub(super) fn delete(arguments: &DeleteArgs, context: &Context) -> Result<(), CliError> {
    let store = context.store()?;
    let runs = arguments
        .runs
        .iter()
        .map(|text| target::run_with_deleted(&store, text))
        .collect::<Result<Vec<_>, _>>()?;
    for run in runs {
        if store.delete_run(&run)? {
            context.printer.note(&format!("deleted run {run}; bring it back with: ct runs restore {run}"));
        } else {
            context.printer.note(&format!("run {run} was deleted already"));
        }
    }
    Ok(())
}
