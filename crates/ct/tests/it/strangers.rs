//! Those without a token who send or read slowly take nobody's place.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;

use crate::logs::big_log;
use crate::server::{Answer, Served, Server, user_with_token};
use crate::support::Home;

/// The password of [`user_with_token`].
const PASSWORD: &str = "correct horse battery";

fn sign_in(served: &Served) -> Answer {
    served.ask("", "POST", "/api/auth/login", Some(&json!({"username": "ana", "password": PASSWORD})))
}

/// The beginning of a request whose body does not go on.
fn begun(served: &Served, path: &str) -> TcpStream {
    let mut stream = served.connect();
    let head = format!("POST {path} HTTP/1.1\r\nHost: test\r\nContent-Length: 1000\r\n\r\n{{\"username\": ");
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

/// How many of these connections are still being served.
fn open(streams: &mut [TcpStream]) -> usize {
    let mut open = 0;
    for stream in streams {
        stream.set_nonblocking(true).unwrap();
        let read = stream.read(&mut [0; 1]);
        open += usize::from(read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock));
    }
    open
}

#[test]
fn slow_sign_ins_and_forms_keep_nobody_waiting() {
    let Server { served, token, .. } = Server::start();
    let mut slow: Vec<TcpStream> = Vec::new();
    for path in ["/api/auth/login", "/login", "/api/trajectories/zip", "/runs/x/edit"] {
        slow.extend((0..100).map(|_| begun(&served, path)));
    }
    assert_eq!(sign_in(&served).status, 200);
    assert_eq!(served.get("", "/login").status, 200);
    assert_eq!(served.get(&token, "/api/runs").status, 200);
    assert_eq!(
        served.ask(&token, "POST", "/api/trajectories/zip", Some(&json!({"run_id": "x"}))).status,
        404
    );
    // They were not turned away to make room: they are given time.
    assert!(open(&mut slow) > 300);
}

#[test]
fn a_body_that_does_not_arrive_is_given_up() {
    let Server { served, .. } = Server::start();
    let mut stream = begun(&served, "/api/auth/login");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("\"error\""), "{answer}");
}

#[test]
fn connections_that_say_nothing_give_way_to_those_that_do() {
    let home = Home::new();
    let token = user_with_token(&home, "ana", "admin");
    // Few files make few connections: 64, when 128 of 256 are for the rest.
    let limit = ["/bin/sh", "-c", "ulimit -n 256 && exec \"$0\" \"$@\""];
    let served = Served::start_through(&limit, &home, &["--private"]);
    let ask = |stream: &mut TcpStream| {
        let head = format!("GET /api/whoami HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {token}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
        // The rest of it is short.
        let mut rest = Vec::new();
        while !rest.ends_with(b"}") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            rest.push(byte[0]);
        }
    };
    let mut known = served.connect();
    ask(&mut known);
    let mut strangers = Vec::new();
    for number in 0..300 {
        let mut stream = served.connect();
        if number % 2 == 0 {
            stream.write_all(b"GET /api/health HTTP/1.1\r\nHost: ").unwrap();
        }
        strangers.push(stream);
        if number % 50 == 0 {
            ask(&mut known);
        }
    }
    assert_eq!(served.get("", "/api/health").status, 200);
    assert_eq!(sign_in(&served).status, 200);
    assert_eq!(served.get(&token, "/api/runs").status, 200);
    ask(&mut known);
    assert!(open(&mut strangers) < 64);
}

#[test]
fn strangers_who_take_a_file_slowly_leave_others_theirs() {
    let home = Home::new();
    let token = user_with_token(&home, "ana", "admin");
    big_log(&home.path("big.eval"), 1, 24, 1 << 20);
    home.stdout(&["runs", "make", "big.eval"]);
    let run =
        home.json(&["runs", "list", "--format", "json"])["items"][0]["run_id"].as_str().unwrap().to_owned();
    let served = Served::start(&home, &["--public"]);
    let path = format!("/api/trajectories/zip?run_id={run}");
    let mut slow = Vec::new();
    loop {
        let mut stream = served.connect();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n").as_bytes()).unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        if &answer != b"HTTP/1.1 200" {
            assert_eq!(&answer, b"HTTP/1.1 503");
            break;
        }
        slow.push(stream);
        assert!(slow.len() < 40, "strangers get as many as they like");
    }
    let whole = served.get(&token, &path);
    assert_eq!(whole.status, 200);
    assert!(whole.body.len() > 24 << 20);
    assert_eq!(served.get("", "/api/runs").status, 200);
}
