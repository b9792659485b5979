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
        const JSON: &str = "content-type: application/json\r\n";
        match &answers[n] {
            Answer::Whole(status, headers, body) => {
                let more: String =
                    headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
                let length = body.len();
                write!(stream, "HTTP/1.1 {status} x\r\n{JSON}{more}content-length: {length}\r\n\r\n{body}")?;
            }
            Answer::Cut(body) => {
                let (length, half) = (body.len(), &body[..body.len() / 2]);
                write!(stream, "HTTP/1.1 200 x\r\n{JSON}content-length: {length}\r\n\r\n{half}")?;
                return stream.shutdown(std::net::Shutdown::Both);
            }
            Answer::Closed => return stream.shutdown(std::net::Shutdown::Both),
            Answer::Slow(pause, body) => {
                write!(stream, "HTTP/1.1 200 x\r\n{JSON}content-length: {}\r\n\r\n", body.len())?;
                for piece in body.as_bytes().chunks(body.len().div_ceil(4)) {
                    std::thread::sleep(*pause);
                    stream.write_all(piece)?;
                }
            }
        }
    }
}

/// A turn in OpenAI's protocol.
pub(crate) fn openai(content: &str, calls: &[(&str, Value)]) -> String {
    let calls: Vec<Value> = calls
        .iter()
        .enumerate()
        .map(|(n, (name, arguments))| {
            json!({
                "id": format!("call_{n}"), "type": "function",
                "function": {"name": name, "arguments": arguments.to_string()},
            })
        })
        .collect();
    let mut message = json!({"role": "assistant", "content": content});
    if !calls.is_empty() {
        message["tool_calls"] = Value::from(calls.clone());
    }
    let reason = if calls.is_empty() { "stop" } else { "tool_calls" };
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "model": "m", "created": 1,
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {
            "prompt_tokens": 120, "completion_tokens": 30, "total_tokens": 150,
            "prompt_tokens_details": {"cached_tokens": 100},
            "completion_tokens_details": {"reasoning_tokens": 10},
        },
    })
    .to_string()
}

/// A turn in Anthropic's protocol.
pub(crate) fn anthropic(content: &str, calls: &[(&str, Value)]) -> String {
    let mut parts = vec![json!({"type": "text", "text": content})];
    parts.extend(calls.iter().enumerate().map(|(n, (name, arguments))| {
        json!({"type": "tool_use", "id": format!("toolu_{n}"), "name": name, "input": arguments})
    }));
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": parts,
        "stop_reason": if calls.is_empty() { "end_turn" } else { "tool_use" },
        "usage": {
            "input_tokens": 20, "output_tokens": 30, "cache_creation_input_tokens": 7,
            "cache_read_input_tokens": 100,
        },
    })
    .to_string()
}
