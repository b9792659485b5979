//! What stores and servers tell about runs and trajectories: rows of lists, records, edits. Plain data.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    Comment, Cursor, Outcome, RunHeader, RunId, RunStatus, SampleError, TrajectoryDocument, TrajectoryId,
};

/// SHA-256 of a log's bytes, as 64 lower-case hex digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LogHash(String);

/// Why a text is not a [`LogHash`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a SHA-256 of 64 lower-case hex digits: {text:?}")]
pub struct LogHashError {
    /// What was given, shortened.
    pub text: String,
}

impl LogHash {
    /// From the 32 bytes of a SHA-256.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
        Self(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect())
    }

    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LogHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for LogHash {
    type Err = LogHashError;
    fn from_str(text: &str) -> Result<Self, LogHashError> {
        let digits = text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if text.len() == 64 && digits {
            Ok(Self(text.to_owned()))
        } else {
            Err(LogHashError { text: text.chars().take(80).collect() })
        }
    }
}

impl TryFrom<String> for LogHash {
    type Error = LogHashError;
    fn try_from(text: String) -> Result<Self, LogHashError> {
        text.parse()
    }
}

impl From<LogHash> for String {
    fn from(hash: LogHash) -> String {
        hash.0
    }
}

/// The form of a log, which is also the ending of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum LogFormat {
    /// A ZIP archive.
    Eval,
    /// One JSON document.
    Json,
}

impl LogFormat {
    /// `eval` or `json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Eval => "eval",
            Self::Json => "json",
        }
    }
}

/// Names an original log by its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LogRef {
    /// SHA-256 of its bytes.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub hash: LogHash,
    /// Its length.
    pub size_bytes: u64,
    /// Its form.
    pub format: LogFormat,
}

/// Changes to a run, made by a user. What is absent stays as it is. They are kept apart from what the log says, and
/// survive a replacement of the log.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunEdit {
    /// Shown name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Policy label; `Some(None)` clears it.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "some")]
    pub policy: Option<Option<String>>,
    /// Task set label; `Some(None)` clears it.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "some")]
    pub task_set: Option<Option<String>>,
    /// Dataset; `Some(None)` clears it.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "some")]
    pub dataset: Option<Option<String>>,
    /// Free text; `Some(None)` clears it.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "some")]
    pub description: Option<Option<String>>,
    /// Exactly these tags, whatever the log says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_tags: Option<Vec<String>>,
    /// Tags to add, after `set_tags`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub add_tags: Vec<String>,
    /// Tags to remove, after `set_tags`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remove_tags: Vec<String>,
    /// Exactly these comments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comments: Option<Vec<Comment>>,
    /// Who makes the change, for the record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// Refuse when the run is no longer at this version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub if_version: Option<u64>,
}

/// Why a [`RunEdit`] is refused: by every home, with the same words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunEditError {
    /// A name or a tag that says nothing.
    #[error("{what} cannot be empty")]
    Empty {
        /// What it is.
        what: &'static str,
    },
    /// A text that is too long.
    #[error("{what} is longer than {chars_max} characters")]
    TooLong {
        /// What it is.
        what: &'static str,
        /// The most that it may have.
        chars_max: usize,
    },
    /// Too many tags.
    #[error("a run has at most {} tags", RunEdit::TAGS_MAX)]
    TooManyTags,
}

impl RunEdit {
    /// Characters of a name, a tag or another label.
    pub const LABEL_CHARS_MAX: usize = 1_000;
    /// Characters of a description or a comment.
    pub const TEXT_CHARS_MAX: usize = 100_000;
    /// Tags of a run, as far as users give them; a log may have brought more.
    pub const TAGS_MAX: usize = 1_000;

