//! From what the user names to a log that can be opened: the file itself, or a temporary one when scores are to be
//! left out or a folder of trajectory files has to be put together first.

use std::path::{Path, PathBuf};

use ct_log::Log;
use ct_model::{LogFormat, PriceTable};

use super::partial::TemporaryFolder;
use super::{MakeOptions, assemble, save};
use crate::error::CliError;
use crate::output::Progress;

/// A log to work on.
pub(super) struct Input {
    /// The log.
    pub(super) path: PathBuf,
    pub(super) format: LogFormat,
    /// What was lost on the way.
    pub(super) defects: Vec<String>,
    /// What the user asks for; for a folder also what its `run.json` says apart from the log.
    pub(super) options: MakeOptions,
    /// Holds a temporary log for as long as it is needed.
    _folder: Option<TemporaryFolder>,
}

impl Input {
    pub(super) fn open(source: &Path, options: &MakeOptions, progress: &Progress) -> Result<Self, CliError> {
        let mut input = Self {
            path: source.to_owned(),
            format: LogFormat::Eval,
            defects: Vec::new(),
            options: options.clone(),
            _folder: None,
        };
        if source.is_dir() {
            let folder = temporary_folder()?;
            let path = folder.path().join("assembled.eval");
            let assembled = assemble::assemble(source, &path, progress)?;
            input.defects = assembled.defects;
            let (said, options) = (assembled.said, &mut input.options);
            options.run_name = options.run_name.take().or(said.name);
            options.policy = options.policy.take().or(said.policy);
            options.task_set = options.task_set.take().or(said.task_set);
            options.tags.extend(said.tags);
            input.path = path;
            input._folder = Some(folder);
        }
        if !options.drop_scores.is_empty() {
            let folder = temporary_folder()?;
            let path = folder.path().join("filtered.eval");
            let log = open(&input.path)?;
            input.defects.extend(save::without_scores(&log, &path, &options.drop_scores, progress)?);
            input.path = path;
            input._folder = Some(folder);
        }
        input.format = match open(&input.path)?.format() {
            ct_log::Format::Eval => LogFormat::Eval,
            ct_log::Format::Json => LogFormat::Json,
        };
        Ok(input)
    }
}

pub(super) fn temporary_folder() -> Result<TemporaryFolder, CliError> {
    let parent = std::env::temp_dir();
    TemporaryFolder::new_in(&parent).map_err(|e| CliError::io("make a temporary folder in", &parent, &e))
}

/// Opens a log.
pub(super) fn open(path: &Path) -> Result<Log, CliError> {
    Log::open(path).map_err(|e| CliError::log(path, &e))
}

/// Reads a rate file.
pub(crate) fn prices(path: Option<&Path>) -> Result<Option<PriceTable>, CliError> {
    let Some(path) = path else { return Ok(None) };
    let rows = std::fs::read(path).map_err(|e| CliError::io("read", path, &e))?;
    let table = PriceTable::parse(&rows).map_err(|e| {
        CliError::data(format!("{} is no rate file", path.display()))
            .because(&e)
            .hint("a rate file holds rows {\"model\": …, \"pricing\": {…}} as /api/pricing answers them")
    })?;
    Ok(Some(table))
}
