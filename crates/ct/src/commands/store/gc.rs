//! `ct store gc`.

use clap::Args;
use ct_store::{GcOptions, GcReport};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::NO_STORE;
use crate::commands::Context;
use crate::commands::runs::filters;
use crate::error::CliError;
use crate::output::{self, Align, Format, Table};

const EXAMPLES: &str = "\
Examples:
  ct store gc --dry-run                  See what would go, in bytes
  ct store gc                            Remove leftovers of interrupted work
  ct store gc --purge-deleted 30d        Also runs deleted more than 30 days ago, for good";

/// Remove what nothing needs: leftovers of interrupted work and logs without a run.
///
/// Deleted runs stay, with their logs, unless --purge-deleted says how old they may get.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct GcArgs {
    /// Say what would go, and remove nothing
    #[arg(long)]
    dry_run: bool,
    /// Remove runs deleted longer ago than this for good, with their logs: 12h, 30d, 8w; 0d for all
    #[arg(long, value_name = "AGE", value_parser = parse_age)]
    purge_deleted: Option<SignedDuration>,
    /// How to print what goes: table or json
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: Format,
}

fn parse_age(text: &str) -> Result<SignedDuration, String> {
    filters::age(text).ok_or_else(|| "expected an age: 90m, 12h, 30d, 8w".to_owned())
}

/// Prints what went, or would go.
pub(super) fn gc(arguments: &GcArgs, context: &Context) -> Result<(), CliError> {
    let printer = &context.printer;
    let now = Timestamp::now();
    let options = GcOptions {
        dry_run: arguments.dry_run,
        purge_deleted_before: arguments
            .purge_deleted
            .map(|age| now.checked_sub(age).unwrap_or(Timestamp::MIN)),
    };
    let report = match context.store_or_logs()? {
        Some(store) => store.gc(options)?,
        None => {
            printer.note(NO_STORE);
            GcReport { dry_run: arguments.dry_run, ..GcReport::default() }
        }
    };
    match arguments.format {
        Format::Json => {
            let document = json!({
                "schema_version": 1,
                "dry_run": report.dry_run,
                "size_bytes": report.size_bytes(),
                "items": report.items,
            });
            printer.data(&output::pretty(&document)?)
        }
        Format::Table => {
            if !report.items.is_empty() {
                let mut table = Table::new(
                    printer,
                    &[("KIND", Align::Whole), ("SIZE", Align::Right), ("WHAT", Align::Left)],
                );
                for item in &report.items {
                    let kind = serde_json::to_value(item.kind).unwrap_or_default();
                    table.row([
                        kind.as_str().unwrap_or_default().to_owned(),
                        output::bytes(item.size_bytes),
                        item.subject.clone(),
                    ]);
                }
                printer.data(&table.finish())?;
            }
            printer.note(&format!(
                "{} ({}) {}",
                output::plural(report.items.len() as u64, "item", "items"),
                output::bytes(report.size_bytes()),
                if report.dry_run { "would go" } else { "removed" }
            ));
            Ok(())
        }
    }
}
