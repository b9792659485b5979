//! Comments over HTTP: the rules are tested with the store, here is who may and what is answered.

use ct_model::Scope;
use ct_server::Mode;
use ct_store::Actor;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::Server;

fn user(server: &Server, username: &str, scope: Scope) -> String {
    server.store.add_user(username, "correct horse battery", scope, &Actor::local()).unwrap();
    server.store.create_token(username, "test", None, None, &Actor::local()).unwrap().token
}

#[test]
fn comments_are_made_changed_and_deleted() {
    let server = Server::start(Mode::Private);
    let run = server.make_run("r", 1);
    let (ana, bo) = (user(&server, "ana", Scope::Write), user(&server, "bo", Scope::Write));
    let (read, admin) = (server.token(Scope::Read), server.token(Scope::Admin));
    for base in [format!("/api/runs/{run}/comments"), "/api/trajectories/r-0/comments".to_owned()] {
        let text = json!({"text": "look <script>"});
        let made = server.post(&ana, &base, &text).ok();
        let created = &made["created"];
        assert!(created.is_string());
        let expected = json!({"id": made["id"], "text": "look <script>", "created": created, "created_by": "ana",
            "edited": null, "deleted": null});
        assert_eq!(made, expected);
        let one = format!("{base}/{}", made["id"].as_str().unwrap());
        let (patch, delete) = (Method::PATCH, Method::DELETE);
        let new = json!({"text": "look here"});
        for (token, status) in [("", 401), (read.as_str(), 403), (bo.as_str(), 403)] {
            assert_eq!(server.ask(token, patch.clone(), &one, Some(&new)).error().0, status, "{one}");
            assert_eq!(server.ask(token, delete.clone(), &one, None).error().0, status, "{one}");
        }
        for (token, status) in [("", 401), (read.as_str(), 403)] {
            assert_eq!(server.post(token, &base, &text).error().0, status, "{base}");
        }
        let edited = server.ask(&ana, patch.clone(), &one, Some(&new)).ok();
        assert_eq!((&edited["text"], &edited["created"]), (&new["text"], created));
        assert!(edited["edited"].is_string());
        let deleted = server.ask(&admin, delete.clone(), &one, None).ok();
        assert!(deleted["deleted"].is_string());
        assert_eq!(server.ask(&ana, patch.clone(), &one, Some(&new)).error().0, 404);
        assert_eq!(server.ask(&ana, delete.clone(), &one, None).ok(), deleted);
        assert_eq!(server.ask(&ana, delete, &format!("{base}/nothing"), None).error().0, 404);
        for bad in [json!({"text": ""}), json!({}), json!({"text": 1})] {
            assert_eq!(server.post(&ana, &base, &bad).error().0, 400, "{bad}");
        }
    }
    for missing in
        ["/api/runs/nothing/comments", "/api/trajectories/nothing/comments", "/api/runs/%00/comments"]
    {
        assert_eq!(server.post(&ana, missing, &json!({"text": "x"})).error().0, 404, "{missing}");
    }
    assert_eq!(server.get(&read, "/api/trajectories/nothing/comments").error().0, 404);
    server.store.delete_run(&run, &Actor::local()).unwrap();
    let base = format!("/api/runs/{run}/comments");
    assert_eq!(server.post(&ana, &base, &json!({"text": "x"})).error().0, 409);
    assert_eq!(server.post(&ana, "/api/trajectories/r-0/comments", &json!({"text": "x"})).error().0, 409);
    assert_eq!(server.get(&read, "/api/trajectories/r-0/comments").error().0, 404);
}

#[test]
fn comments_on_actions_are_by_their_number() {
    let server = Server::start(Mode::Private);
    server.make_run("r", 1);
    let write = server.token(Scope::Write);
    let base = "/api/trajectories/r-0/comments";
    let whole = server.post(&write, base, &json!({"text": "whole"})).ok();
    let second = server.post(&write, base, &json!({"text": "second", "action": 1})).ok();
    assert_eq!(second["action"], 1);
    assert_eq!(server.post(&write, base, &json!({"text": "beyond", "action": 2})).error().0, 400);
    assert_eq!(server.post(&write, base, &json!({"text": "before", "action": -1})).error().0, 400);
    let said = server.post(&write, base, &json!({"text": "said", "step": 3})).ok();
    assert_eq!((&said["step"], said.get("action")), (&json!(3), None));
    let both = server.post(&write, base, &json!({"text": "both", "step": 3, "action": 1}));
    assert!(both.error().0 == 400);
    let listed = server.get(&write, base).ok();
    assert_eq!(listed, json!({"comments": [whole, said], "step_comments": {"1": [second]}}));
}

#[test]
fn a_patched_list_of_comments_is_not_believed_about_who_and_when() {
    let server = Server::start(Mode::Private);
    let run = server.make_run("r", 1);
    let (ana, bo) = (user(&server, "ana", Scope::Write), user(&server, "bo", Scope::Write));
    let path = format!("/api/runs/{run}");
    let patch = |token: &str, comments: Value| {
        server.ask(token, Method::PATCH, &path, Some(&json!({"comments": comments})))
    };
    let claimed =
        json!([{"text": "mine", "created_by": "bo", "created": "1999-01-01T00:00:00Z", "edited": true}]);
    let comments = patch(&ana, claimed).ok()["comments"].clone();
    let comment = &comments[0];
    assert_eq!((&comment["created_by"], &comment["edited"]), (&json!("ana"), &Value::Null));
    assert!(!comment["created"].as_str().unwrap().starts_with("1999"));
    let id = &comment["id"];
    assert_eq!(patch(&bo, json!([{"id": id, "text": "changed"}])).error().0, 403);
    assert_eq!(patch(&bo, json!([])).ok()["comments"], comments);
    assert_eq!(patch(&ana, json!([{"id": id, "text": "changed"}])).ok()["comments"][0]["text"], "changed");
    let none = patch(&ana, Value::Null).ok();
    assert!(none["comments"][0]["deleted"].is_string());
    assert_eq!(server.get(&bo, &path).ok()["comments"], none["comments"]);
}
