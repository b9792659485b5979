//! Logs: planned, put, read by range.

use std::io::Write as _;
use std::net::TcpStream;

use ct_model::Scope;
use md5::{Digest as _, Md5};
use serde_json::json;

use crate::wire::{Answer, Server, chunked, head, json_as, send, token};

const BYTES: &[u8] = b"0123456789 some bytes that stand for a log";

/// The signed address of a log that is there.
fn signed_get(server: &Server, run: &str) -> String {
    let answer = server.json("GET", &format!("/api/runs/{run}/eval"), None);
    assert_eq!(answer.status, 302, "{answer:?}");
    let url = answer.header("location").unwrap();
    url.strip_prefix(&format!("http://{}", server.address)).unwrap_or(url).to_owned()
}

#[test]
fn a_log_is_planned_put_and_found() {
    let server = Server::start();
    let answer = server.json("GET", "/api/eval-logs/head?filename=r1.eval", None);
    assert_eq!((answer.status, answer.error().as_str()), (404, "log r1.eval was not found"));
    let plan = json!({"filename": "r1.eval", "size_bytes": BYTES.len()});
    let answer = server.json("POST", "/api/eval-logs/upload", Some(&plan)).json();
    assert_eq!(answer["bucket"], "logs");

    let target = server.plan("r1.eval", BYTES.len() as u64);
    let answer = server.put(&target, BYTES);
    let md5: String = Md5::digest(BYTES).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!((answer.status, answer.header("etag")), (200, Some(format!("\"{md5}\"").as_str())));
    let found = server.json("GET", "/api/eval-logs/head?filename=r1.eval", None).json();
    let sha256 = ct_model::LogHash::from_bytes(<sha2::Sha256 as sha2::Digest>::digest(BYTES).into());
    let expected = json!({
        "bucket": "logs", "size_bytes": BYTES.len(), "e_tag": format!("\"{md5}\""), "sha256": sha256,
    });
    assert_eq!(found, expected);

    // The key is taken: for a plan, and for who planned before.
    assert_eq!(server.json("POST", "/api/eval-logs/upload", Some(&plan)).status, 409);
    assert_eq!(server.put(&target, BYTES).status, 412);
    let other = [b'x'; BYTES.len()];
    assert_eq!(server.put(&target, &other).status, 412);
    assert_eq!(server.files("logs"), 1);
    assert_eq!(server.files("uploads"), 0);
}

#[test]
fn only_names_of_logs_are_taken() {
    let server = Server::start();
    for name in ["", "r1", "r1.zip", "../r1.eval", "a/b.eval", ".eval", "r1.eval.gz", "r\u{0}1.eval"] {
        let plan = json!({"filename": name, "size_bytes": 1});
        assert_eq!(server.json("POST", "/api/eval-logs/upload", Some(&plan)).status, 400, "{name:?}");
    }
    assert_eq!(server.json("GET", "/api/eval-logs/head?filename=..%2Fr1.eval", None).status, 400);
    assert_eq!(server.json("GET", "/api/eval-logs/head", None).status, 400);
    for size in [json!(null), json!(0), json!(-1), json!(1.5), json!("1")] {
        let plan = json!({"filename": "a.eval", "size_bytes": size});
        assert_eq!(server.json("POST", "/api/eval-logs/upload", Some(&plan)).status, 400, "{size}");
    }
}

#[test]
fn planning_needs_a_token_that_may_write() {
    let server = Server::start();
    let reader = token(&server.store, "bob", Scope::Read);
    let plan = json!({"filename": "r1.eval", "size_bytes": 1});
    for (target, method, body) in [
        ("/api/eval-logs/upload", "POST", Some(&plan)),
        ("/api/eval-logs/head?filename=r1.eval", "GET", None),
        ("/api/trajectories/register", "POST", Some(&plan)),
    ] {
        assert_eq!(json_as(server.address, &reader, method, target, body).status, 403, "{target}");
        assert_eq!(json_as(server.address, "nonsense", method, target, body).status, 401, "{target}");
        assert_eq!(send(server.address, method, target, &[], Some(b"{}")).status, 401, "{target}");
    }
}

#[test]
fn an_address_is_good_for_what_it_was_made_for() {
    let server = Server::start();
    let target = server.plan("r1.eval", BYTES.len() as u64);
    let bigger = target.replace("size=", "size=1");
    let other = target.replace("r1.eval", "r2.eval");
    let someone = target.replace("by=ann", "by=bob");
    assert_ne!(someone, target);
    let later = target.replace("expires=", "expires=1");
    let unsigned = target.split_once("&signature").unwrap().0;
    for wrong in [&bigger, &other, &someone, &later] {
        assert_eq!(server.put(wrong, BYTES).status, 403, "{wrong}");
    }
    assert_eq!(server.put(unsigned, BYTES).status, 400);
    assert_eq!(send(server.address, "GET", &target, &[], None).status, 403);
    assert_eq!(server.put(&target.replace("/logs/", "/other/"), BYTES).status, 404);
    assert_eq!(server.files("logs") + server.files("uploads"), 0);
    assert_eq!(server.put(&target, BYTES).status, 200);
}

