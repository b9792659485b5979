//! A run: samples side by side, each written when it ends.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ct_environment::SandboxHost;
use futures_util::StreamExt as _;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::EvalError;
use crate::log::{HeaderParts, LogFile, LogIds, header, start};
use crate::outcome::{SampleOutcome, Totals, row_failed};
use crate::sample::{self, Finished};
use crate::spec::{EvalSpec, SampleSpec};

/// What happens while a run goes on. Told from several threads.
#[derive(Debug, Clone)]
pub enum Progress {
    /// The log is there; this many samples are to be run, beside those that it held already.
    Started {
        /// The log.
        log: PathBuf,
        /// Samples to run.
        samples: usize,
        /// Samples that were there.
        kept: usize,
    },
    /// How commands are confined.
    Sandbox {
        /// The environment.
        environment: String,
        /// In words.
        about: String,
    },
    /// A sample begins.
    SampleStarted {
        /// Which one.
        sample: SampleKey,
    },
    /// An agent acted.
    Step {
        /// Which sample.
        sample: SampleKey,
        /// Tool calls so far.
        actions: u64,
        /// Tokens so far.
        tokens: u64,
        /// US dollars so far, as far as they are known.
        cost_usd: Option<f64>,
    },
    /// The log is a whole archive, and stays as it is until this was heard.
    LogWhole {
        /// The log.
        log: PathBuf,
    },
    /// A sample is in the log.
    SampleEnded {
        /// Which one.
        sample: SampleKey,
        /// What came of it.
        outcome: SampleOutcome,
    },
}

/// A sample of a run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SampleKey {
    /// Its id.
    pub id: String,
    /// Counts from 1.
    pub epoch: u64,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// All samples were run.
    Success,
    /// It was stopped.
    Cancelled,
    /// A sample failed, and that was to end it.
    Error,
}

impl Status {
    /// As logs write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Cancelled => "cancelled",
            Self::Error => "error",
        }
    }
}

/// What came of a run.
#[derive(Debug)]
pub struct Summary {
    /// The finished log.
    pub log: PathBuf,
    /// How it ended.
    pub status: Status,
    /// Sums over the log's samples, those kept from before too.
    pub totals: Totals,
    /// Why it ended early.
    pub error: Option<String>,
    /// The earlier version of a resumed log.
    pub old_log: Option<PathBuf>,
}

/// Where the log goes.
#[derive(Debug, Clone)]
pub enum Destination {
    /// Into a new file in this folder.
    Folder(PathBuf),
    /// On with this log: what it lacks is run.
    Resume(PathBuf),
}

/// Runs an evaluation. `cancel` turns true when it should end: running samples are then logged as cancelled.
pub async fn run(
    spec: EvalSpec,
    destination: &Destination,
    mut cancel: watch::Receiver<bool>,
    progress: Arc<dyn Fn(Progress) + Send + Sync>,
) -> Result<Summary, EvalError> {
    let started_at = Timestamp::now();
    let mut ids = HashSet::new();
    if let Some(twice) = spec.samples.iter().find(|sample| !ids.insert(sample.id.as_str())) {
        return Err(EvalError::TwiceTheSame { id: twice.id.clone() });
    }
    // Whether sandboxes work is known before anything is written.
    let hosts = tokio::select! {
        hosts = Hosts::open(&spec, &*progress) => hosts?,
        () = sample::turned_true(&mut cancel) => return Err(EvalError::Cancelled),
    };
    let mut totals = Totals::default();
    let mut done = HashSet::new();
    let (file, start, old_log) = match destination {
        Destination::Folder(folder) => {
            let start = start(&spec, &LogIds::new(), &hosts.config());
            let ids = LogIds::of(&start);
            (LogFile::create(folder, &spec.run_name, &ids, &start)?, start, None)
        }
        Destination::Resume(path) => resume(path, &mut totals, &mut done)?,
    };
    let epochs = spec.epochs.max(1);
    totals.samples = spec.samples.len() as u64 * epochs;
    let queue: Vec<(SampleSpec, u64)> = (1..=epochs)
        .flat_map(|epoch| spec.samples.iter().map(move |sample| (sample.clone(), epoch)))
        .filter(|(sample, epoch)| !done.contains(&(sample.id.clone(), *epoch)))
        .collect();
    progress(Progress::Started { log: file.path().to_owned(), samples: queue.len(), kept: done.len() });

    let (stop, stopped) = watch::channel(false);
    let shared = Arc::new(Shared {
        stop,
        spec,
        hosts,
        file: Mutex::new(file),
        totals: Mutex::new(totals),
        progress,
        failed: AtomicBool::new(false),
        broken: Mutex::new(None),
    });
    let mut running = futures_util::stream::iter(queue)
        .map(|(sample, epoch)| {
            let (shared, stopped) = (Arc::clone(&shared), stopped.clone());
            async move {
                // A task of its own, so that samples use all processors; it ends with whoever waits for it.
                let task = tokio::spawn(async move { shared.one(&sample, epoch, stopped).await });
                AbortOnDrop(task).await
            }
        })
        .buffer_unordered(shared.spec.samples_max.max(1));
    let mut cancelled = false;
    loop {
        tokio::select! {
            done = running.next() => if done.is_none() { break },
            // Running samples end as cancelled, waiting ones do not begin.
            () = sample::turned_true(&mut cancel), if !cancelled => {
                cancelled = true;
                shared.stop();
            }
        }
    }
    drop(running);
    if let Some(error) = shared.broken.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(error);
    }
    let status = match (cancelled, shared.failed.load(Ordering::Relaxed)) {
        (true, _) => Status::Cancelled,
        (false, true) => Status::Error,
        (false, false) => Status::Success,
    };
    let error = (status == Status::Error).then(|| "a sample failed, and the run was to end then".to_owned());
    let totals = std::mem::take(&mut *shared.totals.lock().unwrap_or_else(PoisonError::into_inner));
    let parts = HeaderParts { status: status.as_str(), totals: &totals, started_at, error: error.as_deref() };
    let header = header(&start, &parts);
    let mut file = shared.file.lock().unwrap_or_else(PoisonError::into_inner);
    file.finish(&header)?;
    Ok(Summary { log: file.path().to_owned(), status, totals, error, old_log })
}

