//! `/api/datasets`, and lists of trajectories filtered by datasets.

use std::collections::BTreeSet;
use std::thread;

use ct_model::Scope;
use ct_server::Mode;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::Server;

const VERSIONS: &str = "/api/datasets/d/versions";
const LOCK: &str = "/api/datasets/d/lock";

/// What is asked for of an object, as text.
fn told(value: &Value, keys: &[&str]) -> String {
    keys.iter().map(|key| format!("{key}={}", value[*key])).collect::<Vec<_>>().join(" ")
}

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect()
}

#[test]
fn a_dataset_from_its_first_version_to_its_lock() {
    let server = Server::start(Mode::Private);
    server.make_run("a", 4);
    let (read, write) = (server.token(Scope::Read), server.token(Scope::Write));
    let change = ["version", "added", "already_present", "not_found", "changed"];

    let body = json!({"item_ids": ["a-2", "a-0", "a-2"], "kind": "trajectory", "description": "first"});
    let made = server.post(&write, VERSIONS, &body).ok();
    assert_eq!(
        told(&made, &change),
        r#"version=1 added=["a-2","a-0"] already_present=[] not_found=[] changed=true"#
    );
    let again = server.post(&write, VERSIONS, &body).ok();
    assert_eq!(told(&again, &["version", "changed", "created_at"]), {
        format!("version=1 changed=false created_at={}", made["created_at"])
    });
    let added = server.post(&write, VERSIONS, &json!({"add": ["a-1", "a-0"]})).ok();
    assert_eq!(
        told(&added, &change),
        r#"version=2 added=["a-1"] already_present=["a-0"] not_found=[] changed=true"#
    );
    let removed = server.post(&write, VERSIONS, &json!({"remove": ["a-2", "a-3"]})).ok();
    assert_eq!(
        told(&removed, &[&change[..], &["removed"]].concat()),
        r#"version=3 added=[] already_present=[] not_found=["a-3"] changed=true removed=["a-2"]"#
    );

    let document = ["name", "kind", "version", "item_ids", "created_by", "description"];
    assert_eq!(
        told(&server.get(&read, "/api/datasets/d").ok(), &document),
        r#"name="d" kind="trajectory" version=3 item_ids=["a-0","a-1"] created_by="ada" description=null"#
    );
    let first = server.get(&read, "/api/datasets/d/versions/1").ok();
    assert_eq!(
        told(&first, &document),
        r#"name="d" kind="trajectory" version=1 item_ids=["a-2","a-0"] created_by="ada" description="first""#
    );
    assert!(first["created_at"].as_str().unwrap().ends_with('Z'));
    let versions = server.get(&read, VERSIONS).ok();
    assert_eq!(told(&versions, &["total_count", "page", "page_size"]), "total_count=3 page=1 page_size=50");
    let all: Vec<_> =
        versions["items"].as_array().unwrap().iter().map(|v| told(v, &["version", "item_ids"])).collect();
    assert_eq!(
        all,
        [
            r#"version=3 item_ids=["a-0","a-1"]"#,
            r#"version=2 item_ids=["a-2","a-0","a-1"]"#,
            r#"version=1 item_ids=["a-2","a-0"]"#
        ]
    );
    let without = server.get(&read, &format!("{VERSIONS}?item_ids=false&page_size=1")).ok();
    assert_eq!(
        told(&without["items"][0], &["version", "item_count", "item_ids"]),
        "version=3 item_count=2 item_ids=null"
    );

    let listed = server.get(&read, "/api/datasets?kind=trajectory").ok();
    let row = ["name", "kind", "latest_version", "item_count", "created_by", "lock"];
    assert_eq!(
        told(&listed["items"][0], &row),
        r#"name="d" kind="trajectory" latest_version=3 item_count=2 created_by="ada" lock=null"#
    );

    let lock = server.ask(&write, Method::PUT, LOCK, Some(&json!({"reason": "in the paper"}))).ok();
    assert_eq!(
        told(&lock, &["name", "locked_by", "reason"]),
        r#"name="d" locked_by="ada" reason="in the paper""#
    );
    let listed = server.get(&read, "/api/datasets").ok();
    assert_eq!(listed["items"][0]["lock"]["locked_at"], lock["locked_at"]);
    assert_eq!(
        told(&listed["items"][0]["lock"], &["locked_by", "reason"]),
        r#"locked_by="ada" reason="in the paper""#
    );
    for body in [json!({"add": ["a-3"]}), json!({"remove": ["a-0"]}), json!({"item_ids": ["a-3"]})] {
        assert_eq!(
            server.post(&write, VERSIONS, &body).error(),
            (409, "dataset d is locked by ada (in the paper); unlock it first".to_owned())
        );
    }
    assert_eq!(server.ask(&write, Method::DELETE, LOCK, None).ok(), json!({"was_locked": true}));
    assert_eq!(server.ask(&write, Method::DELETE, LOCK, None).ok(), json!({"was_locked": false}));
    assert_eq!(server.post(&write, VERSIONS, &json!({"add": ["a-3"]})).ok()["version"], 4);
}

