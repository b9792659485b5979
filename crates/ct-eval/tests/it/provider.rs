//! A fake provider: answers requests in the order of a script, and keeps what it was asked.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// What is answered.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    /// A status, headers, and a body.
    Whole(u16, Vec<(&'static str, String)>, String),
    /// A body that ends before its length.
    Cut(String),
    /// The connection is closed without an answer.
    Closed,
    /// A body in pieces, with a pause before each.
    Slow(Duration, String),
    /// Half a body, and then nothing more for as long as the client waits.
    Stalled(String),
}

impl Answer {
    /// An answer as it should be.
    pub(crate) fn fine(body: String) -> Self {
        Self::Whole(200, Vec::new(), body)
    }

    /// A status that is none of success, with a body.
    pub(crate) fn status(status: u16, body: impl Into<String>) -> Self {
        Self::Whole(status, Vec::new(), body.into())
    }

    /// A stream that ends properly as a body, but before its last events: that many are sent.
    pub(crate) fn ended_after(events: usize, body: &str) -> Self {
        Self::fine(body.split_inclusive("\n\n").take(events).collect())
    }
}

/// A request that was made.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) headers: String,
    pub(crate) body: Value,
    pub(crate) at: Instant,
}

pub(crate) struct FakeProvider {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl FakeProvider {
    /// Answers each request with the next answer; the last one again and again.
    pub(crate) fn start(answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (next, seen) = (Arc::new(AtomicUsize::new(0)), Arc::clone(&asked));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answers, next, seen) = (answers.clone(), Arc::clone(&next), Arc::clone(&seen));
                std::thread::spawn(move || {
                    // A client that goes away is no matter here.
                    let _ = serve(&stream, &answers, &next, &seen);
                });
            }
        });
        Self { address, asked }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn serve(
    stream: &TcpStream,
    answers: &[Answer],
    next: &AtomicUsize,
    seen: &Mutex<Vec<Asked>>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        let (mut headers, mut length) = (String::new(), 0);
        loop {
            let mut header = String::new();
            reader.read_line(&mut header)?;
            if header.trim().is_empty() {
                break;
            }
            if let Some((name, value)) = header.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().unwrap();
            }
            headers.push_str(&header.to_ascii_lowercase());
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let body = serde_json::from_slice(&body).unwrap();
        seen.lock().unwrap().push(Asked { path, headers, body, at: Instant::now() });
        let n = next.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1);
        let kind = |body: &str| {
            let streams = body.starts_with("data:") || body.starts_with("event:");
            format!("content-type: {}\r\n", if streams { "text/event-stream" } else { "application/json" })
        };
        match &answers[n] {
            Answer::Whole(status, headers, body) => {
                let more: String =
                    headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
                let length = body.len();
                let kind = kind(body);
                write!(stream, "HTTP/1.1 {status} x\r\n{kind}{more}content-length: {length}\r\n\r\n{body}")?;
            }
            Answer::Cut(body) => {
                let (length, half, kind) = (body.len(), half(body), kind(body));
                write!(stream, "HTTP/1.1 200 x\r\n{kind}content-length: {length}\r\n\r\n{half}")?;
                return stream.shutdown(std::net::Shutdown::Both);
            }
            Answer::Closed => return stream.shutdown(std::net::Shutdown::Both),
            Answer::Slow(pause, body) => {
                write!(stream, "HTTP/1.1 200 x\r\n{}content-length: {}\r\n\r\n", kind(body), body.len())?;
                for piece in body.as_bytes().chunks(body.len().div_ceil(4)) {
                    std::thread::sleep(*pause);
                    stream.write_all(piece)?;
                }
            }
            Answer::Stalled(body) => {
                let (length, half, kind) = (body.len(), half(body), kind(body));
                write!(stream, "HTTP/1.1 200 x\r\n{kind}content-length: {length}\r\n\r\n{half}")?;
                // The client goes away when it has waited long enough.
                return reader.read(&mut [0]).map(drop);
            }
        }
    }
}

