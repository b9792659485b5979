//! A log becomes a run on a server: it is hashed and converted here, uploaded, and registered with its documents.
//!
//! Documents wait in a temporary file, one a line, until the log is stored; memory is that of one batch.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Read, Seek as _, Write as _};
use std::path::Path;

use ct_client::{Client, ClientError, LogFile, Register, StoredObject};
use ct_model::convert::{HeaderFacts, RunOptions, TrajectoryIds, run_header, run_id_of};
use ct_model::{
    LogFormat, LogHash, ObjectKey, PriceTable, RunEdit, RunHeader, RunId, TrajectoryDocument, TrajectoryId,
    sample_url,
};

use super::input::{self, Input};
use super::make::{Conversion, earlier_revision, header_of};
use super::{Made, MadeRun, MadeStatus, MakeOptions, OtherBytes, folder};
use crate::error::CliError;
use crate::home::{Home, Run};
use crate::output::Progress;

/// Makes a run of a log file, or of a folder that holds the trajectory files of a run.
pub(crate) fn upload_run(
    client: &Client,
    source: &Path,
    options: &MakeOptions,
    progress: &Progress,
) -> Result<Made, CliError> {
    upload_over(client, source, options, None, progress)
}

/// As [`upload_run`]; a log that replaces another takes the place of this run's.
pub(crate) fn upload_over(
    client: &Client,
    source: &Path,
    options: &MakeOptions,
    over: Option<&RunId>,
    progress: &Progress,
) -> Result<Made, CliError> {
    let input = Input::open(source, options, progress)?;
    let prices = input::prices(options.prices.as_deref())?;
    let hash = folder::hash_file(&input.path, progress)?;
    let run_id = run_id_of(hash.as_str()).map_err(|e| CliError::internal(e.to_string()))?;
    if let Some(known) = known_run(client, &run_id)?
        && known.log.as_ref().is_none_or(|log| log.hash == hash)
    {
        return already_there(client, &run_id, &known, &input);
    }
    let log = input::open(&input.path)?;
    let header = log.header().map_err(|e| CliError::log(source, &e))?;
    let facts = HeaderFacts::from_value(&header.value);
    // On its way to another run the log goes by its whole hash, which is the id of no run.
    let on_its_way = RunId::new(hash.as_str()).map_err(|e| CliError::internal(e.to_string()))?;
    let replacing = (options.other_bytes == OtherBytes::Replace).then_some((&on_its_way, false));
    let work =
        Work { client, source, input: &input, hash: &hash, on_its_way: &on_its_way, over, facts: &facts };
    for (run_id, own_ids) in replacing.into_iter().chain([(&run_id, false), (&run_id, true)]) {
        if let Some(made) = work.attempt(&log, prices.as_ref(), run_id, own_ids, progress)? {
            return Ok(made);
        }
    }
    Err(CliError::internal("ids of a run of its own are taken"))
}

struct Work<'a> {
    client: &'a Client,
    source: &'a Path,
    input: &'a Input,
    hash: &'a LogHash,
    on_its_way: &'a RunId,
    /// The run whose log is known to be replaced.
    over: Option<&'a RunId>,
    facts: &'a HeaderFacts,
}

