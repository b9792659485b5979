//! `ct runs pull`.

use clap::Args;

use super::push::each;
use crate::commands::{Context, target};
use crate::config::Place;
use crate::error::CliError;
use crate::home::Home;
use crate::output::Format;
use crate::pipeline::pull as pull_run;

const EXAMPLES: &str = "\
Examples:
  ct runs pull 3fa94c1b                              From the server that is home into the data folder
  ct runs pull https://viewer.example/runs/3fa94c1b0d2e4f60817263544a5b6c7d
  ct --local runs info 3fa94c1b                      Then it is here, without any server

A run that is here already is not fetched again: names, tags and descriptions that differ are carried over.";

/// Fetch runs of a server, with their logs and what was changed about them, into the data folder.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PullArgs {
    /// The runs: ids of the server that is home, beginnings of ids, or addresses of any server
    #[arg(value_name = "RUN|URL", required = true)]
    runs: Vec<String>,
    /// How to print what was done: table or json
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: Format,
}

/// Fetches the runs.
pub(super) fn pull(arguments: &PullArgs, context: &Context) -> Result<(), CliError> {
    let plain = arguments.runs.iter().find(|text| !target::is_address(text));
    if let (Some(text), Place::Local) = (plain, &context.config.place) {
        return Err(CliError::usage(format!("no server to fetch run {text} from")).hint(
            "give the run's address, name a server with --server URL, or sign in: ct login --url URL",
        ));
    }
    let store = context.store()?;
    each(&arguments.runs, arguments.format, context, |text, progress| {
        let base = target::Target::parse(text)?.base().cloned();
        let client = match (base, &context.config.place) {
            (Some(base), _) => context.client(&base)?,
            (None, Place::Server(base)) => context.client(base)?,
            (None, Place::Local) => return Err(CliError::usage("no server to fetch from")),
        };
        let home = Home::Server(client.clone());
        let run = target::run(&home, text)?;
        pull_run(&client, &run, &store, progress)
    })
}
