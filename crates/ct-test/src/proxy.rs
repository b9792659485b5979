//! A connection that counts, and fails as it is told.
//!
//! Every request gets a connection of its own. Bodies are passed on as they come and never held.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes passed on at a time.
const PIECE_BYTES: usize = 64 << 10;

/// A request that came by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// `GET` and so on.
    pub method: String,
    /// With its query.
    pub path: String,
    /// Its `Range`, as it was asked for.
    pub range: Option<String>,
    /// It has an `Authorization`.
    pub authorized: bool,
    /// Bytes of the body that went up.
    pub bytes_up: u64,
    /// Bytes of the body that came down.
    pub bytes_down: u64,
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It is passed on.
    None,
    /// The connection is closed at once.
    Away,
    /// It is answered with this status and code, and not passed on.
    Refused(u16, &'static str),
    /// It is passed on so many bytes of its body, then the connection breaks.
    CutUp(u64),
    /// The answer is passed on so many bytes of its body, then the connection breaks.
    CutDown(u64),
    /// It is passed on, and its answer is lost.
    AnswerLost,
    /// It is passed on after a while.
    Slow(Duration),
    /// The answer comes in pieces of so many bytes, with a pause before each.
    Trickle(usize, Duration),
    /// The answer's `ETag` is no MD5 and looks like one, as of what is encrypted with keys of its own.
    OtherTag,
}

type Plan = Box<dyn Fn(&Seen, usize) -> Fault + Send + Sync>;

struct Shared {
    target: String,
    /// All, and how many of them were taken.
    seen: Mutex<(Vec<Seen>, usize)>,
    plan: Mutex<Plan>,
    ended: AtomicBool,
}

/// Passes requests on to a service.
pub struct Proxy {
    shared: Arc<Shared>,
    address: String,
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Proxy {
    /// Starts one before a service at `http://host:port`.
    pub fn start(service: &str) -> Self {
        let target = service.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = format!("http://{}", listener.local_addr().expect("a bound port"));
        let shared = Arc::new(Shared {
            target,
            seen: Mutex::default(),
            plan: Mutex::new(Box::new(|_, _| Fault::None)),
            ended: AtomicBool::new(false),
        });
        let serving = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if serving.ended.load(Ordering::Relaxed) {
                    return;
                }
                let (Ok(stream), shared) = (stream, Arc::clone(&serving)) else { continue };
                std::thread::spawn(move || {
                    // A connection that breaks is what this is for.
                    let _ = serve(&stream, &shared);
                    let _ = stream.shutdown(Shutdown::Both);
                });
            }
        });
        Self { shared, address }
    }

    /// Its address.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Decides from now on what becomes of requests, by what they are and by how many came since
    /// the last [`Proxy::take`].
    pub fn fail(&self, plan: impl Fn(&Seen, usize) -> Fault + Send + Sync + 'static) {
        *lock(&self.shared.plan) = Box::new(plan);
    }

    /// Passes everything on again.
    pub fn heal(&self) {
        self.fail(|_, _| Fault::None);
    }

    /// What came by since it was taken last.
    pub fn take(&self) -> Vec<Seen> {
        let seen = &mut *lock(&self.shared.seen);
        let from = std::mem::replace(&mut seen.1, seen.0.len());
        seen.0[from..].to_vec()
    }

    /// As [`Proxy::take`], and it can be taken again.
    pub fn seen(&self) -> Vec<Seen> {
        let seen = lock(&self.shared.seen);
        seen.0[seen.1..].to_vec()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address.trim_start_matches("http://"));
    }
}

