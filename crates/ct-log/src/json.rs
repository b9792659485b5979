//! A streaming JSON reader for documents larger than memory, tolerant of what Python writes.
//!
//! Eval logs hold `NaN`, `Infinity`, integers beyond 64 bits, numbers beyond the double range and, in old files, escapes
//! of lone surrogates. Parsers that insist on the standard refuse some of them, and all of them build what they parse.
//! This reader walks a document through a fixed window and keeps only what it is asked to keep; the rest is skipped at
//! several times the speed of parsing.
//!
//! Skipping checks that strings end and brackets match, and that nothing but the bytes of JSON's scalars stands between
//! them; it does not check that each scalar is spelled right. Damage inside values is found by the archive's CRC.

use std::io::Read;

use memchr::{memchr, memchr2};
use serde_json::{Map, Number, Value};

/// Bytes of the window that a [`Reader`] slides over its source.
const WINDOW_BYTES: usize = 128 * 1024;
/// Containers that may lie in each other. Python's writer stops near 250; beyond this a document is an attack.
pub const DEPTH_MAX: usize = 2_000;
/// Containers that may lie in each other in a value that is built in memory, where depth costs stack.
pub const VALUE_DEPTH_MAX: usize = 400;
/// Bytes of an object key. Longer keys are an attack, not a name.
pub const KEY_BYTES_MAX: usize = 1 << 20;
/// Bytes of a string that are looked at in case it is a name or an id, before it is searched for its end.
const NAME_BYTES: usize = 32;
/// Bytes of a string that are looked at for what does not stand for itself before it is handled as a long one.
const PLAIN_BYTES_MAX: usize = 128;
/// Bytes of one character of a string: two escapes.
const CHAR_BYTES_MAX: usize = 12;
/// Bytes of one number.
pub const NUMBER_BYTES_MAX: usize = 1 << 16;

/// Why a document cannot be read on.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// The source failed.
    #[error("reading failed")]
    Io(#[from] std::io::Error),
    /// Something else stands where the grammar wants `expected`.
    #[error("invalid JSON at byte {offset}: expected {expected}")]
    Syntax {
        /// Offset in the document.
        offset: u64,
        /// What should have stood there.
        expected: &'static str,
    },
    /// The document stops inside a value.
    #[error("JSON ends at byte {offset} inside a value")]
    UnexpectedEnd {
        /// Length of the document.
        offset: u64,
    },
    /// More containers in each other than [`DEPTH_MAX`].
    #[error("JSON nested deeper than {DEPTH_MAX} levels at byte {offset}")]
    TooDeep {
        /// Offset in the document.
        offset: u64,
    },
    /// A key longer than [`KEY_BYTES_MAX`] or a number longer than [`NUMBER_BYTES_MAX`].
    #[error("JSON key or number too long at byte {offset}")]
    TooLong {
        /// Offset in the document.
        offset: u64,
    },
}

/// What kind of value comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `{`
    Object,
    /// `[`
    Array,
    /// `"`
    String,
    /// A number, `NaN`, `Infinity` or `-Infinity`.
    Number,
    /// `true` or `false`.
    Bool,
    /// `null`
    Null,
}

impl Kind {
    /// The kind of a value by its first byte.
    #[inline]
    fn of(first: u8) -> Option<Self> {
        Some(match first {
            b'{' => Self::Object,
            b'[' => Self::Array,
            b'"' => Self::String,
            b'-' | b'0'..=b'9' | b'N' | b'I' => Self::Number,
            b't' | b'f' => Self::Bool,
            b'n' => Self::Null,
            _ => return None,
        })
    }
}

/// The beginning of a string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// The first characters, unescaped. Lone surrogates come as the text of their escape, bad UTF-8 as U+FFFD.
    pub text: String,
    /// Whether the string went on.
    pub cut: bool,
}

/// Walks a JSON document from front to back.
pub struct Reader<R> {
    source: R,
    window: Vec<u8>,
    /// The unread bytes are `window[start..end]`.
    start: usize,
    end: usize,
    /// Document offset of `window[0]`.
    base: u64,
    depth: usize,
    /// Offset behind the last opening bracket or comma that [`Reader::object`] or [`Reader::array`] consumed.
    member_start: u64,
    capture: Capture,
    scratch: Vec<u8>,
    /// For keys, and for texts that are only looked at.
    key: String,
}

/// Bytes kept while they are consumed.
#[derive(Default)]
struct Capture {
    active: bool,
    from: usize,
    bytes: Vec<u8>,
    bytes_max: usize,
    over: bool,
}

impl Capture {
    fn take(&mut self, window: &[u8], to: usize) {
        if !self.active {
            return;
        }
        let piece = &window[self.from..to];
        if self.over || self.bytes.len() + piece.len() > self.bytes_max {
            self.over = true;
        } else {
            self.bytes.extend_from_slice(piece);
        }
        self.from = to;
    }
}

/// Which kind of container is open, one bit a level. Few containers lie deeper than one word tells.
#[derive(Default)]
struct Stack {
    /// The innermost levels, the last one lowest.
    word: u64,
    outer_words: Vec<u64>,
    len: usize,
}

impl Stack {
    fn push(&mut self, object: bool) {
        if self.len > 0 && self.len.is_multiple_of(64) {
            self.outer_words.push(self.word);
        }
        self.word = self.word << 1 | u64::from(object);
        self.len += 1;
    }

    /// Closes a container; false when the innermost one is of the other kind.
    fn pop(&mut self, object: bool) -> bool {
        let same = self.word & 1 == u64::from(object);
        self.word >>= 1;
        self.len -= 1;
        if self.len.is_multiple_of(64)
            && let Some(word) = self.outer_words.pop()
        {
            self.word = word;
        }
        same
    }
}

