//! Users, tokens, sign-ins, and what the audit log says of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use ct_model::{AuditQuery, AuditRow, Scope};
use ct_store::{Actor, Conflict, Store, StoreError};
use jiff::SignedDuration;
use serde_json::json;
use tempfile::TempDir;

use crate::support::{Logs, second};

const PASSWORD: &str = "correct horse";

/// A store whose clock stands still until it is moved.
struct Accounts {
    folder: TempDir,
    logs: Logs,
    store: Store,
    now: Arc<AtomicI64>,
}

fn local() -> Actor {
    Actor::local()
}

fn remote() -> Actor {
    Actor { user: None, token_id: None, origin: "192.0.2.1".to_owned() }
}

impl Accounts {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let now = Arc::new(AtomicI64::new(0));
        let read = Arc::clone(&now);
        let clock = Arc::new(move || second(read.load(Ordering::Relaxed)));
        let logs = Logs::new();
        let store = logs.open(folder.path(), clock);
        Self { folder, logs, store, now }
    }

    fn with_user(username: &str, scope: Scope) -> Self {
        let accounts = Self::new();
        accounts.store.add_user(username, PASSWORD, scope, &local()).unwrap();
        accounts
    }

    fn pass(&self, seconds: i64) {
        self.now.fetch_add(seconds, Ordering::Relaxed);
    }

    fn sign_in(&self, username: &str, password: &str) -> Option<String> {
        self.store
            .sign_in(username, password, "laptop", None, &remote())
            .unwrap()
            .map(|created| created.token)
    }

    fn scope(&self, token: &str) -> Option<Scope> {
        self.store.authenticate(token).unwrap().map(|identity| identity.scope)
    }

    fn audit(&self) -> Vec<AuditRow> {
        let mut rows = self.store.audit_rows(&AuditQuery { limit: 1000, ..AuditQuery::default() }).unwrap();
        rows.reverse();
        rows
    }

    fn actions(&self) -> Vec<(String, String)> {
        self.audit().into_iter().map(|row| (row.action, row.subject)).collect()
    }
}

#[test]
fn who_knows_the_password_gets_a_token() {
    let accounts = Accounts::with_user("Ana", Scope::Write);
    let created = accounts.store.sign_in("aNA", PASSWORD, " laptop ", None, &remote()).unwrap().unwrap();
    assert_eq!((created.token.len(), &created.token[..3]), (67, "ct_"));
    let details = &created.details;
    assert_eq!(
        (details.username.as_str(), details.label.as_str(), details.scope),
        ("Ana", "laptop", Scope::Write)
    );
    let identity = accounts.store.authenticate(&created.token).unwrap().unwrap();
    assert_eq!((identity.username, identity.token_id), ("Ana".to_owned(), details.token_id.clone()));
    assert_ne!(accounts.sign_in("ana", PASSWORD).unwrap(), created.token);
}

#[test]
fn a_wrong_pair_gets_nothing() {
    let accounts = Accounts::with_user("ana", Scope::Write);
    for (username, password) in [
        ("ana", "correct horsf"),
        ("ana", "Correct horse"),
        ("ana", "correct horse "),
        ("ana", ""),
        ("bo", PASSWORD),
        ("", ""),
        ("ana\0", PASSWORD),
        ("ana", &"x".repeat(100_000)),
    ] {
        assert_eq!(accounts.sign_in(username, password), None, "{username:?} {password:.20?}");
    }
    assert!(accounts.store.tokens(None).unwrap().is_empty());
    for token in ["", "ct_", "ct_0", &format!("ct_{}", "0".repeat(64))] {
        assert_eq!(accounts.scope(token), None, "{token}");
    }
}

#[test]
fn neither_passwords_nor_tokens_are_in_the_data_folder() {
    let accounts = Accounts::with_user("ana", Scope::Admin);
    let token = accounts.sign_in("ana", PASSWORD).unwrap();
    accounts.sign_in("ana", "a wrong password");
    accounts.store.set_password("ana", "another password", true, &local()).unwrap();
    for entry in std::fs::read_dir(accounts.folder.path()).unwrap() {
        let path = entry.unwrap().path();
        let Ok(bytes) = std::fs::read(&path) else { continue };
        let text = String::from_utf8_lossy(&bytes);
        for secret in [PASSWORD, "a wrong password", "another password", &token, &token[3..]] {
            assert!(!text.contains(secret), "{secret} is in {}", path.display());
        }
    }
}

