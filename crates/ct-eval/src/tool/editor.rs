//! The tool that shows and edits text files.

use ct_environment::{Sandbox, SandboxError};
use serde_json::{Map, Value, json};

use super::{Answer, text};
use crate::log::Recorder;
use crate::model::{ToolErrorKind, ToolSpec};

/// A file larger than this is not edited.
const FILE_BYTES_MAX: u64 = 8 << 20;
/// Lines shown when no range is asked for.
const LINES_MAX: usize = 500;
/// What is shown at most.
const SHOWN_BYTES_MAX: usize = 16 << 10;

pub(super) fn spec() -> ToolSpec {
    ToolSpec {
        name: "text_editor",
        description: "Look at and change text files. `view` shows numbered lines, `create` writes a whole file, \
                      `str_replace` replaces a passage that occurs exactly once, `insert` puts lines behind a line."
            .to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "command": {"type": "string", "enum": ["view", "create", "str_replace", "insert"]},
                "path": {"type": "string", "description": "The file."},
                "view_range": {
                    "type": "array", "items": {"type": "integer"},
                    "description": "For view: the first and the last line, from 1; -1 is the end.",
                },
                "file_text": {"type": "string", "description": "For create: what the file is to hold."},
                "old_str": {"type": "string", "description": "For str_replace: the passage."},
                "new_str": {"type": "string", "description": "For str_replace and insert: the new text."},
                "insert_line": {"type": "integer", "description": "For insert: the line before; 0 is the top."},
            },
            "required": ["command", "path"],
            "additionalProperties": false,
        }),
    }
}

pub(super) async fn run(
    arguments: &Map<String, Value>,
    sandbox: &Sandbox,
    recorder: &mut Recorder,
) -> Result<Answer, SandboxError> {
    match attempt(arguments, sandbox, recorder).await {
        Ok(answer) => Ok(answer),
        Err(Failure::Answer(answer)) => Ok(answer),
        Err(Failure::Sandbox(error)) => Err(error),
    }
}

enum Failure {
    /// The model is told.
    Answer(Answer),
    Sandbox(SandboxError),
}

impl From<Answer> for Failure {
    fn from(answer: Answer) -> Self {
        Self::Answer(answer)
    }
}

impl From<SandboxError> for Failure {
    fn from(error: SandboxError) -> Self {
        match error {
            SandboxError::File { .. } => {
                Self::Answer(Answer::failed(ToolErrorKind::FileNotFound, error.to_string()))
            }
            SandboxError::TooLarge { .. } => {
                Self::Answer(Answer::failed(ToolErrorKind::Unknown, error.to_string()))
            }
            other => Self::Sandbox(other),
        }
    }
}

fn wrong(message: impl Into<String>) -> Failure {
    Answer::failed(ToolErrorKind::Parsing, message).into()
}

async fn attempt(
    arguments: &Map<String, Value>,
    sandbox: &Sandbox,
    recorder: &mut Recorder,
) -> Result<Answer, Failure> {
    let (command, path) = (text(arguments, &["command"])?, text(arguments, &["path"])?);
    match command {
        "view" => view(&read(path, sandbox, recorder).await?, arguments),
        "create" => {
            write(path, text(arguments, &["file_text"])?, sandbox, recorder).await?;
            Ok(Answer::ok(format!("{path} is written")))
        }
        "str_replace" => {
            let old = text(arguments, &["old_str"])?;
            let new = arguments.get("new_str").and_then(Value::as_str).unwrap_or_default();
            let whole = read(path, sandbox, recorder).await?;
            match whole.matches(old).take(2).count() {
                _ if old.is_empty() => Err(wrong("old_str is empty")),
                0 => Err(wrong(format!("old_str does not occur in {path}"))),
                1 => {
                    write(path, &whole.replacen(old, new, 1), sandbox, recorder).await?;
                    Ok(Answer::ok(format!("{path} is changed")))
                }
                _ => Err(wrong(format!(
                    "old_str occurs more than once in {path}: give more of its surroundings"
                ))),
            }
        }
        "insert" => {
            let at = arguments.get("insert_line").and_then(Value::as_u64);
            let at = at.ok_or_else(|| wrong("insert_line has to be a number from 0"))?;
            let new = text(arguments, &["new_str", "insert_text"])?;
            let whole = read(path, sandbox, recorder).await?;
            let mut lines: Vec<&str> = whole.split_inclusive('\n').collect();
            let at = usize::try_from(at).unwrap_or(usize::MAX);
            if at > lines.len() {
                return Err(wrong(format!("{path} has only {} lines", lines.len())));
            }
            let mut new = new.to_owned();
            if at < lines.len() && !new.ends_with('\n') {
                new.push('\n');
            }
            // The last line may end without a line break.
            if at > 0 && at == lines.len() && !lines[at - 1].ends_with('\n') {
                new.insert(0, '\n');
            }
            lines.insert(at, &new);
            write(path, &lines.concat(), sandbox, recorder).await?;
            Ok(Answer::ok(format!("{path} is changed")))
        }
        other => {
            Err(wrong(format!("{other:?} is none of the commands view, create, str_replace and insert")))
        }
    }
}