fn serve(client: &TcpStream, shared: &Shared) -> io::Result<()> {
    let mut from = BufReader::with_capacity(PIECE_BYTES, client);
    let head = read_head(&mut from)?;
    let mut lines = head.lines();
    let mut words = lines.next().unwrap_or_default().split(' ');
    let value = |name: &str| {
        let line = head.lines().find(|line| {
            line.split_once(':').is_some_and(|(known, _)| known.trim().eq_ignore_ascii_case(name))
        })?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let seen = Seen {
        method: words.next().unwrap_or_default().to_owned(),
        path: words.next().unwrap_or_default().to_owned(),
        range: value("range"),
        authorized: value("authorization").is_some(),
        bytes_up: 0,
        bytes_down: 0,
    };
    let length: u64 = value("content-length").and_then(|text| text.parse().ok()).unwrap_or_default();
    let (number, since) = {
        let mut all = lock(&shared.seen);
        all.0.push(seen.clone());
        (all.0.len() - 1, all.0.len() - 1 - all.1)
    };
    let note = |up: u64, down: u64| {
        if let Some(seen) = lock(&shared.seen).0.get_mut(number) {
            seen.bytes_up += up;
            seen.bytes_down += down;
        }
    };
    let fault = (lock(&shared.plan))(&seen, since);
    match fault {
        Fault::Away => return Ok(()),
        Fault::Refused(status, code) => {
            // Who sends a body reads the answer behind it.
            io::copy(&mut (&mut from).take(length), &mut io::sink())?;
            let body = format!("<Error><Code>{code}</Code><Message>said the proxy</Message></Error>");
            let body = if seen.method == "HEAD" { String::new() } else { body };
            let mut to = client;
            return write!(
                to,
                "HTTP/1.1 {status} Fault\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
        }
        Fault::Slow(pause) => std::thread::sleep(pause),
        _ => {}
    }
    let service = TcpStream::connect(&shared.target)?;
    let mut to = &service;
    // One request a connection, so that the end of an answer is that of the connection.
    let head: String = head
        .lines()
        .filter(|line| !line.to_ascii_lowercase().starts_with("connection:"))
        .fold(String::new(), |mut text, line| {
            text.push_str(line);
            text.push_str("\r\n");
            text
        });
    to.write_all(format!("{head}connection: close\r\n\r\n").as_bytes())?;
    let up = if let Fault::CutUp(bytes) = fault { bytes.min(length) } else { length };
    copy(&mut (&mut from).take(up), &mut to, |n| note(n, 0))?;
    if up < length {
        return Ok(());
    }
    let mut back = BufReader::with_capacity(PIECE_BYTES, &service);
    let answer = read_head(&mut back)?;
    if fault == Fault::AnswerLost {
        io::copy(&mut back, &mut io::sink())?;
        return Ok(());
    }
    let mut to = client;
    let answer = if fault == Fault::OtherTag { with_other_tag(&answer) } else { answer };
    to.write_all(answer.as_bytes())?;
    to.write_all(b"\r\n")?;
    if let Fault::Trickle(bytes, pause) = fault {
        return copy_in(&mut back, &mut to, bytes, |n| {
            note(0, n);
            std::thread::sleep(pause);
        });
    }
    let down = if let Fault::CutDown(bytes) = fault { bytes } else { u64::MAX };
    copy(&mut back.take(down), &mut to, |n| note(0, n))
}

/// The lines up to the empty one.
fn read_head(from: &mut impl BufRead) -> io::Result<String> {
    let mut head = String::new();
    loop {
        let mut line = String::new();
        if from.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if line.trim_end().is_empty() {
            return Ok(head);
        }
        head.push_str(&line);
    }
}

/// The lines of an answer with the digits of its tag turned round: twice is as before.
fn with_other_tag(answer: &str) -> String {
    let mut lines = String::new();
    for line in answer.lines() {
        match line.split_once(':') {
            Some((name, tag)) if name.eq_ignore_ascii_case("etag") => {
                let tag: String = tag.trim().chars().rev().collect();
                lines.push_str(&format!("{name}: {tag}\r\nx-amz-server-side-encryption: aws:kms\r\n"));
            }
            _ => lines.push_str(&format!("{line}\r\n")),
        }
    }
    lines
}

fn copy(from: &mut impl Read, to: &mut impl Write, note: impl Fn(u64)) -> io::Result<()> {
    copy_in(from, to, PIECE_BYTES, note)
}

fn copy_in(
    from: &mut impl Read,
    to: &mut impl Write,
    piece_bytes: usize,
    note: impl Fn(u64),
) -> io::Result<()> {
    let mut piece = vec![0; piece_bytes];
    loop {
        match from.read(&mut piece)? {
            0 => return Ok(()),
            n => {
                // Counted before it is passed on: who got it may ask at once.
                note(n as u64);
                to.write_all(&piece[..n])?;
            }
        }
    }
}
