//! `ct dataset list`.

use clap::Args;
use ct_model::{Dataset, DatasetKind};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::Datasets;
use crate::commands::Context;
use crate::commands::runs::filters;
use crate::error::CliError;
use crate::output::{self, Align, Csv, ListFormat, Printer, Table};

/// The words for a kind.
pub(super) const KINDS: &[&str] = &["trajectory", "run"];

const EXAMPLES: &str = "\
Examples:
  ct dataset list
  ct dataset list --kind run --format json";

/// List datasets, newest first.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ListArgs {
    /// Only lists of these: trajectory or run
    #[arg(long, value_name = "KIND", value_parser = filters::choice::<DatasetKind>(KINDS), hide_possible_values = true)]
    kind: Option<DatasetKind>,
    /// How to print the list: table, json, ndjson or csv
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: ListFormat,
}

/// Prints the list.
pub(super) fn list(arguments: &ListArgs, context: &Context) -> Result<(), CliError> {
    let printer = &context.printer;
    let found = match context.home_if_any()? {
        Some(home) => Datasets::new(&home).list(arguments.kind)?,
        None => Vec::new(),
    };
    match arguments.format {
        ListFormat::Table => print_table(printer, &found, arguments.kind),
        ListFormat::Json => {
            let rows: Vec<Value> = found.iter().map(row).collect();
            let document = json!({"schema_version": 1, "items": rows, "total_count": rows.len()});
            printer.data(&output::pretty(&document)?)
        }
        ListFormat::Ndjson => {
            let lines =
                found.iter().map(|dataset| output::compact(&row(dataset))).collect::<Result<String, _>>()?;
            printer.data(&lines)
        }
        ListFormat::Csv => printer.data(&csv(&found)),
    }
}

fn print_table(printer: &Printer, found: &[Dataset], kind: Option<DatasetKind>) -> Result<(), CliError> {
    if found.is_empty() {
        printer.note(&match kind {
            Some(kind) => format!("no datasets of kind {kind}"),
            None => "no datasets; make one with: ct dataset create NAME ID".to_owned(),
        });
        return Ok(());
    }
    let now = Timestamp::now();
    let mut table = Table::new(
        printer,
        &[
            ("NAME", Align::Whole),
            ("KIND", Align::Left),
            ("VERSION", Align::Right),
            ("ITEMS", Align::Right),
            ("BY", Align::Name),
            ("LOCKED", Align::Name),
            ("CHANGED", Align::Right),
        ],
    );
    for dataset in found {
        let changed_at = dataset.updated_at.or(dataset.created_at);
        let lock = dataset.lock.as_ref().map(|lock| lock.reason.clone().unwrap_or_else(|| "yes".to_owned()));
        table.row([
            dataset.name.to_string(),
            dataset.kind.to_string(),
            dataset.latest_version.to_string(),
            output::count(dataset.item_count),
            dataset.created_by.clone().unwrap_or_else(|| "-".to_owned()),
            lock.unwrap_or_else(|| "-".to_owned()),
            changed_at.map_or_else(|| "-".to_owned(), |time| output::age(&time.to_string(), now)),
        ]);
    }
    printer.data(&table.finish())?;
    printer.note(&output::plural(found.len() as u64, "dataset", "datasets"));
    Ok(())
}

fn row(dataset: &Dataset) -> Value {
    json!({
        "name": dataset.name,
        "kind": dataset.kind,
        "latest_version": dataset.latest_version,
        "item_count": dataset.item_count,
        "created_at": dataset.created_at,
        "created_by": dataset.created_by,
        "updated_at": dataset.updated_at,
        "updated_by": dataset.updated_by,
        "lock": dataset.lock,
    })
}

fn csv(found: &[Dataset]) -> String {
    let mut csv = Csv::new(&[
        "name",
        "kind",
        "latest_version",
        "item_count",
        "created_at",
        "created_by",
        "updated_at",
        "updated_by",
        "locked_at",
        "locked_by",
        "lock_reason",
    ]);
    let time = |time: Option<Timestamp>| time.map(|time| time.to_string()).unwrap_or_default();
    for dataset in found {
        let lock = dataset.lock.as_ref();
        csv.row([
            dataset.name.to_string(),
            dataset.kind.to_string(),
            dataset.latest_version.to_string(),
            dataset.item_count.to_string(),
            time(dataset.created_at),
            dataset.created_by.clone().unwrap_or_default(),
            time(dataset.updated_at),
            dataset.updated_by.clone().unwrap_or_default(),
            time(lock.map(|lock| lock.locked_at)),
            lock.and_then(|lock| lock.locked_by.clone()).unwrap_or_default(),
            lock.and_then(|lock| lock.reason.clone()).unwrap_or_default(),
        ]);
    }
    csv.finish()
}
