//! The fields of a trajectory by name: the one place that knows how a name is read from a document. Filters compare
//! them; sampling makes strata and groups of them.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Outcome, TrajectoryDocument};

const METADATA_PREFIX: &str = "metadata.";
const EVAL_METADATA_PREFIX: &str = "eval_metadata.";

/// A named field of a trajectory.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Field {
    /// `id`: the trajectory's id.
    Id,
    /// `sample`: the sample's id.
    Sample,
    /// `epoch`: counts from 1.
    Epoch,
    /// `name`: the trajectory's name.
    Name,
    /// `environment`: the environment's id.
    Environment,
    /// `main_task`: the main task's id.
    MainTask,
    /// `side_task`: the side task's id; nothing for an honest trajectory.
    SideTask,
    /// `policy`: `metadata.policy`.
    Policy,
    /// `model`: every model used.
    Model,
    /// `author`: short names of the untrusted models.
    Author,
    /// `tag`: the trajectory's own tags.
    Tag,
    /// `dataset`: the datasets it is in.
    Dataset,
    /// `main_outcome`: `pass`, `fail` or `unscored`.
    MainOutcome,
    /// `side_outcome`: `pass`, `fail` or `unscored` (which an honest trajectory is).
    SideOutcome,
    /// `errored`: `true` or `false`.
    Errored,
    /// `error`: the error's message.
    Error,
    /// `error_type`: the error's kind.
    ErrorType,
    /// `cost`: US dollars.
    Cost,
    /// `tokens`: all tokens of all models.
    Tokens,
    /// `actions`: the number of tool calls.
    Actions,
    /// `suspicion`: the highest score of any monitor, on the scale it was recorded in.
    Suspicion,
    /// `duration`: working time in seconds.
    Duration,
    /// `started`: when the sample's first event happened.
    Started,
    /// `metadata.KEY`: a value of the trajectory's metadata; dots lead into objects.
    Metadata(String),
    /// `eval_metadata.KEY`: a value of the log's metadata; dots lead into objects.
    EvalMetadata(String),
}

static NAMED: [(&str, Field); 23] = [
    ("id", Field::Id),
    ("sample", Field::Sample),
    ("epoch", Field::Epoch),
    ("name", Field::Name),
    ("environment", Field::Environment),
    ("main_task", Field::MainTask),
    ("side_task", Field::SideTask),
    ("policy", Field::Policy),
    ("model", Field::Model),
    ("author", Field::Author),
    ("tag", Field::Tag),
    ("dataset", Field::Dataset),
    ("main_outcome", Field::MainOutcome),
    ("side_outcome", Field::SideOutcome),
    ("errored", Field::Errored),
    ("error", Field::Error),
    ("error_type", Field::ErrorType),
    ("cost", Field::Cost),
    ("tokens", Field::Tokens),
    ("actions", Field::Actions),
    ("suspicion", Field::Suspicion),
    ("duration", Field::Duration),
    ("started", Field::Started),
];

/// A name that is no field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no field {name:?}; the fields are {}", Field::names())]
pub struct FieldError {
    /// What was given.
    pub name: String,
}

/// What a field's values are, hence which comparisons make sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Text, compared whole or by "contains".
    Text,
    /// As `Text`, and the part behind the last `/` is as good as the whole.
    Path,
    /// As `Path`, and each of several tasks joined by `+` is as good as all.
    Task,
    /// One of a few words.
    Word(&'static [&'static str]),
    /// A finite number.
    Number,
    /// A moment.
    Time,
    /// Whatever the metadata holds.
    Free,
}

/// One value of a field.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar<'d> {
    Text(Cow<'d, str>),
    Number(f64),
    /// Milliseconds since the Unix epoch.
    Time(i64),
}

impl Kind {
    /// Whether a recorded text is what `wanted` names.
    pub(super) fn is_equal(self, found: &str, wanted: &str) -> bool {
        let is_path =
            |found: &str| found == wanted || found.rsplit_once('/').is_some_and(|(_, last)| last == wanted);
        match self {
            Kind::Path => is_path(found),
            Kind::Task => is_path(found) || found.split('+').any(is_path),
            _ => found == wanted,
        }
    }
}

