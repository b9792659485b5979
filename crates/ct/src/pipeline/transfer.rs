//! Runs from home to home, with their logs, documents and what users changed.

use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;

use ct_client::{Client, LogPlace, RemoteLog};
use ct_model::convert::HeaderFacts;
use ct_model::{LogRef, RunEdit, RunHeader, RunId};
use ct_store::{Actor, CommitMode, Committed, Ingest, NewRun, Store};

use super::partial::TemporaryFolder;
use super::upload::{self, Spool, known_run};
use super::{MadeRun, MadeStatus, input, make};
use crate::error::{CliError, Kind};
use crate::home::{Home, Run, fetch, open_log, part_name};
use crate::output::Progress;

/// Brings a run to a server. What is there already is not sent again; names and tags are carried over.
pub(crate) fn push(from: &Home, run: &RunId, to: &Client, progress: &Progress) -> Result<MadeRun, CliError> {
    let known = from.run(run)?;
    let header = &known.record.header;
    if let Some(there) = known_run(to, run)? {
        same_log(&known, &there, run)?;
        let deleted = there.record.deleted_at.is_some();
        if deleted {
            to.restore_run(run)?;
        }
        let mut edit = difference(&there.record.header, header);
        // Who commented when is the server's to say, and a task set it does not change.
        (edit.comments, edit.task_set) = (None, None);
        if edit != RunEdit::default() {
            to.edit_run(run, &edit)?;
        }
        return Ok(made(run, &known, deleted, edit != RunEdit::default()));
    }
    let (path, log, _copy) = log_file(from, run, &known, progress)?;
    let mut spool = Spool::new()?;
    let mut failed = None;
    let mut count = 0;
    progress.items("reading", header.trajectory_count.unwrap_or_default());
    from.documents(run, &mut |document| {
        progress.advance(1);
        count += 1;
        match spool.push(&document) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    all_came(count, header)?;
    match upload::send(to, &path, &log, header.clone(), spool, run, progress) {
        // The server hashed what was sent.
        Err(error) if error.kind() == Kind::Data && matches!(from, Home::Local(_)) => {
            return Err(CliError::data(format!("the log of run {run} is damaged in the store"))
                .hint("see what is damaged with: ct store check"));
        }
        sent => sent?,
    }
    Ok(MadeRun { status: MadeStatus::Created, ..made(run, &known, false, false) })
}

/// The log of a run as a file, with its hash; from a server it is fetched.
fn log_file(
    from: &Home,
    run: &RunId,
    known: &Run,
    progress: &Progress,
) -> Result<(PathBuf, LogRef, Option<TemporaryFolder>), CliError> {
    match from {
        Home::Local(store) => {
            let log = &known.record.log;
            // What is sent must be what was made: the server checks it.
            let (path, copy) = match store.log_path(log) {
                Some(path) => (path, None),
                None => {
                    let copy = input::temporary_folder()?;
                    let path = copy.path().join("log");
                    let failed = |error: io::Error| CliError::io("copy the log to", &path, &error);
                    let mut file = std::fs::File::create(&path).map_err(failed)?;
                    let source = open_log(store, log)?;
                    let mut reader = source.stream(0, log.size_bytes).map_err(failed)?;
                    io::copy(&mut reader, &mut file).map_err(failed)?;
                    (path, Some(copy))
                }
            };
            Ok((path, log.clone(), copy))
        }
        Home::Server(client) => {
            let copy = input::temporary_folder()?;
            let path = copy.path().join("log");
            let log = RemoteLog::open(LogPlace::Run(client.clone(), run.clone()))?;
            let done = fetch(&log, &path, known.log.as_ref().map(|log| &log.hash), Some(progress))?;
            Ok((path, LogRef { hash: done.hash, ..known.record.log.clone() }, Some(copy)))
        }
    }
}

/// Brings a run of a server into the store. What is there already is not fetched again; names and tags are carried over.
pub(crate) fn pull(
    from: &Client,
    run: &RunId,
    store: &Store,
    progress: &Progress,
) -> Result<MadeRun, CliError> {
    let home = Home::Server(from.clone());
    let known = home.run(run)?;
    let shown = &known.record.header;
    if let Ok(there) = store.run(run) {
        let there = Run { log: Some(there.log.clone()), record: there };
        same_log(&known, &there, run)?;
        return already_here(store, &there, &known, run);
    }
    let remote = RemoteLog::open(LogPlace::Run(from.clone(), run.clone()))?;
    let mut ingest = store.begin_ingest()?;
    let expected = known.log.as_ref().map(|log| &log.hash).or(remote.sha256());
    // What a killed pull left is gone on with, and stays until all the rest came as well.
    let partial = match part_name(&remote, expected) {
        Some(name) => ingest.partial(&format!("pull-{name}"))?,
        None => None,
    };
    let (path, _lock) = match partial {
        Some((path, lock)) => (path, Some(lock)),
        None => (ingest.scratch(), None),
    };
    let fetched = fetch(&remote, &path, expected, Some(progress))?;
    let format = known.record.log.format;
    let stage = |ingest: &mut Ingest<'_>| {
        ingest.stage_fetched(&path, fetched.hash.clone(), fetched.size_bytes, format)
    };
    if let Some(held) = ingest.known(&fetched.hash)? {
        // When it is damaged here, this makes it whole.
        stage(&mut ingest)?;
        let there = store.run(&held.run_id)?;
        return Ok(made(&held.run_id, &Run { log: Some(there.log.clone()), record: there }, false, false));
    }
    let facts = {
        let log = input::open(&path)?;
        let header = log.header().map_err(|e| CliError::log(&path, &e))?;
        HeaderFacts::from_value(&header.value)
    };
    let mut failed = None;
    let mut count = 0;
    progress.items("reading", shown.trajectory_count.unwrap_or_default());
    home.documents(run, &mut |mut document| {
        progress.advance(1);
        count += 1;
        // Here the log lies in the data folder.
        document.eval_log_url = None;
        match ingest.push(&document) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    all_came(count, shown)?;
    let staged = stage(&mut ingest)?;
    let whole = known.is_whole();
    let recorded = if whole { &known.record.recorded } else { shown };
    let mut header = recorded.clone();
    header.run_id = Some(run.clone());
    header.eval_log_url = None;
    let mut edit = difference(&header, shown);
    edit.comments = edit.comments.filter(|comments| !comments.is_empty());
    let committed = ingest.commit(
        NewRun {
            run_id: run.clone(),
            header,
            actor: Actor::local(),
            edit,
            status: if whole { known.record.status } else { make::status(&facts) },
            eval_id: known.record.eval_id.clone().or(facts.eval_id),
            eval_created: known.record.eval_created.clone().or(facts.created),
            source: known.record.source.clone().or_else(|| Some(from.base().to_string())),
            defects: known.record.defects.clone(),
            log: staged,
        },
        CommitMode::New,
    )?;
    let status = match committed {
        Committed::AlreadyThere(_) => MadeStatus::Unchanged,
        _ => MadeStatus::Created,
    };
    Ok(MadeRun { status, ..made(run, &known, false, false) })
}

fn already_here(store: &Store, there: &Run, known: &Run, run: &RunId) -> Result<MadeRun, CliError> {
    let deleted = there.record.deleted_at.is_some();
    if deleted {
        store.restore_run(run, &Actor::local())?;
    }
    let edit = difference(&there.record.header, &known.record.header);
    let edited = edit != RunEdit::default();
    if edited {
        store.edit_run(run, &edit, &Actor::local())?;
    }
    Ok(made(run, known, deleted, edited))
}

fn made(run: &RunId, known: &Run, restored: bool, edited: bool) -> MadeRun {
    MadeRun {
        status: match (restored, edited) {
            (true, _) => MadeStatus::Restored,
            (_, true) => MadeStatus::Edited,
            _ => MadeStatus::Unchanged,
        },
        run_id: run.clone(),
        name: known.record.header.name.clone(),
        trajectories: known.record.header.trajectory_count.unwrap_or_default(),
        defects: Vec::new(),
    }
}

/// Two runs of one id are one run only with one log.
fn same_log(a: &Run, b: &Run, run: &RunId) -> Result<(), CliError> {
    match (&a.log, &b.log) {
        (Some(a), Some(b)) if a.hash != b.hash => Err(CliError::conflict(format!(
            "run {run} is there with another log, whose sha256 is {}",
            b.hash
        ))),
        _ => Ok(()),
    }
}

/// A run with some of its trajectories missing is none.
fn all_came(count: u64, header: &RunHeader) -> Result<(), CliError> {
    match header.trajectory_count {
        Some(expected) if expected != count => {
            let error = io::Error::other(format!("{count} of {expected} documents came"));
            Err(CliError::data("the run changed while it was read").because(&error))
        }
        _ => Ok(()),
    }
}

/// The edit that makes of one header what users see of another.
fn difference(from: &RunHeader, to: &RunHeader) -> RunEdit {
    let other = |from: &Option<String>, to: &Option<String>| (from != to).then(|| to.clone());
    RunEdit {
        name: (from.name != to.name).then(|| to.name.clone()),
        policy: other(&from.policy, &to.policy),
        task_set: other(&from.task_set, &to.task_set),
        dataset: other(&from.dataset, &to.dataset),
        description: other(&from.description, &to.description),
        set_tags: (from.tags != to.tags).then(|| to.tags.clone()),
        comments: (from.comments != to.comments).then(|| to.comments.clone()),
        ..RunEdit::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_an_edit_and_no_difference_is_none() {
        let header = |text: &str| serde_json::from_str::<RunHeader>(text).unwrap();
        let a = header(r#"{"name": "a", "tags": ["x"], "policy": "p", "description": "d"}"#);
        let b = header(r#"{"name": "b", "tags": ["y", "x"], "policy": null, "description": "d"}"#);
        assert_eq!(difference(&a, &a), RunEdit::default());
        let expected = RunEdit {
            name: Some("b".to_owned()),
            policy: Some(None),
            set_tags: Some(vec!["y".to_owned(), "x".to_owned()]),
            ..RunEdit::default()
        };
        assert_eq!(difference(&a, &b), expected);
    }
}
