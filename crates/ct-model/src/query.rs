//! What to ask for when listing runs and trajectories. Plain data: a store answers, a command line or an address fills.
//!
//! A list of values in a filter means "any of these"; an empty one filters nothing; different filters are ANDed.
//! `environment`, `main_task`, `side_task`, `policy` and `model` match a whole value or its last path segment
//! (`web_scraping` matches `linuxarena/web_scraping`), and of joined tasks (`a+b`) each part too.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{DatasetName, RunId};

/// How a task of one trajectory ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Outcome {
    /// The task was done.
    Pass,
    /// The task was not done.
    Fail,
    /// Nothing decided it.
    Unscored,
}

impl Outcome {
    /// From a document's `main_task_success` or `side_task_success`.
    pub fn of(success: Option<bool>) -> Self {
        match success {
            Some(true) => Self::Pass,
            Some(false) => Self::Fail,
            None => Self::Unscored,
        }
    }

    /// The word of the wire contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Unscored => "unscored",
        }
    }
}

/// How the log of a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum RunStatus {
    /// Not finished when the log was read.
    Started,
    /// Finished.
    Success,
    /// Stopped by someone.
    Cancelled,
    /// Ended by an error.
    Error,
    /// The log does not say, or says something else.
    Unknown,
}

impl RunStatus {
    /// The word in the log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Success => "success",
            Self::Cancelled => "cancelled",
            Self::Error => "error",
            Self::Unknown => "unknown",
        }
    }

    /// From the word in a log; whatever is not known is [`RunStatus::Unknown`].
    pub fn from_log(text: &str) -> Self {
        text.parse().unwrap_or(Self::Unknown)
    }
}

/// A word that none of the choices is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is none of {choices}")]
pub struct ChoiceError {
    /// What was given.
    pub text: String,
    /// What can be given.
    pub choices: &'static str,
}

macro_rules! words {
    ($name:ident: $($variant:ident = $word:literal),+) => {
        impl $name {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),+];
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = ChoiceError;
            fn from_str(text: &str) -> Result<Self, ChoiceError> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(ChoiceError { text: text.to_owned(), choices: concat!($($word, " "),+).trim_ascii() }),
                }
            }
        }
    };
}

words!(Outcome: Pass = "pass", Fail = "fail", Unscored = "unscored");
words!(RunStatus: Started = "started", Success = "success", Cancelled = "cancelled", Error = "error", Unknown = "unknown");
words!(TrajectorySort: Created = "created", Started = "started", Suspicion = "suspicion", Actions = "actions", Duration = "duration", Cost = "cost", Environment = "environment", MainTask = "main_task", SideTask = "side_task", Policy = "policy");
words!(RunSort: Created = "created", Name = "name", Policy = "policy", TaskSet = "task_set", Status = "status", Cost = "cost", Trajectories = "trajectories", MainRate = "main_rate");

/// What runs are ordered by. Equal runs follow the order of their registration; runs without a value come last. Texts are
/// ordered without regard to case; of those longer than 256 bytes all that is certain is that equal ones are side by side.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunSort {
    /// When the run was registered.
    #[default]
    Created,
    /// The name, of any length.
    Name,
    /// The policy.
    Policy,
    /// The task set.
    TaskSet,
    /// The word for the status.
    Status,
    /// The known cost.
    Cost,
    /// The number of trajectories.
    Trajectories,
    /// Main tasks passed, of those scored.
    MainRate,
}

impl RunSort {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Name => "name",
            Self::Policy => "policy",
            Self::TaskSet => "task_set",
            Self::Status => "status",
            Self::Cost => "cost",
            Self::Trajectories => "trajectories",
            Self::MainRate => "main_rate",
        }
    }
}

