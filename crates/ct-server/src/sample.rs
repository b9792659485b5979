//! One trajectory as a file: its metadata, and its sample as it lies in the log, in pieces that follow the client.
//!
//! Cost: one ranged read of the log; memory: one piece and the decoder. The first piece is read before the answer
//! begins, so a small sample is checked as a whole before a byte of it goes out, and a large one that cannot be read at
//! all is an error like any other. A sample whose end turns out to be wrong breaks the connection off: the client sees
//! a body that is too short.

use std::io::{self, Read};

use axum::body::{Body, Bytes};
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::response::Response;
use ct_log::LogError;
use ct_model::{BundleFrame, LogRef, RunRecord, StoredLog, TrajectoryDocument, TrajectoryId};
use futures_util::stream;
use serde_json::json;

use crate::app::App;
use crate::error::ApiError;
use crate::{limits, shown};

/// A trajectory with the run that it belongs to.
pub(crate) struct Found {
    pub(crate) document: TrajectoryDocument,
    pub(crate) run: RunRecord,
}

/// Looks for a trajectory; one of a deleted run is not found.
pub(crate) fn find(app: &App, id: &TrajectoryId) -> Result<Found, ApiError> {
    let not_found = || ApiError::not_found(format!("trajectory {id} was not found"));
    let document = app.store.document(id)?;
    let run = app.store.run(document.run_id.as_ref().ok_or_else(not_found)?)?;
    if run.deleted_at.is_some() {
        return Err(not_found());
    }
    Ok(Found { document, run })
}

impl Found {
    /// What goes around the sample. Who and when are the server's to say.
    pub(crate) fn frame(&mut self, app: &App) -> Result<BundleFrame, ApiError> {
        let document = &mut self.document;
        shown::complete_document(app, document, self.run.log.format);
        document.extra.insert("created_by".to_owned(), self.run.header.created_by.clone().into());
        document.extra.insert("created_at".to_owned(), self.run.created_at.to_string().into());
        let found = app.store.trajectory_comments(document)?;
        document.extra.insert("comments".to_owned(), json!(found.comments));
        document.extra.insert("step_comments".to_owned(), json!(found.step_comments));
        Ok(BundleFrame::new(document))
    }
}

/// A stored log.
pub(crate) fn open_log(app: &App, log: &LogRef) -> Result<StoredLog, ApiError> {
    let source = app.store.open_log(log).map_err(|error| {
        tracing::error!(log = app.store.log_name(log), %error, "a stored log cannot be opened");
        ApiError::damaged("the stored log of the run cannot be read; `ct store check` tells more")
    })?;
    Ok(StoredLog::new(source))
}

/// A sample that cannot be read.
pub(crate) fn unreadable(id: &TrajectoryId, error: &LogError) -> ApiError {
    if let Some(away) = crate::error::bucket_error(error) {
        return away;
    }
    tracing::error!(trajectory = %id, error = %crate::error::causes(error), "a stored sample cannot be read");
    ApiError::damaged(format!(
        "the stored sample of trajectory {id} cannot be read; `ct store check` tells more"
    ))
}

/// The answer with a trajectory's metadata and sample.
pub(crate) async fn respond(app: &App, id: TrajectoryId) -> Result<Response, ApiError> {
    let (frame, size, first, rest) = app
        .blocking(move |app| {
            let mut found = find(app, &id)?;
            let frame = found.frame(app)?;
            let log = open_log(app, &found.run.log)?;
            let mut reader = log.read(&found.document).map_err(|error| unreadable(&id, &error))?;
            let piece = piece(&mut reader).map_err(|error| unreadable(&id, &error.into()))?;
            let size = found.document.eval_sample_range.as_ref().map(|range| range.uncompressed_size);
            let rest = (!piece.last).then_some(reader);
            Ok((frame, size, piece.bytes, rest))
        })
        .await?;
    let whole = rest.is_none().then_some(first.len() as u64);
    let length = size.or(whole).map(|size| frame.file_bytes(size));
    let pieces = Pieces { waiting: vec![Bytes::copy_from_slice(frame.head()), first], rest };
    let mut response = Response::new(Body::from_stream(stream::unfold(Some(pieces), next)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(length) = length {
        headers.insert(CONTENT_LENGTH, length.into());
    }
    Ok(response)
}

/// Some bytes of a reader.
pub(crate) struct Piece {
    pub(crate) bytes: Bytes,
    /// The end was reached; of a sample, size and CRC are right.
    pub(crate) last: bool,
}

/// Reads until a piece is full, or to the end.
pub(crate) fn piece(reader: &mut (impl Read + ?Sized)) -> io::Result<Piece> {
    let mut bytes = vec![0; limits::STREAM_PIECE_BYTES];
    let mut filled = 0;
    while filled < bytes.len() {
        match reader.read(&mut bytes[filled..]) {
            Ok(0) => {
                bytes.truncate(filled);
                return Ok(Piece { bytes: bytes.into(), last: true });
            }
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Piece { bytes: bytes.into(), last: false })
}

struct Pieces {
    /// In order.
    waiting: Vec<Bytes>,
    /// Absent: everything was read.
    rest: Option<Box<dyn Read + Send>>,
}

/// Gives the next piece when the client has taken the one before: a slow one holds no thread.
async fn next(pieces: Option<Pieces>) -> Option<(io::Result<Bytes>, Option<Pieces>)> {
    let mut pieces = pieces?;
    if !pieces.waiting.is_empty() {
        let bytes = pieces.waiting.remove(0);
        return Some((Ok(bytes), Some(pieces)));
    }
    let Some(mut reader) = pieces.rest.take() else {
        return Some((Ok(Bytes::from_static(BundleFrame::TAIL)), None));
    };
    let read = tokio::task::spawn_blocking(move || {
        let piece = piece(&mut reader)?;
        Ok::<_, io::Error>((piece, reader))
    });
    match read.await.map_err(io::Error::other).flatten() {
        Ok((piece, reader)) => {
            pieces.rest = (!piece.last).then_some(reader);
            Some((Ok(piece.bytes), Some(pieces)))
        }
        Err(error) => {
            tracing::error!(%error, "a sample turned out to be unreadable while it was sent");
            Some((Err(error), None))
        }
    }
}
