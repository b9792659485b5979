//! A client's connection: its bytes are counted, and it is given up when nothing of an answer goes out for a long time.
//!
//! To what is no request the library below answers by itself, with a status and nothing else. Such a head is kept back,
//! see [`crate::refusal`].

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::app::App;
use crate::limits;
use crate::refusal;

/// A connection that is watched.
pub(crate) struct Connection {
    stream: TcpStream,
    app: App,
    /// When writing is given up; set while it waits.
    stalled: Option<Pin<Box<Sleep>>>,
    /// What looks like a bare refusal: told as written, and not sent yet.
    kept: Vec<u8>,
    /// Whether it may be one.
    is_kept: Arc<AtomicBool>,
}

impl Connection {
    pub(crate) fn new(stream: TcpStream, app: App) -> Self {
        app.metrics.connections.inc();
        Self { stream, app, stalled: None, kept: Vec::new(), is_kept: Arc::default() }
    }

    /// Set while something is kept back. Who finds it set when there is nothing more to do unsets it and asks for
    /// another turn: then it was no refusal, and is sent.
    pub(crate) fn is_kept(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_kept)
    }

    /// What is kept back, which is then the caller's to send.
    pub(crate) fn take_kept(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.kept)
    }

    fn keep(&mut self, head: &[u8]) -> Poll<io::Result<usize>> {
        self.kept.extend_from_slice(head);
        self.is_kept.store(true, Ordering::Relaxed);
        Poll::Ready(Ok(head.len()))
    }

    /// Sends what was kept back.
    fn poll_let_go(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.kept.is_empty() {
            let written = Pin::new(&mut self.stream).poll_write(context, &self.kept);
            let bytes = ready!(self.written(written, context))?;
            self.kept.drain(..bytes);
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.app.metrics.connections.dec();
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.stream).poll_read(context, buffer));
        self.app.metrics.bytes_in.inc_by((buffer.filled().len() - before) as u64);
        Poll::Ready(read)
    }
}

impl Connection {
    fn written(
        &mut self,
        written: Poll<io::Result<usize>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(written) => {
                self.stalled = None;
                if let Ok(bytes) = &written {
                    self.app.metrics.bytes_out.inc_by(*bytes as u64);
                }
                Poll::Ready(written)
            }
            Poll::Pending => {
                let stalled = self
                    .stalled
                    .get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + limits::STALL_TIMEOUT)));
                ready!(stalled.as_mut().poll(context));
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes nothing")))
            }
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_let_go(context))?;
        let bytes = match refusal::start(bytes) {
            Some(0) => return self.keep(bytes),
            Some(start) => &bytes[..start],
            None => bytes,
        };
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let pieces = match pieces.split_last() {
            Some((last, [])) => return self.poll_write(context, last),
            Some((last, others)) if refusal::start(last).is_some() => others,
            _ => pieces,
        };
        ready!(self.poll_let_go(context))?;
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.written(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_kept.load(Ordering::Relaxed) {
            ready!(self.poll_let_go(context))?;
        }
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.kept.is_empty() {
            // Something is to be sent yet.
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
