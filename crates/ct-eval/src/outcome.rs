//! What came of samples, and of a run.

use std::collections::BTreeMap;

use ct_environment::{Role, TaskScore, WorkspaceDiff};
use ct_model::ModelUsage;
use serde_json::{Map, Value, json};

/// What came of a sample. Scores are within 0 and 1.
#[derive(Debug, Clone, Default)]
pub struct SampleOutcome {
    /// The main tasks together: 1 only when each is.
    pub main: Option<f64>,
    /// The side tasks together.
    pub side: Option<f64>,
    /// Whether it has a side task.
    pub attacked: bool,
    /// Why it failed.
    pub error: Option<String>,
    /// Which limit ended it.
    pub limit: Option<&'static str>,
    /// Tool calls.
    pub actions: u64,
    /// Tokens of all models.
    pub tokens: u64,
    /// US dollars, as far as they are known.
    pub cost_usd: Option<f64>,
}

/// The score of all tasks of a role: the least one; unknown when one is.
pub(crate) fn together(scores: &[TaskScore], role: Role) -> Option<f64> {
    let mut of_role = scores.iter().filter(|score| score.role == role).peekable();
    of_role.peek()?;
    of_role.map(|score| score.outcome.value()).try_fold(1.0_f64, |least, value| Some(least.min(value?)))
}

/// Why a task has no score when its environment was not ready.
pub(crate) const NOT_READY: &str = "env_not_ready";
/// The score that tells what an agent changed in its workspace.
const WORKSPACE_DIFF: &str = "workspace_diff";
/// What a log holds of that at most.
const DIFF_BYTES_MAX: usize = 128 << 10;

/// A task's score as the log holds it; `landed_at` is the action, from 0, by which a side task was done.
pub(crate) fn score_json(score: &TaskScore, landed_at: Option<usize>) -> Value {
    let mut json = json!({
        // The family writes `N` for what nothing decided.
        "value": score.outcome.value().map_or_else(|| Value::from("N"), Value::from),
        "explanation": score.outcome.explanation(),
        "metadata": {"role": score.role.as_str(), "scorer_seconds": score.duration.as_secs_f64()},
        "history": [],
    });
    if let (Some(reason), Value::Object(json)) = (score.outcome.reason(), &mut json) {
        json.insert("reason".to_owned(), reason.into());
    }
    if let (Role::Side, Some(metadata)) =
        (score.role, json.get_mut("metadata").and_then(Value::as_object_mut))
    {
        metadata.insert("landed_at".to_owned(), landed_at.into());
    }
    json
}

/// The action by which all side tasks were done: none when one is not, or when nobody knows.
pub(crate) fn landed_together(scores: &[(TaskScore, Value)]) -> Option<u64> {
    let sides = scores.iter().filter(|(score, _)| score.role == Role::Side);
    let landed = sides.map(|(_, json)| json["metadata"]["landed_at"].as_u64());
    landed.reduce(|a, b| Some(a?.max(b?))).flatten()
}

/// The score of a task that was not worked on, since its environment was not ready.
pub(crate) fn not_ready_json(role: Role, problem: &str) -> Value {
    let mut json = json!({
        "value": "N", "explanation": problem, "reason": NOT_READY, "metadata": {"role": role.as_str()}, "history": [],
    });
    if role == Role::Side {
        json["metadata"]["landed_at"] = Value::Null;
    }
    json
}

/// What an agent changed, as a score: how many files, with the comparison for people.
pub(crate) fn diff_json(diff: &WorkspaceDiff) -> (&'static str, Value) {
    let mut text = diff.text();
    if text.len() > DIFF_BYTES_MAX {
        let end = (0..=DIFF_BYTES_MAX).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        let left_out_bytes = text.len() - end;
        text.truncate(end);
        text.push_str(&format!("\n[… {left_out_bytes} bytes left out …]\n"));
    }
    let changes = diff.changes.len() + diff.left_out;
    let metadata = json!({"partial": diff.partial});
    (WORKSPACE_DIFF, json!({"value": changes, "explanation": text, "metadata": metadata, "history": []}))
}

/// Sums over the samples of a log.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// Samples that the log should hold.
    pub samples: u64,
    /// Samples without an error.
    pub completed: u64,
    /// Samples with one, or whose environment was not ready.
    pub failed: u64,
    /// Those whose environment was not ready.
    pub not_ready: u64,
    /// Tokens and cost by model.
    pub usage: BTreeMap<String, ModelUsage>,
    pub(crate) role_usage: BTreeMap<String, ModelUsage>,
    scores: BTreeMap<(String, String), Mean>,
    order: Vec<(String, String)>,
}

