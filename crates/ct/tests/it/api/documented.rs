//! The OpenAPI document is what the server does: each route in it answers, each write in it needs a token, and a program
//! that makes requests out of it finds nothing.

use std::process::Command;

use serde_json::Value;

use super::http::{ADMIN, Server};
use crate::server::user_with_token as token;
use crate::support::{Home, not_tested};

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// Method, path with something in place of its parameters, and description of every operation.
fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let mut address = String::new();
        for part in path.split('/').skip(1) {
            let part = match part {
                _ if !part.starts_with('{') => part,
                "{version}" | "{start}" | "{action}" => "1",
                _ => "none",
            };
            address.push('/');
            address.push_str(part);
        }
        for method in METHODS.iter().filter(|method| item.get(**method).is_some()) {
            found.push((method.to_uppercase(), address.clone(), item[*method].clone()));
        }
    }
    found
}

#[test]
fn each_route_answers_and_each_write_needs_a_token() {
    let home = Home::with_runs();
    let reader = format!("Bearer {}", token(&home, "reader", "read"));
    let open = Server::start(&home, &["--public"]);
    let closed = Server::start(&home, &["--private"]);
    let document = open.json("/api/openapi.json");
    let operations = operations(&document);
    assert!(operations.len() > 15, "{}", operations.len());
    let before = home.stdout(&["runs", "list", "--format", "json"]);
    let (mut writes, mut reads) = (0, 0);
    for (method, path, operation) in &operations {
        let without_token = operation["security"].as_array().is_some_and(Vec::is_empty);
        let named = format!("{method} {path}");
        for server in [&open, &closed] {
            let answer = server.send(method, path, &[], b"{}");
            assert_ne!(answer.status, 405, "{named}");
            assert!(answer.status < 500, "{named}: {}", String::from_utf8_lossy(&answer.body));
            if answer.status >= 400 {
                assert!(answer.json()["error"].is_string(), "{named}");
            }
        }
        if without_token {
            // Health, sign-in, and signed addresses, which are good for nothing without their signature.
            let known = ["/api/health", "/api/ready", "/api/auth/login"].contains(&path.as_str());
            assert!(known || path.starts_with("/objects/"), "{named}");
            if path.starts_with("/objects/") {
                assert!((400..500).contains(&open.send(method, path, &[], b"x").status), "{named}");
            }
            continue;
        }
        assert_eq!(closed.send(method, path, &[], b"{}").status, 401, "{named}");
        assert_eq!(closed.send(method, path, &[("authorization", "Bearer x")], b"{}").status, 401, "{named}");
        if method == "GET" || path == "/api/trajectories/zip" {
            if method != "GET" {
                let token = [("authorization", reader.as_str())];
                assert_eq!(closed.send(method, path, &token, b"{}").status, 400, "{named}");
            }
            reads += 1;
            continue;
        }
        writes += 1;
        assert_eq!(open.send(method, path, &[], b"{}").status, 401, "{named}");
        // What changes one's own session is for everyone who has one.
        if !path.starts_with("/api/tokens") {
            let answer = open.send(method, path, &[("authorization", &reader)], b"{}");
            assert_eq!(answer.status, 403, "{named}: {}", String::from_utf8_lossy(&answer.body));
        }
    }
    assert!(writes >= 8 && reads >= 8, "{writes} writes, {reads} reads");
    assert_eq!(home.stdout(&["runs", "list", "--format", "json"]), before);
}

#[test]
fn each_parameter_that_is_documented_is_known() {
    let home = Home::with_runs();
    let server = Server::start(&home, &["--public"]);
    let document = server.json("/api/openapi.json");
    let mut asked = 0;
    for path in ["/api/runs", "/api/trajectories"] {
        for parameter in document["paths"][path]["get"]["parameters"].as_array().unwrap() {
            let name = parameter["name"].as_str().unwrap();
            let value = match name {
                "view" => "row",
                "status" => "success",
                "sort" => "created",
                "page" | "page_size" | "limit" => "1",
                name if name.starts_with("created") => "2026-01-01T00:00:00Z",
                name if name.ends_with("outcome") => "pass",
                _ if parameter["schema"].to_string().contains("boolean") => "true",
                "cursor" | "versioned_dataset_version" => continue,
                _ => "x",
            };
            let answer = server.get(&format!("{path}?{name}={value}"));
            assert!(answer.status == 200 || name == "versioned_dataset", "{path} {name}: {}", answer.json());
            assert!(answer.json().get("warnings").is_none(), "{path} {name}: {}", answer.json());
            asked += 1;
        }
    }
    assert!(asked > 30, "{asked}");
}

#[test]
fn a_program_that_makes_requests_out_of_the_document_finds_nothing() {
    let Some(python) = std::env::var_os("CT_TEST_PYTHON") else {
        return not_tested(
            "set CT_TEST_PYTHON to a Python with schemathesis to try what the document promises",
        );
    };
    let has = Command::new(&python).args(["-c", "import schemathesis"]).output().unwrap().status.success();
    if !has {
        return not_tested(&format!("{} has no schemathesis", python.display()));
    }
    let home = Home::with_runs();
    let token = token(&home, ADMIN, "admin");
    let server = Server::start(&home, &["--private"]);
    let list = home.json(&["runs", "list", "--format", "json"]);
    let run = list["items"][0]["run_id"].as_str().unwrap();
    let trajectory = &home.trajectory_ids(run)[0];
    // So that it does not only ask for what is not there.
    home.file(
        "schemathesis.toml",
        format!(
            "[[operations]]\ninclude-path-regex = \"^/api/runs/[{{]id\"\nparameters = {{ id = \"{run}\" }}\n\
             [[operations]]\ninclude-path-regex = \"^/api/trajectories/[{{]id\"\nparameters = {{ id = \"{trajectory}\" }}\n"
        ),
    );
    let output = Command::new(&python)
        .args(["-m", "schemathesis.cli", "run"])
        .arg(format!("http://{}/api/openapi.json", server.address))
        .args(["--header", &format!("Authorization: Bearer {token}")])
        .args([
            "--checks",
            "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance",
        ])
        .args(["--max-examples", "5", "--generation-deterministic", "--max-time", "90", "--no-color"])
        // The one is no JSON, the other would take away its own token.
        .args(["--exclude-path", "/metrics", "--exclude-path", "/api/tokens/{token_id}"])
        .current_dir(home.path("."))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// What does not get as far as the routes has a status, and no sentence: the document of the server says so.
#[test]
fn what_cannot_be_read_is_answered_and_the_connection_closed() {
    let home = Home::new();
    let server = Server::start(&home, &["--public"]);
    let many: String = (0..100).map(|number| format!("x-{number}: y\r\n")).collect();
    let long = format!("x: {}\r\n", "y".repeat(200 << 10));
    for (request, status) in [
        ("GARBAGE\r\n\r\n".to_owned(), "400"),
        (format!("GET /api/health HTTP/1.1\r\nhost: x\r\n{many}\r\n"), "431"),
        (format!("GET /api/health HTTP/1.1\r\nhost: x\r\n{long}\r\n"), "431"),
        (format!("GET /api/health?{} HTTP/1.1\r\nhost: x\r\n\r\n", "y".repeat(66_000)), "414"),
    ] {
        let answer = server.say(request.as_bytes());
        let first = answer.lines().next().unwrap_or_default();
        assert_eq!(first.split(' ').nth(1), Some(status), "{:.60} was answered {answer:?}", request);
    }
    assert_eq!(server.get("/api/health").status, 200);
}
