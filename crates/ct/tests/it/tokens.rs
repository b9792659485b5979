use serde_json::{Value, json};

use crate::support::{Home, assert_ct};

fn home() -> Home {
    let home = Home::new();
    home.ct_with_input(&["users", "add", "ana", "--password-stdin"], "correct horse");
    home
}

#[test]
fn a_token_is_printed_once_listed_and_revoked() {
    let home = home();
    let output = home
        .command(&["tokens", "create", "ANA", "--label", "nightly", "--scope", "read", "--expires", "90d"])
        .output()
        .unwrap();
    let token = String::from_utf8(output.stdout).unwrap();
    assert!(token.starts_with("ct_") && token.len() == 68 && token.ends_with('\n'), "{token:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("of ana (read)") && said.contains("not shown again"), "{said}");
    let made = home.json(&["tokens", "create", "ana", "--format", "json"]);
    assert_eq!((&made["details"]["scope"], &made["details"]["expires_at"]), (&json!("write"), &Value::Null));
    let list = |arguments: &[&str]| {
        let all = [&["tokens", "list", "--format", "json"], arguments].concat();
        home.json(&all)["items"].as_array().unwrap().clone()
    };
    let tokens = list(&["--user", "ana"]);
    assert_eq!(tokens.len(), 2);
    assert_eq!((&tokens[1]["label"], &tokens[1]["scope"]), (&json!("nightly"), &json!("read")));
    let shown = home.stdout(&["tokens", "list"]);
    for secret in [token.trim_end(), made["token"].as_str().unwrap()] {
        assert!(!shown.contains(&secret[3..]) && !json!(tokens).to_string().contains(&secret[3..]));
    }
    let id = made["details"]["token_id"].as_str().unwrap();
    let mut settings = home.settings();
    settings.add_filter(id, "[ID]");
    settings.bind(|| {
        insta::assert_snapshot!(home.ct(&["tokens", "revoke", id]));
        insta::assert_snapshot!(home.ct(&["tokens", "revoke", id, "--format", "json"]));
    });
    assert_eq!((list(&[]).len(), list(&["--all"]).len()), (1, 2));
    assert!(home.stdout(&["tokens", "list", "--all"]).contains("revoked"));
}

#[test]
fn what_cannot_be_a_token_is_refused() {
    let home = home();
    assert_ct!(home, ["tokens", "create", "bo"]);
    assert_ct!(home, ["tokens", "create", "ana", "--scope", "admin"]);
    assert_ct!(home, ["tokens", "create", "ana", "--expires", "0d"]);
    assert_ct!(home, ["tokens", "revoke", "nothing"]);
    assert_ct!(home, ["tokens", "revoke", "ct_0123"]);
    assert_ct!(home, ["tokens", "list", "--user", "bo"]);
    home.ct(&["users", "disable", "ana"]);
    assert_ct!(home, ["tokens", "create", "ana"]);
}
