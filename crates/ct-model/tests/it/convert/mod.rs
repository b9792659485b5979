//! From logs to run headers and trajectory documents.

mod cost;
mod families;
mod golden;
mod robust;
mod shapes;
pub(crate) mod shared;

use ct_log::json::Reader;
use ct_model::convert::{HeaderFacts, SampleFacts, trajectory_document};
use ct_model::{PriceTable, TrajectoryDocument};
use serde_json::Value;

/// The facts of a sample written as a value.
fn sample(json: &Value) -> SampleFacts {
    SampleFacts::read(&mut Reader::new(json.to_string().as_bytes())).expect("it is JSON")
}

/// The document of a sample in a log with that header.
fn document(header: &Value, json: &Value, prices: Option<&PriceTable>) -> TrajectoryDocument {
    trajectory_document(&HeaderFacts::from_value(header), &sample(json), prices)
}
