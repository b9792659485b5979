//! Signing in, tokens, scopes, and the audit log.

use ct_model::Scope;
use ct_server::Mode;
use ct_store::Actor;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Answer, Server};

const PASSWORD: &str = "correct horse battery";

fn login(server: &Server, username: &str, password: &str) -> Answer {
    server.post("", "/api/auth/login", &json!({"username": username, "password": password}))
}

fn add_user(server: &Server, username: &str, scope: Scope) -> String {
    server.store.add_user(username, PASSWORD, scope, &Actor::local()).unwrap();
    login(server, username, PASSWORD).ok()["token"].as_str().unwrap().to_owned()
}

fn token_id(server: &Server, token: &str) -> String {
    server.get(token, "/api/whoami").ok()["token_id"].as_str().unwrap().to_owned()
}

#[test]
fn a_login_answers_a_token_and_nothing_else() {
    let server = Server::start(Mode::Private);
    let answer = login(&server, "ADA", PASSWORD).ok();
    let token = answer["token"].as_str().unwrap();
    assert_eq!(answer, json!({"token": token}));
    let who = server.get(token, "/api/whoami").ok();
    let id = who["token_id"].clone();
    assert_eq!(who, json!({"username": "ada", "scope": "admin", "token_id": id, "expires_at": null}));
    let tokens = server.get(token, "/api/tokens").ok();
    assert_eq!(
        (&tokens["items"][0]["label"], &tokens["items"][0]["token_id"]),
        (&json!("created via cli"), &id)
    );
    assert!(!tokens.to_string().contains(token));
    // Clients send more than we know.
    let body = json!({"username": "ada", "password": PASSWORD, "description": "laptop", "later": 1});
    server.post("", "/api/auth/login", &body).ok();
    assert_eq!(server.get(token, "/api/tokens").ok()["items"][0]["label"], "laptop");
}

#[test]
fn a_wrong_pair_is_401_whatever_is_wrong() {
    let server = Server::start(Mode::Private);
    server.store.add_user("bo", PASSWORD, Scope::Write, &Actor::local()).unwrap();
    server.store.set_user_disabled("bo", true, &Actor::local()).unwrap();
    let wrong = login(&server, "ada", "wrong");
    assert_eq!(wrong.headers["www-authenticate"], "Bearer");
    let (status, sentence) = wrong.error();
    assert_eq!(status, 401);
    for (username, password) in [("nobody", PASSWORD), ("bo", PASSWORD), ("", "")] {
        assert_eq!(login(&server, username, password).error(), (401, sentence.clone()));
    }
    for body in [json!({}), json!({"username": "ada"}), json!([]), json!({"username": 1, "password": 2})] {
        assert_eq!(server.post("", "/api/auth/login", &body).error().0, 400, "{body}");
    }
    let long = json!({"username": "ada", "password": PASSWORD, "description": "x".repeat(201)});
    assert_eq!(server.post("", "/api/auth/login", &long).error().0, 400);
}

#[test]
fn guessing_is_slowed_down_by_name() {
    let server = Server::start(Mode::Private);
    let statuses: Vec<u16> = (0..12).map(|_| login(&server, "ada", "wrong").status).collect();
    assert_eq!(statuses, [[401; 10].as_slice(), &[429; 2]].concat());
    // Not even the right password helps now, and it is said when to come back.
    let late = login(&server, "Ada", PASSWORD);
    let seconds: u64 = late.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=61).contains(&seconds), "{seconds}");
    assert_eq!(late.error().0, 429);
    // Another name is another matter.
    server.store.add_user("bo", PASSWORD, Scope::Write, &Actor::local()).unwrap();
    for _ in 0..15 {
        login(&server, "bo", PASSWORD).ok();
    }
}

#[test]
fn many_who_know_the_password_may_come_at_once() {
    let server = Server::start(Mode::Private);
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..24).map(|_| scope.spawn(|| login(&server, "ada", PASSWORD).status)).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(statuses, [200; 24]);
    assert_eq!(server.store.users().unwrap()[0].token_count, 24);
}

#[test]
fn guessing_is_slowed_down_by_address() {
    let server = Server::start(Mode::Private);
    let statuses: Vec<u16> = (0..32).map(|n| login(&server, &format!("u{n}"), "wrong").status).collect();
    // A slot is forgotten every ten seconds, and the machine may be slow.
    let refused = statuses.iter().position(|status| *status == 429).unwrap();
    assert!(refused >= 30, "{statuses:?}");
    // Who has a token is not bothered.
    server.get(&server.token(Scope::Read), "/api/whoami").ok();
}

