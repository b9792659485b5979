//! `ct runs sample`.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, RandomState};
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use clap::Args;
use ct_model::sampling::{
    self, Draw, DrawnFrom, Item, Manifest, Request, STRATA_DEFAULT, SamplingError, Sizes, Source,
};
use ct_model::{DatasetChange, DatasetKind, DatasetName, Field, Filter, RunId, TrajectoryId};
use serde_json::json;

use super::sources::RUN_FILE;
use crate::commands::dataset::{Datasets, NewDataset, named};
use crate::commands::{Context, target};
use crate::error::CliError;
use crate::home::Home;
use crate::output::{self, Align, Csv, ListFormat, Printer, Table};
use crate::pipeline::{self, Selection, partial};

/// The file that records the draw beside the parts.
const MANIFEST_FILE: &str = "manifest.json";

const EXAMPLES: &str = "\
Examples:
  ct runs sample 3fa94c1b 10                          Ten trajectories
  ct runs sample 3fa94c1b 10 10 _ --stratified --seed 1
                                                      Twice ten, and the rest as a third
  ct runs sample 3fa94c1b 20% --group-by sample       A fifth; the epochs of a sample stay together
  ct runs sample 3fa94c1b 50 --filter 'side_outcome=pass and cost<0.5'
  ct runs sample 3fa94c1b 80% _ --save-dir split/     split/part-1, split/rest, split/manifest.json
  ct runs sample 3fa94c1b 80% _ --dataset split --seed 1
                                                      The datasets split-1 and split-rest
  ct runs sample 3fa94c1b 5 --format json | jq -r '.parts[0].trajectory_ids[]'

The same run, sizes, filter and seed give the same parts on every machine.";

/// Draw trajectories of a run into parts that do not overlap.
///
/// Draws without replacement. Each SIZE is a part: a number of trajectories (10), or a share of all that pass the
/// filters (12.5%). A last _ makes the rest a part, as --keep-rest does. Asking for more than there is, is an error.
///
/// With --stratified each part has each stratum's share, off by at most one from the exact proportion, and you are
/// told which strata are too thin for that to mean much.
///
/// Filters compare fields: environment=web_scraping, main_outcome=fail,unscored, cost>0.5, actions=5..20,
/// name~leak, metadata.protocol="ct/null"; joined by and, or, not and parentheses. Several --filter must all pass.
/// Fields, for filters, strata and groups: id, sample, epoch, name, environment, main_task, side_task, policy,
/// model, author, tag, dataset, main_outcome, side_outcome, errored, error, error_type, cost, tokens, actions,
/// suspicion, duration, started, metadata.KEY, eval_metadata.KEY.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SampleArgs {
    /// The run: an id, the beginning of one, or its address
    #[arg(value_name = "RUN")]
    run: String,
    /// Sizes of the parts: N, P%, and a last _ for the rest
    #[arg(value_name = "SIZE", required = true)]
    sizes: Vec<String>,
    /// Make the rest a last part
    #[arg(long)]
    keep_rest: bool,
    /// Keep each stratum's share in each part; strata are environment, main task and side task
    #[arg(long)]
    stratified: bool,
    /// Keep shares by these fields instead, separated by commas
    #[arg(long, value_name = "FIELDS", value_delimiter = ',')]
    stratify_by: Vec<Field>,
    /// Keep trajectories with the same value of this field in one part; sizes then count groups
    #[arg(long, value_name = "FIELD")]
    group_by: Option<Field>,
    /// Decides the draw; without it one is drawn and printed
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Draw only from the trajectories that pass; may be given several times
    #[arg(long, value_name = "FILTER")]
    filter: Vec<Filter>,
    /// Write a run folder for each part, and the manifest, into this folder
    #[arg(long, value_name = "DIR")]
    save_dir: Option<PathBuf>,
    /// Let --save-dir write over other files
    #[arg(long, requires = "save_dir")]
    overwrite: bool,
    /// Make datasets of the parts, NAME-1, NAME-2 and so on, and NAME-rest; the record of the draw is their description
    #[arg(long, value_name = "NAME", value_parser = named)]
    dataset: Option<DatasetName>,
    /// How to print the parts: table, json, ndjson or csv
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: ListFormat,
}

