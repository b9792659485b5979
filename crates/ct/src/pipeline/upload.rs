//! A log becomes a run on a server: it is hashed and converted here, uploaded, and registered with its documents.
//!
//! A log of some size is on its way while it is hashed and converted. Documents wait in a temporary file, one a line,
//! until the log is stored; memory is that of one batch.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Read, Seek as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::Scope;
use std::time::Duration;

use ct_client::{Client, ClientError, LogFile, LogName, LogReader, Named, Register, Stop, StoredObject};
use ct_model::convert::{HeaderFacts, RunOptions, TrajectoryIds, run_header, run_id_of};
use ct_model::{
    LogHash, LogRef, ObjectKey, PriceTable, RunEdit, RunHeader, RunId, TrajectoryDocument, TrajectoryId,
    sample_url,
};

use super::input::{self, Input};
use super::make::{Conversion, earlier_revision, header_of, several};
use super::{Made, MadeRun, MadeStatus, MakeOptions, OtherBytes};
use crate::error::CliError;
use crate::home::{Home, Run};
use crate::output::Progress;

/// A smaller log is hashed first: that takes no time, and nothing is sent in vain.
const HASHED_FIRST_BYTES: u64 = 16 << 20;
/// How often it is told how much was sent.
const TOLD_EVERY: Duration = Duration::from_millis(50);

/// Makes a run of a log file, or of a folder that holds the trajectory files of a run.
pub(crate) fn upload_run(
    client: &Client,
    source: &Path,
    options: &MakeOptions,
    progress: &Progress,
) -> Result<Made, CliError> {
    let input = Input::open(source, options, progress)?;
    let prices = input::prices(options.prices.as_deref())?;
    let log = input::open(&input.path)?;
    let header = log.header().map_err(|e| CliError::log(source, &e))?;
    let facts = HeaderFacts::from_value(&header.value);
    let same_eval = same_eval(client, &input.options, &facts)?;
    let reader = LogReader::open(&input.path)?;
    let size_bytes = reader.size_bytes();
    // What may be refused, or known already, is not sent before that is decided.
    let early = size_bytes > HASHED_FIRST_BYTES && same_eval.is_empty() && client.is_ct()?;
    let name = LogName::default();
    let file = LogFile { reader: &reader, format: input.format, name: &name };
    std::thread::scope(|scope| {
        // However this ends, nobody waits for a name for ever.
        let _ends = Ends(&name);
        let sending = early.then(|| Sending::start(scope, client, file));
        let broken = sending.as_ref().map(|sending| Arc::clone(&sending.failed));
        let failed = || broken.as_ref().is_some_and(|broken| broken.load(Ordering::Relaxed));
        let work = Work { client, source, input: &input, log: &log, facts: &facts, failed: &failed };
        let ready = match work.prepare(&same_eval, &reader, prices.as_ref(), progress) {
            Ok(Prepared::Ready(ready)) => ready,
            Ok(Prepared::There(made)) => {
                name.stop(Stop::NotNeeded);
                return Ok(made);
            }
            Ok(Prepared::SameEval(made)) => return Ok(made),
            Err(error) if failed() => {
                let upload = sending.and_then(|sending| sending.wait(progress).err());
                return Err(upload.unwrap_or(error));
            }
            Err(error) => return Err(error),
        };
        let key = ObjectKey::new(ready.run_id.clone(), input.format).to_string();
        name.tell(Named { filename: key, hash: ready.hash.clone() });
        let sending = sending.unwrap_or_else(|| Sending::start(scope, client, file));
        progress.bytes("uploading", size_bytes);
        let stored = sending.wait(progress)?;
        if stored.hash.as_ref().is_some_and(|hash| *hash != ready.hash) {
            return Err(ClientError::SourceChanged { path: source.display().to_string() }.into());
        }
        let Ready { run_id, header, spool, made, replaces, .. } = *ready;
        register(client, &stored, &run_id, replaces.as_ref(), header, spool, progress)?;
        let Some(run) = replaces else { return Ok(Made::Run(made)) };
        let known = known_run(client, &run)?
            .ok_or_else(|| CliError::internal("a run is gone whose log was just replaced"))?;
        Ok(match already_there(client, &run, &known, &input)? {
            Made::Run(there) => {
                Made::Run(MadeRun { status: MadeStatus::Replaced, defects: made.defects, ..there })
            }
            other => other,
        })
    })
}