async fn read(path: &str, sandbox: &Sandbox, recorder: &mut Recorder) -> Result<String, Failure> {
    let began = recorder.moment();
    let bytes = sandbox.read_file(path, FILE_BYTES_MAX).await?;
    recorder.sandbox_file(began, "read_file", path, None);
    String::from_utf8(bytes).map_err(|_| wrong(format!("{path} is no text file")))
}

async fn write(path: &str, content: &str, sandbox: &Sandbox, recorder: &mut Recorder) -> Result<(), Failure> {
    let began = recorder.moment();
    sandbox.write_file(path, content.as_bytes()).await?;
    recorder.sandbox_file(began, "write_file", path, None);
    Ok(())
}

fn view(whole: &str, arguments: &Map<String, Value>) -> Result<Answer, Failure> {
    let total = whole.lines().count();
    let (first, last) = match arguments.get("view_range").and_then(Value::as_array).map(Vec::as_slice) {
        None | Some([]) => (1, total.min(LINES_MAX)),
        Some([first, last]) => {
            let first = first.as_u64().and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0);
            let first = first.ok_or_else(|| wrong("view_range begins with a line from 1"))?;
            let last = match last.as_i64() {
                Some(-1) => total,
                Some(n) => usize::try_from(n).unwrap_or(0).min(total),
                None => return Err(wrong("view_range ends with a line, or -1")),
            };
            (first, last)
        }
        Some(_) => return Err(wrong("view_range has to be two numbers")),
    };
    let mut shown = String::new();
    for (n, line) in whole.lines().enumerate().take(last).skip(first - 1) {
        if shown.len() + line.len() > SHOWN_BYTES_MAX {
            shown.push_str("[… more than can be shown: ask for fewer lines …]\n");
            return Ok(Answer::ok(shown));
        }
        shown.push_str(&format!("{:6}\t{line}\n", n + 1));
    }
    if last < total {
        shown.push_str(&format!("[… {} more lines …]\n", total - last));
    }
    Ok(Answer::ok(shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(whole: &str, arguments: Value) -> String {
        match view(whole, arguments.as_object().unwrap()) {
            Ok(answer) => answer.content,
            Err(Failure::Answer(answer)) => format!("error: {}", answer.error.unwrap().message),
            Err(Failure::Sandbox(error)) => panic!("{error}"),
        }
    }

    #[test]
    fn lines_are_numbered_and_ranges_checked() {
        assert_eq!(shown("a\nb\nc", json!({})), "     1\ta\n     2\tb\n     3\tc\n");
        assert_eq!(shown("a\nb\nc", json!({"view_range": [2, 2]})), "     2\tb\n[… 1 more lines …]\n");
        assert_eq!(shown("a\nb", json!({"view_range": [2, -1]})), "     2\tb\n");
        assert_eq!(shown("a", json!({"view_range": [9, 10]})), "");
        assert_eq!(shown("a", json!({"view_range": [0, 1]})), "error: view_range begins with a line from 1");
        assert!(shown(&"x\n".repeat(900), json!({})).ends_with("[… 400 more lines …]\n"));
        assert!(shown(&"x".repeat(20_000), json!({})).starts_with("[… more"));
    }
}