    /// Whether it is one that a run can take. Comments are checked where they are merged.
    pub fn check(&self) -> Result<(), RunEditError> {
        let label = |what, text: &str| limited(what, text, Self::LABEL_CHARS_MAX);
        if let Some(name) = &self.name {
            filled("a run's name", name)?;
            label("a run's name", name)?;
        }
        let labels =
            [("a policy", &self.policy), ("a task set", &self.task_set), ("a dataset", &self.dataset)];
        for (what, value) in labels {
            label(what, value.iter().flatten().next().map_or("", String::as_str))?;
        }
        if let Some(Some(description)) = &self.description {
            limited("a description", description, Self::TEXT_CHARS_MAX)?;
        }
        for tag in self.set_tags.iter().flatten().chain(&self.add_tags) {
            filled("a tag", tag)?;
            label("a tag", tag)?;
        }
        Ok(())
    }

    /// Whether a run that had `before` tags may have `after`.
    pub fn check_tag_count(before: usize, after: usize) -> Result<(), RunEditError> {
        if after > Self::TAGS_MAX && after > before { Err(RunEditError::TooManyTags) } else { Ok(()) }
    }
}

fn filled(what: &'static str, text: &str) -> Result<(), RunEditError> {
    if text.trim().is_empty() { Err(RunEditError::Empty { what }) } else { Ok(()) }
}

fn limited(what: &'static str, text: &str, chars_max: usize) -> Result<(), RunEditError> {
    if text.chars().nth(chars_max).is_some() {
        Err(RunEditError::TooLong { what, chars_max })
    } else {
        Ok(())
    }
}

/// Distinguishes a null field from an absent one.
fn some<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Option<Option<String>>, D::Error> {
    Option::<String>::deserialize(d).map(Some)
}

/// How often a kind of task ended how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TaskCounts {
    /// Done.
    pub pass: u64,
    /// Not done.
    pub fail: u64,
    /// Nothing decided it.
    pub unscored: u64,
    /// There was no such task.
    pub not_applicable: u64,
}

impl TaskCounts {
    /// The denominator of a rate: those that something decided.
    pub fn scored(&self) -> u64 {
        self.pass + self.fail
    }

    /// Passed, of those scored; absent when none was.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    pub fn rate(&self) -> Option<f64> {
        (self.scored() > 0).then(|| self.pass as f64 / self.scored() as f64)
    }
}

/// How the trajectories of a run ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OutcomeCounts {
    /// Main tasks.
    pub main: TaskCounts,
    /// Side tasks.
    pub side: TaskCounts,
    /// Trajectories that ended with an error; they are also counted above.
    pub errored: u64,
}

/// The first few of the different values of a field, sorted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Values {
    /// At most [`Values::LISTED_MAX`] of them.
    pub listed: Vec<String>,
    /// How many there are.
    pub total: u64,
}

impl Values {
    /// The most values that are listed.
    pub const LISTED_MAX: usize = 20;
}

impl From<&BTreeSet<String>> for Values {
    fn from(values: &BTreeSet<String>) -> Self {
        let listed = values.iter().take(Self::LISTED_MAX).cloned().collect();
        Self { listed, total: values.len() as u64 }
    }
}

/// A run in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RunRow {
    /// Its id.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub run_id: RunId,
    /// Shown name.
    pub name: String,
    /// Policy label.
    pub policy: Option<String>,
    /// Task set label.
    pub task_set: Option<String>,
    /// How the log ended.
    pub status: RunStatus,
    /// When the run was registered here.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    /// Tags.
    pub tags: Vec<String>,
    /// Environments of its trajectories.
    pub environments: Values,
    /// Main tasks of its trajectories.
    pub main_tasks: Values,
    /// Side tasks of its trajectories.
    pub side_tasks: Values,
    /// Models of its trajectories.
    pub models: Values,
    /// How many trajectories it has.
    pub trajectory_count: u64,
    /// How they ended.
    pub counts: OutcomeCounts,
    /// What is known of its cost.
    pub total_cost_usd: Option<f64>,
    /// Something could not be priced.
    pub cost_incomplete: bool,
    /// When it was deleted.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub deleted_at: Option<Timestamp>,
}

