//! `ct dataset versions`.

use clap::Args;
use ct_model::DatasetVersion;
use jiff::Timestamp;
use serde_json::json;

use super::Datasets;
use super::reference::Whole;
use crate::commands::Context;
use crate::error::CliError;
use crate::output::{self, Align, Csv, ListFormat, Printer, Table};

const EXAMPLES: &str = "\
Examples:
  ct dataset versions holdout
  ct dataset diff holdout 1 2                     What changed between two";

/// List the versions of a dataset, newest first.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct VersionsArgs {
    /// The dataset
    #[arg(value_name = "NAME|URL")]
    dataset: Whole,
    /// How to print the list: table, json, ndjson or csv
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: ListFormat,
}

/// Prints the list.
pub(super) fn versions(arguments: &VersionsArgs, context: &Context) -> Result<(), CliError> {
    let printer = &context.printer;
    let found = Datasets::new(&context.home_at(arguments.dataset.base.as_ref())?)
        .versions(&arguments.dataset.name)?;
    let rows: Vec<_> = found
        .iter()
        .map(|version| {
            json!({
                "version": version.version,
                "item_count": version.item_count,
                "created_at": version.created_at,
                "created_by": version.created_by,
                "description": version.description,
            })
        })
        .collect();
    match arguments.format {
        ListFormat::Table => print_table(printer, &found),
        ListFormat::Json => {
            let document = json!({
                "schema_version": 1,
                "name": arguments.dataset.name,
                "items": rows,
                "total_count": rows.len(),
            });
            printer.data(&output::pretty(&document)?)
        }
        ListFormat::Ndjson => printer.data(&rows.iter().map(output::compact).collect::<Result<String, _>>()?),
        ListFormat::Csv => {
            let mut csv = Csv::new(&["version", "item_count", "created_at", "created_by", "description"]);
            for version in &found {
                csv.row([
                    version.version.to_string(),
                    version.item_count.to_string(),
                    version.created_at.map(|time| time.to_string()).unwrap_or_default(),
                    version.created_by.clone().unwrap_or_default(),
                    version.description.clone().unwrap_or_default(),
                ]);
            }
            printer.data(&csv.finish())
        }
    }
}

fn print_table(printer: &Printer, found: &[DatasetVersion]) -> Result<(), CliError> {
    let now = Timestamp::now();
    let mut table = Table::new(
        printer,
        &[
            ("VERSION", Align::Right),
            ("ITEMS", Align::Right),
            ("BY", Align::Name),
            ("DESCRIPTION", Align::Name),
            ("MADE", Align::Right),
        ],
    );
    for version in found {
        table.row([
            version.version.to_string(),
            output::count(version.item_count),
            version.created_by.clone().unwrap_or_else(|| "-".to_owned()),
            version.description.clone().unwrap_or_else(|| "-".to_owned()),
            version.created_at.map_or_else(|| "-".to_owned(), |time| output::age(&time.to_string(), now)),
        ]);
    }
    printer.data(&table.finish())
}
