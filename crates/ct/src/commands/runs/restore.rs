//! `ct runs restore`.

use clap::Args;

use super::delete::each_run;
use crate::commands::Context;
use crate::error::CliError;
use crate::output::Format;

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

/// Restores the runs.
pub(super) fn restore(arguments: &RestoreArgs, context: &Context) -> Result<(), CliError> {
    each_run(&arguments.runs, arguments.format, context, |home, run| {
        let changed = home.restore_run(run)?;
        let said = if changed { format!("restored run {run}") } else { format!("run {run} is not deleted") };
        Ok((changed, said))
    })
}
