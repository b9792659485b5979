//! A finished sample as the log holds it.

use std::io::Write as _;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::events::{Recorder, message_json, time, usages_json};
use crate::model::Message;

/// How a sample ended, if not by itself.
#[derive(Debug, Clone)]
pub(crate) enum Ended {
    /// The agent was done.
    Done,
    /// A limit ended it.
    Limit {
        /// As logs name it: `message`, `token`, `time`, `cost`.
        kind: &'static str,
        /// Of that kind's unit.
        limit: f64,
    },
    /// Its environment was not ready: nothing was done.
    NotReady(String),
    /// It failed.
    Error(String),
}

/// What a sample's JSON is made of.
pub(crate) struct SampleParts<'a> {
    pub(crate) id: &'a str,
    pub(crate) epoch: u64,
    pub(crate) uuid: &'a str,
    pub(crate) input: &'a str,
    pub(crate) sandbox: Value,
    pub(crate) messages: &'a [Message],
    pub(crate) output: Option<Value>,
    pub(crate) scores: Option<Map<String, Value>>,
    pub(crate) metadata: Map<String, Value>,
    pub(crate) ended: &'a Ended,
    pub(crate) recorder: &'a Recorder,
}

impl SampleParts<'_> {
    /// The sample's JSON.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        let recorder = self.recorder;
        let messages: Vec<Value> = self.messages.iter().map(message_json).collect();
        let output = self.output.clone();
        let output = output.unwrap_or_else(|| json!({"model": "", "choices": [], "completion": ""}));
        let mut out = Vec::with_capacity(recorder.events().len() + recorder.pool().len() + (64 << 10));
        let mut object = Object { out: &mut out, first: true };
        object.field("id", &json!(self.id));
        object.field("epoch", &json!(self.epoch));
        object.field("input", &json!(self.input));
        object.field("target", &json!(""));
        object.field("sandbox", &self.sandbox);
        object.field("messages", &Value::Array(messages));
        object.field("output", &output);
        if let Some(scores) = &self.scores {
            object.field("scores", &Value::Object(scores.clone()));
        }
        object.field("metadata", &Value::Object(self.metadata.clone()));
        object.field("store", &json!({}));
        object.raw("events", &[b"[", recorder.events(), b"]"]);
        object.field("model_usage", &usages_json(recorder.usage()));
        object.field("role_usage", &usages_json(recorder.role_usage()));
        object.field("started_at", &json!(time(recorder.started_at())));
        object.field("completed_at", &json!(time(Timestamp::now())));
        object.field("total_time", &json!(recorder.total_time().as_secs_f64()));
        object.field("working_time", &json!(recorder.working_time().as_secs_f64()));
        object.field("uuid", &json!(self.uuid));
        if let Ended::Error(message) = self.ended {
            object.field("error", &error_json(message));
        }
        object.field("error_retries", &json!([]));
        object.field("attachments", &json!({}));
        let (messages, calls) = (recorder.pool(), recorder.calls());
        object.raw("events_data", &[b"{\"messages\":[", messages, b"],\"calls\":[", calls, b"]}"]);
        if let Ended::Limit { kind, limit } = self.ended {
            object.field("limit", &json!({"type": kind, "limit": limit}));
        }
        out.push(b'}');
        out
    }
}

/// An error as logs write it.
pub(crate) fn error_json(message: &str) -> Value {
    json!({"message": message, "traceback": message, "traceback_ansi": message})
}

struct Object<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

impl Object<'_> {
    fn key(&mut self, key: &str) {
        self.out.push(if std::mem::take(&mut self.first) { b'{' } else { b',' });
        // Keys are plain words, and writing to a vector cannot fail.
        let _ = write!(self.out, "\"{key}\":");
    }

    fn field(&mut self, key: &str, value: &Value) {
        self.key(key);
        let _ = serde_json::to_writer(&mut *self.out, value);
    }

    fn raw(&mut self, key: &str, parts: &[&[u8]]) {
        self.key(key);
        for part in parts {
            self.out.extend_from_slice(part);
        }
    }
}
