//! What is taken from one sample, and how much of it at most.

use std::collections::BTreeSet;
use std::io::Read;

use ct_log::json::{JsonError, Reader};
use serde_json::{Map, Value};

use super::pass::Pass;
use super::value::{get_object, get_text, number, object};
use crate::{ModelUsage, TrajectoryId};

/// How much of one sample is kept. What goes beyond is left out and noted in [`SampleFacts::notes`].
pub mod limits {
    /// Bytes of the metadata of a sample.
    pub const METADATA_BYTES_MAX: usize = 32 << 20;
    /// Bytes of one metadata member that the conversion does not need itself.
    pub const OTHER_METADATA_BYTES_MAX: usize = 16 << 10;
    /// Bytes of all score values together.
    pub const SCORES_BYTES_MAX: usize = 32 << 20;
    /// Scores of a sample.
    pub const SCORES_MAX: usize = 10_000;
    /// Characters of a score's explanation.
    pub const EXPLANATION_CHARS_MAX: usize = 4_096;
    /// Bytes of the tokens by model.
    pub const USAGE_BYTES_MAX: usize = 1 << 20;
    /// Bytes of one small field: an id, an epoch, a limit.
    pub const FIELD_BYTES_MAX: usize = 64 << 10;
    /// Characters of an error message.
    pub const ERROR_CHARS_MAX: usize = 64 << 10;
    /// Characters of a name: a tool, a model, a role, a call id.
    pub const NAME_CHARS_MAX: usize = 512;
    /// Tool calls that are listed. All are counted.
    pub const TOOL_CALLS_MAX: usize = 200_000;
    /// Characters kept of a tool's output.
    pub const OUTPUT_CHARS: usize = 20;
    /// Pairs of role and model whose calls are told apart.
    pub const MODEL_CALL_GROUPS_MAX: usize = 256;
    /// Model calls without a recorded price whose tokens are kept.
    pub const UNPRICED_CALLS_MAX: usize = 200_000;
    /// Events in each other, as tool and subtask events of old logs hold them.
    pub const EVENT_DEPTH_MAX: usize = 64;
    /// Beginnings of attachments kept when these come before the messages.
    pub const ATTACHMENT_HEADS_MAX: usize = 100_000;
    /// Scorers at work at the same time.
    pub const OPEN_SCORERS_MAX: usize = 256;
    /// Main or side tasks of a sample that are looked at.
    pub const TASKS_MAX: usize = 1_000;
    /// Tags of a log.
    pub const TAGS_MAX: usize = 10_000;
    /// Notes on one sample.
    pub const NOTES_MAX: usize = 32;
}

/// Something about a sample that was not taken over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SampleNote {
    /// A field larger than its limit was left out.
    #[error("{field} left out: larger than {bytes_max} bytes")]
    TooLarge {
        /// Path in the sample.
        field: String,
        /// The limit.
        bytes_max: usize,
    },
    /// A field that cannot be parsed was left out.
    #[error("{field} left out: not readable")]
    Unreadable {
        /// Path in the sample.
        field: String,
    },
    /// More of something than is kept.
    #[error("only the first {kept} of {what} kept")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// How many are kept.
        kept: usize,
    },
}

/// One score of a sample.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScoreFacts {
    /// The scorer's name; empty for the single score of an old log.
    pub name: String,
    /// As recorded; not-a-number is null.
    pub value: Value,
    /// The first characters of the explanation.
    pub explanation: Option<String>,
    /// Why there is no value.
    pub reason: Option<String>,
    /// `metadata.landed_at`: outer `None` when it is not recorded.
    pub landed_at: Option<Option<i64>>,
}

/// One tool call of the conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolCall {
    /// The tool's name.
    pub function: String,
    /// First characters of what it answered.
    pub output: String,
}

/// The model calls of one role with one model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelCalls {
    /// The role, where the call was made in one.
    pub role: Option<String>,
    /// The model's name.
    pub model: String,
    /// Sum of the recorded prices and of cached reads, which cost nothing; `None` when there was no such call.
    pub recorded_usd: Option<f64>,
    /// Tokens of each call that has no recorded price.
    pub unpriced: Vec<CallTokens>,
    /// Calls without a recorded price beyond the limit, or without tokens: their price cannot be known.
    pub unpriced_dropped: u64,
    /// Tokens of all calls.
    pub usage: ModelUsage,
}

