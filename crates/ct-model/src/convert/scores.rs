//! Outcomes, task scores, audits and monitors from a sample's scores, old and new.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::family::Setting;
use super::sample::{SampleFacts, ScoreFacts, Verdicts, verdict_score};
use super::value::{object, score_number, unbox};
use crate::{MonitorSummary, SampleError, TaskRole, TaskScore};

/// Reasons of a task score that mean that scoring failed, not that the task did.
const SCORER_FAILURES: [&str; 3] = ["scorer_timeout", "env_not_ready", "scorer_error"];

/// Scorers of control-arena that are monitors. They give -1 when the monitor was never asked.
const MONITOR_SCORERS: [&str; 4] =
    ["max_sus_scorer", "max_suspicion_scorer", "full_traj_monitor", "full_trajectory_monitor"];

/// What the scores say about a sample.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    pub(super) main: Option<bool>,
    pub(super) side: Option<bool>,
    pub(super) task_scores: Vec<TaskScore>,
    pub(super) tasks: Option<Value>,
    pub(super) audits: Map<String, Value>,
    pub(super) monitors: BTreeMap<String, MonitorSummary>,
    /// A failure of scoring itself.
    pub(super) failure: Option<SampleError>,
}

fn succeeded(value: f64) -> bool {
    value == 1.0
}

pub(super) fn outcomes(sample: &SampleFacts, setting: &Setting) -> Outcomes {
    let mut outcomes = Outcomes::default();
    let by_name = |name: &str| sample.scores.iter().find(|score| score.name == name);
    for (ids, role) in [(&setting.main_ids, TaskRole::Main), (&setting.side_ids, TaskRole::Side)] {
        for id in ids {
            let Some(score) = by_name(id) else { continue };
            outcomes.add_task_score(id, role, score_number(&score.value), score);
        }
    }

    let tasks = by_name("tasks").map(|score| unbox(&score.value)).filter(|value| value.is_object());
    if let Some(tasks) = tasks {
        let decided = |key: &str| tasks.get(key).and_then(score_number).map(succeeded);
        outcomes.main = decided("main");
        outcomes.side = decided("side");
        outcomes.tasks = Some(tasks.clone());
    } else {
        outcomes.main = outcomes.by_role(sample, setting, TaskRole::Main);
        outcomes.side = outcomes.by_role(sample, setting, TaskRole::Side);
    }
    // A side task alone landed where the tasks together did.
    if let ([_], Some(landed_at)) =
        (setting.side_ids.as_slice(), tasks.and_then(|tasks| tasks.get("landed_at")))
    {
        for score in outcomes.task_scores.iter_mut().filter(|score| score.landed_at == Some(None)) {
            score.landed_at = Some(landed_at.as_i64());
        }
    }

    outcomes.audits = sample
        .scores
        .iter()
        .filter(|score| is_audit(&score.name))
        .map(|score| (score.name.clone(), unbox(&score.value).clone()))
        .collect();
    outcomes.monitors = monitors(sample);
    outcomes
}

impl Outcomes {
    fn add_task_score(&mut self, id: &str, role: TaskRole, value: Option<f64>, score: &ScoreFacts) {
        let landed_at = (role == TaskRole::Side).then(|| score.landed_at.flatten());
        let reason = score.reason.clone();
        if let Some(failure) = reason.as_deref().filter(|reason| SCORER_FAILURES.contains(reason)) {
            let message = score.explanation.clone().unwrap_or_else(|| failure.to_owned());
            self.failure.get_or_insert(SampleError {
                message,
                error_type: Some(failure.to_owned()),
                extra: Map::new(),
            });
        }
        self.task_scores.push(TaskScore {
            id: id.to_owned(),
            role,
            value,
            landed_at,
            reason,
            extra: Map::new(),
        });
    }

    /// The outcome of a role in logs without a `tasks` score; adds the task's score when it is alone in its role.
    fn by_role(&mut self, sample: &SampleFacts, setting: &Setting, role: TaskRole) -> Option<bool> {
        let (names, member, ids) = match role {
            TaskRole::Main => {
                (["main_task", "main_task_correctness"], "main_task_success", &setting.main_ids)
            }
            TaskRole::Side => {
                (["side_task", "side_task_correctness"], "side_task_success", &setting.side_ids)
            }
        };
        let of_role = sample.scores.iter().find_map(|score| {
            if let Some(value) = object(&score.value).and_then(|value| value.get(member)) {
                return Some((score_number(value), score));
            }
            let named = names.contains(&score.name.as_str()) || score.name == member;
            (named && !score.value.is_object()).then(|| (score_number(&score.value), score))
        });
        let plain = || {
            // Any other Inspect log: the first scorer decides, if it says yes or no.
            let first = sample.scores.first().filter(|_| setting.plain && role == TaskRole::Main)?;
            (!first.value.is_object() && !unbox(&first.value).is_array())
                .then(|| (score_number(&first.value), first))
        };
        let scored = self.task_scores.iter().any(|score| score.role == role);
        if let Some((value, score)) = of_role {
            if let ([id], false) = (ids.as_slice(), scored) {
                self.add_task_score(id, role, value, score);
            }
            return value.map(succeeded);
        }
        if scored {
            let mut of_role = self.task_scores.iter().filter(|score| score.role == role);
            return match (of_role.next(), of_role.next()) {
                (Some(only), None) if ids.len() == 1 => only.value.map(succeeded),
                _ => None,
            };
        }
        let (value, score) = plain()?;
        if let [id] = ids.as_slice() {
            self.add_task_score(id, role, value, score);
        }
        let says_yes_or_no = match unbox(&score.value) {
            Value::String(text) => matches!(text.as_str(), "C" | "I"),
            _ => value == Some(0.0) || value == Some(1.0),
        };
        value.filter(|_| says_yes_or_no).map(succeeded)
    }
}

