//! The tools of an agent. All they do happens in the sandbox.

mod editor;

use std::time::Duration;

use ct_environment::{ExecRequest, ExecResult, Sandbox, SandboxError};
use serde_json::{Map, Value, json};

use crate::log::Recorder;
use crate::model::{ToolCall, ToolError, ToolErrorKind, ToolSpec};

/// What of a tool's output reaches the model and the log.
const OUTPUT_BYTES_MAX: u64 = 16 << 10;
/// What of it the log says about the sandbox: the rest is in the tool's own event.
const EVENT_CHARS_MAX: usize = 500;

/// What a tool answered.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answer {
    pub(crate) content: String,
    pub(crate) error: Option<ToolError>,
    /// The agent says that it is done, with this answer.
    pub(crate) submitted: Option<String>,
}

impl Answer {
    fn ok(content: String) -> Self {
        Self { content, ..Self::default() }
    }

    fn failed(kind: ToolErrorKind, message: impl Into<String>) -> Self {
        Self { error: Some(ToolError { kind, message: message.into() }), ..Self::default() }
    }
}

/// What agents may call.
pub(crate) fn specs(workdir: &str) -> Vec<ToolSpec> {
    let text = |about: &str| json!({"type": "string", "description": about});
    let number = |about: &str| json!({"type": "integer", "description": about});
    let object = |properties: Value, required: &[&str]| {
        json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false,
        })
    };
    let timeout = || number("Seconds after which it is stopped; the environment's limit without.");
    vec![
        ToolSpec {
            name: "bash",
            description: format!(
                "Run a shell command. Each command starts in a new shell in {workdir}; files stay, variables and the \
                 folder do not. Gives its output and, when it fails, its exit code."
            ),
            parameters: object(
                json!({"command": text("The command."), "timeout_seconds": timeout()}),
                &["command"],
            ),
        },
        ToolSpec {
            name: "python",
            description: format!(
                "Run a Python program from its source, in {workdir}. Print what you want to see."
            ),
            parameters: object(
                json!({"code": text("The program."), "timeout_seconds": timeout()}),
                &["code"],
            ),
        },
        editor::spec(),
        ToolSpec {
            name: "submit",
            description: "Say that the task is done. Nothing can be changed afterwards.".to_owned(),
            parameters: object(
                json!({"answer": text("The answer, or in a sentence what was done.")}),
                &["answer"],
            ),
        },
    ]
}

/// Runs a call. An error means that the sandbox is of no use any more.
pub(crate) async fn run(
    call: &ToolCall,
    sandbox: &Sandbox,
    recorder: &mut Recorder,
) -> Result<Answer, SandboxError> {
    if let Some(error) = &call.parse_error {
        let message = format!("{error}\nCall {} again with a JSON object.", call.function);
        return Ok(Answer::failed(ToolErrorKind::Parsing, message));
    }
    let arguments = &call.arguments;
    match call.function.as_str() {
        "bash" => match text(arguments, &["command", "cmd"]) {
            Ok(command) => exec(ExecRequest::shell(command), command, arguments, sandbox, recorder).await,
            Err(answer) => Ok(answer),
        },
        "python" => match text(arguments, &["code"]) {
            Ok(code) => {
                let mut request = ExecRequest::program(["python3", "-"]);
                request.stdin = code.as_bytes().to_vec();
                exec(request, "python3 -", arguments, sandbox, recorder).await
            }
            Err(answer) => Ok(answer),
        },
        "text_editor" => editor::run(arguments, sandbox, recorder).await,
        "submit" => {
            let answer = text(arguments, &["answer"]).unwrap_or_default().to_owned();
            Ok(Answer { content: answer.clone(), submitted: Some(answer), error: None })
        }
        other => Ok(Answer::failed(
            ToolErrorKind::Parsing,
            format!("there is no tool {other:?}: there are bash, python, text_editor and submit"),
        )),
    }
}

/// A text among the arguments, under the first of these names that is there.
fn text<'a>(arguments: &'a Map<String, Value>, names: &[&str]) -> Result<&'a str, Answer> {
    let found = names.iter().find_map(|name| arguments.get(*name));
    match found {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(Answer::failed(ToolErrorKind::Parsing, format!("{} has to be a text", names[0]))),
        None => Err(Answer::failed(ToolErrorKind::Parsing, format!("the argument {} is missing", names[0]))),
    }
}

async fn exec(
    mut request: ExecRequest,
    shown: &str,
    arguments: &Map<String, Value>,
    sandbox: &Sandbox,
    recorder: &mut Recorder,
) -> Result<Answer, SandboxError> {
    let asked = arguments.get("timeout_seconds").or_else(|| arguments.get("timeout"));
    request.timeout = asked.and_then(Value::as_u64).map(|seconds| Duration::from_secs(seconds.max(1)));
    request.output_limit_bytes = Some(OUTPUT_BYTES_MAX / 2);
    let began = recorder.moment();
    let result = sandbox.exec(request).await?;
    let answer = answer(&result);
    recorder.sandbox_exec(began, shown, result.exit_code, &beginning(&answer.content));
    Ok(answer)
}

fn answer(result: &ExecResult) -> Answer {
    let mut content = result.stdout.text();
    let errors = result.stderr.text();
    if !errors.is_empty() {
        if !content.is_empty() && !content.ends_with('\n') {
            content.push('\n');
        }
        content.push_str(&errors);
    }
    let mut error = None;
    if result.timed_out || result.limit_hit.is_some() {
        let kind = if result.timed_out { ToolErrorKind::Timeout } else { ToolErrorKind::Unknown };
        error = Some(ToolError { kind, message: result.outcome() });
    } else if !result.success() {
        if !content.is_empty() && !content.ends_with('\n') {
            content.push('\n');
        }
        content.push_str(&format!("[{}]", result.outcome()));
    }
    Answer { content, error, submitted: None }
}

fn beginning(text: &str) -> String {
    match text.char_indices().nth(EVENT_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
