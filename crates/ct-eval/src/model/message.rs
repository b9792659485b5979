//! A conversation with a model, whoever the provider is.

use std::fmt;

use genai::chat::MessageContent;
use serde_json::{Map, Value};

/// One message. Ids are unique in a sample.
#[derive(Debug, Clone)]
pub enum Message {
    /// Instructions.
    System {
        /// Unique in the sample.
        id: String,
        /// The text.
        content: String,
    },
    /// What the user, or the harness in the user's place, says.
    User {
        /// Unique in the sample.
        id: String,
        /// The text.
        content: String,
    },
    /// A turn of the model.
    Assistant(Assistant),
    /// What a tool answered.
    Tool {
        /// Unique in the sample.
        id: String,
        /// The call it answers.
        call_id: String,
        /// The tool.
        function: String,
        /// Its output.
        content: String,
        /// Set when it failed.
        error: Option<ToolError>,
    },
}

impl Message {
    /// Unique in the sample.
    pub fn id(&self) -> &str {
        match self {
            Self::System { id, .. } | Self::User { id, .. } | Self::Tool { id, .. } => id,
            Self::Assistant(turn) => &turn.id,
        }
    }

    /// A system message.
    pub fn system(id: String, content: impl Into<String>) -> Self {
        Self::System { id, content: content.into() }
    }

    /// A user message.
    pub fn user(id: String, content: impl Into<String>) -> Self {
        Self::User { id, content: content.into() }
    }
}

/// A turn of a model.
#[derive(Debug, Clone, Default)]
pub struct Assistant {
    /// Unique in the sample.
    pub id: String,
    /// What it says.
    pub content: String,
    /// What it thought before, where the provider tells.
    pub reasoning: Option<String>,
    /// Tools it calls.
    pub tool_calls: Vec<ToolCall>,
    /// The model.
    pub model: String,
    /// The turn as the provider wants it back, signatures included.
    pub(crate) native: Option<MessageContent>,
}

impl Assistant {
    /// Takes back its calls.
    pub(crate) fn drop_calls(&mut self) {
        if !self.tool_calls.is_empty() {
            self.tool_calls.clear();
            self.native = None;
        }
    }
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// Unique in the conversation.
    pub id: String,
    /// The tool's name.
    pub function: String,
    /// Its arguments; empty when they are not understood.
    pub arguments: Map<String, Value>,
    /// Why its arguments are not understood, for the model to read and for the log.
    pub parse_error: Option<String>,
}

/// What is quoted of arguments that are not understood.
const QUOTED_CHARS_MAX: usize = 400;

impl ToolCall {
    /// A call whose arguments are an object.
    pub fn new(id: String, function: impl Into<String>, arguments: Map<String, Value>) -> Self {
        Self { id, function: function.into(), arguments, parse_error: None }
    }

    /// A call as a model made it, whose arguments may be anything.
    pub fn of(id: String, function: impl Into<String>, arguments: Value) -> Self {
        let wrong = match arguments {
            Value::Object(arguments) => return Self::new(id, function, arguments),
            Value::Null => return Self::new(id, function, Map::new()),
            // Text is what could not be parsed.
            Value::String(text) => text,
            other => other.to_string(),
        };
        let quoted: String = wrong.chars().take(QUOTED_CHARS_MAX).collect();
        let cut = if quoted.len() < wrong.len() { "…" } else { "" };
        let problem = match serde_json::from_str::<Value>(&wrong) {
            Ok(_) => "they are no JSON object".to_owned(),
            Err(error) => error.to_string(),
        };
        let parse_error = format!("the arguments are not understood ({problem}): {quoted}{cut}");
        Self { parse_error: Some(parse_error), ..Self::new(id, function, Map::new()) }
    }
}

/// A tool as models see it.
#[derive(Debug, Clone)]
pub struct ToolSpec {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub description: String,
    /// JSON schema of its arguments: an object.
    pub parameters: Value,
}

/// Why a tool failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolError {
    /// The sort of trouble.
    pub kind: ToolErrorKind,
    /// What the model is told.
    pub message: String,
}

/// The sorts of trouble that logs tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolErrorKind {
    /// The call makes no sense.
    Parsing,
    /// It took too long.
    Timeout,
    /// A file is missing.
    FileNotFound,
    /// Anything else.
    Unknown,
}

impl ToolErrorKind {
    /// As logs write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Parsing => "parsing",
            Self::Timeout => "timeout",
            Self::FileNotFound => "file_not_found",
            Self::Unknown => "unknown",
        }
    }
}

/// Why a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The model was done.
    Stop,
    /// It calls tools.
    ToolCalls,
    /// The answer was cut.
    MaxTokens,
    /// The provider refused.
    ContentFilter,
    /// Something else.
    Unknown,
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stop => "stop",
            Self::ToolCalls => "tool_calls",
            Self::MaxTokens => "max_tokens",
            Self::ContentFilter => "content_filter",
            Self::Unknown => "unknown",
        })
    }
}
