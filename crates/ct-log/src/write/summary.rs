//! Summary rows: one small object per sample, thinned by Inspect's rules.
//!
//! Cost: one pass over the sample, nearly all of it skipping. Memory: the row, which is bounded: what Inspect cuts is cut
//! the same way, and what it copies whole is left out beyond [`FIELD_BYTES_MAX`] (an input of many messages ends at
//! [`INPUT_BYTES_MAX`]).

use std::io::Read;

use super::edit::{RawObject, quoted};
use crate::json::{JsonError, Kind, Reader};

/// Characters of an input or a target.
const TEXT_CHARS_MAX: usize = 5_120;
const TEXT_CUT: &str = "...\n(content truncated)";
/// Width of a thinned text, and how much of the text is looked at.
const THIN_CHARS: usize = 1_024;
const THIN_SCAN_CHARS: usize = THIN_CHARS * 8;
/// Characters of a metadata value's JSON, indented by two.
const VALUE_CHARS_MAX: usize = 1_024;
/// Bytes of a metadata value that may still be that small: indentation and escapes take the rest.
const VALUE_BYTES_MAX: usize = 64 * 1_024;
const VALUE_REMOVED: &str = "Key removed from summary (> 1k)";
/// Bytes of a field that Inspect copies whole.
const FIELD_BYTES_MAX: usize = 1 << 20;
/// Bytes of an input that is a list of messages.
const INPUT_BYTES_MAX: usize = 4 << 20;
/// Bytes of all metadata of a sample or a score.
const METADATA_BYTES_MAX: usize = 8 << 20;
/// Scores of a sample.
const SCORES_MAX: usize = 10_000;

/// Fields copied as they are, in the order of Inspect's model; the others stand between them.
const FIELDS: [&str; 28] = [
    "id",
    "epoch",
    "input",
    "choices",
    "target",
    "description",
    "metadata",
    "scores",
    "model_usage",
    "role_usage",
    "model_fallbacks",
    "started_at",
    "completed_at",
    "total_time",
    "working_time",
    "uuid",
    "error",
    "limit",
    "limit_reason",
    "retries",
    "completed",
    "message_count",
    "turn_count",
    "token_limit",
    "token_limit_type",
    "token_limit_usage",
    "message_limit",
    "time_limit",
];

/// Makes Inspect's `EvalSampleSummary` of a sample in one pass over its JSON, which is read to its end. Memory is bounded
/// whatever the sample. Numbers stay spelled as they are. The single `score` of old samples comes as `scores.score`.
pub fn summary_row(sample: &mut dyn Read) -> Result<Vec<u8>, JsonError> {
    let mut reader = Reader::new(sample);
    if reader.peek()? != Kind::Object {
        return Err(JsonError::Syntax { offset: reader.offset(), expected: "an object" });
    }
    let mut row: [Option<Vec<u8>>; FIELDS.len()] = Default::default();
    let place = |key: &str| FIELDS.iter().position(|f| *f == key);
    let mut messages = 0_u64;
    reader.object(|key, r| {
        let mut set = |key: &str, value: Option<Vec<u8>>| {
            if let Some(place) = place(key) {
                row[place] = value.filter(|v| v != b"null");
            }
        };
        match key {
            "id" | "epoch" => set(key, scalar(r)?),
            "input" => set(key, Some(input(r)?)),
            "target" => set(key, Some(target(r)?)),
            "metadata" => set(key, metadata(r)?),
            "scores" => set(key, scores(r)?),
            "score" => {
                let mut out = br#"{"score":"#.to_vec();
                if score(r, &mut out)? {
                    out.push(b'}');
                    set("scores", Some(out));
                }
            }
            "error" => {
                let [message, _] = texts(r, ["message", ""])?;
                set(key, message);
            }
            "limit" => {
                let [kind, reason] = texts(r, ["type", "reason"])?;
                set("limit", kind);
                set("limit_reason", reason);
            }
            "error_retries" if r.peek()? == Kind::Array => {
                set("retries", Some(count(r)?.to_string().into_bytes()));
            }
            "messages" => messages = count(r)?,
            "limit_reason" | "retries" | "completed" | "message_count" => {}
            _ if place(key).is_some() => set(key, r.raw(FIELD_BYTES_MAX)?),
            _ => {}
        }
        Ok::<_, JsonError>(())
    })?;
    reader.end()?;

    let mut set = |key: &str, value: &[u8]| {
        if let Some(place) = place(key) {
            row[place].get_or_insert_with(|| value.to_vec());
        }
    };
    // Fields that readers insist on.
    set("epoch", b"1");
    set("input", b"\"\"");
    set("target", b"\"\"");
    set("completed", b"true");
    set("message_count", messages.to_string().as_bytes());
    let mut out = vec![b'{'];
    for (key, value) in FIELDS.iter().zip(&row) {
        if let Some(value) = value {
            member(&mut out, key, value);
        }
    }
    out.push(b'}');
    Ok(out)
}

