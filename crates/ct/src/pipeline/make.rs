//! A log becomes a run in the store.

use std::fs::File;
use std::path::Path;

use ct_log::{Log, LogError};
use ct_model::convert::{
    HeaderFacts, Registration, RunOptions, TrajectoryIds, convert_log, run_header, run_id_of,
};
use ct_model::{PriceTable, RunEdit, RunHeader, RunId, RunStatus, TrajectoryDocument};
use ct_store::{
    Actor, CommitMode, Committed, Conflict, Ingest, KnownRun, NewRun, StagedLog, Store, StoreError,
};

use super::input::{self, Input};
use super::{Made, MadeRun, MadeStatus, MakeOptions, OtherBytes, threads};
use crate::error::CliError;
use crate::output::Progress;

/// Makes a run of a log file, or of a folder that holds the trajectory files of a run.
pub(crate) fn make_run(
    store: &Store,
    source: &Path,
    options: &MakeOptions,
    progress: &Progress,
) -> Result<Made, CliError> {
    let input = Input::open(source, options, progress)?;
    let prices = input::prices(options.prices.as_deref())?;
    for ids in [Ids::ByEval, Ids::ByLog] {
        if let Some(made) = attempt(store, source, &input, prices.as_ref(), ids, progress)? {
            return Ok(made);
        }
    }
    Err(CliError::internal("ids of a run of its own are taken"))
}

/// Where the ids of a new run's trajectories come from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ids {
    /// What the log recorded, or its eval; from the log's bytes when a run of the same eval is there.
    ByEval,
    /// The log's bytes, so that no other run has them.
    ByLog,
}

/// `None`: another run, perhaps a deleted one, has trajectories of these ids, and a run of its own was asked for.
fn attempt(
    store: &Store,
    source: &Path,
    input: &Input,
    prices: Option<&PriceTable>,
    derive: Ids,
    progress: &Progress,
) -> Result<Option<Made>, CliError> {
    let options = &input.options;
    // The copy in the store is what is converted, so that hash, documents and kept bytes agree whatever happens to the
    // file meanwhile.
    let mut ingest = store.begin_ingest()?;
    let staged = stage(&mut ingest, input, progress)?;
    let known = ingest.known(&staged.hash)?;
    let again = known.as_ref().filter(|known| {
        let asked = prices.is_some() && options.other_bytes == OtherBytes::Replace;
        asked && known.revision.is_none() && !known.deleted
    });
    let again = again.map(|known| known.run_id.clone());
    let is_again = again.is_some();
    if let Some(known) = known
        && !is_again
        && (known.revision.is_none() || options.other_bytes == OtherBytes::Refuse)
    {
        return already_there(store, known, options, input.defects.clone()).map(Some);
    }

    let log = input::open(&staged.path)?;
    let header = log.header().map_err(|e| CliError::log(source, &e))?;
    let facts = HeaderFacts::from_value(&header.value);
    let same_eval = match &facts.eval_id {
        Some(eval_id) => ingest.same_eval(eval_id)?,
        None => Vec::new(),
    };
    let mode = match (same_eval.first(), options.other_bytes) {
        _ if is_again => again.map_or(CommitMode::New, CommitMode::Again),
        (None, _) | (_, OtherBytes::AsNew) => CommitMode::New,
        (_, OtherBytes::Refuse) => {
            // Another process may have made the run of these very bytes meanwhile.
            return match ingest.known(&staged.hash)? {
                Some(known) => already_there(store, known, options, input.defects.clone()).map(Some),
                None => Ok(Some(Made::SameEval { runs: same_eval })),
            };
        }
        (Some(run), OtherBytes::Replace) if same_eval.len() == 1 => CommitMode::Replace(run.clone()),
        (Some(_), OtherBytes::Replace) => return Err(several(&same_eval)),
    };
    let run_id = match &mode {
        CommitMode::New => run_id_of(staged.hash.as_str()).map_err(|e| CliError::internal(e.to_string()))?,
        CommitMode::Replace(run) | CommitMode::Again(run) => run.clone(),
    };

    let mut ids = if derive == Ids::ByEval && (same_eval.is_empty() || mode != CommitMode::New) {
        TrajectoryIds::new(&facts, staged.hash.as_str())
    } else {
        // A second run of the same eval: its trajectories are others than those of the first.
        TrajectoryIds::of_second_run(staged.hash.as_str())
    };
    let conversion =
        Conversion { source, read: &staged.path, log: &log, facts: &facts, prices, run_id: &run_id };
    let (registration, defects) =
        conversion.run(&mut ids, &input.defects, progress, &mut |document| Ok(ingest.push(document)?))?;

    let mut header = run_header(&facts, &RunOptions::default());
    registration.apply(&mut header);
    header.run_id = Some(run_id.clone());
    let name = options.run_name.clone().unwrap_or_else(|| header.name.clone());
    let committed = ingest.commit(
        NewRun {
            run_id,
            header,
            actor: Actor::local(),
            edit: options.edit(),
            status: status(&facts),
            eval_id: facts.eval_id.clone(),
            eval_created: facts.created.clone(),
            source: source.file_name().map(|name| name.to_string_lossy().into_owned()),
            defects: defects.clone(),
            log: staged,
        },
        mode,
    );
    let (status, run_id) = match committed {
        Ok(Committed::Created(run)) => (MadeStatus::Created, run),
        Ok(Committed::Replaced { run, .. }) => (MadeStatus::Replaced, run),
        Ok(Committed::AlreadyThere(run)) => (MadeStatus::Unchanged, run),
        // Another eval may have recorded the same ids: then this run gets its own.
        Err(StoreError::Conflict(Conflict::TrajectoryTaken { held_by, .. }))
            if derive == Ids::ByEval
                && (options.other_bytes == OtherBytes::AsNew
                    || is_again
                    || store.run(&held_by)?.eval_id != facts.eval_id) =>
        {
            return Ok(None);
        }
        Err(StoreError::Conflict(taken @ Conflict::TrajectoryTaken { .. })) => {
            return Err(trajectory_taken(store, taken));
        }
        Err(e) => return Err(e.into()),
    };
    let trajectories = registration.trajectory_count();
    Ok(Some(Made::Run(MadeRun { status, run_id, name, trajectories, defects })))
}

