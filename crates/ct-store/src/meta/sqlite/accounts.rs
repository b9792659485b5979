//! Users and tokens in SQLite.

use ct_model::{LogHash, Scope, ScopeError, TokenRow, UserRow};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde_json::{Value, json};

use super::{DbError, SqliteStore, journal, time, unsigned};
use crate::actor::Actor;
use crate::error::{Conflict, Result, StoreError};
use crate::meta::{AccountStore, TokenEntry, UserChange, UserSecret};
use crate::ops::Identity;

/// How exact the time of last use is.
const LAST_USED_US: i64 = 60_000_000;
/// Failed sign-ins noted in an hour, at most: whoever guesses passwords does not get to fill the disk.
const FAILURES_NOTED_MAX: i64 = 100;
const HOUR_US: i64 = 3_600_000_000;
const FAILURE: &str = "auth.sign_in_failed";

const TOKEN_COLUMNS: &str = "token_id, username, label, tokens.scope AS token_scope, users.scope AS user_scope, \
    tokens.created_us AS created_us, expires_us, last_used_us, revoked_us";

impl AccountStore for SqliteStore {
    fn secret(&self, name: &str, make: &mut dyn FnMut() -> Result<Vec<u8>>) -> Result<Vec<u8>> {
        self.write("keep a secret", |conn| {
            let mut find = conn.prepare_cached("SELECT value FROM secrets WHERE name = ?")?;
            if let Some(value) = find.query_row([name], |row| row.get(0)).optional()? {
                return Ok(value);
            }
            let value = make()?;
            conn.execute("INSERT INTO secrets (name, value) VALUES (?, ?)", params![name, value])?;
            Ok(value)
        })
    }

    fn identity(&self, token_hash: &LogHash, now: Timestamp) -> Result<Option<Identity>> {
        let now_us = now.as_microsecond();
        let found = self.read("look for a token", |conn| {
            let mut find = conn.prepare_cached(&format!(
                "SELECT {TOKEN_COLUMNS} FROM tokens JOIN users ON user_id = user \
                 WHERE hash = ? AND revoked_us IS NULL AND disabled_us IS NULL \
                 AND (expires_us IS NULL OR expires_us > ?)"
            ))?;
            let mut rows = find.query(params![token_hash.as_str(), now_us])?;
            rows.next()?.map(token_row).transpose()
        })?;
        let Some(token) = found else { return Ok(None) };
        if token.last_used_at.is_none_or(|used| used.as_microsecond() < now_us - LAST_USED_US) {
            // Whoever reads does not wait for who writes, nor needs room on the disk: then this use goes unnoted.
            let _ = self.write_at_once("note the use of a token", |conn| {
                let mut set = conn.prepare_cached("UPDATE tokens SET last_used_us = ? WHERE token_id = ?")?;
                set.execute(params![now_us, token.token_id])?;
                Ok(())
            });
        }
        let TokenRow { username, token_id, scope, expires_at, .. } = token;
        Ok(Some(Identity { username, token_id, scope, expires_at }))
    }

    fn add_user(&self, user: &UserSecret, actor: &Actor, now: Timestamp) -> Result<()> {
        self.write("add a user", |conn| {
            let added = conn.execute(
                "INSERT INTO users (username, username_folded, password_hash, scope, created_us) \
                 VALUES (?, ?, ?, ?, ?) ON CONFLICT (username_folded) DO NOTHING",
                params![
                    user.username,
                    fold(&user.username),
                    user.password_hash,
                    user.scope.as_str(),
                    now.as_microsecond()
                ],
            )?;
            if added == 0 {
                return Err(StoreError::from(Conflict::UserTaken { username: user.username.clone() }).into());
            }
            note_user(conn, actor, now, "user.add", &user.username, Some(json!({"scope": user.scope})))
        })
    }

    fn user(&self, username: &str) -> Result<Option<UserSecret>> {
        self.read("look for a user", |conn| Ok(find_user(conn, username)?.map(|(_, user)| user)))
    }

