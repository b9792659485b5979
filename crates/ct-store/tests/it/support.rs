//! Makes stores, runs and documents for tests.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use ct_model::{LogFormat, LogRef, RunEdit, RunHeader, RunId, RunStatus, TrajectoryDocument, TrajectoryId};
use ct_s3::{Bucket, S3Address};
use ct_store::{Clock, CommitMode, Committed, Ingest, LogPlace, NewRun, Store, StoreError};
use ct_test::S3Service;
use jiff::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Where a store of these tests has its logs: in its folder, or, in the suite named `s3`, in a bucket of a real service.
#[derive(Debug, Clone)]
pub(crate) struct Logs(Option<(&'static S3Service, S3Address)>);

impl Logs {
    pub(crate) fn new() -> Self {
        let service = if env!("CARGO_CRATE_NAME") == "s3" { S3Service::get() } else { None };
        Self(service.map(|service| (service, service.new_place())))
    }

    pub(crate) fn place(&self) -> LogPlace {
        match &self.0 {
            None => LogPlace::Folder,
            Some((service, address)) => LogPlace::Bucket(Box::new(service.config()), address.clone()),
        }
    }

    /// For another process of these tests.
    pub(crate) fn text(&self) -> String {
        self.0
            .as_ref()
            .map(|(service, address)| format!("{} {address}", service.endpoint()))
            .unwrap_or_default()
    }

    /// What [`Logs::text`] means.
    pub(crate) fn of_text(text: &str) -> LogPlace {
        match text.split_once(' ') {
            None => LogPlace::Folder,
            Some((endpoint, address)) => {
                LogPlace::Bucket(Box::new(ct_test::s3_config(endpoint)), address.parse().unwrap())
            }
        }
    }

    pub(crate) fn open(&self, folder: &Path, clock: Clock) -> Store {
        Store::open_at(folder, clock, self.place()).unwrap()
    }

    pub(crate) fn try_open(&self, folder: &Path) -> Result<Store, StoreError> {
        Store::open_at(folder, Arc::new(Timestamp::now), self.place())
    }

    /// The bucket, and the key of what a folder would have under this path.
    fn object(&self, path: &str) -> Option<(Bucket, String)> {
        let (service, address) = self.0.as_ref()?;
        let in_bucket = ["logs/", "damaged/"].iter().any(|folder| path.starts_with(folder));
        in_bucket.then(|| (service.logs(), format!("{}{path}", address.folder())))
    }

    /// Puts other bytes in the place of a stored log, or takes it away.
    pub(crate) fn set(&self, folder: &Path, log: &LogRef, bytes: Option<&[u8]>) {
        let path = folder.join(path_of(log));
        match (self.object(&path_of(log)), bytes) {
            (Some((bucket, key)), Some(bytes)) => drop(bucket.replace(&key, bytes.to_vec().into()).unwrap()),
            (Some((bucket, key)), None) => bucket.remove(&key).unwrap(),
            (None, Some(bytes)) => std::fs::write(path, bytes).unwrap(),
            (None, None) => std::fs::remove_file(path).unwrap(),
        }
    }

    /// What is in the bucket, but the mark of the store, by its path in a folder.
    fn objects(&self) -> Vec<String> {
        let Some((service, address)) = &self.0 else { return Vec::new() };
        let prefix = address.folder();
        let keys = service.logs().list(&prefix).map(|listed| listed.unwrap().key);
        keys.map(|key| key[prefix.len()..].to_owned()).filter(|name| name != "ct-store").collect()
    }
}

pub(crate) fn path_of(log: &LogRef) -> String {
    format!("logs/{}/{}.{}", &log.hash.as_str()[..2], log.hash, log.format.as_str())
}

/// A store in a folder of its own, with a clock that goes on by one second at each look.
pub(crate) struct Home {
    pub(crate) folder: TempDir,
    pub(crate) store: Store,
    pub(crate) logs: Logs,
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
        let logs = Logs::new();
        let store = logs.open(folder.path(), clock);
        Self { folder, store, logs }
    }

    /// The same store, as another process would open it.
    pub(crate) fn open(&self) -> Store {
        self.logs.open(self.path(), Arc::new(Timestamp::now))
    }

    pub(crate) fn log_of(&self, run: &RunId) -> LogRef {
        self.store.run(run).unwrap().log
    }

    /// The bytes of a stored log; none when it is not there.
    pub(crate) fn log_bytes(&self, log: &LogRef) -> Option<Vec<u8>> {
        match self.logs.object(&path_of(log)) {
            Some((bucket, key)) => bucket.head(&key).unwrap().map(|_| bucket.get(&key, 1 << 30).unwrap()),
            None => std::fs::read(self.path().join(path_of(log))).ok(),
        }
    }

    pub(crate) fn set_log(&self, log: &LogRef, bytes: Option<&[u8]>) {
        self.logs.set(self.path(), log, bytes);
    }

    /// Leaves something that no store has put there.
    pub(crate) fn leave(&self, path: &str, text: &str) {
        if let Some((bucket, key)) = self.logs.object(path) {
            bucket.replace(&key, text.to_owned().into()).unwrap();
            return;
        }
        let path = self.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// How a report calls what has this path.
    pub(crate) fn shown(&self, path: &str) -> String {
        match (self.logs.object(path), &self.logs.0) {
            (Some((_, key)), Some((_, address))) => address.with_key(&key).to_string(),
            _ => self.path().join(path).display().to_string(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Files below the data folder, but the database, the lock and the place of the logs; objects in the bucket, too.
    pub(crate) fn files(&self) -> Vec<String> {
        let mut found = self.logs.objects();
        let mut folders = vec![self.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(self.path()).unwrap().display().to_string();
                if path.is_dir() {
                    folders.push(path);
                } else if !name.starts_with("ct.sqlite") && name != "ingest.lock" && name != "logs.place" {
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
