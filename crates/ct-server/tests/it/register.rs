//! Runs are registered as clients do it.

use std::ops::ControlFlow;

use ct_model::{RunId, RunQuery};
use ct_store::{Actor, Registration, Store, StoreError};
use serde_json::value::to_raw_value;
use serde_json::{Map, Value, json};

use crate::wire::{Server, data, made};

fn visible(server: &Server) -> u64 {
    server.store.runs(&RunQuery::default()).unwrap().total_count
}

fn run_id(text: &str) -> RunId {
    text.parse().unwrap()
}

/// The stored documents by sample, less what the expected ones do not have.
fn stored(server: &Server, run: &str) -> Map<String, Value> {
    let mut found = Map::new();
    let take = &mut |document: ct_model::TrajectoryDocument| {
        let mut value = serde_json::to_value(&document).unwrap();
        let fields = value.as_object_mut().unwrap();
        for field in ["trajectory_id", "run_id", "eval_log_url", "converted_at"] {
            fields.remove(field);
        }
        fields["eval_sample_range"].as_object_mut().unwrap().remove("key");
        found.insert(format!("{}#{}", document.eval_sample_id, document.epoch), value);
        ControlFlow::Continue(())
    };
    server.store.documents(&run_id(run), take).unwrap();
    found
}

#[test]
fn a_run_becomes_visible_with_its_header_and_is_as_expected() {
    for name in ["ct-11", "ct-12"] {
        let server = Server::start();
        let made = made(name, "run-1");
        server.upload(&made.key, &made.log);
        for documents in made.documents[..4].chunks(2) {
            let answer = server.register(documents, None);
            assert_eq!((answer.status, answer.json()["registered"].as_u64()), (200, Some(2)), "{answer:?}");
            assert_eq!(visible(&server), 0);
        }
        let answer = server.register(&made.documents[4..], Some(&made.header));
        assert_eq!((answer.status, &answer.json()["run_id"]), (200, &json!("run-1")), "{answer:?}");
        assert_eq!(visible(&server), 1);

        let expected = std::fs::read(data().join(format!("{name}.expected.json"))).unwrap();
        let expected: Value = serde_json::from_slice(&expected).unwrap();
        let found = stored(&server, "run-1");
        let wanted = expected["trajectories"].as_object().unwrap();
        assert_eq!(found.len(), wanted.len());
        for (sample, document) in wanted {
            assert_eq!(&found[sample], document, "{sample}");
        }
        let record = server.store.run(&run_id("run-1")).unwrap();
        assert_eq!(record.header.created_by.as_deref(), Some("ann"));
        assert_eq!(record.header.trajectory_count, Some(6));
        assert_eq!(record.header.total_cost_usd, Some(0.036));
        assert_eq!(serde_json::to_value(&record.header.metrics).unwrap(), expected["run"]["metrics"]);
        assert_eq!(record.status.as_str(), "success");
        assert!(server.store.check(false, &mut |_| ()).unwrap().is_sound());
    }
}

#[test]
fn the_same_again_changes_nothing() {
    let server = Server::start();
    let made = made("ct-11", "run-1");
    server.upload(&made.key, &made.log);
    for _ in 0..2 {
        assert_eq!(server.register(&made.documents[..4], None).status, 200);
    }
    for _ in 0..2 {
        assert_eq!(server.register(&made.documents[4..], Some(&made.header)).status, 200);
    }
    // Another conversion of the same log, and what is the server's to say.
    let mut later = made.documents.clone();
    for document in &mut later {
        document["converted_at"] = json!("2027-01-01T00:00:00Z");
        document["created_by"] = json!("mallory");
        document["eval_sample_range"]["eTag"] = json!("\"x\"");
    }
    let mut header = made.header.clone();
    header["created_at"] = json!("1999-01-01T00:00:00Z");
    header["created_by"] = json!("mallory");
    header["trajectory_count"] = json!(9);
    let answer = server.register(&later, Some(&header));
    assert_eq!((answer.status, answer.json()["already_there"].as_u64()), (200, Some(6)), "{answer:?}");
    let record = server.store.run(&run_id("run-1")).unwrap();
    assert_eq!((record.version, record.header.trajectory_count), (1, Some(6)));
    assert_eq!(record.header.created_by.as_deref(), Some("ann"));
}

#[test]
fn documents_may_come_first_and_the_header_alone() {
    let server = Server::start();
    let made = made("ct-11", "run-1");
    server.upload(&made.key, &made.log);
    assert_eq!(server.register(&made.documents, None).status, 200);
    assert_eq!(visible(&server), 0);
    assert_eq!(server.register(&[], Some(&made.header)).status, 200);
    assert_eq!(visible(&server), 1);
    assert_eq!(stored(&server, "run-1").len(), 6);
}

