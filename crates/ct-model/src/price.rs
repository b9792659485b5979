//! Prices of model calls, from a rate file in the shape of the API's `/api/pricing` rows. No rates are built in.
//!
//! See [`PriceTable`] for what is never guessed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ModelUsage;

/// The largest rate file accepted, in bytes.
const PRICE_FILE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Why a rate file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PriceError {
    /// More than 16 MiB.
    #[error("rate file is larger than {PRICE_FILE_BYTES_MAX} bytes")]
    TooLarge,
    /// Not JSON, or not rows.
    #[error("rate file: expected [row…] or {{\"items\": [row…]}}, row being {{model, pricing}}: {reason}")]
    Shape {
        /// What was found instead, with line and column.
        reason: String,
    },
    /// A rate that is negative or no number.
    #[error("rate file: {field} of {model:?} is not a number of at least 0")]
    Rate {
        /// The row's model.
        model: String,
        /// The rate.
        field: &'static str,
    },
    /// Two rows of equal standing with different rates.
    #[error("rate file: {model:?} has two rows with different rates")]
    Conflict {
        /// The rows' model.
        model: String,
    },
}

/// Rates by model.
///
/// Nothing is ever guessed: a model that is not in the table, a token count that is not known and a rate that is not
/// stated make the cost unknown (`None`), never zero.
///
/// Left to the caller: a cost that the log records goes before any table, and a call that was answered from the
/// runner's local cache costs nothing (that is the contract's "a cached read"). Such calls are not to be priced here;
/// `input_tokens_cache_read` is something else: what the provider read from its own cache, and charges for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PriceTable {
    rows: BTreeMap<String, Row>,
}

#[derive(Debug, Clone, PartialEq)]
struct Row {
    base: Rates,
    /// Ascending by `input_tokens_max`.
    tiers: Vec<Tier>,
    manual: bool,
}

#[derive(Debug, Clone, PartialEq)]
struct Tier {
    /// `None` is no limit.
    input_tokens_max: Option<u64>,
    rates: Rates,
}

/// US dollars per million tokens.
#[derive(Debug, Clone, PartialEq)]
struct Rates {
    input_per_million: Option<f64>,
    output_per_million: Option<f64>,
    cached_input_per_million: Option<f64>,
    /// On `input_per_million`.
    cache_write_multiplier: Option<f64>,
}

/// A model and its price, as rate files and the API have it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PriceRow {
    /// The model's name.
    pub model: String,
    /// Null for a model that is known and has no price.
    #[serde(default)]
    pub pricing: Option<Pricing>,
    /// Set by hand: goes before a row that is not.
    #[serde(default)]
    pub manual: Option<bool>,
}

/// US dollars per million tokens. What is absent is not known.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct Pricing {
    /// Tokens read.
    pub input_per_million: Option<f64>,
    /// Tokens written.
    pub output_per_million: Option<f64>,
    /// Tokens read from the provider's cache.
    pub cached_input_per_million: Option<f64>,
    /// Tokens written to the provider's cache: on `input_per_million`.
    pub cache_write_multiplier: Option<f64>,
    /// Other rates for calls up to a size. Absent: there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tiers: Option<Vec<PriceTier>>,
}

/// The rates of calls of at most so many input tokens.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct PriceTier {
    /// All input: read, cached and written to the cache. Null is no limit.
    pub max_input_tokens: Option<u64>,
    /// As in [`Pricing`].
    pub input_per_million: Option<f64>,
    /// As in [`Pricing`].
    pub output_per_million: Option<f64>,
    /// As in [`Pricing`].
    pub cached_input_per_million: Option<f64>,
    /// As in [`Pricing`].
    pub cache_write_multiplier: Option<f64>,
}

#[derive(Deserialize)]
struct PageDocument {
    items: Vec<PriceRow>,
}

