//! What is no request is refused in the envelope of errors, and nothing else is taken for such a refusal.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use ct_model::Scope;
use ct_server::Mode;
use serde_json::Value;

use crate::support;
use crate::wire::{Answer, Server};

/// What the library below would answer by itself.
const BARE: &str = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\
                    date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n";

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

#[test]
fn what_is_no_request_gets_the_envelope_of_errors() {
    let server = Server::start();
    let get = |path: &str, headers: &str| format!("GET {path} HTTP/1.1\r\nHost: test\r\n{headers}\r\n");
    let many: String = (0..100).map(|number| format!("x-{number}: 1\r\n")).collect();
    let large = format!("x: {}\r\n", "y".repeat(1 << 20));
    for (sent, status) in [
        ("HELLO\r\n\r\n".to_owned(), 400),
        ("\u{16}\u{3}\u{1} no TLS here\r\n\r\n".to_owned(), 400),
        (get("/api/health", "no header\r\n"), 400),
        (get("/api/health", "content-length: many\r\n"), 400),
        (get(&format!("/{}", "x".repeat(70_000)), ""), 414),
        (get("/api/health", &many), 431),
        (get("/api/health", &large), 431),
    ] {
        let mut stream = connect(&server);
        stream.write_all(sent.as_bytes()).unwrap();
        let answer = Answer::read(stream, true).unwrap();
        assert_eq!(answer.status, status, "{answer:?}");
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.header("connection"), Some("close"));
        assert_eq!(answer.header("x-request-id").map(str::len), Some(16));
        assert!(answer.error().len() > 10, "{answer:?}");
    }
}

#[test]
fn what_follows_a_request_and_is_none_gets_it_after_the_answer() {
    let server = Server::start();
    let mut stream = connect(&server);
    // Both at once, and the second one later.
    for later in [false, true] {
        stream = if later { connect(&server) } else { stream };
        stream.write_all(b"GET /api/health HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
        let mut start = [0; 12];
        if later {
            stream.read_exact(&mut start).unwrap();
        }
        stream.write_all(b"HELLO\r\n\r\n").unwrap();
        let mut rest = String::new();
        stream.read_to_string(&mut rest).unwrap();
        let (first, second) = rest.split_once("HTTP/1.1 400 ").unwrap();
        assert!(first.ends_with('}') && first.contains("\"status\""), "{first}");
        let (_, body) = second.split_once("\r\n\r\n").unwrap();
        let envelope: Value = serde_json::from_str(body).unwrap();
        assert!(envelope["error"].is_string(), "{envelope}");
    }
}

#[test]
fn bytes_of_a_log_that_look_like_a_refusal_are_sent_as_they_are() {
    let server = support::Server::start(Mode::Private);
    let token = server.token(Scope::Read);
    for name in [BARE.to_owned(), format!("{BARE}{BARE}"), format!("{}{BARE}", "x".repeat(1 << 20))] {
        let run = server.make_run(&name, 0);
        for connection in ["keep-alive", "close"] {
            let client = reqwest::blocking::Client::builder().no_proxy().build().unwrap();
            let request = client
                .get(format!("{}/api/runs/{run}/eval", server.base))
                .bearer_auth(&token)
                .header("connection", connection)
                .timeout(Duration::from_secs(60));
            let bytes = request.send().unwrap().error_for_status().unwrap().bytes().unwrap();
            assert_eq!(bytes, format!("log of {name}"), "{connection}");
        }
    }
}
