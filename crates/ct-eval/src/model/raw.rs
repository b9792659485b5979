//! What was sent to a provider and what came of it, for the log.
//!
//! The client library does not give away the bytes it sends: of the request this is what the library was given. Of the
//! answer it is what came over the line, piece by piece, its beginning and its end. Keys are in neither.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use genai::chat::{ChatFrameSink, ChatRequest, FrameCtx, RawFrameRef};
use serde_json::{Value, json};

/// What is kept of the beginning of an answer, and of its end.
const KEPT_BYTES_MAX: usize = 8 << 10;
/// Parts of a model's reasoning that it wants back.
const DETAILS_MAX: usize = 10_000;

/// A call as it was made.
#[derive(Debug, Clone)]
pub(crate) struct RawCall {
    /// All but the messages.
    pub(crate) request: Value,
    /// The messages, in the library's form.
    pub(crate) messages: Vec<Value>,
    /// What came.
    pub(crate) response: Value,
}

impl RawCall {
    /// The request of a call that is about to be made, to `address` with these settings.
    pub(super) fn new(chat: &ChatRequest, address: &str, settings: Value) -> Self {
        let mut request = serde_json::to_value(chat).unwrap_or_default();
        let messages = match request.get_mut("messages").map(Value::take) {
            Some(Value::Array(messages)) => messages,
            _ => Vec::new(),
        };
        if let (Value::Object(request), Value::Object(settings)) = (&mut request, settings) {
            request.insert("messages".to_owned(), json!([]));
            request.insert("address".to_owned(), address.into());
            request.extend(settings);
        }
        Self { request, messages, response: Value::Null }
    }
}

/// Keeps the beginning and the end of what comes.
#[derive(Default)]
pub(super) struct Frames(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    frames: usize,
    first: Vec<Value>,
    first_bytes: usize,
    last: VecDeque<(usize, Value)>,
    last_bytes: usize,
    left_out: usize,
    details: Vec<Value>,
    /// An answer that did not come to its end, in the protocol that says so with the last of its events.
    ended_early: Option<Value>,
}

/// Events that tell of it.
const EARLY_ENDS: [&str; 2] = ["response.failed", "response.incomplete"];

impl ChatFrameSink for Frames {
    fn on_frame(&self, _: &FrameCtx, frame: RawFrameRef<'_>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.frames += 1;
        if frame.data.contains("reasoning_details")
            && let Some(Value::Array(details)) = frame
                .json()
                .and_then(|mut json| json.pointer_mut("/choices/0/delta/reasoning_details").map(Value::take))
        {
            details.into_iter().for_each(|detail| kept.add_detail(detail));
        }
        if EARLY_ENDS.iter().any(|kind| frame.data.contains(kind))
            && let Some(mut event) = frame.json()
            && event["type"].as_str().is_some_and(|kind| EARLY_ENDS.contains(&kind))
        {
            kept.ended_early = Some(event["response"].take());
        }
        kept.add(&frame);
    }
}

impl Kept {
    fn add(&mut self, frame: &RawFrameRef<'_>) {
        let size_bytes = frame.data.len();
        if size_bytes > KEPT_BYTES_MAX {
            self.left_out += 1;
            return;
        }
        let data = frame.json().unwrap_or_else(|| frame.data.into());
        if self.last.is_empty() && self.first_bytes + size_bytes <= KEPT_BYTES_MAX {
            self.first_bytes += size_bytes;
            self.first.push(data);
            return;
        }
        self.last_bytes += size_bytes;
        self.last.push_back((size_bytes, data));
        while self.last_bytes > KEPT_BYTES_MAX
            && let Some((gone_bytes, _)) = self.last.pop_front()
        {
            self.last_bytes -= gone_bytes;
            self.left_out += 1;
        }
    }

    /// Pieces of one part come one by one, under its index.
    fn add_detail(&mut self, detail: Value) {
        let same = |known: &&mut Value| {
            detail.get("index").is_some()
                && ["index", "type"].iter().all(|key| known.get(key) == detail.get(key))
        };
        let Some(known) = self.details.last_mut().filter(|known| same(known)) else {
            if self.details.len() < DETAILS_MAX && detail.is_object() {
                self.details.push(detail);
            }
            return;
        };
        for (key, value) in detail.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
            match (known.get_mut(key), value) {
                (Some(Value::String(text)), Value::String(more))
                    if ["text", "summary", "data"].contains(&key.as_str()) =>
                {
                    text.push_str(more);
                }
                _ => known[key] = value.clone(),
            }
        }
    }
}

impl Frames {
    /// What came, without the key should it be there.
    pub(super) fn response(&self, key: &str) -> Value {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut response = json!({"frames": kept.frames, "first": kept.first});
        if !kept.last.is_empty() {
            response["left_out"] = kept.left_out.into();
            response["last"] = kept.last.iter().map(|(_, data)| data.clone()).collect();
        }
        let text = response.to_string();
        if key.len() < 8 || !text.contains(key) {
            return response;
        }
        serde_json::from_str(&text.replace(key, "[the key]")).unwrap_or_default()
    }

    /// The error that the provider ended the answer with, as the last of its events.
    pub(super) fn error(&self) -> Option<Value> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.ended_early.as_ref().map(|response| response["error"].clone()).filter(Value::is_object)
    }

    /// Whether the provider ended the answer for what it was about to say.
    pub(super) fn filtered(&self) -> bool {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let reason =
            kept.ended_early.as_ref().and_then(|response| response.pointer("/incomplete_details/reason"));
        reason.and_then(Value::as_str) == Some("content_filter")
    }

    /// Parts of the model's reasoning that its provider wants back as they were.
    pub(super) fn reasoning_details(&self) -> Vec<Value> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).details.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(data: &str) -> RawFrameRef<'_> {
        RawFrameRef { index: 0, event: None, data, elapsed_us: 0 }
    }

    #[test]
    fn the_beginning_and_the_end_are_kept() {
        let frames = Frames::default();
        for n in 0..1000 {
            let data = json!({"n": n, "text": "x".repeat(100)}).to_string();
            frames.0.lock().unwrap().add(&frame(&data));
        }
        frames.0.lock().unwrap().add(&frame("[DONE] secret-key"));
        let response = frames.response("secret-key");
        assert_eq!(response["first"][0]["n"], 0);
        let last = response["last"].as_array().unwrap();
        assert_eq!(
            (&last[last.len() - 2]["n"], last.last().unwrap()),
            (&json!(999), &json!("[DONE] [the key]"))
        );
        assert!(response.to_string().len() < 4 * KEPT_BYTES_MAX);
        let kept = last.len() + response["first"].as_array().unwrap().len();
        assert_eq!(kept as u64 + response["left_out"].as_u64().unwrap(), 1001);
    }

    #[test]
    fn pieces_of_reasoning_are_put_together() {
        let mut kept = Kept::default();
        for piece in [
            json!({"type": "reasoning.text", "index": 0, "text": "I ", "signature": null}),
            json!({"type": "reasoning.text", "index": 0, "text": "think"}),
            json!({"type": "reasoning.text", "index": 0, "signature": "s"}),
            json!({"type": "reasoning.encrypted", "index": 1, "data": "d"}),
        ] {
            kept.add_detail(piece);
        }
        let expected = [
            json!({"type": "reasoning.text", "index": 0, "text": "I think", "signature": "s"}),
            json!({"type": "reasoning.encrypted", "index": 1, "data": "d"}),
        ];
        assert_eq!(kept.details, expected);
    }
}