impl PriceTable {
    /// Reads a rate file: a JSON array of rows, or the API's `{"items": rows}`. Of two rows for one model the manual
    /// one counts.
    pub fn parse(json: &[u8]) -> Result<Self, PriceError> {
        if json.len() > PRICE_FILE_BYTES_MAX {
            return Err(PriceError::TooLarge);
        }
        let is_page = json.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'{');
        let documents = if is_page {
            serde_json::from_slice(json).map(|page: PageDocument| page.items)
        } else {
            serde_json::from_slice(json)
        };
        let documents: Vec<PriceRow> = documents.map_err(|e| PriceError::Shape { reason: e.to_string() })?;

        let mut rows: BTreeMap<String, Row> = BTreeMap::new();
        for document in documents {
            let Some(pricing) = document.pricing else { continue };
            let model = document.model;
            let row = pricing.row(&model, document.manual.unwrap_or(false))?;
            match rows.get(&model) {
                Some(known) if known.manual && !row.manual => continue,
                Some(known) if known.manual == row.manual && *known != row => {
                    return Err(PriceError::Conflict { model });
                }
                _ => rows.insert(model, row),
            };
        }
        Ok(Self { rows })
    }

    /// All rows, by model.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = PriceRow> {
        self.rows.iter().map(|(model, row)| {
            let tiers: Vec<PriceTier> = row
                .tiers
                .iter()
                .map(|tier| PriceTier {
                    max_input_tokens: tier.input_tokens_max,
                    input_per_million: tier.rates.input_per_million,
                    output_per_million: tier.rates.output_per_million,
                    cached_input_per_million: tier.rates.cached_input_per_million,
                    cache_write_multiplier: tier.rates.cache_write_multiplier,
                })
                .collect();
            let pricing = Pricing {
                input_per_million: row.base.input_per_million,
                output_per_million: row.base.output_per_million,
                cached_input_per_million: row.base.cached_input_per_million,
                cache_write_multiplier: row.base.cache_write_multiplier,
                tiers: (!tiers.is_empty()).then_some(tiers),
            };
            PriceRow { model: model.clone(), pricing: Some(pricing), manual: Some(row.manual) }
        })
    }

    /// Whether there is a row for the model: under its own name, else under the name behind its provider
    /// (`anthropic/claude-x` is found as `claude-x`).
    pub fn has(&self, model: &str) -> bool {
        self.row(model).is_some()
    }

    /// What **one call** costs in US dollars, not rounded (see [`round_usd`]), or `None` when that is not known.
    ///
    /// `input_tokens` are those that no cache was involved in; reads of the provider's cache and writes to it are
    /// charged on top, the latter at `input_per_million` × `cache_write_multiplier`. Reasoning tokens are output: part of
    /// `output_tokens`, or beside them where the total says so ([`billed_output_tokens`]). With tiers, the call is charged by the smallest tier whose `max_input_tokens` is at least all
    /// its input (read, cached and written to the cache), and by the row's own rates when it exceeds every tier.
    pub fn cost(&self, model: &str, usage: &ModelUsage) -> Option<f64> {
        let input_tokens = input_tokens(usage)?;
        self.row(model)?.rates(input_tokens).cost(usage)
    }

    /// As [`Self::cost`], for a usage that is the **sum of several calls**. A tiered model whose calls may have been
    /// in different tiers is not known: `None`, unless the sum itself still fits the lowest tier.
    pub fn cost_of_sum(&self, model: &str, usage: &ModelUsage) -> Option<f64> {
        let input_tokens = input_tokens(usage)?;
        let row = self.row(model)?;
        let is_certain = row.tiers.first().is_none_or(|tier| tier.holds(input_tokens));
        if is_certain { row.rates(input_tokens).cost(usage) } else { None }
    }

    fn row(&self, model: &str) -> Option<&Row> {
        self.rows.get(model).or_else(|| self.rows.get(model.split_once('/')?.1))
    }
}

/// Rounds an amount to the 6 places that documents keep. Sum first, round last.
pub fn round_usd(amount: f64) -> f64 {
    // By way of the decimal text: exact for every amount, where scaling by a million would err at ties.
    format!("{amount:.6}").parse().unwrap_or(amount)
}

