//! Logs in parts: in any order, from several clients, over the death of a server.

use std::env;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use ct_model::{LogHash, Scope};
use ct_server::Mode;
use ct_store::Store;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::wire::{self, Answer, Server, head, json_as, send};

#[test]
fn what_the_disk_has_no_room_for_is_refused_before_it_comes() {
    let server = Server::start();
    let client = Client::of(&server);
    let huge = 1_000_000_000_000_000_000_usize;
    let plan = json!({"filename": "a.eval", "size_bytes": huge});
    let query = ct_model::AuditQuery { limit: 1000, ..ct_model::AuditQuery::default() };
    let written = || server.store.audit_rows(&query).unwrap().len();
    let before = written();
    let plan = json_as(server.address, &server.token, "POST", "/api/eval-logs/upload", Some(&plan));
    for answer in [client.begin("a.eval", huge), plan] {
        assert_eq!(answer.status, 507, "{answer:?}");
        // What is needed and what there is.
        let numbers = answer.error();
        let numbers: Vec<u64> = numbers.split(' ').filter_map(|word| word.parse().ok()).collect();
        assert!(numbers.len() == 2 && numbers[0] < numbers[1] && numbers[1] > huge as u64, "{numbers:?}");
    }
    // Nothing of it was written, and what fits is taken.
    assert_eq!(written(), before);
    assert_eq!(client.begun("a.eval", 1000)["parts"], json!([]));
}

#[test]
fn a_name_that_is_taken_says_by_what_and_what_to_do() {
    let server = Server::start();
    server.upload("a.eval", b"of someone else");
    let answer = Client::of(&server).begin("a.eval", 7);
    assert_eq!(answer.status, 409);
    let (said, hash) = (answer.error(), sha256(b"of someone else"));
    for part in ["15 bytes", &hash, "by ann", "another name", "collected"] {
        assert!(said.contains(part), "{said}");
    }
    let head = server.json("GET", "/api/eval-logs/head?filename=a.eval", None).json();
    assert_eq!(head["sha256"], hash);
}

fn sha256(bytes: &[u8]) -> String {
    LogHash::from_bytes(Sha256::digest(bytes).into()).to_string()
}

fn crc32(bytes: &[u8]) -> String {
    crc32fast::hash(bytes).to_string()
}

/// Someone who uploads.
struct Client<'a> {
    address: SocketAddr,
    token: &'a str,
}

impl Client<'_> {
    fn of(server: &Server) -> Client<'_> {
        Client { address: server.address, token: &server.token }
    }

    fn begin(&self, filename: &str, size_bytes: usize) -> Answer {
        let body = json!({"filename": filename, "size_bytes": size_bytes});
        json_as(self.address, self.token, "POST", "/api/uploads", Some(&body))
    }

    /// Begins, or goes on with, a log whose name is told at the end.
    fn begin_unnamed(&self, resume_key: &str, size_bytes: usize) -> Answer {
        let body = json!({"resume_key": resume_key, "size_bytes": size_bytes});
        json_as(self.address, self.token, "POST", "/api/uploads", Some(&body))
    }

    fn complete_as(&self, id: &str, hash: &str, filename: &str) -> Answer {
        let body = json!({"sha256": hash, "filename": filename});
        json_as(self.address, self.token, "POST", &format!("/api/uploads/{id}/complete"), Some(&body))
    }

    fn begun(&self, filename: &str, size_bytes: usize) -> Value {
        let answer = self.begin(filename, size_bytes);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    fn part(&self, id: &str, start: usize, bytes: &[u8]) -> Answer {
        self.part_as(id, start, bytes, &crc32(bytes))
    }

    fn part_as(&self, id: &str, start: usize, bytes: &[u8], crc32: &str) -> Answer {
        let authorization = format!("Bearer {}", self.token);
        let headers = [("Authorization", authorization.as_str()), ("x-ct-crc32", crc32)];
        send(self.address, "PUT", &format!("/api/uploads/{id}/parts/{start}"), &headers, Some(bytes))
    }

    /// The status once the server is done with whoever else sends parts, or sent some and went away.
    fn complete_when_idle(&self, id: &str, hash: &str) -> u16 {
        loop {
            match self.complete(id, hash).status {
                503 => std::thread::yield_now(),
                status => return status,
            }
        }
    }

    fn complete(&self, id: &str, hash: &str) -> Answer {
        let body = json!({"sha256": hash});
        json_as(self.address, self.token, "POST", &format!("/api/uploads/{id}/complete"), Some(&body))
    }

    fn parts(&self, id: &str) -> Vec<(u64, u64)> {
        let answer = json_as(self.address, self.token, "GET", &format!("/api/uploads/{id}"), None);
        let parts = answer.json()["parts"].clone();
        let number = |part: &Value, field: &str| part[field].as_u64().unwrap();
        parts
            .as_array()
            .unwrap()
            .iter()
            .map(|part| (number(part, "start"), number(part, "size_bytes")))
            .collect()
    }
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|i| (i * 7 % 253) as u8).collect()
}

