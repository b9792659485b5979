use serde_json::json;

use crate::support::{Home, assert_ct};

const ADD: [&str; 4] = ["users", "add", "Ana", "--password-stdin"];

#[test]
fn accounts_are_added_listed_and_changed() {
    let home = Home::new();
    assert_ct!(home, ["users", "list"]);
    assert_ct!(home, ADD, input: "correct horse\r\nignored");
    assert_ct!(home, ["users", "add", "root", "--scope", "admin", "--password-stdin", "--format", "json"], input: "battery staple");
    assert_ct!(home, ["users", "scope", "ana", "read"]);
    assert_ct!(home, ["users", "scope", "ana", "read"]);
    assert_ct!(home, ["users", "disable", "ana"]);
    assert_ct!(home, ["users", "disable", "ana", "--format", "json"]);
    let users = home.json(&["users", "list", "--format", "json"]);
    let of = |index: usize| {
        let user = &users["items"][index];
        (
            user["username"].clone(),
            user["scope"].clone(),
            user["disabled_at"].is_string(),
            user["token_count"].clone(),
        )
    };
    assert_eq!(of(0), (json!("Ana"), json!("read"), true, json!(0)));
    assert_eq!(of(1), (json!("root"), json!("admin"), false, json!(0)));
    assert_eq!(users["items"].as_array().unwrap().len(), 2);
    assert!(home.stdout(&["users", "list"]).contains("Ana   read   disabled       0"));
    assert_ct!(home, ["users", "enable", "ana"]);
    assert_ct!(home, ["users", "passwd", "ana", "--revoke-tokens", "--password-stdin"], input: "another horse\n");
}

#[test]
fn what_cannot_be_an_account_is_refused() {
    let home = Home::new();
    // Nobody can be asked here, and an argument is not for passwords.
    assert_ct!(home, ["users", "add", "ana"]);
    assert_ct!(home, ["users", "add", "ana", "--password", "correct horse"]);
    assert_ct!(home, ADD, input: "");
    assert_ct!(home, ADD, input: "short");
    assert_ct!(home, ["users", "add", "a b", "--password-stdin"], input: "correct horse");
    home.ct_with_input(&ADD, "correct horse");
    assert_ct!(home, ["users", "add", "ANA", "--password-stdin"], input: "correct horse");
    assert_ct!(home, ["users", "disable", "bo"]);
    assert_ct!(home, ["users", "passwd", "bo", "--password-stdin"], input: "correct horse");
}

#[test]
fn without_a_store_there_is_no_account() {
    let home = Home::new();
    assert_ct!(home, ["users", "list", "--format", "json"]);
    assert_ct!(home, ["users", "disable", "ana"]);
    assert_ct!(home, ["tokens", "list"]);
    assert!(!home.path("../share").exists());
}
