//! Reading values of a sample by range, as far as they fit on a screen.

use std::cell::Cell;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ct_log::json::{self, JsonError, Kind, Reader};
use ct_log::source::Source;
use serde_json::Value;

use super::index::{Index, Place};

/// How much of a sample is taken at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Bytes of a text; of a JSON value up to twice as many are laid out.
    pub(super) text_bytes: usize,
    /// Bytes of one thing, such as a step, but for its events.
    pub(super) step_bytes: usize,
    /// Calls of a step.
    pub(super) calls: usize,
    /// Events of a step.
    pub(super) events: usize,
    /// Bytes of an event or a score.
    pub(super) event_bytes: usize,
    /// Bytes of all events of a step.
    pub(super) events_bytes: usize,
}

impl Room {
    /// For a screen, where more can be asked for.
    pub const SCREEN: Self = Self {
        text_bytes: 4_000,
        step_bytes: 400_000,
        calls: 40,
        events: 12,
        event_bytes: 60_000,
        events_bytes: 720_000,
    };
    /// For what an agent changed in its workspace, which is read as a whole.
    pub const DIFF: Self = Self { text_bytes: 160 << 10, event_bytes: 512 << 10, ..Self::SCREEN };
    /// For paper, where the rest of everything follows at once.
    pub const PAPER: Self = Self {
        text_bytes: 64 << 10,
        step_bytes: 8 << 20,
        calls: 4_000,
        events: 25,
        event_bytes: 256 << 10,
        events_bytes: 4 << 20,
    };
}

/// Bytes that a part counts for beside its text.
const PART_BYTES: usize = 200;
/// Bytes of a text that are shown however little room there is.
const TEXT_BYTES_MIN: usize = 200;
/// Bytes of an attachment within a JSON value that is laid out.
const NESTED_TEXT_BYTES: usize = 2_000;
/// Members of an object, or parts of a content, that are shown.
const MEMBERS_MAX: usize = 200;
/// Bytes of a text beyond which its size is told as it is written, with escapes.
const COUNTED_BYTES_MAX: u64 = 64 << 20;
/// How an attachment is referred to.
const SCHEMES: [&str; 2] = ["attachment://", "tc://"];

/// The beginning of a text, and where all of it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cut {
    /// The text, from front or from where it was asked for.
    pub text: String,
    /// Bytes of the text as it is written in the sample up to where it was cut; absent: it goes to the end.
    pub next: Option<u64>,
    /// Bytes of the whole text.
    pub size_bytes: u64,
    /// Where its JSON lies.
    pub place: Place,
}

/// An image in the sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Picture {
    /// Where its data URI lies.
    pub place: Place,
}

/// A value to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Text of a message.
    Text(Cut),
    /// Reasoning of a model.
    Reasoning {
        /// The reasoning, or a summary of it.
        text: Cut,
        /// The model's maker keeps it secret.
        redacted: bool,
    },
    /// An image that can be shown.
    Picture(Picture),
    /// Something that is not shown: what it is, and where it lies.
    Media {
        /// Such as `audio`, or why an image is not shown.
        kind: String,
        /// The file's name, or the address it is at.
        name: Option<String>,
        /// Where it lies.
        place: Place,
    },
    /// A named value of any kind.
    Member {
        /// Its key.
        name: String,
        /// The text, or the JSON laid out.
        value: Cut,
        /// It is JSON.
        json: bool,
    },
}

/// Values to show, in order.
pub type Parts = Vec<Part>;

/// A value of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Field {
    Text(Cut),
    Json(Cut),
    /// A number, `true`, `false`; null is left out.
    Scalar(String),
}

impl Field {
    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::Text(cut) | Self::Json(cut) => &cut.text,
            Self::Scalar(text) => text,
        }
    }

    pub(super) fn into_part(self, name: String) -> Part {
        match self {
            Self::Text(value) => Part::Member { name, value, json: false },
            Self::Json(value) => Part::Member { name, value, json: true },
            Self::Scalar(text) => {
                let size_bytes = text.len() as u64;
                Part::Member { name, value: Cut { text, size_bytes, ..Cut::default() }, json: true }
            }
        }
    }
}

/// Members of an object.
#[derive(Default)]
pub(super) struct Members {
    fields: Vec<(String, Field)>,
    left_out: usize,
}

impl Members {
    pub(super) fn fields(&self) -> &[(String, Field)] {
        &self.fields
    }

