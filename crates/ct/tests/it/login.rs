//! Signing in and out: what is read from where, and which tokens end.

use std::process::Stdio;

use crate::server::{Served, user_with_token};
use crate::support::Home;

/// That of [`user_with_token`].
const PASSWORD: &str = "correct horse battery";

struct Server {
    served: Served,
    token: String,
    _home: Home,
}

impl Server {
    fn start(arguments: &[&str]) -> Self {
        let home = Home::new();
        let token = user_with_token(&home, "ana", "admin");
        Self { served: Served::start(&home, arguments), token, _home: home }
    }

    fn takes(&self, token: &str) -> bool {
        self.served.get(token, "/api/whoami").status == 200
    }
}

#[test]
fn without_a_terminal_secrets_come_from_files_and_standard_input() {
    let server = Server::start(&["--private"]);
    let home = Home::new();
    home.file("token", format!("{}\n", server.token));
    home.file("password", format!("{PASSWORD}\n"));
    let ways: [(&[&str], &str); 8] = [
        (&["--token-file", "token"], ""),
        (&["--token-file", "/dev/stdin"], &server.token),
        (&["--token-stdin"], &server.token),
        (&[], &server.token),
        (&["--username", "ana", "--password-file", "password"], ""),
        (&["--username", "ana", "--password-file", "/dev/stdin"], PASSWORD),
        (&["--username", "ana", "--password-stdin"], PASSWORD),
        (&["--username", "ana"], PASSWORD),
    ];
    for (way, input) in ways {
        let arguments = [&["login", "--url", &server.served.url], way].concat();
        let said = home.ct_with_input(&arguments, input);
        assert!(said.starts_with("exit code: 0"), "{way:?}: {said}");
        assert_eq!(home.json(&["status", "--format", "json"])["server"]["username"], "ana", "{way:?}");
        home.stdout(&["logout"]);
    }
    // What is not there, or is none, is told.
    let code = |way: &[&str]| {
        let arguments = [&["login", "--url", &server.served.url], way].concat();
        home.command(&arguments).output().unwrap().status.code()
    };
    assert_eq!(code(&["--token-file", "nowhere"]), Some(4));
    assert_eq!(code(&["--username", "ana", "--password-file", "nowhere"]), Some(4));
    assert_eq!(code(&["--token-file", "token", "--token-stdin"]), Some(2));
    assert_eq!(code(&["--username", "ana", "--token-file", "token"]), Some(2));
    assert_eq!(code(&["--password-file", "password"]), Some(2));
    home.file("empty", "\n");
    assert_eq!(code(&["--token-file", "empty"]), Some(2));
}

#[test]
fn a_pipe_that_says_nothing_is_not_waited_for() {
    let home = Home::new();
    for way in [&["--username", "ana"][..], &[]] {
        let arguments = [&["login", "--url", "http://127.0.0.1:1"], way].concat();
        let mut child = home
            .command(&arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // It stays open until the program has ended.
        let pipe = child.stdin.take();
        let output = child.wait_with_output().unwrap();
        drop(pipe);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("standard input within"), "{said}");
    }
}

#[test]
fn a_token_that_was_made_elsewhere_survives_signing_out() {
    let server = Server::start(&["--private"]);
    let home = Home::new();
    let login = ["login", "--url", &server.served.url, "--token-stdin"];
    home.ct_with_input(&login, &server.token);
    let said = home.ct(&["logout"]);
    assert!(said.starts_with("exit code: 0") && said.contains("stays valid"), "{said}");
    assert!(server.takes(&server.token));
    assert_eq!(home.json(&["status", "--format", "json"])["home"], "local");
    // Told to, it ends.
    home.ct_with_input(&login, &server.token);
    let said = home.ct(&["logout", "--revoke"]);
    assert!(said.starts_with("exit code: 0") && said.contains("revoked"), "{said}");
    assert!(!server.takes(&server.token));
    // One that was made by signing in ends without a word.
    home.ct_with_input(
        &["login", "--url", &server.served.url, "--username", "ana", "--password-stdin"],
        PASSWORD,
    );
    let cached = std::fs::read(home.path("../.cache/control-tower/auth/token.json")).unwrap();
    let cached: serde_json::Value = serde_json::from_slice(&cached).unwrap();
    // Other clients read this file: it has what they know, and no more.
    assert_eq!(cached.as_object().unwrap().keys().collect::<Vec<_>>(), ["url", "token"]);
    let token = cached["token"].as_str().unwrap();
    assert!(server.takes(token));
    home.stdout(&["logout"]);
    assert!(!server.takes(token));
}

#[test]
fn behind_a_proxy_each_client_counts_for_itself() {
    let direct = Server::start(&["--private"]);
    let behind =
        Server::start(&["--private", "--trusted-proxy", "10.0.0.0/8", "--trusted-proxy", "127.0.0.1"]);
    // Beyond the failures of an address, each with a name of its own.
    let fail = |server: &Server, from: &str, number: usize| {
        let body = serde_json::json!({"username": format!("u{number}"), "password": "wrong"});
        let header = format!("X-Forwarded-For: 203.0.113.9, {from}, 10.1.1.1\r\n");
        server.served.ask_with(&header, "POST", "/api/auth/login", Some(&body)).status
    };
    for server in [&direct, &behind] {
        let statuses: Vec<u16> = (0..40).map(|number| fail(server, "192.0.2.1", number)).collect();
        assert!(statuses.starts_with(&[401; 30]) && statuses.ends_with(&[429]), "{statuses:?}");
    }
    // A header that a stranger sends makes nobody another.
    assert_eq!(fail(&direct, "192.0.2.2", 50), 429);
    assert_eq!(fail(&behind, "192.0.2.2", 50), 401);
    let header = format!("X-Forwarded-For: 192.0.2.7\r\nAuthorization: Bearer {}\r\n", behind.token);
    let body = serde_json::json!({"label": "x"});
    assert_eq!(behind.served.ask_with(&header, "POST", "/api/tokens", Some(&body)).status, 200);
    let audit = behind.served.get(&behind.token, "/api/audit?limit=1").ok();
    assert_eq!(audit["items"][0]["origin"], "192.0.2.7", "{audit}");
    assert!(behind.served.log().contains("192.0.2.7"));
}