/// Ends a task that nobody waits for any more.
struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Future for AbortOnDrop<T> {
    type Output = Result<T, tokio::task::JoinError>;

    fn poll(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        std::pin::Pin::new(&mut self.0).poll(context)
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

type Resumed = (LogFile, Value, Option<PathBuf>);

fn resume(path: &Path, totals: &mut Totals, done: &mut HashSet<(String, u64)>) -> Result<Resumed, EvalError> {
    let log = ct_log::Log::open(path)?;
    let header = log.header()?.value.clone();
    let whole: HashSet<(String, u64)> =
        log.samples()?.iter().map(|sample| (sample.id.clone(), sample.epoch)).collect();
    drop(log);
    let (file, old) = LogFile::resume(path, &mut |row| {
        let key = (row.id.clone(), row.epoch);
        let value: Value = ct_log::json::parse(&row.raw).unwrap_or_default();
        // What failed is run again.
        let kept = !row_failed(&value) && whole.contains(&key) && done.insert(key);
        if kept {
            totals.add_row(&value);
        }
        kept
    })?;
    let start = json!({"version": header["version"], "eval": header["eval"], "plan": header["plan"]});
    Ok((file, start, Some(old)))
}

/// The hosts of all environments, by their long names.
struct Hosts(BTreeMap<String, SandboxHost>);

impl Hosts {
    async fn open(spec: &EvalSpec, progress: &(dyn Fn(Progress) + Send + Sync)) -> Result<Self, EvalError> {
        let mut hosts = BTreeMap::new();
        for sample in &spec.samples {
            let name = sample.environment.long_name();
            if hosts.contains_key(&name) {
                continue;
            }
            let host = SandboxHost::open(&sample.environment, &spec.sandbox).await?;
            progress(Progress::Sandbox { environment: name.clone(), about: host.describe() });
            hosts.insert(name, host);
        }
        Ok(Self(hosts))
    }

    /// For the log.
    fn config(&self) -> Value {
        let kinds: HashSet<&str> = self.0.values().map(|host| host.kind().as_str()).collect();
        let environments: serde_json::Map<String, Value> =
            self.0.iter().map(|(name, host)| (name.clone(), host.describe().into())).collect();
        let kind = if kinds.len() == 1 { kinds.into_iter().next() } else { Some("mixed") };
        json!({"type": kind, "environments": environments})
    }
}

struct Shared {
    /// Turned true when everything should end.
    stop: watch::Sender<bool>,
    spec: EvalSpec,
    hosts: Hosts,
    file: Mutex<LogFile>,
    totals: Mutex<Totals>,
    progress: Arc<dyn Fn(Progress) + Send + Sync>,
    /// A sample failed that was to end the run.
    failed: AtomicBool,
    /// The log cannot be written.
    broken: Mutex<Option<EvalError>>,
}

impl Shared {
    fn stop(&self) {
        self.stop.send_replace(true);
    }

    async fn one(self: Arc<Self>, sample: &SampleSpec, epoch: u64, stopped: watch::Receiver<bool>) {
        if *stopped.borrow() {
            return;
        }
        let key = SampleKey { id: sample.id.clone(), epoch };
        (self.progress)(Progress::SampleStarted { sample: key.clone() });
        let Some(host) = self.hosts.0.get(&sample.environment.long_name()) else { return };
        let report = |recorder: &crate::log::Recorder, actions: u64| {
            (self.progress)(Progress::Step {
                sample: key.clone(),
                actions,
                tokens: recorder.tokens(),
                cost_usd: recorder.cost_usd(),
            });
        };
        let finished = sample::run(&self.spec, sample, epoch, host, stopped, &report).await;
        let failed = finished.outcome.error.is_some();
        let outcome = finished.outcome.clone();
        // Compressing takes a while; others go on meanwhile.
        let writer = Arc::clone(&self);
        let written = tokio::task::spawn_blocking(move || writer.write(finished)).await;
        let problem = match written {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error),
            Err(_) => Some(EvalError::Internal("writing a sample panicked")),
        };
        if let Some(error) = problem {
            self.broken.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            self.stop();
            return;
        }
        (self.progress)(Progress::SampleEnded { sample: key, outcome });
        if failed && self.spec.fail_on_error {
            self.failed.store(true, Ordering::Relaxed);
            self.stop();
        }
    }

    fn write(&self, finished: Finished) -> Result<(), EvalError> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.add(&finished.id, finished.epoch, &finished.json)?;
        (self.progress)(Progress::LogWhole { log: file.path().to_owned() });
        self.totals.lock().unwrap_or_else(PoisonError::into_inner).add_row(&finished.row);
        Ok(())
    }
}