/// Draws, prints, and writes what is to be written.
pub(super) fn sample(arguments: &SampleArgs, context: &Context) -> Result<(), CliError> {
    let printer = &context.printer;
    let sizes = Sizes::parse(&arguments.sizes, arguments.keep_rest)
        .map_err(|error| CliError::usage(error.to_string()).hint("such as: ct runs sample RUN 10 20% _"))?;
    let seed = match arguments.seed {
        Some(seed) => seed,
        None => {
            let seed = random_seed();
            printer.note(&format!("seed: {seed}"));
            seed
        }
    };
    let stratify_by = match (arguments.stratify_by.as_slice(), arguments.stratified) {
        ([], true) => STRATA_DEFAULT.to_vec(),
        (fields, _) => fields.to_vec(),
    };
    let request = Request { sizes, stratify_by, group_by: arguments.group_by.clone(), seed };
    let home = context.home_of(&arguments.run)?;
    let run = target::run(&home, &arguments.run)?;
    let population = population(&home, &run, &request, &arguments.filter)?;
    let draw = sampling::draw(&population.items, &request).map_err(|error| refused(&error, &run))?;
    let source = Source {
        run: DrawnFrom {
            run_id: run.clone(),
            log_sha256: home.run(&run)?.log.map_or_else(String::new, |log| log.hash.to_string()),
        },
        more_runs: Vec::new(),
        filters: arguments.filter.iter().map(ToString::to_string).collect(),
    };
    let manifest = Manifest::new(source, &request, &draw);
    for warning in &draw.warnings {
        printer.warning(&warning.to_string());
    }
    if draw.population.errored > 0 {
        printer.note(&format!(
            "{} of {} ended with an error and can be drawn like the others; leave them out with: --filter errored=false",
            draw.population.errored,
            output::plural(draw.population.trajectories as u64, "trajectory", "trajectories"),
        ));
    }
    let datasets = Datasets::new(&home);
    let planned = match &arguments.dataset {
        Some(name) => Some(plan_datasets(&datasets, name, &draw, &manifest)?),
        None => None,
    };
    let saved = match &arguments.save_dir {
        Some(folder) => clear(folder, &draw, &manifest, &population, arguments.overwrite, printer)
            .and_then(|()| save(&home, &run, &draw, &manifest, folder, arguments.overwrite, printer)),
        None => Ok(()),
    };
    let published = match planned.filter(|_| saved.is_ok()) {
        Some(planned) => make_datasets(&datasets, planned, printer)?,
        None => Vec::new(),
    };
    print(printer, &draw, &manifest, &population.names, &published, arguments.format)?;
    saved
}

/// What becomes of a part: a dataset to be made, or one that is there already and the same.
enum PartDataset {
    New(NewDataset),
    There(DatasetChange),
}

/// The datasets of the parts. One that is there and holds something else is in the way, and then none is made.
fn plan_datasets(
    datasets: &Datasets<'_>,
    name: &DatasetName,
    draw: &Draw,
    manifest: &Manifest,
) -> Result<Vec<PartDataset>, CliError> {
    let description = output::compact(manifest)?;
    let plan = |part: &sampling::Part| {
        let end = part.name.strip_prefix("part-").unwrap_or(&part.name);
        let new = NewDataset {
            name: named(&format!("{name}-{end}")).map_err(CliError::usage)?,
            kind: DatasetKind::Trajectory,
            item_ids: part.ids.iter().map(ToString::to_string).collect(),
            description: Some(description.trim_end().to_owned()),
        };
        let there = new.check(datasets.find(&new.name)?);
        let there =
            there.map_err(|error| error.hint("name other datasets with --dataset; nothing was written"))?;
        Ok(there.map_or_else(|| PartDataset::New(new), PartDataset::There))
    };
    draw.parts.iter().map(plan).collect()
}

fn make_datasets(
    datasets: &Datasets<'_>,
    planned: Vec<PartDataset>,
    printer: &Printer,
) -> Result<Vec<DatasetChange>, CliError> {
    let mut made = Vec::with_capacity(planned.len());
    for planned in planned {
        let change = match planned {
            PartDataset::New(new) => new.make(datasets)?,
            PartDataset::There(change) => change,
        };
        printer.note(&format!(
            "dataset {}: version {}, {}{}",
            change.name,
            change.version,
            output::plural(change.item_count, "trajectory", "trajectories"),
            if change.changed { "" } else { ", there already" }
        ));
        made.push(change);
    }
    Ok(made)
}

/// What can be drawn.
struct Population {
    items: Vec<Item>,
    names: BTreeMap<String, String>,
}