fn half(body: &str) -> &str {
    let end = (0..=body.len() / 2).rev().find(|&at| body.is_char_boundary(at));
    &body[..end.unwrap_or(0)]
}

/// The lines of a stream of events.
fn events(events: &[Value]) -> String {
    let lines = events.iter().map(|event| match event["type"].as_str() {
        Some(kind) => format!("event: {kind}\ndata: {event}\n\n"),
        None => format!("data: {event}\n\n"),
    });
    lines.collect()
}

/// A turn in OpenAI's protocol.
pub(crate) fn openai(content: &str, calls: &[(&str, Value)]) -> String {
    openai_turn(content, calls, &[], if calls.is_empty() { "stop" } else { "tool_calls" })
}

/// The same with parts of its reasoning, and another reason for its end. Arguments that are text are sent as they are.
pub(crate) fn openai_turn(content: &str, calls: &[(&str, Value)], details: &[Value], reason: &str) -> String {
    let chunk = |delta: Value, reason: Option<&str>| {
        json!({
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m", "created": 1,
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
        })
    };
    let mut chunks = vec![chunk(json!({"role": "assistant", "content": ""}), None)];
    chunks.extend(details.iter().map(|detail| chunk(json!({"reasoning_details": [detail]}), None)));
    // Text comes in pieces, and so do arguments.
    let middle = content.char_indices().nth(1).map_or(content.len(), |(at, _)| at);
    for piece in [&content[..middle], &content[middle..]].into_iter().filter(|piece| !piece.is_empty()) {
        chunks.push(chunk(json!({"content": piece}), None));
    }
    for (n, (name, arguments)) in calls.iter().enumerate() {
        let text = arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned);
        let (one, two) = text.split_at(text.len() / 2);
        let call = json!({
            "index": n, "id": format!("call_{n}"), "type": "function",
            "function": {"name": name, "arguments": one},
        });
        chunks.push(chunk(json!({"tool_calls": [call]}), None));
        chunks.push(chunk(json!({"tool_calls": [{"index": n, "function": {"arguments": two}}]}), None));
    }
    chunks.push(chunk(json!({}), Some(reason)));
    chunks.push(json!({
        "id": "chatcmpl-1", "choices": [],
        "usage": {
            "prompt_tokens": 120, "completion_tokens": 30, "total_tokens": 150,
            "prompt_tokens_details": {"cached_tokens": 100},
            "completion_tokens_details": {"reasoning_tokens": 10},
        },
    }));
    format!("{}data: [DONE]\n\n", events(&chunks))
}

/// A turn in OpenAI's newer protocol, after some reasoning that is sealed.
pub(crate) fn responses(content: &str, calls: &[(&str, Value)]) -> String {
    let mut all =
        vec![json!({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}})];
    let mut output = Vec::new();
    let mut item = |added: Value, deltas: Vec<Value>, done: Value| {
        let index = output.len();
        let event = |mut event: Value| {
            event["output_index"] = index.into();
            event
        };
        all.push(event(json!({"type": "response.output_item.added", "item": added})));
        all.extend(deltas.into_iter().map(event));
        all.push(event(json!({"type": "response.output_item.done", "item": done})));
        output.push(done);
    };
    let thought = json!({"type": "summary_text", "text": "I think."});
    item(
        json!({"type": "reasoning", "id": "rs_1", "summary": []}),
        vec![
            json!({"type": "response.reasoning_summary_text.delta", "summary_index": 0, "delta": "I think."}),
        ],
        json!({"type": "reasoning", "id": "rs_1", "summary": [thought], "encrypted_content": "sealed"}),
    );
    if !content.is_empty() {
        let (one, two) = content.split_at(1);
        let delta =
            |text: &str| json!({"type": "response.output_text.delta", "content_index": 0, "delta": text});
        let part = json!({"type": "output_text", "text": content, "annotations": []});
        item(
            json!({"type": "message", "id": "msg_1", "role": "assistant", "content": []}),
            vec![delta(one), delta(two)],
            json!({"type": "message", "id": "msg_1", "role": "assistant", "content": [part]}),
        );
    }
    for (n, (name, arguments)) in calls.iter().enumerate() {
        let text = arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned);
        let (one, two) = text.split_at(text.len() / 2);
        let call = |arguments: &str| {
            json!({"type": "function_call", "id": format!("fc_{n}"), "call_id": format!("call_{n}"), "name": name,
                "arguments": arguments})
        };
        let delta = |text: &str| json!({"type": "response.function_call_arguments.delta", "delta": text});
        item(call(""), vec![delta(one), delta(two)], call(&text));
    }
    all.push(
        json!({"type": "response.completed", "response": response("completed", &json!({"output": output}))}),
    );
    events(&all)
}