/// A mean of scores.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mean {
    /// Their sum.
    pub sum: f64,
    /// How many are exactly 1.
    pub passed: u64,
    /// How many there are.
    pub scored: u64,
    /// How many have no value.
    pub unscored: u64,
}

impl Mean {
    /// The mean; none of nothing.
    pub fn value(self) -> Option<f64> {
        (self.scored > 0).then(|| self.sum / self.scored as f64)
    }
}

impl Totals {
    /// The main tasks' scores.
    pub fn main(&self) -> Mean {
        self.mean("main")
    }

    /// The side tasks' scores.
    pub fn side(&self) -> Mean {
        self.mean("side")
    }

    fn mean(&self, name: &str) -> Mean {
        self.scores.get(&("tasks".to_owned(), name.to_owned())).copied().unwrap_or_default()
    }

    /// What is known to have been spent, and whether that is all.
    pub fn cost_usd(&self) -> (Option<f64>, bool) {
        let known = self.usage.values().filter_map(|usage| usage.total_cost).reduce(|a, b| a + b);
        (known, self.usage.values().all(|usage| usage.total_cost.is_some()))
    }

    /// Tokens of all models together.
    pub fn tokens(&self) -> u64 {
        self.usage.values().filter_map(|usage| usage.total_tokens).sum()
    }

    /// Counts a sample by its row in the log, which has all that is needed.
    pub(crate) fn add_row(&mut self, row: &Value) {
        let not_ready = row_not_ready(row);
        self.not_ready += u64::from(not_ready);
        if row_failed(row) {
            self.failed += 1;
        } else {
            self.completed += 1;
        }
        for (key, sums) in [("model_usage", &mut self.usage), ("role_usage", &mut self.role_usage)] {
            for (name, usage) in row.get(key).and_then(Value::as_object).into_iter().flatten() {
                if let Ok(usage) = serde_json::from_value::<ModelUsage>(usage.clone()) {
                    sums.entry(name.clone()).or_default().add(&usage);
                }
            }
        }
        for (scorer, score) in row_scores(row).filter(|(scorer, _)| *scorer != WORKSPACE_DIFF) {
            match &score["value"] {
                Value::Object(values) => {
                    for (name, value) in values.iter().filter(|(name, _)| *name != "landed_at") {
                        // A side that there is none of is not unscored.
                        if !(name == "side" && value.is_null()) || row_has_side(row) {
                            self.add_score(scorer, name, value);
                        }
                    }
                }
                value => self.add_score(scorer, scorer, value),
            }
        }
    }

    fn add_score(&mut self, scorer: &str, name: &str, value: &Value) {
        let key = (scorer.to_owned(), name.to_owned());
        if !self.scores.contains_key(&key) {
            self.order.push(key.clone());
        }
        let mean = self.scores.entry(key).or_default();
        match value.as_f64() {
            Some(value) => {
                mean.sum += value;
                mean.scored += 1;
                mean.passed += u64::from(value >= 1.0);
            }
            None => mean.unscored += 1,
        }
    }

    /// `results.scores` of the header.
    pub(crate) fn scores_json(&self) -> Value {
        let row = |key: &(String, String)| {
            let mean = self.scores.get(key).copied().unwrap_or_default();
            let metrics: Map<String, Value> = mean
                .value()
                .map(|value| ("mean".to_owned(), json!({"name": "mean", "value": value, "params": {}})))
                .into_iter()
                .collect();
            json!({
                "name": key.1, "scorer": key.0, "scored_samples": mean.scored,
                "unscored_samples": mean.unscored, "params": {}, "metrics": metrics,
            })
        };
        Value::Array(self.order.iter().map(row).collect())
    }
}

fn row_scores(row: &Value) -> impl Iterator<Item = (&String, &Value)> {
    row.get("scores").and_then(Value::as_object).into_iter().flatten()
}

/// Whether a sample of the log could not be worked on.
fn row_not_ready(row: &Value) -> bool {
    row_scores(row).any(|(_, score)| score["reason"] == NOT_READY)
}

/// Whether a sample of the log is to be run again.
pub(crate) fn row_failed(row: &Value) -> bool {
    row.get("error").is_some_and(|error| !error.is_null()) || row_not_ready(row)
}

fn row_has_side(row: &Value) -> bool {
    row.pointer("/metadata/side_tasks").and_then(Value::as_array).is_some_and(|tasks| !tasks.is_empty())
        // A large list is not in the row, but then it is not empty.
        || row.pointer("/metadata/side_tasks").is_some_and(Value::is_string)
}
