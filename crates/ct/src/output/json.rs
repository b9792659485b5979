//! JSON output. Characters a terminal or a reader could trip over are written as `\u` escapes, which changes the
//! spelling and not the value.

use std::io::{self, Write};

use serde::Serialize;

use super::neutral::is_active;
use crate::error::CliError;

/// One document over several lines, with a line break at its end.
pub(crate) fn pretty(value: &impl Serialize) -> Result<String, CliError> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| CliError::internal("failed to write JSON").because(&error))?;
    Ok(escaped(&text) + "\n")
}

/// One document on one line, with a line break at its end.
pub(crate) fn compact(value: &impl Serialize) -> Result<String, CliError> {
    let text = serde_json::to_string(value)
        .map_err(|error| CliError::internal("failed to write JSON").because(&error))?;
    Ok(escaped(&text) + "\n")
}

fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        push(c, &mut out);
    }
    out
}

/// Outside of strings JSON knows line breaks and tabs as white space; inside, the writer has escaped them already.
fn push(c: char, out: &mut String) {
    if is_active(c) && !matches!(c, '\n' | '\r' | '\t') {
        for unit in c.encode_utf16(&mut [0; 2]) {
            out.push_str(&format!("\\u{unit:04x}"));
        }
    } else {
        out.push(c);
    }
}

/// Passes JSON on to a terminal with active characters escaped; used where the exact bytes of a log are shown.
pub(crate) struct JsonTerminal<W> {
    inner: W,
    /// The first bytes of a character cut by the end of a write.
    carried: Vec<u8>,
}

impl<W: Write> JsonTerminal<W> {
    /// Wraps a writer.
    pub(crate) fn new(inner: W) -> Self {
        Self { inner, carried: Vec::new() }
    }
}

impl<W: Write> Write for JsonTerminal<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.carried.extend_from_slice(bytes);
        let mut out = String::with_capacity(self.carried.len());
        let mut rest = self.carried.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(text) => {
                    text.chars().for_each(|c| push(c, &mut out));
                    rest = &[];
                }
                Err(error) => {
                    let (good, bad) = rest.split_at(error.valid_up_to());
                    String::from_utf8_lossy(good).chars().for_each(|c| push(c, &mut out));
                    let Some(length) = error.error_len() else {
                        rest = bad;
                        break;
                    };
                    out.push(char::REPLACEMENT_CHARACTER);
                    rest = &bad[length..];
                    continue;
                }
            }
            break;
        }
        let rest = rest.to_vec();
        self.carried = rest;
        self.inner.write_all(out.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn active_characters_are_escaped_and_the_value_stays() {
        let value = serde_json::json!({"k\u{9b}": "\u{1b}[31m\u{202e}\u{e0041}\u{7f} ä\n"});
        for text in [compact(&value).unwrap(), pretty(&value).unwrap()] {
            assert!(!text.chars().any(|c| is_active(c) && c != '\n'), "{text:?}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
        }
    }

    #[test]
    fn characters_cut_between_writes_are_put_together() {
        let text = "{\"a\":\"ä\u{202e}漢\u{9b}\"}".as_bytes();
        for size in 1..5 {
            let mut writer = JsonTerminal::new(Vec::new());
            for piece in text.chunks(size) {
                writer.write_all(piece).unwrap();
            }
            assert_eq!(String::from_utf8(writer.inner).unwrap(), "{\"a\":\"ä\\u202e漢\\u009b\"}");
        }
    }
}
