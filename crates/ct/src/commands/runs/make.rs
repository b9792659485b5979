//! `ct runs make`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use ct_log::write::Glob;
use ct_s3::ObjectSource;
use serde_json::{Value, json};

use super::ahead::Ahead;
use super::bucket;
use super::remote_eval::{self, Fetched};
use super::sources::{self, Source};
use crate::commands::Context;
use crate::error::{CliError, Kind};
use crate::home::Home;
use crate::output::{self, Align, Csv, ListFormat, Printer, Progress, Table};
use crate::pipeline::{self, Made, MadeRun, MadeStatus, MakeOptions, OtherBytes};

const EXAMPLES: &str = "\
Examples:
  ct runs make logs/my-eval.eval                  Make a run of a log
  ct runs make logs/ more/*.eval                  Every log in a folder, and some others
  find . -name '*.eval' | ct runs make -          Paths from standard input
  ct runs make a.eval --run-name \"Week 48\" --tag baseline --tag v2
  ct runs make a.eval --save-dir a/               Only write run.json and a file per trajectory
  ct runs make a/ --save-path b.eval              Put such a folder together to a log again
  ct runs make a.eval --save-path b.eval --drop-score 'monitor*' --upload

Making a run of the same log again changes nothing. A log of the same eval with other bytes (scores \
added later, a resumed run) needs --replace or --as-new; on a terminal you are asked.";

/// Make runs of eval logs, or write logs and trajectory files.
///
/// Takes .eval and .json logs of any Inspect version, damaged ones too, and folders of trajectory files. Without
/// --save-path and --save-dir it makes runs; with them it writes files, and makes runs as well with --upload.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct MakeArgs {
    /// Logs: files, folders, patterns, http addresses, s3://bucket/prefix, or - for a list of them on standard input;
    /// without any, pick from ./logs
    #[arg(value_name = "LOG")]
    logs: Vec<PathBuf>,
    /// How to print what was made: table, json, ndjson or csv
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: ListFormat,
    #[command(flatten)]
    header: HeaderArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// What the run is to say.
#[derive(Debug, Args)]
#[command(next_help_heading = "Run")]
struct HeaderArgs {
    /// Name of the run, instead of what the log says
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    run_name: Option<String>,
    /// Policy of the run, instead of what the log says
    #[arg(long, value_name = "POLICY")]
    policy: Option<String>,
    /// Task set of the run, instead of what the log says
    #[arg(long, value_name = "NAME")]
    task_set: Option<String>,
    /// Add a tag to those of the log; may be given several times
    #[arg(long = "tag", visible_alias = "tags", value_name = "TAG")]
    tags: Vec<String>,
    /// Leave out the scores whose name matches this pattern; may be given several times
    #[arg(long, value_name = "GLOB")]
    drop_score: Vec<String>,
    /// Price what the log does not by this rate file: rows as the API's /api/pricing gives them
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
}

/// What is to be made.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
struct OutputArgs {
    /// Write the eval log to this file: converted, repaired or filtered
    #[arg(long, value_name = "FILE")]
    save_path: Option<PathBuf>,
    /// Write run.json and one JSON file per trajectory into this folder; of several logs each gets a folder in it
    #[arg(long, value_name = "DIR")]
    save_dir: Option<PathBuf>,
    /// Make the run also when --save-path or --save-dir is given
    #[arg(long)]
    upload: bool,
    /// When the store has the same eval with other bytes, let the new log take its place; the id
    /// stays. With --prices, price a run of the very log anew
    #[arg(long, conflicts_with = "as_new")]
    replace: bool,
    /// When the store has the same eval with other bytes, make a second run
    #[arg(long)]
    as_new: bool,
    /// Let --save-path and --save-dir write over other files
    #[arg(long)]
    overwrite: bool,
}

/// What came of one log.
#[derive(Debug)]
struct Outcome {
    source: PathBuf,
    status: Status,
    run: Option<MadeRun>,
    saved_path: Option<PathBuf>,
    saved_dir: Option<PathBuf>,
    trajectories: Option<u64>,
    defects: Vec<String>,
    error: Option<CliError>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Created,
    Unchanged,
    Edited,
    Restored,
    Replaced,
    Saved,
    Skipped,
    Failed,
}

impl Status {
    fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Unchanged => "unchanged",
            Self::Edited => "edited",
            Self::Restored => "restored",
            Self::Replaced => "replaced",
            Self::Saved => "saved",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
        }
    }
}

/// Makes what was asked of each log, and says what came of it.
pub(super) fn make(arguments: MakeArgs, context: &Context) -> Result<(), CliError> {
    let printer = &context.printer;
    let asks_stdin = arguments.logs.iter().any(|word| word.as_os_str() == "-");
    let sources = sources::find(&arguments.logs, context)?;
    if arguments.output.save_path.is_some() && sources.len() > 1 {
        return Err(CliError::usage(format!("--save-path takes one log, and {} were given", sources.len()))
            .hint("write several with --save-dir, or run once for each"));
    }
    if let Some(path) = &arguments.output.save_path {
        let ending = path.extension().unwrap_or_default();
        if ending != "eval" && ending != "json" {
            return Err(CliError::usage(format!("{} ends in neither .eval nor .json", path.display()))
                .hint("the ending of --save-path says which of the two forms of log to write"));
        }
    }
    let options = MakeOptions {
        run_name: arguments.header.run_name,
        policy: arguments.header.policy,
        task_set: arguments.header.task_set,
        tags: arguments.header.tags,
        drop_scores: arguments.header.drop_score.iter().map(|pattern| Glob::new(pattern)).collect(),
        prices: arguments.header.prices,
        other_bytes: match (arguments.output.replace, arguments.output.as_new) {
            (true, _) => OtherBytes::Replace,
            (_, true) => OtherBytes::AsNew,
            _ => OtherBytes::Refuse,
        },
        over: None,
    };
    if options.run_name.is_some() && sources.len() > 1 {
        printer.warning(&format!("all {} runs get the name given", sources.len()));
    }
    let saves = arguments.output.save_path.is_some() || arguments.output.save_dir.is_some();
    let work = Work {
        context,
        printer,
        home: if !saves || arguments.output.upload { Some(context.home_to_make()?) } else { None },
        folders: folders(arguments.output.save_dir.as_deref(), &sources),
        save_path: arguments.output.save_path,
        overwrite: arguments.output.overwrite,
        can_ask: printer.can_ask() && !asks_stdin,
        options,
    };
    work.options.edit().check()?;
    if let Some(Home::Server(client)) = &work.home {
        // A token that is no good is told now, and not after hours.
        client.check_write_access()?;
    }
    let total = sources.len();
    let mut outcomes = Vec::with_capacity(total);
    let all: Vec<_> = sources.iter().map(|source| source.object.clone()).collect();
    Ahead::of(&all, |ahead| {
        for (index, source) in sources.into_iter().enumerate() {
            let outcome = work.one(source, index, total, ahead);
            for glob in &work.options.drop_scores {
                if !glob.take_matched() && outcome.error.is_none() {
                    let (path, pattern) = (outcome.source.display(), glob.pattern());
                    printer.warning(&format!("{path}: no score matches --drop-score {pattern:?}"));
                }
            }
            for defect in &outcome.defects {
                printer.warning(&format!("{}: {defect}", outcome.source.display()));
            }
            if let Some(error) = outcome.error.as_ref().filter(|_| total > 1) {
                let (path, reason) = (outcome.source.display().to_string(), error.reason());
                printer.warning(&if reason.contains(&path) { reason } else { format!("{path}: {reason}") });
            }
            outcomes.push(outcome);
        }
    });
    print(printer, &outcomes, arguments.format)?;
    verdict(printer, outcomes, arguments.format)
}

/// What to do with each log.
struct Work<'a> {
    context: &'a Context,
    printer: &'a Printer,
    home: Option<Home>,
    folders: Vec<Option<PathBuf>>,
    save_path: Option<PathBuf>,
    overwrite: bool,
    can_ask: bool,
    options: MakeOptions,
}

impl Work<'_> {
    fn one(&self, source: Source, index: usize, total: usize, ahead: &Ahead) -> Outcome {
        let mut outcome = Outcome {
            source: source.path,
            status: Status::Saved,
            run: None,
            saved_path: None,
            saved_dir: None,
            trajectories: None,
            defects: Vec::new(),
            error: None,
        };
        let progress = self.printer.progress();
        if total > 1 {
            progress.prefix(format!("[{}/{total}] ", index + 1));
        }
        let result = match source.trouble {
            Some(trouble) => Err(trouble),
            None => self
                .fetch(&outcome.source, source.object.as_ref(), ahead.take(index), &progress)
                .and_then(|fetched| {
                    let log = fetched.as_ref().map_or_else(|| outcome.source.clone(), |log| log.path.clone());
                    self.steps(&mut outcome, &log, index, &progress)
                }),
        };
        progress.clear();
        if let Err(error) = result {
            outcome.status = Status::Failed;
            outcome.error = Some(error);
        }
        outcome
    }

    /// A log that lies elsewhere.
    fn fetch(
        &self,
        source: &Path,
        object: Option<&Arc<ObjectSource>>,
        fetched: Option<Result<Fetched, CliError>>,
        progress: &Progress,
    ) -> Result<Option<Fetched>, CliError> {
        match (fetched, object) {
            (Some(fetched), _) => fetched.map(Some),
            (None, Some(object)) => bucket::fetch(object, Some(progress)).map(Some),
            (None, None) => remote_eval::fetched(source, self.context, progress),
        }
    }

    fn steps(
        &self,
        outcome: &mut Outcome,
        source: &Path,
        index: usize,
        progress: &Progress,
    ) -> Result<(), CliError> {
        if let Some(home) = &self.home {
            match self.make_run(home, source, progress)? {
                Some(run) => {
                    outcome.status = match run.status {
                        MadeStatus::Created => Status::Created,
                        MadeStatus::Unchanged => Status::Unchanged,
                        MadeStatus::Edited => Status::Edited,
                        MadeStatus::Restored => Status::Restored,
                        MadeStatus::Replaced => Status::Replaced,
                    };
                    outcome.trajectories = Some(run.trajectories);
                    outcome.add_defects(&run.defects);
                    outcome.run = Some(run);
                }
                None => outcome.status = Status::Skipped,
            }
        }
        if let Some(path) = &self.save_path {
            if path.metadata().is_ok_and(|there| !there.is_file()) {
                return Err(CliError::conflict(format!(
                    "{} is there and is no regular file",
                    path.display()
                )));
            }
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)
                    .map_err(|error| CliError::io("make the folder", folder, &error))?;
            }
            let saved = pipeline::save_log(source, path, self.overwrite, &self.options, progress)?;
            outcome.trajectories = Some(saved.trajectories);
            outcome.add_defects(&saved.defects);
            outcome.saved_path = Some(path.clone());
        }
        if let Some(folder) = self.folders.get(index).and_then(Option::as_ref) {
            let mut report = pipeline::save_dir(source, folder, self.overwrite, &self.options, progress)?;
            outcome.trajectories = Some(report.written + report.right + report.repaired);
            outcome.add_defects(&report.defects);
            outcome.saved_dir = Some(folder.clone());
            if let Some(error) = report.stopped.take() {
                return Err(error.hint("free some space and run it again: it goes on where it stopped"));
            }
            if let Some(first) = report.failed.first() {
                let failed = output::plural(report.failed.len() as u64, "trajectory", "trajectories");
                let kind = if outcome.trajectories == Some(0) { Kind::Data } else { Kind::Partial };
                return Err(CliError::new(
                    kind,
                    format!(
                        "{failed} could not be written, the first of them {}: {}",
                        first.trajectory_id, first.reason
                    ),
                ));
            }
        }
        Ok(())
    }

    /// None: the user chose to leave it.
    fn make_run(&self, home: &Home, source: &Path, progress: &Progress) -> Result<Option<MadeRun>, CliError> {
        let runs = match make_in(home, source, &self.options, progress)? {
            Made::Run(run) => return Ok(Some(run)),
            Made::SameEval { runs } => runs,
        };
        progress.clear();
        let list = runs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let local = home.client().is_none();
        let place = if local { "store" } else { "server" };
        let said = format!("the {place} has the same eval with other bytes: run {list}");
        if !self.can_ask {
            let error = CliError::conflict(said);
            let replace = "--replace keeps the run's id and lets this log take the place of its log";
            // Other servers than ours keep the log of a run for good.
            let can = home.client().is_none_or(|client| client.is_ct().unwrap_or(false));
            let error = if can { error.hint(replace) } else { error };
            return Err(error.hint("--as-new makes a second run"));
        }
        self.printer.prompt_line(&format!("{}: {said}", source.display()));
        let other_bytes = loop {
            let answer = self.printer.ask("[r]eplace its log, make a [n]ew run, or [s]kip?")?;
            match answer.as_deref().map(str::to_ascii_lowercase).as_deref() {
                Some("r" | "replace") => break OtherBytes::Replace,
                Some("n" | "new") => break OtherBytes::AsNew,
                None | Some("s" | "skip") => return Ok(None),
                Some(_) => {}
            }
        };
        let options = MakeOptions { other_bytes, ..self.options.clone() };
        match make_in(home, source, &options, progress)? {
            Made::Run(run) => Ok(Some(run)),
            Made::SameEval { .. } => Err(CliError::conflict(said)),
        }
    }
}

fn make_in(home: &Home, source: &Path, options: &MakeOptions, progress: &Progress) -> Result<Made, CliError> {
    match home {
        Home::Local(store) => pipeline::make_run(store, source, options, progress),
        Home::Server(client) => pipeline::upload_run(client, source, options, progress),
    }
}

impl Outcome {
    /// Each step meets the same defects; say each once.
    fn add_defects(&mut self, defects: &[String]) {
        for defect in defects {
            if !self.defects.contains(defect) {
                self.defects.push(defect.clone());
            }
        }
    }

    fn json(&self) -> Value {
        json!({
            "path": self.source.to_string_lossy(),
            "status": self.status.name(),
            "run_id": self.run.as_ref().map(|run| &run.run_id),
            "name": self.run.as_ref().map(|run| &run.name),
            "trajectories": self.trajectories,
            "saved_path": self.saved_path.as_ref().map(|path| path.to_string_lossy()),
            "saved_dir": self.saved_dir.as_ref().map(|path| path.to_string_lossy()),
            "defects": self.defects,
            "reason": self.error.as_ref().map(CliError::reason),
        })
    }
}

/// The folder each log is written to: the one given for a single log, else one in it with the log's name.
fn folders(save_dir: Option<&Path>, sources: &[Source]) -> Vec<Option<PathBuf>> {
    let Some(save_dir) = save_dir else { return Vec::new() };
    if let [_] = sources {
        return vec![Some(save_dir.to_owned())];
    }
    let mut taken = std::collections::HashSet::new();
    let mut folders = Vec::with_capacity(sources.len());
    for source in sources {
        let stem = source.path.file_stem().unwrap_or(source.path.as_os_str()).to_string_lossy().into_owned();
        let stem = if stem.is_empty() || stem.starts_with('.') { format!("log{stem}") } else { stem };
        let mut name = stem.clone();
        let mut number = 2;
        while !taken.insert(name.to_lowercase()) {
            name = format!("{stem}-{number}");
            number += 1;
        }
        folders.push(Some(save_dir.join(name)));
    }
    folders
}

fn print(printer: &Printer, outcomes: &[Outcome], format: ListFormat) -> Result<(), CliError> {
    match format {
        ListFormat::Table => print_table(printer, outcomes),
        ListFormat::Json => {
            let items: Vec<Value> = outcomes.iter().map(Outcome::json).collect();
            printer.data(&output::pretty(&json!({"schema_version": 1, "items": items}))?)
        }
        ListFormat::Ndjson => {
            let mut text = String::new();
            for outcome in outcomes {
                text.push_str(&output::compact(&outcome.json())?);
            }
            printer.data(&text)
        }
        ListFormat::Csv => {
            let mut csv = Csv::new(&[
                "path",
                "status",
                "run_id",
                "name",
                "trajectories",
                "saved_path",
                "saved_dir",
                "defects",
                "reason",
            ]);
            for outcome in outcomes {
                let path = |path: &Option<PathBuf>| {
                    path.as_ref().map(|p| p.display().to_string()).unwrap_or_default()
                };
                csv.row([
                    outcome.source.display().to_string(),
                    outcome.status.name().to_owned(),
                    outcome.run.as_ref().map(|run| run.run_id.to_string()).unwrap_or_default(),
                    outcome.run.as_ref().map(|run| run.name.clone()).unwrap_or_default(),
                    outcome.trajectories.map(|n| n.to_string()).unwrap_or_default(),
                    path(&outcome.saved_path),
                    path(&outcome.saved_dir),
                    outcome.defects.len().to_string(),
                    outcome.error.as_ref().map(CliError::reason).unwrap_or_default(),
                ]);
            }
            printer.data(&csv.finish())
        }
    }
}

/// A single log gets sentences, several get a table.
fn print_table(printer: &Printer, outcomes: &[Outcome]) -> Result<(), CliError> {
    if let [outcome] = outcomes {
        let mut text = String::new();
        let trajectories =
            output::plural(outcome.trajectories.unwrap_or_default(), "trajectory", "trajectories");
        if let Some(run) = &outcome.run {
            let name = output::neutral(&run.name);
            text.push_str(&match run.status {
                MadeStatus::Created => format!("made run {}: {name}, {trajectories}\n", run.run_id),
                MadeStatus::Unchanged => {
                    format!("already there: run {}: {name}, {trajectories}\n", run.run_id)
                }
                MadeStatus::Edited => {
                    format!("already there, and edited: run {}: {name}, {trajectories}\n", run.run_id)
                }
                MadeStatus::Restored => format!("brought back run {}: {name}, {trajectories}\n", run.run_id),
                MadeStatus::Replaced => {
                    format!("replaced the log of run {}: {name}, {trajectories}\n", run.run_id)
                }
            });
        }
        for path in [&outcome.saved_path, &outcome.saved_dir].into_iter().flatten() {
            let shown = path.display().to_string();
            text.push_str(&format!("wrote {}: {trajectories}\n", output::neutral(&shown)));
        }
        if outcome.status == Status::Skipped {
            printer.note("skipped");
        }
        return printer.data(&text);
    }
    if outcomes.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(
        printer,
        &[
            ("STATUS", Align::Whole),
            ("RUN", Align::Whole),
            ("TRAJECTORIES", Align::Right),
            ("NAME", Align::Name),
            ("LOG", Align::Left),
        ],
    );
    for outcome in outcomes {
        table.row([
            outcome.status.name().to_owned(),
            outcome.run.as_ref().map_or_else(|| "-".to_owned(), |run| run.run_id.to_string()),
            outcome.trajectories.map_or_else(|| "-".to_owned(), output::count),
            outcome.run.as_ref().map_or_else(|| "-".to_owned(), |run| run.name.clone()),
            outcome.source.display().to_string(),
        ]);
    }
    printer.data(&table.finish())
}

/// Turns the outcomes into one exit code, and sums them up.
fn verdict(printer: &Printer, outcomes: Vec<Outcome>, format: ListFormat) -> Result<(), CliError> {
    let total = outcomes.len();
    let count = |status| outcomes.iter().filter(|outcome| outcome.status == status).count();
    let failed = count(Status::Failed);
    if total > 1 && format == ListFormat::Table {
        let parts: Vec<String> = [
            Status::Created,
            Status::Replaced,
            Status::Restored,
            Status::Unchanged,
            Status::Saved,
            Status::Skipped,
            Status::Failed,
        ]
        .into_iter()
        .filter(|&status| count(status) > 0)
        .map(|status| format!("{} {}", count(status), status.name()))
        .collect();
        printer.note(&format!("{total} logs: {}", parts.join(", ")));
    }
    if failed == 0 {
        return Ok(());
    }
    if total == 1 {
        // The one log's own error says more than any sum.
        return match outcomes.into_iter().find_map(|outcome| outcome.error) {
            Some(error) => Err(error),
            None => Err(CliError::internal("a log failed without a reason")),
        };
    }
    let some_part =
        outcomes.iter().any(|o| o.error.as_ref().is_some_and(|error| error.kind() == Kind::Partial));
    let error = if failed == total && !some_part {
        CliError::data(format!("all {total} logs failed"))
    } else {
        CliError::partial(format!("{failed} of {total} logs failed"))
    };
    let mut hints = Vec::new();
    for hint in outcomes.iter().filter_map(|outcome| outcome.error.as_ref()).flat_map(CliError::hints) {
        if !hints.contains(hint) {
            hints.push(hint.clone());
        }
    }
    Err(hints.into_iter().fold(error, CliError::hint))
}