/// Adds a member to an object that is not closed yet.
fn member(out: &mut Vec<u8>, key: &str, value: &[u8]) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    out.extend_from_slice(&quoted(key));
    out.push(b':');
    out.extend_from_slice(value);
}

/// A value as written; R's writer puts scalars into lists of one.
fn scalar<R: Read>(r: &mut Reader<R>) -> Result<Option<Vec<u8>>, JsonError> {
    if r.peek()? != Kind::Array {
        return r.raw(FIELD_BYTES_MAX);
    }
    let mut first = None;
    r.array(|i, r| {
        if i == 0 {
            first = r.raw(FIELD_BYTES_MAX)?;
        }
        Ok::<_, JsonError>(())
    })?;
    Ok(first)
}

fn count<R: Read>(r: &mut Reader<R>) -> Result<u64, JsonError> {
    let mut n = 0;
    r.array(|_, _| {
        n += 1;
        Ok::<_, JsonError>(())
    })?;
    Ok(n)
}

/// Two text members of an object.
fn texts<R: Read>(r: &mut Reader<R>, keys: [&str; 2]) -> Result<[Option<Vec<u8>>; 2], JsonError> {
    let mut found = [None, None];
    r.object(|key, r| {
        if let Some(place) = keys.iter().position(|k| *k == key) {
            found[place] = r.text(FIELD_BYTES_MAX)?.map(|t| quoted(&t.text));
        }
        Ok::<_, JsonError>(())
    })?;
    Ok(found)
}

/// The next value, a string: its beginning as JSON, and whether anything was cut.
fn truncated<R: Read>(r: &mut Reader<R>) -> Result<Option<(Vec<u8>, bool)>, JsonError> {
    Ok(r.text(TEXT_CHARS_MAX)?.map(|mut text| {
        if text.cut {
            text.text.push_str(TEXT_CUT);
        }
        (quoted(&text.text), text.cut)
    }))
}

fn target<R: Read>(r: &mut Reader<R>) -> Result<Vec<u8>, JsonError> {
    match r.peek()? {
        Kind::String => Ok(truncated(r)?.unwrap_or_default().0),
        Kind::Array => {
            let mut out = vec![b'['];
            r.array(|_, r| {
                let item = match r.peek()? {
                    Kind::String => truncated(r)?.map(|(text, _)| text),
                    _ => r.raw(TEXT_CHARS_MAX)?,
                };
                if let Some(item) = item
                    && out.len() + item.len() < INPUT_BYTES_MAX
                {
                    if out.len() > 1 {
                        out.push(b',');
                    }
                    out.extend_from_slice(&item);
                }
                Ok::<_, JsonError>(())
            })?;
            out.push(b']');
            Ok(out)
        }
        _ => Ok(r.raw(TEXT_CHARS_MAX)?.filter(|raw| raw != b"null").unwrap_or_else(|| b"\"\"".to_vec())),
    }
}

