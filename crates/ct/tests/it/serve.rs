//! `ct serve` as a process: how it starts, what it logs, how it ends. What it answers is tested with the server.

use std::io::{Read as _, Write as _};

use serde_json::{Value, json};

use crate::server::{Served, user_with_token};
use crate::support::{Home, assert_ct};

const PASSWORD: &str = "correct horse battery";

fn login(served: &Served, password: &str) -> crate::server::Answer {
    let body = json!({"username": "ana", "password": password});
    served.ask("", "POST", "/api/auth/login", Some(&body))
}

#[test]
fn who_may_read_is_told_or_it_does_not_start() {
    let home = Home::new();
    assert_ct!(home, ["serve", "--bind", "0.0.0.0:0"]);
    assert_ct!(home, ["serve", "--bind", "[::]:0"]);
    assert_ct!(home, ["serve", "--private", "--public"]);
    assert_ct!(home, ["serve", "--bind", "3000"]);
    assert_ct!(home, ["serve", "--public-url", "runs.example.org"]);
}

#[test]
fn it_is_private_on_the_loopback_unless_told() {
    let home = Home::with_runs();
    let run = home.run_id("attack");
    let path = format!("/api/runs/{run}");
    let private = Served::start(&home, &[]);
    assert_eq!(private.announced["mode"], "private");
    assert_eq!(private.get("", &path).status, 401);
    let public = Served::start(&home, &["--public", "--public-url", "https://runs.example.org/"]);
    assert_eq!(public.announced["public_url"], "https://runs.example.org");
    assert_eq!(public.get("", &path).ok()["run_id"], run.as_str());
}

#[test]
fn without_an_account_it_says_how_to_make_one_which_works_at_once() {
    let home = Home::new();
    let served = Served::start(&home, &[]);
    assert!(served.log().contains("ct users add NAME --scope admin"), "{}", served.log());
    assert_eq!(login(&served, PASSWORD).status, 401);
    let token = user_with_token(&home, "ana", "admin");
    assert_eq!(served.get(&token, "/api/whoami").ok()["username"], "ana");
    let signed_in = login(&served, PASSWORD).ok()["token"].as_str().unwrap().to_owned();
    let id = served.get(&signed_in, "/api/whoami").ok()["token_id"].as_str().unwrap().to_owned();
    home.stdout(&["tokens", "revoke", &id]);
    assert_eq!(served.get(&signed_in, "/api/whoami").status, 401);
    home.stdout(&["users", "disable", "ana"]);
    assert_eq!((served.get(&token, "/api/whoami").status, login(&served, PASSWORD).status), (401, 401));
    let again = Served::start(&home, &[]);
    assert!(!again.log().contains("ct users add"), "{}", again.log());
}

#[test]
fn requests_are_logged_and_secrets_are_not() {
    let home = Home::with_runs();
    let token = user_with_token(&home, "ana", "write");
    // Verbose, so that nothing more could be said.
    let served = Served::start(&home, &["--verbose"]);
    let signed_in = login(&served, PASSWORD).ok()["token"].as_str().unwrap().to_owned();
    login(&served, "a wrong password");
    let made = served.ask(&token, "POST", "/api/tokens", Some(&json!({"label": "x"}))).ok();
    let run = home.run_id("attack");
    let trajectory = home.trajectory_ids(&run)[0].clone();
    let eval = served.get(&token, &format!("/api/trajectories/{trajectory}/eval"));
    let location = eval.head.lines().find_map(|line| line.strip_prefix("location: ")).unwrap().to_owned();
    // By any name, the server is asked where it listens.
    let path = location.split_once("://").unwrap().1.split_once('/').unwrap().1;
    let signature = path.split_once("signature=").unwrap().1.to_owned();
    assert_eq!(served.get("", &format!("/{path}")).status, 200);
    served.ask("ct_bad\u{1}", "GET", "/api/whoami?token=ct_in_the_query", None);
    served.ask("", "POST", "/api/auth/login", Some(&json!({"username": PASSWORD, "password": 7})));
    let log = served.log();
    let secrets = [
        PASSWORD,
        "a wrong password",
        &token,
        &signed_in,
        made["token"].as_str().unwrap(),
        &signature,
        "ct_bad",
        "ct_in_the_query",
    ];
    for secret in secrets {
        assert!(!log.contains(secret), "{secret} is in\n{log}");
    }
    let lines: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let answered: Vec<&Value> = lines.iter().filter(|line| line["fields"]["message"] == "answered").collect();
    let login = answered.iter().find(|line| line["fields"]["path"] == "/api/auth/login").unwrap();
    assert_eq!(
        (&login["fields"]["method"], &login["fields"]["status"], &login["fields"]["peer"]),
        (&json!("POST"), &json!(200), &json!("127.0.0.1"))
    );
    assert!(login["fields"]["duration_ms"].is_u64() && login["span"]["id"].is_string(), "{login}");
    let id = eval.head.lines().find_map(|line| line.strip_prefix("x-request-id: ")).unwrap();
    let of_eval = answered.iter().find(|line| line["span"]["id"] == id).unwrap();
    assert_eq!(of_eval["fields"]["path"], format!("/api/trajectories/{trajectory}/eval"));
}