impl Field {
    /// The names of all fields, for help texts and messages.
    pub fn names() -> String {
        let mut names: Vec<&str> = NAMED.iter().map(|(name, _)| *name).collect();
        names.extend(["metadata.KEY", "eval_metadata.KEY"]);
        names.join(", ")
    }

    /// The field's value as one text: several values are sorted and joined by `+`, a moment is its UTC day. `None`
    /// when nothing is recorded. This is what strata and groups are made of.
    pub fn text(&self, document: &TrajectoryDocument) -> Option<String> {
        let mut texts: Vec<String> = self.read(document).into_iter().map(|scalar| scalar.text()).collect();
        texts.sort_unstable();
        if texts.is_empty() { None } else { Some(texts.join("+")) }
    }

    pub(super) fn kind(&self) -> Kind {
        match self {
            Field::Id
            | Field::Sample
            | Field::Name
            | Field::Author
            | Field::Tag
            | Field::Dataset
            | Field::Error
            | Field::ErrorType => Kind::Text,
            Field::Environment | Field::Policy | Field::Model => Kind::Path,
            Field::MainTask | Field::SideTask => Kind::Task,
            Field::MainOutcome | Field::SideOutcome => Kind::Word(&["pass", "fail", "unscored"]),
            Field::Errored => Kind::Word(&["true", "false"]),
            Field::Epoch
            | Field::Cost
            | Field::Tokens
            | Field::Actions
            | Field::Suspicion
            | Field::Duration => Kind::Number,
            Field::Started => Kind::Time,
            Field::Metadata(_) | Field::EvalMetadata(_) => Kind::Free,
        }
    }

    /// The values recorded; none when nothing is. An empty text counts as nothing.
    pub(super) fn read<'d>(&self, document: &'d TrajectoryDocument) -> Vec<Scalar<'d>> {
        let cost = document.cost.as_ref();
        let timing = document.timing.as_ref();
        match self {
            Field::Id => text(document.trajectory_id.as_ref().map(|id| id.as_str())),
            Field::Sample => text(Some(&document.eval_sample_id)),
            Field::Epoch => number(Some(document.epoch as f64)),
            Field::Name => text(Some(&document.name)),
            Field::Environment => text(document.environment.as_ref().and_then(|e| e.id.as_deref())),
            Field::MainTask => text(document.main_task.as_ref().and_then(|t| t.id.as_deref())),
            Field::SideTask => text(document.side_task.as_ref().and_then(|t| t.id.as_deref())),
            Field::Policy => text(document.metadata.get("policy").and_then(Value::as_str)),
            Field::Model => texts(&document.models),
            Field::Author => texts(&document.authors),
            Field::Tag => texts(&document.tags),
            Field::Dataset => texts(&document.datasets),
            Field::MainOutcome => text(Some(Outcome::of(document.main_task_success).as_str())),
            Field::SideOutcome => text(Some(Outcome::of(document.side_task_success).as_str())),
            Field::Errored => text(Some(if document.error.is_some() { "true" } else { "false" })),
            Field::Error => text(document.error.as_ref().map(|e| e.message.as_str())),
            Field::ErrorType => text(document.error.as_ref().and_then(|e| e.error_type.as_deref())),
            Field::Cost => number(cost.and_then(|c| c.total_cost)),
            Field::Tokens => number(cost.and_then(|c| c.total_tokens).map(|n| n as f64)),
            Field::Actions => number(Some(document.number_of_actions as f64)),
            Field::Suspicion => {
                let monitors = document.monitors.iter().flat_map(|by_name| by_name.values());
                number(
                    monitors.filter_map(|m| m.max).fold(None, |highest: Option<f64>, score| {
                        Some(highest.map_or(score, |h| h.max(score)))
                    }),
                )
            }
            Field::Duration => number(timing.and_then(|t| t.time_to_run).map(|ms| ms as f64 / 1000.0)),
            Field::Started => timing.and_then(|t| t.time_started).map(Scalar::Time).into_iter().collect(),
            Field::Metadata(key) => json(lookup(&document.metadata, key)),
            Field::EvalMetadata(key) => json(lookup(&document.eval_metadata, key)),
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Field::Metadata(key) => write!(f, "{METADATA_PREFIX}{key}"),
            Field::EvalMetadata(key) => write!(f, "{EVAL_METADATA_PREFIX}{key}"),
            field => match NAMED.iter().find(|(_, named)| named == field) {
                Some((name, _)) => f.write_str(name),
                None => Err(fmt::Error),
            },
        }
    }
}