#[test]
fn parts_come_in_any_order_and_again() {
    let server = Server::start();
    let client = Client::of(&server);
    let log = bytes(2_500_000);
    let begun = client.begun("r1.eval", log.len());
    let id = begun["upload_id"].as_str().unwrap();
    assert_eq!((&begun["size_bytes"], &begun["parts"]), (&json!(log.len()), &json!([])));
    assert_eq!(client.part(id, 2_000_000, &log[2_000_000..]).status, 200);
    assert_eq!(client.part(id, 0, &log[..1_000_000]).status, 200);

    let answer = client.complete(id, &sha256(&log));
    assert_eq!(answer.status, 409);
    assert_eq!(answer.error(), "the upload is not complete; missing: bytes 1000000 to 2000000");
    // Asking again goes on; another user has an upload of their own.
    let again = client.begun("r1.eval", log.len());
    assert_eq!(again["upload_id"], begun["upload_id"]);
    let part = json!({"start": 0, "size_bytes": 1_000_000, "crc32": crc32fast::hash(&log[..1_000_000])});
    assert_eq!((again["parts"].as_array().unwrap().len(), &again["parts"][0]), (2, &part));
    let token = wire::token(&server.store, "bob", Scope::Write);
    let other = Client { address: server.address, token: &token };
    assert_ne!(other.begun("r1.eval", log.len())["upload_id"], begun["upload_id"]);
    assert_eq!(other.part(id, 0, &log[..10]).status, 404);
    assert_eq!(other.complete(id, &sha256(&log)).status, 404);

    // Overlapping parts are fine when they are the same.
    assert_eq!(client.part(id, 500_000, &log[500_000..2_200_000]).status, 200);
    let mut wrong = log[..20].to_vec();
    wrong[7] ^= 1;
    let answer = client.part(id, 0, &wrong);
    assert_eq!(answer.status, 409, "{answer:?}");
    assert_eq!(client.part(id, 0, &log[..1_000_000]).status, 200);

    let answer = client.complete(id, &sha256(&log));
    assert_eq!(answer.status, 200, "{answer:?}");
    let expected = json!({"bucket": "logs", "key": "r1.eval", "size_bytes": log.len(),
        "e_tag": format!("\"{}\"", sha256(&log)), "sha256": sha256(&log)});
    assert_eq!(answer.json(), expected);
    assert_eq!(client.complete(id, &sha256(&log)).json(), expected, "a repeated answer is the same");
    assert_eq!(client.begin("r1.eval", log.len()).status, 409);
    let found = server.json("GET", "/api/eval-logs/head?filename=r1.eval", None).json();
    assert_eq!(found["size_bytes"], log.len());
    let object = server.store.object(&"r1.eval".parse().unwrap()).unwrap().unwrap();
    assert!(std::fs::read(server.store.log_path(&object.log).unwrap()).unwrap() == log);
    assert_eq!(server.files("uploads"), 0);
}

