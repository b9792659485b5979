//! `ct dataset download`.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use clap::Args;
use ct_model::{DatasetKind, DatasetVersion, RunId, TrajectoryId, TrajectoryQuery};

use super::Datasets;
use super::reference::Reference;
use crate::commands::Context;
use crate::commands::runs::download_trajs::{print_report, verdict};
use crate::error::CliError;
use crate::home::Home;
use crate::output::Format;
use crate::pipeline::{self, FailedItem, FolderReport, Selection};

const EXAMPLES: &str = "\
Examples:
  ct dataset download holdout                     Into ./holdout-v3, when 3 is the newest version
  ct dataset download holdout@2 -o holdout/
  ct dataset download 'https://viewer.example/datasets/holdout?version=2'

Running it again skips what is right and repairs what is not.";

/// Write the trajectories of a dataset to files, one JSON file each.
///
/// Every file is checked against the log. Of a dataset of runs each run gets a folder of its own in the folder, with its
/// run.json. Items whose run is deleted or gone are listed, and the others are written.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DownloadArgs {
    /// The dataset, as NAME, NAME@VERSION or its address; the newest version when none is named
    #[arg(value_name = "NAME|URL")]
    dataset: Reference,
    /// The folder to write to [default: ./<name>-v<version>]
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Write run folders over those of other runs
    #[arg(long)]
    overwrite: bool,
    /// How to print what was written: table or json
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: Format,
}

/// Writes the files.
pub(super) fn download(arguments: &DownloadArgs, context: &Context) -> Result<(), CliError> {
    let printer = &context.printer;
    let home = context.home_at(arguments.dataset.base.as_ref())?;
    let datasets = Datasets::new(&home);
    let Reference { name, version, .. } = &arguments.dataset;
    let (found, items) = datasets.get(name, *version)?;
    let default = || PathBuf::from(format!("{}-v{}", found.name, found.version));
    let folder = arguments.output.clone().unwrap_or_else(default);
    let mut report = match found.kind {
        DatasetKind::Trajectory => trajectories(datasets.home(), &found, &items, &folder, context)?,
        DatasetKind::Run => runs(datasets.home(), &items, &folder, arguments.overwrite, context)?,
    };
    print_report(printer, arguments.format, None, &folder, &report)?;
    match report.stopped.take() {
        Some(error) => Err(error.hint("free some space and run it again: it goes on where it stopped")),
        None => verdict(&report),
    }
}

/// As `ct dataset download` of an address.
pub(crate) fn download_address(
    address: &str,
    output: Option<PathBuf>,
    overwrite: bool,
    format: Format,
    context: &Context,
) -> Result<(), CliError> {
    let dataset = address.parse().map_err(|problem: String| CliError::usage(problem))?;
    download(&DownloadArgs { dataset, output, overwrite, format }, context)
}

/// Those that are there, and after them those that are not as failed.
fn trajectories(
    home: &Home,
    found: &DatasetVersion,
    items: &[String],
    folder: &Path,
    context: &Context,
) -> Result<FolderReport, CliError> {
    // In the order of lists, so that those of one run, whose log is read, follow each other.
    let query = TrajectoryQuery {
        versioned_dataset: Some(found.name.clone()),
        versioned_dataset_version: Some(found.version),
        ..TrajectoryQuery::default()
    };
    let ids = home.trajectory_ids(&query)?.items;
    let progress = context.printer.progress();
    let report = pipeline::download_trajectories(home, &ids, folder, &progress);
    progress.clear();
    let mut report = report?;
    let there: HashSet<&str> = ids.iter().map(TrajectoryId::as_str).collect();
    for id in items.iter().filter(|id| !there.contains(id.as_str())) {
        report.failed.push(FailedItem {
            trajectory_id: id.clone(),
            path: folder.join(format!("{id}.json")),
            reason: "its run is deleted or gone".to_owned(),
        });
    }
    Ok(report)
}

fn runs(
    home: &Home,
    items: &[String],
    folder: &Path,
    overwrite: bool,
    context: &Context,
) -> Result<FolderReport, CliError> {
    let mut total = FolderReport::default();
    for id in items {
        let failed =
            |reason: String| FailedItem { trajectory_id: format!("run {id}"), path: folder.join(id), reason };
        let run = match home.resolve_run(id, false) {
            Ok(run) if run.as_str() == id => run,
            _ => {
                total.failed.push(failed("it is deleted or gone".to_owned()));
                continue;
            }
        };
        match download_run(home, &run, &folder.join(id), overwrite, context) {
            Ok(mut report) => {
                total.written += report.written;
                total.right += report.right;
                total.repaired += report.repaired;
                total.failed.append(&mut report.failed);
                total.defects.append(&mut report.defects);
                total.stopped = report.stopped;
                if total.stopped.is_some() {
                    break;
                }
            }
            Err(error) => total.failed.push(failed(error.reason())),
        }
    }
    Ok(total)
}

fn download_run(
    home: &Home,
    run: &RunId,
    folder: &Path,
    overwrite: bool,
    context: &Context,
) -> Result<FolderReport, CliError> {
    let progress = context.printer.progress();
    progress.prefix(format!("{run}: "));
    let report = pipeline::download(home, run, &Selection::default(), folder, overwrite, &progress);
    progress.clear();
    report
}
