//! Users and tokens in SQLite.

use ct_model::LogHash;
use jiff::Timestamp;
use rusqlite::{OptionalExtension as _, params};

use super::{SqliteStore, time};
use crate::error::Result;
use crate::meta::AccountStore;
use crate::ops::Identity;

/// How exact the time of last use is.
const LAST_USED_US: i64 = 60_000_000;

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
            let mut find = conn.prepare_cached(
                "SELECT username, token_id, tokens.scope, users.scope, expires_us, last_used_us \
                 FROM tokens JOIN users ON user_id = user \
                 WHERE hash = ? AND revoked_us IS NULL AND disabled_us IS NULL AND (expires_us IS NULL OR expires_us > ?)",
            )?;
            let row = find.query_row(params![token_hash.as_str(), now_us], |row| {
                let scopes = (row.get::<_, String>(2)?, row.get::<_, String>(3)?);
                let times = (row.get::<_, Option<i64>>(4)?, row.get::<_, Option<i64>>(5)?);
                Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, scopes, times))
            });
            let Some((username, token_id, scopes, (expires_us, used_us))) = row.optional()? else { return Ok(None) };
            let scope = scopes.0.parse().and_then(|token: crate::ops::Scope| Ok(token.min(scopes.1.parse()?)))?;
            let expires_at = expires_us.map(time).transpose()?;
            let stale = used_us.is_none_or(|used| used < now_us - LAST_USED_US);
            Ok(Some((Identity { username, token_id, scope, expires_at }, stale)))
        })?;
        let Some((identity, stale)) = found else { return Ok(None) };
        if stale {
            self.write("note the use of a token", |conn| {
                let mut set = conn.prepare_cached("UPDATE tokens SET last_used_us = ? WHERE token_id = ?")?;
                set.execute(params![now_us, identity.token_id])?;
                Ok(())
            })?;
        }
        Ok(Some(identity))
    }
}
