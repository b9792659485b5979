//! `ct dataset add` and `ct dataset remove`.

use clap::Args;
use ct_model::{DatasetChange, DatasetEdit};

use super::reference::Whole;
use super::{Datasets, items};
use crate::commands::Context;
use crate::error::CliError;
use crate::output::{self, Format, Printer};

const ADD_EXAMPLES: &str = "\
Examples:
  ct dataset add holdout 550e8400
  ct dataset add holdout - < ids.txt
  ct dataset add holdout 550e8400 --if-version 3  Only when version 3 is the newest";

const REMOVE_EXAMPLES: &str = "\
Examples:
  ct dataset remove holdout 550e8400
  ct dataset show other --ids | ct dataset remove holdout -";

/// Add items to a dataset, in a new version of it.
///
/// Items that are in already stay where they are; without any other no version is made.
#[derive(Debug, Args)]
#[command(after_help = ADD_EXAMPLES)]
pub(crate) struct AddArgs {
    #[command(flatten)]
    common: EditArgs,
}

/// Remove items from a dataset, in a new version of it.
///
/// The versions before keep them.
#[derive(Debug, Args)]
#[command(after_help = REMOVE_EXAMPLES)]
pub(crate) struct RemoveArgs {
    #[command(flatten)]
    common: EditArgs,
}

/// What both take.
#[derive(Debug, Args)]
struct EditArgs {
    /// The dataset
    #[arg(value_name = "NAME|URL")]
    dataset: Whole,
    /// The items: ids, beginnings of ids or addresses; - reads whole ids from standard input, one a line
    #[arg(value_name = "ID", required = true)]
    items: Vec<String>,
    /// What to say about the new version
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Change nothing when this is not the newest version
    #[arg(long, value_name = "N")]
    if_version: Option<u64>,
    /// How to print what changed: table or json
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: Format,
}

/// Adds.
pub(super) fn add(arguments: AddArgs, context: &Context) -> Result<(), CliError> {
    let arguments = arguments.common;
    let Whole { name, base } = &arguments.dataset;
    let home = context.home_at(base.as_ref())?;
    let datasets = Datasets::new(&home);
    let (found, _) = datasets.get(name, None)?;
    let edit = DatasetEdit {
        add: Some(items::existing(&datasets, found.kind, &arguments.items)?),
        description: arguments.description,
        if_version: arguments.if_version,
        ..DatasetEdit::default()
    };
    tell(&context.printer, &datasets.edit(name, &edit)?, arguments.format)
}

/// Removes. What is meant is looked for among the items, which may be of deleted runs.
pub(super) fn remove(arguments: RemoveArgs, context: &Context) -> Result<(), CliError> {
    let arguments = arguments.common;
    let Whole { name, base } = &arguments.dataset;
    let home = context.home_at(base.as_ref())?;
    let datasets = Datasets::new(&home);
    let (found, present) = datasets.get(name, None)?;
    let remove = items::ids(&arguments.items, |word| {
        let mut fitting = present.iter().filter(|id| id.starts_with(word));
        match (fitting.next(), fitting.next()) {
            _ if present.iter().any(|id| id == word) => Ok(word.to_owned()),
            (Some(only), None) => Ok(only.clone()),
            (Some(_), Some(_)) => {
                Err(CliError::conflict(format!("{word:?} fits several items of dataset {}", found.name))
                    .hint("give more characters of the id"))
            }
            (None, _) if word.contains('/') => datasets.resolve(found.kind, word),
            (None, _) => Ok(word.to_owned()),
        }
    })?;
    let edit = DatasetEdit {
        remove: Some(remove),
        description: arguments.description,
        if_version: arguments.if_version,
        ..DatasetEdit::default()
    };
    tell(&context.printer, &datasets.edit(name, &edit)?, arguments.format)
}

/// Says what came of an edit.
pub(super) fn tell(printer: &Printer, change: &DatasetChange, format: Format) -> Result<(), CliError> {
    if format == Format::Json {
        let mut document = serde_json::to_value(change)
            .map_err(|error| CliError::internal("failed to write JSON").because(&error))?;
        document["schema_version"] = 1.into();
        return printer.data(&output::pretty(&document)?);
    }
    let parts: Vec<String> = [
        (change.added.len(), "added"),
        (change.already_present.len(), "there already"),
        (change.removed.len(), "removed"),
        (change.not_found.len(), "not in it"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, what)| format!("{} {what}", output::count(count as u64)))
    .collect();
    let parts = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
    let still = if change.changed { "" } else { "still " };
    printer.data(&format!(
        "{} {still}version {}, {}{parts}\n",
        change.name,
        change.version,
        output::plural(change.item_count, "item", "items")
    ))
}