#[test]
fn a_token_never_may_more_than_its_user() {
    let accounts = Accounts::with_user("ana", Scope::Write);
    let make = |scope| accounts.store.create_token("ana", "t", scope, None, &local());
    assert!(matches!(make(Some(Scope::Admin)), Err(StoreError::Invalid { .. })));
    let (read, write) = (make(Some(Scope::Read)).unwrap().token, make(None).unwrap().token);
    assert_eq!((accounts.scope(&read), accounts.scope(&write)), (Some(Scope::Read), Some(Scope::Write)));
    assert!(accounts.store.set_user_scope("ana", Scope::Read, &local()).unwrap());
    assert!(!accounts.store.set_user_scope("ana", Scope::Read, &local()).unwrap());
    assert_eq!((accounts.scope(&read), accounts.scope(&write)), (Some(Scope::Read), Some(Scope::Read)));
    // More for the user is not more for a token that was to do less.
    assert!(accounts.store.set_user_scope("ana", Scope::Admin, &local()).unwrap());
    assert_eq!((accounts.scope(&read), accounts.scope(&write)), (Some(Scope::Read), Some(Scope::Write)));
}

#[test]
fn a_token_ends_at_its_expiry() {
    let accounts = Accounts::with_user("ana", Scope::Write);
    let at = second(100);
    let created = accounts.store.create_token("ana", "t", None, Some(at), &local()).unwrap();
    accounts.pass(99);
    assert_eq!(accounts.store.authenticate(&created.token).unwrap().unwrap().expires_at, Some(at));
    accounts.pass(1);
    assert_eq!(accounts.scope(&created.token), None);
    assert_eq!(accounts.store.users().unwrap()[0].token_count, 0);
    let past = Some(at - SignedDuration::from_secs(1));
    assert!(matches!(
        accounts.store.create_token("ana", "t", None, past, &local()),
        Err(StoreError::Invalid { .. })
    ));
}

#[test]
fn a_revoked_token_is_worth_nothing_at_once() {
    let accounts = Accounts::with_user("ana", Scope::Write);
    accounts.store.add_user("bo", PASSWORD, Scope::Write, &local()).unwrap();
    let token = accounts.sign_in("ana", PASSWORD).unwrap();
    let other = accounts.sign_in("ana", PASSWORD).unwrap();
    let id = accounts.store.authenticate(&token).unwrap().unwrap().token_id;
    // Bo cannot revoke what is Ana's, and does not learn that it is there.
    let error = accounts.store.revoke_token(&id, Some("bo"), &remote()).unwrap_err();
    assert!(matches!(error, StoreError::NotFound { .. }), "{error:?}");
    assert!(accounts.scope(&token).is_some());
    assert!(accounts.store.revoke_token(&id, Some("ANA"), &remote()).unwrap());
    assert_eq!(accounts.scope(&token), None);
    assert!(accounts.scope(&other).is_some());
    assert!(!accounts.store.revoke_token(&id, None, &remote()).unwrap());
    assert!(matches!(
        accounts.store.revoke_token("nothing", None, &local()),
        Err(StoreError::NotFound { .. })
    ));
}

#[test]
fn a_disabled_user_can_do_nothing_until_enabled() {
    let accounts = Accounts::with_user("ana", Scope::Write);
    let token = accounts.sign_in("ana", PASSWORD).unwrap();
    assert!(accounts.store.set_user_disabled("Ana", true, &local()).unwrap());
    assert!(!accounts.store.set_user_disabled("ana", true, &local()).unwrap());
    assert_eq!((accounts.scope(&token), accounts.sign_in("ana", PASSWORD)), (None, None));
    let error = accounts.store.create_token("ana", "t", None, None, &local()).unwrap_err();
    assert!(matches!(error, StoreError::Conflict(Conflict::UserDisabled { .. })), "{error:?}");
    assert!(accounts.store.set_user_disabled("ana", false, &local()).unwrap());
    assert!(accounts.scope(&token).is_some() && accounts.sign_in("ana", PASSWORD).is_some());
}