#[test]
fn a_log_may_get_its_name_at_the_end() {
    let server = Server::start();
    let client = Client::of(&server);
    let log = bytes(1_000_000);
    let hash = sha256(&log);
    let begin = |client: &Client<'_>, key: &str, size: usize| {
        let answer = client.begin_unnamed(key, size);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    };
    let begun = begin(&client, "mine", log.len());
    let id = begun["upload_id"].as_str().unwrap();
    assert_eq!(begun["same_size"], false);
    assert_eq!(client.part(id, 0, &log[..600_000]).status, 200);
    // The same key and length of the same user go on; nothing else does.
    let again = begin(&client, "mine", log.len());
    assert_eq!((&again["upload_id"], again["parts"].as_array().unwrap().len()), (&json!(id), 1));
    let token = wire::token(&server.store, "bob", Scope::Write);
    let other = Client { address: server.address, token: &token };
    for begun in [
        begin(&other, "mine", log.len()),
        begin(&client, "yours", log.len()),
        begin(&client, "mine", log.len() + 1),
        client.begun("mine.eval", log.len()),
    ] {
        assert_ne!(begun["upload_id"], json!(id));
    }
    assert_eq!(client.begin_unnamed(&"x".repeat(129), 1).status, 400);
    let nothing = json!({"size_bytes": 1});
    assert_eq!(json_as(server.address, &server.token, "POST", "/api/uploads", Some(&nothing)).status, 400);

    assert_eq!(client.part(id, 600_000, &log[600_000..]).status, 200);
    assert_eq!(client.complete(id, &hash).status, 400, "it has no name");
    assert_eq!(client.complete_as(id, &hash, "../x.eval").status, 400);
    let answer = client.complete_as(id, &sha256(b"other"), "r1.eval");
    assert_eq!(answer.status, 422);
    assert_eq!((server.files("logs"), client.parts(id).len()), (0, 2));
    assert_eq!(client.complete_as(id, &hash, "r1.eval").json()["key"], "r1.eval");
    assert_eq!(client.complete_as(id, &hash, "r1.eval").status, 200);
    assert_eq!(client.complete_as(id, &hash, "r2.eval").status, 400, "it has a name by now");
    assert_eq!(client.complete(id, &hash).status, 200);
    // Who does not know the hash is told, and the name goes with it; a hash that is another is another log.
    let log = bytes(300_000);
    let id = begin(&client, "theirs", log.len())["upload_id"].as_str().unwrap().to_owned();
    let complete = |body: &Value| {
        let path = format!("/api/uploads/{id}/complete");
        json_as(server.address, &server.token, "POST", &path, Some(body))
    };
    assert_eq!(complete(&json!({"format": "eval"})).status, 409, "nothing is there yet");
    assert_eq!(client.part(&id, 0, &log).status, 200);
    assert_eq!(complete(&json!({})).status, 400);
    assert_eq!(complete(&json!({"format": "zip"})).status, 400);
    for body in [json!({"format": "eval"}), json!({"format": "eval"}), json!({"sha256": sha256(&log)})] {
        let answer = complete(&body).json();
        assert_eq!((&answer["sha256"], &answer["size_bytes"]), (&json!(sha256(&log)), &json!(log.len())));
        assert_eq!(answer["key"], format!("{}.eval", &sha256(&log)[..32]));
    }
    assert_eq!(complete(&json!({"sha256": hash})).status, 409);
    let log = bytes(1_000_000);

    // The key is free for the next log, which may be the same one.
    let next = begin(&client, "mine", log.len());
    assert_eq!((&next["same_size"], &next["parts"]), (&json!(true), &json!([])));
    assert_ne!(next["upload_id"], json!(id));
}

#[test]
fn of_two_that_send_the_same_log_the_first_counts() {
    let server = Server::start();
    let token = wire::token(&server.store, "bob", Scope::Write);
    let clients = [Client::of(&server), Client { address: server.address, token: &token }];
    let log = bytes(2_000_000);
    let hash = sha256(&log);
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let send = |client: &Client<'_>| {
            let id = client.begin_unnamed("k", log.len()).json()["upload_id"].as_str().unwrap().to_owned();
            assert_eq!(client.part(&id, 0, &log).status, 200);
            client.complete_as(&id, &hash, "r1.eval").status
        };
        let threads: Vec<_> = clients.iter().map(|client| scope.spawn(move || send(client))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(
        statuses.contains(&200) && statuses.iter().all(|status| [200, 409].contains(status)),
        "{statuses:?}"
    );
    assert_eq!(server.files("logs"), 1);
    assert!(server.store.check(false, &mut |_| ()).unwrap().findings.is_empty());
}

