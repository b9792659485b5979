//! `ct runs …`.

mod ahead;
mod bucket;
mod delete;
mod download_eval;
pub(super) mod download_trajs;
mod edit;
pub(crate) mod filters;
mod info;
mod list;
mod make;
mod pull;
mod push;
pub(super) mod remote_eval;
mod restore;
mod sample;
mod show;
mod sources;
mod transcript;

use clap::Subcommand;

use super::Context;
use crate::error::CliError;

pub(crate) const EXAMPLES: &str = "\
Examples:
  ct runs make logs/my-eval.eval                  Make a run of a log
  ct runs list --tag baseline                     Find it again
  ct runs info 3fa94c1b                           Everything about it
  ct runs sample 3fa94c1b 10 10 _ --stratified    Draw trajectories
  ct runs download-trajs 3fa94c1b                 Get them as files";

/// Make, list, inspect, sample, download and edit runs. The help of each is that of its arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    Make(make::MakeArgs),
    List(list::ListArgs),
    Info(info::InfoArgs),
    Sample(sample::SampleArgs),
    DownloadTrajs(download_trajs::DownloadTrajsArgs),
    DownloadEval(download_eval::DownloadEvalArgs),
    Edit(edit::EditArgs),
    Delete(delete::DeleteArgs),
    Restore(restore::RestoreArgs),
    Show(show::ShowArgs),
    Push(push::PushArgs),
    Pull(pull::PullArgs),
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
        RunsCommand::Push(arguments) => push::push(&arguments, context),
        RunsCommand::Pull(arguments) => pull::pull(&arguments, context),
    }
}
