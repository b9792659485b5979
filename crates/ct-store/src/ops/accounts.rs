//! Users and their tokens.
//!
//! Passwords are kept as argon2id hashes, tokens as SHA-256 (they are random, so nothing slower is needed). A token is
//! shown once, when it is made.

use std::fmt;
use std::str::FromStr;

use ct_model::LogHash;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::error::{Result, StoreError};
use crate::store::Store;

/// What a token, or a user, may do. Each may do what those before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Read everything.
    Read,
    /// Upload, register, edit, delete, comment.
    Write,
    /// Look at the audit log, and at the tokens of others.
    Admin,
}

impl Scope {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Scope {
    type Err = StoreError;
    fn from_str(text: &str) -> Result<Self> {
        match text {
            "read" => Ok(Self::Read),
            "write" => Ok(Self::Write),
            "admin" => Ok(Self::Admin),
            _ => Err(StoreError::invalid(format!("{text:?} is none of read write admin"))),
        }
    }
}

/// Whose token it is, and what it may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The user.
    pub username: String,
    /// The token, by its id.
    pub token_id: String,
    /// What the token may do: never more than the user may now.
    pub scope: Scope,
    /// Until when.
    pub expires_at: Option<Timestamp>,
}

impl Store {
    /// Whose token this is. `None`: it is not one, or not any more.
    pub fn authenticate(&self, token: &str) -> Result<Option<Identity>> {
        self.meta().identity(&token_hash(token), self.now())
    }

    /// A secret of the store: random, made when it is first asked for, the same ever after.
    pub fn secret(&self, name: &str, bytes: usize) -> Result<Vec<u8>> {
        self.meta().secret(name, &mut || random(bytes))
    }
}

/// Random bytes of the system.
fn random(bytes: usize) -> Result<Vec<u8>> {
    let mut random = vec![0; bytes];
    getrandom::fill(&mut random).map_err(|error| StoreError::Database {
        doing: "get random bytes from the system",
        source: Box::new(error),
    })?;
    Ok(random)
}

/// What is kept of a token.
fn token_hash(token: &str) -> LogHash {
    LogHash::from_bytes(Sha256::digest(token.as_bytes()).into())
}
