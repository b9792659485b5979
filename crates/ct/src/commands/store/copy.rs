//! `ct store copy`, `ct store backup` and `ct store restore`: one thing in three directions.

use std::path::{Path, PathBuf};

use clap::Args;
use ct_store::{CopyProgress, CopyReport, LogPlace, Store, StoreError};
use serde_json::json;

use crate::commands::Context;
use crate::error::{CliError, Kind};
use crate::output::{self, Format};

const COPY_EXAMPLES: &str = "\
Examples:
  ct store copy /srv/ct /srv/new --logs s3://team-logs/ct     From files to a bucket
  ct store copy /srv/ct /mnt/ct                               Back, or to another disk

Run it again to go on, or to take what is new: what is there is not copied twice.";

const BACKUP_EXAMPLES: &str = "\
Examples:
  ct store backup /backup/ct.zip         One file, also while a server runs
  ct store backup /backup/ct             A folder; again for what is new
  ct --data-dir /backup/ct store check   Read every log of it";

const RESTORE_EXAMPLES: &str = "\
Examples:
  ct --data-dir /srv/ct store restore /backup/ct.zip
  ct store restore /backup/ct --logs s3://team-logs/ct-2";

/// Copy a whole store: database and logs, to another data folder; its logs to a bucket, or back.
///
/// The store may be in use: what is copied is one moment of it. Every log is hashed on the way.
#[derive(Debug, Args)]
#[command(after_help = COPY_EXAMPLES)]
pub(crate) struct CopyArgs {
    /// The data folder of the store
    #[arg(value_name = "FROM")]
    from: PathBuf,
    /// The data folder of the copy: a new one, or one that was copied to before
    #[arg(value_name = "TO")]
    to: PathBuf,
    #[command(flatten)]
    how: How,
}

/// Copy the store into one file or into a folder, as a backup, while it is in use.
///
/// A file (FILE.zip) holds one moment of database and logs. A folder is a data folder of its own; what is there already
/// is not copied twice. Every log is hashed on the way, whether it comes from a folder or from a bucket.
#[derive(Debug, Args)]
#[command(after_help = BACKUP_EXAMPLES)]
pub(crate) struct BackupArgs {
    /// A new file whose name ends in .zip; or a folder, a new one or an earlier backup
    #[arg(value_name = "FILE.zip|DIR")]
    to: PathBuf,
    /// Let the file take the place of another
    #[arg(long)]
    overwrite: bool,
    /// How to print what was done: table or json
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: Format,
}

/// Make the store from a backup.
///
/// The data folder is a new one, or an older state of the backup. A store that holds anything else is left alone.
#[derive(Debug, Args)]
#[command(after_help = RESTORE_EXAMPLES)]
pub(crate) struct RestoreArgs {
    /// The file or the folder of the backup
    #[arg(value_name = "FILE.zip|DIR")]
    from: PathBuf,
    #[command(flatten)]
    how: How,
}

#[derive(Debug, Args)]
struct How {
    /// Put the logs of the copy into a bucket: s3://bucket/prefix [default: into its data folder]
    #[arg(long, value_name = "ADDRESS")]
    logs: Option<String>,
    /// How to print what was done: table or json
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: Format,
}

pub(super) fn copy(arguments: &CopyArgs, context: &Context) -> Result<(), CliError> {
    let from = open(context, &arguments.from)?;
    copy_to(context, &from, &arguments.to, arguments.how.logs.as_deref(), arguments.how.format)
}

pub(super) fn backup(arguments: &BackupArgs, context: &Context) -> Result<(), CliError> {
    let (from, to) = (context.existing_store()?, &arguments.to);
    if to.is_dir() || to.extension().is_none_or(|ending| ending != "zip") {
        return copy_to(context, &from, to, None, arguments.format);
    }
    if to.exists() && !arguments.overwrite {
        return Err(CliError::conflict(format!("{} is there already", to.display()))
            .hint("name another file, or write over it with --overwrite"));
    }
    from.check_logs_open()?;
    run(context, to, false, arguments.format, |progress| from.back_up_to(to, progress))
}

pub(super) fn restore(arguments: &RestoreArgs, context: &Context) -> Result<(), CliError> {
    let (from, to) = (&arguments.from, &context.config.data_dir);
    let logs = arguments.how.logs.clone().or_else(|| Some(context.config.logs.as_ref()?.0.clone()));
    if from.is_file() {
        let place = context.remembered_place(to, logs.as_deref())?;
        let in_bucket = !matches!(place, LogPlace::Folder);
        return run(context, to, in_bucket, arguments.how.format, |progress| {
            Store::restore_from(from, to, place, progress)
        });
    }
    copy_to(context, &open(context, from)?, to, logs.as_deref(), arguments.how.format)
}

/// A store by its data folder, with its logs where it remembers them.
fn open(context: &Context, folder: &Path) -> Result<Store, CliError> {
    Ok(Store::open_existing_at(folder, context.remembered_place(folder, None)?)?)
}

fn copy_to(
    context: &Context,
    from: &Store,
    to: &Path,
    logs: Option<&str>,
    format: Format,
) -> Result<(), CliError> {
    let place = context.remembered_place(to, logs)?;
    let in_bucket = !matches!(place, LogPlace::Folder);
    run(context, to, in_bucket, format, |progress| from.copy_to(to, place, progress))
}

fn run(
    context: &Context,
    to: &Path,
    in_bucket: bool,
    format: Format,
    copy: impl FnOnce(&(dyn Fn(CopyProgress) + Sync)) -> Result<CopyReport, StoreError>,
) -> Result<(), CliError> {
    let printer = &context.printer;
    let progress = printer.progress();
    let shown = std::sync::Mutex::new(0);
    let copied = copy(&|at| {
        let mut total = shown.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if *total != at.bytes_total {
            *total = at.bytes_total;
            progress.bytes("copying logs", at.bytes_total);
        }
        progress.set(at.bytes_done);
    });
    progress.clear();
    let report = copied?;
    match format {
        Format::Json => {
            let document = json!({"schema_version": 1, "to": to.to_string_lossy(), "copied": report});
            printer.data(&output::pretty(&document)?)?;
        }
        Format::Table => printer.note(&sentence(&report, to, in_bucket)),
    }
    for failure in &report.failures {
        printer.warning(&format!("{}: {}", failure.log, failure.reason));
    }
    if report.failures.is_empty() {
        return Ok(());
    }
    let failed = output::plural(report.failures.len() as u64, "log", "logs");
    Err(CliError::new(Kind::Partial, format!("{failed} could not be copied; all the rest is there"))
        .hint("see what the store lacks with: ct store check"))
}

fn sentence(report: &CopyReport, to: &Path, in_bucket: bool) -> String {
    format!(
        "{}: {}, {} ({}) copied{}, {} there already",
        to.display(),
        output::plural(report.runs, "run", "runs"),
        output::plural(report.copied, "log", "logs"),
        output::bytes(report.copied_bytes),
        if in_bucket { " to the bucket" } else { "" },
        report.there_already,
    )
}