fn population(
    home: &Home,
    run: &RunId,
    request: &Request,
    filters: &[Filter],
) -> Result<Population, CliError> {
    let mut population = Population { items: Vec::new(), names: BTreeMap::new() };
    let mut failed = None;
    home.documents(run, &mut |document| {
        if !filters.iter().all(|filter| filter.matches(&document)) {
            return ControlFlow::Continue(());
        }
        match Item::new(&document, request) {
            Ok(item) => {
                population.names.insert(item.id.to_string(), document.name);
                population.items.push(item);
                ControlFlow::Continue(())
            }
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    match failed {
        Some(error) => Err(refused(&error, run)),
        None => Ok(population),
    }
}

fn refused(error: &SamplingError, run: &RunId) -> CliError {
    let message = format!("nothing was drawn from run {run}: {error}");
    match error {
        SamplingError::NoId { .. } | SamplingError::Duplicate { .. } => CliError::data(message),
        _ => CliError::usage(message),
    }
}

/// A seed from the system's source of randomness, short enough to type and exact in every JSON reader.
fn random_seed() -> u64 {
    RandomState::new().hash_one("seed") & u64::from(u32::MAX)
}

/// Makes room for a draw: parts that an earlier one wrote here and this one does not have, and its manifest, are in the
/// way unless `overwrite`, and then they go.
fn clear(
    folder: &Path,
    draw: &Draw,
    manifest: &Manifest,
    population: &Population,
    overwrite: bool,
    printer: &Printer,
) -> Result<(), CliError> {
    let path = folder.join(MANIFEST_FILE);
    let there = std::fs::read(&path).ok();
    let other = there.is_some_and(|there| there != output::pretty(manifest).unwrap_or_default().as_bytes());
    let stale: Vec<PathBuf> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let number = name.strip_prefix("part-").unwrap_or_default();
            (name == "rest" || number.parse::<u64>().is_ok())
                && !draw.parts.iter().any(|part| part.name == name)
        })
        .map(|entry| entry.path())
        .filter(|part| part.join(RUN_FILE).is_file())
        .collect();
    if !overwrite && (other || !stale.is_empty()) {
        let of = if other { &path } else { &stale[0] };
        return Err(CliError::conflict(format!("{} records another draw", of.display()))
            .hint("write over it with --overwrite, or name another folder"));
    }
    for part in &stale {
        remove_part(part, population, printer)?;
    }
    if other {
        std::fs::remove_file(&path).map_err(|error| CliError::io("remove", &path, &error))?;
    }
    Ok(())
}

/// Removes a part of an earlier draw: the files that its `run.json` lists, of an unfinished one those of the run, and
/// nothing else.
fn remove_part(part: &Path, population: &Population, printer: &Printer) -> Result<(), CliError> {
    let file = part.join(RUN_FILE);
    let run = std::fs::read(&file).map_err(|error| CliError::io("read", &file, &error))?;
    let run = ct_log::json::parse(&run).unwrap_or_default();
    let ids: Vec<&str> = match run.get("trajectory_ids").and_then(|ids| ids.as_array()) {
        Some(ids) => ids.iter().filter_map(|id| id.as_str()).collect(),
        None if run.get("complete").is_some() => population.names.keys().map(String::as_str).collect(),
        None => {
            printer.warning(&format!("{} is no part that a draw wrote, and stays", part.display()));
            return Ok(());
        }
    };
    let ids = ids.into_iter().filter_map(|id| TrajectoryId::new(id).ok());
    let files = ids.map(|id| part.join(format!("{id}.json"))).chain([file.clone()]);
    for file in files {
        match std::fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(CliError::io("remove", &file, &error));
            }
            _ => {}
        }
    }
    if std::fs::remove_dir(part).is_err() {
        printer.warning(&format!("{} holds other files too, and stays", part.display()));
    }
    Ok(())
}

/// Writes a run folder for each part, and the manifest last: a folder with a manifest is whole.
fn save(
    home: &Home,
    run: &RunId,
    draw: &Draw,
    manifest: &Manifest,
    folder: &Path,
    overwrite: bool,
    printer: &Printer,
) -> Result<(), CliError> {
    let path = folder.join(MANIFEST_FILE);
    let text = output::pretty(manifest)?;
    let mut failed = 0;
    for part in &draw.parts {
        let progress = printer.progress();
        progress.prefix(format!("{}: ", part.name));
        let selection = Selection { trajectories: Some(part.ids.iter().cloned().collect::<BTreeSet<_>>()) };
        let report =
            pipeline::download(home, run, &selection, &folder.join(&part.name), overwrite, &progress);
        progress.clear();
        let mut report = report?;
        if let Some(error) = report.stopped.take() {
            return Err(error);
        }
        for item in &report.failed {
            printer.warning(&format!(
                "{} failed: {}: {}",
                item.trajectory_id,
                item.path.display(),
                item.reason
            ));
            failed += 1;
        }
    }
    if failed > 0 {
        return Err(CliError::partial(format!(
            "{} could not be written; the manifest was left out",
            output::plural(failed, "trajectory", "trajectories")
        )));
    }
    let write = || {
        let mut file = partial::file_in(folder)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(&path).map_err(|error| error.error)
    };
    write().map_err(|error| CliError::io("write", &path, &error))?;
    Ok(())
}

