//! A source that counts what is asked of it, as if it lay on the other side of a network.

use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use ct_log::source::Source;

#[derive(Default)]
struct Counts {
    requests: Mutex<Vec<(u64, u64)>>,
    streamed_bytes: AtomicU64,
}

/// Each read and each stream is one request.
#[derive(Clone)]
pub(crate) struct Counting {
    bytes: Arc<Vec<u8>>,
    counts: Arc<Counts>,
}

impl Counting {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes: Arc::new(bytes), counts: Arc::default() }
    }

    /// The requests since the last call: offset and length of each.
    pub(crate) fn take_requests(&self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.counts.requests.lock().unwrap())
    }

    /// Bytes of streams that were really fetched, since the last call.
    pub(crate) fn take_streamed_bytes(&self) -> u64 {
        self.counts.streamed_bytes.swap(0, Ordering::Relaxed)
    }

    fn note(&self, offset: u64, bytes: u64) {
        self.counts.requests.lock().unwrap().push((offset, bytes));
    }
}

impl Source for Counting {
    fn size_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.note(offset, buffer.len() as u64);
        self.bytes.read_at(offset, buffer)
    }

    fn stream(self: Arc<Self>, offset: u64, size_bytes: u64) -> io::Result<Box<dyn Read + Send>> {
        self.note(offset, size_bytes);
        Ok(Box::new(Body { source: self, at: offset, end: offset + size_bytes }))
    }
}

struct Body {
    source: Arc<Counting>,
    at: u64,
    end: u64,
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = buffer.len().min((self.end - self.at) as usize);
        let n = self.source.bytes.read_at(self.at, &mut buffer[..n])?;
        self.at += n as u64;
        self.source.counts.streamed_bytes.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}
