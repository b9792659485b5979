//! A client that shows everything an answer is: whether it came whole, too.

use std::io::{Read as _, Write as _};
use std::path::PathBuf;

use serde_json::Value;

use crate::server::Served;
use crate::support::Home;

/// `ct serve` over a home's data folder.
pub(super) struct Server {
    served: Served,
    pub(super) address: String,
}

/// Whose token may do everything.
pub(super) const ADMIN: &str = "root";

impl Server {
    /// Starts it, and waits until it listens.
    pub(super) fn start(home: &Home, arguments: &[&str]) -> Self {
        let served = Served::start(home, arguments);
        let address = served.url.strip_prefix("http://").unwrap().to_owned();
        Self { served, address }
    }

    pub(super) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], b"")
    }

    /// The JSON of an answer that has to be 200.
    #[track_caller]
    pub(super) fn json(&self, path: &str) -> Value {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", String::from_utf8_lossy(&answer.body));
        answer.json()
    }

    /// Whatever bytes on a connection of its own, and what comes back.
    pub(super) fn say(&self, bytes: &[u8]) -> String {
        let mut stream = self.served.connect();
        // A server that refuses may close before it has read all.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// One request on a connection of its own.
    pub(super) fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut stream = self.served.connect();
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n", self.address);
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() || !matches!(method, "GET" | "HEAD" | "DELETE") {
            head.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        // A server that refuses may close before it has read all.
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        Answer::parse(&bytes, method == "HEAD")
    }
}

/// The stored log whose hash begins like this.
pub(super) fn stored_log(home: &Home, prefix: &str) -> PathBuf {
    let mut folders = vec![home.path("../share")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "eval")
                && path.file_name().unwrap().to_str().unwrap().starts_with(prefix)
            {
                return path;
            }
        }
    }
    panic!("there is no log")
}

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    /// The body has the length that was announced, or its last chunk.
    pub(super) whole: bool,
}

impl Answer {
    fn parse(bytes: &[u8], no_body: bool) -> Self {
        let end = bytes.windows(4).position(|w| w == b"\r\n\r\n").expect("an answer has a head");
        let head = std::str::from_utf8(&bytes[..end]).unwrap();
        let (first, rest) = head.split_once("\r\n").unwrap_or((head, ""));
        let status = first.split(' ').nth(1).unwrap().parse().unwrap();
        let headers: Vec<(String, String)> = rest
            .lines()
            .map(|line| line.split_once(':').unwrap())
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let mut answer = Self { status, headers, body: bytes[end + 4..].to_vec(), whole: true };
        if answer.header("transfer-encoding") == Some("chunked") {
            answer.unchunk();
        } else if let Some(length) = answer.header("content-length") {
            answer.whole = no_body || answer.body.len() == length.parse::<usize>().unwrap();
        }
        answer
    }

    fn unchunk(&mut self) {
        let mut body = Vec::new();
        let mut rest = self.body.as_slice();
        self.whole = loop {
            let Some(end) = rest.windows(2).position(|w| w == b"\r\n") else { break false };
            let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
            rest = &rest[end + 2..];
            if size == 0 {
                break true;
            }
            if rest.len() < size + 2 {
                body.extend_from_slice(rest);
                break false;
            }
            body.extend_from_slice(&rest[..size]);
            rest = &rest[size + 2..];
        };
        self.body = body;
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    #[track_caller]
    pub(super) fn json(&self) -> Value {
        assert!(self.whole, "the answer is cut off");
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }
}