/// The tokens that are charged as output.
///
/// Most providers count reasoning within `output_tokens`, some beside them; the total tells which. A total that exceeds
/// its parts by anything else holds tokens of a kind that is not known, so that there is no answer: `None`.
pub fn billed_output_tokens(usage: &ModelUsage) -> Option<u64> {
    let output = usage.output_tokens?;
    let (Some(total), Some(input)) = (usage.total_tokens, input_tokens(usage)) else { return Some(output) };
    match total.saturating_sub(input.saturating_add(output)) {
        0 => Some(output),
        beside if usage.reasoning_tokens == Some(beside) => Some(output.saturating_add(beside)),
        _ => None,
    }
}

fn input_tokens(usage: &ModelUsage) -> Option<u64> {
    let cached = usage.input_tokens_cache_read.unwrap_or(0);
    let written = usage.input_tokens_cache_write.unwrap_or(0);
    Some(usage.input_tokens?.saturating_add(cached).saturating_add(written))
}

impl Row {
    fn rates(&self, input_tokens: u64) -> &Rates {
        self.tiers.iter().find(|tier| tier.holds(input_tokens)).map_or(&self.base, |tier| &tier.rates)
    }
}

impl Tier {
    fn holds(&self, input_tokens: u64) -> bool {
        self.input_tokens_max.is_none_or(|max| input_tokens <= max)
    }
}

impl Rates {
    fn check(&self, model: &str) -> Result<(), PriceError> {
        for (field, rate) in [
            ("input_per_million", self.input_per_million),
            ("output_per_million", self.output_per_million),
            ("cached_input_per_million", self.cached_input_per_million),
            ("cache_write_multiplier", self.cache_write_multiplier),
        ] {
            if rate.is_some_and(|rate| !rate.is_finite() || rate < 0.0) {
                return Err(PriceError::Rate { model: model.to_owned(), field });
            }
        }
        Ok(())
    }

    fn cost(&self, usage: &ModelUsage) -> Option<f64> {
        let written = self.input_per_million.zip(self.cache_write_multiplier).map(|(rate, by)| rate * by);
        let mut millionths = 0.0;
        for (tokens, rate) in [
            (usage.input_tokens?, self.input_per_million),
            (billed_output_tokens(usage)?, self.output_per_million),
            (usage.input_tokens_cache_read.unwrap_or(0), self.cached_input_per_million),
            (usage.input_tokens_cache_write.unwrap_or(0), written),
        ] {
            if tokens > 0 {
                millionths += tokens as f64 * rate?;
            }
        }
        Some(millionths / 1e6).filter(|usd| usd.is_finite())
    }
}

impl Pricing {
    fn row(self, model: &str, manual: bool) -> Result<Row, PriceError> {
        let base = Rates {
            input_per_million: self.input_per_million,
            output_per_million: self.output_per_million,
            cached_input_per_million: self.cached_input_per_million,
            cache_write_multiplier: self.cache_write_multiplier,
        };
        base.check(model)?;
        let mut tiers = Vec::new();
        for tier in self.tiers.into_iter().flatten() {
            let rates = Rates {
                input_per_million: tier.input_per_million,
                output_per_million: tier.output_per_million,
                cached_input_per_million: tier.cached_input_per_million,
                cache_write_multiplier: tier.cache_write_multiplier,
            };
            rates.check(model)?;
            tiers.push(Tier { input_tokens_max: tier.max_input_tokens, rates });
        }
        tiers.sort_by_key(|tier| tier.input_tokens_max.unwrap_or(u64::MAX));
        Ok(Row { base, tiers, manual })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"[
        {"model": "claude-x", "manual": false, "pricing": {"input_per_million": 3, "output_per_million": 15,
            "cached_input_per_million": 0.3, "cache_write_multiplier": 1.25}},
        {"model": "google/gemini-y", "pricing": {"input_per_million": 2.5, "output_per_million": 15,
            "cached_input_per_million": 0.25, "cache_write_multiplier": 1, "tiers": [
            {"max_input_tokens": 200000, "input_per_million": 1.25, "output_per_million": 10,
             "cached_input_per_million": 0.125, "cache_write_multiplier": 1}]}},
        {"model": "no-cache", "pricing": {"input_per_million": 1, "output_per_million": 1}, "unknown": 1},
        {"model": "free", "pricing": {"input_per_million": 0, "output_per_million": 0}},
        {"model": "unpriced", "pricing": null}
    ]"#;