fn print(
    printer: &Printer,
    draw: &Draw,
    manifest: &Manifest,
    names: &BTreeMap<String, String>,
    published: &[DatasetChange],
    format: ListFormat,
) -> Result<(), CliError> {
    match format {
        ListFormat::Table => printer.data(&page(printer, draw, manifest, names)),
        ListFormat::Json => {
            let parts: Vec<_> = draw
                .parts
                .iter()
                .enumerate()
                .map(|(index, part)| {
                    let mut value = json!({"name": part.name, "trajectory_ids": part.ids});
                    if let Some(change) = published.get(index) {
                        value["dataset"] = json!({"name": change.name, "version": change.version});
                    }
                    value
                })
                .collect();
            let document = json!({"schema_version": 1, "manifest": manifest, "parts": parts});
            printer.data(&output::pretty(&document)?)
        }
        ListFormat::Ndjson => {
            let mut text = String::new();
            for part in &draw.parts {
                for id in &part.ids {
                    text.push_str(&output::compact(&json!({"part": part.name, "trajectory_id": id}))?);
                }
            }
            printer.data(&text)
        }
        ListFormat::Csv => {
            let mut csv = Csv::new(&["part", "trajectory_id"]);
            for part in &draw.parts {
                for id in &part.ids {
                    csv.row([part.name.clone(), id.to_string()]);
                }
            }
            printer.data(&csv.finish())
        }
    }
}

fn page(printer: &Printer, draw: &Draw, manifest: &Manifest, names: &BTreeMap<String, String>) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        text.push_str(&format!("{name:<12} {}\n", output::neutral(value)));
    };
    line("run", manifest.run_id.as_str());
    line("log", &format!("sha256 {}", manifest.log_sha256));
    line("seed", &manifest.seed.to_string());
    let population = &draw.population;
    line("drawn from", &format!("{} trajectories, {} errored", population.trajectories, population.errored));
    for filter in &manifest.filters {
        line("filter", filter);
    }
    if let Some(field) = &manifest.group_by {
        line("groups", &format!("{} by {field}", population.units));
    }

    let mut parts = Table::new(
        printer,
        &[
            ("PART", Align::Whole),
            ("ASKED", Align::Right),
            ("GOT", Align::Right),
            ("TRAJECTORIES", Align::Right),
            ("ERRORED", Align::Right),
        ],
    );
    for part in &draw.parts {
        parts.row([
            part.name.clone(),
            part.size.map_or_else(|| "rest".to_owned(), |size| size.to_string()),
            part.units.to_string(),
            part.ids.len().to_string(),
            part.errored.to_string(),
        ]);
    }
    text.push('\n');
    text.push_str(&parts.finish());

    if !draw.strata.is_empty() {
        let fields: Vec<String> = manifest.stratify_by.iter().map(ToString::to_string).collect();
        let title = format!("STRATUM ({})", fields.join(", "));
        let mut columns = vec![(title.as_str(), Align::Left), ("HAD", Align::Right)];
        columns.extend(draw.parts.iter().map(|part| (part.name.as_str(), Align::Right)));
        let mut strata = Table::new(printer, &columns);
        for stratum in &draw.strata {
            let key: Vec<&str> = stratum.key.iter().map(|value| value.as_deref().unwrap_or("-")).collect();
            let thin = if stratum.is_thin { "  (thin)" } else { "" };
            let mut row = vec![format!("{}{thin}", key.join(", ")), stratum.units.to_string()];
            row.extend(stratum.shares.iter().map(|share| format!("{} of {}", share.got, share.exact)));
            strata.row(row);
        }
        text.push('\n');
        text.push_str(&strata.finish());
    }

    let mut ids =
        Table::new(printer, &[("PART", Align::Whole), ("TRAJECTORY", Align::Whole), ("NAME", Align::Name)]);
    for part in &draw.parts {
        for id in &part.ids {
            ids.row([part.name.as_str(), id.as_str(), names.get(id.as_str()).map_or("", String::as_str)]);
        }
    }
    text.push('\n');
    text.push_str(&ids.finish());
    text
}
