//! Documents about datasets: named lists of trajectories or of runs, kept in versions that never change. Plain data.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Cursor, DatasetName};

/// What a dataset is a list of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum DatasetKind {
    /// Trajectories.
    #[default]
    Trajectory,
    /// Runs.
    Run,
}

impl DatasetKind {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trajectory => "trajectory",
            Self::Run => "run",
        }
    }
}

impl fmt::Display for DatasetKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for DatasetKind {
    type Err = crate::ChoiceError;
    fn from_str(text: &str) -> Result<Self, crate::ChoiceError> {
        match text {
            "trajectory" => Ok(Self::Trajectory),
            "run" => Ok(Self::Run),
            _ => Err(crate::ChoiceError { text: text.to_owned(), choices: "trajectory run" }),
        }
    }
}

/// Why, since when and by whom a dataset takes no new version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DatasetLock {
    /// Who locked it; absent for someone at the command line of the data folder.
    pub locked_by: Option<String>,
    /// When.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub locked_at: Timestamp,
    /// Why.
    pub reason: Option<String>,
}

/// A dataset in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Dataset {
    /// Its name.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub name: DatasetName,
    /// What it is a list of.
    pub kind: DatasetKind,
    /// Its newest version; the first is 1.
    pub latest_version: u64,
    /// How many items the newest version has.
    pub item_count: u64,
    /// When the first version was made.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub created_at: Option<Timestamp>,
    /// Who made it.
    pub created_by: Option<String>,
    /// When the newest version was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub updated_at: Option<Timestamp>,
    /// Who made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_by: Option<String>,
    /// Absent: it can be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<DatasetLock>,
}

/// One version of a dataset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DatasetVersion {
    /// The dataset.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub name: DatasetName,
    /// What it is a list of.
    pub kind: DatasetKind,
    /// Which version.
    pub version: u64,
    /// How many items it has.
    #[serde(default)]
    pub item_count: u64,
    /// Their ids, in the order in which they were given. Absent when they were not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item_ids: Option<Vec<String>>,
    /// When it was made.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub created_at: Option<Timestamp>,
    /// Who made it.
    pub created_by: Option<String>,
    /// What was said about this version.
    pub description: Option<String>,
    /// Of the dataset; absent: it can be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<DatasetLock>,
}

/// What makes a new version: a whole list, or changes to the newest one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DatasetEdit {
    /// Exactly these, in this order. Makes the dataset when there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item_ids: Option<Vec<String>>,
    /// Behind those that are there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub add: Option<Vec<String>>,
    /// Take these out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remove: Option<Vec<String>>,
    /// What the dataset is a list of. Absent: what it is, or trajectories when it is new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<DatasetKind>,
    /// What to say about the new version; it is not taken over from the one before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Refuse when this is not the newest version; 0: when there is such a dataset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub if_version: Option<u64>,
}

/// What came of a [`DatasetEdit`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DatasetChange {
    /// The dataset.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub name: DatasetName,
    /// What it is a list of.
    pub kind: DatasetKind,
    /// The newest version now.
    pub version: u64,
    /// How many items it has.
    pub item_count: u64,
    /// When it was made.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    /// Who made it.
    pub created_by: Option<String>,
    /// What was said about it.
    pub description: Option<String>,
    /// Ids that came in.
    pub added: Vec<String>,
    /// Ids that were to come in and were there.
    pub already_present: Vec<String>,
    /// Ids that went out.
    #[serde(default)]
    pub removed: Vec<String>,
    /// Ids that were to go out and were not there.
    pub not_found: Vec<String>,
    /// A version was made. False: it would be as the newest one.
    pub changed: bool,
}

/// Which datasets. The default is all of them, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DatasetQuery {
    /// Only lists of these.
    pub kind: Option<DatasetKind>,
    /// At most so many; all when absent.
    pub limit: Option<u64>,
    /// Go on behind this page.
    pub cursor: Option<Cursor>,
    /// Leave out so many first, for page numbers.
    pub skip: u64,
}

/// Which versions of a dataset, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DatasetVersionQuery {
    /// With their items, until so many ids are told; further versions come without. 0: without.
    pub item_ids_max: u64,
    /// At most so many; all when absent.
    pub limit: Option<u64>,
    /// Go on behind this page.
    pub cursor: Option<Cursor>,
    /// Leave out so many first, for page numbers.
    pub skip: u64,
}

/// A page of datasets, or of versions of one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DatasetPage<T = Dataset> {
    /// What is on the page.
    pub items: Vec<T>,
    /// How many there are on all pages.
    pub total_count: u64,
    /// For the next page; absent on the last.
    #[serde(default)]
    pub next_cursor: Option<Cursor>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_read_as_they_are_written() {
        for kind in [DatasetKind::Trajectory, DatasetKind::Run] {
            assert_eq!(kind.as_str().parse(), Ok(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
        assert_eq!(
            "runs".parse::<DatasetKind>().unwrap_err().to_string(),
            r#""runs" is none of trajectory run"#
        );
    }

    #[test]
    fn a_version_of_another_server_is_read() {
        let text = r#"{"name": "a", "kind": "run", "version": 2, "item_ids": ["x"], "created_at": null,
            "created_by": null, "description": null, "size": 1}"#;
        let version: DatasetVersion = serde_json::from_str(text).unwrap();
        assert_eq!((version.version, version.item_ids), (2, Some(vec!["x".to_owned()])));
    }
}
