//! Finding text in a sample without holding it.
//!
//! What is searched is the JSON of each step and of its events, and the attachments that these refer to: so a hit tells
//! its step. Texts stand there escaped, and what is searched for is escaped alike. Case is ignored for ASCII letters.

use std::io::{self, Read};

use super::index::{Place, id_hash};
use super::part::PartReader;

/// Bytes read at a time.
const CHUNK_BYTES: usize = 256 << 10;
/// Bytes of what may be searched for.
const NEEDLE_BYTES_MAX: usize = 1_000;
/// Behind this stands the name of an attachment.
const REFERENCE: &[u8] = b"attachment://";
/// Attachments of one value that are searched.
const REFERENCES_MAX: usize = 1_000;
/// Bytes of such a name.
const REFERENCE_BYTES_MAX: usize = 32;

/// A step that holds the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hit {
    /// The step's number.
    pub step: usize,
    /// The first action of the step, when it has one.
    pub action: Option<u32>,
}

/// A search for a text.
pub struct Search {
    needle: Vec<u8>,
}

impl Search {
    /// `None` when the text is empty or too long.
    pub fn new(text: &str) -> Option<Self> {
        let json = serde_json::to_string(text).ok()?;
        let needle = json.as_bytes()[1..json.len() - 1].to_ascii_lowercase();
        (!needle.is_empty() && needle.len() <= NEEDLE_BYTES_MAX).then_some(Self { needle })
    }

    /// Looks through the steps from `from` on until `bytes_max` bytes were read or `hits_max` were found. Also says
    /// which step to go on from; `None` at the end.
    pub fn run(
        &self,
        sample: &PartReader<'_>,
        from: usize,
        hits_max: usize,
        bytes_max: u64,
    ) -> io::Result<(Vec<Hit>, Option<usize>)> {
        let mut hits = Vec::new();
        let mut read = 0;
        let mut number = from;
        loop {
            let (places, action) = {
                let index = sample.index();
                let Some(step) = index.step(number) else { return Ok((hits, None)) };
                let mut places = vec![step.place];
                places.extend(index.calls_of(step).iter().map(|call| call.output));
                for event in index.events_of(step) {
                    places.extend(index.event(*event as usize).map(|event| event.place));
                }
                (places, index.calls_of(step).iter().find_map(|call| call.action))
            };
            let mut found = false;
            let mut references = Vec::new();
            for place in places.into_iter().filter(|place| !place.is_empty()) {
                read += place.size_bytes;
                found = found || self.is_in(sample, place, Some(&mut references))?;
            }
            for place in references {
                if found {
                    break;
                }
                read += place.size_bytes;
                found = self.is_in(sample, place, None)?;
            }
            if found {
                hits.push(Hit { step: number, action });
            }
            number += 1;
            if hits.len() >= hits_max || read >= bytes_max {
                let more = sample.index().step(number).is_some();
                return Ok((hits, more.then_some(number)));
            }
        }
    }

    /// Whether a value holds the text; collects the attachments that it refers to.
    fn is_in(
        &self,
        sample: &PartReader<'_>,
        place: Place,
        mut references: Option<&mut Vec<Place>>,
    ) -> io::Result<bool> {
        let mut stream = sample.stream(place)?;
        let overlap = self.needle.len().max(REFERENCE.len() + REFERENCE_BYTES_MAX + 1);
        let mut buffer = vec![0; CHUNK_BYTES + overlap];
        let mut kept = 0;
        loop {
            let n = stream.read(&mut buffer[kept..])?;
            if n == 0 {
                return Ok(false);
            }
            let filled = kept + n;
            buffer[kept..filled].make_ascii_lowercase();
            let chunk = &buffer[..filled];
            if memchr::memmem::find(chunk, &self.needle).is_some() {
                return Ok(true);
            }
            if let Some(references) = references.as_deref_mut() {
                for at in memchr::memmem::find_iter(chunk, REFERENCE) {
                    let name = &chunk[at + REFERENCE.len()..];
                    // One that is cut here comes again with the next bytes.
                    let Some(end) = name.iter().take(REFERENCE_BYTES_MAX + 1).position(|b| *b == b'"') else {
                        continue;
                    };
                    let Ok(name) = std::str::from_utf8(&name[..end]) else { continue };
                    if let Some(place) = sample.index().attachments.get(&id_hash(name))
                        && references.len() < REFERENCES_MAX
                        && !references.contains(place)
                    {
                        references.push(*place);
                    }
                }
            }
            kept = overlap.min(filled);
            buffer.copy_within(filled - kept..filled, 0);
        }
    }
}
