//! What changes in a header when a log is written again.

use super::edit::{RawObject, join_array, quoted, raw_array};
use super::glob::any_matches;
use super::rewrite::HeaderEdits;
use super::{Glob, WriteError};
use crate::json::{self, JsonError};
use crate::{Format, Header};

/// A header in the making.
pub(super) struct NewHeader {
    object: RawObject,
}

impl NewHeader {
    /// Takes a header and makes it readable: the version that the samples are written in, and the members that readers
    /// insist on.
    pub(super) fn new(old: &Header, format: Format) -> Result<Self, JsonError> {
        let mut object = RawObject::parse(&old.raw)?;
        object.retain(|key, _| !matches!(key, "samples" | "reductions"));
        // Version 3 was an experiment with message pools, which are written as version 2 has them. Version 1 knew no
        // archives, and Inspect looks for its shapes in JSON logs only.
        let version = object.get("version");
        if version.is_none_or(|v| v == b"3" || v == b"1" && format == Format::Eval) {
            object.set("version", b"2".to_vec());
        }
        for key in ["plan", "stats"] {
            if object.get(key).is_none() {
                object.set(key, b"{}".to_vec());
            }
        }
        let mut new = Self { object };
        if old.inferred {
            new.edit("eval", |eval| {
                for (key, value) in [
                    ("created", r#""1970-01-01T00:00:00+00:00""#),
                    ("task", r#""unknown""#),
                    ("dataset", "{}"),
                    ("model", r#""none/none""#),
                    ("config", "{}"),
                ] {
                    if eval.get(key).is_none() {
                        eval.set(key, value.as_bytes().to_vec());
                    }
                }
                Ok(())
            })?;
        }
        Ok(new)
    }

    /// Changes an object that is a member; one that is missing or something else is left alone.
    fn edit(
        &mut self,
        key: &str,
        f: impl FnOnce(&mut RawObject) -> Result<(), JsonError>,
    ) -> Result<(), JsonError> {
        edit(&mut self.object, key, f)
    }

    /// The name under which the single score of an old sample goes: that of the one scorer. Newer logs have no such score.
    pub(super) fn single_score_name(&self) -> Option<String> {
        let results = RawObject::parse(self.object.get("results")?).ok()?;
        name_of(results.get("scorer")?, &["name"])
    }

    /// Lists the samples where the log does not: Inspect goes by that list when it streams them.
    pub(super) fn list_samples(
        &mut self,
        ids: impl FnOnce() -> Result<Vec<Vec<u8>>, WriteError>,
    ) -> Result<(), WriteError> {
        let mut failed = Ok(());
        self.edit("eval", |eval| {
            edit(eval, "dataset", |dataset| {
                if dataset.get("sample_ids").is_none() {
                    match ids() {
                        Ok(ids) if ids.is_empty() => {}
                        Ok(ids) => dataset.set("sample_ids", join_array(&ids)),
                        Err(e) => failed = Err(e),
                    }
                }
                Ok(())
            })
        })
        .map_err(document)?;
        failed
    }

    /// Writes what the user asked for into `eval.metadata`, and into the header's own copy of it.
    pub(super) fn apply(&mut self, edits: &HeaderEdits) -> Result<(), JsonError> {
        if *edits == HeaderEdits::default() {
            return Ok(());
        }
        self.edit("eval", |eval| {
            let tags = merged_tags(eval, &edits.tags)?;
            if eval.get("metadata").is_none() {
                eval.set("metadata", b"{}".to_vec());
            }
            edit(eval, "metadata", |metadata| {
                set_all(metadata, edits, tags.as_deref());
                Ok(())
            })
        })?;
        let tags = match self.object.get("eval") {
            Some(eval) if !edits.tags.is_empty() => {
                let eval = RawObject::parse(eval)?;
                let metadata = eval.get("metadata").map(RawObject::parse).transpose()?.unwrap_or_default();
                metadata.get("tags").map(<[u8]>::to_vec)
            }
            _ => None,
        };
        self.edit("metadata", |metadata| {
            set_all(metadata, edits, tags.as_deref());
            Ok(())
        })
    }

    /// Leaves out the results of scorers.
    pub(super) fn drop_scores(&mut self, drop: &[Glob]) -> Result<(), JsonError> {
        let dropped =
            |scorer: &[u8], keys: &[&str]| name_of(scorer, keys).is_some_and(|name| any_matches(drop, &name));
        self.edit("results", |results| {
            for key in ["scores", "sample_reductions"] {
                if let Some(scores) = results.get(key).map(raw_array).transpose()?.flatten() {
                    let kept: Vec<_> =
                        scores.into_iter().filter(|score| !dropped(score, &["scorer", "name"])).collect();
                    results.set(key, join_array(&kept));
                }
            }
            let gone = |results: &RawObject, key, keys: &[&str]| {
                results.get(key).is_some_and(|value| dropped(value, keys))
            };
            let headline = gone(results, "headline", &["scorer", "score"]);
            // Results of the first version: one scorer and its metrics.
            let single = gone(results, "scorer", &["name"]);
            results.retain(|key, _| match key {
                "headline" => !headline,
                "scorer" | "metrics" => !single,
                _ => true,
            });
            Ok(())
        })
    }

    /// Whether the journal of an unfinished log can say all that this header says.
    pub(super) fn fits_journal(&self) -> bool {
        let empty = |value: &serde_json::Value| match value {
            serde_json::Value::Object(members) => members.is_empty(),
            serde_json::Value::Array(items) => items.is_empty(),
            serde_json::Value::String(text) => text.is_empty(),
            other => other.is_null(),
        };
        self.object.keys().all(|key| match key {
            "version" | "status" | "eval" | "plan" | "config_updates" | "tags" | "metadata" => true,
            _ => match self.object.get(key).map(json::parse) {
                None => true,
                Some(Ok(serde_json::Value::Object(members))) => members.values().all(empty),
                Some(Ok(value)) => empty(&value) || value == false,
                Some(Err(_)) => false,
            },
        })
    }

    pub(super) fn config_updates(&self) -> Result<Vec<Vec<u8>>, JsonError> {
        Ok(self.object.get("config_updates").map(raw_array).transpose()?.flatten().unwrap_or_default())
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        self.object.to_bytes()
    }
}

pub(super) fn document(source: JsonError) -> WriteError {
    WriteError::Document { what: "the header", source }
}

pub(super) fn edit(
    object: &mut RawObject,
    key: &str,
    f: impl FnOnce(&mut RawObject) -> Result<(), JsonError>,
) -> Result<(), JsonError> {
    let Some(Ok(mut inner)) = object.get(key).map(RawObject::parse) else { return Ok(()) };
    f(&mut inner)?;
    object.set(key, inner.to_bytes());
    Ok(())
}

fn set_all(metadata: &mut RawObject, edits: &HeaderEdits, tags: Option<&[u8]>) {
    let texts = [("run_name", &edits.run_name), ("policy", &edits.policy), ("task_set", &edits.task_set)];
    for (key, value) in texts {
        if let Some(value) = value {
            metadata.set(key, quoted(value));
        }
    }
    if let Some(tags) = tags {
        metadata.set("tags", tags.to_vec());
    }
}

/// The tags that the log has, in its metadata or else in the eval, and then the new ones.
fn merged_tags(eval: &RawObject, new: &[String]) -> Result<Option<Vec<u8>>, JsonError> {
    if new.is_empty() {
        return Ok(None);
    }
    let metadata = match eval.get("metadata").map(RawObject::parse) {
        Some(Ok(metadata)) => metadata,
        _ => RawObject::default(),
    };
    let old = metadata.get("tags").or_else(|| eval.get("tags"));
    let mut tags = old.map(raw_array).transpose()?.flatten().unwrap_or_default();
    for tag in new.iter().map(|tag| quoted(tag)) {
        if !tags.contains(&tag) {
            tags.push(tag);
        }
    }
    Ok(Some(join_array(&tags)))
}

/// The first of these members that is a text.
fn name_of(object: &[u8], keys: &[&str]) -> Option<String> {
    let object = RawObject::parse(object).ok()?;
    keys.iter().find_map(|key| match json::parse(object.get(key)?) {
        Ok(serde_json::Value::String(name)) => Some(name),
        _ => None,
    })
}

/// Leaves out the reductions of scorers.
pub(super) fn filter_reductions(reductions: &[u8], drop: &[Glob]) -> Result<Vec<u8>, JsonError> {
    let Some(mut all) = raw_array(reductions)? else { return Ok(reductions.to_vec()) };
    all.retain(|r| name_of(r, &["scorer"]).is_none_or(|name| !any_matches(drop, &name)));
    Ok(join_array(&all))
}