/// Tokens of one call, as far as a price depends on them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallTokens {
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) cache_write: u64,
    pub(super) cache_read: u64,
}

impl CallTokens {
    /// For a price table.
    pub(super) fn usage(self) -> ModelUsage {
        let some = |tokens: u64| (tokens > 0).then_some(tokens);
        ModelUsage {
            input_tokens: Some(self.input),
            output_tokens: Some(self.output),
            input_tokens_cache_write: some(self.cache_write),
            input_tokens_cache_read: some(self.cache_read),
            ..ModelUsage::default()
        }
    }
}

/// Verdicts of monitors that old logs keep on messages.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Verdicts {
    pub(super) max: Option<f64>,
    pub(super) scored: u64,
    pub(super) unscored: u64,
}

impl Verdicts {
    /// Counts a verdict: a number of at least 0, else unscored.
    pub(super) fn add(&mut self, value: &Value) {
        match number(value).filter(|n| *n >= 0.0 && !value.is_boolean()) {
            Some(n) => {
                self.max = Some(self.max.map_or(n, |max| max.max(n)));
                self.scored += 1;
            }
            None => self.unscored += 1,
        }
    }
}

/// What is taken from one sample.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SampleFacts {
    /// The id as text.
    pub id: String,
    /// Whether the id is written as a number.
    pub id_is_number: bool,
    /// Counts from 1.
    pub epoch: u64,
    /// Unique over all logs.
    pub uuid: Option<String>,
    /// One line about the sample.
    pub description: Option<String>,
    /// `sample.metadata`, less what is large and not needed here.
    pub metadata: Map<String, Value>,
    /// Scores in the order recorded.
    pub scores: Vec<ScoreFacts>,
    /// Tokens by model, as recorded.
    pub model_usage: Map<String, Value>,
    /// Why the sample failed.
    pub error: Option<String>,
    /// Attempts before this one that failed.
    pub error_retries: u64,
    /// Kind of the limit that ended the sample.
    pub limit: Option<String>,
    /// Milliseconds since the Unix epoch.
    pub started_at_ms: Option<i64>,
    /// Milliseconds since the Unix epoch.
    pub completed_at_ms: Option<i64>,
    /// Seconds.
    pub total_time: Option<f64>,
    /// Seconds without waiting for models and limits.
    pub working_time: Option<f64>,
    /// Messages of the final conversation.
    pub message_count: u64,
    /// Tool calls in order, at most [`limits::TOOL_CALLS_MAX`].
    pub tool_calls: Vec<ToolCall>,
    /// Number of tool calls.
    pub tool_call_count: u64,
    /// Whether the sample has a model's output at all.
    pub has_output: bool,
    /// Time of the earliest event, in milliseconds.
    pub first_event_ms: Option<i64>,
    /// End of the latest event, in milliseconds.
    pub last_event_ms: Option<i64>,
    /// Model calls by role and model, in order of their first call. Turns that a seat only re-emits are not here.
    pub model_calls: Vec<ModelCalls>,
    /// Models that played the untrusted part.
    pub untrusted_models: BTreeSet<String>,
    /// Milliseconds by scorer.
    pub scorer_ms: Map<String, Value>,
    /// What was not taken over.
    pub notes: Vec<SampleNote>,
    pub(super) verdicts: Verdicts,
}

impl SampleFacts {
    /// Reads one sample. Stops behind it: call [`Reader::end`] to have an archive check the rest.
    pub fn read<R: Read>(reader: &mut Reader<R>) -> Result<Self, JsonError> {
        Pass::over(reader)
    }

    /// The id that an upload wrote into the sample, if it is fit to be one.
    pub fn recorded_trajectory_id(&self) -> Option<TrajectoryId> {
        // `run.json` in a folder of trajectory files describes the run.
        let text = get_text(&self.metadata, "trajectory_id").filter(|id| !id.eq_ignore_ascii_case("run"))?;
        TrajectoryId::new(text).ok()
    }

    /// `environment.setting`, which the run header lists.
    pub fn control_setting(&self) -> Option<&str> {
        get_text(get_object(&self.metadata, "environment")?, "setting")
    }
}

/// The score in an old monitor's verdict.
pub(crate) fn verdict_score(verdict: &Value) -> &Value {
    match object(verdict) {
        Some(verdict) => ["sus_score", "score", "suspicion_score"]
            .into_iter()
            .find_map(|key| verdict.get(key))
            .unwrap_or(&Value::Null),
        None => verdict,
    }
}
