//! `ct runs download-trajs`.

use std::path::{Path, PathBuf};

use clap::Args;
use ct_model::{RunId, TrajectoryId, TrajectoryQuery};
use serde_json::json;

use super::filters;
use crate::commands::Context;
use crate::commands::dataset::download_address;
use crate::commands::target::{self, Target};
use crate::error::{CliError, Kind};
use crate::home::Home;
use crate::output::{self, Format, Printer};
use crate::pipeline::{self, FolderReport, Selection};

/// Trajectories asked for at once.
const PAGE: u64 = 1000;
/// Where trajectories go that are not one run's.
const FOLDER: &str = "trajectories";

const EXAMPLES: &str = "\
Examples:
  ct runs download-trajs 3fa94c1b                    Into a folder named by the run's id
  ct runs download-trajs 3fa94c1b -o attack/ -n 10   The first ten
  ct runs download-trajs https://viewer.example/runs/3fa94c1b0d2e4f60817263544a5b6c7d
  ct runs download-trajs -e web_scraping --tag baseline -o found/
                                                     From all runs into one folder

Running it again skips what is right and repairs what is not.";

/// Write the trajectories of a run to files: run.json, and one JSON file each.
///
/// Every file is checked against the log. Files appear whole or not at all; two downloads into one folder are fine.
/// Without a run, filters find trajectories in all runs; those go into one folder, without a run.json.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DownloadTrajsArgs {
    /// The run: an id, the beginning of one, or its address; that of a trajectory or a dataset is taken too
    #[arg(value_name = "RUN|URL")]
    run: Option<String>,
    /// The folder to write to [default: ./<run id>; without a run ./trajectories]
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Write into a folder that holds another run, or another run.json; its trajectory files are removed
    #[arg(long)]
    overwrite: bool,
    /// How to print what was written: table or json
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: Format,
    /// Only trajectories in this environment; may be given several times
    #[arg(
        long = "env",
        short = 'e',
        visible_alias = "environment",
        value_name = "ENV",
        help_heading = "Filters"
    )]
    environment: Vec<String>,
    /// Only trajectories of this main task; may be given several times
    #[arg(long, short = 't', value_name = "TASK", help_heading = "Filters")]
    main_task: Vec<String>,
    /// Only trajectories of this side task; may be given several times
    #[arg(long, short = 's', value_name = "TASK", help_heading = "Filters")]
    side_task: Vec<String>,
    /// Only trajectories that carry this tag, themselves or by their run; given several times, all of them
    #[arg(long = "tag", visible_alias = "tags", value_name = "TAG", help_heading = "Filters")]
    tags: Vec<String>,
    /// At most N trajectories, those of the newest runs first
    #[arg(long, short = 'n', value_name = "N", help_heading = "Filters", value_parser = filters::at_least_one)]
    limit: Option<u64>,
}

impl DownloadTrajsArgs {
    fn filters(&self) -> bool {
        self.limit.is_some()
            || [&self.environment, &self.main_task, &self.side_task, &self.tags]
                .into_iter()
                .any(|f| !f.is_empty())
    }
}

/// Writes the folder.
pub(super) fn download_trajs(arguments: &DownloadTrajsArgs, context: &Context) -> Result<(), CliError> {
    if arguments.run.is_none() && !arguments.filters() {
        return Err(CliError::usage("neither a run nor a filter given")
            .hint("name a run: ct runs download-trajs RUN")
            .hint("or find trajectories in all runs: ct runs download-trajs -e ENV -t TASK --tag TAG"));
    }
    if let Some(text) = &arguments.run
        && let Target::DatasetPage { name, .. } = Target::parse(text)?
    {
        if arguments.filters() {
            return Err(CliError::usage(format!("the items of dataset {name} are not filtered here"))
                .hint("publish those that pass as a dataset of their own: ct dataset create --help"));
        }
        let DownloadTrajsArgs { output, overwrite, format, .. } = arguments;
        return download_address(text, output.clone(), *overwrite, *format, context);
    }
    let home = match &arguments.run {
        Some(text) => context.home_of(text)?,
        None => context.home()?,
    };
    let printer = &context.printer;
    let job = job(arguments, &home)?;
    let progress = printer.progress();
    let report = match &job.what {
        What::Run(run, selection) => {
            pipeline::download(&home, run, selection, &job.folder, arguments.overwrite, &progress)
        }
        What::Trajectories(ids) => pipeline::download_trajectories(&home, ids, &job.folder, &progress),
    };
    progress.clear();
    let mut report = report?;
    let run = match &job.what {
        What::Run(run, _) => Some(run),
        What::Trajectories(_) => None,
    };
    print_report(printer, arguments.format, run, &job.folder, &report)?;
    match report.stopped.take() {
        Some(error) => Err(error.hint("free some space and run it again: it goes on where it stopped")),
        None => verdict(&report),
    }
}

/// A folder to write.
struct Job {
    folder: PathBuf,
    what: What,
}

