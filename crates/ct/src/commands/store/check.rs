//! `ct store check`.

use clap::Args;
use ct_store::{CheckReport, Store};
use serde_json::json;

use super::NO_STORE;
use crate::commands::Context;
use crate::error::{CliError, Kind};
use crate::output::{self, Align, Format, Printer, Table};

const EXAMPLES: &str = "\
Examples:
  ct store check                         Verify every log's hash and every reference
  ct store check --repair                Also put right what can be put right without loss
  ct store check --format json

The exit code is 0 when everything is sound, or was put right; leftovers alone are sound. Else it is 1.";

/// Read everything in the store and compare.
///
/// Every log is read to its end and hashed; every sample must lie inside its log; counts and indexes must agree.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CheckArgs {
    /// Put right what can be put right without loss
    #[arg(long)]
    repair: bool,
    /// How to print the findings: table or json
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: Format,
}

fn look(store: &Store, repair: bool, printer: &Printer) -> Result<CheckReport, CliError> {
    let progress = printer.progress();
    let mut done = 0;
    let mut started = false;
    let report = store.check(repair, &mut |at| {
        if !started {
            progress.bytes("reading logs", at.bytes_total);
            started = true;
        }
        progress.advance(at.bytes_done.saturating_sub(done));
        done = at.bytes_done;
    });
    progress.clear();
    Ok(report?)
}

/// Prints the findings.
pub(super) fn check(arguments: &CheckArgs, context: &Context) -> Result<(), CliError> {
    let printer = &context.printer;
    let report = match context.store_or_logs()? {
        Some(store) => look(&store, arguments.repair, printer)?,
        None => {
            printer.note(NO_STORE);
            CheckReport::default()
        }
    };
    match arguments.format {
        Format::Json => {
            let document = json!({
                "schema_version": 1,
                "sound": report.is_sound(),
                "runs": report.runs,
                "trajectories": report.trajectories,
                "logs": report.logs,
                "log_bytes": report.log_bytes,
                "findings": report.findings,
            });
            printer.data(&output::pretty(&document)?)?;
        }
        Format::Table => {
            if !report.findings.is_empty() {
                let mut table = Table::new(
                    printer,
                    &[
                        ("KIND", Align::Whole),
                        ("WHAT", Align::Left),
                        ("DETAIL", Align::Left),
                        ("DONE", Align::Left),
                    ],
                );
                for finding in &report.findings {
                    let kind = serde_json::to_value(finding.kind).unwrap_or_default();
                    table.row([
                        kind.as_str().unwrap_or_default(),
                        &finding.subject,
                        &finding.detail,
                        finding.done.as_deref().unwrap_or("-"),
                    ]);
                }
                printer.data(&table.finish())?;
            }
            printer.note(&format!(
                "{}, {}, {} ({}) checked: {}",
                output::plural(report.runs, "run", "runs"),
                output::plural(report.trajectories, "trajectory", "trajectories"),
                output::plural(report.logs, "log", "logs"),
                output::bytes(report.log_bytes),
                if report.is_sound() { "sound" } else { "not sound" }
            ));
        }
    }
    if report.is_sound() {
        return Ok(());
    }
    let wrong = report.findings.iter().filter(|f| !f.kind.is_leftover() && !f.resolved).count() as u64;
    let error = CliError::new(
        Kind::Data,
        format!("{} in the store", output::plural(wrong, "thing is wrong", "things are wrong")),
    );
    Err(if arguments.repair {
        error.hint("a missing or damaged log is whole again after: ct runs make LOG, with the same log")
    } else {
        error.hint("put right what can be put right with: ct store check --repair")
    })
}