#[test]
fn what_is_wrong_is_not_taken() {
    let server = Server::start();
    let client = Client::of(&server);
    let log = bytes(1000);
    assert_eq!(client.begin("../r1.eval", 10).status, 400);
    assert_eq!(client.begin("r1.eval", 0).status, 400);
    let id = client.begun("r1.eval", log.len())["upload_id"].as_str().unwrap().to_owned();
    assert_eq!(client.part("0000", 0, &log).status, 404);
    assert_eq!(client.part("..%2F..%2Fct.sqlite", 0, &log).status, 404);
    assert_eq!(client.part(&id, 1, &log).status, 400);
    assert_eq!(client.part(&id, usize::MAX, &log).status, 400);
    assert_eq!(client.part(&id, 0, b"").status, 400);
    assert_eq!(client.part_as(&id, 0, &log, "nonsense").status, 400);
    let answer = client.part_as(&id, 0, &log, &crc32(b"other"));
    assert_eq!(answer.status, 422);
    assert!(answer.error().contains("from byte 0 on"), "{answer:?}");
    assert_eq!(client.parts(&id), []);
    // What was not what it was said to be is overwritten by what is.
    let mut wrong = log.clone();
    wrong[3] ^= 1;
    assert_eq!(client.part_as(&id, 0, &wrong, &crc32(&log)).status, 422);
    assert_eq!(client.part(&id, 0, &log).status, 200);
    let answer = client.complete(&id, &sha256(b"other"));
    assert_eq!(answer.status, 422);
    assert!(answer.error().contains(&sha256(&log)), "{answer:?}");
    assert_eq!(server.files("logs"), 0);

    let given_up = json_as(server.address, &server.token, "DELETE", &format!("/api/uploads/{id}"), None);
    assert_eq!(given_up.status, 204);
    assert_eq!(client.part(&id, 0, &log).status, 404);
    assert_eq!(server.files("uploads"), 0);
    let reader = wire::token(&server.store, "bob", Scope::Read);
    assert_eq!(Client { address: server.address, token: &reader }.begin("r1.eval", 1).status, 403);
    assert_eq!(Client { address: server.address, token: "" }.begin("r1.eval", 1).status, 401);
}

#[test]
fn a_part_that_breaks_off_does_not_count() {
    let server = Server::start();
    let client = Client::of(&server);
    let log = bytes(1_000_000);
    let id = client.begun("r1.eval", log.len())["upload_id"].as_str().unwrap().to_owned();
    let authorization = format!("Bearer {}", server.token);
    let target = format!("/api/uploads/{id}/parts/0");
    for length in [("Content-Length", "1000000"), ("Transfer-Encoding", "chunked")] {
        let mut stream = TcpStream::connect(server.address).unwrap();
        let head = head(server.address, "PUT", &target, &[("Authorization", &authorization), length]);
        stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
        let piece = if length.1 == "chunked" { wire::chunked(&log[..500_000], 1000) } else { log.clone() };
        stream.write_all(&piece[..400_000]).unwrap();
        drop(stream);
    }
    // While the server has not noticed yet the bytes are taken by the one that broke off.
    while client.part(&id, 0, &log).status == 503 {
        std::thread::yield_now();
    }
    assert_eq!(client.parts(&id), [(0, 1_000_000)]);
    assert_eq!(client.complete_when_idle(&id, &sha256(&log)), 200);
}

#[test]
fn two_clients_send_the_same_upload() {
    let server = Server::start();
    let log = bytes(3_000_000);
    let hash = sha256(&log);
    let id = Client::of(&server).begun("r1.eval", log.len())["upload_id"].as_str().unwrap().to_owned();
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let send = || {
            let client = Client::of(&server);
            for start in (0..log.len()).step_by(300_000) {
                // The other one is at it: it will be there soon.
                while client.part(&id, start, &log[start..start + 300_000]).status == 503 {
                    std::thread::yield_now();
                }
            }
            client.complete_when_idle(&id, &hash)
        };
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(send)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(statuses, [200, 200, 200]);
    assert_eq!(server.files("logs"), 1);
    assert!(server.store.check(false, &mut |_| ()).unwrap().findings.is_empty());
}

const FOLDER: &str = "CT_SERVER_TEST_FOLDER";

