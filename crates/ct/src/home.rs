//! Where runs are kept: the store in the data folder, or a server. One set of verbs for the commands.
//!
//! A server of the wire contract alone tells less of a run than a `ct`; [`Run::is_whole`] says so.

use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ct_client::{Client, LogPlace, RemoteLog};
use ct_log::Log;
use ct_log::source::{FileSource, Source};
use ct_model::{
    Dataset, DatasetChange, DatasetEdit, DatasetKind, DatasetLock, DatasetName, DatasetQuery, DatasetVersion,
    DatasetVersionQuery, LogFormat, LogHash, LogRef, OutcomeCounts, RunEdit, RunHeader, RunId, RunPage,
    RunQuery, RunRecord, RunStatus, StoredLog, TrajectoryDocument, TrajectoryId, TrajectoryPage,
    TrajectoryQuery,
};
use ct_store::{Actor, Store, StoreError};
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use crate::error::CliError;
use crate::output::Progress;
use crate::pipeline::partial::TemporaryFolder;

/// Where runs are kept.
pub(crate) enum Home {
    /// The data folder.
    Local(Box<Store>),
    /// A server.
    Server(Client),
}

/// What a home knows of a run.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    /// What is known; see [`Run::is_whole`].
    pub(crate) record: RunRecord,
    /// The log, as far as its hash is known.
    pub(crate) log: Option<LogRef>,
}

impl Run {
    /// False: only the header is known, and the rest of the record is empty.
    pub(crate) fn is_whole(&self) -> bool {
        self.log.is_some()
    }

    fn whole(record: RunRecord) -> Self {
        Self { log: Some(record.log.clone()), record }
    }

    fn of_header(header: RunHeader) -> Self {
        let created_at = header.created_at.as_deref().and_then(|text| text.parse().ok());
        let json = header.eval_log_url.as_deref().is_some_and(|url| url.ends_with(".json"));
        let format = if json { LogFormat::Json } else { LogFormat::Eval };
        let record = RunRecord {
            recorded: header.clone(),
            status: RunStatus::Unknown,
            // Never shown: `log` is what counts.
            log: LogRef { hash: LogHash::from_bytes([0; 32]), size_bytes: 0, format },
            counts: OutcomeCounts::default(),
            cost_incomplete: header.cost_by_model.values().any(Option::is_none),
            revisions: Vec::new(),
            eval_id: None,
            eval_created: None,
            source: None,
            defects: Vec::new(),
            created_at: created_at.unwrap_or(Timestamp::UNIX_EPOCH),
            deleted_at: None,
            version: 0,
            header,
        };
        Self { record, log: None }
    }
}

/// A log to read from.
pub(crate) struct HomeLog {
    pub(crate) stored: StoredLog,
    source: Arc<dyn Source>,
    /// What to call it in messages: a path, or an address.
    pub(crate) name: PathBuf,
    /// Holds a copy, where parts of a log cannot be asked for.
    _copy: Option<TemporaryFolder>,
}

impl HomeLog {
    fn new(source: Arc<dyn Source>, name: PathBuf, copy: Option<TemporaryFolder>) -> Self {
        Self { stored: StoredLog::new(Arc::clone(&source)), source, name, _copy: copy }
    }

    /// Its length.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.source.size_bytes()
    }

    /// The log itself.
    pub(crate) fn log(&self) -> Result<&Log, CliError> {
        self.stored.log().map_err(|error| CliError::log(&self.name, &error))
    }

    /// The JSON of a document's sample.
    pub(crate) fn read(&self, document: &TrajectoryDocument) -> Result<Box<dyn Read + Send>, CliError> {
        self.stored.read(document).map_err(|error| CliError::log(&self.name, &error))
    }
}

impl Home {
    /// The client of a server.
    pub(crate) fn client(&self) -> Option<&Client> {
        match self {
            Self::Local(_) => None,
            Self::Server(client) => Some(client),
        }
    }

    /// Whether the beginning of an id is looked up without going through all runs.
    pub(crate) fn resolves_quickly(&self) -> bool {
        match self {
            Self::Local(_) => true,
            Self::Server(client) => client.is_ct().unwrap_or(false),
        }
    }

    /// The run whose id is, or begins with, `prefix`; with `deleted`, also a deleted one.
    pub(crate) fn resolve_run(&self, prefix: &str, deleted: bool) -> Result<RunId, CliError> {
        Ok(match self {
            Self::Local(store) if deleted => store.resolve_run_with_deleted(prefix)?,
            Self::Local(store) => store.resolve_run(prefix)?,
            Self::Server(client) => client.resolve_run(prefix, deleted)?,
        })
    }

    /// The trajectory whose id is, or begins with, `prefix`.
    pub(crate) fn resolve_trajectory(&self, prefix: &str) -> Result<TrajectoryId, CliError> {
        Ok(match self {
            Self::Local(store) => store.resolve_trajectory(prefix)?,
            Self::Server(client) => client.resolve_trajectory(prefix)?,
        })
    }

