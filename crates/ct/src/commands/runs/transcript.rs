//! A sample's conversation as text a person can read, message by message.
//!
//! Memory holds one message at a time and the scores, never the events. Everything from the log is neutralised; in
//! Markdown it stands in code blocks whose fence is longer than any run of backticks inside, so that nothing an agent
//! wrote can become a heading, a link or HTML.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};

use ct_log::json::{JsonError, Reader};
use serde_json::Value;

use crate::output::{neutral, neutral_block};

/// A message, score or attachment larger than this is not shown; the line that stands for it says so.
const VALUE_BYTES_MAX: usize = 64 << 20;
/// All attachments together.
const ATTACHMENTS_BYTES_MAX: usize = 128 << 20;
/// How an attachment is referred to.
const ATTACHMENT: [&str; 2] = ["attachment://", "tc://"];

/// How far texts are indented: by themselves, under a label, and under a label in a list.
const SHALLOW: &str = "  ";
const DEEP: &str = "    ";
const DEEPER: &str = "      ";

/// How to write.
#[derive(Debug, Clone, Copy)]
pub(super) enum Style {
    Plain { color: bool },
    Markdown,
}

/// Why writing stopped.
#[derive(Debug)]
pub(super) enum Trouble {
    Log(JsonError),
    Output(io::Error),
}

impl From<JsonError> for Trouble {
    fn from(error: JsonError) -> Self {
        Self::Log(error)
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// What is known of a sample besides its messages.
#[derive(Debug, Default)]
pub(super) struct Outline {
    messages: u64,
    input: Option<Value>,
    output: Option<Value>,
    scores: Vec<(String, Option<Value>)>,
    error: Option<Value>,
    limit: Option<Value>,
    attachments: BTreeMap<String, String>,
}

impl Outline {
    /// Walks the sample once.
    pub(super) fn read(sample: impl Read) -> Result<Self, JsonError> {
        let mut outline = Self::default();
        let mut wanted = BTreeSet::new();
        let mut kept = 0;
        let mut reader = Reader::new(sample);
        reader.object(|key, reader| -> Result<(), JsonError> {
            match key {
                "messages" => reader.array(|_, reader| -> Result<(), JsonError> {
                    outline.messages += 1;
                    if let Some(message) = reader.value(VALUE_BYTES_MAX)? {
                        references(&message, &mut wanted);
                    }
                    Ok(())
                })?,
                "input" => outline.input = reader.value(VALUE_BYTES_MAX)?,
                "output" => outline.output = reader.value(VALUE_BYTES_MAX)?,
                "error" => outline.error = reader.value(VALUE_BYTES_MAX)?,
                "limit" => outline.limit = reader.value(VALUE_BYTES_MAX)?,
                // Before 0.3.18 a sample had one score without a name.
                "score" => outline.scores.push(("score".to_owned(), reader.value(VALUE_BYTES_MAX)?)),
                "scores" => reader.object(|name, reader| -> Result<(), JsonError> {
                    outline.scores.push((name.to_owned(), reader.value(VALUE_BYTES_MAX)?));
                    Ok(())
                })?,
                "attachments" => reader.object(|name, reader| -> Result<(), JsonError> {
                    if wanted.contains(name)
                        && kept < ATTACHMENTS_BYTES_MAX
                        && let Some(text) = reader.text(VALUE_BYTES_MAX)?
                        && !text.cut
                    {
                        kept += text.text.len();
                        outline.attachments.insert(name.to_owned(), text.text);
                    }
                    Ok(())
                })?,
                _ => {}
            }
            Ok(())
        })?;
        Ok(outline)
    }

    /// The text an attachment reference stands for, else the text itself.
    fn resolve<'a>(&'a self, text: &'a str) -> &'a str {
        reference(text).and_then(|name| self.attachments.get(name)).map_or(text, String::as_str)
    }
}

fn reference(text: &str) -> Option<&str> {
    ATTACHMENT.iter().find_map(|prefix| text.strip_prefix(prefix))
}

fn references(value: &Value, wanted: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => wanted.extend(reference(text).map(str::to_owned)),
        Value::Array(values) => values.iter().for_each(|value| references(value, wanted)),
        Value::Object(fields) => fields.values().for_each(|value| references(value, wanted)),
        _ => {}
    }
}

/// Writes the transcript.
pub(super) fn write(
    sample: impl Read,
    outline: &Outline,
    title: &str,
    facts: &[(&str, String)],
    style: Style,
    out: &mut dyn Write,
) -> Result<(), Trouble> {
    let mut page = Page { out, style };
    page.title(title, facts)?;
    if outline.messages == 0 {
        page.without_messages(outline)?;
    }
    let mut number = 0;
    let mut reader = Reader::new(sample);
    reader.object(|key, reader| -> Result<(), Trouble> {
        if key != "messages" {
            return Ok(());
        }
        reader.array(|_, reader| -> Result<(), Trouble> {
            number += 1;
            match reader.value(VALUE_BYTES_MAX)? {
                Some(message) => page.message(number, &message, outline),
                None => {
                    page.heading(&format!(
                        "{number} message of more than {VALUE_BYTES_MAX} bytes, not shown"
                    ))?;
                    Ok(())
                }
            }
        })
    })?;
    page.end(outline)
}

struct Page<'a> {
    out: &'a mut dyn Write,
    style: Style,
}

