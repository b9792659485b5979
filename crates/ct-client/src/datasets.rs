//! Versioned datasets of trajectories or runs.

use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::http::{Call, accepts_json};
use crate::pages::{PAGE_SIZE, with_query};
use crate::{Client, ClientError, Result};

/// A dataset in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are those of the wire contract")]
pub struct DatasetRow {
    pub name: String,
    pub kind: String,
    #[serde(default)]
    pub latest_version: Option<u64>,
    #[serde(default)]
    pub item_count: Option<u64>,
    #[serde(default)]
    pub created_at: Option<String>,
    #[serde(default)]
    pub created_by: Option<String>,
    #[serde(default)]
    pub lock: Option<Value>,
}

/// One version of a dataset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are those of the wire contract")]
pub struct DatasetVersion {
    pub name: String,
    pub kind: String,
    pub version: u64,
    #[serde(default)]
    pub item_ids: Vec<String>,
    #[serde(default)]
    pub created_at: Option<String>,
    #[serde(default)]
    pub created_by: Option<String>,
    #[serde(default)]
    pub description: Option<String>,
    /// What the server says beyond the contract.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// What an edit of the latest version did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are those of the wire contract")]
pub struct DatasetChange {
    pub version: u64,
    #[serde(default)]
    pub added: Value,
    #[serde(default)]
    pub already_present: Value,
    #[serde(default)]
    pub not_found: Value,
    #[serde(default)]
    pub changed: Option<bool>,
    /// What the server says beyond the contract.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A lock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are those of the wire contract")]
pub struct DatasetLock {
    pub name: String,
    #[serde(default)]
    pub locked_by: Option<String>,
    #[serde(default)]
    pub locked_at: Option<String>,
    #[serde(default)]
    pub reason: Option<String>,
}

/// Which way the latest version is edited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Items join.
    Add,
    /// Items leave.
    Remove,
}

impl Client {
    /// All datasets, of one kind or of both.
    pub fn datasets(&self, kind: Option<&str>) -> Result<Vec<DatasetRow>> {
        let mut url = self.url(&["datasets"]);
        if let Some(kind) = kind {
            url = with_query(url, &[("kind", kind.to_owned())]);
        }
        let mut rows = Vec::new();
        self.each(&url, PAGE_SIZE, |row: &DatasetRow| row.name.clone(), &mut |row| {
            rows.push(row);
            Ok(true)
        })?;
        Ok(rows)
    }

    /// A version of a dataset; the latest without a number.
    pub fn dataset(&self, name: &str, version: Option<u64>) -> Result<DatasetVersion> {
        let url = match version {
            Some(version) => self.url(&["datasets", name, "versions", &version.to_string()]),
            None => self.url(&["datasets", name]),
        };
        self.http().json(&accepts_json(Call::get(url)))
    }

    /// All versions, newest first.
    pub fn dataset_versions(&self, name: &str) -> Result<Vec<DatasetVersion>> {
        let url = self.url(&["datasets", name, "versions"]);
        // By the contract a list; servers answer it with and without the envelope.
        let answer: Value = self.http().json(&accepts_json(Call::get(url.clone())))?;
        if let Value::Array(_) = answer {
            return serde_json::from_value(answer).map_err(|error| ClientError::Protocol {
                server: self.server(),
                problem: format!("its answer is not as expected ({error})"),
            });
        }
        let mut versions = Vec::new();
        self.each(&url, PAGE_SIZE, |version: &DatasetVersion| version.version.to_string(), &mut |version| {
            versions.push(version);
            Ok(true)
        })?;
        Ok(versions)
    }

    /// Publishes a version with exactly these items.
    pub fn publish_dataset(
        &self,
        name: &str,
        item_ids: &[String],
        kind: Option<&str>,
        description: Option<&str>,
    ) -> Result<DatasetVersion> {
        let mut body = json!({"item_ids": item_ids});
        if let Some(kind) = kind {
            body["kind"] = json!(kind);
        }
        if let Some(description) = description {
            body["description"] = json!(description);
        }
        let call = Call::new(Method::POST, self.url(&["datasets", name, "versions"])).json(&body);
        let answer: Value = self.http().json(&accepts_json(call))?;
        match serde_json::from_value(answer.clone()) {
            Ok(version) => Ok(version),
            // A server may answer with no more than the number.
            Err(_) => self.dataset(name, answer.get("version").and_then(Value::as_u64)),
        }
    }

    /// Makes a new version of the latest, with items added or removed.
    pub fn change_dataset(&self, name: &str, change: Change, item_ids: &[String]) -> Result<DatasetChange> {
        let field = match change {
            Change::Add => "add",
            Change::Remove => "remove",
        };
        let call = Call::new(Method::POST, self.url(&["datasets", name, "versions"]));
        // The same edit twice is the edit once.
        self.http().json(&accepts_json(call.repeatable().json(&json!({field: item_ids}))))
    }

    /// Locks a dataset.
    pub fn lock_dataset(&self, name: &str, reason: &str) -> Result<DatasetLock> {
        let call = Call::new(Method::PUT, self.url(&["datasets", name, "lock"]));
        self.http().json(&accepts_json(call.json(&json!({"reason": reason}))))
    }

    /// Unlocks it. False: it was not locked.
    pub fn unlock_dataset(&self, name: &str) -> Result<bool> {
        #[derive(Deserialize)]
        struct Answer {
            was_locked: bool,
        }
        let call = Call::new(Method::DELETE, self.url(&["datasets", name, "lock"]));
        Ok(self.http().json::<Answer>(&accepts_json(call))?.was_locked)
    }
}
