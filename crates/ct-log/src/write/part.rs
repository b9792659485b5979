//! The header of a log that holds some samples of a run.

use std::collections::HashSet;

use serde_json::Value;

use super::WriteError;
use super::edit::{RawObject, join_array, raw_array};
use super::header::{document, edit};
use crate::json::{self, JsonError};

/// What a log holds of a run when that is not all of it.
#[derive(Debug, Clone, Default)]
pub struct Part {
    /// Samples in it.
    pub samples: u64,
    /// Those among them that did not end with an error.
    pub completed: u64,
    /// Their ids as text.
    pub ids: HashSet<String>,
    /// Sums over them, by model.
    pub model_usage: Value,
    /// The same by role.
    pub role_usage: Value,
}

/// The header of a whole run, made to fit a part of it: counts and sums are those of the part, and what was computed
/// over all samples is gone. Scorers stay named, without their metrics. Reductions are the caller's to leave out.
pub fn header_of_part(header: &[u8], part: &Part) -> Result<Vec<u8>, WriteError> {
    of_part(header, part).map_err(document)
}

fn of_part(header: &[u8], part: &Part) -> Result<Vec<u8>, JsonError> {
    let mut header = RawObject::parse(header)?;
    header.retain(|key, _| key != "reductions");
    edit(&mut header, "eval", |eval| edit(eval, "dataset", |dataset| list_ids(dataset, part)))?;
    edit(&mut header, "results", |results| {
        results.set("total_samples", part.samples.to_string().into_bytes());
        results.set("completed_samples", part.completed.to_string().into_bytes());
        if results.get("logged_samples").is_some() {
            results.set("logged_samples", part.samples.to_string().into_bytes());
        }
        if let Some(scores) = results.get("scores").map(raw_array).transpose()?.flatten() {
            let scores = scores.iter().map(|score| without_metrics(score)).collect::<Result<Vec<_>, _>>()?;
            results.set("scores", join_array(&scores));
        }
        results.retain(|key, _| !matches!(key, "sample_reductions" | "headline" | "early_stopping"));
        // Results of the first version: one scorer and its metrics.
        if results.get("metrics").is_some() {
            results.set("metrics", b"{}".to_vec());
        }
        Ok(())
    })?;
    edit(&mut header, "stats", |stats| {
        for (key, usage) in [("model_usage", &part.model_usage), ("role_usage", &part.role_usage)] {
            if stats.get(key).is_some() {
                stats.set(key, usage.to_string().into_bytes());
            }
        }
        Ok(())
    })?;
    Ok(header.to_bytes())
}

/// Readers go through the samples by this list, and miss those that are in it and not in the log.
fn list_ids(dataset: &mut RawObject, part: &Part) -> Result<(), JsonError> {
    if dataset.get("samples").is_some() {
        dataset.set("samples", part.ids.len().to_string().into_bytes());
    }
    let Some(ids) = dataset.get("sample_ids").map(raw_array).transpose()?.flatten() else { return Ok(()) };
    let is_there = |id: &[u8]| match json::parse(id) {
        Ok(Value::String(id)) => part.ids.contains(&id),
        _ => part.ids.contains(String::from_utf8_lossy(id).trim()),
    };
    let ids: Vec<_> = ids.into_iter().filter(|id| is_there(id)).collect();
    dataset.set("sample_ids", join_array(&ids));
    Ok(())
}

fn without_metrics(score: &[u8]) -> Result<Vec<u8>, JsonError> {
    let Ok(mut score) = RawObject::parse(score) else { return Ok(score.to_vec()) };
    score.retain(|key, _| !matches!(key, "scored_samples" | "unscored_samples"));
    score.set("metrics", b"{}".to_vec());
    Ok(score.to_bytes())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counts_and_sums_are_those_of_the_part() {
        let header = br#"{"version": 2, "status": "success", "eval": {"task": "t", "dataset": {"samples": 4,
            "sample_ids": [1, "b", 3, "c"], "name": "d"}, "n": 1e400}, "results": {"total_samples": 8,
            "completed_samples": 7, "scores": [{"name": "m", "scorer": "m", "scored_samples": 7, "metrics":
            {"accuracy": {"name": "accuracy", "value": NaN}}}], "headline": {}}, "stats": {"started_at": "x",
            "model_usage": {"m": {"input_tokens": 9}}}, "x": [1]}"#;
        let part = Part {
            samples: 3,
            completed: 2,
            ids: ["1", "b"].map(str::to_owned).into(),
            model_usage: json!({"m": {"input_tokens": 2}}),
            role_usage: json!({}),
        };
        let new = String::from_utf8(header_of_part(header, &part).unwrap()).unwrap();
        assert!(new.contains(r#""n":1e400"#), "{new}");
        let new = json::parse(new.as_bytes()).unwrap();
        assert_eq!(new["eval"]["dataset"], json!({"samples": 2, "sample_ids": [1, "b"], "name": "d"}));
        assert_eq!(
            new["results"],
            json!({"total_samples": 3, "completed_samples": 2, "scores": [{"name": "m", "scorer": "m", "metrics": {}}]})
        );
        assert_eq!(new["stats"], json!({"started_at": "x", "model_usage": {"m": {"input_tokens": 2}}}));
        assert_eq!(new["x"], json!([1]));
    }
}