#[test]
fn what_is_not_whole_is_not_there() {
    let server = Server::start();
    let size = BYTES.len() as u64;
    let target = server.plan("r1.eval", size);
    assert_eq!(server.put(&target, &BYTES[1..]).status, 400);
    assert_eq!(server.put(&target, &[BYTES, b"x"].concat()).status, 400);

    // In chunks the length shows at the end only.
    let put_chunked = |body: &[u8]| {
        let mut stream = TcpStream::connect(server.address).unwrap();
        let head = head(server.address, "PUT", &target, &[("Transfer-Encoding", "chunked")]);
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(b"\r\n").unwrap();
        stream.write_all(body).unwrap();
        stream
    };
    let status = |stream| Answer::read(stream, true).unwrap().status;
    assert_eq!(status(put_chunked(&chunked(&BYTES[1..], 7))), 400);
    assert_eq!(status(put_chunked(&chunked(&[BYTES, b"x"].concat(), 7))), 400);
    // Broken off.
    let broken = chunked(BYTES, 7);
    drop(put_chunked(&broken[..broken.len() - 6]));
    let mut stream = TcpStream::connect(server.address).unwrap();
    let head = head(server.address, "PUT", &target, &[("Content-Length", &size.to_string())]);
    stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
    stream.write_all(&BYTES[..9]).unwrap();
    drop(stream);

    assert_eq!(server.json("GET", "/api/eval-logs/head?filename=r1.eval", None).status, 404);
    assert_eq!(status(put_chunked(&chunked(BYTES, 7))), 200);
    let found = server.json("GET", "/api/eval-logs/head?filename=r1.eval", None);
    assert_eq!(found.json()["size_bytes"], size);
    // What was broken off is gone once the server has noticed.
    while server.files("uploads") > 0 {
        std::thread::yield_now();
    }
    assert_eq!(server.files("logs"), 1);
}

#[test]
fn of_two_at_once_one_is_stored() {
    let server = Server::start();
    let bytes = |n: u8| vec![n; 3_000_000];
    let targets: Vec<String> = (0..4).map(|_| server.plan("r1.eval", 3_000_000)).collect();
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let put = |n: usize| server.put(&targets[n], &bytes(n as u8)).status;
        let threads: Vec<_> = (0..4).map(|n| scope.spawn(move || put(n))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 412).count(), 3, "{statuses:?}");
}

#[test]
fn a_log_is_read_whole_and_by_range() {
    let server = Server::start();
    let made = crate::wire::made("ct-11", "r1");
    server.upload(&made.key, &made.log);
    assert_eq!(server.register(&made.documents, Some(&made.header)).status, 200);
    let target = signed_get(&server, "r1");
    let get = |headers: &[(&str, &str)]| send(server.address, "GET", &target, headers, None);

    let whole = get(&[]);
    assert_eq!(whole.status, 200);
    assert!(whole.body == made.log);
    let size = made.log.len();
    assert_eq!(whole.header("accept-ranges"), Some("bytes"));
    let digest = whole.header("repr-digest").unwrap().to_owned();
    assert!(digest.starts_with("sha-256=:") && digest.ends_with("=:"), "{digest}");
    let e_tag = whole.header("etag").unwrap().to_owned();

    let head = send(server.address, "HEAD", &target, &[], None);
    assert_eq!((head.status, head.header("content-length")), (200, Some(size.to_string().as_str())));
    assert_eq!(head.header("repr-digest"), Some(digest.as_str()));

    let part = get(&[("Range", "bytes=3-9")]);
    assert_eq!((part.status, part.body.as_slice()), (206, &made.log[3..10]));
    assert_eq!(part.header("content-range"), Some(format!("bytes 3-9/{size}").as_str()));
    assert_eq!(part.header("repr-digest"), Some(digest.as_str()));
    let tail = get(&[("Range", "bytes=-5"), ("If-Range", &e_tag)]);
    assert_eq!((tail.status, tail.body.as_slice()), (206, &made.log[size - 5..]));
    let other = get(&[("Range", "bytes=-5"), ("If-Range", "\"other\"")]);
    assert_eq!((other.status, other.body.len()), (200, size));
    let outside = get(&[("Range", &format!("bytes={size}-"))]);
    assert_eq!(outside.status, 416);
    assert_eq!(outside.header("content-range"), Some(format!("bytes */{size}").as_str()));
    assert_eq!(get(&[("If-None-Match", &e_tag)]).status, 304);
    assert_eq!(get(&[("If-None-Match", "\"other\"")]).status, 200);

    assert_eq!(
        send(server.address, "GET", &target.replace("signature=", "signature=x"), &[], None).status,
        403
    );
    assert_eq!(send(server.address, "GET", "/objects/logs/r1.eval", &[], None).status, 400);
}
