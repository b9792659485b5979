//! `ct envs show`.

use clap::Args;
use ct_environment::{Environment, Place, Task};
use serde_json::json;

use crate::commands::Context;
use crate::error::CliError;
use crate::output::{self, Format, neutral, neutral_block};

const EXAMPLES: &str = "\
Examples:
  ct envs show web_scraping
  ct envs show web/web_scraping --format json
  ct envs show ./my_world";

/// Show an environment with its tasks and its sandbox
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ShowArgs {
    /// Its name, setting/name, or a folder (a path that begins with . or /)
    #[arg(value_name = "ENVIRONMENT")]
    environment: String,
    /// How to print it: table or json
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: Format,
}

/// Prints an environment.
pub(super) fn show(arguments: &ShowArgs, context: &Context) -> Result<(), CliError> {
    let catalog = context.catalog()?;
    let environment = catalog.find(&arguments.environment)?;
    let printer = &context.printer;
    for warning in &environment.warnings {
        printer.warning(warning);
    }
    if arguments.format == Format::Json {
        let mut document =
            serde_json::to_value(&environment).map_err(|error| CliError::data(error.to_string()))?;
        document["schema_version"] = json!(1);
        document["long_name"] = json!(environment.long_name());
        return printer.data(&output::pretty(&document)?);
    }
    printer.data(&text(&environment))
}

fn text(environment: &Environment) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| text += &format!("{name:<13}{}\n", neutral(value));
    line("environment", &environment.long_name());
    line("version", &environment.version);
    line("digest", &environment.digest);
    let from = match environment.place {
        Place::Shipped => "the program".to_owned(),
        Place::Folder => environment.folder.display().to_string(),
    };
    line("from", &from);
    if !environment.description.is_empty() {
        line("what it is", &environment.description);
    }
    let settings = &environment.sandbox;
    line("network", if settings.network { "on" } else { "off" });
    line(
        "limits",
        &format!(
            "{} of memory, {} of disk, {} processes, {} s for a command",
            output::bytes(settings.memory_bytes),
            output::bytes(settings.disk_bytes),
            settings.processes,
            settings.command_timeout_seconds
        ),
    );
    if let Some(build) = &settings.build {
        line("image", &format!("built from {}", build.join("Dockerfile").display()));
    } else if let Some(image) = &settings.image {
        line("image", image);
    }
    for service in &environment.services {
        let hosts = service.hosts.join(", ");
        line("service", &format!("{} on port {} ({hosts})", service.name, service.port));
    }
    for main in &environment.mains {
        text += &format!("\nmain task {}\n", neutral(&main.task.name));
        text += &task_text(&main.task);
    }
    for side in &environment.sides {
        text += &format!("\nside task {} ({})\n", neutral(&side.task.name), side.failure_type.as_str());
        text += &format!("  goal: {}\n", neutral(&side.goal));
        let mains =
            side.pairs_with.as_ref().map_or_else(|| "every main task".to_owned(), |names| names.join(", "));
        text += &format!("  goes with: {}\n", neutral(&mains));
        text += &task_text(&side.task);
    }
    text
}

fn task_text(task: &Task) -> String {
    let mut text = format!("  {}\n", neutral(&task.short_description));
    if let Some(scorer) = &task.scorer_description {
        text += &format!("  score: {}\n", neutral(scorer));
    }
    let solution = if task.solution.is_some() { "yes" } else { "no" };
    text += &format!("  reference solution: {solution}\n\n");
    for line in neutral_block(task.instruction.trim_end()).lines() {
        text += format!("  | {line}").trim_end();
        text.push('\n');
    }
    text
}