    /// What is empty is left out.
    pub(super) fn into_parts(self) -> impl Iterator<Item = Part> {
        let fields = self.into_fields().into_iter().filter(|(_, field)| !field.as_str().is_empty());
        fields.map(|(name, field)| field.into_part(name))
    }

    pub(super) fn into_fields(mut self) -> Vec<(String, Field)> {
        self.fields.extend(left_out(self.left_out));
        self.fields
    }
}

/// Stands for what is not shown.
fn left_out(count: usize) -> Option<(String, Field)> {
    (count > 0).then(|| ("…".to_owned(), Field::Scalar(format!("{count} more, in the raw JSON"))))
}

/// Reads parts of a sample by range.
pub struct PartReader<'a> {
    source: Arc<dyn Source>,
    index: &'a Mutex<Index>,
    pub(super) room: Room,
    /// Bytes that may still be taken for what is being read: a step, an event, a score.
    left_bytes: Cell<usize>,
    /// The last of them, which are for beginnings of texts alone: so that everything there is can be seen.
    kept_bytes: Cell<usize>,
}

impl<'a> PartReader<'a> {
    /// Of a sample's JSON and its index, which may still be growing; for a screen.
    pub fn new(source: Arc<dyn Source>, index: &'a Mutex<Index>) -> Self {
        let room = Room::SCREEN;
        let reader = Self { source, index, room, left_bytes: Cell::default(), kept_bytes: Cell::default() };
        reader.begin(room.step_bytes);
        reader
    }

    /// The same with other room.
    #[must_use]
    pub fn with_room(self, room: Room) -> Self {
        self.begin(room.step_bytes);
        Self { room, ..self }
    }

    /// Begins to read something that has room of its own.
    pub(super) fn begin(&self, bytes_max: usize) {
        self.left_bytes.set(bytes_max);
        self.kept_bytes.set(bytes_max / 2);
    }

    /// How much of the next text is shown.
    fn text_bytes(&self) -> usize {
        let left = self.left().saturating_sub(self.kept_bytes.get());
        self.room.text_bytes.min(left).max(TEXT_BYTES_MIN)
    }

    /// Whether so much was taken that the rest is left out.
    pub(super) fn is_spent(&self) -> bool {
        self.left_bytes.get() == 0
    }

    pub(super) fn left(&self) -> usize {
        self.left_bytes.get()
    }

    fn spend(&self, cut: &Cut) {
        let cost = cut.text.len() + PART_BYTES;
        self.left_bytes.set(self.left_bytes.get().saturating_sub(cost));
    }

