//! Clients register the runs whose logs they uploaded.
//!
//! Documents come in batches and wait, unseen, until the run's header is there; then one transaction makes the run
//! visible with all of them. Doing it again changes nothing, whoever does it: what comes again is compared with what is
//! there, but for what is the store's to say. What is registered must agree with the stored log.

mod document;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use ct_model::convert::Registration as Sums;
use ct_model::{LogFormat, LogHash, LogRef, ObjectKey, RunEdit, RunHeader, RunId, RunStatus};
use jiff::Timestamp;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use self::document::{SentDocument, typed};
use super::log_index::LogIndex;
use crate::actor::Actor;
use crate::error::{Conflict, Result, StoreError};
use crate::meta::{Entry, PendingDocument, RegisteredHeader};
use crate::record::{NewRun, Registered, StagedLog};
use crate::store::Store;

/// A batch of documents, and perhaps the header of their run, as a client sends them.
#[derive(Debug, Clone, Default)]
pub struct Registration {
    /// Documents, of one run or of several.
    pub documents: Vec<Box<RawValue>>,
    /// With the last batch of a run.
    pub header: Option<Value>,
    /// The lengths of logs by key, as the client uploaded them.
    pub log_sizes: BTreeMap<String, u64>,
    /// The run that gets this log and these documents, in place of those it has; its log becomes an earlier revision. They
    /// are sent as those of the run that the log's key names.
    pub replaces: Option<RunId>,
    /// The bucket of `s3://<bucket>/<key>` in what is sent.
    pub bucket: String,
}

/// Threads that read the documents of a batch.
const THREADS_MAX: usize = 4;
/// Fewer documents are not worth a thread.
const SHARE_MIN: usize = 10;

impl Store {
    /// Takes in a batch as a whole, or nothing of it. With the header the run becomes visible.
    ///
    /// What is refused since it can never become a run is not kept for another attempt.
    pub fn register(&self, batch: Registration, actor: &Actor) -> Result<Registered> {
        let registered = self.register_batch(batch, actor);
        if let Err(StoreError::Conflict(Conflict::RunDeleted { run } | Conflict::LogTaken { run, .. })) =
            &registered
        {
            self.meta().release(run, actor, self.now())?;
        }
        registered
    }

    fn register_batch(&self, batch: Registration, actor: &Actor) -> Result<Registered> {
        let now = self.now();
        for (name, size_bytes) in &batch.log_sizes {
            self.check_size(name, *size_bytes, actor)?;
        }
        let replaces = batch.replaces.as_ref().map(|run| Replaced::find(self, run)).transpose()?;
        let logs = Logs { store: self, bucket: &batch.bucket, actor, replaces, found: Mutex::default() };
        let documents = take_documents(&logs, &batch.documents, actor, now)?;
        let header = match batch.header {
            Some(value) => {
                let runs = documents.iter().map(|document: &PendingDocument| &document.run);
                Some(take_header(&logs, value, runs, actor, now)?)
            }
            None => None,
        };
        if let Some(log) = header.as_ref().map(|header| logs.get(&header.run.run_id)).transpose()? {
            self.settle(&log.key, &log.log)?;
        }
        self.meta().register(documents, header, actor, now)
    }

    fn check_size(&self, name: &str, size_bytes: u64, actor: &Actor) -> Result<()> {
        let key: ObjectKey =
            name.parse().map_err(|error| StoreError::invalid(format!("eval_log_sizes: {error}")))?;
        match self.arrived_object(&key, actor)? {
            Some(object) if object.log.size_bytes == size_bytes => Ok(()),
            Some(object) => Err(StoreError::invalid(format!(
                "eval_log_sizes: {name} is stored with {} bytes, not {size_bytes}",
                object.log.size_bytes
            ))),
            None => match self.meta().run_is_deleted(&key.run)? {
                Some(true) => Err(Conflict::RunDeleted { run: key.run }.into()),
                _ => Err(not_uploaded(name)),
            },
        }
    }
}

