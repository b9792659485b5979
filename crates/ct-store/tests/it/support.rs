//! Makes stores, runs and documents for tests.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use ct_model::{LogFormat, RunEdit, RunHeader, RunId, RunStatus, TrajectoryDocument, TrajectoryId};
use ct_store::{CommitMode, Committed, Ingest, NewRun, Store, StoreError};
use jiff::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A store in a folder of its own, with a clock that goes on by one second at each look.
pub(crate) struct Home {
    pub(crate) folder: TempDir,
    pub(crate) store: Store,
}

pub(crate) const START: i64 = 1_790_000_000;

pub(crate) fn second(number: i64) -> Timestamp {
    Timestamp::from_second(START + number).unwrap()
}

impl Home {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ticks = AtomicI64::new(0);
        let clock = Arc::new(move || second(ticks.fetch_add(1, Ordering::Relaxed)));
        let store = Store::open_with_clock(folder.path(), clock).unwrap();
        Self { folder, store }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Files below the data folder, but the database and the lock.
    pub(crate) fn files(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut folders = vec![self.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(self.path()).unwrap().display().to_string();
                if path.is_dir() {
                    folders.push(path);
                } else if !name.starts_with("ct.sqlite") && name != "ingest.lock" {
                    found.push(name);
                }
            }
        }
        found.sort();
        found
    }

    pub(crate) fn add(&self, run: &Draft) -> RunId {
        match add(&self.store, run, CommitMode::New).unwrap() {
            Committed::Created(id) => id,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn documents(&self, run: &RunId) -> Vec<TrajectoryDocument> {
        let mut documents = Vec::new();
        self.store
            .documents(run, &mut |document| {
                documents.push(document);
                ControlFlow::Continue(())
            })
            .unwrap();
        documents
    }
}

/// A run to be made.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) bytes: Vec<u8>,
    pub(crate) header: Value,
    pub(crate) status: RunStatus,
    pub(crate) eval_id: Option<String>,
    pub(crate) edit: RunEdit,
    pub(crate) documents: Vec<Value>,
}

/// A run of a name, with trajectories `<name>-0`, `<name>-1` and so on.
pub(crate) fn draft(name: &str, trajectories: usize) -> Draft {
    Draft {
        bytes: format!("log of {name}").into_bytes(),
        header: json!({"name": name}),
        status: RunStatus::Success,
        eval_id: None,
        edit: RunEdit::default(),
        documents: (0..trajectories).map(|number| document(&format!("{name}-{number}"))).collect(),
    }
}

impl Draft {
    pub(crate) fn header(mut self, fields: Value) -> Self {
        merge(&mut self.header, fields);
        self
    }

    /// Changes all documents alike.
    pub(crate) fn each(mut self, fields: Value) -> Self {
        self.documents.iter_mut().for_each(|document| merge(document, fields.clone()));
        self
    }

    /// Changes one document.
    pub(crate) fn one(mut self, number: usize, fields: Value) -> Self {
        merge(&mut self.documents[number], fields);
        self
    }

    pub(crate) fn status(mut self, status: RunStatus) -> Self {
        self.status = status;
        self
    }

    pub(crate) fn typed(&self) -> Vec<TrajectoryDocument> {
        self.documents.iter().map(|document| serde_json::from_value(document.clone()).unwrap()).collect()
    }
}

pub(crate) fn merge(value: &mut Value, fields: Value) {
    let Value::Object(fields) = fields else { panic!("fields are an object") };
    value.as_object_mut().unwrap().extend(fields);
}

pub(crate) fn document(id: &str) -> Value {
    json!({
        "trajectory_id": id,
        "eval_sample_id": format!("sample {id}"),
        "epoch": 1,
        "name": "Unnamed Trajectory",
        "main_task_success": null,
        "side_task_success": null,
        "error": null,
        "number_of_actions": 0,
    })
}

pub(crate) fn add(store: &Store, draft: &Draft, mode: CommitMode) -> Result<Committed, StoreError> {
    let mut ingest = store.begin_ingest()?;
    let log = ingest.stage_log(&mut draft.bytes.as_slice(), LogFormat::Eval, &mut |_| ())?;
    push_all(&mut ingest, draft)?;
    let run = new_run(draft, log);
    ingest.commit(run, mode)
}

pub(crate) fn push_all(ingest: &mut Ingest<'_>, draft: &Draft) -> Result<(), StoreError> {
    draft.typed().iter().try_for_each(|document| ingest.push(document))
}

pub(crate) fn new_run(draft: &Draft, log: ct_store::StagedLog) -> NewRun {
    NewRun {
        run_id: RunId::new(&log.hash.as_str()[..32]).unwrap(),
        header: serde_json::from_value::<RunHeader>(draft.header.clone()).unwrap(),
        actor: ct_store::Actor::local(),
        edit: draft.edit.clone(),
        status: draft.status,
        eval_id: draft.eval_id.clone(),
        eval_created: Some("2026-10-01T12:00:00+00:00".to_owned()),
        source: Some("logs/a.eval".to_owned()),
        defects: vec!["the central directory was missing".to_owned()],
        log,
    }
}

pub(crate) fn trajectory(id: &str) -> TrajectoryId {
    TrajectoryId::new(id).unwrap()
}
