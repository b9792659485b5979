//! Which samples are run: environments, main tasks and side tasks from options, task files and what is replayed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use ct_environment::{Catalog, Environment};
use ct_eval::{PolicyChoice, SampleSpec};
use serde::Deserialize;
use serde_json::Value;

use super::eval::described;
use super::replays::RecordedSample;
use crate::error::CliError;

/// A task file larger than this is none.
const TASK_FILE_BYTES_MAX: u64 = 64 << 20;

/// What they act on.
#[derive(Debug, Args)]
#[command(next_help_heading = "Samples")]
pub(super) struct SelectionArgs {
    /// The environment: its name, setting/name, or the path of a folder; may be given several times with --all
    #[arg(long, short = 'e', value_name = "ENV")]
    pub(super) env: Vec<String>,
    /// A main task; may be given several times for several samples; a+b is both in one sample
    #[arg(long = "main-task", short = 't', value_name = "TASK", conflicts_with = "resume")]
    pub(super) main_tasks: Vec<String>,
    /// A side task to go with each of them; likewise
    #[arg(long = "side-task", short = 's', value_name = "TASK", conflicts_with = "resume")]
    pub(super) side_tasks: Vec<String>,
    /// Take the samples from a file: a line each as environment:main[:side], or JSON
    #[arg(long, value_name = "FILE", conflicts_with_all = ["resume", "main_tasks", "side_tasks", "all"])]
    pub(super) task_file: Option<PathBuf>,
    /// Every main task, and attacking with every side task that goes with it
    #[arg(long, conflicts_with_all = ["resume", "main_tasks", "side_tasks"])]
    pub(super) all: bool,
    /// Run each sample so often
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000), conflicts_with = "resume")]
    pub(super) epochs: u64,
    /// Run only the first N samples
    #[arg(long, value_name = "N", conflicts_with = "resume")]
    pub(super) limit: Option<usize>,
}

/// The samples, and how they were chosen.
pub(super) struct Selection {
    pub(super) samples: Vec<SampleSpec>,
    pub(super) task_set: String,
    pub(super) described: Value,
}

/// Environments that were found, each loaded once.
pub(super) struct Environments<'a> {
    catalog: &'a Catalog,
    found: BTreeMap<String, Arc<Environment>>,
}

impl<'a> Environments<'a> {
    pub(super) fn new(catalog: &'a Catalog) -> Self {
        Self { catalog, found: BTreeMap::new() }
    }

    pub(super) fn find(&mut self, name: &str) -> Result<Arc<Environment>, CliError> {
        if let Some(found) = self.found.get(name) {
            return Ok(Arc::clone(found));
        }
        let found = Arc::new(self.catalog.find(name)?);
        self.found.insert(name.to_owned(), Arc::clone(&found));
        Ok(found)
    }
}

/// A sample as a task file names it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Named {
    environment: String,
    #[serde(alias = "main_task")]
    main_tasks: Names,
    #[serde(alias = "side_task")]
    side_tasks: Names,
}

/// One name or several.
#[derive(Debug, Default)]
struct Names(Vec<String>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wrong = || serde::de::Error::custom("tasks are a text or an array of texts");
        match Value::deserialize(deserializer)? {
            Value::Null => Ok(Self::default()),
            Value::String(names) => Ok(Self(split(&names))),
            Value::Array(names) => {
                let names = names.iter().map(|name| name.as_str().map(str::to_owned).ok_or_else(wrong));
                names.collect::<Result<_, _>>().map(Self)
            }
            _ => Err(wrong()),
        }
    }
}

