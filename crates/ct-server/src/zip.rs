//! Many trajectories as one ZIP file, sent while it is made.
//!
//! Memory: the ids, the archive's directory, and what one small sample takes; not what samples come to. Each sample is
//! read once to check it before its member begins, so that a damaged one is told in `failed.json` and costs nothing but
//! itself; deflated ones are then copied as they lie in the log. What fails after a member has begun breaks the
//! connection off.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::Response;
use ct_log::StoredRange;
use ct_log::archive::method;
use ct_log::write::ZipStream;
use ct_model::{RunId, RunRecord, StoredLog, TrajectoryId};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::app::App;
use crate::auth;
use crate::error::ApiError;
use crate::limits;
use crate::sample::{self, Found};

/// A sample up to this size is held while it is compressed.
const HELD_BYTES_MAX: u64 = 4 << 20;
/// Says that the file is whole; pieces of it are never empty.
const END: Bytes = Bytes::new();

/// Lets someone make a file, until it is dropped. Strangers, who may read as slowly as they like, have turns of their own.
pub(crate) fn turn(app: &App, reader: &auth::Reader) -> Result<OwnedSemaphorePermit, ApiError> {
    let turns = if reader.0.is_some() { &app.exports } else { &app.open_exports };
    Arc::clone(turns)
        .try_acquire_owned()
        .map_err(|_| ApiError::unavailable("too many ZIP files are being made already").retry_after(10))
}

/// The answer with these trajectories. `selection` says in the manifest how they were chosen, `failed` what is known to
/// be missing.
pub(crate) fn respond(
    app: &App,
    turn: OwnedSemaphorePermit,
    ids: Vec<TrajectoryId>,
    failed: Vec<Value>,
    selection: Value,
) -> Result<Response, ApiError> {
    let (sender, receiver) = mpsc::channel::<io::Result<Bytes>>(limits::STREAM_PIECES);
    let app = app.clone();
    let span = tracing::Span::current();
    tokio::task::spawn_blocking(move || {
        let _turn = turn;
        let _span = span.enter();
        let pieces = Pieces { sender: sender.clone(), buffer: Vec::new() };
        match export(&app, &ids, failed, &selection, pieces) {
            Ok(()) => drop(sender.blocking_send(Ok(END))),
            Err(error) if sender.is_closed() => {
                tracing::debug!(%error, "a client left in the middle of a ZIP file");
            }
            Err(error) => {
                tracing::error!(%error, "a ZIP file broke off");
                drop(sender.blocking_send(Err(error)));
            }
        }
    });
    let body = stream::unfold(Some(receiver), async |receiver| {
        let mut receiver = receiver?;
        match receiver.recv().await {
            Some(Ok(piece)) if piece.is_empty() => None,
            Some(Ok(piece)) => Some((Ok(piece), Some(receiver))),
            Some(Err(error)) => Some((Err(error), None)),
            // Whoever made it died.
            None => Some((Err(io::ErrorKind::BrokenPipe.into()), None)),
        }
    });
    let mut response = Response::new(Body::from_stream(body));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/zip"));
    headers
        .insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment; filename=\"trajectories.zip\""));
    Ok(response)
}

/// Hands bytes to the connection, and waits while it is busy.
struct Pieces {
    sender: mpsc::Sender<io::Result<Bytes>>,
    buffer: Vec<u8>,
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= limits::STREAM_PIECE_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.buffer, Vec::with_capacity(limits::STREAM_PIECE_BYTES));
        self.sender.blocking_send(Ok(piece.into())).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

fn export(
    app: &App,
    ids: &[TrajectoryId],
    mut failed: Vec<Value>,
    selection: &Value,
    pieces: Pieces,
) -> io::Result<()> {
    let mut zip = ZipStream::new(pieces);
    let mut reader = Reader { app, log: None };
    let mut sent = Vec::new();
    // Where nobody answers for one log, the next one fares no better, and each takes its time.
    let mut away: Option<String> = None;
    for id in ids {
        if let Some(sentence) = &away {
            failed.push(json!({"trajectory_id": id, "error": sentence}));
            continue;
        }
        match reader.open(id) {
            Ok(sample) => {
                reader.add(&mut zip, id, sample)?;
                // What there is of it is shown at once.
                if sent.is_empty() {
                    zip.flush()?;
                }
                sent.push(id);
            }
            Err(error) => {
                away = error.is_away().then(|| error.sentence().to_owned());
                failed.push(json!({"trajectory_id": id, "error": error.sentence()}));
            }
        }
    }
    let manifest = json!({
        "schema_version": 3,
        "created_at": jiff::Timestamp::now().to_string(),
        "selection": selection,
        "requested_count": ids.len(),
        "trajectory_count": sent.len(),
        "failed_count": failed.len(),
        "trajectory_ids": sent,
    });
    zip.add("manifest.json", &serde_json::to_vec_pretty(&manifest)?)?;
    zip.add("failed.json", &serde_json::to_vec_pretty(&failed)?)?;
    zip.finish()?;
    Ok(())
}

