//! A model that replays scripted turns: for tests, and for trying out an environment without a provider.
//!
//! A script is a JSON array of turns, or one turn a line. A turn is `{"content": "…", "tool_calls": [{"function": "bash",
//! "arguments": {…}}], "usage": {…}}`, a text (`"done"` is `{"content": "done"}`), or `{"error": "…"}`. Instead of an array the
//! file may hold `{"turns": […], "repeat": true}`; repeated, the script begins anew at its end. Every conversation starts
//! at the first turn: its place in the script is the number of turns that the model took in it.

use std::path::{Path, PathBuf};

use ct_model::ModelUsage;
use serde::Deserialize;
use serde_json::Value;

use super::message::{Assistant, Message, StopReason, ToolCall};
use super::{CallFailure, ModelError, Reply, Request};

/// A script larger than this is none.
const SCRIPT_BYTES_MAX: u64 = 64 << 20;
/// What a turn counts as, when the script does not say.
const CHARS_PER_TOKEN: usize = 4;

pub(super) struct Mock {
    turns: Vec<Turn>,
    repeat: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    turns: Vec<Value>,
    #[serde(default)]
    repeat: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Turn {
    content: String,
    reasoning: Option<String>,
    tool_calls: Vec<Call>,
    usage: Option<ModelUsage>,
    /// The call fails instead.
    error: Option<String>,
    /// Milliseconds the answer takes.
    delay_ms: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    function: String,
    /// An object; text stands for what is no JSON.
    #[serde(default)]
    arguments: Value,
}

impl Mock {
    pub(super) fn load(path: &str) -> Result<Self, ModelError> {
        let path = PathBuf::from(path);
        let failed = |message: String| ModelError::Script { path: path.clone(), message };
        let text = read(&path).map_err(|e| failed(e.to_string()))?;
        Self::parse(&text).map_err(failed)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let (values, repeat): (Vec<Value>, bool) = match serde_json::from_str::<Value>(text) {
            Ok(Value::Array(turns)) => (turns, false),
            Ok(Value::Object(object)) if object.contains_key("turns") => {
                let script: Script =
                    serde_json::from_value(Value::Object(object)).map_err(|e| e.to_string())?;
                (script.turns, script.repeat)
            }
            _ => {
                let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
                let parse = |(n, line): (usize, &str)| {
                    serde_json::from_str(line).map_err(|e| format!("line {}: {e}", n + 1))
                };
                (lines.map(parse).collect::<Result<_, _>>()?, false)
            }
        };
        let turn = |(n, value): (usize, Value)| match value {
            Value::String(content) => Ok(Turn { content, ..Turn::default() }),
            value => serde_json::from_value(value).map_err(|e| format!("turn {}: {e}", n + 1)),
        };
        let turns = values.into_iter().enumerate().map(turn).collect::<Result<Vec<_>, _>>()?;
        if turns.is_empty() {
            return Err("it holds no turn".to_owned());
        }
        Ok(Self { turns, repeat })
    }

    pub(super) async fn reply(&self, request: &Request<'_>) -> Result<Reply, ModelError> {
        let taken = request.messages.iter().filter(|m| matches!(m, Message::Assistant(_))).count();
        let at = if self.repeat { taken % self.turns.len() } else { taken };
        let turn = self.turns.get(at).ok_or(ModelError::ScriptEnded { turn: taken + 1 })?;
        tokio::time::sleep(std::time::Duration::from_millis(turn.delay_ms)).await;
        if let Some(message) = &turn.error {
            let source = CallFailure::lasting(message.clone());
            return Err(ModelError::Call { model: "mock".to_owned(), attempts: 1, source });
        }
        let tool_calls: Vec<ToolCall> = turn
            .tool_calls
            .iter()
            .enumerate()
            .map(|(n, call)| {
                ToolCall::of(format!("call_{taken}_{n}"), call.function.as_str(), call.arguments.clone())
            })
            .collect();
        let stop = if tool_calls.is_empty() { StopReason::Stop } else { StopReason::ToolCalls };
        let usage = turn.usage.clone().unwrap_or_else(|| {
            let input: usize = request.messages.iter().map(chars).sum();
            let output = chars_of_turn(&turn.content, &tool_calls);
            let tokens = |chars: usize| chars.div_ceil(CHARS_PER_TOKEN) as u64;
            ModelUsage {
                input_tokens: Some(tokens(input)),
                output_tokens: Some(tokens(output)),
                total_tokens: Some(tokens(input) + tokens(output)),
                ..ModelUsage::default()
            }
        });
        Ok(Reply {
            message: Assistant {
                id: String::new(),
                content: turn.content.clone(),
                reasoning: turn.reasoning.clone(),
                tool_calls,
                model: String::new(),
                native: None,
            },
            stop,
            usage,
            retries: 0,
            seconds: 0.0,
            response_id: None,
            call: None,
        })
    }
}

fn read(path: &Path) -> std::io::Result<String> {
    if std::fs::metadata(path)?.len() > SCRIPT_BYTES_MAX {
        return Err(std::io::Error::other("it is too large"));
    }
    std::fs::read_to_string(path)
}

fn chars(message: &Message) -> usize {
    match message {
        Message::System { content, .. } | Message::User { content, .. } | Message::Tool { content, .. } => {
            content.len()
        }
        Message::Assistant(turn) => chars_of_turn(&turn.content, &turn.tool_calls),
    }
}

fn chars_of_turn(content: &str, calls: &[ToolCall]) -> usize {
    content.len()
        + calls.iter().flat_map(|call| call.arguments.values()).map(|v| v.to_string().len()).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_come_in_three_forms() {
        let count = |text: &str| Mock::parse(text).map(|mock| (mock.turns.len(), mock.repeat));
        assert_eq!(count(r#"["a", {"content": "b"}]"#), Ok((2, false)));
        assert_eq!(count(r#"{"turns": ["a"], "repeat": true}"#), Ok((1, true)));
        assert_eq!(count("\"a\"\n\n{\"tool_calls\": [{\"function\": \"bash\"}]}\n"), Ok((2, false)));
        assert_eq!(count(r#"{"content": "one"}"#), Ok((1, false)));
        for (bad, why) in [
            ("", "it holds no turn"),
            ("[]", "it holds no turn"),
            ("{\"content\": 1}", "turn 1: invalid type: integer `1`, expected a string"),
            ("\"a\"\nx", "line 2: expected value at line 1 column 1"),
        ] {
            assert_eq!(count(bad), Err(why.to_owned()), "{bad}");
        }
    }

    #[tokio::test]
    async fn a_conversation_goes_through_the_script() {
        let mock = Mock::parse(r#"["a", {"tool_calls": [{"function": "bash"}]}]"#).unwrap();
        let mut messages = vec![Message::user("1".to_owned(), "go")];
        let request = async |messages: &[Message]| {
            mock.reply(&Request { messages, tools: &[], conversation: "" }).await
        };
        let first = request(&messages).await.unwrap();
        assert_eq!((first.message.content.as_str(), first.stop), ("a", StopReason::Stop));
        messages.push(Message::Assistant(first.message));
        let second = request(&messages).await.unwrap();
        assert_eq!(second.message.tool_calls[0].id, "call_1_0");
        messages.push(Message::Assistant(second.message));
        let third = request(&messages).await.unwrap_err();
        assert_eq!(third.to_string(), "the mock model's script has no turn 3");
    }
}
