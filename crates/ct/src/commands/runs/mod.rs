//! `ct runs …`.

mod delete;
mod download_eval;
mod download_trajs;
mod edit;
pub(crate) mod filters;
mod info;
mod list;
mod make;
mod restore;
mod sample;
mod show;
mod sources;
mod transcript;

use clap::Subcommand;

use super::Context;
use crate::error::CliError;

/// Make, list, inspect, sample, download and edit runs.
#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// Make runs of eval logs, or write logs and trajectory files
    Make(make::MakeArgs),
    /// List runs
    List(list::ListArgs),
    /// Show everything about a run
    Info(info::InfoArgs),
    /// Draw trajectories of a run into parts that do not overlap
    Sample(sample::SampleArgs),
    /// Write the trajectories of runs to files
    DownloadTrajs(download_trajs::DownloadTrajsArgs),
    /// Write the eval log of a run to a file, byte for byte
    DownloadEval(download_eval::DownloadEvalArgs),
    /// Change the name, tags or description of a run
    Edit(edit::EditArgs),
    /// Delete runs; they can be restored
    Delete(delete::DeleteArgs),
    /// Bring deleted runs back
    Restore(restore::RestoreArgs),
    /// Read the transcript of a trajectory
    Show(show::ShowArgs),
}

/// Runs one of them.
pub(crate) fn run(command: RunsCommand, context: &Context) -> Result<(), CliError> {
    match command {
        RunsCommand::Make(arguments) => make::make(arguments, context),
        RunsCommand::List(arguments) => list::list(arguments, context),
        RunsCommand::Info(arguments) => info::info(&arguments, context),
        RunsCommand::Sample(arguments) => sample::sample(&arguments, context),
        RunsCommand::DownloadTrajs(arguments) => download_trajs::download_trajs(&arguments, context),
        RunsCommand::DownloadEval(arguments) => download_eval::download_eval(&arguments, context),
        RunsCommand::Edit(arguments) => edit::edit(arguments, context),
        RunsCommand::Delete(arguments) => delete::delete(&arguments, context),
        RunsCommand::Restore(arguments) => restore::restore(&arguments, context),
        RunsCommand::Show(arguments) => show::show(&arguments, context),
    }
}
