//! A model call as it was: with the messages that its event only refers to, because other events share them.
//!
//! The whole is told as ranges of the sample's JSON with a few characters between them, so it is read like anything
//! else: in pieces, whatever its size.

use std::io::{self, Read};
use std::sync::Arc;

use ct_log::json::{JsonError, Kind, Reader};
use ct_log::source::Source;

use super::index::{Place, limits};
use super::part::{Cut, PartReader};
use crate::convert::glance;

/// Messages that one call refers to, at most.
const REFERRED_MAX: usize = 200_000;
/// What the messages of a request are called when the log does not say.
const CALL_KEY: &str = "messages";

#[derive(Debug, Clone)]
enum Piece {
    Range(Place),
    Text(String),
}

/// The JSON of an event with everything in its place.
#[derive(Debug, Clone)]
pub struct Whole {
    pieces: Vec<Piece>,
    /// Bytes of it.
    pub size_bytes: u64,
}

/// What an event says of what it shares.
#[derive(Default)]
struct Shared {
    input: Option<Place>,
    input_ranges: Vec<(usize, usize)>,
    request: Option<Place>,
    request_is_empty: bool,
    call_ranges: Vec<(usize, usize)>,
    call_key: String,
}

impl PartReader<'_> {
    /// An event with the messages it refers to. `None`: it has all of them itself, or there is no such event.
    pub fn whole(&self, event: usize) -> Result<Option<Whole>, JsonError> {
        let Some(place) = self.index().event(event).map(|event| event.place) else { return Ok(None) };
        let shared = self.shared(place)?;
        let of = |pool: &[Place], ranges: &[(usize, usize)]| -> Vec<Place> {
            let slices = ranges.iter().map(|(begin, end)| {
                let end = (*end).min(pool.len());
                &pool[(*begin).min(end)..end]
            });
            slices.flatten().copied().take(REFERRED_MAX).collect()
        };
        let (input, request) = {
            let index = self.index();
            (of(&index.pool, &shared.input_ranges), of(&index.call_pool, &shared.call_ranges))
        };
        // Where something is put, instead of how many bytes, and what.
        let mut changes: Vec<(u64, u64, String, Vec<Place>, &str)> = Vec::new();
        if let Some(at) = shared.input.filter(|_| !input.is_empty()) {
            changes.push((at.offset, at.size_bytes, "[".to_owned(), input, "]"));
        }
        if let Some(at) = shared.request.filter(|_| !request.is_empty()) {
            let key = serde_json::to_string(&shared.call_key).unwrap_or_default();
            let end = if shared.request_is_empty { "]" } else { "], " };
            changes.push((at.offset + 1, 0, format!("{key}: ["), request, end));
        }
        if changes.is_empty() {
            return Ok(None);
        }
        changes.sort_by_key(|change| change.0);
        let mut pieces = Vec::new();
        let mut at = place.offset;
        for (begin, instead_of, head, places, end) in changes {
            pieces.push(Piece::Range(Place { offset: at, size_bytes: begin - at }));
            pieces.push(Piece::Text(head));
            for (number, place) in places.into_iter().enumerate() {
                if number > 0 {
                    pieces.push(Piece::Text(", ".to_owned()));
                }
                pieces.push(Piece::Range(place));
            }
            pieces.push(Piece::Text(end.to_owned()));
            at = begin + instead_of;
        }
        let end = place.offset + place.size_bytes;
        pieces.push(Piece::Range(Place { offset: at, size_bytes: end - at }));
        let size = |piece: &Piece| match piece {
            Piece::Range(place) => place.size_bytes,
            Piece::Text(text) => text.len() as u64,
        };
        let size_bytes = pieces.iter().map(size).sum();
        Ok(Some(Whole { pieces, size_bytes }))
    }

    fn shared(&self, place: Place) -> Result<Shared, JsonError> {
        let mut shared = Shared { call_key: CALL_KEY.to_owned(), ..Shared::default() };
        let here = |at: u64, r: &Reader<_>| Place { offset: place.offset + at, size_bytes: r.offset() - at };
        let mut r = self.reader(place)?;
        r.fields(&["input", "input_refs", "call"], |key, r| {
            let kind = r.peek()?;
            match (key, kind) {
                ("input", _) => {
                    let at = r.offset();
                    r.skip()?;
                    shared.input = Some(here(at, r));
                }
                ("input_refs", _) => shared.input_ranges = ranges(r)?,
                (_, Kind::Object) => r.fields(&["request", "call_refs", "call_key"], |key, r| {
                    let kind = r.peek()?;
                    match (key, kind) {
                        ("request", Kind::Object) => {
                            let at = r.offset();
                            let mut members = 0;
                            r.object(|_, _| {
                                members += 1;
                                Ok::<_, JsonError>(())
                            })?;
                            shared.request = Some(here(at, r));
                            shared.request_is_empty = members == 0;
                        }
                        ("call_refs", _) => shared.call_ranges = ranges(r)?,
                        ("call_key", _) => {
                            glance(r, limits::NAME_CHARS_MAX, |key| key.clone_into(&mut shared.call_key))?;
                        }
                        _ => {}
                    }
                    Ok::<_, JsonError>(())
                })?,
                _ => {}
            }
            Ok::<_, JsonError>(())
        })?;
        Ok(shared)
    }

    /// The whole from front to back.
    pub fn read_whole(&self, whole: Whole) -> impl Read + Send + use<> {
        WholeReader { source: self.source(), pieces: whole.pieces.into_iter(), now: None }
    }

    /// As [`PartReader::json`], of a whole.
    pub fn whole_json(&self, whole: Whole, bytes_max: usize) -> Result<Cut, JsonError> {
        let size_bytes = whole.size_bytes;
        let mut raw = Vec::new();
        self.read_whole(whole).take(2 * bytes_max as u64).read_to_end(&mut raw)?;
        Ok(self.laid_out(raw, size_bytes, bytes_max, Place::default()))
    }
}

/// Pairs of numbers, each the first and the one behind the last of some.
pub(super) fn ranges<R: Read>(r: &mut Reader<R>) -> Result<Vec<(usize, usize)>, JsonError> {
    let mut found = Vec::new();
    r.array(|_, r| {
        let mut ends = [0, 0];
        r.array(|place, r| {
            if let (Some(end), Some(number)) = (ends.get_mut(place), r.number()?) {
                *end = number as usize;
            }
            Ok::<_, JsonError>(())
        })?;
        if found.len() < limits::POOL_MAX {
            found.push((ends[0], ends[1]));
        }
        Ok::<_, JsonError>(())
    })?;
    Ok(found)
}

struct WholeReader {
    source: Arc<dyn Source>,
    pieces: std::vec::IntoIter<Piece>,
    now: Option<Box<dyn Read + Send>>,
}

impl Read for WholeReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(now) = &mut self.now {
                let n = now.read(buffer)?;
                if n > 0 || buffer.is_empty() {
                    return Ok(n);
                }
            }
            self.now = match self.pieces.next() {
                None => return Ok(0),
                Some(Piece::Text(text)) => Some(Box::new(io::Cursor::new(text))),
                Some(Piece::Range(place)) => {
                    Some(Arc::clone(&self.source).stream(place.offset, place.size_bytes)?)
                }
            };
        }
    }
}
