//! Bodies of requests that are too large to be held: they are handed to threads that block.

use std::io::{self, Read};
use std::pin::pin;

use axum::body::{Body, Bytes};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_LENGTH;
use http_body_util::BodyExt as _;
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
    let (pieces, received) = mpsc::channel(limits::BODY_PIECES);
    let mut reader = BodyReader { pieces: received, piece: Bytes::new(), ended: false };
    let work = app.blocking(move |app| work(app, &mut reader));
    let pump = async {
        loop {
            let piece = match timeout(limits::BODY_IDLE_TIMEOUT, body.frame()).await {
                Err(_) => Err(io::ErrorKind::TimedOut.into()),
                Ok(None) => Ok(None),
                Ok(Some(Err(error))) => Err(io::Error::other(error)),
                Ok(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => Ok(Some(data)),
                    // Trailers say nothing here.
                    Err(_) => continue,
                },
            };
            let last = !matches!(piece, Ok(Some(_)));
            if pieces.send(piece).await.is_err() || last {
                break;
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
    pieces: mpsc::Receiver<io::Result<Option<Bytes>>>,
    piece: Bytes,
    ended: bool,
}

impl Read for BodyReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() && !self.ended {
            match self.pieces.blocking_recv() {
                Some(Ok(Some(piece))) => self.piece = piece,
                Some(Ok(None)) => self.ended = true,
                Some(Err(error)) => return Err(error),
                // The connection was given up.
                None => return Err(io::ErrorKind::ConnectionAborted.into()),
            }
        }
        let n = buffer.len().min(self.piece.len());
        buffer[..n].copy_from_slice(&self.piece.split_to(n));
        Ok(n)
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