fn input<R: Read>(r: &mut Reader<R>) -> Result<Vec<u8>, JsonError> {
    match r.peek()? {
        Kind::String => Ok(truncated(r)?.unwrap_or_default().0),
        Kind::Array => {
            let mut out = vec![b'['];
            r.array(|_, r| {
                if out.len() >= INPUT_BYTES_MAX || r.peek()? != Kind::Object {
                    return r.skip();
                }
                if out.len() > 1 {
                    out.push(b',');
                }
                message(r, &mut out)
            })?;
            out.push(b']');
            Ok(out)
        }
        _ => {
            r.skip()?;
            Ok(b"\"\"".to_vec())
        }
    }
}

fn message<R: Read>(r: &mut Reader<R>, out: &mut Vec<u8>) -> Result<(), JsonError> {
    out.push(b'{');
    r.object(|key, r| {
        if key != "content" {
            if let Some(raw) = r.raw(FIELD_BYTES_MAX)? {
                member(out, key, &raw);
            }
            return Ok(());
        }
        match r.peek()? {
            Kind::String => {
                if let Some((text, _)) = truncated(r)? {
                    member(out, key, &text);
                }
            }
            Kind::Array => {
                let mut parts = vec![b'['];
                r.array(|_, r| {
                    if parts.len() >= INPUT_BYTES_MAX || r.peek()? != Kind::Object {
                        return r.skip();
                    }
                    if parts.len() > 1 {
                        parts.push(b',');
                    }
                    part(r, &mut parts)
                })?;
                parts.push(b']');
                member(out, key, &parts);
            }
            _ => {
                if let Some(raw) = r.raw(FIELD_BYTES_MAX)? {
                    member(out, key, &raw);
                }
            }
        }
        Ok::<_, JsonError>(())
    })?;
    out.push(b'}');
    Ok(())
}

/// One part of a message's content. Only text stays.
fn part<R: Read>(r: &mut Reader<R>, out: &mut Vec<u8>) -> Result<(), JsonError> {
    const KIND_CHARS_MAX: usize = 64;
    let (mut kind, mut text) = (String::new(), (b"\"\"".to_vec(), false));
    let mut others = Vec::new();
    r.object(|key, r| {
        match key {
            "type" => kind = r.text(KIND_CHARS_MAX)?.map(|t| t.text).unwrap_or_default(),
            "text" => text = truncated(r)?.unwrap_or(text.clone()),
            // The data itself, in parts that are not text.
            "image" | "audio" | "video" | "document" | "data" | "reasoning" | "result" => {}
            _ => others.extend(r.raw(FIELD_BYTES_MAX / 16)?.map(|raw| (key.to_owned(), raw))),
        }
        Ok::<_, JsonError>(())
    })?;
    out.push(b'{');
    member(out, "type", b"\"text\"");
    if kind == "text" {
        member(out, "text", &text.0);
        for (key, raw) in others {
            // Of a text that was cut Inspect keeps no more than this.
            if !text.1 || matches!(key.as_str(), "citations" | "refusal") {
                member(out, &key, &raw);
            }
        }
    } else {
        let mut name = kind.chars();
        let name = match name.next() {
            Some(first) => first.to_uppercase().chain(name.flat_map(char::to_lowercase)).collect(),
            None => String::new(),
        };
        member(out, "text", &quoted(&format!("({name})")));
    }
    out.push(b'}');
    Ok(())
}

fn metadata<R: Read>(r: &mut Reader<R>) -> Result<Option<Vec<u8>>, JsonError> {
    if r.peek()? != Kind::Object {
        r.skip()?;
        return Ok(None);
    }
    let mut out = vec![b'{'];
    r.object(|key, r| {
        if out.len() >= METADATA_BYTES_MAX {
            return r.skip();
        }
        let value = match r.peek()? {
            Kind::String => thin(r)?.unwrap_or_default(),
            Kind::Object | Kind::Array => match r.raw(VALUE_BYTES_MAX)? {
                Some(raw) if indented_chars(&mut Reader::new(raw.as_slice()), 0)? <= VALUE_CHARS_MAX => raw,
                _ => quoted(VALUE_REMOVED),
            },
            _ => r.raw(VALUE_BYTES_MAX)?.unwrap_or_else(|| quoted(VALUE_REMOVED)),
        };
        member(&mut out, key, &value);
        Ok::<_, JsonError>(())
    })?;
    out.push(b'}');
    Ok(Some(out))
}

