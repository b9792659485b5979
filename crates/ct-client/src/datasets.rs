//! Versioned datasets of trajectories or runs.

use ct_model::{Dataset, DatasetChange, DatasetEdit, DatasetKind, DatasetLock, DatasetName, DatasetVersion};
use reqwest::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::http::{Call, accepts_json};
use crate::pages::{PAGE_SIZE, with_query};
use crate::{Client, ClientError, Result};

impl Client {
    /// All datasets, of one kind or of both.
    pub fn datasets(&self, kind: Option<DatasetKind>) -> Result<Vec<Dataset>> {
        let mut url = self.url(&["datasets"]);
        if let Some(kind) = kind {
            url = with_query(url, &[("kind", kind.to_string())]);
        }
        self.all(&url, |dataset: &Dataset| dataset.name.to_string())
    }

    /// A version of a dataset; the latest without a number.
    pub fn dataset(&self, name: &DatasetName, version: Option<u64>) -> Result<DatasetVersion> {
        let url = match version {
            Some(version) => self.url(&["datasets", name.as_str(), "versions", &version.to_string()]),
            None => self.url(&["datasets", name.as_str()]),
        };
        self.http().json(&accepts_json(Call::get(url)).long())
    }

    /// All versions, newest first. Of a server that can leave them out, without their items.
    pub fn dataset_versions(&self, name: &DatasetName) -> Result<Vec<DatasetVersion>> {
        let url = with_query(
            self.url(&["datasets", name.as_str(), "versions"]),
            &[("item_ids", "false".to_owned())],
        );
        // The contract does not say whether this list has the envelope.
        let answer: Value = self.http().json(&accepts_json(Call::get(url.clone())).long())?;
        if answer.is_array() {
            return self.understood(answer);
        }
        self.all(&url, |version: &DatasetVersion| version.version.to_string())
    }

    /// Makes a new version: exactly these items, or the latest with items added or removed.
    pub fn edit_dataset(&self, name: &DatasetName, edit: &DatasetEdit) -> Result<DatasetChange> {
        let mut body = serde_json::to_value(edit)
            .map_err(|error| ClientError::Protocol { server: self.server(), problem: error.to_string() })?;
        let ct = self.is_ct()?;
        if let (Some(expected), false, Some(fields)) = (edit.if_version, ct, body.as_object_mut()) {
            fields.remove("if_version");
            self.check_version(name, expected)?;
        }
        let mut call =
            Call::new(Method::POST, self.url(&["datasets", name.as_str(), "versions"])).json(&body);
        if edit.item_ids.is_none() {
            // Items that are there already, or gone already, make no version.
            call = call.repeatable();
        }
        let mut answer: Value = self.http().json(&accepts_json(call).long())?;
        if !ct {
            // The contract tells less than a change holds.
            let now = self.dataset(name, answer.get("version").and_then(Value::as_u64))?;
            let item_count = now.item_ids.as_ref().map_or(now.item_count, |ids| ids.len() as u64);
            let defaults = json!({
                "name": now.name, "kind": now.kind, "version": now.version, "item_count": item_count,
                "created_at": now.created_at.unwrap_or_default(), "created_by": now.created_by,
                "description": now.description, "added": [], "already_present": [], "not_found": [], "changed": true,
            });
            let Value::Object(defaults) = defaults else { return self.understood(answer) };
            if let Some(fields) = answer.as_object_mut() {
                for (key, value) in defaults {
                    let odd = value.is_array() && fields.get(&key).is_some_and(|given| !given.is_array());
                    if odd || !fields.contains_key(&key) {
                        fields.insert(key, value);
                    }
                }
            }
        }
        self.understood(answer)
    }

    fn check_version(&self, name: &DatasetName, expected: u64) -> Result<()> {
        let found = match self.dataset(name, None) {
            Ok(latest) => latest.version,
            Err(error) if error.is_not_found() => 0,
            Err(error) => return Err(error),
        };
        if found == expected {
            return Ok(());
        }
        Err(ClientError::Conflict {
            server: self.server(),
            message: format!("dataset {name} is at version {found}, not {expected}"),
            candidates: Vec::new(),
            deleted_run: None,
        })
    }

    /// Locks a dataset.
    pub fn lock_dataset(&self, name: &DatasetName, reason: Option<&str>) -> Result<DatasetLock> {
        let call = Call::new(Method::PUT, self.url(&["datasets", name.as_str(), "lock"]));
        self.http().json(&accepts_json(call.json(&json!({"reason": reason}))))
    }

    /// Unlocks it. False: it was not locked.
    pub fn unlock_dataset(&self, name: &DatasetName) -> Result<bool> {
        #[derive(Deserialize)]
        struct Answer {
            was_locked: bool,
        }
        let call = Call::new(Method::DELETE, self.url(&["datasets", name.as_str(), "lock"]));
        Ok(self.http().json::<Answer>(&accepts_json(call))?.was_locked)
    }

    fn all<T: DeserializeOwned>(&self, url: &url::Url, key: impl Fn(&T) -> String) -> Result<Vec<T>> {
        let mut items = Vec::new();
        self.each(url, PAGE_SIZE, key, &mut |item| {
            items.push(item);
            Ok(true)
        })?;
        Ok(items)
    }

    fn understood<T: DeserializeOwned>(&self, answer: Value) -> Result<T> {
        serde_json::from_value(answer).map_err(|error| ClientError::Protocol {
            server: self.server(),
            problem: format!("its answer is not as expected ({error})"),
        })
    }
}