impl Work<'_> {
    /// `None`: another run has trajectories of these ids, and a run of its own is right; or there is none to replace.
    fn attempt(
        &self,
        log: &ct_log::Log,
        prices: Option<&PriceTable>,
        run_id: &RunId,
        own_ids: bool,
        progress: &Progress,
    ) -> Result<Option<Made>, CliError> {
        let options = &self.input.options;
        let mut ids = if own_ids {
            TrajectoryIds::of_second_run(self.hash.as_str())
        } else {
            TrajectoryIds::new(self.facts, self.hash.as_str())
        };
        let conversion = Conversion {
            source: self.source,
            read: &self.input.path,
            log,
            facts: self.facts,
            prices,
            run_id,
        };
        let mut spool = Spool::new()?;
        let (registration, defects) =
            conversion.run(&mut ids, &self.input.defects, progress, &mut |document| spool.push(document))?;
        // Found out before the log is on its way, which may take hours.
        let mut replaces = None;
        if let Some(held_by) = self.taken(&spool, run_id)? {
            let known = known_run(self.client, &held_by)?.filter(Run::is_whole);
            if let Some(known) = &known {
                let revision = known.record.revisions.iter().find(|old| old.log.hash == *self.hash);
                if known.record.log.hash == *self.hash {
                    return already_there(self.client, &held_by, known, self.input).map(Some);
                } else if let Some(old) = revision.filter(|_| options.other_bytes == OtherBytes::Refuse) {
                    return Ok(Some(earlier(&held_by, known, old.revision, self.input)));
                }
            }
            let other_eval = known.as_ref().is_some_and(|run| run.record.eval_id != self.facts.eval_id);
            match options.other_bytes {
                _ if own_ids => {}
                OtherBytes::AsNew => return Ok(None),
                _ if other_eval => return Ok(None),
                OtherBytes::Refuse => return Ok(Some(Made::SameEval { runs: vec![held_by] })),
                OtherBytes::Replace if known.is_some() && run_id == self.on_its_way => {
                    replaces = Some(held_by)
                }
                OtherBytes::Replace => {
                    return Err(CliError::usage(format!(
                        "this server keeps the log of a run for good, so run {held_by} cannot get another"
                    ))
                    .hint("--as-new makes a second run")
                    .hint(format!("delete the first one with: ct runs delete {held_by}")));
                }
            }
        }
        if replaces.is_none() && run_id == self.on_its_way {
            return Ok(None);
        }
        // What the user says of a run that is there goes over what the log says, and stays when that changes again.
        let mut header = match &replaces {
            Some(_) => run_header(self.facts, &RunOptions::default()),
            None => header_of(self.facts, options),
        };
        registration.apply(&mut header);
        let send = ToSend {
            run_id,
            path: &self.input.path,
            format: self.input.format,
            hash: self.hash,
            header,
            replaces: replaces.as_ref(),
        };
        send.send(self.client, spool, progress)?;
        if let Some(run) = &replaces {
            let known = known_run(self.client, run)?
                .ok_or_else(|| CliError::internal("a run is gone whose log was just replaced"))?;
            return match already_there(self.client, run, &known, self.input)? {
                Made::Run(made) => {
                    Ok(Some(Made::Run(MadeRun { status: MadeStatus::Replaced, defects, ..made })))
                }
                other => Ok(Some(other)),
            };
        }
        Ok(Some(Made::Run(MadeRun {
            status: MadeStatus::Created,
            run_id: run_id.clone(),
            name: options.run_name.clone().unwrap_or_else(|| send.header.name.clone()),
            trajectories: registration.trajectory_count(),
            defects,
        })))
    }

    /// The run that holds the first or the last of the trajectories. Of a `ct` it may be the one of this id, with another
    /// log.
    fn taken(&self, spool: &Spool, run_id: &RunId) -> Result<Option<RunId>, CliError> {
        if let Some(over) = self.over.filter(|_| run_id == self.on_its_way) {
            return Ok(Some(over.clone()));
        }
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
    fn lines(self, log_url: &str) -> Result<impl io::BufRead, CliError> {
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

/// A run to be sent.
pub(crate) struct ToSend<'a> {
    pub(crate) run_id: &'a RunId,
    pub(crate) path: &'a Path,
    pub(crate) format: LogFormat,
    pub(crate) hash: &'a LogHash,
    pub(crate) header: RunHeader,
    /// The run that gets all this in place of what it has.
    pub(crate) replaces: Option<&'a RunId>,
}

impl ToSend<'_> {
    /// Uploads the log, then registers the run.
    pub(crate) fn send(&self, client: &Client, spool: Spool, progress: &Progress) -> Result<(), CliError> {
        let size_bytes = self.path.metadata().map_err(|e| CliError::io("read", self.path, &e))?.len();
        let key = ObjectKey::new(self.run_id.clone(), self.format).to_string();
        progress.bytes("uploading", size_bytes);
        let file = LogFile { path: self.path, filename: &key, size_bytes, hash: self.hash };
        let stored: StoredObject = client.upload_log(&file, &|so_far| progress.set(so_far))?;
        let log_url = format!("s3://{}/{}", stored.bucket, stored.key);
        let mut header = self.header.clone();
        header.run_id = Some(self.run_id.clone());
        header.eval_log_url = Some(log_url.clone());
        // Who and when are the server's to say.
        (header.created_at, header.created_by) = (None, None);
        progress.items("registering", spool.count);
        let register = Register { run: &header, log: (&stored.key, size_bytes), replaces: self.replaces };
        match client.register(spool.lines(&log_url)?, &register, &|n| progress.advance(n)) {
            Err(error @ ClientError::Conflict { .. }) => {
                let taken = CliError::from(error);
                Err(taken.hint("--as-new makes a run whose trajectories have ids of their own"))
            }
            other => Ok(other?),
        }
    }
}