impl FromStr for Field {
    type Err = FieldError;

    fn from_str(name: &str) -> Result<Self, FieldError> {
        if let Some((_, field)) = NAMED.iter().find(|(known, _)| *known == name) {
            return Ok(field.clone());
        }
        let key = |prefix| name.strip_prefix(prefix).filter(|k| !k.is_empty() && k.chars().all(is_name_char));
        if let Some(key) = key(METADATA_PREFIX) {
            return Ok(Field::Metadata(key.to_owned()));
        }
        if let Some(key) = key(EVAL_METADATA_PREFIX) {
            return Ok(Field::EvalMetadata(key.to_owned()));
        }
        Err(FieldError { name: name.chars().take(100).collect() })
    }
}

impl TryFrom<String> for Field {
    type Error = FieldError;

    fn try_from(name: String) -> Result<Self, FieldError> {
        name.parse()
    }
}

impl From<Field> for String {
    fn from(field: Field) -> String {
        field.to_string()
    }
}

impl Scalar<'_> {
    fn text(&self) -> String {
        match self {
            Scalar::Text(text) => text.to_string(),
            Scalar::Number(number) => number.to_string(),
            Scalar::Time(ms) => match jiff::Timestamp::from_millisecond(*ms) {
                Ok(time) => time.strftime("%Y-%m-%d").to_string(),
                Err(_) => ms.to_string(),
            },
        }
    }
}

/// What may stand in the name of a field: neither blanks nor what the filter language uses.
pub(super) fn is_name_char(c: char) -> bool {
    !c.is_whitespace() && !c.is_control() && !matches!(c, '=' | '!' | '~' | '<' | '>' | ',' | '(' | ')' | '"')
}

fn text(value: Option<&str>) -> Vec<Scalar<'_>> {
    value.filter(|t| !t.is_empty()).map(|t| Scalar::Text(Cow::Borrowed(t))).into_iter().collect()
}

fn texts(values: &[String]) -> Vec<Scalar<'_>> {
    values.iter().flat_map(|value| text(Some(value))).collect()
}

fn number(value: Option<f64>) -> Vec<Scalar<'static>> {
    value.filter(|n| n.is_finite()).map(Scalar::Number).into_iter().collect()
}

/// The value at a dotted path; a key that itself contains dots is found too, the longest first part winning.
fn lookup<'d>(object: &'d Map<String, Value>, path: &str) -> Option<&'d Value> {
    if let Some(value) = object.get(path) {
        return Some(value);
    }
    // Each step goes one level down or fails, so this ends with the document's own depth.
    path.rmatch_indices('.').find_map(|(dot, _)| {
        object.get(&path[..dot]).and_then(Value::as_object).and_then(|inner| lookup(inner, &path[dot + 1..]))
    })
}

fn json(value: Option<&Value>) -> Vec<Scalar<'_>> {
    match value {
        None | Some(Value::Null | Value::Object(_)) => Vec::new(),
        Some(Value::Bool(true)) => text(Some("true")),
        Some(Value::Bool(false)) => text(Some("false")),
        Some(Value::Number(n)) => number(n.as_f64()),
        Some(Value::String(s)) => text(Some(s)),
        Some(Value::Array(values)) => {
            let flat = values.iter().filter(|v| !v.is_array());
            flat.flat_map(|v| json(Some(v))).collect()
        }
    }
}