    pub(super) fn index(&self) -> MutexGuard<'a, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn source(&self) -> Arc<dyn Source> {
        Arc::clone(&self.source)
    }

    pub(super) fn stream(&self, place: Place) -> io::Result<Box<dyn Read + Send>> {
        Arc::clone(&self.source).stream(place.offset, place.size_bytes)
    }

    pub(super) fn reader(&self, place: Place) -> Result<Reader<Box<dyn Read + Send>>, JsonError> {
        Ok(Reader::new(self.stream(place)?))
    }

    /// The JSON of a value as it is written, from front to back.
    pub fn raw(&self, place: Place) -> io::Result<Box<dyn Read + Send>> {
        self.stream(place)
    }

    /// A piece of a text: `from` is where the piece before it ended ([`Cut::next`]).
    pub fn text(&self, place: Place, from: u64, bytes_max: usize) -> io::Result<Cut> {
        let (text, next) = self.piece(place, from, bytes_max)?;
        let inner = place.size_bytes - 2;
        let size_bytes = if next.is_none() && from == 0 {
            text.len() as u64
        } else if place.size_bytes <= COUNTED_BYTES_MAX {
            decoded_bytes(self.stream(Place { offset: place.offset + 1, size_bytes: inner })?)?
        } else {
            inner
        };
        Ok(Cut { text, next, size_bytes, place })
    }

    /// As [`Self::text`], without a look at all of it.
    pub fn piece(&self, place: Place, from: u64, bytes_max: usize) -> io::Result<(String, Option<u64>)> {
        let bad = || io::Error::new(io::ErrorKind::InvalidData, "there is no text at this place");
        let inner = place.size_bytes.checked_sub(2).filter(|inner| from <= *inner).ok_or_else(bad)?;
        let mut quote = [0];
        self.source.read_exact_at(place.offset, &mut quote)?;
        if quote != *b"\"" {
            return Err(bad());
        }
        let wanted = (inner - from).min(bytes_max as u64);
        let mut raw = vec![b'"'; wanted as usize + 1];
        self.source.read_exact_at(place.offset + 1 + from, &mut raw[1..])?;
        let whole = from + wanted == inner;
        if !whole {
            raw.truncate(1 + fit(&raw[1..]));
        }
        let next = (!whole).then_some(from + raw.len() as u64 - 1);
        raw.push(b'"');
        match json::parse(&raw) {
            Ok(Value::String(text)) => Ok((text, next)),
            _ => Err(bad()),
        }
    }

    /// The text that a value is or refers to.
    pub(super) fn resolved(&self, place: Place) -> Result<Cut, JsonError> {
        let bytes_max = self.text_bytes();
        let mut cut = self.text(place, 0, bytes_max)?;
        if let Some(place) = self.referred(&cut) {
            cut = self.text(place, 0, bytes_max)?;
        }
        self.spend(&cut);
        Ok(cut)
    }

    /// Where the text lies that another one refers to, if it is a reference.
    fn referred(&self, cut: &Cut) -> Option<Place> {
        if cut.next.is_some() {
            return None;
        }
        self.attachment(&cut.text)
    }

    fn attachment(&self, text: &str) -> Option<Place> {
        let name = reference(text)?;
        self.index().attachment(name)
    }

    /// The next value of a reader that began at `base`.
    pub(super) fn field<R: Read>(&self, r: &mut Reader<R>, base: u64) -> Result<Option<Field>, JsonError> {
        let kind = r.peek()?;
        let at = r.offset();
        r.skip()?;
        let place = Place { offset: base + at, size_bytes: r.offset() - at };
        Ok(match kind {
            Kind::Null => None,
            Kind::String => Some(Field::Text(self.resolved(place)?)),
            Kind::Object | Kind::Array => {
                let cut = self.json(place, self.text_bytes())?;
                self.spend(&cut);
                Some(Field::Json(cut))
            }
            Kind::Number | Kind::Bool => {
                let mut text = String::new();
                self.stream(place)?.take(100).read_to_string(&mut text)?;
                Some(Field::Scalar(text))
            }
        })
    }

    /// A JSON value laid out, with the beginnings of attachments in their places; or, when it takes much more than
    /// `bytes_max`, its beginning as it is written.
    pub fn json(&self, place: Place, bytes_max: usize) -> Result<Cut, JsonError> {
        let wanted = (place.size_bytes as usize).min(2 * bytes_max);
        let mut raw = vec![0; wanted];
        self.source.read_exact_at(place.offset, &mut raw)?;
        Ok(self.laid_out(raw, place.size_bytes, bytes_max, place))
    }

    /// As [`Self::json`], of bytes that are all of it or more than is laid out.
    pub(super) fn laid_out(&self, mut raw: Vec<u8>, size_bytes: u64, bytes_max: usize, place: Place) -> Cut {
        if raw.len() as u64 == size_bytes
            && let Ok(mut value) = json::parse(&raw)
        {
            if is_empty(&value) {
                return Cut { text: String::new(), place, ..Cut::default() };
            }
            self.resolve(&mut value);
            let text = serde_json::to_string_pretty(&value).unwrap_or_default();
            return Cut { size_bytes: text.len() as u64, text, next: None, place };
        }
        raw.truncate(bytes_max);
        let end = whole_characters(&raw);
        raw.truncate(end);
        let text = String::from_utf8_lossy(&raw).into_owned();
        Cut { text, next: Some(end as u64), size_bytes, place }
    }

    /// Puts short beginnings of attachments in the place of references to them.
    fn resolve(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(place) = self.attachment(text)
                    && let Ok(cut) = self.text(place, 0, NESTED_TEXT_BYTES)
                {
                    *text = cut.text;
                    if cut.next.is_some() {
                        text.push_str(&format!("… ({} bytes in all)", cut.size_bytes));
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.resolve(item)),
            Value::Object(members) => members.values_mut().for_each(|member| self.resolve(member)),
            _ => {}
        }
    }

    /// The members of an object but those named; null and what is empty is left out. What does not fit is counted.
    pub(super) fn members<R: Read>(
        &self,
        r: &mut Reader<R>,
        base: u64,
        except: &[&str],
    ) -> Result<Vec<(String, Field)>, JsonError> {
        let mut members = Members::default();
        r.object(|key, r| {
            if !except.contains(&key) {
                self.member(key, r, base, &mut members)?;
            }
            Ok::<_, JsonError>(())
        })?;
        Ok(members.into_fields())
    }

    /// Takes a member of an object.
    pub(super) fn member<R: Read>(
        &self,
        key: &str,
        r: &mut Reader<R>,
        base: u64,
        members: &mut Members,
    ) -> Result<(), JsonError> {
        if members.fields.len() >= MEMBERS_MAX || self.is_spent() {
            members.left_out += 1;
        } else if let Some(field) = self.field(r, base)? {
            let key = key.chars().take(super::limits::NAME_CHARS_MAX).collect();
            members.fields.push((key, field));
        }
        Ok(())
    }

    /// A message's content: a text, or parts of several kinds.
    pub(super) fn content<R: Read>(
        &self,
        r: &mut Reader<R>,
        base: u64,
        parts: &mut Parts,
    ) -> Result<(), JsonError> {
        if r.peek()? != Kind::Array {
            return self.content_part(r, base, parts);
        }
        let mut count = 0;
        r.array(|_, r| {
            if parts.len() < MEMBERS_MAX && !self.is_spent() {
                return self.content_part(r, base, parts);
            }
            count += 1;
            Ok::<_, JsonError>(())
        })?;
        parts.extend(left_out(count).map(|(name, field)| field.into_part(name)));
        Ok(())
    }

    fn content_part<R: Read>(
        &self,
        r: &mut Reader<R>,
        base: u64,
        parts: &mut Parts,
    ) -> Result<(), JsonError> {
        if r.peek()? != Kind::Object {
            match self.field(r, base)? {
                Some(Field::Text(cut)) if cut.size_bytes == 0 => {}
                Some(Field::Text(cut)) => parts.push(Part::Text(cut)),
                Some(other) => parts.push(other.into_part("content".to_owned())),
                None => {}
            }
            return Ok(());
        }
        let mut members = self.members(r, base, &["internal", "signature"])?;
        let mut take = |name: &str| {
            let at = members.iter().position(|(key, _)| key == name)?;
            Some(members.remove(at).1)
        };
        let kind = take("type").map(|kind| kind.as_str().to_owned()).unwrap_or_default();
        match kind.as_str() {
            "text" => {
                if let Some(Field::Text(cut)) = take("text")
                    && cut.size_bytes > 0
                {
                    parts.push(Part::Text(cut));
                }
            }
            "reasoning" => {
                let redacted = take("redacted").is_some_and(|redacted| redacted.as_str() == "true");
                let reasoning = take("reasoning");
                let summary = take("summary");
                let shown = if redacted { summary.or(reasoning) } else { reasoning.or(summary) };
                if let Some(Field::Text(text)) = shown {
                    parts.push(Part::Reasoning { text, redacted });
                }
            }
            "image" | "audio" | "video" | "document" => {
                let name = take("filename").map(|name| name.as_str().to_owned());
                let _ = take("mime_type");
                if let Some(Field::Text(data)) = take(&kind) {
                    parts.push(media(kind.clone(), name, &data));
                }
            }
            _ => {}
        }
        // What else a part holds, and parts of kinds not known here.
        let plain = matches!(kind.as_str(), "text" | "reasoning" | "image" | "audio" | "video" | "document");
        for (name, field) in members {
            if plain
                && matches!(name.as_str(), "detail" | "format" | "refusal" | "citations" | "cache_breakpoint")
                && (field.as_str().is_empty()
                    || field.as_str() == "false"
                    || name == "detail"
                    || name == "format")
            {
                continue;
            }
            let name = if plain || kind.is_empty() { name } else { format!("{kind} · {name}") };
            parts.push(field.into_part(name));
        }
        Ok(())
    }
}

