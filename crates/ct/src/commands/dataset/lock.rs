//! `ct dataset lock` and `ct dataset unlock`.

use clap::Args;
use serde_json::json;

use super::Datasets;
use super::reference::Whole;
use crate::commands::Context;
use crate::error::CliError;
use crate::output::{self, Format};

const LOCK_EXAMPLES: &str = "\
Examples:
  ct dataset lock holdout --reason 'used in the paper'";

const UNLOCK_EXAMPLES: &str = "\
Examples:
  ct dataset unlock holdout";

/// Lock a dataset: it takes no new version until it is unlocked.
#[derive(Debug, Args)]
#[command(after_help = LOCK_EXAMPLES)]
pub(crate) struct LockArgs {
    /// The dataset
    #[arg(value_name = "NAME|URL")]
    dataset: Whole,
    /// Why; who meets the lock is told
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// How to print the lock: table or json
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: Format,
}

/// Unlock a dataset.
#[derive(Debug, Args)]
#[command(after_help = UNLOCK_EXAMPLES)]
pub(crate) struct UnlockArgs {
    /// The dataset
    #[arg(value_name = "NAME|URL")]
    dataset: Whole,
    /// How to print what was done: table or json
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: Format,
}

/// Locks.
pub(super) fn lock(arguments: &LockArgs, context: &Context) -> Result<(), CliError> {
    let Whole { name, base } = &arguments.dataset;
    let home = context.home_at(base.as_ref())?;
    let datasets = Datasets::new(&home);
    let lock = datasets.lock(name, arguments.reason.as_deref())?;
    match arguments.format {
        Format::Table => {
            context.printer.note(&format!("locked dataset {name}; undo it with: ct dataset unlock {name}"));
            Ok(())
        }
        Format::Json => context.printer.data(&output::pretty(&json!({
            "schema_version": 1,
            "name": name,
            "locked_by": lock.locked_by,
            "locked_at": lock.locked_at,
            "reason": lock.reason,
        }))?),
    }
}

/// Unlocks.
pub(super) fn unlock(arguments: &UnlockArgs, context: &Context) -> Result<(), CliError> {
    let Whole { name, base } = &arguments.dataset;
    let was_locked = Datasets::new(&context.home_at(base.as_ref())?).unlock(name)?;
    match arguments.format {
        Format::Table => {
            let was = if was_locked { "unlocked dataset" } else { "not locked: dataset" };
            context.printer.note(&format!("{was} {name}"));
            Ok(())
        }
        Format::Json => context.printer.data(&output::pretty(&json!({
            "schema_version": 1,
            "name": name,
            "was_locked": was_locked,
        }))?),
    }
}
