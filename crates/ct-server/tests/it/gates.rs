//! Who is let in where: asked of every route that the OpenAPI document tells of, so that none is forgotten.

use ct_model::Scope;
use ct_server::Mode;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::Server;

/// Every method and path of the API, with something in the place of each parameter.
fn operations() -> Vec<(Method, String)> {
    let document = serde_json::to_value(ct_server::openapi()).unwrap();
    let mut found = Vec::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        let path: Vec<&str> =
            path.split('/').map(|part| if part.starts_with('{') { "x" } else { part }).collect();
        for method in operations.as_object().unwrap().keys() {
            if let Some(method) =
                ["get", "head", "put", "post", "patch", "delete"].iter().find(|m| *m == method)
            {
                found.push((method.to_uppercase().parse().unwrap(), path.join("/")));
            }
        }
    }
    // The contract alone has as many.
    assert!(found.len() >= 20, "{found:?}");
    found
}

/// One read comes with a body, for more than an address holds.
fn is_read(method: &Method, path: &str) -> bool {
    *method == Method::GET || *method == Method::HEAD || path == "/api/trajectories/zip"
}

/// The status; bodies of answers to HEAD, and of files, are no JSON.
fn status(server: &Server, token: &str, method: &Method, path: &str) -> u16 {
    let client = reqwest::blocking::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .unwrap();
    let mut request = client.request(method.clone(), format!("{}{path}", server.base));
    if !token.is_empty() {
        request = request.bearer_auth(token);
    }
    if *method != Method::GET && *method != Method::HEAD {
        request = request.body(json!({}).to_string());
    }
    request.send().unwrap().status().as_u16()
}

fn audit_rows(server: &Server) -> Value {
    let query = ct_model::AuditQuery { limit: 1000, ..ct_model::AuditQuery::default() };
    let rows = server.store.audit_rows(&query).unwrap();
    json!(rows)
}

#[test]
fn no_write_passes_without_a_token_or_with_one_for_reading_in_either_mode() {
    for mode in [Mode::Public, Mode::Private] {
        let server = Server::start(mode);
        server.make_run("r", 1);
        let read = server.token(Scope::Read);
        let before = audit_rows(&server);
        let mut asked = 0;
        for (method, path) in operations() {
            if is_read(&method, &path) || path == "/api/auth/login" {
                continue;
            }
            asked += 1;
            // Addresses of objects are signed and know no tokens.
            if path.starts_with("/objects/") {
                for token in ["", &read] {
                    let status = status(&server, token, &method, &path);
                    assert!((400..=403).contains(&status), "{mode:?} {method} {path}: {status}");
                }
                continue;
            }
            for token in ["", "ct_stale"] {
                assert_eq!(status(&server, token, &method, &path), 401, "{mode:?} {method} {path}");
            }
            assert_eq!(status(&server, &read, &method, &path), 403, "{mode:?} {method} {path}");
        }
        assert!(asked >= 8, "{asked}");
        assert_eq!(audit_rows(&server), before);
    }
}

#[test]
fn nothing_is_read_without_a_token_on_a_private_server() {
    let server = Server::start(Mode::Private);
    let open = ["/api/health", "/api/ready", "/api/openapi.json", "/metrics"];
    for (method, path) in operations() {
        if !is_read(&method, &path) || open.contains(&path.as_str()) {
            continue;
        }
        let status = status(&server, "", &method, &path);
        if path.starts_with("/objects/") {
            assert!((400..=403).contains(&status), "{method} {path}: {status}");
        } else {
            assert_eq!(status, 401, "{method} {path}");
        }
    }
}

#[test]
fn a_public_server_asks_no_reader_for_a_token_but_about_accounts_and_uploads() {
    let server = Server::start(Mode::Public);
    let closed = ["/api/whoami", "/api/tokens", "/api/audit", "/api/eval-logs/head"];
    for (method, path) in operations() {
        if !is_read(&method, &path) || path.starts_with("/objects/") {
            continue;
        }
        let refused = status(&server, "", &method, &path) == 401;
        let expected = closed.contains(&path.as_str()) || path.starts_with("/api/uploads");
        assert_eq!(refused, expected, "{method} {path}");
    }
}

#[test]
fn limits_in_the_document_are_those_that_bite() {
    let document = serde_json::to_value(ct_server::openapi()).unwrap();
    let patch = &document["components"]["schemas"]["RunPatch"]["properties"];
    let server = Server::start(Mode::Private);
    let token = server.token(Scope::Admin);
    let run = server.make_run("r", 1);
    let change = |field: &str, value: Value| {
        server.ask(&token, Method::PATCH, &format!("/api/runs/{run}"), Some(&json!({field: value}))).status
    };
    for field in ["name", "policy", "dataset", "description"] {
        let max = usize::try_from(patch[field]["maxLength"].as_u64().unwrap()).unwrap();
        assert_eq!(change(field, json!("é".repeat(max))), 200, "{field}");
        assert_eq!(change(field, json!("é".repeat(max + 1))), 400, "{field}");
    }
    let max = patch["tags"]["maxItems"].as_u64().unwrap();
    let tags = |count: u64| -> Value { (0..count).map(|number| number.to_string()).collect() };
    assert_eq!(change("tags", tags(max)), 200);
    assert_eq!(change("tags", tags(max + 1)), 400);
    let comments = |count: u64| -> Value {
        (0..count).map(|number| json!({"id": format!("c{number}"), "text": "x"})).collect()
    };
    let max = patch["comments"]["maxItems"].as_u64().unwrap();
    assert_eq!(change("comments", comments(max + 1)), 400);
    assert_eq!(change("comments", comments(max)), 200);
    // A list says how far it was cut, whichever list it is.
    for path in ["/api/runs", "/api/trajectories", "/api/datasets", "/api/audit", "/api/pricing"] {
        let page = server.get(&token, &format!("{path}?limit=1000000")).ok();
        assert!(page["page_size"].as_u64().unwrap() < 1_000_000, "{path}: {page}");
        assert_eq!(page["warnings"].as_array().map(Vec::len), Some(1), "{path}: {page}");
    }
}
