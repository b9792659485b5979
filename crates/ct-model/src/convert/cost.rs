//! What model calls cost: recorded prices first, else a table's; what has neither is unknown, never guessed.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::sample::{ModelCalls, SampleFacts};
use super::value::{number, object};
use crate::{ModelUsage, PriceTable, RoleCost, round_usd};

/// The role that calls without a role are counted under.
const NO_ROLE: &str = "default";

/// A usage as a log records it.
fn recorded_usage(usage: &Map<String, Value>) -> ModelUsage {
    let tokens = |key: &str| usage.get(key).and_then(number).filter(|n| *n >= 0.0).map(|n| n as u64);
    ModelUsage {
        input_tokens: tokens("input_tokens"),
        output_tokens: tokens("output_tokens"),
        total_tokens: tokens("total_tokens"),
        input_tokens_cache_write: tokens("input_tokens_cache_write"),
        input_tokens_cache_read: tokens("input_tokens_cache_read"),
        reasoning_tokens: tokens("reasoning_tokens"),
        total_cost: usage.get("total_cost").and_then(number).filter(|cost| *cost >= 0.0),
        extra: Map::new(),
    }
}

/// The known part of a price, and whether it is the whole.
#[derive(Clone, Copy, Default)]
struct Known {
    usd: Option<f64>,
    incomplete: bool,
}

impl Known {
    fn add(&mut self, other: Known) {
        if let Some(usd) = other.usd {
            self.usd = Some(self.usd.unwrap_or(0.0) + usd).filter(|usd| usd.is_finite());
            self.incomplete |= self.usd.is_none();
        }
        self.incomplete |= other.incomplete;
    }

    /// The whole price, or nothing.
    fn whole(self) -> Option<f64> {
        self.usd.filter(|_| !self.incomplete)
    }

    fn of(usd: Option<f64>) -> Self {
        Known { usd, incomplete: usd.is_none() }
    }
}

fn price_of_calls(calls: &ModelCalls, prices: Option<&PriceTable>) -> Known {
    let mut known = Known { usd: calls.recorded_usd, incomplete: calls.unpriced_dropped > 0 };
    for tokens in &calls.unpriced {
        known.add(Known::of(prices.and_then(|table| table.cost(&calls.model, &tokens.usage()))));
    }
    known
}

/// Tokens and price of a sample, and prices by role. Both absent when the log records no tokens.
pub(super) struct Costs {
    pub(super) total: Option<ModelUsage>,
    pub(super) by_role: Option<BTreeMap<String, RoleCost>>,
}

pub(super) fn costs(sample: &SampleFacts, prices: Option<&PriceTable>) -> Costs {
    let mut roles: BTreeMap<String, BTreeMap<String, Known>> = BTreeMap::new();
    let mut models: BTreeMap<&str, Known> = BTreeMap::new();
    for calls in &sample.model_calls {
        let known = price_of_calls(calls, prices);
        let role = calls.role.as_deref().unwrap_or(NO_ROLE).to_owned();
        roles.entry(role).or_default().entry(calls.model.clone()).or_default().add(known);
        models.entry(&calls.model).or_default().add(known);
    }

    let mut total = ModelUsage::default();
    let mut usd = Known::default();
    let no_calls = sample.model_calls.is_empty();
    for (model, recorded) in &sample.model_usage {
        let Some(recorded) = object(recorded) else { continue };
        let usage = recorded_usage(recorded);
        total.add(&usage);
        // The calls one by one before their sum: the price of a call may depend on its size.
        let known = usage
            .total_cost
            .or_else(|| models.get(model.as_str()).and_then(|known| known.whole()))
            .or_else(|| prices.and_then(|table| table.cost_of_sum(model, &usage)));
        usd.add(Known::of(known));
        // Tokens of a model that no event accounts for.
        if !models.contains_key(model.as_str()) {
            roles.entry(NO_ROLE.to_owned()).or_default().insert(model.clone(), Known::of(known));
        }
    }
    if sample.model_usage.is_empty() {
        for calls in &sample.model_calls {
            total.add(&calls.usage);
        }
        for known in models.values() {
            usd.add(*known);
        }
    }
    total.total_cost = usd.usd.map(round_usd);
    let nothing = sample.model_usage.is_empty() && no_calls;

    let by_role: BTreeMap<String, RoleCost> = roles
        .into_iter()
        .map(|(role, models)| {
            let mut sum = Known::default();
            for known in models.values() {
                sum.add(*known);
            }
            let by_model = models.into_iter().map(|(model, known)| (model, known.whole().map(round_usd)));
            (
                role,
                RoleCost {
                    total_usd: sum.usd.map(round_usd),
                    by_model: by_model.collect(),
                    extra: Map::new(),
                },
            )
        })
        .collect();
    Costs { total: (!nothing).then_some(total), by_role: (!by_role.is_empty()).then_some(by_role) }
}
