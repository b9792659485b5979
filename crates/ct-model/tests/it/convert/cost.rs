//! Prices: recorded ones first, else the table's, else unknown and said to be.

use ct_model::convert::Registration;
use ct_model::{PriceTable, RunHeader, TrajectoryDocument};
use serde_json::{Value, json};

use super::document;

/// One dollar for a million tokens read, two for a million written; `tiered` costs ten times as much above 1,000.
fn table() -> PriceTable {
    let pricing = json!({"input_per_million": 1.0, "output_per_million": 2.0, "cached_input_per_million": 0.1,
        "cache_write_multiplier": 1.25});
    let tiered = json!({"input_per_million": 10.0, "output_per_million": 20.0, "cached_input_per_million": 1.0,
        "cache_write_multiplier": 1.25, "tiers": [{"max_input_tokens": 1000, "input_per_million": 1.0,
        "output_per_million": 2.0, "cached_input_per_million": 0.1, "cache_write_multiplier": 1.25}]});
    let rows = json!([{"model": "priced", "pricing": pricing, "manual": true},
        {"model": "tiered", "pricing": tiered, "manual": true}]);
    PriceTable::parse(rows.to_string().as_bytes()).unwrap()
}

fn event(role: Option<&str>, model: &str, usage: Value) -> Value {
    let mut event = json!({"event": "model", "model": model, "output": {"usage": usage}});
    if let Some(role) = role {
        event["role"] = json!(role);
    }
    event
}

fn tokens(input: u64, output: u64) -> Value {
    json!({"input_tokens": input, "output_tokens": output, "total_tokens": input + output})
}

fn of(sample: &Value, prices: bool) -> TrajectoryDocument {
    let table = table();
    document(&json!({}), sample, prices.then_some(&table))
}

fn by_role(document: &TrajectoryDocument) -> Value {
    serde_json::to_value(&document.cost_by_role).unwrap()
}

fn total(document: &TrajectoryDocument) -> Option<f64> {
    document.cost.as_ref().unwrap().total_cost
}

#[test]
fn a_call_costs_what_is_recorded_else_what_the_table_says_else_is_unknown() {
    let mut recorded = tokens(500_000, 0);
    recorded["total_cost"] = json!(7.25);
    let sample = json!({"events": [
        event(Some("untrusted"), "priced", recorded),
        event(Some("untrusted"), "priced", tokens(1_000_000, 500_000)),
        event(Some("monitor/m"), "unknown", tokens(10, 10)),
        event(Some("monitor/m"), "priced", tokens(1_000_000, 0)),
        event(None, "priced", tokens(0, 1)),
        event(None, "priced", Value::Null),
    ]});
    let document = of(&sample, true);
    assert_eq!(
        by_role(&document),
        json!({
            "untrusted": {"total_usd": 9.25, "by_model": {"priced": 9.25}},
            "monitor/m": {"total_usd": 1.0, "by_model": {"priced": 1.0, "unknown": null}},
            "default": {"total_usd": 0.000002, "by_model": {"priced": 0.000002}},
        })
    );
    assert_eq!(total(&document), Some(10.250002));
    assert_eq!(document.cost.unwrap().input_tokens, Some(2_500_010));

    let document = of(&sample, false);
    assert_eq!(by_role(&document)["untrusted"], json!({"total_usd": 7.25, "by_model": {"priced": null}}));
    assert_eq!(
        by_role(&document)["monitor/m"],
        json!({"total_usd": null, "by_model": {"priced": null, "unknown": null}})
    );
    assert_eq!(total(&document), Some(7.25));
}

#[test]
fn cached_reads_and_the_seats_turns_cost_nothing() {
    let mut cached = event(Some("trusted"), "priced", tokens(1_000_000, 0));
    cached["cache"] = json!("read");
    let mut written = event(Some("trusted"), "priced", tokens(1_000_000, 0));
    written["cache"] = json!("write");
    let sample = json!({"events": [
        cached, written,
        event(Some("untrusted"), "eval/seat", tokens(1_000_000, 0)),
        event(Some("untrusted"), "eval2/seat", tokens(1_000_000, 0)),
        event(Some("hidden_untrusted"), "priced", tokens(2_000_000, 0)),
    ]});
    let document = of(&sample, true);
    assert_eq!(
        by_role(&document),
        json!({
            "trusted": {"total_usd": 1.0, "by_model": {"priced": 1.0}},
            "hidden_untrusted": {"total_usd": 2.0, "by_model": {"priced": 2.0}},
        })
    );
    assert_eq!(document.authors, ["priced"]);
}

#[test]
fn a_cached_read_alone_is_free_not_unknown() {
    let mut cached = event(Some("trusted"), "unknown", tokens(1, 1));
    cached["cache"] = json!("read");
    let document = of(&json!({"events": [cached]}), false);
    assert_eq!(by_role(&document), json!({"trusted": {"total_usd": 0.0, "by_model": {"unknown": 0.0}}}));
}

#[test]
fn tiers_are_of_calls_not_of_their_sum() {
    let calls: Vec<Value> = (0..4).map(|_| event(Some("r"), "tiered", tokens(1000, 0))).collect();
    let usage = json!({"tiered": tokens(4000, 0)});
    let document = of(&json!({"events": calls, "model_usage": usage}), true);
    assert_eq!(total(&document), Some(0.004));
    assert_eq!(by_role(&document)["r"]["by_model"]["tiered"], 0.004);
    // The sum alone does not tell the tiers of its calls.
    let document = of(&json!({"model_usage": usage}), true);
    assert_eq!(total(&document), None);
    assert_eq!(by_role(&document), json!({"default": {"total_usd": null, "by_model": {"tiered": null}}}));
}

