//! The record of a draw: everything needed to judge it and to draw it again.

use serde::{Deserialize, Serialize};

use super::{ALGORITHM, Draw, Key, Part, Population, Request, Share, Size, Stratum, Unit, ids_sha256};
use crate::{Field, RunId};

/// Raised when a field changes its meaning or goes.
const FORMAT_VERSION: u32 = 1;

/// A run that trajectories are drawn from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrawnFrom {
    /// The run.
    pub run_id: RunId,
    /// SHA-256 of the run's log, in hex.
    pub log_sha256: String,
}

/// What the trajectories came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The run.
    pub run: DrawnFrom,
    /// Those drawn from together with it.
    pub more_runs: Vec<DrawnFrom>,
    /// The filters the trajectories passed, all of them, as canonical texts.
    pub filters: Vec<String>,
}

/// The record of a draw.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of this format: 1.
    pub format_version: u32,
    /// How it was drawn: [`ALGORITHM`].
    pub algorithm: String,
    /// The run drawn from, or the first of them.
    pub run_id: RunId,
    /// SHA-256 of the run's log, in hex.
    pub log_sha256: String,
    /// The others, where it was drawn from several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more_runs: Vec<DrawnFrom>,
    /// Filters applied before the draw.
    pub filters: Vec<String>,
    /// The seed.
    pub seed: u64,
    /// Fields that make strata; empty for a draw without strata.
    pub stratify_by: Vec<Field>,
    /// Field that makes groups.
    pub group_by: Option<Field>,
    /// What sizes and shares count.
    pub unit: Unit,
    /// What was drawn from, after the filters.
    pub population: Population,
    /// The parts.
    pub parts: Vec<ManifestPart>,
    /// The strata.
    pub strata: Vec<ManifestStratum>,
    /// What the user was told.
    pub warnings: Vec<String>,
}

/// One part, without its ids.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestPart {
    /// `part-1`, `part-2`, …, `rest`.
    pub name: String,
    /// Whether it is what the others left.
    pub is_rest: bool,
    /// What was asked for; null for the rest.
    pub asked: Option<Size>,
    /// What that comes to, in units.
    pub units: usize,
    /// How many trajectories it has.
    pub trajectories: usize,
    /// How many of them errored.
    pub errored: usize,
    /// SHA-256 of the ids: sorted, each followed by a line feed.
    pub ids_sha256: String,
}

/// One stratum.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ManifestStratum {
    /// Values in the order of `stratify_by`; null where nothing is recorded.
    pub key: Key,
    /// How many units it had.
    pub units: usize,
    /// Whether some part's exact share is below 1.
    pub is_thin: bool,
    /// What each part got, in the order of the parts.
    pub shares: Vec<ManifestShare>,
}

/// What one part got of one stratum, in units.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ManifestShare {
    /// The exact share as a fraction, such as `7/3`.
    pub exact: String,
    /// The same, as near as a number can be.
    pub asked: f64,
    /// What it got.
    pub got: usize,
}

impl Manifest {
    /// Records a draw.
    pub fn new(source: Source, request: &Request, draw: &Draw) -> Self {
        let part = |part: &Part| ManifestPart {
            name: part.name.clone(),
            is_rest: part.is_rest,
            asked: part.size,
            units: part.units,
            trajectories: part.ids.len(),
            errored: part.errored,
            ids_sha256: ids_sha256(part.ids.iter()),
        };
        let share = |share: &Share| ManifestShare {
            exact: share.exact.to_string(),
            asked: share.exact.value(),
            got: share.got,
        };
        let stratum = |stratum: &Stratum| ManifestStratum {
            key: stratum.key.clone(),
            units: stratum.units,
            is_thin: stratum.is_thin,
            shares: stratum.shares.iter().map(share).collect(),
        };
        Self {
            format_version: FORMAT_VERSION,
            algorithm: ALGORITHM.to_owned(),
            run_id: source.run.run_id,
            log_sha256: source.run.log_sha256,
            more_runs: source.more_runs,
            filters: source.filters,
            seed: request.seed,
            stratify_by: request.stratify_by.clone(),
            group_by: request.group_by.clone(),
            unit: draw.unit,
            population: draw.population.clone(),
            parts: draw.parts.iter().map(part).collect(),
            strata: draw.strata.iter().map(stratum).collect(),
            warnings: draw.warnings.iter().map(ToString::to_string).collect(),
        }
    }
}
