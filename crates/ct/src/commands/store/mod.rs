//! `ct store …`.

mod check;
mod gc;

use clap::Subcommand;

use super::Context;
use crate::error::CliError;

/// Said when no data folder was named and the default one holds nothing.
const NO_STORE: &str = "there is no store yet; the first run makes it: ct runs make LOG";

pub(crate) const EXAMPLES: &str = "\
Examples:
  ct store check                                  Verify every log and reference
  ct store gc --dry-run                           What could go, in bytes";

/// Check and clean the store. The help of each is that of its arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    Check(check::CheckArgs),
    Gc(gc::GcArgs),
}

/// Runs one of them.
pub(crate) fn run(command: StoreCommand, context: &Context) -> Result<(), CliError> {
    match command {
        StoreCommand::Check(arguments) => check::check(&arguments, context),
        StoreCommand::Gc(arguments) => gc::gc(&arguments, context),
    }
}