impl Page<'_> {
    fn title(&mut self, title: &str, facts: &[(&str, String)]) -> Result<(), Trouble> {
        match self.style {
            Style::Markdown => {
                writeln!(self.out, "# Trajectory\n")?;
                writeln!(self.out, "- name: {}", inline_code(title))?;
                for (name, value) in facts {
                    writeln!(self.out, "- {name}: {}", inline_code(value))?;
                }
            }
            Style::Plain { color } => {
                let title = neutral(title);
                if color {
                    writeln!(self.out, "\x1b[1m{title}\x1b[0m")?;
                } else {
                    writeln!(self.out, "{title}")?;
                }
                for (name, value) in facts {
                    writeln!(self.out, "  {name:<12} {}", neutral(value))?;
                }
            }
        }
        Ok(())
    }

    fn heading(&mut self, text: &str) -> Result<(), Trouble> {
        let text = neutral(text);
        match self.style {
            Style::Markdown => writeln!(self.out, "\n## {}", plain_markdown(&text))?,
            Style::Plain { color: true } => writeln!(self.out, "\n\x1b[1;36m── {text} ──\x1b[0m")?,
            Style::Plain { color: false } => writeln!(self.out, "\n── {text} ──")?,
        }
        Ok(())
    }

    fn label(&mut self, text: &str) -> Result<(), Trouble> {
        let text = neutral(text);
        match self.style {
            Style::Markdown => writeln!(self.out, "\n{}", plain_markdown(&text))?,
            Style::Plain { color: true } => writeln!(self.out, "{SHALLOW}\x1b[33m{text}\x1b[0m")?,
            Style::Plain { color: false } => writeln!(self.out, "{SHALLOW}{text}")?,
        }
        Ok(())
    }

    /// A text as it is, line by line. It is always indented, so that only headings begin a line and none can be faked.
    fn block(&mut self, text: &str, indent: &str) -> Result<(), Trouble> {
        let text = neutral_block(text);
        let text = text.trim_end_matches('\n');
        if text.is_empty() {
            return Ok(());
        }
        match self.style {
            Style::Markdown => {
                let fence = fence(text);
                writeln!(self.out, "\n{fence}text\n{text}\n{fence}")?;
            }
            Style::Plain { .. } => {
                for line in text.split('\n') {
                    if line.is_empty() {
                        writeln!(self.out)?;
                    } else {
                        writeln!(self.out, "{indent}{line}")?;
                    }
                }
            }
        }
        Ok(())
    }

    fn message(&mut self, number: u64, message: &Value, outline: &Outline) -> Result<(), Trouble> {
        let text_of = |name: &str| message.get(name).and_then(Value::as_str);
        let role = text_of("role").unwrap_or("message");
        let mut heading = format!("{number} {role}");
        if let Some(detail) = text_of("function").or_else(|| text_of("model")) {
            heading.push_str(&format!(" · {detail}"));
        }
        self.heading(&heading)?;
        // Between 0.3.62 and 0.3.70 reasoning was a field of its own.
        if let Some(reasoning) = text_of("reasoning") {
            self.label("reasoning:")?;
            self.block(outline.resolve(reasoning), DEEP)?;
        }
        self.content(message.get("content").unwrap_or(&Value::Null), outline)?;
        for call in message.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            self.call(call, outline)?;
        }
        if let Some(error) = message.get("error").filter(|error| !error.is_null()) {
            let kind = error.get("type").and_then(Value::as_str).unwrap_or("error");
            self.label(&format!("error: {kind}"))?;
            self.block(error.get("message").and_then(Value::as_str).unwrap_or_default(), DEEP)?;
        }
        Ok(())
    }

    fn content(&mut self, content: &Value, outline: &Outline) -> Result<(), Trouble> {
        let parts = match content {
            Value::Null => return Ok(()),
            Value::String(text) => return self.block(outline.resolve(text), SHALLOW),
            Value::Array(parts) => parts,
            other => return self.block(&pretty(other), SHALLOW),
        };
        for part in parts {
            let text_of = |name: &str| part.get(name).and_then(Value::as_str);
            match text_of("type").unwrap_or_default() {
                "text" => self.block(outline.resolve(text_of("text").unwrap_or_default()), SHALLOW)?,
                "reasoning" => {
                    let redacted = part.get("redacted").and_then(Value::as_bool).unwrap_or(false);
                    let shown = if redacted { text_of("summary") } else { text_of("reasoning") };
                    self.label(if redacted { "reasoning (redacted):" } else { "reasoning:" })?;
                    self.block(outline.resolve(shown.unwrap_or_default()), DEEP)?;
                }
                kind @ ("image" | "audio" | "video" | "document") => {
                    let size = text_of(kind).map_or(0, |data| outline.resolve(data).len());
                    let name = text_of("filename").map(|name| format!(" {name}")).unwrap_or_default();
                    self.label(&format!("[{kind}{name}, {size} characters, not shown]"))?;
                }
                _ => self.block(&pretty(part), SHALLOW)?,
            }
        }
        Ok(())
    }

    fn call(&mut self, call: &Value, outline: &Outline) -> Result<(), Trouble> {
        let text_of = |name: &str| call.get(name).and_then(Value::as_str);
        let function = text_of("function").unwrap_or("?");
        let id = text_of("id").map(|id| format!(" ({id})")).unwrap_or_default();
        self.label(&format!("→ {function}{id}"))?;
        match call.get("arguments") {
            Some(Value::Object(arguments)) => {
                for (name, value) in arguments {
                    self.argument(name, value, outline)?;
                }
            }
            Some(Value::Null) | None => {}
            Some(other) => self.block(&pretty(other), DEEP)?,
        }
        if let Some(error) = text_of("parse_error") {
            self.label("could not be parsed:")?;
            self.block(error, DEEP)?;
        }
        Ok(())
    }

    fn argument(&mut self, name: &str, value: &Value, outline: &Outline) -> Result<(), Trouble> {
        let text = match value {
            Value::String(text) => outline.resolve(text).to_owned(),
            other => pretty(other),
        };
        match self.style {
            Style::Plain { .. } if !text.contains('\n') => {
                writeln!(self.out, "{DEEP}{}: {}", neutral(name), neutral(&text))?;
            }
            Style::Plain { .. } => {
                writeln!(self.out, "{DEEP}{}:", neutral(name))?;
                self.block(&text, DEEPER)?;
            }
            Style::Markdown => {
                self.label(&format!("{name}:"))?;
                self.block(&text, SHALLOW)?;
            }
        }
        Ok(())
    }

    /// Some old or odd logs keep the conversation elsewhere; show what there is.
    fn without_messages(&mut self, outline: &Outline) -> Result<(), Trouble> {
        self.heading("no messages recorded")?;
        match &outline.input {
            Some(Value::Array(messages)) => {
                for (message, number) in messages.iter().zip(1..) {
                    self.message(number, message, outline)?;
                }
            }
            Some(Value::String(text)) => {
                self.heading("input")?;
                self.block(outline.resolve(text), SHALLOW)?;
            }
            _ => {}
        }
        if let Some(completion) =
            outline.output.as_ref().and_then(|output| output.get("completion")?.as_str())
            && !completion.is_empty()
        {
            self.heading("output")?;
            self.block(outline.resolve(completion), SHALLOW)?;
        }
        Ok(())
    }

    fn end(&mut self, outline: &Outline) -> Result<(), Trouble> {
        if let Some(error) = outline.error.as_ref().filter(|error| !error.is_null()) {
            self.heading("error")?;
            let message =
                error.get("message").and_then(Value::as_str).map_or_else(|| pretty(error), str::to_owned);
            self.block(&message, SHALLOW)?;
        }
        if let Some(limit) = outline.limit.as_ref().filter(|limit| !limit.is_null()) {
            self.heading("limit")?;
            self.block(&pretty(limit), SHALLOW)?;
        }
        if outline.scores.is_empty() {
            return Ok(());
        }
        self.heading("scores")?;
        for (name, score) in &outline.scores {
            let Some(score) = score else {
                self.label(&format!("{name}: more than {VALUE_BYTES_MAX} bytes, not shown"))?;
                continue;
            };
            let value = score.get("value").map_or_else(|| "-".to_owned(), ToString::to_string);
            self.label(&format!("{name}: {value}"))?;
            for field in ["answer", "explanation"] {
                if let Some(text) = score.get(field).and_then(Value::as_str).filter(|text| !text.is_empty()) {
                    self.label(&format!("{field}:"))?;
                    self.block(outline.resolve(text), DEEP)?;
                }
            }
        }
        Ok(())
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}

