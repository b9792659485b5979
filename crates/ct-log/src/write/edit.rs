//! Changes JSON without building it: everything that is not changed stays byte for byte.

use std::collections::VecDeque;
use std::io::{self, Read};

use crate::json::{JsonError, Reader};

/// The members of a small object, as written.
#[derive(Debug, Clone, Default)]
pub(super) struct RawObject {
    /// Key as text, key as written with its quotes, value.
    members: Vec<(String, Vec<u8>, Vec<u8>)>,
}

impl RawObject {
    /// Takes an object apart. Of a repeated key the last one counts, as for every reader.
    pub(super) fn parse(raw: &[u8]) -> Result<Self, JsonError> {
        let mut reader = Reader::new(raw);
        if reader.peek()? != crate::json::Kind::Object {
            return Err(JsonError::Syntax { offset: reader.offset(), expected: "an object" });
        }
        let mut object = Self::default();
        reader.object(|key, r| {
            let member = &raw[r.member_start() as usize..r.offset() as usize];
            let key_raw = member.trim_ascii();
            let key_raw = key_raw.strip_suffix(b":").unwrap_or(key_raw).trim_ascii_end().to_vec();
            let key = key.to_owned();
            if let Some(value) = r.raw(usize::MAX)? {
                object.members.retain(|(k, ..)| *k != key);
                object.members.push((key, key_raw, value));
            }
            Ok::<_, JsonError>(())
        })?;
        reader.end()?;
        Ok(object)
    }

    /// The value, unless it is missing or null.
    pub(super) fn get(&self, key: &str) -> Option<&[u8]> {
        let (.., value) = self.members.iter().find(|(k, ..)| k == key)?;
        (value != b"null").then_some(value)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|(key, ..)| key.as_str())
    }

    /// Replaces a value in its place, or adds it at the end.
    pub(super) fn set(&mut self, key: &str, value: Vec<u8>) {
        match self.members.iter_mut().find(|(k, ..)| k == key) {
            Some((.., old)) => *old = value,
            None => self.members.push((key.to_owned(), quoted(key), value)),
        }
    }

    pub(super) fn retain(&mut self, mut keep: impl FnMut(&str, &[u8]) -> bool) {
        self.members.retain(|(key, _, value)| keep(key, value));
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![b'{'];
        for (_, key, value) in &self.members {
            if out.len() > 1 {
                out.push(b',');
            }
            out.extend_from_slice(key);
            out.push(b':');
            out.extend_from_slice(value);
        }
        out.push(b'}');
        out
    }
}

/// The elements of a small array, as written. `None` when it is no array.
pub(super) fn raw_array(raw: &[u8]) -> Result<Option<Vec<Vec<u8>>>, JsonError> {
    let mut reader = Reader::new(raw);
    if reader.peek()? != crate::json::Kind::Array {
        return Ok(None);
    }
    let mut items = Vec::new();
    reader.array(|_, r| {
        items.extend(r.raw(usize::MAX)?);
        Ok::<_, JsonError>(())
    })?;
    Ok(Some(items))
}

/// The array of these elements.
pub(super) fn join_array(items: &[Vec<u8>]) -> Vec<u8> {
    let mut out = vec![b'['];
    out.extend_from_slice(&items.join(&b','));
    out.push(b']');
    out
}

/// A text as JSON.
pub(super) fn quoted(text: &str) -> Vec<u8> {
    serde_json::Value::from(text).to_string().into_bytes()
}

/// What to put in place of some bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum With {
    Bytes(Vec<u8>),
    /// Bytes that stand elsewhere in the document.
    Range(u64, u64),
}

/// Replaces the bytes from `start` to `end` of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Edit {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) with: With,
}

impl Edit {
    pub(super) fn cut(start: u64, end: u64) -> Self {
        Self { start, end, with: With::Bytes(Vec::new()) }
    }

    pub(super) fn replace(start: u64, end: u64, with: impl Into<Vec<u8>>) -> Self {
        Self { start, end, with: With::Bytes(with.into()) }
    }
}

/// Cuts members out of one object or array, commas included.
#[derive(Debug, Default)]
pub(super) struct Cutter {
    kept: bool,
    last_end: Option<u64>,
}

impl Cutter {
    /// To be told of every member in turn: where it starts ([`Reader::member_start`]), where it ends, and whether it
    /// stays.
    pub(super) fn member(&mut self, start: u64, end: u64, keep: bool, edits: &mut Vec<Edit>) {
        let last_end = self.last_end.replace(end).unwrap_or(start);
        if !keep {
            edits.push(Edit::cut(last_end, end));
        } else if !std::mem::replace(&mut self.kept, true) && last_end < start {
            // The comma behind members that are gone.
            edits.push(Edit::cut(last_end, start));
        }
    }
}

