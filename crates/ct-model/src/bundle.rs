//! The file form of a trajectory: `{"metadata": …, "sample": <the sample's JSON as it is in the log>}`.
//!
//! The sample goes out byte for byte and is not parsed, so a file is right exactly when it begins with
//! [`BundleFrame::head`], ends with [`BundleFrame::TAIL`], and what lies between has the sample's size and CRC.

use serde_json::{Map, Value, json};

use crate::TrajectoryDocument;

/// What stands around the sample in a trajectory file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleFrame {
    head: Vec<u8>,
}

const BEFORE_METADATA: &[u8] = br#"{"metadata":"#;
const BEFORE_SAMPLE: &[u8] = br#","sample":"#;

impl BundleFrame {
    /// What follows the sample.
    pub const TAIL: &'static [u8] = b"}\n";

    /// The frame of this document's file.
    pub fn new(document: &TrajectoryDocument) -> Self {
        let mut head = BEFORE_METADATA.to_vec();
        head.extend_from_slice(Value::Object(bundle_metadata(document)).to_string().as_bytes());
        head.extend_from_slice(BEFORE_SAMPLE);
        Self { head }
    }

    /// What precedes the sample.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// The metadata alone, as JSON.
    pub fn metadata(&self) -> &[u8] {
        &self.head[BEFORE_METADATA.len()..self.head.len() - BEFORE_SAMPLE.len()]
    }

    /// Length of the file around a sample of that many bytes.
    pub fn file_bytes(&self, sample_bytes: u64) -> u64 {
        self.head.len() as u64 + sample_bytes + Self::TAIL.len() as u64
    }
}

/// The `metadata` of one trajectory as the wire contract gives it. Who and when are a server's to say, and null here.
fn bundle_metadata(document: &TrajectoryDocument) -> Map<String, Value> {
    let extra = |key: &str, default: Value| document.extra.get(key).cloned().unwrap_or(default);
    let fields = json!({
        "trajectory_id": document.trajectory_id,
        "eval_log_url": document.eval_log_url,
        "eval_sample_id": document.eval_sample_id,
        "epoch": document.epoch,
        "run_id": document.run_id,
        "created_by": extra("created_by", Value::Null),
        "created_at": extra("created_at", Value::Null),
        "source_file": extra("source_file", Value::Null),
        "name": document.name,
        "tags": document.tags,
        "datasets": document.datasets,
        "description": document.description,
        "comments": extra("comments", json!([])),
        "step_comments": extra("step_comments", json!({})),
        "metadata": document.metadata,
    });
    let Value::Object(mut fields) = fields else { return Map::new() };
    if let Some(analysis) = document.extra.get("attack_analysis") {
        fields.insert("attack_analysis".to_owned(), analysis.clone());
    }
    fields
}