/// A log on its way to documents.
pub(super) struct Conversion<'a> {
    /// What the user named.
    pub(super) source: &'a Path,
    /// What is read.
    pub(super) read: &'a Path,
    pub(super) log: &'a Log,
    pub(super) facts: &'a HeaderFacts,
    pub(super) prices: Option<&'a PriceTable>,
    pub(super) run_id: &'a RunId,
}

impl Conversion<'_> {
    /// Hands out the documents in the order of the log. Gives their sums, and everything that was lost: `before` and
    /// what is found here.
    pub(super) fn run(
        &self,
        ids: &mut TrajectoryIds,
        before: &[String],
        progress: &Progress,
        push: &mut (dyn FnMut(&TrajectoryDocument) -> Result<(), CliError> + Send),
    ) -> Result<(Registration, Vec<String>), CliError> {
        let mut registration = Registration::default();
        let mut defects = before.to_vec();
        let header = self.log.header().map_err(|e| CliError::log(self.source, &e))?;
        let samples = self.log.samples().map_err(|e| CliError::log(self.source, &e))?;
        progress.items("converting", samples.len() as u64);
        convert_log(self.log, samples, self.facts, self.prices, threads(), |sample, converted| {
            progress.advance(1);
            let mut converted = match converted {
                Ok(converted) => converted,
                Err(LogError::Io(e)) => return Err(CliError::io("read", self.read, &e)),
                Err(e) => {
                    defects.push(lost(&sample.member_name(), &e));
                    return Ok(());
                }
            };
            finish_document(&mut converted.document, self.run_id, ids.assign(&converted.facts));
            registration.add(&converted.document, converted.facts.control_setting());
            push(&converted.document)
        })?;
        let found = self.log.defects();
        let nothing = registration.trajectory_count() == 0 && !defects.is_empty();
        if nothing && header.inferred && self.facts.task.is_none() {
            return Err(CliError::data(format!("nothing in {} can be read", self.source.display()))
                .because(&Unreadable(defects.swap_remove(0))));
        }
        defects.splice(0..0, found.iter().map(ToString::to_string));
        defects.extend(missing(self.log));
        Ok((registration, defects))
    }
}

/// Says how to go on when another run, which may be hidden, has one of the trajectories.
fn trajectory_taken(store: &Store, taken: Conflict) -> CliError {
    let mut hints = Vec::new();
    if let Conflict::TrajectoryTaken { held_by, .. } = &taken
        && store.run(held_by).is_ok_and(|record| record.deleted_at.is_some())
    {
        hints.push(format!("run {held_by} is deleted; bring it back with: ct runs restore {held_by}"));
    }
    hints.push("--as-new makes a run whose trajectories have ids of their own".to_owned());
    hints.into_iter().fold(CliError::from(StoreError::from(taken)), CliError::hint)
}