/// What a byte outside strings means to [`Reader::skip`].
const PLAIN: u8 = 0;
const QUOTE: u8 = 1;
const OPEN: u8 = 2;
const CLOSE: u8 = 3;
const BAD: u8 = 4;

const CLASS: [u8; 256] = {
    let mut class = [BAD; 256];
    let plain = b" \t\r\n,:+-.0123456789truefalsnNaIity";
    let mut i = 0;
    while i < plain.len() {
        class[plain[i] as usize] = PLAIN;
        i += 1;
    }
    class[b'E' as usize] = PLAIN;
    class[b'"' as usize] = QUOTE;
    class[b'{' as usize] = OPEN;
    class[b'[' as usize] = OPEN;
    class[b'}' as usize] = CLOSE;
    class[b']' as usize] = CLOSE;
    class
};

/// Length of the text at the front of a string that stands for itself: to the quote, an escape, a byte beyond ASCII or
/// the end. Looks at eight bytes at a time.
fn plain_len(text: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    // Marks the zero bytes of a word by their highest bits; of the marks, the lowest is always right.
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & HIGH;
    let (words, rest) = text.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let marks =
            zeros(word ^ (ONES * u64::from(b'"'))) | zeros(word ^ (ONES * u64::from(b'\\'))) | word & HIGH;
        if marks != 0 {
            return index * 8 + marks.trailing_zeros() as usize / 8;
        }
    }
    let ends = |b: &u8| matches!(b, b'"' | b'\\') || !b.is_ascii();
    text.len() - rest.len() + rest.iter().position(ends).unwrap_or(rest.len())
}

fn is_space(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\r' | b'\n')
}

fn ends_scalar(b: u8) -> bool {
    matches!(b, b',' | b'}' | b']' | b':' | b'"' | b'{' | b'[') || is_space(b)
}

impl<R: Read> Reader<R> {
    /// Starts at the beginning of a document. The source needs no buffer of its own.
    pub fn new(source: R) -> Self {
        Self::with_window(source, WINDOW_BYTES)
    }

    /// As [`Reader::new`], for small documents.
    pub(crate) fn with_window(source: R, window_bytes: usize) -> Self {
        Self {
            source,
            window: vec![0; window_bytes],
            start: 0,
            end: 0,
            base: 0,
            depth: 0,
            member_start: 0,
            capture: Capture::default(),
            scratch: Vec::new(),
            key: String::new(),
        }
    }

    /// Bytes of the document consumed so far.
    pub fn offset(&self) -> u64 {
        self.base + self.start as u64
    }

    /// In a call made by [`Reader::object`] or [`Reader::array`], and before it consumes anything: offset behind the comma
    /// or the bracket that precedes the member.
    pub(crate) fn member_start(&self) -> u64 {
        self.member_start
    }

    /// Gives back the source. Bytes already in the window are lost.
    pub fn into_source(self) -> R {
        self.source
    }

    /// The bytes in the window that are not consumed.
    #[inline]
    fn unread(&self) -> &[u8] {
        &self.window[self.start..self.end]
    }

