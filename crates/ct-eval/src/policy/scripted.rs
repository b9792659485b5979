//! Turns that are known beforehand: reference solutions, commands, or what another agent did.

use std::collections::VecDeque;
use std::io::Read;

use ct_log::json::{JsonError, Kind, Reader};
use serde_json::{Map, Value};

use super::{PolicyChoice, PolicyError};
use crate::log::new_id;
use crate::model::{Assistant, ToolCall};
use crate::spec::SampleSpec;

/// A file of commands larger than this is none.
const COMMANDS_BYTES_MAX: u64 = 16 << 20;
/// A message larger than this is not replayed.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// What an agent did: its turns with calls, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Replay {
    /// The turns.
    pub turns: Vec<Turn>,
}

/// One turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// What it said.
    pub content: String,
    /// What it called.
    pub calls: Vec<ToolCall>,
}

/// How a reference solution is run, before its path.
const RUN_SOLUTION: &str = "bash /solutions/";

impl Replay {
    /// Whether it is the work of a scripted agent that ran reference solutions.
    pub(crate) fn runs_solutions(&self) -> bool {
        let mut calls = self.turns.iter().flat_map(|turn| &turn.calls);
        calls.any(|call| {
            let command = call.arguments.get("command").and_then(Value::as_str);
            command.is_some_and(|command| command.starts_with(RUN_SOLUTION))
        })
    }

    /// Reads the turns of a sample's JSON.
    pub fn read(sample: impl Read) -> Result<Self, JsonError> {
        let mut turns = Vec::new();
        Reader::new(sample).object(|key, r| {
            if key != "messages" {
                return r.skip();
            }
            r.array(|_, r| {
                if r.peek()? != Kind::Object {
                    return r.skip();
                }
                let Some(raw) = r.raw(MESSAGE_BYTES_MAX)? else { return Ok(()) };
                if let Some(turn) = ct_log::json::parse(&raw).ok().as_ref().and_then(turn) {
                    turns.push(turn);
                }
                Ok::<_, JsonError>(())
            })
        })?;
        Ok(Self { turns })
    }
}

fn turn(message: &Value) -> Option<Turn> {
    let is_verdict = message.pointer("/metadata/is_monitor_result").and_then(Value::as_bool) == Some(true);
    let calls = message.get("tool_calls")?.as_array()?;
    if message["role"] != "assistant" || is_verdict {
        return None;
    }
    let calls: Vec<ToolCall> = calls
        .iter()
        .map(|call| ToolCall {
            id: call["id"].as_str().map_or_else(new_id, str::to_owned),
            function: call["function"].as_str().unwrap_or_default().to_owned(),
            arguments: call["arguments"].as_object().cloned().unwrap_or_default(),
            parse_error: call["parse_error"].as_str().map(str::to_owned),
        })
        .collect();
    let content = match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part["text"].as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    };
    (!calls.is_empty()).then_some(Turn { content, calls })
}

pub(crate) struct Scripted {
    turns: VecDeque<Turn>,
}

impl Scripted {
    /// The commands that were given, else the reference solutions; then it submits.
    pub(super) fn of_solutions(choice: &PolicyChoice, sample: &SampleSpec) -> Result<Self, PolicyError> {
        let commands = match (choice.text("command"), choice.commands_file()) {
            (Some(command), _) => vec![command],
            (None, Some(path)) => {
                read_commands(&path).map_err(|message| PolicyError::Commands { path, message })?
            }
            (None, None) => solutions(choice, sample)?,
        };
        let call = |function: &str, key: &str, value: String| {
            let mut arguments = Map::new();
            arguments.insert(key.to_owned(), value.into());
            let calls = vec![ToolCall::new(new_id(), function, arguments)];
            Turn { content: String::new(), calls }
        };
        let mut turns: VecDeque<Turn> =
            commands.into_iter().map(|command| call("bash", "command", command)).collect();
        turns.push_back(call("submit", "answer", "done".to_owned()));
        Ok(Self { turns })
    }

    pub(super) fn of_replay(sample: &SampleSpec) -> Self {
        let turns = sample.replay.iter().flat_map(|replay| replay.turns.iter().cloned()).collect();
        Self { turns }
    }

    pub(super) fn turn(&mut self) -> Option<Assistant> {
        let turn = self.turns.pop_front()?;
        Some(Assistant {
            id: new_id(),
            content: turn.content,
            tool_calls: turn.calls,
            ..Assistant::default()
        })
    }
}

/// Runs the solutions where the sandbox shows them.
fn solutions(choice: &PolicyChoice, sample: &SampleSpec) -> Result<Vec<String>, PolicyError> {
    let (main, side) = choice.solve()?;
    let environment = &sample.environment;
    let mains = sample.mains.iter().filter_map(|name| environment.main(name).ok().map(|main| &main.task));
    let sides = sample.sides.iter().filter_map(|name| environment.side(name).ok().map(|side| &side.task));
    let mut commands = Vec::new();
    let tasks = mains.filter(|_| main).map(|task| ("main", task));
    for (role, task) in tasks.chain(sides.filter(|_| side).map(|task| ("side", task))) {
        let Some(script) = task.solution.as_deref().and_then(std::path::Path::file_name) else {
            return Err(
                choice.value("solve", &format!("the {role} task {} has no reference solution", task.name))
            );
        };
        commands.push(format!("{RUN_SOLUTION}{role}/{}/{}", task.name, script.to_string_lossy()));
    }
    Ok(commands)
}

fn read_commands(path: &std::path::Path) -> Result<Vec<String>, String> {
    let failed = |e: std::io::Error| e.to_string();
    if std::fs::metadata(path).map_err(failed)?.len() > COMMANDS_BYTES_MAX {
        return Err("it is too large".to_owned());
    }
    let text = std::fs::read_to_string(path).map_err(failed)?;
    if text.trim_start().starts_with('[') {
        return serde_json::from_str(&text).map_err(|e| e.to_string());
    }
    Ok(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn turns_with_calls_are_replayed() {
        let sample = json!({
            "id": 1, "events": [{"event": "model"}], "messages": [
                {"role": "user", "content": "go"},
                {"role": "assistant", "content": "thinking aloud"},
                {"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "reasoning"}],
                 "tool_calls": [{"id": "1", "function": "bash", "arguments": {"cmd": "ls"}}]},
                {"role": "tool", "content": "x"},
                {"role": "assistant", "content": "verdict", "metadata": {"is_monitor_result": true},
                 "tool_calls": [{"id": "2", "function": "rate", "arguments": {}}]},
            ],
        });
        let replay = Replay::read(sample.to_string().as_bytes()).unwrap();
        let [turn] = replay.turns.as_slice() else { panic!("{replay:?}") };
        assert_eq!((turn.content.as_str(), turn.calls[0].function.as_str()), ("a", "bash"));
        assert!(Replay::read(&b"{\"messages\": [}"[..]).is_err());
    }
}