#[test]
fn what_is_no_token_is_401() {
    let server = Server::start(Mode::Private);
    for token in ["", "ct_", "nonsense", &format!("ct_{}", "0".repeat(64))] {
        let answer = server.get(token, "/api/whoami");
        assert_eq!(answer.headers["www-authenticate"], "Bearer");
        assert_eq!(answer.error().0, 401, "{token}");
    }
}

#[test]
fn a_token_that_ended_in_any_way_is_401_at_once() {
    let server = Server::start(Mode::Private);
    let write = add_user(&server, "bo", Scope::Write);
    let body = json!({"label": "short", "expires_in_seconds": 1});
    let short = server.post(&write, "/api/tokens", &body).ok()["token"].as_str().unwrap().to_owned();
    let who = |token: &str| server.get(token, "/api/whoami").status;
    let start = std::time::Instant::now();
    while who(&short) == 200 {
        assert!(start.elapsed().as_secs() < 60, "it never expires");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!((who(&short), who(&write)), (401, 200));
    let id = token_id(&server, &write);
    let other = server.post(&write, "/api/tokens", &json!({})).ok()["token"].as_str().unwrap().to_owned();
    let revoke = server.ask(&other, Method::DELETE, &format!("/api/tokens/{id}"), None);
    assert_eq!(revoke.ok(), json!({"was_valid": true}));
    assert_eq!((who(&write), who(&other)), (401, 200));
    let again = server.ask(&other, Method::DELETE, &format!("/api/tokens/{id}"), None);
    assert_eq!(again.ok(), json!({"was_valid": false}));
    server.store.set_user_disabled("bo", true, &Actor::local()).unwrap();
    assert_eq!(who(&other), 401);
}

#[test]
fn a_token_makes_no_token_that_is_more_than_itself() {
    let server = Server::start(Mode::Private);
    let write = add_user(&server, "bo", Scope::Write);
    let make = |token: &str, body: Value| server.post(token, "/api/tokens", &body);
    assert_eq!(make(&write, json!({"scope": "admin"})).error().0, 403);
    assert_eq!(make(&write, json!({"scope": "root"})).error().0, 400);
    assert_eq!(make(&write, json!({"expires_in_seconds": u64::MAX})).error().0, 400);
    // What is not understood makes no token that never ends.
    assert_eq!(make(&write, json!({"expires_at": "2020-01-01T00:00:00Z"})).error().0, 400);
    let made = make(&write, json!({"label": "hour", "scope": "write", "expires_in_seconds": 3600})).ok();
    assert_eq!((&made["details"]["label"], &made["details"]["scope"]), (&json!("hour"), &json!("write")));
    let hour = made["token"].as_str().unwrap();
    let until = &made["details"]["expires_at"];
    assert!(until.is_string());
    assert_eq!(make(hour, json!({"expires_in_seconds": 7200})).error().0, 403);
    // Without a word it is as long as its maker.
    assert_eq!(make(hour, json!({})).ok()["details"]["expires_at"], *until);
    let read = make(hour, json!({"scope": "read"})).ok()["token"].as_str().unwrap().to_owned();
    assert_eq!(server.get(&read, "/api/whoami").ok()["scope"], "read");
    assert_eq!(make(&read, json!({})).error().0, 403);
}

#[test]
fn tokens_of_others_are_for_administrators() {
    let server = Server::start(Mode::Private);
    let (admin, write) = (server.token(Scope::Admin), add_user(&server, "bo", Scope::Write));
    let read = server.post(&write, "/api/tokens", &json!({"scope": "read"})).ok();
    let read = read["token"].as_str().unwrap();
    let names = |answer: Value| -> Vec<String> {
        let items = answer["items"].as_array().unwrap();
        items.iter().map(|token| token["username"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(server.get(&write, "/api/tokens").ok()), ["bo", "bo"]);
    assert_eq!(server.get(&write, "/api/tokens?everyone=true").error().0, 403);
    let mut all = names(server.get(&admin, "/api/tokens?everyone=true").ok());
    all.sort();
    assert_eq!(all, ["ada", "bo", "bo"]);
    let revoke =
        |token: &str, id: &str| server.ask(token, Method::DELETE, &format!("/api/tokens/{id}"), None);
    assert_eq!(revoke(&write, &token_id(&server, &admin)).error().0, 404);
    assert_eq!(revoke(read, &token_id(&server, &write)).error().0, 403);
    revoke(read, &token_id(&server, read)).ok();
    assert_eq!(server.get(read, "/api/whoami").status, 401);
    revoke(&admin, &token_id(&server, &write)).ok();
    assert_eq!(server.get(&write, "/api/whoami").status, 401);
}

#[test]
fn a_public_server_is_read_without_a_token_and_written_with_one() {
    let server = Server::start(Mode::Public);
    let run = server.make_run("r", 1);
    let (read, write) = (server.token(Scope::Read), server.token(Scope::Write));
    let path = format!("/api/runs/{run}");
    let patch = |token: &str| server.ask(token, Method::PATCH, &path, Some(&json!({"name": "n"})));
    // A stale token is no hindrance to who may read without one.
    for token in ["", "ct_stale", &read] {
        server.get(token, &path).ok();
    }
    assert_eq!((patch("").error().0, patch("ct_stale").error().0, patch(&read).error().0), (401, 401, 403));
    assert_eq!(server.get("", &path).ok()["name"], "r");
    assert_eq!(patch(&write).ok()["name"], "n");
    // What is about accounts is nobody's but theirs.
    for path in ["/api/whoami", "/api/tokens", "/api/audit"] {
        assert_eq!(server.get("", path).error().0, 401, "{path}");
    }
    let private = Server::start(Mode::Private);
    let run = private.make_run("r", 1);
    assert_eq!(private.get("", &format!("/api/runs/{run}")).error().0, 401);
    private.get(&private.token(Scope::Read), &format!("/api/runs/{run}")).ok();
}

#[test]
fn the_audit_log_tells_who_and_from_where_to_administrators() {
    let server = Server::start(Mode::Private);
    let run = server.make_run("r", 1);
    let (admin, write) = (server.token(Scope::Admin), add_user(&server, "bo", Scope::Write));
    let path = format!("/api/runs/{run}");
    server.ask(&write, Method::PATCH, &path, Some(&json!({"name": "n"}))).ok();
    assert_eq!(server.get(&write, "/api/audit").error().0, 403);
    login(&server, "bo", "wrong");
    let rows = server.get(&admin, "/api/audit?limit=2").ok();
    let row = |index: usize, key: &str| rows["items"][index][key].clone();
    assert_eq!((row(0, "action"), row(0, "actor")), (json!("auth.sign_in_failed"), Value::Null));
    assert_eq!((row(0, "subject"), row(0, "origin")), (json!("user bo"), json!("127.0.0.1")));
    assert_eq!((row(1, "action"), row(1, "actor")), (json!("run.edit"), json!("bo")));
    assert_eq!((row(1, "subject"), row(1, "origin")), (json!(format!("run {run}")), json!("127.0.0.1")));
    assert_eq!(row(1, "token_id"), json!(token_id(&server, &write)));
    let cursor = rows["next_cursor"].as_str().unwrap();
    let mut seen = Vec::new();
    let mut next = Some(cursor.to_owned());
    while let Some(cursor) = next {
        let page = server.get(&admin, &format!("/api/audit?limit=2&cursor={cursor}")).ok();
        seen.extend(page["items"].as_array().unwrap().iter().map(|row| row["audit_id"].as_u64().unwrap()));
        next = page["next_cursor"].as_str().map(str::to_owned);
    }
    let newest = row(1, "audit_id").as_u64().unwrap();
    assert_eq!(seen, (1..newest).rev().collect::<Vec<u64>>());
    let of_run = server.get(&admin, &format!("/api/audit?subject=run+{run}&actor=bo")).ok();
    assert_eq!(of_run["items"].as_array().unwrap().len(), 1);
    assert_eq!(of_run["next_cursor"], Value::Null);
    for bad in ["limit=0", "cursor=x", "limit=x"] {
        assert_eq!(server.get(&admin, &format!("/api/audit?{bad}")).error().0, 400, "{bad}");
    }
}

#[test]
fn an_answer_carries_the_id_of_its_request() {
    let server = Server::start(Mode::Private);
    let id = |answer: &Answer| answer.headers["x-request-id"].to_str().unwrap().to_owned();
    let (one, two) = (server.get("", "/api/health"), server.get("", "/api/nothing"));
    assert_eq!((two.status, id(&one).len()), (404, 16));
    assert_ne!(id(&one), id(&two));
}