    fn users(&self, now: Timestamp) -> Result<Vec<UserRow>> {
        self.read("list users", |conn| {
            let mut find = conn.prepare_cached(
                "SELECT username, scope, created_us, disabled_us, \
                    (SELECT count(*) FROM tokens WHERE user = user_id AND revoked_us IS NULL \
                     AND (expires_us IS NULL OR expires_us > ?)) AS token_count \
                 FROM users ORDER BY username_folded",
            )?;
            let mut rows = find.query([now.as_microsecond()])?;
            let mut users = Vec::new();
            while let Some(row) = rows.next()? {
                users.push(UserRow {
                    username: row.get("username")?,
                    scope: scope(&text(row, "scope")?)?,
                    created_at: time(row.get("created_us")?)?,
                    disabled_at: optional_time(row, "disabled_us")?,
                    token_count: unsigned(row.get("token_count")?),
                });
            }
            Ok(users)
        })
    }

    fn change_user(
        &self,
        username: &str,
        change: &UserChange<'_>,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<bool> {
        self.write("change a user", |conn| {
            let found = find_user(conn, username)?;
            let (id, user) = found.ok_or_else(|| StoreError::user_not_found(username))?;
            let now_us = now.as_microsecond();
            let (action, detail) = match change {
                UserChange::Password { hash, revoke_tokens } => {
                    conn.execute("UPDATE users SET password_hash = ? WHERE user_id = ?", params![hash, id])?;
                    if *revoke_tokens {
                        conn.execute(
                            "UPDATE tokens SET revoked_us = ? WHERE user = ? AND revoked_us IS NULL",
                            params![now_us, id],
                        )?;
                    }
                    ("user.password", Some(json!({"revoke_tokens": revoke_tokens})))
                }
                UserChange::Disabled(disabled) if *disabled == user.disabled => return Ok(false),
                UserChange::Disabled(disabled) => {
                    conn.execute(
                        "UPDATE users SET disabled_us = ? WHERE user_id = ?",
                        params![disabled.then_some(now_us), id],
                    )?;
                    (if *disabled { "user.disable" } else { "user.enable" }, None)
                }
                UserChange::Scope(scope) if *scope == user.scope => return Ok(false),
                UserChange::Scope(scope) => {
                    conn.execute(
                        "UPDATE users SET scope = ? WHERE user_id = ?",
                        params![scope.as_str(), id],
                    )?;
                    ("user.scope", Some(json!({"scope": scope, "before": user.scope})))
                }
            };
            note_user(conn, actor, now, action, &user.username, detail)?;
            Ok(true)
        })
    }

    fn add_token(&self, token: &TokenEntry<'_>, actor: &Actor, now: Timestamp) -> Result<Option<TokenRow>> {
        self.write("keep a token", |conn| {
            let found = find_user(conn, token.username)?.filter(|(_, user)| {
                !user.disabled && token.signed_in_with.is_none_or(|hash| hash == user.password_hash)
            });
            let Some((id, user)) = found else { return Ok(None) };
            conn.execute(
                "INSERT INTO tokens (token_id, user, hash, label, scope, created_us, expires_us) \
                 VALUES (?, ?, ?, ?, ?, ?, ?)",
                params![
                    token.token_id,
                    id,
                    token.hash.as_str(),
                    token.label,
                    token.scope.as_str(),
                    now.as_microsecond(),
                    token.expires_at.map(|at| at.as_microsecond())
                ],
            )?;
            let detail = json!({
                "token_id": token.token_id,
                "label": token.label,
                "scope": token.scope,
                "expires_at": token.expires_at,
            });
            let action = if token.signed_in_with.is_some() { "auth.sign_in" } else { "token.create" };
            note_user(conn, actor, now, action, &user.username, Some(detail))?;
            let (_, row) =
                find_token(conn, token.token_id)?.ok_or_else(|| token_not_found(token.token_id))?;
            Ok(Some(row))
        })
    }

    fn tokens(&self, username: Option<&str>) -> Result<Vec<TokenRow>> {
        self.read("list tokens", |conn| {
            let mut find = conn.prepare_cached(&format!(
                "SELECT {TOKEN_COLUMNS} FROM tokens JOIN users ON user_id = user \
                 WHERE ?1 IS NULL OR username_folded = ?1 ORDER BY tokens.created_us DESC, token_id"
            ))?;
            let mut rows = find.query([username.map(fold)])?;
            let mut tokens = Vec::new();
            while let Some(row) = rows.next()? {
                tokens.push(token_row(row)?);
            }
            Ok(tokens)
        })
    }