/// Ends the wait for a name that nobody told.
struct Ends<'a>(&'a LogName);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.stop(Stop::ForNow);
    }
}

/// An upload on a thread of its own.
struct Sending {
    sent: Arc<AtomicU64>,
    failed: Arc<AtomicBool>,
    done: mpsc::Receiver<ct_client::Result<Option<StoredObject>>>,
}

impl Sending {
    fn start<'scope, 'env>(
        scope: &'scope Scope<'scope, 'env>,
        client: &'env Client,
        file: LogFile<'env>,
    ) -> Self {
        let (sent, failed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (tell, done) = mpsc::channel();
        let sending = Self { sent: Arc::clone(&sent), failed: Arc::clone(&failed), done };
        scope.spawn(move || {
            let result = client.upload_log(&file, &|so_far| sent.store(so_far, Ordering::Relaxed));
            failed.store(result.is_err(), Ordering::Relaxed);
            // Nobody may want to know any more.
            let _ = tell.send(result);
        });
        sending
    }

    fn wait(&self, progress: &Progress) -> Result<StoredObject, CliError> {
        loop {
            match self.done.recv_timeout(TOLD_EVERY) {
                Ok(Ok(Some(stored))) => return Ok(stored),
                Ok(Err(error)) => return Err(error.into()),
                Ok(Ok(None)) | Err(RecvTimeoutError::Disconnected) => {
                    return Err(CliError::internal("the upload ended without a word"));
                }
                Err(RecvTimeoutError::Timeout) => progress.set(self.sent.load(Ordering::Relaxed)),
            }
        }
    }
}

/// What is known of a run before its log is uploaded.
enum Prepared {
    /// The server has the log.
    There(Made),
    SameEval(Made),
    Ready(Box<Ready>),
}

/// A run that can be registered once its log is there.
struct Ready {
    run_id: RunId,
    hash: LogHash,
    header: RunHeader,
    spool: Spool,
    made: MadeRun,
    /// The run that gets all this in place of what it has.
    replaces: Option<RunId>,
}

/// The runs of the same eval, as far as the server tells; or the one that is meant.
fn same_eval(client: &Client, options: &MakeOptions, facts: &HeaderFacts) -> Result<Vec<RunId>, CliError> {
    if let Some(over) = &options.over {
        return Ok(vec![over.clone()]);
    }
    match &facts.eval_id {
        Some(eval_id) if client.is_ct()? => Ok(client.runs_of_eval(eval_id)?),
        _ => Ok(Vec::new()),
    }
}

struct Work<'a> {
    client: &'a Client,
    source: &'a Path,
    input: &'a Input,
    log: &'a ct_log::Log,
    facts: &'a HeaderFacts,
    /// Whether there is no use in going on.
    failed: &'a (dyn Fn() -> bool + Sync),
}