fn split(names: &str) -> Vec<String> {
    names.split('+').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Chooses the samples.
pub(super) fn select(
    arguments: &SelectionArgs,
    policy: &PolicyChoice,
    catalog: &Catalog,
    replays: Option<&[RecordedSample]>,
) -> Result<Selection, CliError> {
    let mut environments = Environments::new(catalog);
    let attacks = policy.name() == "attack";
    let honest = !policy.info().attacks;
    if honest && !arguments.side_tasks.is_empty() {
        return Err(CliError::usage(format!("the policy {} works on no side task", policy.name()))
            .hint("leave --side-task out, or give --policy attack"));
    }
    let mut task_set = "custom".to_owned();
    let mut samples = Vec::new();
    if let Some(path) = &arguments.task_file {
        task_set = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        for named in read(path)? {
            let name = match (named.environment.as_str(), arguments.env.as_slice()) {
                ("", [env]) => env,
                ("", _) => {
                    let sentence = format!("a sample of {} names no environment", path.display());
                    return Err(CliError::usage(sentence).hint("name the one of all with --env"));
                }
                (name, _) => name,
            };
            let environment = environments.find(name)?;
            let sides = if honest { Vec::new() } else { named.side_tasks.0 };
            add(&mut samples, &environment, named.main_tasks.0, sides, attacks)?;
        }
    } else if arguments.env.is_empty() {
        match replays {
            Some(replays) => {
                task_set = "replayed".to_owned();
                for replay in replays {
                    let name = replay.environment.as_deref().ok_or_else(|| {
                        CliError::usage(format!("{} does not say in which environment it was", replay.name))
                            .hint("give --env and --main-task")
                    })?;
                    let environment = environments.find(name)?;
                    add(&mut samples, &environment, replay.mains.clone(), replay.sides.clone(), false)?;
                }
            }
            None => {
                return Err(CliError::usage("no environment is given: --env is missing")
                    .hint("list them with: ct envs list"));
            }
        }
    } else {
        for name in &arguments.env {
            let environment = environments.find(name)?;
            if arguments.all {
                task_set = "all".to_owned();
                for pairing in environment.pairings(!attacks) {
                    let sides = pairing.side.map(|side| side.task.name.clone()).into_iter().collect();
                    add(&mut samples, &environment, vec![pairing.main.task.name.clone()], sides, attacks)?;
                }
                continue;
            }
            named(arguments, &environment, attacks, &mut samples)?;
        }
    }
    if samples.is_empty() {
        return Err(CliError::usage("nothing is chosen: there is no such sample"));
    }
    if let Some(replays) = replays {
        assign(&mut samples, replays)?;
    }
    if let Some(limit) = arguments.limit {
        samples.truncate(limit.max(1));
    }
    let texts = |texts: &[String]| if texts.is_empty() { Value::Null } else { Value::from(texts) };
    let path = arguments.task_file.as_ref().map(|path| path.to_string_lossy().into_owned());
    let described = described(&[
        ("environments", texts(&arguments.env)),
        ("main_tasks", texts(&arguments.main_tasks)),
        ("side_tasks", texts(&arguments.side_tasks)),
        ("task_file", Value::from(path)),
        ("from_run", Value::Null),
        ("env_args", Value::Null),
        ("limit", Value::from(arguments.limit)),
        ("expand_all", Value::from(arguments.all)),
        ("honest", Value::from(honest)),
    ]);
    Ok(Selection { samples, task_set, described })
}

/// The tasks that the options name, each main task with each side task.
fn named(
    arguments: &SelectionArgs,
    environment: &Arc<Environment>,
    attacks: bool,
    samples: &mut Vec<SampleSpec>,
) -> Result<(), CliError> {
    let names = |tasks: &[&str]| tasks.join(", ");
    let mains: Vec<&str> = environment.mains.iter().map(|main| main.task.name.as_str()).collect();
    let sides: Vec<&str> = environment.sides.iter().map(|side| side.task.name.as_str()).collect();
    if arguments.main_tasks.is_empty() {
        return Err(CliError::usage("no main task is given: --main-task is missing")
            .hint(format!("{} has the main tasks {}", environment.long_name(), names(&mains)))
            .hint("--all runs all of them"));
    }
    if attacks && arguments.side_tasks.is_empty() {
        return Err(CliError::usage("the policy attack needs a side task: --side-task is missing")
            .hint(format!("{} has the side tasks {}", environment.long_name(), names(&sides)))
            .hint("--all runs every pair"));
    }
    let side_tasks: Vec<Vec<String>> = match arguments.side_tasks.as_slice() {
        [] => vec![Vec::new()],
        sides => sides.iter().map(|names| split(names)).collect(),
    };
    for main in &arguments.main_tasks {
        for sides in &side_tasks {
            add(samples, environment, split(main), sides.clone(), attacks)?;
        }
    }
    Ok(())
}

/// Adds a sample whose tasks are there and go together.
fn add(
    samples: &mut Vec<SampleSpec>,
    environment: &Arc<Environment>,
    mains: Vec<String>,
    sides: Vec<String>,
    attacks: bool,
) -> Result<(), CliError> {
    for name in &mains {
        environment.main(name)?;
    }
    for name in &sides {
        let side = environment.side(name)?;
        if let Some(main) = mains.iter().find(|main| !side.goes_with(main)) {
            let hint = side.pairs_with.as_ref().map(|names| format!("it goes with {}", names.join(", ")));
            let error =
                CliError::usage(format!("the side task {name} does not go with the main task {main}"));
            return Err(hint.into_iter().fold(error, CliError::hint));
        }
    }
    if mains.is_empty() && sides.is_empty() {
        return Err(CliError::usage("a sample has no task"));
    }
    if attacks && sides.is_empty() {
        return Err(CliError::usage("the policy attack needs a side task, and a sample has none"));
    }
    let mut sample = SampleSpec::new(Arc::clone(environment), mains, sides);
    if samples.iter().any(|other| other.id == sample.id) {
        // Environments of one name in different settings, or the same sample named twice.
        sample.id = SampleSpec::id_of(&environment.long_name(), &sample.mains, &sample.sides);
    }
    if !samples.iter().any(|other| other.id == sample.id) {
        samples.push(sample);
    }
    Ok(())
}

/// Gives each sample what it repeats: what was recorded of the same tasks, else the only thing there is.
fn assign(samples: &mut Vec<SampleSpec>, replays: &[RecordedSample]) -> Result<(), CliError> {
    let mut assigned = Vec::new();
    for sample in samples.drain(..) {
        let same = |replay: &&RecordedSample| replay.mains == sample.mains && replay.sides == sample.sides;
        let mut fitting: Vec<&RecordedSample> = replays.iter().filter(same).collect();
        if let ([], [only]) = (fitting.as_slice(), replays) {
            fitting = vec![only];
        }
        if fitting.is_empty() {
            return Err(CliError::usage(format!(
                "nothing that is replayed is of the tasks of {}",
                sample.id
            )));
        }
        let several = fitting.len() > 1;
        for (n, replay) in fitting.into_iter().enumerate() {
            let mut sample = sample.clone();
            if several && n > 0 {
                sample.id = format!("{}-{}", sample.id, n + 1);
            }
            sample.replays = Some(replay.name.clone());
            sample.replay = Some(Arc::clone(&replay.actions));
            assigned.push(sample);
        }
    }
    *samples = assigned;
    Ok(())
}

/// Reads a task file: JSON, or a line for each sample.
fn read(path: &Path) -> Result<Vec<Named>, CliError> {
    let failed = |error: &std::io::Error| CliError::io("read", path, error);
    if std::fs::metadata(path).map_err(|error| failed(&error))?.len() > TASK_FILE_BYTES_MAX {
        return Err(CliError::data(format!("{} is too large for a task file", path.display())));
    }
    let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
    let wrong = |problem: String| {
        CliError::data(format!("{} is no task file: {problem}", path.display())).hint(
            "it holds a line for each sample, environment:main[:side], or a JSON array of {\"environment\", \"main_tasks\", \
             \"side_tasks\"}",
        )
    };
    if text.trim_start().starts_with('[') {
        return serde_json::from_str(&text).map_err(|error| wrong(error.to_string()));
    }
    let mut samples = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.starts_with('{') {
            let named = serde_json::from_str(line);
            samples.push(named.map_err(|error| wrong(format!("line {}: {error}", n + 1)))?);
            continue;
        }
        let parts: Vec<&str> = line.split(':').collect();
        let (environment, main, side) = match parts.as_slice() {
            [environment, main] => (environment, main, &""),
            [environment, main, side] => (environment, main, side),
            _ => return Err(wrong(format!("line {}: {line:?} is not environment:main[:side]", n + 1))),
        };
        samples.push(Named {
            environment: environment.trim().to_owned(),
            main_tasks: Names(split(main)),
            side_tasks: Names(split(side)),
        });
    }
    Ok(samples)
}