#[test]
fn tokens_without_events_are_priced_by_their_sum() {
    let usage = json!({"priced": {"input_tokens": 1_000_000, "output_tokens": 1_000_000, "total_tokens": 3_000_000,
        "input_tokens_cache_read": 1_000_000, "reasoning_tokens": 5}, "free": {"total_cost": 0}});
    let document = of(&json!({"model_usage": usage}), true);
    assert_eq!(total(&document), Some(3.1));
    assert_eq!(
        serde_json::to_value(&document.cost).unwrap(),
        json!({"input_tokens": 1_000_000, "output_tokens": 1_000_000, "total_tokens": 3_000_000,
            "input_tokens_cache_write": null, "input_tokens_cache_read": 1_000_000, "reasoning_tokens": 5, "total_cost": 3.1})
    );
    assert_eq!(document.token_usage.map(Value::Object), Some(usage));
    assert_eq!(document.models, ["free", "priced"]);
    let nothing = of(&json!({}), true);
    assert_eq!((nothing.cost, nothing.cost_by_role, nothing.token_usage), (None, None, None));
}

fn registered(samples: &[Value]) -> (RunHeader, bool) {
    let mut registration = Registration::default();
    for sample in samples {
        registration.add(&of(sample, true), sample["metadata"]["environment"]["setting"].as_str());
    }
    let mut header = ct_model::convert::run_header(
        &ct_model::convert::HeaderFacts::default(),
        &ct_model::convert::RunOptions::default(),
    );
    registration.apply(&mut header);
    (header, registration.is_incomplete())
}

#[test]
fn a_runs_sums_say_when_they_are_lower_bounds() {
    let priced = json!({"events": [event(None, "priced", tokens(1_000_000, 0)), event(Some("r"), "priced", tokens(500_000, 0))],
        "metadata": {"environment": {"id": "e", "setting": "z"}}});
    let unknown = json!({"events": [event(None, "unknown", tokens(1, 1))], "metadata": {"environment": {"id": "e", "setting": "a"}}});
    let silent = json!({"id": "no model was called"});

    let (header, incomplete) = registered(&[priced.clone(), priced.clone(), silent.clone()]);
    assert!(!incomplete);
    assert_eq!((header.trajectory_count, header.total_cost_usd), (Some(3), Some(3.0)));
    assert_eq!(serde_json::to_value(&header.cost_by_model).unwrap(), json!({"priced": 3.0}));
    assert_eq!(header.models, Some(vec!["priced".to_owned()]));
    assert_eq!(header.control_settings, Some(vec!["z".to_owned()]));

    let (header, incomplete) = registered(&[unknown.clone(), priced]);
    assert!(incomplete);
    assert_eq!(header.total_cost_usd, Some(1.5));
    assert_eq!(serde_json::to_value(&header.cost_by_model).unwrap(), json!({"priced": 1.5, "unknown": null}));
    assert_eq!(header.control_settings, Some(vec!["a".to_owned(), "z".to_owned()]));

    let (header, incomplete) = registered(&[silent]);
    assert!(!incomplete);
    assert_eq!((header.total_cost_usd, header.cost_by_model.len()), (None, 0));
    assert!(registered(&[unknown]).1);
}

#[test]
fn odd_amounts_are_no_prices() {
    for amount in [json!(-1), json!("5"), json!(null), json!([2])] {
        let mut usage = tokens(0, 0);
        usage["total_cost"] = amount.clone();
        let document = of(
            &json!({"events": [event(None, "unknown", usage.clone())], "model_usage": {"unknown": usage}}),
            false,
        );
        let recorded = if amount == json!([2]) { Some(2.0) } else { None };
        assert_eq!(total(&document), recorded, "{amount}");
    }
}

#[test]
fn reasoning_beside_the_output_is_priced_and_what_a_total_does_not_explain_is_not() {
    let usage = |total: u64| json!({"input_tokens": 100_000, "output_tokens": 10_000, "reasoning_tokens": 40_000, "total_tokens": total});
    for (total_tokens, cost) in [(110_000, Some(0.12)), (150_000, Some(0.2)), (150_001, None)] {
        let by_call = of(&json!({"events": [event(None, "priced", usage(total_tokens))]}), true);
        let by_sum = of(&json!({"model_usage": {"priced": usage(total_tokens)}}), true);
        for document in [by_call, by_sum] {
            assert_eq!(total(&document), cost, "{total_tokens}");
            assert_eq!(by_role(&document)["default"]["by_model"]["priced"], json!(cost), "{total_tokens}");
        }
    }
}

#[test]
fn a_price_that_is_no_number_leaves_the_run_incomplete() {
    let of_cost = |cost: &str| {
        let text = format!(
            r#"{{"model_usage": {{"m": {{"input_tokens": 1, "output_tokens": 1, "total_cost": {cost}}}}}}}"#
        );
        ct_log::json::parse(text.as_bytes()).unwrap()
    };
    for cost in ["NaN", "Infinity", "-Infinity", "1e400", "-1"] {
        let (header, incomplete) = registered(&[of_cost("2.5"), of_cost(cost), of_cost("1")]);
        assert!(incomplete, "{cost}");
        assert_eq!(header.total_cost_usd, Some(3.5), "{cost}");
        assert_eq!(serde_json::to_value(&header.cost_by_model).unwrap(), json!({"m": null}), "{cost}");
    }
    // A sum that no number holds.
    let (header, _) = registered(&[of_cost("1e308"), of_cost("1e308")]);
    assert_eq!((header.total_cost_usd, header.cost_by_model["m"]), (None, None));
}
