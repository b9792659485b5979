//! `ct store …`.

mod check;
mod copy;
mod gc;

use clap::Subcommand;

use super::Context;
use crate::error::CliError;

/// Said when no data folder was named and the default one holds nothing.
const NO_STORE: &str = "there is no store yet; the first run makes it: ct runs make LOG";

pub(crate) const EXAMPLES: &str = "\
Examples:
  ct store check                                  Verify every log and reference
  ct store gc --dry-run                           What could go, in bytes
  ct store backup /backup/ct.zip                  Everything, while it is in use";

/// Check, clean, copy and back up the store. The help of each is that of its arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    Check(check::CheckArgs),
    Gc(gc::GcArgs),
    Copy(copy::CopyArgs),
    Backup(copy::BackupArgs),
    Restore(copy::RestoreArgs),
}

/// Runs one of them.
pub(crate) fn run(command: StoreCommand, context: &Context) -> Result<(), CliError> {
    match command {
        StoreCommand::Check(arguments) => check::check(&arguments, context),
        StoreCommand::Gc(arguments) => gc::gc(&arguments, context),
        StoreCommand::Copy(arguments) => copy::copy(&arguments, context),
        StoreCommand::Backup(arguments) => copy::backup(&arguments, context),
        StoreCommand::Restore(arguments) => copy::restore(&arguments, context),
    }
}