enum What {
    /// A run's folder, with `run.json`.
    Run(RunId, Selection),
    /// Trajectories of any runs.
    Trajectories(Vec<TrajectoryId>),
}

fn job(arguments: &DownloadTrajsArgs, home: &Home) -> Result<Job, CliError> {
    let folder = |default: &str| arguments.output.clone().unwrap_or_else(|| PathBuf::from(default));
    let Some(text) = &arguments.run else {
        let ids = find(arguments, home, None)?;
        if ids.is_empty() {
            return Err(CliError::not_found("no trajectory passes the filters"));
        }
        return Ok(Job { folder: folder(FOLDER), what: What::Trajectories(ids) });
    };
    if let Target::TrajectoryPage { .. } = Target::parse(text)? {
        if arguments.filters() {
            return Err(CliError::usage("the address of one trajectory leaves nothing to filter"));
        }
        let id = target::trajectory(home, text)?;
        return Ok(Job { folder: folder(FOLDER), what: What::Trajectories(vec![id]) });
    }
    let run = target::run(home, text)?;
    let mut selection = Selection::default();
    if arguments.filters() {
        let ids = find(arguments, home, Some(run.clone()))?;
        if ids.is_empty() {
            return Err(CliError::not_found(format!("no trajectory of run {run} passes the filters")));
        }
        selection.trajectories = Some(ids.into_iter().collect());
    }
    Ok(Job { folder: folder(run.as_str()), what: What::Run(run, selection) })
}

/// The trajectories that pass the filters.
fn find(
    arguments: &DownloadTrajsArgs,
    home: &Home,
    run: Option<RunId>,
) -> Result<Vec<TrajectoryId>, CliError> {
    let mut query = TrajectoryQuery {
        run_id: run,
        environment: arguments.environment.clone(),
        main_task: arguments.main_task.clone(),
        side_task: arguments.side_task.clone(),
        tags: arguments.tags.clone(),
        ..TrajectoryQuery::default()
    };
    let mut found = Vec::new();
    let mut left = arguments.limit.unwrap_or(u64::MAX);
    loop {
        query.limit = Some(left.min(PAGE));
        let page = home.trajectory_ids(&query)?;
        left -= (page.items.len() as u64).min(left);
        found.extend(page.items);
        match page.next_cursor {
            Some(cursor) if left > 0 => query.cursor = Some(cursor),
            _ => return Ok(found),
        }
    }
}

/// Prints what came of writing a folder.
pub(in crate::commands) fn print_report(
    printer: &Printer,
    format: Format,
    run: Option<&RunId>,
    folder: &Path,
    report: &FolderReport,
) -> Result<(), CliError> {
    match format {
        Format::Json => print_json(printer, run, folder, report),
        Format::Table => print_lines(printer, folder, report),
    }
}

fn print_json(
    printer: &Printer,
    run: Option<&RunId>,
    folder: &Path,
    report: &FolderReport,
) -> Result<(), CliError> {
    let failed: Vec<_> = report
        .failed
        .iter()
        .map(|item| {
            json!({
                "trajectory_id": item.trajectory_id,
                "path": item.path.to_string_lossy(),
                "reason": item.reason,
            })
        })
        .collect();
    let document = json!({
        "schema_version": 1,
        "run_id": run,
        "folder": folder.to_string_lossy(),
        "written": report.written,
        "right": report.right,
        "repaired": report.repaired,
        "failed": failed,
        "defects": report.defects,
    });
    printer.data(&output::pretty(&document)?)
}

fn print_lines(printer: &Printer, folder: &Path, report: &FolderReport) -> Result<(), CliError> {
    let parts: Vec<String> = [
        (report.written, "written"),
        (report.repaired, "repaired"),
        (report.right, "already right"),
        (report.failed.len() as u64, "failed"),
    ]
    .into_iter()
    .filter(|&(n, _)| n > 0)
    .map(|(n, what)| format!("{} {what}", output::count(n)))
    .collect();
    let parts = if parts.is_empty() { "no trajectories".to_owned() } else { parts.join(", ") };
    printer.data(&format!("{}: {parts}\n", output::neutral(&folder.display().to_string())))?;
    for item in &report.failed {
        printer.warning(&format!("{} failed: {}: {}", item.trajectory_id, item.path.display(), item.reason));
    }
    for defect in &report.defects {
        printer.warning(defect);
    }
    Ok(())
}

/// The error that a report comes to.
pub(in crate::commands) fn verdict(report: &FolderReport) -> Result<(), CliError> {
    let failed = report.failed.len() as u64;
    if failed == 0 {
        return Ok(());
    }
    let done = report.written + report.right + report.repaired;
    let message =
        format!("{failed} of {} failed", output::plural(done + failed, "trajectory", "trajectories"));
    let kind = if done == 0 { Kind::Data } else { Kind::Partial };
    Err(CliError::new(kind, message).hint("running it again tries those that failed once more"))
}