fn not_uploaded(name: &str) -> StoreError {
    StoreError::invalid(format!("log {name} is not there; upload it first"))
}

/// A run whose log another one takes the place of.
struct Replaced {
    run: RunId,
    log: LogHash,
    eval_id: Option<String>,
}

impl Replaced {
    fn find(store: &Store, run: &RunId) -> Result<Self> {
        let record = store.run(run)?;
        if record.deleted_at.is_some() {
            return Err(Conflict::RunDeleted { run: run.clone() }.into());
        }
        Ok(Self { run: run.clone(), log: record.log.hash, eval_id: record.eval_id })
    }

    /// It was done before, and is asked for again.
    fn is_done(&self, log: &RunLog) -> bool {
        self.log == log.log.hash
    }
}

/// The logs of the runs of a batch.
struct Logs<'a> {
    store: &'a Store,
    bucket: &'a str,
    replaces: Option<Replaced>,
    actor: &'a Actor,
    found: Mutex<HashMap<RunId, Arc<RunLog>>>,
}

struct RunLog {
    key: ObjectKey,
    log: LogRef,
    index: Arc<LogIndex>,
}

impl Logs<'_> {
    /// The stored log of a run, when it may be registered.
    fn get(&self, run: &RunId) -> Result<Arc<RunLog>> {
        // Who comes second waits for what the first one finds.
        let mut all = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = all.get(run) {
            return Ok(Arc::clone(found));
        }
        let store = self.store;
        if store.meta().run_is_deleted(run)? == Some(true) {
            return Err(Conflict::RunDeleted { run: run.clone() }.into());
        }
        // What is known comes first: only what is not makes a request.
        let keys = [LogFormat::Eval, LogFormat::Json].map(|format| ObjectKey::new(run.clone(), format));
        let mut object = None;
        for key in &keys {
            object = object.map_or_else(|| store.object(key), |found| Ok(Some(found)))?;
        }
        for key in &keys {
            object = object.map_or_else(|| store.arrived_object(key, self.actor), |found| Ok(Some(found)))?;
        }
        let object = object.ok_or_else(|| not_uploaded(&format!("{run}.eval")))?;
        let replaced = self.replaces.as_ref().map(|replaced| &replaced.run);
        let known = store.meta().run_of_log(&object.log.hash)?;
        if let Some(known) = known.filter(|known| known.run_id != *run && Some(&known.run_id) != replaced) {
            let (run, held_by, deleted) = (run.clone(), known.run_id, known.deleted);
            return Err(Conflict::LogTaken { run, held_by, deleted }.into());
        }
        let source = store.open_log(&object.log)?;
        let index = store.log_indexes().get(&object.log.hash, source);
        let index = index
            .map_err(|error| StoreError::invalid(format!("log {} is of no use: {error}", object.key)))?;
        let found = Arc::new(RunLog { key: object.key, log: object.log, index });
        all.insert(run.clone(), Arc::clone(&found));
        Ok(found)
    }

    /// Checks that an address is that of this log, or of something in it.
    fn check_url(&self, url: &str, log: &RunLog) -> std::result::Result<(), String> {
        let key = log.key.to_string();
        let rest = url.strip_prefix("s3://").and_then(|rest| rest.strip_prefix(self.bucket));
        let rest =
            rest.and_then(|rest| rest.strip_prefix('/')).and_then(|rest| rest.strip_prefix(key.as_str()));
        match rest {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => Ok(()),
            _ => Err(format!("eval_log_url: {url:?} is not in s3://{}/{key}", self.bucket)),
        }
    }
}