struct Reader<'a> {
    app: &'a App,
    /// The log that was read last: trajectories of a run mostly come one after the other.
    log: Option<(RunId, RunRecord, StoredLog)>,
}

/// A sample that was read to its end, and is right.
struct Sample {
    metadata: Vec<u8>,
    found: Found,
    /// Its JSON, when it is small and has to be compressed here.
    held: Option<Vec<u8>>,
}

impl Reader<'_> {
    fn open(&mut self, id: &TrajectoryId) -> Result<Sample, ApiError> {
        let not_found = || ApiError::not_found(format!("trajectory {id} was not found"));
        let document = self.app.store.document(id)?;
        let run_id = document.run_id.clone().ok_or_else(not_found)?;
        if self.log.as_ref().is_none_or(|(known, ..)| *known != run_id) {
            let run = self.app.store.run(&run_id)?;
            let log = sample::open_log(self.app, &run.log)?;
            self.log = Some((run_id, run, log));
        }
        let Some((run_id, run, log)) = &self.log else { return Err(not_found()) };
        if run.deleted_at.is_some() {
            let sentence = format!("trajectory {id} is part of run {run_id}, which is deleted");
            return Err(ApiError::not_found(sentence));
        }
        let mut found = Found { document, run: run.clone() };
        let metadata = found.frame(self.app)?.metadata().to_vec();
        let mut json = log.read(&found.document).map_err(|error| sample::unreadable(id, &error))?;
        let unreadable = |error: io::Error| sample::unreadable(id, &error.into());
        let held = if copied(&found).is_none() {
            let mut bytes = Vec::new();
            (&mut json).take(HELD_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
            (bytes.len() as u64 <= HELD_BYTES_MAX).then_some(bytes)
        } else {
            None
        };
        io::copy(&mut json, &mut io::sink()).map_err(unreadable)?;
        Ok(Sample { metadata, found, held })
    }

    fn add(&self, zip: &mut ZipStream<Pieces>, id: &TrajectoryId, sample: Sample) -> io::Result<()> {
        let Some((_, _, log)) = &self.log else { return Err(io::ErrorKind::NotFound.into()) };
        let name = format!("trajectories/{id}/sample.json");
        zip.add(&format!("trajectories/{id}/metadata.json"), &sample.metadata)?;
        if let Some(json) = &sample.held {
            return zip.add(&name, json);
        }
        let document = &sample.found.document;
        if let Some(range) = copied(&sample.found) {
            let mut data = log.read_compressed(range).map_err(io::Error::other)?;
            return zip.add_compressed(&name, &StoredRange::from(range), &mut data);
        }
        let size = document.eval_sample_range.as_ref().map(|range| range.uncompressed_size);
        zip.add_reader(&name, size, &mut log.read(document).map_err(io::Error::other)?)
    }
}

/// Where the sample lies, when its bytes can be copied as they are.
fn copied(found: &Found) -> Option<&ct_model::SampleRange> {
    let range = found.document.eval_sample_range.as_ref();
    range.filter(|range| matches!(range.compression_method, method::STORED | method::DEFLATE))
}

/// Each id once, in the order given; at most as many as one file may hold.
pub(crate) fn distinct(ids: Vec<TrajectoryId>) -> Result<Vec<TrajectoryId>, ApiError> {
    let mut seen = BTreeSet::new();
    let distinct: Vec<TrajectoryId> = ids.into_iter().filter(|id| seen.insert(id.clone())).collect();
    if distinct.len() as u64 > limits::ZIP_TRAJECTORIES_MAX {
        let sentence = format!(
            "these are {} trajectories, and one ZIP file holds at most {}",
            distinct.len(),
            limits::ZIP_TRAJECTORIES_MAX
        );
        return Err(ApiError::invalid(sentence));
    }
    Ok(distinct)
}