/// The disk fails to keep a log: what stands in its place can be written, and not written through.
#[cfg(target_os = "linux")]
#[test]
fn a_run_whose_log_the_disk_does_not_keep_is_not_made() {
    let server = Server::start();
    let made = made("ct-11", "run-1");
    server.upload(&made.key, &made.log);
    let batch = |documents: &[Value], header: Option<&Value>| Registration {
        documents: documents.iter().map(|document| to_raw_value(document).unwrap()).collect(),
        header: header.cloned(),
        bucket: "logs".to_owned(),
        ..Registration::default()
    };
    // A process that did not see the upload, so it has to ask the disk itself.
    let store = Store::open(server.folder.path()).unwrap();
    store.register(batch(&made.documents, None), &Actor::local()).unwrap();
    let log = store.object(&made.key.parse().unwrap()).unwrap().unwrap().log;
    let path = store.log_path(&log).unwrap();
    let aside = path.with_extension("aside");
    std::fs::rename(&path, &aside).unwrap();
    std::os::unix::fs::symlink("/dev/null", &path).unwrap();
    let failed = store.register(batch(&[], Some(&made.header)), &Actor::local());
    assert!(matches!(&failed, Err(StoreError::Io { .. })), "{failed:?}");
    assert!(failed.unwrap_err().to_string().contains("write the log through to the disk"));
    assert_eq!(visible(&server), 0);
    // A disk that failed once is not believed the next time, whatever it says then.
    std::fs::rename(&aside, &path).unwrap();
    let again = store.register(batch(&[], Some(&made.header)), &Actor::local());
    assert!(again.unwrap_err().to_string().contains("upload it first"));
    assert_eq!(visible(&server), 0);
    assert_eq!(server.json("GET", "/api/eval-logs/head?filename=run-1.eval", None).status, 404);
    server.upload(&made.key, &made.log);
    assert_eq!(server.register(&[], Some(&made.header)).status, 200);
    assert_eq!((visible(&server), stored(&server, "run-1").len()), (1, 6));
}

#[test]
fn fields_of_other_writers_come_back() {
    let server = Server::start();
    let mut made = made("ct-11", "run-1");
    server.upload(&made.key, &made.log);
    let mark = json!({"deep": [1, {"er": null}]});
    let document = &mut made.documents[0];
    let places = [
        "",
        "/environment",
        "/main_task",
        "/timing",
        "/cost",
        "/eval_sample_range",
        "/task_scores/0",
        "/action_summaries/0",
    ];
    for place in places {
        document.pointer_mut(place).unwrap_or_else(|| panic!("{place}"))["of_another"] = mark.clone();
    }
    document["error"] = json!({"message": "m", "of_another": mark});
    made.header["of_another"] = mark.clone();
    assert_eq!(server.register(&made.documents, Some(&made.header)).status, 200);
    let id = made.documents[0]["trajectory_id"].as_str().unwrap();
    let one = server.json("GET", &format!("/api/trajectories/{id}?view=document"), None).json();
    let list = server.json("GET", "/api/trajectories?documents=true&run_id=run-1", None).json();
    let listed = list["items"].as_array().unwrap().iter().find(|item| item["trajectory_id"] == id).unwrap();
    for found in [&one, listed] {
        for place in places.iter().chain(&["/error"]) {
            assert_eq!(found.pointer(place).unwrap()["of_another"], mark, "{place}");
        }
    }
    let mut found = server.json("GET", "/api/runs/run-1", None).json();
    assert_eq!(found["of_another"], mark);
    // An edit does not lose them.
    let edit = server.json("PATCH", "/api/runs/run-1", Some(&json!({"name": "other"})));
    assert_eq!(edit.status, 200);
    found = server.json("GET", "/api/runs/run-1", None).json();
    assert_eq!((&found["of_another"], &found["name"]), (&mark, &json!("other")));
}