/// Reads and checks the documents of a batch, a large one on several threads.
fn take_documents(
    logs: &Logs<'_>,
    documents: &[Box<RawValue>],
    actor: &Actor,
    now: Timestamp,
) -> Result<Vec<PendingDocument>> {
    let take = |first: usize, share: &[Box<RawValue>]| -> Result<Vec<PendingDocument>> {
        let share = (first..).zip(share);
        share.map(|(number, document)| take_document(logs, document, number, actor, now)).collect()
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
    let share = documents.len().div_ceil(threads).max(SHARE_MIN);
    if documents.len() <= share {
        return take(0, documents);
    }
    thread::scope(|scope| {
        let mut shares = documents.chunks(share).enumerate();
        let own = shares.next();
        let others: Vec<_> =
            shares.map(|(number, documents)| scope.spawn(move || take(number * share, documents))).collect();
        let mut all = own.map_or_else(|| Ok(Vec::new()), |(_, documents)| take(0, documents))?;
        for other in others {
            all.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        Ok(all)
    })
}

fn take_document(
    logs: &Logs<'_>,
    document: &RawValue,
    number: usize,
    actor: &Actor,
    now: Timestamp,
) -> Result<PendingDocument> {
    let invalid = |what: String| {
        let id = serde_json::from_str::<Value>(document.get()).ok();
        let id = id.as_ref().and_then(|fields| fields.get("trajectory_id")?.as_str());
        let id = id.map(|id| format!(" ({})", id.chars().take(128).collect::<String>()));
        StoreError::invalid(format!("trajectories[{number}]{}: {what}", id.unwrap_or_default()))
    };
    let mut sent = SentDocument::read(document.get(), actor, now).map_err(invalid)?;
    let typed = &sent.typed;
    let id = typed.trajectory_id.clone().ok_or_else(|| invalid("trajectory_id: missing".to_owned()))?;
    let mut run = typed.run_id.clone().ok_or_else(|| invalid("run_id: missing".to_owned()))?;

    let log = logs.get(&run)?;
    if let Some(url) = &typed.eval_log_url {
        logs.check_url(url, &log).map_err(invalid)?;
    }
    let key = typed.eval_sample_range.as_ref().and_then(|range| range.key.as_deref());
    if let Some(key) = key
        && key.parse::<ObjectKey>().map(|key| key.run).as_ref() != Ok(&run)
    {
        return Err(invalid(format!("eval_sample_range.key: {key:?} is no log of run {run}")));
    }
    let position = log.index.check(typed).map_err(invalid)?;
    let setting = typed.environment.as_ref().and_then(|environment| environment.extra.get("setting"));
    let mut sums = Sums::default();
    sums.add(typed, setting.and_then(Value::as_str));
    let mut entry = Entry::new(typed, id, run.clone());
    let mut replaces = None;
    if let Some(replaced) = &logs.replaces {
        sent.rename_log(&ObjectKey::new(replaced.run.clone(), log.log.format)).map_err(invalid)?;
        if replaced.is_done(&log) {
            run = replaced.run.clone();
        } else {
            replaces = Some(replaced.run.clone());
        }
    }
    entry.document = sent.text;
    entry.eval_metadata = Some(sent.eval_metadata);
    Ok(PendingDocument { run, replaces, position: position as u64, entry, sums })
}

fn take_header<'a>(
    logs: &Logs<'_>,
    value: Value,
    mut runs: impl Iterator<Item = &'a RunId>,
    actor: &Actor,
    now: Timestamp,
) -> Result<RegisteredHeader> {
    let invalid = |what: String| StoreError::invalid(format!("run: {what}"));
    let Value::Object(mut fields) = value else { return Err(invalid("not an object".to_owned())) };
    own(&mut fields, actor, now);
    fields.retain(|_, value| !value.is_null());
    let value = Value::Object(fields);
    let mut header: RunHeader = typed(&value).map_err(invalid)?;
    let run = header.run_id.clone().or_else(|| runs.next().cloned());
    let run = run.ok_or_else(|| invalid("run_id: missing".to_owned()))?;
    if header.name.trim().is_empty() {
        return Err(invalid("name: empty".to_owned()));
    }
    let log = logs.get(&run)?;
    if let Some(url) = &header.eval_log_url {
        logs.check_url(url, &log).map_err(invalid)?;
    }
    let facts = log.index.facts();
    let facts =
        facts.map_err(|error| StoreError::invalid(format!("log {} is of no use: {error}", log.key)))?;
    let registered = comparable_header(&value);
    let (mut run_id, mut replaces) = (run, None);
    if let Some(replaced) = &logs.replaces {
        header.eval_log_url = None;
        if replaced.is_done(&log) {
            run_id = replaced.run.clone();
        } else if facts.eval_id.is_none() || facts.eval_id != replaced.eval_id {
            return Err(StoreError::invalid(format!("replaces: run {} is of another eval", replaced.run)));
        } else {
            replaces = Some(replaced.run.clone());
        }
    }
    Ok(RegisteredHeader {
        replaces,
        run: NewRun {
            run_id,
            header,
            actor: actor.clone(),
            edit: RunEdit::default(),
            status: facts.status.as_deref().map_or(RunStatus::Unknown, RunStatus::from_log),
            eval_id: facts.eval_id,
            eval_created: facts.created,
            source: None,
            defects: log.index.defects(),
            log: StagedLog {
                hash: log.log.hash.clone(),
                size_bytes: log.log.size_bytes,
                format: log.log.format,
                path: PathBuf::new(),
                healed: false,
            },
        },
        registered,
    })
}

/// Takes out what a client does not decide: who made something, and when.
fn own(fields: &mut Map<String, Value>, actor: &Actor, now: Timestamp) {
    fields.remove("created_at");
    fields.remove("created_by");
    let own_list = |comments: &mut Value| {
        for (number, comment) in comments.as_array_mut().into_iter().flatten().enumerate() {
            let text = comment.get("text").cloned().unwrap_or_else(|| json!(""));
            let id = comment.get("id").filter(|id| id.is_string()).cloned();
            let id = id.unwrap_or_else(|| json!(number.to_string()));
            let step = comment.get("step").filter(|step| step.is_u64()).cloned();
            *comment = json!({"id": id, "text": text, "created": now.to_string(), "created_by": actor.user});
            if let Some(step) = step {
                comment["step"] = step;
            }
        }
    };
    if let Some(comments) = fields.get_mut("comments") {
        own_list(comments);
    }
    if let Some(Value::Object(steps)) = fields.get_mut("step_comments") {
        steps.values_mut().for_each(own_list);
    }
}

/// A document less what is not compared: what the store says, and where the log lies.
pub(crate) fn comparable_document(document: &str, eval_metadata: &str) -> Option<Value> {
    let mut fields: Map<String, Value> = serde_json::from_str(document).ok()?;
    let eval_metadata: Map<String, Value> = serde_json::from_str(eval_metadata).ok()?;
    for field in [
        "trajectory_id",
        "run_id",
        "eval_log_url",
        "converted_at",
        "created_at",
        "created_by",
        "comments",
        "step_comments",
    ] {
        fields.remove(field);
    }
    if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
        metadata.remove("converted_at");
    }
    if let Some(Value::Object(range)) = fields.get_mut("eval_sample_range") {
        for field in ["key", "eTag", "versionId"] {
            range.remove(field);
        }
    }
    fields.insert("eval_metadata".to_owned(), Value::Object(eval_metadata));
    Some(Value::Object(fields))
}

/// A header less what is not compared: what the store says or counts, and where the log lies.
pub(crate) fn comparable_header(header: &Value) -> Value {
    let mut fields = header.as_object().cloned().unwrap_or_default();
    for field in [
        "run_id",
        "created_at",
        "created_by",
        "trajectory_count",
        "eval_log_url",
        "total_cost_usd",
        "cost_by_model",
        "models",
        "control_settings",
        "comments",
        "converted_at",
    ] {
        fields.remove(field);
    }
    // What is empty is the same as what is absent.
    fields.retain(|_, value| match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(items) => !items.is_empty(),
        _ => true,
    });
    Value::Object(fields)
}