/// The end of a turn that did not come to its own: `failed` or `incomplete`, and what more is said of it.
pub(crate) fn responses_ended(status: &str, more: &Value) -> String {
    let delta =
        json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "so"});
    let end = json!({"type": format!("response.{status}"), "response": response(status, more)});
    events(&[json!({"type": "response.created", "response": {}}), delta, end])
}

fn response(status: &str, more: &Value) -> Value {
    let mut response = json!({
        "id": "resp_1", "object": "response", "status": status, "model": "m", "error": null, "output": [],
        "usage": {
            "input_tokens": 120, "output_tokens": 30, "total_tokens": 150,
            "input_tokens_details": {"cached_tokens": 100}, "output_tokens_details": {"reasoning_tokens": 10},
        },
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        response[key] = value.clone();
    }
    response
}

/// A turn in Anthropic's protocol.
pub(crate) fn anthropic(content: &str, calls: &[(&str, Value)]) -> String {
    anthropic_turn(content, calls, if calls.is_empty() { "end_turn" } else { "tool_use" })
}

/// The same with another reason for its end. Arguments that are text are sent as they are.
pub(crate) fn anthropic_turn(content: &str, calls: &[(&str, Value)], reason: &str) -> String {
    let mut all = vec![
        json!({"type": "message_start", "message": {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
            "usage": {
                "input_tokens": 20, "output_tokens": 1, "cache_creation_input_tokens": 7,
                "cache_read_input_tokens": 100,
            },
        }}),
        json!({"type": "ping"}),
    ];
    let mut block = |start: Value, deltas: Vec<Value>| {
        let index = all.iter().filter(|event| event["type"] == "content_block_start").count();
        all.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
        for delta in deltas {
            all.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        all.push(json!({"type": "content_block_stop", "index": index}));
    };
    if !content.is_empty() {
        block(json!({"type": "text", "text": ""}), vec![json!({"type": "text_delta", "text": content})]);
    }
    for (n, (name, arguments)) in calls.iter().enumerate() {
        let text = arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned);
        let (one, two) = text.split_at(text.len() / 2);
        let start = json!({"type": "tool_use", "id": format!("toolu_{n}"), "name": name, "input": {}});
        let delta = |piece: &str| json!({"type": "input_json_delta", "partial_json": piece});
        block(start, vec![delta(one), delta(two)]);
    }
    all.push(json!({
        "type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 30},
    }));
    all.push(json!({"type": "message_stop"}));
    events(&all)
}

/// A turn in Google's protocol.
pub(crate) fn google(content: &str, calls: &[(&str, Value)]) -> String {
    let mut parts = vec![json!({"text": content})];
    parts.extend(calls.iter().map(|(name, args)| json!({"functionCall": {"name": name, "args": args}})));
    let usage = json!({
        "promptTokenCount": 120, "candidatesTokenCount": 30, "totalTokenCount": 150, "cachedContentTokenCount": 100,
    });
    let (first, last) = parts.split_at(1);
    let chunk = |parts: &[Value], reason: Option<&str>| {
        let content = json!({"role": "model", "parts": parts});
        json!({"candidates": [{"index": 0, "content": content, "finishReason": reason}], "usageMetadata": usage})
    };
    events(&[chunk(first, None), chunk(last, Some("STOP"))])
}
