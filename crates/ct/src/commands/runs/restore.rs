//! `ct runs restore`.

use clap::Args;

use crate::commands::{Context, target};
use crate::error::CliError;

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
}

/// Restores the runs; all names are looked up before the first is restored.
pub(super) fn restore(arguments: &RestoreArgs, context: &Context) -> Result<(), CliError> {
    let store = context.store()?;
    let runs = arguments
        .runs
        .iter()
        .map(|text| target::run_with_deleted(&store, text))
        .collect::<Result<Vec<_>, _>>()?;
    for run in runs {
        if store.restore_run(&run)? {
            context.printer.note(&format!("restored run {run}"));
        } else {
            context.printer.note(&format!("run {run} is not deleted"));
        }
    }
    Ok(())
}