#[test]
fn comments_come_with_the_trajectory() {
    let home = Home::with_runs();
    let token = user_with_token(&home, "ana", "write");
    let served = Served::start(&home, &[]);
    let trajectory = home.trajectory_ids(&home.run_id("attack"))[0].clone();
    let path = format!("/api/trajectories/{trajectory}");
    let metadata = || served.get(&token, &path).ok()["metadata"].clone();
    let before = metadata();
    assert_eq!((&before["comments"], &before["step_comments"]), (&json!([]), &json!({})));
    let add = |body: Value| served.ask(&token, "POST", &format!("{path}/comments"), Some(&body)).ok();
    let (whole, first) = (add(json!({"text": "whole"})), add(json!({"text": "first", "action": 0})));
    let after = metadata();
    assert_eq!((&after["comments"], &after["step_comments"]), (&json!([whole]), &json!({"0": [first]})));
}

#[test]
fn a_signal_lets_transfers_end_and_a_second_one_does_not() {
    let home = Home::with_runs();
    let token = user_with_token(&home, "ana", "write");
    let mut idle = Served::start(&home, &[]);
    let mut connection = idle.connect();
    connection.write_all(b"GET /api/health HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
    let mut answered = [0; 15];
    connection.read_exact(&mut answered).unwrap();
    assert_eq!(&answered, b"HTTP/1.1 200 OK");
    // A connection that is merely open is no transfer.
    idle.signal("TERM");
    assert_eq!(idle.wait().code(), Some(0), "{}", idle.log());

    // A request whose head is read and whose body is waited for: the server asks for it.
    let begin = |served: &Served| {
        let mut sending = served.connect();
        let head = format!(
            "POST /api/tokens HTTP/1.1\r\nHost: test\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
             Expect: 100-continue\r\nContent-Length: 21\r\n\r\n"
        );
        sending.write_all(head.as_bytes()).unwrap();
        let mut asked = [0; 25];
        sending.read_exact(&mut asked).unwrap();
        assert_eq!(&asked, b"HTTP/1.1 100 Continue\r\n\r\n");
        sending
    };
    let mut busy = Served::start(&home, &[]);
    let mut sending = begin(&busy);
    sending.write_all(b"{\"label\":").unwrap();
    busy.signal("INT");
    while !busy.log().contains("stopping") {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    sending.write_all(b" \"late one\"}").unwrap();
    let mut answer = String::new();
    sending.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer:?}");
    assert_eq!(busy.wait().code(), Some(0), "{}", busy.log());

    let mut held = Served::start(&home, &[]);
    let _sending = begin(&held);
    held.signal("INT");
    while !held.log().contains("stopping") {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    held.signal("TERM");
    assert_eq!(held.wait().code(), Some(1), "{}", held.log());
    assert!(held.log().contains("stopped at once"), "{}", held.log());
}

#[test]
fn a_port_that_is_taken_is_said_to_be() {
    let home = Home::new();
    let served = Served::start(&home, &[]);
    let address = served.url.strip_prefix("http://").unwrap();
    let mut settings = home.settings();
    settings.add_filter(r"127\.0\.0\.1:\d+", "[ADDRESS]");
    settings.bind(|| insta::assert_snapshot!(home.ct(&["serve", "--bind", address])));
}

#[test]
fn prices_are_answered_as_the_contract_has_them_and_taken_back_as_a_rate_file() {
    let home = Home::new();
    let token = user_with_token(&home, "ana", "read");
    let rows = json!([
        {"model": "anthropic/a", "pricing": {
            "input_per_million": 3.0, "output_per_million": 15.0, "cached_input_per_million": 0.3,
            "cache_write_multiplier": 1.25, "tiers": [
                {"max_input_tokens": 200_000, "input_per_million": 3.0, "output_per_million": 15.0,
                 "cached_input_per_million": 0.3, "cache_write_multiplier": 1.25},
                {"max_input_tokens": null, "input_per_million": 6.0, "output_per_million": 22.5,
                 "cached_input_per_million": 0.6, "cache_write_multiplier": 1.25},
            ]}, "manual": true},
        {"model": "b", "pricing": {
            "input_per_million": 1.0, "output_per_million": 2.0, "cached_input_per_million": null,
            "cache_write_multiplier": null}, "manual": false},
    ]);
    // What is left out is said to be unknown.
    let mut file = rows.clone();
    for absent in ["cached_input_per_million", "cache_write_multiplier"] {
        file[1]["pricing"].as_object_mut().unwrap().remove(absent);
    }
    file[1].as_object_mut().unwrap().remove("manual");
    home.file("rates.json", file.to_string());
    let served = Served::start(&home, &["--private", "--prices", "rates.json"]);
    let answer = served.get(&token, "/api/pricing").ok();
    assert_eq!(
        answer,
        json!({"items": rows, "total_count": 2, "page": 1, "page_size": 10_000, "next_cursor": null})
    );
    // The answer is a rate file, and means the same.
    home.file("answer.json", answer.to_string());
    let again = Served::start(&home, &["--private", "--prices", "answer.json"]);
    assert_eq!(again.get(&token, "/api/pricing").ok(), answer);
    home.log("control-tower/ct-11.eval", "a.eval");
    home.stdout(&["runs", "make", "a.eval", "--prices", "answer.json"]);
}
