//! What ends after a while, by a clock that is wrong and is set right.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use ct_model::Scope;
use jiff::Timestamp;
use serde_json::json;

use crate::wire::{Server, json_as, made, send};

const START: i64 = 1_790_000_000;

/// A server whose clock shows so many seconds after the start.
struct Clocked {
    server: Server,
    seconds: Arc<AtomicI64>,
}

impl Clocked {
    fn start() -> Self {
        let seconds = Arc::new(AtomicI64::new(0));
        let told = Arc::clone(&seconds);
        let clock = move || Timestamp::from_second(START + told.load(Ordering::Relaxed)).unwrap();
        Self { server: Server::start_at(Arc::new(clock)), seconds }
    }

    fn at(&self, seconds: i64) -> &Server {
        self.seconds.store(seconds, Ordering::Relaxed);
        &self.server
    }
}

#[test]
fn the_address_of_an_upload_ends_whatever_the_clock_does() {
    let clocked = Clocked::start();
    let bytes = b"a log";
    let target = clocked.at(0).plan("r1.eval", bytes.len() as u64);
    // It ended; and the clock went back behind the time when it was made.
    for seconds in [100_000, -100_000, 3601, -1] {
        let answer = clocked.at(seconds).put(&target, bytes);
        assert_eq!(answer.status, 403, "{seconds}");
        assert!(answer.error().contains("has expired"), "{answer:?}");
    }
    assert_eq!(clocked.server.files("logs") + clocked.server.files("uploads"), 0);
    // A little later it is good, and a new one is good at any time.
    assert_eq!(clocked.at(30).put(&target, bytes).status, 200);
    for (seconds, name) in [(100_000, "r2.eval"), (-100_000, "r3.eval")] {
        let target = clocked.at(seconds).plan(name, bytes.len() as u64);
        assert_eq!(clocked.server.put(&target, bytes).status, 200, "{seconds}");
    }
}

#[test]
fn the_address_of_a_log_ends_too() {
    let clocked = Clocked::start();
    let server = clocked.at(0);
    let made = made("ct-11", "r1");
    server.upload(&made.key, &made.log);
    assert_eq!(server.register(&made.documents, Some(&made.header)).status, 200);
    let answer = server.json("GET", "/api/runs/r1/eval", None);
    let location = answer.header("location").unwrap();
    let target = location.strip_prefix(&format!("http://{}", server.address)).unwrap();
    let status = |seconds| {
        let server = clocked.at(seconds);
        send(server.address, "GET", target, &[], None).status
    };
    assert_eq!([0, 30, 100_000, -100_000, 30].map(status), [200, 200, 403, 403, 200]);
}

#[test]
fn a_token_ends_between_the_parts_of_an_upload() {
    let clocked = Clocked::start();
    let server = clocked.at(0);
    let label = json!({"label": "short", "expires_in_seconds": 60});
    let token = server.json("POST", "/api/tokens", Some(&label)).json()["token"].as_str().unwrap().to_owned();
    let part = |seconds: i64, id: &str, start: usize| {
        let address = clocked.at(seconds).address;
        let authorization = format!("Bearer {token}");
        let target = format!("/api/uploads/{id}/parts/{start}");
        send(address, "PUT", &target, &[("Authorization", &authorization)], Some(b"abc"))
    };
    let begin = json!({"filename": "r1.eval", "size_bytes": 9});
    let begun = json_as(server.address, &token, "POST", "/api/uploads", Some(&begin)).json();
    let id = begun["upload_id"].as_str().unwrap();
    assert_eq!([(0, 0), (59, 3), (60, 6)].map(|(second, at)| part(second, id, at).status), [200, 200, 401]);
    let answer = part(60, id, 6);
    assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
    // What came until then is there for the next token of the same user, by any clock.
    let begun = clocked.at(-9000).json("POST", "/api/uploads", Some(&begin)).json();
    assert_eq!((&begun["upload_id"], begun["parts"].as_array().unwrap().len()), (&json!(id), 2));
    let stranger = crate::wire::token(&clocked.server.store, "bob", Scope::Write);
    let target = format!("/api/uploads/{id}");
    assert_eq!(json_as(clocked.server.address, &stranger, "GET", &target, None).status, 404);
}
