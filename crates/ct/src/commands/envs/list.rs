//! `ct envs list`.

use clap::Args;
use ct_environment::{Listing, Place};
use serde_json::{Value, json};

use crate::commands::Context;
use crate::error::CliError;
use crate::output::{self, Align, Format, Table};

const EXAMPLES: &str = "\
Examples:
  ct envs list
  ct envs list --format json

They are looked for in ./environments, in the folder that CONTROL_TOWER_SETTINGS_DIR names, in `environments` of the data
folder, and in the program. Of two with one name the one found first is meant.";

/// List the environments, nearest first
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ListArgs {
    /// How to print them: table or json
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: Format,
}

/// Prints the environments.
pub(super) fn list(arguments: &ListArgs, context: &Context) -> Result<(), CliError> {
    let catalog = context.catalog()?;
    let found = catalog.list();
    let printer = &context.printer;
    if arguments.format == Format::Json {
        let items: Vec<Value> = found.iter().map(item).collect();
        return printer.data(&output::pretty(&json!({"schema_version": 1, "items": items}))?);
    }
    let columns = [
        ("ENVIRONMENT", Align::Whole),
        ("MAIN", Align::Right),
        ("SIDE", Align::Right),
        ("FROM", Align::Name),
        ("WHAT IT IS", Align::Left),
    ];
    let mut table = Table::new(printer, &columns);
    for listing in &found {
        if let Some(nearer) = &listing.hidden_by {
            let message = format!("{} is hidden by {}", listing.folder.display(), nearer.display());
            printer.warning(&message);
            continue;
        }
        let (mains, sides, what) = match &listing.environment {
            Ok(environment) => (
                environment.mains.len().to_string(),
                environment.sides.len().to_string(),
                environment.description.clone(),
            ),
            Err(problems) => {
                let more = if problems.len() > 1 { " (and more)" } else { "" };
                let first = problems.first().map(ToString::to_string).unwrap_or_default();
                ("-".to_owned(), "-".to_owned(), format!("not right: {first}{more}"))
            }
        };
        table.row([listing.long_name(), mains, sides, origin(listing), what]);
    }
    printer.data(&table.finish())
}

/// Where an environment was found, for people.
fn origin(listing: &Listing) -> String {
    match listing.place {
        Place::Shipped => "the program".to_owned(),
        Place::Folder => listing.folder.display().to_string(),
    }
}

fn item(listing: &Listing) -> Value {
    let mut item = json!({
        "name": listing.name,
        "long_name": listing.long_name(),
        "place": listing.place,
        "folder": (listing.place == Place::Folder).then(|| listing.folder.display().to_string()),
        "hidden_by": listing.hidden_by.as_ref().map(|folder| folder.display().to_string()),
    });
    match &listing.environment {
        Ok(environment) => {
            let names = |tasks: Vec<&String>| json!(tasks);
            item["setting"] = json!(environment.setting);
            item["version"] = json!(environment.version);
            item["digest"] = json!(environment.digest);
            item["description"] = json!(environment.description);
            item["main_tasks"] = names(environment.mains.iter().map(|main| &main.task.name).collect());
            item["side_tasks"] = names(environment.sides.iter().map(|side| &side.task.name).collect());
        }
        Err(problems) => {
            item["problems"] = json!(problems.iter().map(ToString::to_string).collect::<Vec<_>>());
        }
    }
    item
}