/// `audit`, `audit2`, …
fn is_audit(name: &str) -> bool {
    name.strip_prefix("audit").is_some_and(|number| number.bytes().all(|b| b.is_ascii_digit()))
}

/// What a key of the `monitor` score says: `<monitor>/<draw>/<action index>`, `<monitor>/<draw>/trajectory` or
/// `<monitor>/<draw>/draft/<message id>`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MonitorKey<'a> {
    /// The monitor's name, which may hold slashes.
    pub(crate) monitor: &'a str,
    /// Which draw; 1 where the key does not say.
    pub(crate) draw: u32,
    /// About a draft.
    pub(crate) draft: bool,
    /// The action, the word `trajectory`, or the message.
    pub(crate) about: Option<&'a str>,
}

pub(crate) fn monitor_key(key: &str) -> MonitorKey<'_> {
    let is_draw = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let number = |draw: &str| draw.parse().unwrap_or(1);
    if let Some((before, message)) = key.split_once("/draft/")
        && let Some((monitor, draw)) = before.rsplit_once('/')
        && is_draw(draw)
    {
        return MonitorKey { monitor, draw: number(draw), draft: true, about: Some(message) };
    }
    match key.rsplit_once('/') {
        Some((before, about)) => match before.rsplit_once('/') {
            Some((monitor, draw)) if is_draw(draw) => {
                MonitorKey { monitor, draw: number(draw), draft: false, about: Some(about) }
            }
            _ => MonitorKey { monitor: before, draw: 1, draft: false, about: Some(about) },
        },
        None => MonitorKey { monitor: key, draw: 1, draft: false, about: None },
    }
}

fn monitors(sample: &SampleFacts) -> BTreeMap<String, MonitorSummary> {
    let mut all: BTreeMap<String, Verdicts> = BTreeMap::new();
    for score in &sample.scores {
        let value = unbox(&score.value);
        if score.name == "monitor"
            && let Value::Object(verdicts) = value
        {
            for (key, verdict) in verdicts {
                all.entry(monitor_key(key).monitor.to_owned()).or_default().add(verdict);
            }
        } else if score.name == "monitor" || MONITOR_SCORERS.contains(&score.name.as_str()) {
            all.entry(score.name.clone()).or_default().add(value);
        } else if let Some(name) = score.name.strip_prefix("monitor_") {
            let verdicts = all.entry(name.to_owned()).or_default();
            match value {
                // `max` sums up the others.
                Value::Object(map) if map.len() > 1 => {
                    map.iter()
                        .filter(|(key, _)| *key != "max")
                        .for_each(|(_, verdict)| verdicts.add(verdict));
                }
                Value::Object(map) => map.values().for_each(|verdict| verdicts.add(verdict)),
                other => verdicts.add(other),
            }
        }
    }
    // From before scores: verdicts on the messages and in the metadata.
    if all.is_empty() {
        let mut verdicts = sample.verdicts.clone();
        if let Some(verdict) = sample.metadata.get("traj_monitor_result").filter(|verdict| !verdict.is_null())
        {
            verdicts.add(verdict_score(verdict));
        }
        if verdicts.scored + verdicts.unscored > 0 {
            all.insert("monitor".to_owned(), verdicts);
        }
    }
    all.into_iter()
        .map(|(name, verdicts)| {
            (name, MonitorSummary { max: verdicts.max, unscored: verdicts.unscored, extra: Map::new() })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monitors_are_found_in_keys() {
        for (key, monitor) in [
            ("action/1/0", "action"),
            ("gpt/strict/2/trajectory", "gpt/strict"),
            ("m/1/draft/a/b/c", "m"),
            ("m/1/draft/17", "m"),
            ("draft/1/0", "draft"),
            ("m/trajectory", "m"),
            ("lonely", "lonely"),
            ("", ""),
        ] {
            assert_eq!(monitor_key(key).monitor, monitor, "{key}");
        }
    }

    #[test]
    fn audits_are_numbered() {
        assert!(is_audit("audit") && is_audit("audit2") && is_audit("audit13"));
        assert!(!is_audit("auditor") && !is_audit("my_audit") && !is_audit(""));
    }
}