/// Says which sample is lost and why.
pub(super) fn lost(name: &str, error: &LogError) -> String {
    CliError::data(format!("{name:?} is lost")).because(error).reason()
}

fn stage(ingest: &mut Ingest<'_>, input: &Input, progress: &Progress) -> Result<StagedLog, CliError> {
    let mut file = File::open(&input.path).map_err(|e| CliError::io("open", &input.path, &e))?;
    let size_bytes = file.metadata().map_err(|e| CliError::io("read", &input.path, &e))?.len();
    progress.bytes("copying", size_bytes);
    let mut done = 0;
    Ok(ingest.stage_log(&mut file, input.format, &mut |so_far| {
        progress.advance(so_far - done);
        done = so_far;
    })?)
}

/// The first of the reasons why a log cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Unreadable(String);

/// Samples that the log's summaries know and the log does not hold.
pub(super) fn missing(log: &Log) -> Vec<String> {
    match log.missing_samples() {
        Ok(lost) => lost
            .iter()
            .map(|(id, epoch)| format!("sample {id:?}, epoch {epoch}, is missing, though it has a summary"))
            .collect(),
        Err(e) => vec![CliError::data("the summaries are damaged").because(&e).reason()],
    }
}

/// The same bytes are the same run; a deleted one comes back. What the user says about it is taken in.
fn already_there(
    store: &Store,
    known: KnownRun,
    options: &MakeOptions,
    mut defects: Vec<String>,
) -> Result<Made, CliError> {
    if known.deleted {
        store.restore_run(&known.run_id, &Actor::local())?;
    }
    let mut edited = false;
    if let Some(revision) = known.revision {
        defects.push(earlier_revision(revision));
    } else {
        let edit = options.edit();
        edited = edit != RunEdit::default();
        if edited {
            store.edit_run(&known.run_id, &edit, &Actor::local())?;
        }
    }
    if options.prices.is_some() {
        defects.push(
            "the run was there already and keeps its costs; to price it anew give --prices with --replace"
                .to_owned(),
        );
    }
    let record = store.run(&known.run_id)?;
    Ok(Made::Run(MadeRun {
        status: match (known.deleted, edited) {
            (true, _) => MadeStatus::Restored,
            (_, true) => MadeStatus::Edited,
            _ => MadeStatus::Unchanged,
        },
        run_id: known.run_id,
        name: record.header.name,
        trajectories: record.header.trajectory_count.unwrap_or_default(),
        defects,
    }))
}

pub(super) fn earlier_revision(revision: u64) -> String {
    format!(
        "these bytes are revision {revision} of the run, not its current log; --replace makes them that again"
    )
}

/// Why none of these runs can get another log.
pub(super) fn several(runs: &[RunId]) -> CliError {
    let list = runs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    CliError::conflict(format!(
        "several runs hold this eval, so --replace cannot tell which one is meant: {list}"
    ))
    .hint("delete those that are not wanted: ct runs delete RUN")
    .hint("or make one more run with --as-new")
}

/// Ties a document to its run.
pub(super) fn finish_document(
    document: &mut TrajectoryDocument,
    run_id: &RunId,
    trajectory_id: ct_model::TrajectoryId,
) {
    document.trajectory_id = Some(trajectory_id);
    document.run_id = Some(run_id.clone());
    if let Some(range) = &mut document.eval_sample_range {
        range.key = Some(format!("{run_id}.eval"));
    }
}

/// The run header with what the user said taken in, for those who keep no layers.
pub(super) fn header_of(facts: &HeaderFacts, options: &MakeOptions) -> RunHeader {
    let mut header = run_header(
        facts,
        &RunOptions {
            name: options.run_name.clone(),
            policy: options.policy.clone(),
            task_set: options.task_set.clone(),
            tags: Vec::new(),
        },
    );
    for tag in &options.tags {
        if !header.tags.contains(tag) {
            header.tags.push(tag.clone());
        }
    }
    header
}

pub(super) fn status(facts: &HeaderFacts) -> RunStatus {
    facts.status.as_deref().map_or(RunStatus::Unknown, RunStatus::from_log)
}