/// Characters of a value printed with an indentation of two and without nulls in objects.
fn indented_chars(r: &mut Reader<&[u8]>, depth: usize) -> Result<usize, JsonError> {
    let kind = r.peek()?;
    if depth > crate::json::VALUE_DEPTH_MAX {
        return Err(JsonError::TooDeep { offset: r.offset() });
    }
    let line = 1 + 2 * (depth + 1);
    let mut items = 0_usize;
    let mut chars = 0;
    match kind {
        Kind::Object => r.object(|key, r| {
            if r.peek()? != Kind::Null {
                items += 1;
                chars += line + quoted_chars(key) + 2 + indented_chars(r, depth + 1)?;
            }
            Ok::<_, JsonError>(())
        })?,
        Kind::Array => r.array(|_, r| {
            items += 1;
            chars += line + indented_chars(r, depth + 1)?;
            Ok::<_, JsonError>(())
        })?,
        Kind::String => return Ok(r.text(usize::MAX)?.map_or(0, |t| quoted_chars(&t.text))),
        _ => return Ok(r.raw(usize::MAX)?.map_or(0, |raw| raw.len())),
    }
    // Commas, the brackets, and the line of the closing one.
    Ok(match items {
        0 => 2,
        _ => chars + (items - 1) + 2 + 1 + 2 * depth,
    })
}

fn quoted_chars(text: &str) -> usize {
    2 + text
        .chars()
        .map(|c| match c {
            '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
            c if c < ' ' => 6,
            _ => 1,
        })
        .sum::<usize>()
}

fn scores<R: Read>(r: &mut Reader<R>) -> Result<Option<Vec<u8>>, JsonError> {
    if r.peek()? != Kind::Object {
        r.skip()?;
        return Ok(None);
    }
    let mut out = vec![b'{'];
    let mut n = 0;
    r.object(|key, r| {
        let mut one = Vec::new();
        if n < SCORES_MAX && score(r, &mut one)? {
            member(&mut out, key, &one);
            n += 1;
        }
        Ok::<_, JsonError>(())
    })?;
    out.push(b'}');
    Ok(Some(out))
}

/// Adds a thinned score; false when the value is none.
fn score<R: Read>(r: &mut Reader<R>, out: &mut Vec<u8>) -> Result<bool, JsonError> {
    if r.peek()? != Kind::Object {
        r.skip()?;
        return Ok(false);
    }
    const KEYS: [&str; 5] = ["value", "answer", "explanation", "reason", "metadata"];
    let mut found: [Option<Vec<u8>>; KEYS.len()] = Default::default();
    r.object(|key, r| {
        let Some(place) = KEYS.iter().position(|k| *k == key) else { return Ok(()) };
        found[place] = match (key, r.peek()?) {
            // A value beyond all measure reads as not scored.
            ("value", _) => Some(r.raw(FIELD_BYTES_MAX)?.unwrap_or_else(|| b"NaN".to_vec())),
            ("metadata", _) => metadata(r)?,
            (_, Kind::String) => thin(r)?,
            _ => r.raw(VALUE_CHARS_MAX)?,
        }
        .filter(|raw| key == "value" || raw != b"null");
        Ok::<_, JsonError>(())
    })?;
    out.push(b'{');
    for (key, value) in KEYS.iter().zip(&found) {
        if let Some(value) = value {
            member(out, key, value);
        }
    }
    member(out, "history", b"[]");
    out.push(b'}');
    Ok(true)
}

/// The next value, a string: collapsed and shortened, as JSON.
fn thin<R: Read>(r: &mut Reader<R>) -> Result<Option<Vec<u8>>, JsonError> {
    Ok(r.text(THIN_SCAN_CHARS)?.map(|t| quoted(&shorten(&t.text))))
}

