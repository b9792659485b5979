//! `ct dataset …`.

mod create;
mod diff;
mod download;
mod edit;
mod home;
mod items;
mod list;
mod lock;
mod reference;
mod show;
mod versions;

use clap::Subcommand;

use super::Context;
use crate::error::CliError;

pub(crate) use create::NewDataset;
pub(crate) use download::download_address;
pub(crate) use home::Datasets;
pub(crate) use reference::named;

pub(crate) const EXAMPLES: &str = "\
Examples:
  ct dataset create holdout 550e8400-e29b-41d4-a716-446655440000
                                                  Make a dataset of trajectories
  ct runs sample 3fa94c1b 20 _ --dataset split    Draw parts of a run into datasets
  ct dataset show split-1                         The newest version
  ct dataset show split-1@2                       Version 2
  ct dataset lock split-1 --reason published      No new version from now on
  ct dataset download split-1                     Get its trajectories as files";

/// Name lists of trajectories or runs, in versions that never change. The help of each is that of its arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum DatasetCommand {
    List(list::ListArgs),
    Versions(versions::VersionsArgs),
    Show(show::ShowArgs),
    Create(create::CreateArgs),
    Add(edit::AddArgs),
    Remove(edit::RemoveArgs),
    Lock(lock::LockArgs),
    Unlock(lock::UnlockArgs),
    Download(download::DownloadArgs),
    Diff(diff::DiffArgs),
}

/// Runs one of them.
pub(crate) fn run(command: DatasetCommand, context: &Context) -> Result<(), CliError> {
    match command {
        DatasetCommand::List(arguments) => list::list(&arguments, context),
        DatasetCommand::Versions(arguments) => versions::versions(&arguments, context),
        DatasetCommand::Show(arguments) => show::show(&arguments, context),
        DatasetCommand::Create(arguments) => create::create(arguments, context),
        DatasetCommand::Add(arguments) => edit::add(arguments, context),
        DatasetCommand::Remove(arguments) => edit::remove(arguments, context),
        DatasetCommand::Lock(arguments) => lock::lock(&arguments, context),
        DatasetCommand::Unlock(arguments) => lock::unlock(&arguments, context),
        DatasetCommand::Download(arguments) => download::download(&arguments, context),
        DatasetCommand::Diff(arguments) => diff::diff(&arguments, context),
    }
}
