//! Puts a chunked sample together as the plain sample it stands for.
//!
//! Memory: one chunk at a time (Inspect writes 1,000 items or 10 MiB), never the sample.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;

use super::archive_log::numbered;
use super::{LogError, assemble};
use crate::archive::Archive;
use crate::format::CHUNKED_SHELL;
use crate::json::{JsonError, Reader};

/// What to write next.
enum Step {
    Text(Vec<u8>),
    /// Items of a chunk, `None` for all of them. The flag says whether items went before.
    Items {
        member: usize,
        items: Option<Range<u64>>,
        comma: bool,
    },
    /// Strings of a chunk as members of an object, keyed by their position in the whole sequence.
    Keyed {
        member: usize,
        first: u64,
        comma: bool,
    },
}

/// The sample's JSON, made chunk by chunk.
pub(super) struct ChunkedReader {
    archive: Arc<Archive>,
    steps: VecDeque<Step>,
    piece: Vec<u8>,
    at: usize,
    produced: u64,
}

impl ChunkedReader {
    pub(super) fn new(archive: Arc<Archive>, folder: &str) -> Result<Self, LogError> {
        let name = format!("{folder}{CHUNKED_SHELL}");
        let member = |name: &str| match archive.get(name) {
            Some(entry) => Ok(Some(archive.read_to_vec(entry)?)),
            None => Ok::<_, LogError>(None),
        };
        let shell = member(&name)?.unwrap_or_default();
        let mut kept = Vec::new();
        let mut message_refs = Vec::new();
        Reader::new(shell.as_slice())
            .object(|key, r| {
                if key == "message_refs" {
                    message_refs = ranges(r)?;
                } else if let Some(raw) = r.raw(usize::MAX)? {
                    kept.push((key.to_owned(), raw));
                }
                Ok::<_, JsonError>(())
            })
            .map_err(|e| LogError::json(&name, e))?;
        if let Some(metadata) = member(&format!("{folder}metadata.json"))? {
            kept.push(("metadata".to_owned(), metadata));
        }

        let chunks = |kind: &str| numbered(&archive, &format!("{folder}{kind}/"));
        let messages = chunks("messages");
        let mut steps = VecDeque::new();
        let mut text = assemble(&kept);
        text.pop();
        text.extend_from_slice(if kept.is_empty() { br#""messages":["# } else { br#","messages":["# });
        steps.push_back(Step::Text(text));
        archive.check_pieces(message_refs.len())?;
        push_ranges(&mut steps, &messages, &message_refs, &archive)?;
        steps.push_back(Step::Text(br#"],"events":["#.to_vec()));
        push_all(&mut steps, &chunks("events"));
        steps.push_back(Step::Text(br#"],"attachments":{"#.to_vec()));
        for (i, (first, member)) in chunks("attachments").into_iter().enumerate() {
            steps.push_back(Step::Keyed { member, first, comma: i > 0 });
        }
        steps.push_back(Step::Text(br#"},"events_data":{"messages":["#.to_vec()));
        push_all(&mut steps, &messages);
        steps.push_back(Step::Text(br#"],"calls":["#.to_vec()));
        push_all(&mut steps, &chunks("calls"));
        steps.push_back(Step::Text(b"]}}".to_vec()));
        Ok(Self { archive, steps, piece: Vec::new(), at: 0, produced: 0 })
    }

    fn make(&self, step: Step) -> Result<Vec<u8>, LogError> {
        let (member, comma) = match &step {
            Step::Text(_) => (0, false),
            Step::Items { member, comma, .. } | Step::Keyed { member, comma, .. } => (*member, *comma),
        };
        let mut out = if comma { vec![b','] } else { Vec::new() };
        let start = out.len();
        let entry = &self.archive.entries()[member];
        let chunk = match &step {
            Step::Text(text) => return Ok(text.clone()),
            _ => self.archive.read_to_vec(entry)?,
        };
        Reader::new(chunk.as_slice())
            .array(|i, r| {
                let raw = r.raw(usize::MAX)?.unwrap_or_default();
                let i = i as u64;
                let key = match &step {
                    Step::Keyed { first, .. } => Some(first + i),
                    Step::Items { items: Some(items), .. } if !items.contains(&i) => return Ok(()),
                    _ => None,
                };
                if out.len() > start {
                    out.push(b',');
                }
                if let Some(key) = key {
                    out.extend_from_slice(format!("\"{key}\":").as_bytes());
                }
                out.extend_from_slice(&raw);
                Ok::<_, JsonError>(())
            })
            .map_err(|e| LogError::json(&entry.name, e))?;
        if out.len() == start {
            out.clear();
        }
        Ok(out)
    }
}

impl Read for ChunkedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.piece.len() {
            let Some(step) = self.steps.pop_front() else { return Ok(0) };
            self.piece = self.make(step).map_err(|e| match e {
                LogError::Io(io) => io,
                LogError::Archive(archive) => io::Error::new(io::ErrorKind::InvalidData, archive),
                other => io::Error::new(io::ErrorKind::InvalidData, other),
            })?;
            self.at = 0;
            // References may name the same chunk again and again.
            self.produced += self.piece.len() as u64;
            self.archive
                .check_assembled(self.produced)
                .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
        }
        let n = buffer.len().min(self.piece.len() - self.at);
        buffer[..n].copy_from_slice(&self.piece[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

/// Reads an array of `[start, end)` pairs; anything else in it is left out.
fn ranges<R: Read>(r: &mut Reader<R>) -> Result<Vec<Range<u64>>, JsonError> {
    let mut found = Vec::new();
    r.array(|_, r| {
        let mut ends = Vec::new();
        r.array(|_, r| {
            ends.extend(r.number()?.filter(|n| *n >= 0.0).map(|n| n as u64));
            Ok::<_, JsonError>(())
        })?;
        if let [start, end] = ends[..] {
            found.push(start..end);
        }
        Ok::<_, JsonError>(())
    })?;
    Ok(found)
}

fn push_all(steps: &mut VecDeque<Step>, chunks: &[(u64, usize)]) {
    for (i, &(_, member)) in chunks.iter().enumerate() {
        steps.push_back(Step::Items { member, items: None, comma: i > 0 });
    }
}

/// The items of some ranges of a sequence. Parts outside of it are passed over.
fn push_ranges(
    steps: &mut VecDeque<Step>,
    chunks: &[(u64, usize)],
    ranges: &[Range<u64>],
    archive: &Archive,
) -> Result<(), LogError> {
    let mut comma = false;
    for range in ranges {
        let from = chunks.partition_point(|&(first, _)| first <= range.start).saturating_sub(1);
        for (i, &(first, member)) in chunks.iter().enumerate().skip(from) {
            if first >= range.end {
                break;
            }
            let next = chunks.get(i + 1).map_or(u64::MAX, |&(next, _)| next);
            let (from, to) = (range.start.max(first), range.end.min(next));
            if from < to {
                steps.push_back(Step::Items { member, items: Some(from - first..to - first), comma });
                comma = true;
            }
        }
        archive.check_pieces(steps.len())?;
    }
    Ok(())
}
