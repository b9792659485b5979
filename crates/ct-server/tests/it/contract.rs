//! The errors that the contract names, route by route, each with its status and its one sentence.

use ct_model::Scope;
use serde_json::{Value, json};

use crate::wire::{Answer, Server, batch, json_as, made, send, token};

/// Who asks.
#[derive(Debug, Clone, Copy)]
enum Who {
    Writer,
    Reader,
    /// With a token of another server.
    Stranger,
    Nobody,
}

use Who::{Nobody, Reader, Stranger, Writer};

#[test]
fn every_error_of_the_contract_has_its_status_and_one_sentence() {
    let server = Server::start();
    let reader = token(&server.store, "bob", Scope::Read);
    let stranger = Server::start().token.clone();
    let run = made("ct-11", "r1");
    server.upload(&run.key, &run.log);
    assert_eq!(server.register(&run.documents, Some(&run.header)).status, 200);
    let id = run.documents[0]["trajectory_id"].as_str().unwrap();
    let versions = "/api/datasets/locked/versions";
    assert_eq!(server.json("POST", versions, Some(&json!({"item_ids": [id]}))).status, 200);
    assert_eq!(server.json("PUT", "/api/datasets/locked/lock", Some(&json!({"reason": "r"}))).status, 200);

    let mut other = run.documents.clone();
    other[0]["number_of_actions"] = json!(77);
    let mut unnamed = run.documents.clone();
    unnamed[0].as_object_mut().unwrap().remove("trajectory_id");
    let mut renamed = run.header.clone();
    renamed["name"] = json!("another");
    let mut elsewhere = run.documents.clone();
    elsewhere[0]["run_id"] = json!("r2");
    let version_2 = json!({"client": "control-tower", "schema_version": 2, "trajectories": []});
    let sizes = json!({"client": "control-tower", "schema_version": 3, "trajectories": [],
        "eval_log_sizes": {"r1.eval": 7}});
    let register = "/api/trajectories/register";
    let plan = |name: &str| json!({"filename": name, "size_bytes": 5});
    let login = |name: &str, password: &str| json!({"username": name, "password": password});

    let cases: Vec<(Who, &str, &str, Option<Value>, u16)> = vec![
        // Authentication
        (Nobody, "POST", "/api/auth/login", Some(login("ann", "wrong")), 401),
        (Nobody, "POST", "/api/auth/login", Some(login("nobody", "correct horse battery")), 401),
        (Nobody, "POST", "/api/auth/login", Some(json!({"username": "ann"})), 400),
        (Nobody, "GET", "/api/runs", None, 401),
        (Stranger, "GET", "/api/runs", None, 401),
        (Nobody, "GET", "/api/trajectories/none", None, 401),
        (Nobody, "GET", "/api/pricing", None, 401),
        (Stranger, "PATCH", "/api/runs/r1", Some(json!({"name": "n"})), 401),
        // Lists
        (Reader, "GET", "/api/runs?page=0", None, 400),
        (Reader, "GET", "/api/runs?page_size=0", None, 400),
        (Reader, "GET", "/api/runs?limit=many", None, 400),
        (Reader, "GET", "/api/runs?cursor=made-up", None, 400),
        // Runs
        (Reader, "GET", "/api/runs/none", None, 404),
        (Reader, "GET", "/api/runs/none/eval", None, 404),
        (Writer, "PATCH", "/api/runs/none", Some(json!({"name": "n"})), 404),
        (Reader, "PATCH", "/api/runs/r1", Some(json!({"name": "n"})), 403),
        (Writer, "PATCH", "/api/runs/r1", Some(json!({"name": "n", "created_by": "me"})), 400),
        (Writer, "PATCH", "/api/runs/r1", Some(json!({"metrics": null})), 400),
        (Writer, "PATCH", "/api/runs/r1", Some(json!({"name": null})), 400),
        (Writer, "PATCH", "/api/runs/r1", Some(json!(["name"])), 400),
        // Trajectories
        (Reader, "GET", "/api/trajectories?main_task_outcome=maybe", None, 400),
        (Reader, "GET", "/api/trajectories?versioned_dataset=none", None, 404),
        (Reader, "GET", "/api/trajectories?versioned_dataset=locked&versioned_dataset_version=2", None, 404),
        (Reader, "GET", "/api/trajectories/none", None, 404),
        (Reader, "GET", "/api/trajectories/none/eval", None, 404),
        (Reader, "GET", "/api/trajectories/zip", None, 400),
        (Reader, "GET", "/api/trajectories/zip?run_id=r1&trajectory_ids=x", None, 400),
        (Reader, "GET", "/api/trajectories/zip?run_id=none", None, 404),
        (Reader, "GET", "/api/trajectories/zip?trajectory_ids=none", None, 404),
        (Reader, "GET", "/api/trajectories/zip?versioned_dataset=none", None, 404),
        // Upload of a run
        (Writer, "POST", "/api/eval-logs/upload", Some(plan("r1.eval")), 409),
        (Writer, "POST", "/api/eval-logs/upload", Some(plan("../r2.eval")), 400),
        (Reader, "POST", "/api/eval-logs/upload", Some(plan("r2.eval")), 403),
        (Nobody, "POST", "/api/eval-logs/upload", Some(plan("r2.eval")), 401),
        (Writer, "GET", "/api/eval-logs/head?filename=r2.eval", None, 404),
        (Reader, "GET", "/api/eval-logs/head?filename=r1.eval", None, 403),
        (Stranger, "GET", "/api/eval-logs/head?filename=r1.eval", None, 401),
        (Reader, "POST", register, Some(batch(&run.documents, None)), 403),
        (Nobody, "POST", register, Some(batch(&run.documents, None)), 401),
        (Writer, "POST", register, Some(version_2), 400),
        (Writer, "POST", register, Some(sizes), 400),
        (Writer, "POST", register, Some(batch(&unnamed, None)), 400),
        (Writer, "POST", register, Some(batch(&elsewhere, None)), 400),
        (Writer, "POST", register, Some(batch(&other, None)), 409),
        (Writer, "POST", register, Some(batch(&[], Some(&renamed))), 409),
        // Datasets
        (Reader, "GET", "/api/datasets?kind=runs", None, 400),
        (Reader, "GET", "/api/datasets/none", None, 404),
        (Reader, "GET", "/api/datasets/none/versions", None, 404),
        (Reader, "GET", "/api/datasets/locked/versions/2", None, 404),
        (Writer, "POST", "/api/datasets/new/versions", Some(json!({"item_ids": ["none"]})), 400),
        (Writer, "POST", "/api/datasets/new/versions", Some(json!({"item_ids": [id], "kind": "run"})), 400),
        (Writer, "POST", "/api/datasets/none/versions", Some(json!({"add": [id]})), 404),
        (Writer, "POST", versions, Some(json!({"item_ids": []})), 409),
        (Writer, "POST", versions, Some(json!({"remove": [id]})), 409),
        (Reader, "POST", "/api/datasets/new/versions", Some(json!({"item_ids": [id]})), 403),
        (Writer, "PUT", "/api/datasets/none/lock", Some(json!({"reason": "r"})), 404),
        (Writer, "DELETE", "/api/datasets/none/lock", None, 404),
        (Reader, "PUT", "/api/datasets/locked/lock", Some(json!({"reason": "r"})), 403),
        (Nobody, "DELETE", "/api/datasets/locked/lock", None, 401),
    ];
    for (who, method, path, body, status) in cases {
        let answer = match who {
            Writer => server.json(method, path, body.as_ref()),
            Reader => json_as(server.address, &reader, method, path, body.as_ref()),
            Stranger => json_as(server.address, &stranger, method, path, body.as_ref()),
            Nobody => {
                let body = body.as_ref().map(|body| body.to_string().into_bytes());
                send(server.address, method, path, &[], body.as_deref())
            }
        };
        let named = format!("{who:?} {method} {path} {body:?}");
        assert_eq!(answer.status, status, "{named}: {answer:?}");
        assert_one_sentence(&answer, &named);
    }

    // A key that was taken after its address was made, and an address that is not what it was.
    let target = server.plan("r3.eval", 5);
    assert_eq!(server.put(&target, b"a log").status, 200);
    for (target, status) in [(target.clone(), 412), (target.replace("r3", "r4"), 403)] {
        let answer = server.put(&target, b"a log");
        assert_eq!(answer.status, status, "{answer:?}");
        assert_one_sentence(&answer, &target);
    }
    // Nothing of all this changed anything, and the same again is no error.
    assert_eq!(server.register(&run.documents, Some(&run.header)).json()["already_there"], 6);
    assert_eq!(server.json("GET", "/api/datasets", None).json()["total_count"], 1);
}

/// `{"error": "<one sentence>"}`; beside it may stand what helps to go on.
fn assert_one_sentence(answer: &Answer, named: &str) {
    let body = answer.json();
    let sentence = body["error"].as_str().unwrap_or_else(|| panic!("{named}: {body}"));
    assert!(!sentence.is_empty() && !sentence.contains('\n'), "{named}: {body}");
    let known = ["error", "candidates", "deleted_run"];
    assert!(body.as_object().unwrap().keys().all(|key| known.contains(&key.as_str())), "{named}: {body}");
}