#[test]
fn a_new_password_takes_the_place_of_the_old_one() {
    let accounts = Accounts::with_user("ana", Scope::Write);
    let token = accounts.sign_in("ana", PASSWORD).unwrap();
    accounts.store.set_password("ana", "battery staple", false, &local()).unwrap();
    assert_eq!(accounts.sign_in("ana", PASSWORD), None);
    assert!(accounts.sign_in("ana", "battery staple").is_some() && accounts.scope(&token).is_some());
    accounts.store.set_password("ana", PASSWORD, true, &local()).unwrap();
    assert_eq!(accounts.scope(&token), None);
    assert!(accounts.sign_in("ana", PASSWORD).is_some());
}

#[test]
fn names_and_passwords_that_cannot_be_are_refused() {
    let accounts = Accounts::with_user("ana", Scope::Write);
    let add = |username: &str, password: &str| {
        accounts.store.add_user(username, password, Scope::Read, &local()).unwrap_err()
    };
    for name in ["", " ana", "a b", "ä", "a/b", "a\nb", &"a".repeat(65)] {
        assert!(matches!(add(name, PASSWORD), StoreError::Invalid { .. }), "{name:?}");
    }
    for password in ["", "1234567", &"x".repeat(1025)] {
        assert!(matches!(add("bo", password), StoreError::Invalid { .. }), "{password:.20?}");
        let error = accounts.store.set_password("ana", password, false, &local()).unwrap_err();
        assert!(matches!(error, StoreError::Invalid { .. }), "{error:?}");
    }
    for name in ["ana", "ANA"] {
        let error = add(name, PASSWORD);
        assert!(matches!(error, StoreError::Conflict(Conflict::UserTaken { .. })), "{error:?}");
    }
    let missing = accounts.store.set_user_disabled("bo", true, &local()).unwrap_err();
    assert_eq!(missing.to_string(), "user bo was not found");
    assert_eq!(accounts.store.users().unwrap().len(), 1);
}

#[test]
fn the_last_use_is_noted_to_the_minute() {
    let accounts = Accounts::with_user("ana", Scope::Write);
    let token = accounts.sign_in("ana", PASSWORD).unwrap();
    let used = || accounts.store.tokens(Some("ana")).unwrap()[0].last_used_at;
    assert_eq!(used(), None);
    accounts.pass(10);
    accounts.scope(&token);
    assert_eq!(used(), Some(second(10)));
    accounts.pass(60);
    accounts.scope(&token);
    assert_eq!(used(), Some(second(10)));
    accounts.pass(1);
    accounts.scope(&token);
    assert_eq!(used(), Some(second(71)));
}

#[test]
fn who_reads_does_not_wait_for_who_writes() {
    let accounts = Accounts::with_user("ana", Scope::Write);
    let token = accounts.sign_in("ana", PASSWORD).unwrap();
    let database = rusqlite::Connection::open(accounts.folder.path().join("ct.sqlite")).unwrap();
    database.execute_batch("BEGIN IMMEDIATE; UPDATE users SET scope = 'read'").unwrap();
    // It would give up with an error after half a minute.
    assert_eq!(accounts.scope(&token), Some(Scope::Write));
    assert_eq!(accounts.store.tokens(None).unwrap()[0].last_used_at, None);
    database.execute_batch("COMMIT").unwrap();
    assert_eq!(accounts.scope(&token), Some(Scope::Read));
    assert_eq!(accounts.store.tokens(None).unwrap()[0].last_used_at, Some(second(0)));
}

