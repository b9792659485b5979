//! What a run header gains when its trajectories are known: counts, sums and sets over the documents.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::value::{get_object, number};
use crate::{RunHeader, TrajectoryDocument, round_usd};

/// Sums over the documents of a run, one after the other.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Registration {
    trajectory_count: u64,
    total_cost_usd: Option<f64>,
    cost_by_model: BTreeMap<String, Option<f64>>,
    models: BTreeSet<String>,
    control_settings: BTreeSet<String>,
    incomplete: bool,
}

impl Registration {
    /// Adds a document. `control_setting` is the sample's `environment.setting`, which a document does not hold.
    pub fn add(&mut self, document: &TrajectoryDocument, control_setting: Option<&str>) {
        let total = document.cost.as_ref().and_then(|cost| cost.total_cost);
        let by_model = cost_by_model(document);
        self.merge(Self {
            trajectory_count: 1,
            total_cost_usd: total,
            incomplete: document.cost.is_some() && total.is_none() || by_model.values().any(Option::is_none),
            cost_by_model: by_model,
            models: document.models.iter().cloned().collect(),
            control_settings: control_setting.map(str::to_owned).into_iter().collect(),
        });
    }

    /// Adds the sums over the documents that follow.
    pub fn merge(&mut self, later: Self) {
        self.trajectory_count += later.trajectory_count;
        self.models.extend(later.models);
        self.control_settings.extend(later.control_settings);
        if let Some(cost) = later.total_cost_usd {
            self.total_cost_usd = Some(self.total_cost_usd.unwrap_or(0.0) + cost);
        }
        self.incomplete |= later.incomplete;
        for (model, cost) in later.cost_by_model {
            // Once a part is not known, no whole is. What is known is in the total.
            self.cost_by_model
                .entry(model)
                .and_modify(|sum| {
                    *sum = sum.zip(cost).map(|(sum, cost)| sum + cost).filter(|usd| usd.is_finite());
                })
                .or_insert(cost);
        }
    }

    /// The models of all documents added, sorted.
    pub fn models(&self) -> impl Iterator<Item = &String> {
        self.models.iter()
    }

    /// Number of documents added.
    pub fn trajectory_count(&self) -> u64 {
        self.trajectory_count
    }

    /// Whether some calls could not be priced, so that the sums are lower bounds.
    pub fn is_incomplete(&self) -> bool {
        self.incomplete
    }

    /// Writes the sums into a header.
    pub fn apply(&self, header: &mut RunHeader) {
        header.trajectory_count = Some(self.trajectory_count);
        header.total_cost_usd = self.total_cost_usd.filter(|usd| usd.is_finite()).map(round_usd);
        let rounded = self.cost_by_model.iter().map(|(model, cost)| (model.clone(), cost.map(round_usd)));
        header.cost_by_model = rounded.collect();
        header.models = Some(self.models.iter().cloned().collect());
        header.control_settings = Some(self.control_settings.iter().cloned().collect());
    }
}

/// The price of each model in a document: as recorded with its tokens, else the sum over the roles, null when a part of
/// it is not known.
fn cost_by_model(document: &TrajectoryDocument) -> BTreeMap<String, Option<f64>> {
    let mut costs: BTreeMap<String, Option<f64>> = BTreeMap::new();
    for (model, cost) in document.cost_by_role.iter().flatten().flat_map(|(_, role)| &role.by_model) {
        costs
            .entry(model.clone())
            .and_modify(|sum| *sum = sum.zip(*cost).map(|(sum, cost)| sum + cost))
            .or_insert(*cost);
    }
    if let Some(usage) = &document.token_usage {
        for model in usage.keys() {
            let recorded = get_object(usage, model)
                .and_then(|usage| usage.get("total_cost"))
                .and_then(number)
                .filter(|usd| *usd >= 0.0);
            if recorded.is_some() {
                costs.insert(model.clone(), recorded);
            } else {
                costs.entry(model.clone()).or_insert(None);
            }
        }
    }
    costs
}