/// A fence that the text cannot close.
fn fence(text: &str) -> String {
    "`".repeat(longest_run(text).max(2) + 1)
}

fn longest_run(text: &str) -> usize {
    let (mut longest, mut run) = (0, 0);
    for c in text.chars() {
        run = if c == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

fn inline_code(text: &str) -> String {
    let text = neutral(text);
    match longest_run(&text) {
        _ if text.is_empty() => "-".to_owned(),
        0 => format!("`{text}`"),
        longest => {
            let ticks = "`".repeat(longest + 1);
            format!("{ticks} {text} {ticks}")
        }
    }
}

/// Text outside of code blocks, with everything Markdown would act on escaped.
fn plain_markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii_punctuation() && !matches!(c, ':' | ',' | '.' | '-' | '(' | ')' | '/' | '"') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = r##"{"id": "s", "epoch": 1, "input": "x", "target": "y", "messages": [
        {"role": "system", "content": "Be careful.\nAlways."},
        {"role": "user", "content": [{"type": "text", "text": "attachment://00"}, {"type": "image", "image": "attachment://01"}]},
        {"role": "assistant", "model": "m/1", "content": [{"type": "reasoning", "reasoning": "hm \u001b[31m"}, {"type": "text", "text": "```\n# Not a heading\n```"}],
         "tool_calls": [{"id": "c1", "function": "bash", "arguments": {"cmd": "ls\nls -la", "timeout": 5}}]},
        {"role": "tool", "function": "bash", "tool_call_id": "c1", "content": "", "error": {"type": "timeout", "message": "too slow"}}
      ], "events": [{"event": "model"}], "attachments": {"00": "hello", "01": "data:x", "02": "unused"},
      "scores": {"tasks": {"value": {"main": 1, "side": null}, "explanation": "good"}}, "error": {"message": "boom"}}"##;

    fn shown(sample: &str, style: Style) -> String {
        let outline = Outline::read(sample.as_bytes()).unwrap();
        let mut out = Vec::new();
        write(sample.as_bytes(), &outline, "na\x1bme", &[("trajectory", "t1".to_owned())], style, &mut out)
            .unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_transcript_for_reading() {
        insta::assert_snapshot!(shown(SAMPLE, Style::Plain { color: false }));
    }

    #[test]
    fn a_transcript_as_markdown() {
        insta::assert_snapshot!(shown(SAMPLE, Style::Markdown));
    }

    #[test]
    fn a_sample_without_messages_shows_its_input_and_output() {
        let sample = r#"{"id": 1, "input": "2+2?", "output": {"completion": "4"}, "score": {"value": "C"}}"#;
        insta::assert_snapshot!(shown(sample, Style::Plain { color: false }));
    }

    #[test]
    fn a_fence_cannot_be_closed_from_inside() {
        assert_eq!(fence("plain"), "```");
        assert_eq!(fence("a ```` b"), "`````");
    }
}