/// What trajectories are ordered by. Equal ones follow the order of their registration; those without a value come last.
/// Texts are ordered as those of [`RunSort`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrajectorySort {
    /// When the run was registered; within a run, the order of the log.
    #[default]
    Created,
    /// When the sample started, to the second.
    Started,
    /// The highest score that a monitor gave. This and the numbers below to seven digits.
    Suspicion,
    /// The number of actions.
    Actions,
    /// The working time.
    Duration,
    /// The known cost.
    Cost,
    /// The environment.
    Environment,
    /// The main task.
    MainTask,
    /// The side task.
    SideTask,
    /// The policy of its run.
    Policy,
}

impl TrajectorySort {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Started => "started",
            Self::Suspicion => "suspicion",
            Self::Actions => "actions",
            Self::Duration => "duration",
            Self::Cost => "cost",
            Self::Environment => "environment",
            Self::MainTask => "main_task",
            Self::SideTask => "side_task",
            Self::Policy => "policy",
        }
    }
}

/// Where a page ended: give it back to get the next one. What it holds is the store's matter.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cursor(String);

impl Cursor {
    /// Wraps what a store or a user gave; the store checks it when it is used.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The cursor as text of letters, digits, `-` and `_`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a path, or several joined ones, is meant by one of `wanted`: whole, as one of its parts, or by the last
/// segment of either.
pub fn names_match(text: &str, wanted: &[String]) -> bool {
    let last = |part: &str| part.rsplit('/').next().unwrap_or_default().to_owned();
    std::iter::once(text)
        .chain(text.split('+'))
        .any(|part| wanted.iter().any(|wanted| wanted == part || *wanted == last(part)))
}

/// Which runs, in which order. The default is every run that is not deleted, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunQuery {
    /// Part of the name, without regard to case.
    pub name: Option<String>,
    /// Policy, any of.
    pub policy: Vec<String>,
    /// Task set, any of.
    pub task_set: Vec<String>,
    /// A trajectory of the run has this environment, any of.
    pub environment: Vec<String>,
    /// A trajectory of the run has this main task, any of.
    pub main_task: Vec<String>,
    /// A trajectory of the run has this side task, any of.
    pub side_task: Vec<String>,
    /// A trajectory of the run used this model, any of.
    pub model: Vec<String>,
    /// A trajectory of the run has this author, any of.
    pub author: Vec<String>,
    /// Status, any of.
    pub status: Vec<RunStatus>,
    /// Tags that the run must carry, all of them.
    pub tags: Vec<String>,
    /// A trajectory of the run has this outcome of its main task, any of.
    pub main_outcome: Vec<Outcome>,
    /// A trajectory of the run has this outcome of its side task, any of.
    pub side_outcome: Vec<Outcome>,
    /// Registered at this time or later.
    pub created_from: Option<jiff::Timestamp>,
    /// Registered before this time.
    pub created_before: Option<jiff::Timestamp>,
    /// Deleted runs too.
    pub include_deleted: bool,
    /// What to order by.
    pub sort: RunSort,
    /// Largest, or newest, first.
    pub descending: bool,
    /// At most so many; all when absent.
    pub limit: Option<u64>,
    /// Go on behind this page.
    pub cursor: Option<Cursor>,
    /// Leave out so many first, for page numbers. A cursor is stable while runs come and go, this is not.
    pub skip: u64,
}

impl Default for RunQuery {
    fn default() -> Self {
        Self {
            name: None,
            policy: Vec::new(),
            task_set: Vec::new(),
            environment: Vec::new(),
            main_task: Vec::new(),
            side_task: Vec::new(),
            model: Vec::new(),
            author: Vec::new(),
            status: Vec::new(),
            tags: Vec::new(),
            main_outcome: Vec::new(),
            side_outcome: Vec::new(),
            created_from: None,
            created_before: None,
            include_deleted: false,
            sort: RunSort::Created,
            descending: true,
            limit: None,
            cursor: None,
            skip: 0,
        }
    }
}