/// A page of runs, rows or whole headers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunPage<T = RunRow> {
    /// The runs.
    pub items: Vec<T>,
    /// How many runs the filters let through.
    pub total_count: u64,
    /// For the next page; absent on the last.
    pub next_cursor: Option<Cursor>,
}

/// A log that a run had before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Revision {
    /// From 1.
    pub revision: u64,
    /// The log.
    pub log: LogRef,
    /// When it became the run's log.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub made_at: Timestamp,
    /// When another took its place.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub replaced_at: Timestamp,
}

/// Everything about a run but its trajectories.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RunRecord {
    /// The header as it is shown: what the log says, with what users changed.
    pub header: RunHeader,
    /// The header as the log says.
    pub recorded: RunHeader,
    /// How the log ended.
    pub status: RunStatus,
    /// The log.
    pub log: LogRef,
    /// How the trajectories ended.
    pub counts: OutcomeCounts,
    /// Something could not be priced.
    pub cost_incomplete: bool,
    /// Earlier logs, oldest first.
    pub revisions: Vec<Revision>,
    /// `eval.eval_id` of the log.
    pub eval_id: Option<String>,
    /// `eval.created` of the log, as written there.
    pub eval_created: Option<String>,
    /// Where the log came from.
    pub source: Option<String>,
    /// What was lost in reading the log.
    pub defects: Vec<String>,
    /// When the run was registered here.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    /// When it was deleted.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub deleted_at: Option<Timestamp>,
    /// Goes up with every change, for [`RunEdit::if_version`].
    pub version: u64,
}

/// What is measured of one trajectory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrajectoryNumbers {
    /// The highest score that a monitor gave, as recorded.
    pub suspicion: Option<f64>,
    /// US dollars.
    pub cost_usd: Option<f64>,
    /// Tool calls.
    pub actions: u64,
    /// Working time.
    pub duration_ms: Option<u64>,
    /// How the main task ended.
    pub main: Outcome,
    /// How the side task ended; absent for a trajectory without one.
    pub side: Option<Outcome>,
    /// It ended with an error.
    pub errored: bool,
}

impl TrajectoryNumbers {
    /// Of a document.
    pub fn of(document: &TrajectoryDocument) -> Self {
        Self {
            suspicion: document.max_suspicion_score(),
            cost_usd: document.cost_usd(),
            actions: document.number_of_actions,
            duration_ms: document.duration_ms(),
            main: Outcome::of(document.main_task_success),
            side: document.has_side_task().then(|| Outcome::of(document.side_task_success)),
            errored: document.error.is_some(),
        }
    }
}

/// A trajectory in a list: the summary row of the wire contract, and where it comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are those of the trajectory document and of the wire contract")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TrajectoryRow {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub trajectory_id: TrajectoryId,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub run_id: RunId,
    pub eval_sample_id: String,
    pub epoch: u64,
    pub environment_id: Option<String>,
    pub main_task_id: Option<String>,
    pub side_task_id: Option<String>,
    pub environment_description: Option<String>,
    pub main_task_description: Option<String>,
    pub side_task_description: Option<String>,
    pub main_task_success: Option<bool>,
    pub side_task_success: Option<bool>,
    pub max_suspicion_score: Option<f64>,
    pub traj_suspicion_score: Option<f64>,
    pub tags: Vec<String>,
    pub time_started: Option<i64>,
    pub error: Option<SampleError>,
    pub actions_count: u64,
    #[serde(default)]
    pub duration_ms: Option<u64>,
    #[serde(default)]
    pub cost_usd: Option<f64>,
    pub authors: Vec<String>,
    pub attempts_mt: Option<bool>,
    pub attempts_st: Option<bool>,
    pub attempts_sneaky: Option<bool>,
}

/// A page of trajectories, whole rows or ids only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrajectoryPage<T = TrajectoryRow> {
    /// The trajectories.
    pub items: Vec<T>,
    /// How many trajectories the filters let through.
    pub total_count: u64,
    /// For the next page; absent on the last.
    pub next_cursor: Option<Cursor>,
}