#[test]
fn a_log_takes_the_place_of_another_of_the_same_eval_alone() {
    let server = Server::start();
    let (first, stranger) = (made("ct-11", "run-1"), made("ct-12", "way"));
    server.upload(&first.key, &first.log);
    assert_eq!(server.register(&first.documents, Some(&first.header)).status, 200);
    server.upload(&stranger.key, &stranger.log);
    let replace = |run: &str| {
        let mut batch = crate::wire::batch(&stranger.documents, Some(&stranger.header));
        batch["replaces"] = json!(run);
        server.json("POST", "/api/trajectories/register", Some(&batch))
    };
    let refused = replace("run-1");
    assert_eq!((refused.status, refused.error().contains("another eval")), (400, true), "{refused:?}");
    assert_eq!(replace("nobody").status, 404);
    assert_eq!(server.json("DELETE", "/api/runs/run-1", None).status, 200);
    let refused = replace("run-1");
    assert_eq!((refused.status, &refused.json()["deleted_run"]), (409, &json!("run-1")));
    let record = server.store.run(&run_id("run-1")).unwrap();
    assert_eq!((record.revisions.len(), record.header.trajectory_count), (0, Some(6)));
}

#[test]
fn something_different_is_a_conflict() {
    let server = Server::start();
    let first = made("ct-11", "run-1");
    server.upload(&first.key, &first.log);
    let mut other = first.documents.clone();
    other[0]["name"] = json!("other");
    // While it waits, and when it is visible.
    assert_eq!(server.register(&first.documents[..1], None).status, 200);
    assert_eq!(server.register(&other[..1], None).status, 409);
    assert_eq!(server.register(&first.documents[1..5], Some(&first.header)).status, 200);
    let answer = server.register(&other[..1], None);
    assert_eq!(answer.status, 409);
    assert!(answer.error().ends_with("is stored already, with another document"), "{answer:?}");
    let mut header = first.header.clone();
    header["name"] = json!("other");
    let answer = server.register(&[], Some(&header));
    assert_eq!(
        (answer.status, answer.error().as_str()),
        (409, "run run-1 is stored already, with another header")
    );
    // The run is complete.
    assert_eq!(server.register(&first.documents[5..], None).status, 409);

    // The same log as another run.
    let again = made("ct-11", "run-2");
    server.upload(&again.key, &again.log);
    let answer = server.register(&again.documents, Some(&again.header));
    assert_eq!(answer.status, 409);
    assert_eq!(answer.error(), "run run-2 is there already as run run-1, from the same log");

    // A trajectory of another run.
    let mut third = made("ct-12", "run-3");
    server.upload(&third.key, &third.log);
    third.documents[0]["trajectory_id"] = first.documents[0]["trajectory_id"].clone();
    let answer = server.register(&third.documents, Some(&third.header));
    assert_eq!(answer.status, 409);
    assert!(answer.error().ends_with("is already part of run run-1"), "{answer:?}");
    assert_eq!(visible(&server), 1);

    // A deleted run has to be restored first.
    server.store.delete_run(&run_id("run-1"), &Actor::local()).unwrap();
    let answer = server.register(&first.documents[..1], None);
    assert_eq!((answer.status, answer.error().as_str()), (409, "run run-1 is deleted; restore it first"));
    let answer = server.register(&again.documents, None);
    assert_eq!(
        answer.error(),
        "run run-2 is there already as run run-1, which is deleted, from the same log"
    );
}