#[test]
fn every_error_has_its_status_and_its_sentence() {
    let server = Server::start(Mode::Private);
    let run = server.make_run("a", 2);
    let (read, write) = (server.token(Scope::Read), server.token(Scope::Write));
    let one = json!({"item_ids": ["a-0"]});
    server.post(&write, VERSIONS, &one).ok();

    let refused = |path: &str, body: &Value| server.post(&write, path, body).error();
    let invalid = |sentence: &str| (400, sentence.to_owned());
    let neither = "give either item_ids, or what to add or to remove";
    assert_eq!(refused(VERSIONS, &json!({})), invalid(neither));
    assert_eq!(refused(VERSIONS, &json!({"item_ids": [], "add": []})), invalid(neither));
    assert_eq!(refused(VERSIONS, &json!({"add": ["x", "a-1"]})), invalid("1 id named no trajectory: x"));
    assert_eq!(
        refused(VERSIONS, &json!({"add": ["a-1"], "remove": ["a-1"]})),
        invalid(r#""a-1" is both to be added and to be removed"#)
    );
    for name in ["a%20b", "%2E%2E%2Fx", "-x", &"x".repeat(129)] {
        let (status, sentence) = refused(&format!("/api/datasets/{name}/versions"), &one);
        assert_eq!(status, 400, "{sentence}");
        assert!(
            sentence.contains("not the name of a dataset") && sentence.contains("letters, digits"),
            "{sentence}"
        );
        assert_eq!(server.get(&read, &format!("/api/datasets/{name}")).status, 404);
    }
    for body in [
        json!({"item_ids": "a-0"}),
        json!({"kind": "sample", "item_ids": []}),
        json!({"add": [1]}),
        json!([]),
    ] {
        assert_eq!(refused(VERSIONS, &body).0, 400, "{body}");
    }
    for path in ["?kind=sample", "?page=0", "?page_size=x", "?cursor=s-1"] {
        assert_eq!(server.get(&read, &format!("/api/datasets{path}")).error().0, 400, "{path}");
    }
    let long = json!({"reason": "x".repeat(1001)});
    assert_eq!(
        server.ask(&write, Method::PUT, LOCK, Some(&long)).error(),
        invalid("a reason has at most 1000 characters")
    );

    server.store.delete_run(&run, &ct_store::Actor::local()).unwrap();
    assert_eq!(
        refused(VERSIONS, &json!({"add": ["a-1"]})),
        invalid("1 id of a deleted run, restore the run first: a-1")
    );
    server.store.restore_run(&run, &ct_store::Actor::local()).unwrap();

    let missing = |sentence: &str| (404, sentence.to_owned());
    assert_eq!(
        refused("/api/datasets/e/versions", &json!({"add": ["a-0"]})),
        missing("dataset e was not found")
    );
    for (path, sentence) in [
        ("/api/datasets/e", "dataset e was not found"),
        ("/api/datasets/e/versions", "dataset e was not found"),
        ("/api/datasets/e/versions/1", "dataset e was not found"),
        ("/api/datasets/d/versions/2", "version 2 of dataset d was not found"),
        ("/api/datasets/d/versions/0", "version 0 of dataset d was not found"),
        ("/api/datasets/d/versions/x", "version x of dataset d was not found"),
        ("/api/datasets/%FF", "there is nothing of such a name"),
        ("/api/datasets/%FF/versions/1", "there is nothing of such a name"),
        ("/api/runs/%FF", "there is nothing of such a name"),
        ("/api/trajectories/%FF", "there is nothing of such a name"),
        ("/api/trajectories?versioned_dataset=e", "dataset e was not found"),
    ] {
        assert_eq!(server.get(&read, path).error(), missing(sentence), "{path}");
    }
    for method in [Method::PUT, Method::DELETE] {
        let answer = server.ask(&write, method, "/api/datasets/e/lock", Some(&json!({})));
        assert_eq!(answer.error(), missing("dataset e was not found"));
    }

    let of_runs = json!({"item_ids": [run], "kind": "run"});
    assert_eq!(
        refused(VERSIONS, &of_runs),
        (409, "dataset d is a list of trajectories, not of runs".to_owned())
    );
    assert_eq!(
        refused(VERSIONS, &json!({"add": ["a-1"], "if_version": 7})),
        (409, "dataset d was changed meanwhile: it is at version 1, not 7".to_owned())
    );

    let (status, sentence) = refused(VERSIONS, &json!({"item_ids": ["x".repeat(9 << 20)]}));
    assert_eq!(status, 413, "{sentence}");
    assert_eq!(server.ask(&write, Method::PUT, VERSIONS, Some(&one)).status, 405);
    assert_eq!(server.get(&read, "/api/datasets/d").ok()["version"], 1);
}

#[test]
fn who_may_not_is_refused() {
    let one = json!({"item_ids": ["a-0"]});
    let writes = |server: &Server, token: &str| {
        [
            server.post(token, VERSIONS, &one).status,
            server.ask(token, Method::PUT, LOCK, Some(&json!({"reason": "x"}))).status,
            server.ask(token, Method::DELETE, LOCK, None).status,
        ]
    };
    let reads = |server: &Server, token: &str| {
        ["/api/datasets", "/api/datasets/d", VERSIONS, "/api/datasets/d/versions/1"]
            .map(|path| server.get(token, path).status)
    };
    for mode in [Mode::Private, Mode::Public] {
        let server = Server::start(mode);
        server.make_run("a", 1);
        server.post(&server.token(Scope::Write), VERSIONS, &one).ok();
        let open = if mode == Mode::Public { 200 } else { 401 };
        assert_eq!(reads(&server, ""), [open; 4], "{mode:?}");
        assert_eq!(reads(&server, "nonsense"), [open; 4], "{mode:?}");
        assert_eq!(reads(&server, &server.token(Scope::Read)), [200; 4], "{mode:?}");
        for (token, status) in [("", 401), ("nonsense", 401), (&server.token(Scope::Read), 403)] {
            assert_eq!(writes(&server, token), [status; 3], "{mode:?}");
        }
        assert_eq!(writes(&server, &server.token(Scope::Admin)), [200; 3], "{mode:?}");
    }
}

#[test]
fn pages_stay_in_place_while_datasets_are_made() {
    let server = Server::start(Mode::Public);
    let run = server.make_run("a", 1);
    let write = server.token(Scope::Write);
    let publish = |name: &str| {
        server.post(&write, &format!("/api/datasets/{name}/versions"), &json!({"item_ids": ["a-0"]})).ok();
    };
    (0..7).for_each(|number| publish(&format!("d{number}")));
    server.post(&write, "/api/datasets/r/versions", &json!({"item_ids": [run], "kind": "run"})).ok();
    let (mut by_number, mut by_cursor, mut cursor) = (Vec::new(), Vec::new(), String::new());
    for page in 1..=4 {
        let path = format!("/api/datasets?kind=trajectory&page_size=2&page={page}");
        by_number.extend(names(&server.get("", &path).ok()).iter().map(|name| (*name).to_owned()));
        let list = server.get("", &format!("/api/datasets?kind=trajectory&page_size=2{cursor}")).ok();
        by_cursor.extend(names(&list).iter().map(|name| (*name).to_owned()));
        cursor = list["next_cursor"].as_str().map(|next| format!("&cursor={next}")).unwrap_or_default();
        publish(&format!("new{page}"));
    }
    assert_eq!(by_number, ["d6", "d5", "d4", "d3", "d2", "d1", "d0"]);
    // By cursor the first page is of the same moment.
    assert_eq!(by_cursor, by_number);
    assert_eq!(cursor, "");
    let newest = server.get("", "/api/datasets?limit=2").ok();
    assert_eq!(names(&newest), ["new4", "new3"]);
    assert_eq!(names(&server.get("", "/api/datasets?kind=run").ok()), ["r"]);
    let capped = server.get("", "/api/datasets?page_size=100000").ok();
    assert_eq!(capped["page_size"], 500);
    assert!(capped["warnings"][0].as_str().unwrap().contains("500"));
}

#[test]
fn trajectories_are_listed_by_dataset() {
    let server = Server::start(Mode::Public);
    let run = server.make_run("a", 3);
    server.make_run("b", 2);
    let write = server.token(Scope::Write);
    server.post(&write, VERSIONS, &json!({"item_ids": ["a-0", "b-1"]})).ok();
    server.post(&write, VERSIONS, &json!({"add": ["a-2"]})).ok();
    server.post(&write, "/api/datasets/r/versions", &json!({"item_ids": [run], "kind": "run"})).ok();
    let edit =
        ct_model::RunEdit { dataset: Some(Some("held out".to_owned())), ..ct_model::RunEdit::default() };
    server.store.edit_run(&run, &edit, &ct_store::Actor::local()).unwrap();
    let ids = |filter: &str| {
        let list = server.get("", &format!("/api/trajectories?ids_only=true&{filter}")).ok();
        let ids: BTreeSet<_> =
            list["items"].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect();
        assert_eq!(list["total_count"], ids.len());
        ids.into_iter().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(ids("versioned_dataset=d"), "a-0 a-2 b-1");
    assert_eq!(ids("versioned_dataset=d&versioned_dataset_version=1"), "a-0 b-1");
    assert_eq!(ids(&format!("versioned_dataset=d&run_id={run}")), "a-0 a-2");
    assert_eq!(ids("versioned_dataset=r"), "a-0 a-1 a-2");
    assert_eq!(ids("dataset=held%20out"), "a-0 a-1 a-2");
    assert_eq!(ids("dataset=held%20out&versioned_dataset=d"), "a-0 a-2");
    let alone = server.get("", "/api/trajectories?versioned_dataset_version=1").error();
    assert_eq!(alone, (400, "a version alone names no dataset".to_owned()));
}

#[test]
fn edits_at_the_same_time_all_count() {
    let server = Server::start(Mode::Public);
    server.make_run("a", 24);
    let write = server.token(Scope::Write);
    server.post(&write, VERSIONS, &json!({"item_ids": []})).ok();
    thread::scope(|scope| {
        for worker in 0..4 {
            let (server, write) = (&server, &write);
            scope.spawn(move || {
                for number in 0..6 {
                    let body = json!({"add": [format!("a-{}", worker * 6 + number)]});
                    assert_eq!(server.post(write, VERSIONS, &body).ok()["changed"], true);
                }
            });
        }
    });
    let newest = server.get("", "/api/datasets/d").ok();
    assert_eq!((&newest["version"], newest["item_ids"].as_array().unwrap().len()), (&json!(25), 24));
}

#[test]
fn a_page_of_versions_says_when_it_leaves_out_items() {
    let server = Server::start(Mode::Public);
    server.make_run("a", 2);
    // Bad ids would be refused by the server; here they only have to be many.
    let many: Vec<String> = (0..150_000).map(|number| format!("m-{number}")).collect();
    let write = server.token(Scope::Write);
    server.post(&write, VERSIONS, &json!({"item_ids": ["a-0"]})).ok();
    let database = rusqlite::Connection::open(server.folder.path().join("ct.sqlite")).unwrap();
    let items = serde_json::to_string(&many).unwrap();
    for version in [2, 3] {
        let add = "INSERT INTO dataset_versions (dataset, version, base, created_us, item_count, items) \
                   VALUES (1, ?, ?, 0, 150000, ?)";
        database.execute(add, rusqlite::params![version, version, items]).unwrap();
    }
    database.execute("UPDATE datasets SET latest = 3", []).unwrap();
    let list = server.get("", VERSIONS).ok();
    let items = list["items"].as_array().unwrap();
    let told: Vec<_> = items
        .iter()
        .map(|version| (&version["version"], version["item_ids"].as_array().map(Vec::len)))
        .collect();
    assert_eq!(told, [(&json!(3), Some(150_000)), (&json!(2), None), (&json!(1), None)]);
    assert_eq!(
        list["warnings"],
        json!(["a page has at most 200000 item ids: ask for version 2 and those before it one by one"])
    );
    assert_eq!(server.get("", &format!("{VERSIONS}?item_ids=false")).ok()["warnings"], Value::Null);
}