/// A document with edits applied while it is read.
pub(super) struct Edited<'a> {
    source: Box<dyn Read + 'a>,
    at: u64,
    edits: VecDeque<Edit>,
    put: Option<Box<dyn Read + 'a>>,
    again: Box<dyn FnMut() -> io::Result<Box<dyn Read + 'a>> + 'a>,
}

impl<'a> Edited<'a> {
    /// `again` opens the same document a second time, for ranges that move.
    pub(super) fn new(
        mut edits: Vec<Edit>,
        mut again: impl FnMut() -> io::Result<Box<dyn Read + 'a>> + 'a,
    ) -> io::Result<Self> {
        edits.sort_by_key(|e| (e.start, e.end));
        Ok(Self { source: again()?, at: 0, edits: edits.into(), put: None, again: Box::new(again) })
    }
}

/// Reads over `n` bytes.
fn pass(source: &mut dyn Read, n: u64) -> io::Result<()> {
    match io::copy(&mut source.take(n), &mut io::sink())? {
        passed if passed == n => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

impl Read for Edited<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if let Some(put) = &mut self.put {
                match put.read(buffer)? {
                    0 => self.put = None,
                    n => return Ok(n),
                }
                continue;
            }
            let left = match self.edits.front() {
                Some(edit) => edit.start.saturating_sub(self.at),
                None => u64::MAX,
            };
            if left > 0 {
                let n = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                let n = self.source.read(&mut buffer[..n])?;
                self.at += n as u64;
                return Ok(n);
            }
            let Some(edit) = self.edits.pop_front() else { continue };
            pass(&mut self.source, edit.end.saturating_sub(self.at))?;
            self.at = self.at.max(edit.end);
            self.put = Some(match edit.with {
                With::Bytes(bytes) => Box::new(io::Cursor::new(bytes)),
                With::Range(start, end) => {
                    let mut other = (self.again)()?;
                    pass(&mut other, start)?;
                    Box::new(other.take(end - start))
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(document: &[u8], edits: Vec<Edit>) -> String {
        let mut out = String::new();
        Edited::new(edits, || Ok(Box::new(document) as Box<dyn Read>))
            .unwrap()
            .read_to_string(&mut out)
            .unwrap();
        out
    }

    #[test]
    fn members_are_cut_with_their_commas() {
        let document = br#"{ "a" : 1 , "b" : [1, 2] ,"c":{}, "d":4 }"#;
        for mask in 0..16_u32 {
            let mut edits = Vec::new();
            let mut cutter = Cutter::default();
            let mut reader = Reader::new(document.as_slice());
            let mut kept = Vec::new();
            reader
                .object(|key, r| {
                    let start = r.member_start();
                    r.skip()?;
                    let keep = mask >> (key.as_bytes()[0] - b'a') & 1 == 1;
                    if keep {
                        kept.push(key.to_owned());
                    }
                    cutter.member(start, r.offset(), keep, &mut edits);
                    Ok::<_, JsonError>(())
                })
                .unwrap();
            let out = apply(document, edits);
            let found = serde_json::from_str::<serde_json::Map<_, _>>(&out).expect(&out);
            assert_eq!(found.keys().collect::<Vec<_>>(), kept.iter().collect::<Vec<_>>(), "{out}");
        }
    }

    #[test]
    fn ranges_move() {
        let edits = vec![
            Edit { start: 2, end: 2, with: With::Range(5, 8) },
            Edit::replace(2, 3, "-"),
            Edit::cut(5, 9),
        ];
        assert_eq!(apply(b"0123456789", edits), "01567-349");
    }

    #[test]
    fn raw_objects_keep_what_they_hold() {
        let raw = br#"{"a": NaN, "\ud83d" : 1e400,"b":[ 1 ],"a":18446744073709551617,"n":null}"#;
        let mut object = RawObject::parse(raw).unwrap();
        assert_eq!(object.get("a"), Some(&b"18446744073709551617"[..]));
        assert_eq!(object.get("n"), None);
        object.set("b", b"2".to_vec());
        object.set("é\n", b"3".to_vec());
        assert_eq!(
            String::from_utf8(object.to_bytes()).unwrap(),
            r#"{"\ud83d":1e400,"b":2,"a":18446744073709551617,"n":null,"é\n":3}"#
        );
        assert!(RawObject::parse(b"[]").is_err());
        assert!(RawObject::parse(b"{} x").is_err());
    }
}
