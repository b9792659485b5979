//! `ct runs push`.

use clap::Args;
use ct_client::BaseUrl;
use serde_json::{Value, json};

use crate::commands::{Context, target};
use crate::config::Place;
use crate::error::{CliError, Kind};
use crate::home::Home;
use crate::output::{self, Align, Format, Printer, Progress, Table};
use crate::pipeline::{MadeRun, MadeStatus, push as push_run};

const EXAMPLES: &str = "\
Examples:
  ct runs push 3fa94c1b                              From the data folder to the server that is home
  ct runs push 3fa94c1b 5d41402a --to https://viewer.example
  ct runs push https://one.example/runs/3fa94c1b0d2e --to https://two.example

A run that is there already is not sent again: names, tags and descriptions that differ are carried over.";

/// Send runs, with their logs and what was changed about them, to a server.
///
/// Without --to, runs of the data folder go to the server that is home. With it, runs of home go there; when it is home
/// itself, those of the data folder.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PushArgs {
    /// The runs: ids, beginnings of ids, or addresses
    #[arg(value_name = "RUN|URL", required = true)]
    runs: Vec<String>,
    /// The server to send them to [default: the server that is home]
    #[arg(long, value_name = "URL")]
    to: Option<String>,
    /// How to print what was done: table or json
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: Format,
}

/// Sends the runs.
pub(super) fn push(arguments: &PushArgs, context: &Context) -> Result<(), CliError> {
    let to = match (&arguments.to, &context.config.place) {
        (Some(url), _) => BaseUrl::parse(url)?,
        (None, Place::Server(base)) => base.clone(),
        (None, Place::Local) => {
            return Err(CliError::usage("no server to send to")
                .hint("name one: ct runs push RUN --to URL, or sign in to one: ct login --url URL"));
        }
    };
    let client = context.client(&to)?;
    // A token that is no good is told now, and not after hours.
    client.check_write_access()?;
    let own = matches!(&context.config.place, Place::Server(base) if base.origin() == to.origin());
    let source = |text: &str| -> Result<Home, CliError> {
        if own && !target::is_address(text) {
            return Ok(Home::Local(Box::new(context.existing_store()?)));
        }
        context.home_of(text)
    };
    each(&arguments.runs, arguments.format, context, |text, progress| {
        let from = source(text)?;
        let run = target::run(&from, text)?;
        push_run(&from, &run, &client, progress)
    })
}

/// Moves runs one after the other, and says what came of each; one that fails does not stop the others.
pub(super) fn each(
    runs: &[String],
    format: Format,
    context: &Context,
    work: impl Fn(&str, &Progress) -> Result<MadeRun, CliError>,
) -> Result<(), CliError> {
    let printer = &context.printer;
    let mut outcomes = Vec::with_capacity(runs.len());
    for (index, text) in runs.iter().enumerate() {
        let progress = printer.progress();
        if runs.len() > 1 {
            progress.prefix(format!("[{}/{}] ", index + 1, runs.len()));
        }
        let result = work(text, &progress);
        progress.clear();
        if let Err(error) = &result
            && runs.len() > 1
        {
            printer.warning(&format!("{text}: {}", error.reason()));
        }
        outcomes.push((text, result));
    }
    match format {
        Format::Table => print_table(printer, &outcomes)?,
        Format::Json => {
            let items: Vec<Value> = outcomes.iter().map(|(text, result)| item(text, result)).collect();
            printer.data(&output::pretty(&json!({"schema_version": 1, "items": items}))?)?;
        }
    }
    let total = outcomes.len();
    let mut errors: Vec<CliError> = outcomes.into_iter().filter_map(|(_, result)| result.err()).collect();
    match errors.len() {
        0 => Ok(()),
        1 if total == 1 => Err(errors.remove(0)),
        failed if failed == total => Err(CliError::new(errors[0].kind(), format!("all {total} runs failed"))),
        failed => Err(CliError::new(Kind::Partial, format!("{failed} of {total} runs failed"))),
    }
}

fn word(status: MadeStatus) -> &'static str {
    match status {
        MadeStatus::Created => "created",
        MadeStatus::Unchanged => "unchanged",
        MadeStatus::Edited => "edited",
        MadeStatus::Restored => "restored",
        MadeStatus::Replaced => "replaced",
    }
}

fn item(text: &str, result: &Result<MadeRun, CliError>) -> Value {
    let made = result.as_ref().ok();
    json!({
        "run": text,
        "status": made.map_or("failed", |made| word(made.status)),
        "run_id": made.map(|made| &made.run_id),
        "name": made.map(|made| &made.name),
        "trajectories": made.map(|made| made.trajectories),
        "reason": result.as_ref().err().map(CliError::reason),
    })
}

fn print_table(printer: &Printer, outcomes: &[(&String, Result<MadeRun, CliError>)]) -> Result<(), CliError> {
    let mut table = Table::new(
        printer,
        &[
            ("STATUS", Align::Whole),
            ("RUN", Align::Whole),
            ("TRAJECTORIES", Align::Right),
            ("NAME", Align::Name),
        ],
    );
    let mut rows = 0;
    for made in outcomes.iter().filter_map(|(_, result)| result.as_ref().ok()) {
        rows += 1;
        table.row([
            word(made.status).to_owned(),
            made.run_id.to_string(),
            output::count(made.trajectories),
            made.name.clone(),
        ]);
    }
    if rows == 0 { Ok(()) } else { printer.data(&table.finish()) }
}