/// What the killed process runs: a server that tells its address.
#[test]
#[ignore = "the other tests of this file start it in a process of its own"]
fn child_that_serves() {
    let Ok(folder) = env::var(FOLDER) else { return };
    let store = Arc::new(Store::open(Path::new(&folder)).unwrap());
    let ready = |address| {
        println!("\nserving {address}");
        std::io::stdout().flush().unwrap();
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime
        .block_on(ct_server::serve(store, wire::config(Mode::Private), ready, std::future::pending()))
        .unwrap();
}

fn child(folder: &Path) -> (std::process::Child, SocketAddr) {
    let arguments = ["--exact", "uploads::child_that_serves", "--ignored", "--nocapture"];
    let mut command = Command::new(env::current_exe().unwrap());
    let mut process = command
        .args(arguments)
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let address =
        lines.map_while(Result::ok).find_map(|line| line.strip_prefix("serving ").map(str::to_owned));
    (process, address.unwrap().parse().unwrap())
}

#[test]
fn an_upload_goes_on_after_the_server_was_killed() {
    goes_on_after_kills(|client, size| client.begun("r1.eval", size));
    goes_on_after_kills(|client, size| client.begin_unnamed("some log", size).json());
}

fn goes_on_after_kills(begin: impl Fn(&Client<'_>, usize) -> Value) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let token = wire::token(&store, "ann", Scope::Write);
    let log = bytes(8_000_000);
    let hash = sha256(&log);
    const PART: usize = 500_000;
    let mut acknowledged: Vec<usize> = Vec::new();
    for round in 0..5 {
        let (mut process, address) = child(folder.path());
        let client = Client { address, token: &token };
        let begun = begin(&client, log.len());
        let id = begun["upload_id"].as_str().unwrap();
        let there = client.parts(id);
        // What was acknowledged outlives the process; a part whose answer did not get through may be there too.
        for start in &acknowledged {
            assert!(there.contains(&(*start as u64, PART as u64)), "{start} of {there:?}");
        }
        let missing =
            (0..log.len()).step_by(PART).filter(|start| !there.iter().any(|part| part.0 == *start as u64));
        let missing: Vec<usize> = missing.collect();
        if round == 4 {
            for start in missing {
                assert_eq!(client.part(id, start, &log[start..start + PART]).status, 200);
            }
            assert_eq!(client.complete_as(id, &hash, "r1.eval").status, 200);
            process.kill().unwrap();
            process.wait().unwrap();
            break;
        }
        // Two whole parts, and the server dies in the middle of the third.
        for start in &missing[..2] {
            assert_eq!(client.part(id, *start, &log[*start..start + PART]).status, 200);
            acknowledged.push(*start);
        }
        let mut stream = TcpStream::connect(address).unwrap();
        let authorization = format!("Bearer {token}");
        let headers = [("Authorization", authorization.as_str()), ("Content-Length", "500000")];
        let target = format!("/api/uploads/{id}/parts/{}", missing[2]);
        stream.write_all(format!("{}\r\n", head(address, "PUT", &target, &headers)).as_bytes()).unwrap();
        stream.write_all(&log[missing[2]..missing[2] + PART / 2]).unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
    }
    let object = store.object(&"r1.eval".parse().unwrap()).unwrap().unwrap();
    assert!(std::fs::read(store.log_path(&object.log).unwrap()).unwrap() == log);
    assert!(store.check(false, &mut |_| ()).unwrap().is_sound());
}

#[test]
fn a_put_that_a_killed_server_was_at_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let token = wire::token(&store, "ann", Scope::Write);
    let (mut process, address) = child(folder.path());
    let body = json!({"filename": "r1.eval", "size_bytes": 1_000_000});
    let plan = json_as(address, &token, "POST", "/api/eval-logs/upload", Some(&body)).json();
    let target = plan["url"].as_str().unwrap().strip_prefix(&format!("http://{address}")).unwrap().to_owned();
    let mut stream = TcpStream::connect(address).unwrap();
    let head = head(address, "PUT", &target, &[("Content-Length", "1000000")]);
    stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
    stream.write_all(&[7; 300_000]).unwrap();
    while wire::count_files(&folder.path().join("uploads")) == 0 {
        std::thread::yield_now();
    }
    process.kill().unwrap();
    process.wait().unwrap();
    assert!(store.object(&"r1.eval".parse().unwrap()).unwrap().is_none());
    // The address outlives the server: the key it is signed with is kept.
    let (mut process, address) = child(folder.path());
    let answer = send(address, "PUT", &target, &[("If-None-Match", "*")], Some(&[7; 1_000_000]));
    assert_eq!(answer.status, 200, "{answer:?}");
    process.kill().unwrap();
    process.wait().unwrap();
    let options = ct_store::GcOptions { dry_run: false, purge_deleted_before: None };
    store.gc(options).unwrap();
    assert_eq!(wire::count_files(&folder.path().join("uploads")), 0);
    assert_eq!(wire::count_files(&folder.path().join("logs")), 1);
}
