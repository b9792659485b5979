//! Accounts as servers and clients speak of them: signing in, tokens, users, the audit log. Plain data.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a token, or a user, may do. Each may do what those before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Scope {
    /// Read everything.
    Read,
    /// Upload, register, edit, delete, comment.
    Write,
    /// Look at the audit log, and at the tokens of others.
    Admin,
}

/// A text is none of the scopes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is none of read, write, admin")]
pub struct ScopeError {
    text: String,
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
    type Err = ScopeError;
    fn from_str(text: &str) -> Result<Self, ScopeError> {
        match text {
            "read" => Ok(Self::Read),
            "write" => Ok(Self::Write),
            "admin" => Ok(Self::Admin),
            _ => Err(ScopeError { text: text.chars().take(80).collect() }),
        }
    }
}

/// What `POST /api/auth/login` takes.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Login {
    /// The user.
    pub username: String,
    /// The password.
    pub password: String,
    /// Labels the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("username", &self.username).finish_non_exhaustive()
    }
}

/// What `POST /api/auth/login` answers.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LoggedIn {
    /// The token. It is not shown again.
    pub token: String,
}

impl fmt::Debug for LoggedIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoggedIn").finish_non_exhaustive()
    }
}

/// What `GET /api/whoami` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WhoAmI {
    /// The user.
    pub username: String,
    /// What the token may do.
    pub scope: Scope,
    /// The token, by its id.
    pub token_id: String,
    /// Until when it is good; null: until it is revoked.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub expires_at: Option<Timestamp>,
}

/// What is told of a token: everything but the token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TokenRow {
    /// Names the token; good for revoking it, and for nothing else.
    pub token_id: String,
    /// Whose it is.
    pub username: String,
    /// What it is for.
    pub label: String,
    /// What it may do.
    pub scope: Scope,
    /// When it was made.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    /// Until when it is good; null: until it is revoked.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub expires_at: Option<Timestamp>,
    /// When it was last used, to the minute.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub last_used_at: Option<Timestamp>,
    /// When it was revoked.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub revoked_at: Option<Timestamp>,
}

/// What `POST /api/tokens` takes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// What it may do: no more than the token that makes it, which is the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    /// How long it is good: no longer than the token that makes it, which is the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_seconds: Option<u64>,
}

/// A token that was just made.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreatedToken {
    /// The token. It is not shown again.
    pub token: String,
    /// What is told of it from now on.
    pub details: TokenRow,
}

impl fmt::Debug for CreatedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreatedToken").field("details", &self.details).finish_non_exhaustive()
    }
}

/// What is told of a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UserRow {
    /// The name, as it was first written; upper and lower case are the same.
    pub username: String,
    /// What tokens of the user may do at most.
    pub scope: Scope,
    /// When the account was made.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    /// Since when the user can neither sign in nor use a token.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub disabled_at: Option<Timestamp>,
    /// Tokens that are good now.
    pub token_count: u64,
}

/// One change, as the audit log keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditRow {
    /// Goes up with time.
    pub audit_id: u64,
    /// When.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub made_at: Timestamp,
    /// The user; null for someone at the command line of the data folder, and for who did not sign in.
    #[serde(default)]
    pub actor: Option<String>,
    /// The token that was used.
    #[serde(default)]
    pub token_id: Option<String>,
    /// From where: an address, or `local`.
    pub origin: String,
    /// What was done, such as `run.edit`.
    pub action: String,
    /// To what, such as `run 3f2a`.
    pub subject: String,
    /// The particulars.
    #[serde(default)]
    pub detail: Option<Value>,
}

/// Which rows of the audit log are wanted; all that is given must fit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditQuery {
    /// Of this user.
    pub actor: Option<String>,
    /// Of this subject, such as `run 3f2a`.
    pub subject: Option<String>,
    /// Of this action, such as `run.edit`.
    pub action: Option<String>,
    /// Rows before this one, by its id.
    pub before: Option<u64>,
    /// At most so many.
    pub limit: u64,
}

/// A page of the audit log, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditPage {
    /// The rows.
    pub items: Vec<AuditRow>,
    /// For the next page; null on the last.
    #[serde(default)]
    pub next_cursor: Option<String>,
    /// How many rows a page has, but the last.
    #[serde(default)]
    pub page_size: u64,
    /// What was not done as it was asked for. Absent: nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}
