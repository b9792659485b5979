//! A small HTTP server for tests: it answers what a closure says, and remembers what it was asked.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What was asked.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Path and query.
    pub(crate) target: String,
    /// By lower-case name.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn path(&self) -> &str {
        self.target.split('?').next().unwrap()
    }

    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        let (_, query) = self.target.split_once('?')?;
        query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    }
}

/// What is answered.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Close after so many bytes of the body, whatever the header promised.
    pub(crate) cut_after: Option<usize>,
    /// Say how long the body is.
    pub(crate) with_length: bool,
}

impl Answer {
    pub(crate) fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Vec::new(), body: body.into(), cut_after: None, with_length: true }
    }

    pub(crate) fn json(status: u16, body: &serde_json::Value) -> Self {
        Self::new(status, body.to_string()).header("content-type", "application/json")
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// A running server. It ends with the process.
pub(crate) struct Http {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Request>>>,
}

impl Http {
    /// Starts a server on a free port.
    pub(crate) fn start(answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<Request>>> = Arc::default();
        let (answer, log) = (Arc::new(answer), Arc::clone(&asked));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (answer, log) = (Arc::clone(&answer), Arc::clone(&log));
                let Ok(stream) = stream else { continue };
                std::thread::spawn(move || {
                    let _ = converse(stream, &*answer, &log);
                });
            }
        });
        Self { url, asked }
    }

    /// What it was asked so far.
    pub(crate) fn asked(&self) -> Vec<Request> {
        self.asked.lock().unwrap().clone()
    }
}

fn converse(
    stream: TcpStream,
    answer: &dyn Fn(&Request) -> Answer,
    log: &Mutex<Vec<Request>>,
) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    while let Some(request) = read_request(&mut reader, &mut stream)? {
        let head_only = request.method == "HEAD";
        let answered = answer(&request);
        log.lock().unwrap().push(request);
        let mut head = format!("HTTP/1.1 {} X\r\n", answered.status);
        for (name, value) in &answered.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let keep = answered.with_length && answered.cut_after.is_none();
        if answered.with_length {
            head.push_str(&format!("content-length: {}\r\n", answered.body.len()));
        }
        if !keep {
            head.push_str("connection: close\r\n");
        }
        head.push_str("\r\n");
        stream.write_all(head.as_bytes())?;
        if !head_only {
            let end = answered.cut_after.unwrap_or(usize::MAX).min(answered.body.len());
            stream.write_all(&answered.body[..end])?;
        }
        stream.flush()?;
        if !keep {
            return stream.shutdown(std::net::Shutdown::Both);
        }
    }
    Ok(())
}

fn read_request(
    reader: &mut BufReader<TcpStream>,
    stream: &mut TcpStream,
) -> std::io::Result<Option<Request>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let method = words.next().unwrap_or_default().to_owned();
    let target = words.next().unwrap_or_default().to_owned();
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    if headers.get("expect").is_some_and(|expect| expect.eq_ignore_ascii_case("100-continue")) {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    let mut body = Vec::new();
    if let Some(length) = headers.get("content-length").and_then(|length| length.parse::<usize>().ok()) {
        body.resize(length, 0);
        reader.read_exact(&mut body)?;
    } else if headers.contains_key("transfer-encoding") {
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let length = usize::from_str_radix(line.trim(), 16).unwrap_or(0);
            let mut chunk = vec![0; length + 2];
            reader.read_exact(&mut chunk)?;
            body.extend_from_slice(&chunk[..length]);
            if length == 0 {
                break;
            }
        }
    }
    Ok(Some(Request { method, target, headers, body }))
}

/// Asks another server the same, on a connection of its own.
pub(crate) fn forward(request: &Request, upstream: &str) -> std::io::Result<Answer> {
    let address = upstream.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address)?;
    let mut head = format!("{} {} HTTP/1.1\r\n", request.method, request.target);
    for (name, value) in &request.headers {
        if !["connection", "host", "content-length", "transfer-encoding", "expect"].contains(&name.as_str()) {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    head.push_str(&format!(
        "host: {address}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        request.body.len()
    ));
    stream.write_all(head.as_bytes())?;
    stream.write_all(&request.body)?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let status = line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(502);
    let mut answer = Answer::new(status, Vec::new());
    let mut chunked = false;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        let (name, value) = (name.to_ascii_lowercase(), value.trim());
        match name.as_str() {
            "connection" | "content-length" => {}
            "transfer-encoding" => chunked = true,
            // Without the server's name the client comes back here.
            "location" => answer = answer.header(&name, value.strip_prefix(upstream).unwrap_or(value)),
            _ => answer = answer.header(&name, value),
        }
    }
    if chunked {
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let length = usize::from_str_radix(line.trim(), 16).unwrap_or(0);
            let mut chunk = vec![0; length + 2];
            reader.read_exact(&mut chunk)?;
            answer.body.extend_from_slice(&chunk[..length]);
            if length == 0 {
                break;
            }
        }
    } else {
        reader.read_to_end(&mut answer.body)?;
    }
    Ok(answer)
}
