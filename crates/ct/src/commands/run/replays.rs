//! What a replay repeats: the actions recorded in a log, a run, or one trajectory.

use std::io::Read;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use ct_eval::Replay;
use ct_log::Log;
use ct_model::TrajectoryDocument;
use ct_model::convert::{HeaderFacts, convert_sample};

use crate::commands::runs::remote_eval;
use crate::commands::target::Target;
use crate::commands::{Context, target};
use crate::error::{CliError, Kind};

/// One sample that was recorded.
pub(super) struct RecordedSample {
    /// What it is called: its id and epoch, or that of its trajectory.
    pub(super) name: String,
    pub(super) environment: Option<String>,
    pub(super) mains: Vec<String>,
    pub(super) sides: Vec<String>,
    pub(super) actions: Arc<Replay>,
}

impl RecordedSample {
    fn new(name: String, document: &TrajectoryDocument, actions: Replay) -> Self {
        let ids = |id: Option<&String>| -> Vec<String> {
            id.into_iter().flat_map(|id| id.split('+')).map(str::to_owned).collect()
        };
        Self {
            name,
            environment: document.environment.as_ref().and_then(|environment| environment.id.clone()),
            mains: ids(document.main_task.as_ref().and_then(|task| task.id.as_ref())),
            sides: ids(document.side_task.as_ref().and_then(|task| task.id.as_ref())),
            actions: Arc::new(actions),
        }
    }
}

/// Reads the actions of what a word names: a log's path or address, or a run's or a trajectory's id or address.
pub(super) fn read(source: &str, context: &Context) -> Result<Vec<RecordedSample>, CliError> {
    let path = Path::new(source);
    let is_file = path.is_file() || source.ends_with(".eval") || source.ends_with(".json");
    let progress = context.printer.progress();
    let recorded = if is_file || target::is_log_address(source) {
        let fetched = remote_eval::fetched(path, context, &progress)?;
        of_log(fetched.as_ref().map_or(path, |log| &log.path))
    } else {
        of_home(source, context)
    };
    progress.clear();
    let recorded = recorded?;
    if recorded.is_empty() {
        return Err(CliError::data(format!("{source} holds nothing to replay")));
    }
    Ok(recorded)
}

fn of_log(path: &Path) -> Result<Vec<RecordedSample>, CliError> {
    let failed = |error: &ct_log::LogError| CliError::log(path, error);
    let log = Log::open(path).map_err(|error| failed(&error))?;
    let header = log.header().map_err(|error| failed(&error))?;
    let facts = HeaderFacts::from_value(&header.value);
    let mut recorded = Vec::new();
    for sample in log.samples().map_err(|error| failed(&error))? {
        let document = convert_sample(&log, sample, &facts, None).map_err(|error| failed(&error))?.document;
        let json = log.read_sample(sample).map_err(|error| failed(&error))?;
        let name = format!("{}#{}", sample.id, sample.epoch);
        recorded.push(RecordedSample::new(name, &document, actions(json, path)?));
    }
    Ok(recorded)
}

fn actions(json: impl Read, path: &Path) -> Result<Replay, CliError> {
    Replay::read(json).map_err(|error| {
        CliError::data(format!("failed to read the actions in {}", path.display())).because(&error)
    })
}

/// A run or a trajectory of the store or a server.
fn of_home(source: &str, context: &Context) -> Result<Vec<RecordedSample>, CliError> {
    let home = context.home_of(source)?;
    let parsed = Target::parse(source)?;
    let mut documents = Vec::new();
    let run = match parsed {
        Target::TrajectoryPage { .. } => None,
        _ => match target::run(&home, source) {
            Ok(run) => Some(run),
            Err(error) if error.kind() == Kind::NotFound && matches!(parsed, Target::Id(_)) => None,
            Err(error) => return Err(error),
        },
    };
    match &run {
        Some(run) => home.documents(run, &mut |document| {
            documents.push(document);
            ControlFlow::Continue(())
        })?,
        None => {
            let id = target::trajectory(&home, source).map_err(|error| match error.kind() {
                Kind::NotFound => CliError::not_found(format!("no run and no trajectory is called {source}")),
                _ => error,
            })?;
            documents.push(home.document(&id)?);
        }
    }
    let run = run.or_else(|| documents.first().and_then(|document| document.run_id.clone()));
    let run = run.ok_or_else(|| CliError::data(format!("{source} belongs to no run, so it has no log")))?;
    let log = home.log(&home.run(&run)?, &run)?;
    let mut recorded = Vec::new();
    for document in &documents {
        let actions = actions(log.read(document)?, &log.name)?;
        let name = document.trajectory_id.as_ref().map_or_else(String::new, ToString::to_string);
        recorded.push(RecordedSample::new(name, document, actions));
    }
    Ok(recorded)
}
