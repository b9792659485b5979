//! A run on a server while it goes on: what is finished is uploaded beside the work, as the next version of the run's log.
//!
//! Each version is the whole log up to then, so they must not come too often: the next is sent when the log has grown by a
//! share of itself, which bounds all versions together to a few times the log.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ct_client::Client;
use ct_model::RunId;

use crate::error::CliError;
use crate::output::Printer;
use crate::pipeline::partial::TemporaryFolder;
use crate::pipeline::{self, Made, MakeOptions};

/// The least time from one version to the next.
const PAUSE: Duration = Duration::from_secs(5);

/// Uploads versions in the background.
pub(super) struct Live {
    watcher: Watcher,
    thread: JoinHandle<Option<RunId>>,
}

/// Looks at the log whenever it is whole, and takes a copy when the next version is due.
#[derive(Clone)]
pub(super) struct Watcher(Arc<Mutex<State>>);

struct State {
    copy: PathBuf,
    /// None when no version is to come any more.
    sender: Option<SyncSender<()>>,
    /// A version is on its way.
    busy: bool,
    sent_bytes: u64,
    not_before: Instant,
    folder: TemporaryFolder,
}

impl Live {
    pub(super) fn start(client: Client, options: MakeOptions, printer: &Printer) -> Result<Self, CliError> {
        let folder = std::env::temp_dir();
        let folder = TemporaryFolder::new_in(&folder)
            .map_err(|error| CliError::io("make a temporary folder in", &folder, &error))?;
        let copy = folder.path().join("growing.eval");
        let (sender, receiver) = sync_channel(1);
        let watcher = Watcher(Arc::new(Mutex::new(State {
            copy: copy.clone(),
            sender: Some(sender),
            busy: false,
            sent_bytes: 0,
            not_before: Instant::now(),
            folder,
        })));
        let (state, printer) = (watcher.clone(), printer.clone());
        let thread = std::thread::spawn(move || {
            let upload = Uploads { client, options, printer, copy, state };
            upload.all(&receiver)
        });
        Ok(Self { watcher, thread })
    }

    pub(super) fn watcher(&self) -> Watcher {
        self.watcher.clone()
    }

    /// Waits for what is on its way. Gives the run that is there, if any.
    pub(super) fn end(self) -> Option<RunId> {
        self.watcher.state().sender = None;
        self.thread.join().ok().flatten()
    }
}

impl Watcher {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Throws the copy away, when the process ends before its time.
    pub(super) fn discard(&self) {
        // What cannot be removed stays in the folder for temporary things.
        let _ = std::fs::remove_dir_all(self.state().folder.path());
    }

    /// The log is whole for the time of this call.
    pub(super) fn look(&self, log: &Path) {
        let mut state = self.state();
        let size_bytes = std::fs::metadata(log).map_or(0, |metadata| metadata.len());
        let grown = size_bytes >= state.sent_bytes + state.sent_bytes / 4;
        if state.busy || !grown || Instant::now() < state.not_before {
            return;
        }
        // The next version may be had where this one is not.
        if std::fs::copy(log, &state.copy).is_err() {
            return;
        }
        let Some(sender) = &state.sender else { return };
        if sender.try_send(()).is_ok() {
            state.busy = true;
            state.sent_bytes = size_bytes;
        }
    }
}

struct Uploads {
    client: Client,
    options: MakeOptions,
    printer: Printer,
    copy: PathBuf,
    state: Watcher,
}

impl Uploads {
    fn all(&self, due: &Receiver<()>) -> Option<RunId> {
        let mut run = None;
        let mut complained = false;
        while due.recv().is_ok() {
            // No bar: the screen is the run's.
            let progress = Printer::silent_progress();
            let options = MakeOptions { over: run.clone(), ..self.options.clone() };
            match pipeline::upload_run(&self.client, &self.copy, &options, &progress) {
                Ok(Made::Run(made)) => {
                    if run.is_none() {
                        self.printer.detail(&format!("the run is shown as {}", made.run_id));
                    }
                    run = Some(made.run_id);
                }
                Ok(Made::SameEval { .. }) => {}
                Err(error) => {
                    if !std::mem::replace(&mut complained, true) {
                        let reason = error.reason();
                        self.printer.warning(&format!("the run cannot be shown while it goes on: {reason}"));
                    }
                }
            }
            let mut state = self.state.state();
            state.busy = false;
            state.not_before = Instant::now() + PAUSE;
        }
        run
    }
}