    fn revoke_token(
        &self,
        token_id: &str,
        username: Option<&str>,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<bool> {
        self.write("revoke a token", |conn| {
            let found = find_token(conn, token_id)?
                .filter(|(folded, _)| username.is_none_or(|username| fold(username) == *folded));
            let (_, token) = found.ok_or_else(|| token_not_found(token_id))?;
            if token.revoked_at.is_some() {
                return Ok(false);
            }
            conn.execute(
                "UPDATE tokens SET revoked_us = ? WHERE token_id = ?",
                params![now.as_microsecond(), token_id],
            )?;
            let detail = json!({"token_id": token_id, "label": token.label});
            note_user(conn, actor, now, "token.revoke", &token.username, Some(detail))?;
            Ok(true)
        })
    }

    fn note_failed_sign_in(&self, username: &str, actor: &Actor, now: Timestamp) -> Result<()> {
        self.write("note a failed sign-in", |conn| {
            let mut find = conn.prepare_cached(
                "SELECT made_us FROM audit WHERE action = 'auth.sign_in_failed' ORDER BY audit_id DESC LIMIT 1 OFFSET ?",
            )?;
            let earlier: Option<i64> =
                find.query_row([FAILURES_NOTED_MAX - 1], |row| row.get(0)).optional()?;
            if earlier.is_some_and(|made_us| made_us > now.as_microsecond() - HOUR_US) {
                return Ok(());
            }
            note_user(conn, actor, now, FAILURE, username, None)
        })
    }
}

/// User names are of ASCII.
fn fold(username: &str) -> String {
    username.to_ascii_lowercase()
}

fn find_user(conn: &Connection, username: &str) -> std::result::Result<Option<(i64, UserSecret)>, DbError> {
    let mut find = conn.prepare_cached(
        "SELECT user_id, username, password_hash, scope, disabled_us IS NOT NULL AS disabled \
         FROM users WHERE username_folded = ?",
    )?;
    let mut rows = find.query([fold(username)])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let user = UserSecret {
        username: row.get("username")?,
        password_hash: row.get("password_hash")?,
        scope: scope(&text(row, "scope")?)?,
        disabled: row.get("disabled")?,
    };
    Ok(Some((row.get("user_id")?, user)))
}

/// A token with the folded name of its user.
fn find_token(conn: &Connection, token_id: &str) -> std::result::Result<Option<(String, TokenRow)>, DbError> {
    let mut find = conn.prepare_cached(&format!(
        "SELECT {TOKEN_COLUMNS}, username_folded FROM tokens JOIN users ON user_id = user WHERE token_id = ?"
    ))?;
    let mut rows = find.query([token_id])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some((row.get("username_folded")?, token_row(row)?)))
}

/// A row of `TOKEN_COLUMNS`. A token may never do more than its user may now.
fn token_row(row: &Row<'_>) -> std::result::Result<TokenRow, DbError> {
    let scopes = (text(row, "token_scope")?, text(row, "user_scope")?);
    Ok(TokenRow {
        token_id: text(row, "token_id")?,
        username: text(row, "username")?,
        label: text(row, "label")?,
        scope: scope(&scopes.0)?.min(scope(&scopes.1)?),
        created_at: time(row.get("created_us")?)?,
        expires_at: optional_time(row, "expires_us")?,
        last_used_at: optional_time(row, "last_used_us")?,
        revoked_at: optional_time(row, "revoked_us")?,
    })
}

fn text(row: &Row<'_>, column: &str) -> std::result::Result<String, DbError> {
    Ok(row.get(column)?)
}

fn optional_time(row: &Row<'_>, column: &str) -> std::result::Result<Option<Timestamp>, DbError> {
    row.get::<_, Option<i64>>(column)?.map(time).transpose()
}

fn scope(text: &str) -> std::result::Result<Scope, DbError> {
    text.parse().map_err(|error: ScopeError| DbError::corrupt("a stored scope", error.to_string()))
}

fn token_not_found(token_id: &str) -> StoreError {
    StoreError::NotFound { what: format!("token {token_id}") }
}

fn note_user(
    conn: &Connection,
    actor: &Actor,
    now: Timestamp,
    action: &str,
    username: &str,
    detail: Option<Value>,
) -> std::result::Result<(), DbError> {
    journal::note(conn, actor, now, action, &format!("user {username}"), detail.as_ref())
}