/// White space as Python's `str.split` sees it.
fn is_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{1c}'..='\u{1f}')
}

/// Python's `textwrap.shorten(text, 1024, placeholder="...")`.
fn shorten(text: &str) -> String {
    const PLACEHOLDER: &str = "...";
    let words: Vec<&str> = text.split(is_space).filter(|word| !word.is_empty()).collect();
    let text = words.join(" ");
    if text.chars().count() <= THIN_CHARS {
        return text;
    }
    // Where the text may be cut: behind words, at hyphens and dashes. The last such place that leaves room for the
    // placeholder is taken.
    let room = THIN_CHARS - PLACEHOLDER.len();
    let (mut chars, mut best) = (0, None);
    'words: for (i, word) in words.iter().enumerate() {
        if i > 0 {
            chars += 1;
        }
        let mut word = *word;
        for chunk in chunks(word) {
            let end = chars + chunk;
            if end > THIN_CHARS {
                // A piece longer than a line is broken, but only at a hyphen does that leave room.
                if chunk > THIN_CHARS {
                    let line: Vec<char> = word.chars().take(THIN_CHARS.saturating_sub(chars)).collect();
                    let hyphen =
                        line.iter().rposition(|c| *c == '-').filter(|h| line[..*h].iter().any(|c| *c != '-'));
                    best = hyphen.map(|h| chars + h + 1).filter(|end| *end <= room).or(best);
                }
                break 'words;
            }
            if end <= room {
                best = Some(end);
            }
            chars = end;
            word = word.char_indices().nth(chunk).map_or("", |(at, _)| &word[at..]);
        }
    }
    match best {
        Some(best) => text.chars().take(best).chain(PLACEHOLDER.chars()).collect(),
        None => PLACEHOLDER.to_owned(),
    }
}

/// Lengths of the pieces into which a word may be broken.
fn chunks(word: &str) -> Vec<usize> {
    let chars: Vec<char> = word.chars().collect();
    let at = |i: usize| chars.get(i).copied();
    let letter = |c: Option<char>| c.is_some_and(|c| c.is_alphabetic() || c == '_');
    let wordly = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let mut lengths = Vec::new();
    let mut start = 0;
    let mut i = 0;
    while i < chars.len() {
        // A dash of two or more between words is a piece of its own.
        let mut dash = i;
        while at(dash) == Some('-') {
            dash += 1;
        }
        let before = i.checked_sub(1).and_then(at);
        if dash - i >= 2
            && before.is_some_and(|c| wordly(Some(c)) || "!\"'&.,?".contains(c))
            && wordly(at(dash))
        {
            if i > start {
                lengths.push(i - start);
            }
            lengths.push(dash - i);
            start = dash;
            i = dash;
            continue;
        }
        if at(i) == Some('-') && i > start {
            let back = |n: usize| i.checked_sub(n).and_then(at);
            let after_word = letter(back(1)) && (letter(back(2)) || back(2) == Some('-') && letter(back(3)));
            let before_word =
                letter(at(i + 1)) && (letter(at(i + 2)) || at(i + 2) == Some('-') && letter(at(i + 3)));
            if after_word && before_word {
                lengths.push(i + 1 - start);
                start = i + 1;
            }
        }
        i += 1;
    }
    if start < chars.len() {
        lengths.push(chars.len() - start);
    }
    lengths
}

/// Scorers named in a row are left out where `drop` says so.
pub(super) fn without_scores(row: &[u8], drop: &dyn Fn(&str) -> bool) -> Result<Vec<u8>, JsonError> {
    let mut row = RawObject::parse(row)?;
    if let Some(scores) = row.get("scores")
        && let Ok(mut scores) = RawObject::parse(scores)
    {
        scores.retain(|name, _| !drop(name));
        row.set("scores", scores.to_bytes());
    }
    Ok(row.to_bytes())
}
