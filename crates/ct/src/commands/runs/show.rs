//! `ct runs show`.

use std::io::{Read, Write};

use clap::Args;
use ct_model::{Outcome, TrajectoryDocument, TrajectoryId};

use super::transcript::{self, Style};
use crate::commands::{Context, target};
use crate::error::CliError;
use crate::output::{self, Format, JsonTerminal, Printer};
use crate::pipeline;

const EXAMPLES: &str = "\
Examples:
  ct runs show 5d41402a | less
  ct runs show 5d41402a --markdown > transcript.md
  ct runs show 5d41402a --format json | jq .messages     The sample as it lies in the log";

/// Read the transcript of a trajectory.
///
/// Prints the messages with their tool calls, then the scores. With --format json the sample's own JSON comes out,
/// byte for byte (on a terminal with control characters escaped).
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ShowArgs {
    /// The trajectory: an id, the beginning of one, or its address
    #[arg(value_name = "TRAJECTORY")]
    trajectory: String,
    /// Print Markdown; whatever comes from the log stands in code blocks
    #[arg(long, conflicts_with = "format")]
    markdown: bool,
    /// How to print it: table, for reading, or json, the sample's own
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: Format,
}

/// Prints the transcript.
pub(super) fn show(arguments: &ShowArgs, context: &Context) -> Result<(), CliError> {
    let home = context.home_of(&arguments.trajectory)?;
    let printer = &context.printer;
    let id = target::trajectory(&home, &arguments.trajectory)?;
    let document = home.document(&id)?;
    let log = pipeline::log_of(&home, &document)?;
    if arguments.format == Format::Json {
        return raw(printer, log.read(&document)?, &id);
    }
    let style = if arguments.markdown { Style::Markdown } else { Style::Plain { color: printer.color() } };
    let facts = facts(&document, &id);
    // Two passes: scores and attachments come behind the messages that they belong before.
    let outline = transcript::Outline::read(log.read(&document)?).map_err(|error| unreadable(&id, &error))?;
    let mut stdout = printer.stdout();
    let written =
        transcript::write(log.read(&document)?, &outline, &document.name, &facts, style, &mut stdout);
    match written {
        Ok(()) => {}
        Err(transcript::Trouble::Output(error)) => return Err(CliError::stdout(&error)),
        Err(transcript::Trouble::Log(error)) => {
            // What was readable stands on the screen already; say why it ends there.
            stdout.flush().map_err(|error| CliError::stdout(&error))?;
            return Err(unreadable(&id, &error));
        }
    }
    stdout.flush().map_err(|error| CliError::stdout(&error))
}

fn unreadable(id: &TrajectoryId, error: &dyn std::error::Error) -> CliError {
    CliError::data(format!("the sample of trajectory {id} could not be read from its log"))
        .because(error)
        .hint("see what is damaged with: ct store check")
}

/// The sample's bytes.
fn raw(printer: &Printer, mut sample: impl Read, id: &TrajectoryId) -> Result<(), CliError> {
    let mut stdout = printer.stdout();
    let mut terminal;
    let out: &mut dyn Write = if printer.to_terminal() {
        terminal = JsonTerminal::new(&mut stdout);
        &mut terminal
    } else {
        &mut stdout
    };
    let mut buffer = vec![0; 256 << 10];
    loop {
        let length = match sample.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) => return Err(unreadable(id, &error)),
        };
        out.write_all(&buffer[..length]).map_err(|error| CliError::stdout(&error))?;
    }
    out.write_all(b"\n").and_then(|()| out.flush()).map_err(|error| CliError::stdout(&error))
}

/// What stands above the transcript.
fn facts(document: &TrajectoryDocument, id: &TrajectoryId) -> Vec<(&'static str, String)> {
    let mut facts = vec![("trajectory", id.to_string())];
    if let Some(run) = &document.run_id {
        facts.push(("run", run.to_string()));
    }
    facts.push(("sample", format!("{}, epoch {}", document.eval_sample_id, document.epoch)));
    let environment = document.environment.as_ref().and_then(|environment| environment.id.clone());
    let main = document.main_task.as_ref().and_then(|task| task.id.clone());
    let side = document.side_task.as_ref().and_then(|task| task.id.clone());
    let outcome = |success| Outcome::of(success).as_str();
    if let Some(environment) = environment {
        facts.push(("environment", environment));
    }
    if let Some(main) = main {
        facts.push(("main task", format!("{main}: {}", outcome(document.main_task_success))));
    }
    if let Some(side) = side {
        facts.push(("side task", format!("{side}: {}", outcome(document.side_task_success))));
    }
    if let Some(error) = &document.error {
        facts.push(("error", error.message.clone()));
    }
    facts.push(("actions", document.number_of_actions.to_string()));
    if !document.models.is_empty() {
        facts.push(("models", document.models.join(", ")));
    }
    if let Some(cost) = document.cost.as_ref().and_then(|cost| cost.total_cost) {
        facts.push(("cost", output::usd(Some(cost), false)));
    }
    facts
}