    /// Lists runs.
    pub(crate) fn runs(&self, query: &RunQuery) -> Result<RunPage, CliError> {
        Ok(match self {
            Self::Local(store) => store.runs(query)?,
            Self::Server(client) => client.runs(query)?,
        })
    }

    /// Everything about a run but its trajectories; of a deleted one too.
    pub(crate) fn run(&self, run: &RunId) -> Result<Run, CliError> {
        Ok(match self {
            Self::Local(store) => Run::whole(store.run(run)?),
            Self::Server(client) => match client.record(run)? {
                Some(record) => Run::whole(record),
                None => Run::of_header(client.header(run)?),
            },
        })
    }

    /// The documents of a run, one after the other. `f` may stop it.
    pub(crate) fn documents(
        &self,
        run: &RunId,
        f: &mut dyn FnMut(TrajectoryDocument) -> ControlFlow<()>,
    ) -> Result<(), CliError> {
        match self {
            Self::Local(store) => store.documents(run, f)?,
            Self::Server(client) => client.documents(run, f)?,
        }
        Ok(())
    }

    /// One document.
    pub(crate) fn document(&self, trajectory: &TrajectoryId) -> Result<TrajectoryDocument, CliError> {
        Ok(match self {
            Self::Local(store) => store.document(trajectory)?,
            Self::Server(client) => client.document(trajectory)?,
        })
    }

    /// Lists ids of trajectories.
    pub(crate) fn trajectory_ids(
        &self,
        query: &TrajectoryQuery,
    ) -> Result<TrajectoryPage<TrajectoryId>, CliError> {
        Ok(match self {
            Self::Local(store) => store.trajectory_ids(query)?,
            Self::Server(client) => client.trajectory_ids(query)?,
        })
    }

    /// Changes what users may change of a run.
    pub(crate) fn edit_run(&self, run: &RunId, edit: &RunEdit) -> Result<(), CliError> {
        edit.check()?;
        match self {
            Self::Local(store) => store.edit_run(run, edit, &Actor::local())?,
            Self::Server(client) => drop(client.edit_run(run, edit)?),
        }
        Ok(())
    }

    /// Hides a run. False: it was deleted already.
    pub(crate) fn delete_run(&self, run: &RunId) -> Result<bool, CliError> {
        Ok(match self {
            Self::Local(store) => store.delete_run(run, &Actor::local())?,
            Self::Server(client) => client.delete_run(run)?,
        })
    }

    /// Brings a deleted run back. False: it was not deleted.
    pub(crate) fn restore_run(&self, run: &RunId) -> Result<bool, CliError> {
        Ok(match self {
            Self::Local(store) => store.restore_run(run, &Actor::local())?,
            Self::Server(client) => client.restore_run(run)?,
        })
    }

    /// All datasets, newest first.
    pub(crate) fn datasets(&self, kind: Option<DatasetKind>) -> Result<Vec<Dataset>, CliError> {
        Ok(match self {
            Self::Local(store) => store.datasets(&DatasetQuery { kind, ..DatasetQuery::default() })?.items,
            Self::Server(client) => client.datasets(kind)?,
        })
    }

    /// One version of a dataset; the newest when not told which.
    pub(crate) fn dataset(
        &self,
        name: &DatasetName,
        version: Option<u64>,
    ) -> Result<DatasetVersion, CliError> {
        Ok(match self {
            Self::Local(store) => store.dataset(name, version)?,
            Self::Server(client) => client.dataset(name, version)?,
        })
    }

    /// All versions of a dataset, newest first, not always with their items.
    pub(crate) fn dataset_versions(&self, name: &DatasetName) -> Result<Vec<DatasetVersion>, CliError> {
        Ok(match self {
            Self::Local(store) => store.dataset_versions(name, &DatasetVersionQuery::default())?.items,
            Self::Server(client) => client.dataset_versions(name)?,
        })
    }

    /// Makes a version of a dataset, or nothing.
    pub(crate) fn edit_dataset(
        &self,
        name: &DatasetName,
        edit: &DatasetEdit,
    ) -> Result<DatasetChange, CliError> {
        Ok(match self {
            Self::Local(store) => store.edit_dataset(name, edit, &Actor::local())?,
            Self::Server(client) => client.edit_dataset(name, edit)?,
        })
    }

    /// Locks a dataset.
    pub(crate) fn lock_dataset(
        &self,
        name: &DatasetName,
        reason: Option<&str>,
    ) -> Result<DatasetLock, CliError> {
        Ok(match self {
            Self::Local(store) => store.lock_dataset(name, reason, &Actor::local())?,
            Self::Server(client) => client.lock_dataset(name, reason)?,
        })
    }

    /// Unlocks a dataset. False: it was not locked.
    pub(crate) fn unlock_dataset(&self, name: &DatasetName) -> Result<bool, CliError> {
        Ok(match self {
            Self::Local(store) => store.unlock_dataset(name, &Actor::local())?,
            Self::Server(client) => client.unlock_dataset(name)?,
        })
    }