    /// Loads more; false at the end of the document. Call only when the window is used up.
    #[cold]
    fn fill(&mut self) -> Result<bool, JsonError> {
        debug_assert_eq!(self.start, self.end);
        self.capture.take(&self.window, self.end);
        self.base += self.end as u64;
        self.start = 0;
        self.end = 0;
        self.capture.from = 0;
        loop {
            match self.source.read(&mut self.window) {
                Ok(n) => {
                    self.end = n;
                    return Ok(n > 0);
                }
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// The next byte, not consumed; `None` at the end of the document.
    #[inline]
    fn look(&mut self) -> Result<Option<u8>, JsonError> {
        if self.start == self.end && !self.fill()? {
            return Ok(None);
        }
        Ok(Some(self.window[self.start]))
    }

    #[inline]
    fn must_look(&mut self) -> Result<u8, JsonError> {
        match self.look()? {
            Some(b) => Ok(b),
            None => Err(JsonError::UnexpectedEnd { offset: self.offset() }),
        }
    }

    #[cold]
    fn syntax<T>(&self, expected: &'static str) -> Result<T, JsonError> {
        Err(JsonError::Syntax { offset: self.offset(), expected })
    }

    #[inline]
    fn skip_space(&mut self) -> Result<(), JsonError> {
        while let Some(b) = self.look()? {
            if !is_space(b) {
                break;
            }
            self.start += 1;
        }
        Ok(())
    }

    /// The kind of the next value. Consumes only white space.
    #[inline]
    pub fn peek(&mut self) -> Result<Kind, JsonError> {
        match self.unread().first().and_then(|b| Kind::of(*b)) {
            Some(kind) => Ok(kind),
            None => self.peek_behind_space(),
        }
    }

    fn peek_behind_space(&mut self) -> Result<Kind, JsonError> {
        self.skip_space()?;
        match Kind::of(self.must_look()?) {
            Some(kind) => Ok(kind),
            None => self.syntax("a value"),
        }
    }

    /// Calls `f` with each key of the next value, which must consume the member's value or nothing (then the value is
    /// skipped). A value that is no object is skipped without a call.
    pub fn object<E: From<JsonError>>(
        &mut self,
        mut f: impl FnMut(&str, &mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.peek()? != Kind::Object {
            return Ok(self.skip()?);
        }
        self.enter()?;
        let mut first = true;
        while self.more(b'}', &mut first)? {
            let mut key = std::mem::take(&mut self.key);
            self.read_key(&mut key)?;
            self.skip_colon()?;
            let at = self.offset();
            f(&key, self)?;
            self.key = key;
            if self.offset() == at {
                self.skip()?;
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// As [`Reader::object`], for the members named alone; all others are skipped without looking at them further.
    pub fn fields<E: From<JsonError>>(
        &mut self,
        names: &[&str],
        mut f: impl FnMut(&str, &mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.peek()? != Kind::Object {
            return Ok(self.skip()?);
        }
        self.enter()?;
        let mut first = true;
        while self.more(b'}', &mut first)? {
            let name = self.key_among(names)?;
            self.skip_colon()?;
            let at = self.offset();
            if let Some(name) = name {
                f(name, self)?;
            }
            if self.offset() == at {
                self.skip()?;
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// Consumes a key into `key`.
    fn read_key(&mut self, key: &mut String) -> Result<(), JsonError> {
        if self.must_look()? != b'"' {
            return self.syntax("a key");
        }
        let at = self.offset();
        key.clear();
        if self.plain(usize::MAX, key).is_none() {
            if self.string(KEY_BYTES_MAX)? {
                return Err(JsonError::TooLong { offset: at });
            }
            unescape(&self.scratch, usize::MAX, key);
        }
        Ok(())
    }

    /// Consumes a key and says which of the names it is.
    fn key_among<'n>(&mut self, names: &[&'n str]) -> Result<Option<&'n str>, JsonError> {
        if self.must_look()? == b'"'
            && let Some(word) = self.plain_word()
        {
            // Most keys differ from most names here, without a comparison of all their bytes.
            let similar = |name: &[u8]| name.len() == word.len() && name.first() == word.first();
            let is_word = |name: &&str| similar(name.as_bytes()) && name.as_bytes() == word;
            let found = names.iter().copied().find(is_word);
            self.start += word.len() + 2;
            return Ok(found);
        }
        let mut key = std::mem::take(&mut self.key);
        self.read_key(&mut key)?;
        let found = names.iter().copied().find(|name| *name == key);
        self.key = key;
        Ok(found)
    }

    /// A short string without escapes that ends in the window. Stands on the opening quote and consumes nothing.
    #[inline]
    fn plain_word(&self) -> Option<&[u8]> {
        let text = &self.window[self.start + 1..self.end];
        let text = &text[..text.len().min(PLAIN_BYTES_MAX)];
        let at = plain_len(text);
        (text.get(at) == Some(&b'"')).then(|| &text[..at])
    }

    /// Consumes the colon behind a key and the white space around it.
    #[inline]
    fn skip_colon(&mut self) -> Result<(), JsonError> {
        if let [b':', next, ..] = self.unread()
            && *next > b' '
        {
            self.start += 1;
            return Ok(());
        }
        self.skip_colon_and_space()
    }

    fn skip_colon_and_space(&mut self) -> Result<(), JsonError> {
        self.skip_space()?;
        if self.must_look()? != b':' {
            return self.syntax("`:`");
        }
        self.start += 1;
        self.skip_space()
    }

    /// Calls `f` with the index of each element of the next value, which must consume the element or nothing (then it
    /// is skipped). A value that is no array is skipped without a call.
    pub fn array<E: From<JsonError>>(
        &mut self,
        mut f: impl FnMut(usize, &mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.peek()? != Kind::Array {
            return Ok(self.skip()?);
        }
        self.enter()?;
        let mut first = true;
        let mut index = 0;
        while self.more(b']', &mut first)? {
            let at = self.offset();
            f(index, self)?;
            if self.offset() == at {
                self.skip()?;
            }
            index += 1;
        }
        self.depth -= 1;
        Ok(())
    }

    /// Consumes an opening bracket.
    fn enter(&mut self) -> Result<(), JsonError> {
        if self.depth == DEPTH_MAX {
            return Err(JsonError::TooDeep { offset: self.offset() });
        }
        self.depth += 1;
        self.start += 1;
        self.member_start = self.offset();
        Ok(())
    }

    /// Goes to the next member of a container and says whether there is one; consumes the comma or the `close`.
    #[inline]
    fn more(&mut self, close: u8, first: &mut bool) -> Result<bool, JsonError> {
        if let [b',', next, ..] = self.unread()
            && *next > b' '
            && *next != close
            && !*first
        {
            self.start += 1;
            self.member_start = self.offset();
            return Ok(true);
        }
        self.more_behind_space(close, first)
    }

    fn more_behind_space(&mut self, close: u8, first: &mut bool) -> Result<bool, JsonError> {
        self.skip_space()?;
        let b = self.must_look()?;
        if b == close {
            self.start += 1;
            return Ok(false);
        }
        if std::mem::take(first) {
            return Ok(true);
        }
        if b != b',' {
            return self.syntax("`,` or a closing bracket");
        }
        self.start += 1;
        self.member_start = self.offset();
        self.skip_space()?;
        if self.must_look()? == close {
            return self.syntax("a value");
        }
        Ok(true)
    }

    /// Consumes the next value.
    pub fn skip(&mut self) -> Result<(), JsonError> {
        match self.peek()? {
            Kind::String => self.skip_string(),
            Kind::Object | Kind::Array => self.skip_container(),
            Kind::Number | Kind::Bool | Kind::Null => self.skip_scalar(),
        }
    }

    /// Consumes a string up to and with its closing quote. Stands on the opening quote.
    fn skip_string(&mut self) -> Result<(), JsonError> {
        self.start += 1;
        // Most strings are names and ids.
        let near = self.unread();
        let near = &near[..near.len().min(NAME_BYTES)];
        let plain = plain_len(near);
        if near.get(plain) == Some(&b'"') {
            self.start += plain + 1;
            return Ok(());
        }
        self.skip_rest_of_string()
    }

    /// As [`Reader::skip_string`], from inside the string.
    ///
    /// Escapes are many (every line end of a transcript is one) and quotes are few, so this looks for a quote and then
    /// at the backslashes before it.
    fn skip_rest_of_string(&mut self) -> Result<(), JsonError> {
        // Whether an odd number of backslashes stands right before the unread bytes.
        let mut odd = false;
        loop {
            let window = &self.window[self.start..self.end];
            let quote = memchr(b'"', window);
            let text = &window[..quote.unwrap_or(window.len())];
            let slashes = text.iter().rev().take_while(|b| **b == b'\\').count();
            odd = (slashes % 2 == 1) ^ (slashes == text.len() && odd);
            match quote {
                Some(at) => {
                    self.start += at + 1;
                    if !std::mem::take(&mut odd) {
                        return Ok(());
                    }
                }
                None => {
                    self.start = self.end;
                    if !self.fill()? {
                        return Err(JsonError::UnexpectedEnd { offset: self.offset() });
                    }
                }
            }
        }
    }

    fn skip_container(&mut self) -> Result<(), JsonError> {
        let mut stack = Stack::default();
        loop {
            // Commas, colons, numbers and literals.
            let Some(plain) = self.unread().iter().position(|b| CLASS[usize::from(*b)] != PLAIN) else {
                self.start = self.end;
                if !self.fill()? {
                    return Err(JsonError::UnexpectedEnd { offset: self.offset() });
                }
                continue;
            };
            self.start += plain;
            let b = self.window[self.start];
            match CLASS[usize::from(b)] {
                QUOTE => self.skip_string()?,
                OPEN => {
                    if self.depth + stack.len >= DEPTH_MAX {
                        return Err(JsonError::TooDeep { offset: self.offset() });
                    }
                    stack.push(b == b'{');
                    self.start += 1;
                }
                CLOSE => {
                    if !stack.pop(b == b'}') {
                        return self.syntax("the other closing bracket");
                    }
                    self.start += 1;
                    if stack.len == 0 {
                        return Ok(());
                    }
                }
                _ => return self.syntax("JSON"),
            }
        }
    }

    fn skip_scalar(&mut self) -> Result<(), JsonError> {
        while let Some(b) = self.look()? {
            if ends_scalar(b) {
                break;
            }
            if CLASS[usize::from(b)] != PLAIN {
                return self.syntax("a number or a literal");
            }
            self.start += 1;
        }
        Ok(())
    }

    fn start_capture(&mut self, bytes_max: usize) {
        self.capture.active = true;
        self.capture.over = false;
        self.capture.from = self.start;
        self.capture.bytes_max = bytes_max;
        self.capture.bytes.clear();
    }

    /// Ends a capture. `None` when more was consumed than asked for.
    fn end_capture(&mut self) -> Option<Vec<u8>> {
        self.capture.take(&self.window, self.start);
        self.capture.active = false;
        (!self.capture.over).then(|| std::mem::take(&mut self.capture.bytes))
    }

    /// The next value as it is written. `None` when it is longer than `bytes_max`; it is consumed all the same.
    pub fn raw(&mut self, bytes_max: usize) -> Result<Option<Vec<u8>>, JsonError> {
        self.peek()?;
        self.start_capture(bytes_max);
        let skipped = self.skip();
        let bytes = self.end_capture();
        skipped?;
        Ok(bytes)
    }

    /// The next value, built; `None` as with [`Reader::raw`]. What [`Value`] cannot hold is replaced: see [`parse`].
    pub fn value(&mut self, bytes_max: usize) -> Result<Option<Value>, JsonError> {
        self.peek()?;
        let at = self.offset();
        match self.raw(bytes_max)? {
            None => Ok(None),
            Some(raw) => match parse(&raw) {
                Ok(value) => Ok(Some(value)),
                Err(JsonError::Syntax { offset, expected }) => {
                    Err(JsonError::Syntax { offset: at + offset, expected })
                }
                Err(JsonError::TooDeep { offset }) => Err(JsonError::TooDeep { offset: at + offset }),
                Err(other) => Err(other),
            },
        }
    }

    /// Consumes a string, keeps at most `bytes_max` of its escaped bytes in `scratch`, and says whether it went on.
    /// Stands on the opening quote.
    fn string(&mut self, bytes_max: usize) -> Result<bool, JsonError> {
        self.start += 1;
        self.scratch.clear();
        loop {
            let window = &self.window[self.start..self.end];
            let (plain, found) = match memchr2(b'"', b'\\', window) {
                Some(at) => (at, Some(window[at])),
                None => (window.len(), None),
            };
            let room = bytes_max - self.scratch.len();
            self.scratch.extend_from_slice(&window[..plain.min(room)]);
            if plain > room {
                self.start += room;
                self.skip_rest_of_string()?;
                return Ok(true);
            }
            self.start += plain;
            match found {
                None => {
                    if !self.fill()? {
                        return Err(JsonError::UnexpectedEnd { offset: self.offset() });
                    }
                }
                Some(b'"') => {
                    self.start += 1;
                    return Ok(false);
                }
                Some(_) => {
                    if bytes_max - self.scratch.len() < 2 {
                        self.skip_rest_of_string()?;
                        return Ok(true);
                    }
                    self.start += 1;
                    let escaped = self.must_look()?;
                    self.scratch.extend_from_slice(&[b'\\', escaped]);
                    self.start += 1;
                }
            }
        }
    }

    /// The quick way through a string, for keys, names and beginnings of texts: appends its first `chars_max`
    /// characters to `out` and says whether it went on, when they lie in the window as they are, short and without
    /// escapes. Otherwise consumes nothing. Stands on the opening quote; behind a string that went on it stands inside.
    fn plain(&mut self, chars_max: usize, out: &mut String) -> Option<bool> {
        let text = &self.window[self.start + 1..self.end];
        let text = &text[..text.len().min(PLAIN_BYTES_MAX).min(chars_max.saturating_add(1))];
        let at = plain_len(text);
        let (chars, cut) = match text.get(at) {
            Some(b'"') => (at, false),
            None if text.len() > chars_max => (chars_max, true),
            _ => return None,
        };
        out.push_str(std::str::from_utf8(&text[..chars]).ok()?);
        self.start += 1 + chars + usize::from(!cut);
        Some(cut)
    }

    /// The first `chars_max` characters of the next value if it is a string; any other value is skipped.
    pub fn text(&mut self, chars_max: usize) -> Result<Option<Text>, JsonError> {
        let mut text = String::new();
        Ok(self.text_into(chars_max, &mut text)?.map(|cut| Text { text, cut }))
    }

    /// As [`Reader::text`], for texts that are looked at and not kept: allocates nothing in most cases.
    pub fn glance(&mut self, chars_max: usize) -> Result<Option<&str>, JsonError> {
        if self.peek()? == Kind::String
            && let Some(word) = self.plain_word()
            && word.len() <= chars_max
        {
            let from = self.start + 1;
            let to = from + word.len();
            self.start = to + 1;
            return Ok(std::str::from_utf8(&self.window[from..to]).ok());
        }
        let mut text = std::mem::take(&mut self.key);
        text.clear();
        let cut = self.text_into(chars_max, &mut text);
        self.key = text;
        Ok(cut?.map(|_| self.key.as_str()))
    }

    /// As [`Reader::text`], appended to `out`: says whether the string went on, and `None` for any other value.
    fn text_into(&mut self, chars_max: usize, out: &mut String) -> Result<Option<bool>, JsonError> {
        if self.peek()? != Kind::String {
            self.skip()?;
            return Ok(None);
        }
        if let Some(cut) = self.plain(chars_max, out) {
            if cut {
                self.skip_rest_of_string()?;
            }
            return Ok(Some(cut));
        }
        let bytes_max = chars_max.saturating_mul(CHAR_BYTES_MAX);
        let before = out.len();
        let text = &self.window[self.start + 1..self.end];
        let text = &text[..text.len().min(bytes_max)];
        match unescape(text, chars_max, out) {
            (at, Stop::Quote) => {
                self.start += 1 + at + 1;
                Ok(Some(false))
            }
            (at, Stop::Full) if at + CHAR_BYTES_MAX <= text.len() => {
                self.start += 1 + at;
                self.skip_rest_of_string()?;
                Ok(Some(true))
            }
            // The window ends before the text does, or so soon that it may cut an escape.
            _ => {
                out.truncate(before);
                let cut = self.string(bytes_max)?;
                let (at, _) = unescape(&self.scratch, chars_max, out);
                Ok(Some(cut || at < self.scratch.len()))
            }
        }
    }

    /// The next value if it is a number; any other is skipped.
    pub fn number(&mut self) -> Result<Option<f64>, JsonError> {
        if self.peek()? != Kind::Number {
            self.skip()?;
            return Ok(None);
        }
        let at = self.offset();
        let window = &self.window[self.start..self.end];
        let number = match window.iter().position(|b| ends_scalar(*b) || CLASS[usize::from(*b)] != PLAIN) {
            Some(n) => {
                self.start += n;
                if !ends_scalar(self.window[self.start]) {
                    return self.syntax("a number or a literal");
                }
                parse_number(&self.window[self.start - n..self.start])
            }
            None => {
                let Some(raw) = self.raw(NUMBER_BYTES_MAX)? else {
                    return Err(JsonError::TooLong { offset: at });
                };
                parse_number(&raw)
            }
        };
        match number {
            Some(number) => Ok(Some(number)),
            None => Err(JsonError::Syntax { offset: at, expected: "a number" }),
        }
    }

    /// The next value if it is `true` or `false`; any other is skipped.
    pub fn boolean(&mut self) -> Result<Option<bool>, JsonError> {
        if self.peek()? != Kind::Bool {
            self.skip()?;
            return Ok(None);
        }
        let at = self.offset();
        match self.raw(8)?.as_deref() {
            Some(b"true") => Ok(Some(true)),
            Some(b"false") => Ok(Some(false)),
            _ => Err(JsonError::Syntax { offset: at, expected: "`true` or `false`" }),
        }
    }

    /// Checks that nothing but white space follows, reading the source to its end.
    pub fn end(&mut self) -> Result<(), JsonError> {
        self.skip_space()?;
        match self.look()? {
            None => Ok(()),
            Some(_) => self.syntax("the end"),
        }
    }
}

impl Reader<std::io::Empty> {
    /// Walks a document that lies in memory, without copying it.
    pub fn of_bytes(bytes: Vec<u8>) -> Self {
        let end = bytes.len();
        Self { window: bytes, end, ..Self::with_window(std::io::empty(), 0) }
    }

    /// Gives back the document.
    pub fn into_bytes(self) -> Vec<u8> {
        self.window
    }
}

/// A number as Python reads it: `None` when it is none. Too large ones are infinite.
fn parse_number(raw: &[u8]) -> Option<f64> {
    match raw {
        b"NaN" => Some(f64::NAN),
        b"Infinity" => Some(f64::INFINITY),
        b"-Infinity" => Some(f64::NEG_INFINITY),
        _ => {
            // A double holds any integer of fifteen digits.
            if raw.len() <= 15 && !raw.is_empty() && raw.iter().all(u8::is_ascii_digit) {
                let integer = raw.iter().fold(0_u64, |sum, digit| sum * 10 + u64::from(digit - b'0'));
                return Some(integer as f64);
            }
            let digits = raw.strip_prefix(b"-").unwrap_or(raw);
            if !digits.first()?.is_ascii_digit() || !digits.last()?.is_ascii_digit() {
                return None;
            }
            std::str::from_utf8(raw).ok()?.parse().ok()
        }
    }
}

/// Why [`unescape`] went no further.
enum Stop {
    /// At the quote that ends the string.
    Quote,
    /// There are more characters than asked for.
    Full,
    /// The bytes are used up, or end inside an escape.
    Cut,
}

/// Appends at most `chars_max` unescaped characters of a string's escaped bytes. Says how many bytes it is done with, at
/// the boundary of an escape, and why it stopped there.
fn unescape(escaped: &[u8], chars_max: usize, out: &mut String) -> (usize, Stop) {
    let mut raw = escaped;
    let mut left = chars_max;
    loop {
        let at = escaped.len() - raw.len();
        let plain = memchr2(b'"', b'\\', raw).unwrap_or(raw.len());
        if plain > 0 {
            let text = String::from_utf8_lossy(&raw[..plain]);
            if text.len() <= left {
                // No more bytes than characters allowed: no need to count.
                out.push_str(&text);
                left -= text.chars().count();
            } else {
                match text.char_indices().nth(left) {
                    Some((end, _)) => {
                        out.push_str(&text[..end]);
                        return (at, Stop::Full);
                    }
                    None => {
                        left -= text.chars().count();
                        out.push_str(&text);
                    }
                }
            }
            raw = &raw[plain..];
        }
        let at = at + plain;
        match raw.first() {
            None => return (at, Stop::Cut),
            Some(b'"') => return (at, Stop::Quote),
            Some(_) if left == 0 => return (at, Stop::Full),
            Some(_) => {}
        }
        let Some(escape) = raw.get(1) else { return (at, Stop::Cut) };
        let simple = match escape {
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'u' => {
                let Some(unit) = hex(raw, 2) else {
                    // Not four hex digits: kept as written.
                    out.push('\\');
                    left -= 1;
                    raw = &raw[1..];
                    continue;
                };
                if let Some(c) = char::from_u32(unit) {
                    out.push(c);
                    left -= 1;
                    raw = &raw[6..];
                    continue;
                }
                let low = if unit < 0xdc00 && raw.get(6..8) == Some(br"\u") { hex(raw, 8) } else { None };
                if let Some(low @ 0xdc00..=0xdfff) = low {
                    let code = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                    out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                    left -= 1;
                    raw = &raw[12..];
                } else {
                    // A lone surrogate: the text of its escape, as Inspect's own writer does.
                    for c in format!("\\u{unit:04x}").chars() {
                        if left == 0 {
                            return (at, Stop::Full);
                        }
                        out.push(c);
                        left -= 1;
                    }
                    raw = &raw[6..];
                }
                continue;
            }
            other => char::from(*other),
        };
        out.push(simple);
        left -= 1;
        raw = &raw[2..];
    }
}

fn hex(raw: &[u8], at: usize) -> Option<u32> {
    let digits = raw.get(at..at + 4)?;
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Builds a value from a whole document in memory.
///
/// A [`Value`] cannot hold everything a log can: `NaN`, infinities and numbers beyond the double range become null,
/// integers beyond 64 bits become doubles, and of a repeated key the last one counts. What must survive unchanged is
/// copied as bytes ([`Reader::raw`]), never through a [`Value`].
pub fn parse(raw: &[u8]) -> Result<Value, JsonError> {
    let mut reader = Reader::with_window(raw, raw.len().clamp(64, WINDOW_BYTES));
    let value = build(&mut reader, 0)?;
    reader.end()?;
    Ok(value)
}

fn build(reader: &mut Reader<&[u8]>, depth: usize) -> Result<Value, JsonError> {
    if depth == VALUE_DEPTH_MAX {
        return Err(JsonError::TooDeep { offset: reader.offset() });
    }
    Ok(match reader.peek()? {
        Kind::Object => {
            let mut map = Map::new();
            reader.object(|key, r| {
                let value = build(r, depth + 1)?;
                map.insert(key.to_owned(), value);
                Ok::<_, JsonError>(())
            })?;
            Value::Object(map)
        }
        Kind::Array => {
            let mut items = Vec::new();
            reader.array(|_, r| {
                items.push(build(r, depth + 1)?);
                Ok::<_, JsonError>(())
            })?;
            Value::Array(items)
        }
        Kind::String => match reader.text(usize::MAX)? {
            Some(text) => Value::String(text.text),
            None => Value::Null,
        },
        Kind::Number => {
            let at = reader.offset();
            let Some(raw) = reader.raw(NUMBER_BYTES_MAX)? else {
                return Err(JsonError::TooLong { offset: at });
            };
            let text = std::str::from_utf8(&raw).unwrap_or_default();
            if let Ok(n) = text.parse::<i64>() {
                Value::Number(n.into())
            } else if let Ok(n) = text.parse::<u64>() {
                Value::Number(n.into())
            } else {
                match parse_number(&raw) {
                    Some(n) => Number::from_f64(n).map_or(Value::Null, Value::Number),
                    None => return Err(JsonError::Syntax { offset: at, expected: "a number" }),
                }
            }
        }
        Kind::Bool => reader.boolean()?.map_or(Value::Null, Value::Bool),
        Kind::Null => {
            let at = reader.offset();
            match reader.raw(8)?.as_deref() {
                Some(b"null") => Value::Null,
                _ => return Err(JsonError::Syntax { offset: at, expected: "`null`" }),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Gives out its bytes one at a time, so that every token crosses a window.
    struct Drip<'a>(&'a [u8]);

    impl Read for Drip<'_> {
        fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
            let n = self.0.len().min(1).min(buf.len());
            buf[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    #[test]
    fn reads_what_python_writes() {
        let raw = br#"{"a": NaN, "b": [-Infinity, Infinity, 1e400, -0.0], "c": 18446744073709551617, "d": "\ud83d x \ud83d\ude00"}"#;
        assert_eq!(
            parse(raw).unwrap(),
            json!({"a": null, "b": [null, null, null, -0.0], "c": 18446744073709551616.0_f64, "d": "\\ud83d x 😀"})
        );
    }

    #[test]
    fn refuses_what_is_no_json() {
        for bad in [
            "",
            "{",
            "[1",
            "[1,]",
            "{\"a\"}",
            "{\"a\":}",
            "{,}",
            "[}",
            "\"abc",
            "\"abc\\",
            "tru",
            "nul",
            "1 2",
            "+1",
            ".5",
            "1.",
            "-",
            "{\"a\":1,}",
            "[[}]",
            "@",
        ] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn text_is_cut_at_characters_and_the_rest_is_skipped() {
        let raw = br#"["h\u00e9\ud83d\ude00llo", 7, "ok"]"#;
        for chars in 0..8 {
            let mut reader = Reader::new(Drip(raw));
            let mut seen = Vec::new();
            reader
                .array(|_, r| {
                    seen.push(r.text(chars)?);
                    Ok::<_, JsonError>(())
                })
                .unwrap();
            let whole = "hé😀llo";
            assert_eq!(
                seen[0],
                Some(Text { text: whole.chars().take(chars).collect(), cut: chars < 6 }),
                "{chars}"
            );
            assert_eq!(seen[1], None);
            assert_eq!(seen[2], Some(Text { text: "ok".chars().take(chars).collect(), cut: chars < 2 }));
        }
    }

    #[test]
    fn text_is_the_same_wherever_the_window_ends() {
        let strings = [
            r#"a\u00e9b\n\"c\\d"#,
            r"\ud83d\ude00\ud83d\ude00x",
            r"\ud83d\u0041\udc00\ud83d",
            r"\u12\uzzzz\q\/",
            r"é\u00e9\t\\",
        ];
        for string in strings {
            let raw = format!("[\"{string}\",1]");
            for chars_max in 0..12 {
                let texts = |source: &mut dyn Read, window_bytes| {
                    let mut reader = Reader::with_window(source, window_bytes);
                    let mut seen = Vec::new();
                    reader
                        .array(|_, r| {
                            seen.push(r.text(chars_max)?);
                            Ok::<_, JsonError>(())
                        })
                        .unwrap();
                    reader.end().unwrap();
                    seen
                };
                let byte_by_byte = texts(&mut Drip(raw.as_bytes()), 64);
                assert_eq!(byte_by_byte.len(), 2);
                for window_bytes in 1..raw.len() + 20 {
                    let seen = texts(&mut raw.as_bytes(), window_bytes);
                    assert_eq!(seen, byte_by_byte, "{raw} {chars_max} {window_bytes}");
                }
            }
        }
    }

    #[test]
    fn the_quick_way_through_strings_finds_the_same() {
        let strings = ["", "a", "0123456789", "quote \" end", "tab\t", "é at front", "at end é", "😀"];
        let long =
            ["x".repeat(PLAIN_BYTES_MAX - 1), "x".repeat(PLAIN_BYTES_MAX), "x".repeat(PLAIN_BYTES_MAX + 1)];
        for string in strings.into_iter().chain(long.iter().map(String::as_str)) {
            let raw = serde_json::to_vec(&json!({string: [string, 1]})).unwrap();
            for chars_max in [0, 1, 2, 9, 10, 11, 127, 128, 129, usize::MAX] {
                let expected = Text {
                    text: string.chars().take(chars_max).collect(),
                    cut: string.chars().count() > chars_max,
                };
                for source in [&mut raw.as_slice() as &mut dyn Read, &mut Drip(&raw)] {
                    let mut reader = Reader::new(source);
                    let mut seen = Vec::new();
                    reader
                        .object(|key, r| {
                            assert_eq!(key, string);
                            r.array(|_, r| {
                                seen.push(r.text(chars_max)?);
                                Ok::<_, JsonError>(())
                            })
                        })
                        .unwrap();
                    reader.end().unwrap();
                    assert_eq!(seen, [Some(expected.clone()), None], "{string:?} {chars_max}");
                }
                for source in [&mut raw.as_slice() as &mut dyn Read, &mut Drip(&raw)] {
                    let mut reader = Reader::new(source);
                    let mut seen = Vec::new();
                    reader
                        .fields(&[string], |_, r| {
                            r.array(|_, r| {
                                seen.push(r.glance(chars_max)?.map(str::to_owned));
                                Ok::<_, JsonError>(())
                            })
                        })
                        .unwrap();
                    reader.end().unwrap();
                    assert_eq!(seen, [Some(expected.text.clone()), None], "{string:?} {chars_max}");
                }
            }
        }
    }

    #[test]
    fn strings_end_at_the_quote_that_is_not_escaped() {
        for slashes in 0..9 {
            for before in ["", "x", "\\\"", "a\\n\\\""] {
                let raw = format!("[\"{before}{}\", 1]", "\\\\".repeat(slashes));
                for window_bytes in 1..12 {
                    let mut reader = Reader::with_window(raw.as_bytes(), window_bytes);
                    let mut kinds = Vec::new();
                    reader
                        .array(|_, r| {
                            kinds.push(r.peek()?);
                            Ok::<_, JsonError>(())
                        })
                        .unwrap();
                    assert_eq!(kinds, [Kind::String, Kind::Number], "{raw}");
                }
                let open = format!("\"{before}{}\\\"", "\\\\".repeat(slashes));
                assert!(Reader::new(Drip(open.as_bytes())).skip().is_err(), "{open}");
            }
        }
    }

    #[test]
    fn values_left_alone_are_skipped() {
        let raw = br#" {"a": {"x": ["}", {"y": "\"]"}]}, "b": 2, "c": [1, 2, 3]} "#;
        let mut keys = Vec::new();
        let mut reader = Reader::new(Drip(raw));
        reader
            .object(|key, r| {
                keys.push(key.to_owned());
                if key == "b" {
                    assert_eq!(r.number()?, Some(2.0));
                }
                Ok::<_, JsonError>(())
            })
            .unwrap();
        reader.end().unwrap();
        assert_eq!(keys, ["a", "b", "c"]);
    }

    #[test]
    fn a_bad_number_is_the_same_error_through_any_window() {
        let raw = b"12&9\\u, 1";
        let error = |mut reader: Reader<&[u8]>| format!("{:?}", reader.number().unwrap_err());
        let expected = error(Reader::new(raw.as_slice()));
        assert!(expected.contains("offset: 2"), "{expected}");
        for window_bytes in 1..raw.len() {
            assert_eq!(error(Reader::with_window(raw.as_slice(), window_bytes)), expected);
        }
    }

    #[test]
    fn a_document_in_memory_comes_back_as_it_was() {
        for raw in ["", "[1, {\"a\": \"b\"}] ", "[1"] {
            let mut reader = Reader::of_bytes(raw.as_bytes().to_vec());
            let walked = reader.skip().and_then(|()| reader.end());
            assert_eq!(walked.is_ok(), raw.ends_with(' '), "{raw}");
            assert_eq!(reader.offset(), raw.len() as u64);
        }
        let mut reader = Reader::of_bytes(b"[1]".to_vec());
        reader.skip().unwrap();
        assert_eq!(reader.into_bytes(), b"[1]");
    }

    #[test]
    fn fields_gives_the_members_named_and_skips_the_others() {
        let raw = br#"{"a": 1, "b\u0062": [2, {"a": 3}], "long": "x", "a": 4, "": 5, "c\"": 6}"#;
        for window_bytes in 1..raw.len() {
            let mut reader = Reader::with_window(raw.as_slice(), window_bytes);
            let mut seen = Vec::new();
            reader
                .fields(&["a", "bb", "", "c\""], |name, r| {
                    seen.push((name.to_owned(), r.number()?));
                    Ok::<_, JsonError>(())
                })
                .unwrap();
            reader.end().unwrap();
            let number = |name: &str, n| (name.to_owned(), n);
            assert_eq!(
                seen,
                [
                    number("a", Some(1.0)),
                    number("bb", None),
                    number("a", Some(4.0)),
                    number("", Some(5.0)),
                    number("c\"", Some(6.0))
                ]
            );
        }
    }

    #[test]
    fn raw_values_have_a_limit_and_survive_windows() {
        let raw = br#"[{"k": [1, "two", NaN]}, "0123456789"]"#;
        let mut reader = Reader::new(Drip(raw));
        let mut seen = Vec::new();
        reader
            .array(|_, r| {
                seen.push(r.raw(22)?);
                Ok::<_, JsonError>(())
            })
            .unwrap();
        assert_eq!(seen, [Some(br#"{"k": [1, "two", NaN]}"#.to_vec()), Some(br#""0123456789""#.to_vec())]);
        let mut reader = Reader::new(Drip(raw));
        assert_eq!(reader.raw(raw.len() - 1).unwrap(), None);
        reader.end().unwrap();
    }

    #[test]
    fn depth_is_limited() {
        let deep = |n: usize| "[".repeat(n) + &"]".repeat(n);
        assert!(Reader::new(deep(DEPTH_MAX).as_bytes()).skip().is_ok());
        assert!(matches!(Reader::new(deep(DEPTH_MAX + 1).as_bytes()).skip(), Err(JsonError::TooDeep { .. })));
        assert!(parse(deep(VALUE_DEPTH_MAX).as_bytes()).is_ok());
        assert!(matches!(parse(deep(VALUE_DEPTH_MAX + 1).as_bytes()), Err(JsonError::TooDeep { .. })));
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            // Doubles that serde_json prints so that they read back the same.
            (-1e15_f64..1e15).prop_map(Value::from),
            ".{0,20}".prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec((".{0,6}", inner), 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn agrees_with_serde_json(value in any_value(), pretty: bool) {
            let raw = if pretty { serde_json::to_vec_pretty(&value) } else { serde_json::to_vec(&value) }.unwrap();
            prop_assert_eq!(parse(&raw).unwrap(), value);
            let mut reader = Reader::new(Drip(&raw));
            let captured = reader.raw(raw.len()).unwrap();
            prop_assert_eq!(captured.as_deref(), Some(raw.as_slice()));
            reader.end().unwrap();
        }

        #[test]
        fn never_panics(raw in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&raw);
            let _ = Reader::new(Drip(&raw)).skip();
        }

        #[test]
        fn a_cut_document_is_an_error(value in any_value(), cut in 0.0_f64..1.0) {
            let raw = serde_json::to_vec(&Value::Array(vec![value])).unwrap();
            let cut = &raw[..(raw.len() as f64 * cut) as usize];
            prop_assert!(parse(cut).is_err());
        }
    }
}
