//! Bytes that can be read by range: a file, memory, or an object somewhere else.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Something that answers byte ranges. Reads may come from several threads at once.
///
/// Every call of [`Source::read_at`] is one request where the bytes lie elsewhere; readers here ask for few, large
/// ranges (see [`crate::Log`]).
pub trait Source: Send + Sync {
    /// Length in bytes.
    fn size_bytes(&self) -> u64;

    /// Reads some bytes at an offset into `buffer`; 0 only at the end or for an empty buffer.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Fills the whole buffer, or fails.
    fn read_exact_at(&self, mut offset: u64, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.read_at(offset, buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => {
                    offset += n as u64;
                    buffer = &mut buffer[n..];
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Reads one range from front to back. A source that lies elsewhere should answer with one request and hand out its
    /// body as it comes; the default asks [`Source::read_at`] piece by piece.
    fn stream(self: Arc<Self>, offset: u64, size_bytes: u64) -> io::Result<Box<dyn Read + Send>>
    where
        Self: 'static,
    {
        Ok(Box::new(RangeReader { source: self, at: offset, end: offset.saturating_add(size_bytes) }))
    }
}

/// A local file.
pub struct FileSource {
    file: File,
    size_bytes: u64,
}

impl FileSource {
    /// Opens a file. Its length is taken now; bytes added later are not seen.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        Ok(Self { file, size_bytes: metadata.len() })
    }
}

impl Source for FileSource {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    #[cfg(unix)]
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(&self.file, buffer, offset)
    }

    #[cfg(windows)]
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        std::os::windows::fs::FileExt::seek_read(&self.file, buffer, offset)
    }
}

impl Source for Vec<u8> {
    fn size_bytes(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(self.len());
        let n = buffer.len().min(self.len() - from);
        buffer[..n].copy_from_slice(&self[from..from + n]);
        Ok(n)
    }
}

/// Reads one range of a source from front to back; a source that ends earlier gives an error, not a short read.
struct RangeReader<S: ?Sized> {
    source: Arc<S>,
    at: u64,
    end: u64,
}

impl<S: Source + ?Sized> Read for RangeReader<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        let n = buffer.len().min(left);
        if n == 0 {
            return Ok(0);
        }
        let n = self.source.read_at(self.at, &mut buffer[..n])?;
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.at += n as u64;
        Ok(n)
    }
}

/// Bytes that [`Blocks`] reads at a time.
const BLOCK_BYTES: usize = 4 << 20;

/// A source that is gone through from front to back in small steps: it reads large blocks and keeps the last one. What
/// is longer than a block is read past it.
pub(crate) struct Blocks {
    source: Arc<dyn Source>,
    /// Where it begins, and its bytes.
    kept: Mutex<(u64, Vec<u8>)>,
}

impl Blocks {
    pub(crate) fn new(source: Arc<dyn Source>) -> Self {
        Self { source, kept: Mutex::default() }
    }
}

impl Source for Blocks {
    fn size_bytes(&self) -> u64 {
        self.source.size_bytes()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.size_bytes().saturating_sub(offset);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (start, block) = &mut *kept;
        if !(*start..*start + block.len() as u64).contains(&offset) {
            let n = left.min(BLOCK_BYTES as u64) as usize;
            // Half a block would pass for the end of the source.
            let mut bytes = std::mem::take(block);
            bytes.resize(n, 0);
            self.source.read_exact_at(offset, &mut bytes)?;
            (*start, *block) = (offset, bytes);
        }
        let from = (offset - *start) as usize;
        let n = buffer.len().min(block.len() - from);
        buffer[..n].copy_from_slice(&block[from..from + n]);
        Ok(n)
    }

    fn stream(self: Arc<Self>, offset: u64, size_bytes: u64) -> io::Result<Box<dyn Read + Send>> {
        if size_bytes > BLOCK_BYTES as u64 {
            return Arc::clone(&self.source).stream(offset, size_bytes);
        }
        let end = offset.saturating_add(size_bytes);
        Ok(Box::new(RangeReader { source: self, at: offset, end }))
    }
}