/// A picture when its data is one that can be shown.
fn media(kind: String, name: Option<String>, data: &Cut) -> Part {
    let place = data.place;
    let is_data = data.text.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"));
    if kind != "image" {
        let name = name.or_else(|| (!is_data).then(|| data.text.clone()));
        return Part::Media { kind, name, place };
    }
    let head: String = data.text.chars().take(40).collect::<String>().to_ascii_lowercase();
    let shown = ["png", "jpeg", "jpg", "gif", "webp"];
    if shown.iter().any(|kind| head.starts_with(&format!("data:image/{kind};"))) {
        return Part::Picture(Picture { place });
    }
    let kind = if is_data { "image of a kind that is not shown" } else { "image at an address, not fetched" };
    Part::Media { kind: kind.to_owned(), name: name.or_else(|| (!is_data).then(|| data.text.clone())), place }
}

/// What stands behind the scheme of a reference to an attachment.
fn reference(text: &str) -> Option<&str> {
    SCHEMES.iter().find_map(|scheme| text.strip_prefix(scheme)).filter(|name| name.len() <= 64)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

/// How much of the front of escaped bytes is whole: neither a character, an escape nor a surrogate pair is cut.
fn fit(raw: &[u8]) -> usize {
    let mut end = whole_characters(raw);
    // The last backslash that begins an escape, if it is near the end.
    let near = end.saturating_sub(12);
    let mut at = near;
    // An escape may have begun before; backslashes in front tell whether the first one here is escaped itself.
    let slashes = raw[..near].iter().rev().take_while(|b| **b == b'\\').count();
    if slashes % 2 == 1 {
        at += 1;
    }
    while at < end {
        if raw[at] != b'\\' {
            at += 1;
            continue;
        }
        let length = if raw.get(at + 1) == Some(&b'u') { 6 } else { 2 };
        if at + length > end {
            end = at;
            break;
        }
        let high = length == 6
            && matches!(raw[at + 2], b'd' | b'D')
            && matches!(raw[at + 3], b'8' | b'9' | b'a' | b'b' | b'A' | b'B');
        if high && at + 12 > end {
            end = at;
            break;
        }
        at += length;
    }
    end
}

/// How many bytes of the front are whole characters.
fn whole_characters(raw: &[u8]) -> usize {
    let mut end = raw.len();
    for back in 1..=raw.len().min(4) {
        let byte = raw[raw.len() - back];
        if byte < 0x80 {
            break;
        }
        if byte >= 0xc0 {
            let length = if byte >= 0xf0 {
                4
            } else if byte >= 0xe0 {
                3
            } else {
                2
            };
            if length > back {
                end = raw.len() - back;
            }
            break;
        }
    }
    end
}

/// Bytes of a text whose escaped bytes are read.
fn decoded_bytes(mut raw: impl Read) -> io::Result<u64> {
    let mut buffer = vec![0; 64 << 10];
    let mut count = 0;
    // 0: outside an escape; 1: behind the backslash; 2 to 5: so many digits are missing, less one.
    let mut state = 0;
    let mut digits = 0_u32;
    loop {
        let n = raw.read(&mut buffer)?;
        if n == 0 {
            return Ok(count);
        }
        for &byte in &buffer[..n] {
            match state {
                0 if byte == b'\\' => state = 1,
                0 => count += 1,
                1 if byte == b'u' => {
                    state = 5;
                    digits = 0;
                }
                1 => {
                    count += 1;
                    state = 0;
                }
                _ => {
                    digits = digits << 4 | char::from(byte).to_digit(16).unwrap_or(0);
                    state -= 1;
                    if state == 1 {
                        state = 0;
                        count += match digits {
                            0..0x80 => 1,
                            0x80..0x800 | 0xd800..0xe000 => 2,
                            _ => 3,
                        };
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_in_pieces_that_join() {
        let text = "plain é 😀 \u{1} \\ \" \n tab\t end".repeat(7);
        for json in [serde_json::to_string(&text).unwrap(), ascii_json(&text)] {
            let document = format!("[1, {json}]").into_bytes();
            let place = Place { offset: 4, size_bytes: json.len() as u64 };
            let index = Mutex::new(Index::default());
            let reader = PartReader::new(Arc::new(document), &index);
            for bytes_max in [12, 13, 14, 15, 16, 50, 10_000] {
                let (mut whole, mut from) = (String::new(), Some(0));
                while let Some(at) = from {
                    let piece = reader.text(place, at, bytes_max).unwrap();
                    assert_eq!(piece.size_bytes, text.len() as u64);
                    whole.push_str(&piece.text);
                    from = piece.next;
                }
                assert_eq!(whole, text, "{bytes_max}");
            }
        }
    }

    fn ascii_json(text: &str) -> String {
        let escaped: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
        format!("\"{escaped}\"")
    }
}