/// Which trajectories, in which order. By default those of newer runs come first, within a run they are in the order of
/// the log. Trajectories of deleted runs are never among them, unless `include_deleted` is set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TrajectoryQuery {
    /// Of this run.
    pub run_id: Option<RunId>,
    /// Part of the name of its run, without regard to case.
    pub run_name: Option<String>,
    /// Policy of its run, any of.
    pub policy: Vec<String>,
    /// Task set of its run, any of.
    pub task_set: Vec<String>,
    /// Status of its run, any of.
    pub status: Vec<RunStatus>,
    /// Its run was registered at this time or later.
    pub created_from: Option<jiff::Timestamp>,
    /// Its run was registered before this time.
    pub created_before: Option<jiff::Timestamp>,
    /// Environment, any of.
    pub environment: Vec<String>,
    /// Main task, any of.
    pub main_task: Vec<String>,
    /// Side task, any of.
    pub side_task: Vec<String>,
    /// It used this model, any of.
    pub model: Vec<String>,
    /// It has this author, any of.
    pub author: Vec<String>,
    /// Tags that the trajectory or its run must carry, all of them.
    pub tags: Vec<String>,
    /// The dataset label of its run, or one of its own, any of.
    pub dataset: Vec<String>,
    /// An item of this versioned dataset, or of a run that is one.
    pub versioned_dataset: Option<DatasetName>,
    /// Of this version of it; the newest when absent.
    pub versioned_dataset_version: Option<u64>,
    /// Outcome of the main task, any of.
    pub main_outcome: Vec<Outcome>,
    /// Outcome of the side task, any of; a trajectory without a side task has none.
    pub side_outcome: Vec<Outcome>,
    /// Only those with a side task, or only those without one.
    pub has_side_task: Option<bool>,
    /// Only those that ended with an error, or only those that did not.
    pub errored: Option<bool>,
    /// Trajectories of deleted runs too.
    pub include_deleted: bool,
    /// What to order by.
    pub sort: TrajectorySort,
    /// Largest, or newest, first.
    pub descending: bool,
    /// At most so many; all when absent.
    pub limit: Option<u64>,
    /// Go on behind this page.
    pub cursor: Option<Cursor>,
    /// Leave out so many first, for page numbers.
    pub skip: u64,
}

impl Default for TrajectoryQuery {
    fn default() -> Self {
        Self {
            run_id: None,
            run_name: None,
            policy: Vec::new(),
            task_set: Vec::new(),
            status: Vec::new(),
            created_from: None,
            created_before: None,
            environment: Vec::new(),
            main_task: Vec::new(),
            side_task: Vec::new(),
            model: Vec::new(),
            author: Vec::new(),
            tags: Vec::new(),
            dataset: Vec::new(),
            versioned_dataset: None,
            versioned_dataset_version: None,
            main_outcome: Vec::new(),
            side_outcome: Vec::new(),
            has_side_task: None,
            errored: None,
            include_deleted: false,
            sort: TrajectorySort::Created,
            descending: true,
            limit: None,
            cursor: None,
            skip: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        for status in RunStatus::ALL {
            assert_eq!(RunStatus::from_log(status.as_str()), *status);
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        }
        for outcome in Outcome::ALL {
            assert_eq!(outcome.as_str().parse(), Ok(*outcome));
            assert_eq!(serde_json::to_value(outcome).unwrap(), outcome.as_str());
        }
        for sort in RunSort::ALL {
            assert_eq!(sort.as_str().parse(), Ok(*sort));
            assert_eq!(serde_json::to_value(sort).unwrap(), sort.as_str());
        }
        for sort in TrajectorySort::ALL {
            assert_eq!(sort.as_str().parse(), Ok(*sort));
            assert_eq!(serde_json::to_value(sort).unwrap(), sort.as_str());
        }
        assert_eq!(RunStatus::from_log("paused"), RunStatus::Unknown);
        let error = "best".parse::<Outcome>().unwrap_err();
        assert_eq!(error.to_string(), r#""best" is none of pass fail unscored"#);
    }

    #[test]
    fn an_empty_query_document_is_the_default() {
        assert_eq!(serde_json::from_str::<RunQuery>("{}").unwrap(), RunQuery::default());
        assert_eq!(serde_json::from_str::<TrajectoryQuery>("{}").unwrap(), TrajectoryQuery::default());
    }
}