    fn usage(input: u64, output: u64, read: u64, written: u64) -> ModelUsage {
        ModelUsage {
            input_tokens: Some(input),
            output_tokens: Some(output),
            input_tokens_cache_read: Some(read),
            input_tokens_cache_write: Some(written),
            reasoning_tokens: Some(output),
            ..ModelUsage::default()
        }
    }

    fn table() -> PriceTable {
        PriceTable::parse(FILE.as_bytes()).unwrap()
    }

    #[track_caller]
    fn is(cost: Option<f64>, usd: f64) {
        assert_eq!(cost.map(round_usd), Some(usd));
    }

    #[test]
    fn charges_each_kind_of_token_once() {
        let table = table();
        is(table.cost("claude-x", &usage(1_000_000, 0, 0, 0)), 3.0);
        is(table.cost("claude-x", &usage(0, 1_000_000, 0, 0)), 15.0);
        is(table.cost("claude-x", &usage(0, 0, 1_000_000, 0)), 0.3);
        is(table.cost("claude-x", &usage(0, 0, 0, 1_000_000)), 3.75);
        is(table.cost("claude-x", &usage(3400, 400, 100, 20)), 0.016305);
        is(table.cost("free", &usage(3400, 400, 0, 0)), 0.0);
    }

    #[test]
    fn reasoning_is_charged_once_wherever_it_is_counted() {
        let table = table();
        let of = |total: Option<u64>, reasoning: Option<u64>| {
            let usage =
                ModelUsage { total_tokens: total, reasoning_tokens: reasoning, ..usage(100, 20, 10, 5) };
            table.cost("claude-x", &usage).map(|usd| (usd * 1e8).round() as u64)
        };
        // Within the output, beside it, and what the total does not explain.
        assert_eq!(of(Some(135), Some(15)), Some(62_175));
        assert_eq!(of(None, Some(15)), of(Some(135), Some(15)));
        assert_eq!(of(Some(120), Some(15)), of(Some(135), Some(15)), "a total without what the cache read");
        assert_eq!(of(Some(150), Some(15)), of(Some(135), Some(15)).map(|usd| usd + 15 * 15 * 100));
        assert_eq!(of(Some(150), Some(14)), None);
        assert_eq!(of(Some(136), None), None);
    }

    #[test]
    fn finds_a_model_by_name_then_without_provider() {
        let table = table();
        is(table.cost("anthropic/claude-x", &usage(1_000_000, 0, 0, 0)), 3.0);
        assert!(table.has("google/gemini-y") && table.has("anthropic/claude-x"));
        for unknown in
            ["gemini-y", "claude", "claude-x-2", "openrouter/anthropic/claude-x", "unpriced", "", "/"]
        {
            assert!(!table.has(unknown), "{unknown}");
            assert_eq!(table.cost(unknown, &usage(1, 1, 0, 0)), None, "{unknown}");
        }
    }

    #[test]
    fn never_guesses() {
        let table = table();
        is(table.cost("no-cache", &usage(10, 10, 0, 0)), 0.00002);
        assert_eq!(table.cost("no-cache", &usage(10, 10, 1, 0)), None, "no rate for cache reads");
        assert_eq!(table.cost("no-cache", &usage(10, 10, 0, 1)), None, "no rate for cache writes");
        assert_eq!(table.cost("claude-x", &ModelUsage::default()), None);
        let half = ModelUsage { output_tokens: None, ..usage(10, 0, 0, 0) };
        assert_eq!(table.cost("claude-x", &half), None);
        let no_cache = ModelUsage {
            input_tokens_cache_read: None,
            input_tokens_cache_write: None,
            ..usage(10, 0, 0, 0)
        };
        is(table.cost("claude-x", &no_cache), 0.00003);
    }