    /// The log of a run, to read from.
    pub(crate) fn log(&self, run: &Run, id: &RunId) -> Result<HomeLog, CliError> {
        match self {
            Self::Local(store) => local_log(store, &run.record.log),
            Self::Server(client) => {
                let log = RemoteLog::open(LogPlace::Run(client.clone(), id.clone()))?;
                let name = PathBuf::from(log.shown());
                if log.has_ranges() {
                    return Ok(HomeLog::new(log, name, None));
                }
                let folder = std::env::temp_dir();
                let failed = |error: &io::Error| CliError::io("make a temporary folder in", &folder, error);
                let copy = TemporaryFolder::new_in(&folder).map_err(|error| failed(&error))?;
                let path = copy.path().join("log");
                let hash = run.log.as_ref().map(|log| &log.hash);
                fetch(&log, &path, hash, None)?;
                let source = FileSource::open(&path).map_err(|error| CliError::io("open", &path, &error))?;
                Ok(HomeLog::new(Arc::new(source), name, Some(copy)))
            }
        }
    }

    /// The file of a log, where it is one here.
    pub(crate) fn log_path(&self, log: &LogRef) -> Option<PathBuf> {
        match self {
            Self::Local(store) => store.log_path(log),
            Self::Server(_) => None,
        }
    }

    /// The address of a run's log: the recorded one, else that of its file in the data folder, wherever that is now.
    pub(crate) fn log_url(&self, run: &RunRecord) -> Option<String> {
        match (&run.header.eval_log_url, self) {
            (Some(url), _) => Some(url.clone()),
            (None, Self::Local(store)) => Some(match store.log_path(&run.log) {
                Some(path) => file_url(&path),
                None => store.log_name(&run.log),
            }),
            (None, Self::Server(_)) => None,
        }
    }
}

fn local_log(store: &Store, log: &LogRef) -> Result<HomeLog, CliError> {
    let source = open_log(store, log)?;
    let name = store.log_path(log).unwrap_or_else(|| PathBuf::from(store.log_name(log)));
    Ok(HomeLog::new(source, name, None))
}

/// The bytes of a stored log.
pub(crate) fn open_log(store: &Store, log: &LogRef) -> Result<Arc<dyn Source>, CliError> {
    store.open_log(log).map_err(|error| match error {
        StoreError::Io { .. } => {
            let name = store.log_path(log).unwrap_or_else(|| PathBuf::from(store.log_name(log)));
            let error = std::error::Error::source(&error).map_or_else(String::new, ToString::to_string);
            CliError::data(format!("failed to open the stored log {}", name.display()))
                .because(&io::Error::other(error))
                .hint("ct store check tells what the store lacks; making the log again heals it")
        }
        error => error.into(),
    })
}

fn file_url(path: &Path) -> String {
    let path = path.to_string_lossy().replace('\\', "/");
    let mut url = String::from(if path.starts_with('/') { "file://" } else { "file:///" });
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-_.~:".contains(&byte) {
            url.push(char::from(byte));
        } else {
            url.push_str(&format!("%{byte:02X}"));
        }
    }
    url
}

/// What a part of a log is called, so that a later process knows it again; none when nothing tells the log from others.
pub(crate) fn part_name(log: &RemoteLog, hash: Option<&LogHash>) -> Option<String> {
    let known = hash.cloned().or_else(|| {
        let (tag, length) = (log.e_tag()?, log.length()?);
        Some(LogHash::from_bytes(Sha256::digest(format!("{length} {tag}")).into()))
    });
    known.and_then(|known| known.as_str().get(..32).map(str::to_owned))
}

/// Downloads a log into a file, going on with what is in it. What turns out altered is fetched once more from its
/// beginning. Gives its hash and length.
pub(crate) fn fetch(
    log: &Arc<RemoteLog>,
    path: &Path,
    expected: Option<&LogHash>,
    progress: Option<&Progress>,
) -> Result<ct_client::Downloaded, CliError> {
    let mut options = std::fs::File::options();
    options.read(true).write(true).create(true).truncate(false);
    let mut file = options.open(path).map_err(|error| CliError::io("write", path, &error))?;
    let advance = |n: u64| {
        if let Some(progress) = progress {
            progress.advance(n);
        }
    };
    let start = |length: Option<u64>| {
        if let Some(progress) = progress {
            progress.bytes("downloading", length.unwrap_or_default());
        }
    };
    start(log.length());
    match ct_client::download(log, &mut file, expected, &advance) {
        Err(ct_client::ClientError::Altered { .. }) => {
            file.set_len(0).map_err(|error| CliError::io("write", path, &error))?;
            start(log.length());
            let done = ct_client::download(log, &mut file, expected, &advance);
            if done.is_err() {
                // Nothing to go on with.
                let _ = file.set_len(0);
            }
            Ok(done?)
        }
        done => Ok(done?),
    }
}