#[test]
fn what_is_not_valid_is_named() {
    let server = Server::start();
    let made = made("ct-11", "run-1");
    let answer = server.register(&made.documents[..1], None);
    assert_eq!(
        (answer.status, answer.error().as_str()),
        (400, "log run-1.eval is not there; upload it first")
    );
    server.upload(&made.key, &made.log);
    let id = made.documents[1]["trajectory_id"].as_str().unwrap();
    let absent = json!("(absent)");
    for (pointer, value, expected) in [
        ("/trajectory_id", absent.clone(), "trajectory_id: missing"),
        ("/trajectory_id", json!("../x"), "trajectory_id: not an id"),
        ("/run_id", absent.clone(), "run_id: missing"),
        ("/run_id", json!("run-9"), "log run-9.eval is not there"),
        ("/epoch", absent.clone(), "missing field `epoch`"),
        ("/epoch", json!("one"), "epoch: invalid type"),
        ("/environment/id", json!(7), "environment.id: invalid type"),
        ("/eval_sample_id", json!("nobody"), "is not sample"),
        ("/eval_log_url", json!("s3://logs/other.eval"), "eval_log_url"),
        ("/eval_log_url", json!("s3://else/run-1.eval"), "eval_log_url"),
        ("/eval_sample_range/key", json!("run-2.eval"), "eval_sample_range.key"),
        ("/eval_sample_range/samplePath", json!("header.json"), "the log has no sample \"header.json\""),
        (
            "/eval_sample_range/samplePath",
            made.documents[0]["eval_sample_range"]["samplePath"].clone(),
            "is not sample",
        ),
        (
            "/eval_sample_range/compressedStart",
            json!(1),
            "eval_sample_range.compressedStart: 1, and in the log",
        ),
        ("/eval_sample_range/compressedSize", json!(1), "eval_sample_range.compressedSize"),
        ("/eval_sample_range/uncompressedSize", json!(1), "eval_sample_range.uncompressedSize"),
        ("/eval_sample_range/compressionMethod", json!(8), "eval_sample_range.compressionMethod"),
        ("/eval_sample_range/crc32", json!(1), "eval_sample_range.crc32"),
    ] {
        let mut documents = made.documents[..2].to_vec();
        if value == absent {
            documents[1].as_object_mut().unwrap().remove(&pointer[1..]);
        } else {
            *documents[1].pointer_mut(pointer).unwrap() = value.clone();
        }
        let answer = server.register(&documents, Some(&made.header));
        assert_eq!(answer.status, 400, "{pointer} {value}: {answer:?}");
        let error = answer.error();
        assert!(error.contains(expected), "{pointer}: {error}");
        assert!(!error.starts_with("trajectories[0]"), "{pointer}: {error}");
        if pointer != "/run_id" && pointer != "/trajectory_id" {
            assert!(error.starts_with(&format!("trajectories[1] ({id}): ")), "{error}");
        }
    }
    let mut header = made.header.clone();
    header["tags"] = json!("not a list");
    let answer = server.register(&made.documents, Some(&header));
    assert_eq!(answer.status, 400);
    assert!(answer.error().starts_with("run: tags: invalid type"), "{answer:?}");
    let mut header = made.header.clone();
    header.as_object_mut().unwrap().remove("name");
    assert_eq!(server.register(&made.documents, Some(&header)).error(), "run: missing field `name`");

    for (field, value) in [
        ("client", json!("someone")),
        ("schema_version", json!(2)),
        ("trajectories", json!([7])),
        ("trajectories", json!({})),
        ("eval_log_sizes", json!({"run-1.eval": 3})),
        ("eval_log_sizes", json!({"run-9.eval": 3})),
        ("eval_log_sizes", json!({"../x": 3})),
    ] {
        let mut batch = crate::wire::batch(&made.documents, Some(&made.header));
        batch[field] = value;
        let answer = server.json("POST", "/api/trajectories/register", Some(&batch));
        assert_eq!(answer.status, 400, "{field}: {answer:?}");
    }
    assert_eq!(visible(&server), 0, "nothing of all that was taken in");
    let mut batch = crate::wire::batch(&made.documents, Some(&made.header));
    batch["eval_log_sizes"] = json!({"run-1.eval": made.log.len()});
    assert_eq!(server.json("POST", "/api/trajectories/register", Some(&batch)).json()["registered"], 6);
}

#[test]
fn unknown_fields_are_kept_and_words_are_not_put_into_mouths() {
    let server = Server::start();
    let mut made = made("ct-11", "run-1");
    server.upload(&made.key, &made.log);
    made.documents[0]["of_a_newer_client"] = json!({"a": [1, null]});
    made.documents[0]["created_by"] = json!("mallory");
    made.header["comments"] = json!([{"id": "c1", "text": "hello", "created_by": "mallory", "edited": true}]);
    assert_eq!(server.register(&made.documents, Some(&made.header)).status, 200);
    let id = made.documents[0]["trajectory_id"].as_str().unwrap().parse().unwrap();
    let document = server.store.document(&id).unwrap();
    assert_eq!(document.extra["of_a_newer_client"], json!({"a": [1, null]}));
    assert_ne!(document.extra.get("created_by"), Some(&json!("mallory")));
    let record = server.store.run(&run_id("run-1")).unwrap();
    let comment = serde_json::to_value(&record.header.comments[0]).unwrap();
    assert_eq!((&comment["text"], &comment["created_by"]), (&json!("hello"), &json!("ann")));
    assert_eq!(comment.get("edited"), None);
}

#[test]
fn who_registers_at_once_gets_one_run() {
    let server = Server::start();
    let made = made("ct-11", "run-1");
    server.upload(&made.key, &made.log);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                for documents in made.documents[..4].chunks(1) {
                    let answer = server.register(documents, None);
                    assert_eq!(answer.status, 200, "{answer:?}");
                }
                let answer = server.register(&made.documents[4..], Some(&made.header));
                assert_eq!(answer.status, 200, "{answer:?}");
            });
        }
    });
    assert_eq!(visible(&server), 1);
    assert_eq!(stored(&server, "run-1").len(), 6);
    assert!(server.store.check(false, &mut |_| ()).unwrap().is_sound());
}