#[test]
fn everything_is_in_the_audit_log_once() {
    let accounts = Accounts::with_user("Ana", Scope::Write);
    let created = accounts.store.sign_in("ana", PASSWORD, "laptop", None, &remote()).unwrap().unwrap();
    accounts.pass(7);
    accounts.sign_in("ana", "wrong");
    accounts.store.revoke_token(&created.details.token_id, None, &local()).unwrap();
    accounts.store.revoke_token(&created.details.token_id, None, &local()).unwrap();
    accounts.store.set_user_disabled("ana", true, &local()).unwrap();
    accounts.store.set_user_disabled("ana", true, &local()).unwrap();
    accounts.store.set_user_disabled("ana", false, &local()).unwrap();
    accounts.store.set_user_scope("ana", Scope::Admin, &local()).unwrap();
    accounts.store.set_password("ana", PASSWORD, false, &local()).unwrap();
    let expected = [
        ("user.add", "user Ana"),
        ("auth.sign_in", "user Ana"),
        ("auth.sign_in_failed", "user ana"),
        ("token.revoke", "user Ana"),
        ("user.disable", "user Ana"),
        ("user.enable", "user Ana"),
        ("user.scope", "user Ana"),
        ("user.password", "user Ana"),
    ];
    let expected = expected.map(|(action, subject)| (action.to_owned(), subject.to_owned()));
    assert_eq!(accounts.actions(), expected);
    let rows = accounts.audit();
    let signed_in = &rows[1];
    assert_eq!((signed_in.actor.as_deref(), signed_in.origin.as_str()), (Some("Ana"), "192.0.2.1"));
    assert_eq!(signed_in.detail.as_ref().unwrap()["token_id"], json!(created.details.token_id));
    let failed = &rows[2];
    assert_eq!((failed.actor.as_deref(), failed.made_at), (None, second(7)));
}

#[test]
fn failed_sign_ins_do_not_flood_the_audit_log() {
    let accounts = Accounts::with_user("ana", Scope::Write);
    let failures = || accounts.actions().iter().filter(|(action, _)| action == "auth.sign_in_failed").count();
    for number in 0..110 {
        accounts.sign_in(&format!("nobody{number}"), "wrong");
    }
    assert_eq!(failures(), 100);
    accounts.pass(3600);
    accounts.sign_in(&"x".repeat(10_000), "wrong");
    assert_eq!(failures(), 101);
    assert_eq!(accounts.audit().last().unwrap().subject.len(), "user ".len() + 64);
    assert!(accounts.sign_in("ana", PASSWORD).is_some());
}

#[test]
fn the_audit_log_is_found_in_pages_by_who_and_what() {
    let accounts = Accounts::with_user("ana", Scope::Write);
    for number in 0..5 {
        let actor = Actor { user: Some(format!("u{}", number % 2)), ..remote() };
        accounts.store.create_token("ana", &number.to_string(), None, None, &actor).unwrap();
    }
    let find = |query: AuditQuery| -> Vec<u64> {
        accounts.store.audit_rows(&query).unwrap().iter().map(|row| row.audit_id).collect()
    };
    let all = || AuditQuery { limit: 100, ..AuditQuery::default() };
    assert_eq!(find(all()), [6, 5, 4, 3, 2, 1]);
    assert_eq!(find(AuditQuery { limit: 2, before: Some(5), ..all() }), [4, 3]);
    assert_eq!(find(AuditQuery { actor: Some("u1".to_owned()), ..all() }), [5, 3]);
    assert_eq!(find(AuditQuery { action: Some("user.add".to_owned()), ..all() }), [1]);
    let both = AuditQuery { actor: Some("u0".to_owned()), subject: Some("user ana".to_owned()), ..all() };
    assert_eq!(find(both), [6, 4, 2]);
    assert_eq!(find(AuditQuery { subject: Some("user an".to_owned()), ..all() }), [0; 0]);
}

#[test]
fn the_audit_log_cannot_be_altered() {
    let accounts = Accounts::with_user("ana", Scope::Write);
    let database = rusqlite::Connection::open(accounts.folder.path().join("ct.sqlite")).unwrap();
    for sql in ["UPDATE audit SET actor = 'bo'", "DELETE FROM audit"] {
        let error = database.execute(sql, []).unwrap_err().to_string();
        assert!(error.contains("the audit log is not altered"), "{error}");
    }
    assert_eq!(accounts.audit().len(), 1);
}

#[test]
fn a_secret_is_made_once() {
    let accounts = Accounts::new();
    let first = accounts.store.secret("a", 32).unwrap();
    assert_eq!(first.len(), 32);
    assert_ne!(accounts.store.secret("b", 32).unwrap(), first);
    let again = accounts.logs.try_open(accounts.folder.path()).unwrap();
    assert_eq!(again.secret("a", 16).unwrap(), first);
}
