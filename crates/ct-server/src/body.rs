//! Bodies of requests that are too large to be held: they are handed to threads that block.

use std::collections::VecDeque;
use std::io::{self, BufRead, Read};
use std::pin::pin;

use axum::body::{Body, Bytes};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_LENGTH;
use bytes::Buf as _;
use http_body_util::BodyExt as _;
use hyper::body::Frame;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::app::App;
use crate::error::ApiError;
use crate::limits;

/// What a request says of the length of its body. Absent: it comes in chunks, and ends when it ends.
pub(crate) fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Hands a body to `work`, which reads it on a thread that may block, piece by piece as it arrives.
///
/// A body that breaks off, or stands still for [`limits::BODY_IDLE_TIMEOUT`], is an error of the reader and never an
/// end. When `work` fails before the end, some more is taken, so that the sender gets to read the answer.
pub(crate) async fn read_body<T: Send + 'static>(
    app: &App,
    mut body: Body,
    work: impl FnOnce(&App, &mut BodyReader) -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let _place = app.gate.enter_transfer().await?;
    let (batches, received) = mpsc::channel(limits::BODY_BATCHES);
    let mut reader = BodyReader { batches: received, batch: VecDeque::new(), ended: false };
    let work = app.blocking(move |app| work(app, &mut reader));
    let pump = async {
        loop {
            let mut next = match timeout(limits::BODY_IDLE_TIMEOUT, body.frame()).await {
                Err(_) => Err(io::ErrorKind::TimedOut.into()),
                Ok(frame) => data(frame),
            };
            // What arrives soon goes along, so that the thread is not woken up for every piece.
            let (mut batch, mut size_bytes) = (VecDeque::new(), 0);
            while let Ok(Some(piece)) = next {
                size_bytes += piece.len();
                batch.push_back(piece);
                next = Ok(Some(Bytes::new()));
                if size_bytes >= limits::BODY_BATCH_BYTES {
                    break;
                }
                match timeout(limits::BODY_BATCH_WAIT, body.frame()).await {
                    Ok(frame) => next = data(frame),
                    Err(_) => break,
                }
            }
            if !batch.is_empty() && batches.send(Ok(batch)).await.is_err() {
                break;
            }
            match next {
                Ok(Some(_)) => {}
                Ok(None) => {
                    let _ = batches.send(Ok(VecDeque::new())).await;
                    break;
                }
                Err(error) => {
                    let _ = batches.send(Err(error)).await;
                    break;
                }
            }
        }
    };
    let result = {
        let (mut work, pump) = (pin!(work), pin!(pump));
        tokio::select! {
            result = &mut work => result,
            () = pump => work.await,
        }
    };
    if result.is_err() {
        drain(body).await;
    }
    result
}

/// What a frame brings; `None` is the end.
fn data(frame: Option<Result<Frame<Bytes>, axum::Error>>) -> io::Result<Option<Bytes>> {
    match frame {
        None => Ok(None),
        Some(Err(error)) => Err(io::Error::other(error)),
        // Trailers say nothing here.
        Some(Ok(frame)) => Ok(Some(frame.into_data().unwrap_or_default())),
    }
}

/// Takes some more of a body that nobody wants.
pub(crate) async fn drain(mut body: Body) {
    let take = async {
        let mut taken = 0;
        while let Some(Ok(frame)) = body.frame().await
            && taken < limits::REFUSED_BYTES_MAX
        {
            taken += frame.data_ref().map_or(0, |data| data.len() as u64);
        }
    };
    // Who sends no more does not wait for an answer either.
    let _ = timeout(limits::REFUSED_TIMEOUT, take).await;
}

/// Reads a body on a thread that may block.
pub(crate) struct BodyReader {
    /// An empty one is the end.
    batches: mpsc::Receiver<io::Result<VecDeque<Bytes>>>,
    batch: VecDeque<Bytes>,
    ended: bool,
}

impl Read for BodyReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let piece = self.fill_buf()?;
        let n = buffer.len().min(piece.len());
        buffer[..n].copy_from_slice(&piece[..n]);
        self.consume(n);
        Ok(n)
    }
}

impl BufRead for BodyReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.batch.front().is_none_or(Bytes::is_empty) && !self.ended {
            if self.batch.pop_front().is_some() {
                continue;
            }
            match self.batches.blocking_recv() {
                Some(batch) => self.batch = batch?,
                // The connection was given up.
                None => return Err(io::ErrorKind::ConnectionAborted.into()),
            }
            self.ended = self.batch.is_empty();
        }
        Ok(self.batch.front().map_or(&[], |piece| piece))
    }

    fn consume(&mut self, n: usize) {
        if let Some(piece) = self.batch.front_mut() {
            piece.advance(n);
        }
    }
}

/// A body that is read as it is sent, on threads that may block. It breaks off when its reader fails.
pub(crate) fn of_reader(reader: Box<dyn Read + Send>) -> Body {
    Body::from_stream(futures_util::stream::unfold(Some(reader), async |reader| {
        let mut reader = reader?;
        let read = tokio::task::spawn_blocking(move || {
            let mut piece = vec![0; limits::STREAM_PIECE_BYTES];
            let mut filled = 0;
            while filled < piece.len() {
                match reader.read(&mut piece[filled..]) {
                    Ok(0) => break,
                    Ok(n) => filled += n,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            piece.truncate(filled);
            Ok((piece, reader))
        });
        match read.await.map_err(io::Error::other).flatten() {
            Ok((piece, _)) if piece.is_empty() => None,
            Ok((piece, reader)) => Some((Ok(Bytes::from(piece)), Some(reader))),
            Err(error) => {
                tracing::error!(%error, "a log turned out to be unreadable while it was sent");
                Some((Err(error), None))
            }
        }
    }))
}