impl Work<'_> {
    /// Hashes and converts the log.
    fn prepare(
        &self,
        same_eval: &[RunId],
        reader: &LogReader,
        prices: Option<&PriceTable>,
        progress: &Progress,
    ) -> Result<Prepared, CliError> {
        let (client, input) = (self.client, self.input);
        progress.bytes("hashing", reader.size_bytes());
        let hash = reader.hash(&|so_far| progress.set(so_far))?;
        let run_id = run_id_of(hash.as_str()).map_err(|e| CliError::internal(e.to_string()))?;
        let there = || match known_run(client, &run_id)? {
            Some(known) if known.log.as_ref().is_none_or(|log| log.hash == hash) => {
                already_there(client, &run_id, &known, input).map(Prepared::There).map(Some)
            }
            _ => Ok::<_, CliError>(None),
        };
        if let Some(there) = there()? {
            return Ok(there);
        }
        let refuse = input.options.other_bytes == OtherBytes::Refuse;
        for run in same_eval {
            let Some(known) = known_run(client, run)? else { continue };
            if known.record.log.hash == hash {
                return already_there(client, run, &known, input).map(Prepared::There);
            }
            let revision = known.record.revisions.iter().find(|old| old.log.hash == hash);
            if let Some(old) = revision.filter(|_| refuse) {
                return Ok(Prepared::There(earlier(run, &known, old.revision, input)));
            }
        }
        match (same_eval, input.options.other_bytes) {
            ([], _) | (_, OtherBytes::AsNew) => {}
            (runs, OtherBytes::Refuse) => {
                return Ok(Prepared::SameEval(Made::SameEval { runs: runs.to_vec() }));
            }
            ([run], OtherBytes::Replace) => {
                // On its way to another run the log goes by its whole hash, which is the id of no run.
                let on_its_way = RunId::new(hash.as_str()).map_err(|e| CliError::internal(e.to_string()))?;
                let ids = TrajectoryIds::new(self.facts, hash.as_str());
                return self.convert(ids, prices, on_its_way, hash, Some(run.clone()), progress);
            }
            (runs, OtherBytes::Replace) => return Err(several(runs)),
        }
        if same_eval.is_empty() {
            let ids = TrajectoryIds::new(self.facts, hash.as_str());
            let prepared = self.convert(ids, prices, run_id.clone(), hash.clone(), None, progress)?;
            // Found out before the log is registered, and mostly before it is uploaded, which may take hours.
            let taken = match &prepared {
                Prepared::Ready(ready) => self.taken(&ready.spool, &run_id)?,
                _ => None,
            };
            let Some(held_by) = taken else { return Ok(prepared) };
            // Someone made it of the same log meanwhile.
            if held_by == run_id
                && let Some(there) = there()?
            {
                return Ok(there);
            }
            if let Some(refused) = self.held(held_by)? {
                return Ok(refused);
            }
        }
        // Its trajectories are others than those of the first run.
        let ids = TrajectoryIds::of_second_run(hash.as_str());
        self.convert(ids, prices, run_id, hash, None, progress)
    }

    fn convert(
        &self,
        mut ids: TrajectoryIds,
        prices: Option<&PriceTable>,
        run_id: RunId,
        hash: LogHash,
        replaces: Option<RunId>,
        progress: &Progress,
    ) -> Result<Prepared, CliError> {
        let options = &self.input.options;
        let conversion = Conversion {
            source: self.source,
            read: &self.input.path,
            log: self.log,
            facts: self.facts,
            prices,
            run_id: &run_id,
        };
        let mut spool = Spool::new()?;
        let (registration, defects) =
            conversion.run(&mut ids, &self.input.defects, progress, &mut |document| {
                if (self.failed)() {
                    return Err(CliError::internal("the upload failed"));
                }
                spool.push(document)
            })?;
        // What the user says of a run that is there goes over what the log says, and stays when that changes again.
        let mut header = match &replaces {
            Some(_) => run_header(self.facts, &RunOptions::default()),
            None => header_of(self.facts, options),
        };
        registration.apply(&mut header);
        let made = MadeRun {
            status: MadeStatus::Created,
            run_id: run_id.clone(),
            name: options.run_name.clone().unwrap_or_else(|| header.name.clone()),
            trajectories: registration.trajectory_count(),
            defects,
        };
        Ok(Prepared::Ready(Box::new(Ready { run_id, hash, header, spool, made, replaces })))
    }

    /// The run that holds the first or the last of the trajectories. Of a `ct` it may be the one of this id, with another
    /// log.
    fn taken(&self, spool: &Spool, run_id: &RunId) -> Result<Option<RunId>, CliError> {
        for id in spool.first.iter().chain(&spool.last) {
            match self.client.document(id) {
                Ok(document) if document.run_id.as_ref() == Some(run_id) && !self.client.is_ct()? => {}
                Ok(document) => return Ok(document.run_id),
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    /// What comes of a log whose trajectories another run holds. `None`: a run of its own.
    fn held(&self, by: RunId) -> Result<Option<Prepared>, CliError> {
        let known = known_run(self.client, &by)?.filter(Run::is_whole);
        let other_eval = known
            .as_ref()
            .is_some_and(|run| run.record.eval_id.is_none() || run.record.eval_id != self.facts.eval_id);
        match self.input.options.other_bytes {
            OtherBytes::AsNew => Ok(None),
            // Another eval may have recorded the same ids.
            _ if other_eval => Ok(None),
            OtherBytes::Refuse => Ok(Some(Prepared::SameEval(Made::SameEval { runs: vec![by] }))),
            OtherBytes::Replace if known.is_some() => {
                Err(CliError::conflict(format!("run {by} of the same eval was made meanwhile"))
                    .hint("run it again: it replaces the log of that run then"))
            }
            OtherBytes::Replace => Err(CliError::usage(format!(
                "this server keeps the log of a run for good, so run {by} cannot get another"
            ))
            .hint("--as-new makes a second run")
            .hint(format!("delete the first one with: ct runs delete {by}"))),
        }
    }
}

/// The run that a server has under this id, also a deleted one.
pub(crate) fn known_run(client: &Client, run: &RunId) -> Result<Option<Run>, CliError> {
    let found = Home::Server(client.clone()).run(run);
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == crate::error::Kind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The same bytes are the same run; a deleted one comes back. What the user says about it is taken in.
fn already_there(client: &Client, run: &RunId, known: &Run, input: &Input) -> Result<Made, CliError> {
    let options = &input.options;
    let mut defects = input.defects.clone();
    let deleted = known.record.deleted_at.is_some();
    if deleted {
        client.restore_run(run)?;
    }
    let mut edit = options.edit();
    if edit.task_set.take().is_some() {
        defects.push("the run was there already: a server does not change the task set of a run".to_owned());
    }
    let edited = edit != RunEdit::default();
    let mut name = known.record.header.name.clone();
    if edited {
        name = client.edit_run(run, &edit)?.name;
    }
    if options.prices.is_some() {
        defects
            .push("the run was there already: its costs stay as they are, --prices was not used".to_owned());
    }
    Ok(Made::Run(MadeRun {
        status: match (deleted, edited) {
            (true, _) => MadeStatus::Restored,
            (_, true) => MadeStatus::Edited,
            _ => MadeStatus::Unchanged,
        },
        run_id: run.clone(),
        name,
        trajectories: known.record.header.trajectory_count.unwrap_or_default(),
        defects,
    }))
}

/// The bytes are those of an earlier log of the run.
fn earlier(run: &RunId, known: &Run, revision: u64, input: &Input) -> Made {
    let mut defects = input.defects.clone();
    defects.push(earlier_revision(revision));
    let header = &known.record.header;
    Made::Run(MadeRun {
        status: MadeStatus::Unchanged,
        run_id: run.clone(),
        name: header.name.clone(),
        trajectories: header.trajectory_count.unwrap_or_default(),
        defects,
    })
}

/// Documents that wait for their log, one a line.
pub(crate) struct Spool {
    file: BufWriter<File>,
    count: u64,
    first: Option<TrajectoryId>,
    last: Option<TrajectoryId>,
}

impl Spool {
    pub(crate) fn new() -> Result<Self, CliError> {
        let file = tempfile::tempfile()
            .map_err(|e| CliError::io("make a temporary file in", &std::env::temp_dir(), &e))?;
        Ok(Self { file: BufWriter::new(file), count: 0, first: None, last: None })
    }

    /// Adds a document. Where its log lies is said when it is sent.
    pub(crate) fn push(&mut self, document: &TrajectoryDocument) -> Result<(), CliError> {
        let mut document = document.clone();
        document.eval_log_url = None;
        let line = serde_json::to_string(&document).map_err(|e| CliError::internal(e.to_string()))?;
        // The id stands before the document, so that its address can be made without reading the document.
        let id =
            serde_json::to_string(&document.eval_sample_id).map_err(|e| CliError::internal(e.to_string()))?;
        writeln!(self.file, "{id}\t{line}").map_err(|e| spool_error(&e))?;
        self.count += 1;
        let id = document.trajectory_id;
        if self.first.is_none() {
            self.first = id;
        } else {
            self.last = id;
        }
        Ok(())
    }

    /// The documents as they are sent, for a log at this address.
    fn lines(self, log_url: &str) -> Result<impl io::BufRead + Send, CliError> {
        let mut file = self.file.into_inner().map_err(|e| spool_error(e.error()))?;
        file.rewind().map_err(|e| spool_error(&e))?;
        Ok(BufReader::new(Lines {
            file: BufReader::new(file),
            log_url: log_url.to_owned(),
            line: Vec::new(),
            at: 0,
        }))
    }
}

fn spool_error(error: &io::Error) -> CliError {
    CliError::io("use a temporary file in", &std::env::temp_dir(), error)
}

/// Puts the address of its sample into each document.
struct Lines {
    file: BufReader<File>,
    log_url: String,
    line: Vec<u8>,
    at: usize,
}

impl Read for Lines {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.line.len() {
            let mut raw = String::new();
            if self.file.read_line(&mut raw)? == 0 {
                return Ok(0);
            }
            let (id, document) = raw.split_once('\t').unwrap_or(("", &raw));
            let id: String = serde_json::from_str(id)?;
            let url = serde_json::to_string(&sample_url(&self.log_url, &id))?;
            let document = document.strip_prefix('{').unwrap_or(document);
            self.line = format!("{{\"eval_log_url\":{url},{document}").into_bytes();
            self.at = 0;
        }
        let n = buffer.len().min(self.line.len() - self.at);
        buffer[..n].copy_from_slice(&self.line[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

/// Uploads a log whose hash is known, and registers its run.
pub(crate) fn send(
    client: &Client,
    path: &Path,
    log: &LogRef,
    header: RunHeader,
    spool: Spool,
    run_id: &RunId,
    progress: &Progress,
) -> Result<(), CliError> {
    let reader = LogReader::open(path)?;
    let size_bytes = reader.size_bytes();
    let filename = ObjectKey::new(run_id.clone(), log.format).to_string();
    let name = LogName::known(Named { filename, hash: log.hash.clone() });
    progress.bytes("uploading", size_bytes);
    let file = LogFile { reader: &reader, format: log.format, name: &name };
    let stored = client.upload_log(&file, &|so_far| progress.set(so_far))?;
    let stored = stored.ok_or_else(|| CliError::internal("the upload ended without a word"))?;
    register(client, &stored, run_id, None, header, spool, progress)
}

/// Registers a run whose log is uploaded.
fn register(
    client: &Client,
    stored: &StoredObject,
    run_id: &RunId,
    replaces: Option<&RunId>,
    mut header: RunHeader,
    spool: Spool,
    progress: &Progress,
) -> Result<(), CliError> {
    let log_url = format!("s3://{}/{}", stored.bucket, stored.key);
    header.run_id = Some(run_id.clone());
    header.eval_log_url = Some(log_url.clone());
    // Who and when are the server's to say.
    (header.created_at, header.created_by) = (None, None);
    progress.items("registering", spool.count);
    let register = Register { run: &header, log: (&stored.key, stored.size_bytes), replaces };
    match client.register(spool.lines(&log_url)?, &register, &|n| progress.advance(n)) {
        Err(error @ ClientError::Conflict { .. }) => {
            let taken = CliError::from(error);
            Err(taken.hint("--as-new makes a run whose trajectories have ids of their own"))
        }
        other => Ok(other?),
    }
}
