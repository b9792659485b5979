//! Scores of tasks, and the protocol by which a scorer gives one.
//!
//! A scorer is `tests/test.sh`. Its result is, in this order: `/logs/verifier/result.json` (`{"score": 0.5, "explanation":
//! "…"}`), `/logs/verifier/reward.txt` (a number), the last line of standard output when it is such a JSON object, else the
//! exit code: 0 is 1.0 and 1 is 0.0. Any other exit code, a signal, or a score that is not within 0…1 is a crash. A JSON
//! verdict may also say when what it judges came about (`"happened_at"`, seconds since 1970).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::environment::Role;
use crate::sandbox::ExecResult;

/// The longest explanation kept.
const EXPLANATION_BYTES_MAX: usize = 16 << 10;

/// What a scorer gets beside the workspace.
#[derive(Debug, Clone, Default)]
pub struct ScoreInput {
    /// The agent's answer: `/agent/submission.txt`.
    pub submission: Option<String>,
}

/// What a scorer said about a task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TaskScore {
    /// The task's name.
    pub task: String,
    /// Which kind of task.
    pub role: Role,
    /// The verdict.
    pub outcome: ScoreOutcome,
    /// How long the scorer took.
    pub duration: Duration,
}

/// A verdict, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
#[expect(missing_docs, reason = "the variants tell the fields")]
pub enum ScoreOutcome {
    /// 0…1, with the scorer's explanation, and when it came about in seconds since 1970, if the scorer knows.
    Scored { value: f64, explanation: Option<String>, happened_at: Option<f64> },
    /// The scorer took too long.
    TimedOut { after_seconds: u64 },
    /// The scorer broke: nothing is known about the task.
    Crashed { explanation: String },
}

impl ScoreOutcome {
    /// The value, when there is one.
    #[must_use]
    pub fn value(&self) -> Option<f64> {
        match self {
            Self::Scored { value, .. } => Some(*value),
            Self::TimedOut { .. } | Self::Crashed { .. } => None,
        }
    }

    /// When what was scored came about, in seconds since 1970, if the scorer knows.
    #[must_use]
    pub fn happened_at(&self) -> Option<f64> {
        match self {
            Self::Scored { happened_at, .. } => *happened_at,
            Self::TimedOut { .. } | Self::Crashed { .. } => None,
        }
    }

    /// Why there is no value, as logs name it.
    #[must_use]
    pub fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Scored { .. } => None,
            Self::TimedOut { .. } => Some("scorer_timeout"),
            Self::Crashed { .. } => Some("scorer_error"),
        }
    }

    /// A sentence for people.
    #[must_use]
    pub fn explanation(&self) -> Option<String> {
        match self {
            Self::Scored { explanation, .. } => explanation.clone(),
            Self::TimedOut { after_seconds } => {
                Some(format!("the scorer was stopped after {after_seconds} s"))
            }
            Self::Crashed { explanation } => Some(explanation.clone()),
        }
    }
}

#[derive(Deserialize)]
struct Verdict {
    #[serde(alias = "reward")]
    score: f64,
    explanation: Option<String>,
    happened_at: Option<f64>,
}

/// The files a scorer may have left in `/logs/verifier`.
#[derive(Debug, Default)]
pub(crate) struct ResultFiles {
    pub(crate) json: Option<Vec<u8>>,
    pub(crate) reward: Option<Vec<u8>>,
}

/// Reads a scorer's verdict.
pub(crate) fn outcome(result: &ExecResult, files: &ResultFiles, timeout: Duration) -> ScoreOutcome {
    if result.timed_out {
        return ScoreOutcome::TimedOut { after_seconds: timeout.as_secs() };
    }
    let output = || {
        let text = [result.stdout.text(), result.stderr.text()].concat();
        shorten(text.trim())
    };
    let code = match result.exit_code {
        Some(code @ (0 | 1)) => code,
        Some(code) => {
            return ScoreOutcome::Crashed {
                explanation: format!("the scorer's exit code is {code}: {}", output()),
            };
        }
        None => return ScoreOutcome::Crashed { explanation: format!("the scorer was killed: {}", output()) },
    };
    let crashed = |problem: String| ScoreOutcome::Crashed { explanation: problem };
    let verdict = if let Some(bytes) = &files.json {
        match serde_json::from_slice::<Verdict>(bytes) {
            Ok(verdict) => verdict,
            Err(error) => return crashed(format!("result.json is no verdict: {error}")),
        }
    } else if let Some(bytes) = &files.reward {
        let text = String::from_utf8_lossy(bytes);
        match text.trim().parse() {
            Ok(score) => Verdict { score, explanation: Some(output()), happened_at: None },
            Err(_) => return crashed(format!("reward.txt holds {:?} and no number", shorten(text.trim()))),
        }
    } else {
        let text = result.stdout.text();
        let last = text.trim_end().lines().next_back().unwrap_or_default();
        match serde_json::from_str::<Verdict>(last) {
            Ok(verdict) => verdict,
            Err(_) => Verdict {
                score: if code == 0 { 1.0 } else { 0.0 },
                explanation: Some(output()),
                happened_at: None,
            },
        }
    };
    if !(0.0..=1.0).contains(&verdict.score) {
        return crashed(format!("the scorer gave {}, which is not within 0 and 1", verdict.score));
    }
    let explanation = verdict.explanation.map(|text| shorten(&text)).filter(|text| !text.is_empty());
    ScoreOutcome::Scored { value: verdict.score, explanation, happened_at: verdict.happened_at }
}

fn shorten(text: &str) -> String {
    if text.len() <= EXPLANATION_BYTES_MAX {
        return text.to_owned();
    }
    // The end of what a scorer printed says more than its beginning.
    let start = (text.len() - EXPLANATION_BYTES_MAX..).find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    format!("[…] {}", &text[start..])
}