    #[test]
    fn takes_the_tier_of_all_input() {
        let (table, model) = (table(), "google/gemini-y");
        is(table.cost(model, &usage(200_000, 0, 0, 0)), 0.25);
        is(table.cost(model, &usage(200_001, 0, 0, 0)), 0.500003);
        is(table.cost(model, &usage(100_000, 0, 100_000, 0)), 0.1375);
        is(table.cost(model, &usage(100_000, 0, 100_001, 0)), 0.275);
        is(table.cost(model, &usage(100_000, 0, 0, 100_001)), 0.500003);

        is(table.cost_of_sum(model, &usage(200_000, 0, 0, 0)), 0.25);
        assert_eq!(table.cost_of_sum(model, &usage(200_001, 0, 0, 0)), None);
        is(table.cost_of_sum("claude-x", &usage(2_000_000, 0, 0, 0)), 6.0);
    }

    #[test]
    fn tiers_need_no_order_and_the_last_may_be_open() {
        let file = r#"{"items": [{"model": "m", "pricing": {"input_per_million": 9, "tiers": [
            {"max_input_tokens": null, "input_per_million": 3, "output_per_million": 0},
            {"max_input_tokens": 20, "input_per_million": 2, "output_per_million": 0},
            {"max_input_tokens": 10, "input_per_million": 1, "output_per_million": 0}]}}], "total_count": 1}"#;
        let table = PriceTable::parse(file.as_bytes()).unwrap();
        for (tokens, usd) in [(10, 0.00001), (11, 0.000022), (20, 0.00004), (21, 0.000063)] {
            is(table.cost("m", &usage(tokens, 0, 0, 0)), usd);
        }
    }

    #[test]
    fn rows_are_a_rate_file_again() {
        let table = table();
        let rows: Vec<PriceRow> = table.rows().collect();
        assert_eq!(rows.len(), 4);
        assert_eq!(PriceTable::parse(&serde_json::to_vec(&rows).unwrap()).unwrap(), table);
    }

    #[test]
    fn refuses_what_is_no_rate_file() {
        let parse = |text: &str| PriceTable::parse(text.as_bytes());
        let row = |model: &str, input: &str, manual: bool| {
            format!(
                r#"{{"model": "{model}", "pricing": {{"input_per_million": {input}}}, "manual": {manual}}}"#
            )
        };
        assert_eq!(parse("[]").unwrap(), PriceTable::default());
        for bad in
            ["", "3", "{}", "[{}]", r#"[{"model": "m", "pricing": {"input_per_million": "3"}}]"#, "[] []"]
        {
            assert!(matches!(parse(bad), Err(PriceError::Shape { .. })), "{bad}");
        }
        assert_eq!(
            parse(&format!("[{}]", row("m", "-1", false))),
            Err(PriceError::Rate { model: "m".into(), field: "input_per_million" })
        );
        let rows = |rows: &[String]| parse(&format!("[{}]", rows.join(",")));
        assert_eq!(
            rows(&[row("m", "1", false), row("m", "2", false)]),
            Err(PriceError::Conflict { model: "m".into() })
        );
        rows(&[row("m", "1", false), row("m", "1", false)]).unwrap();
        for order in
            [[row("m", "1", false), row("m", "2", true)], [row("m", "2", true), row("m", "1", false)]]
        {
            is(rows(&order).unwrap().cost("m", &usage(1_000_000, 0, 0, 0)), 2.0);
        }
    }

    #[test]
    fn rounds_as_decimals_are_rounded() {
        // Right answers: `round(x, 6)` of Python.
        for (amount, rounded) in [
            (0.0000005, 0.0),
            (0.0000015, 0.000002),
            (2.0000005, 2.000001),
            (1.0000015, 1.000001),
            (0.1 + 0.2, 0.3),
            (123456.7890125, 123456.789012),
            (0.006, 0.006),
        ] {
            assert_eq!(round_usd(amount), rounded, "{amount}");
        }
    }
}
