//! Users and tokens: the interface that another database can implement.

use ct_model::{LogHash, Scope, TokenRow, UserRow};
use jiff::Timestamp;

use crate::actor::Actor;
use crate::error::Result;
use crate::ops::Identity;

/// A user with what the password is checked against.
pub(crate) struct UserSecret {
    pub(crate) username: String,
    pub(crate) password_hash: String,
    pub(crate) scope: Scope,
    pub(crate) disabled: bool,
}

/// What becomes different about a user.
pub(crate) enum UserChange<'a> {
    /// The password, by its hash.
    Password { hash: &'a str, revoke_tokens: bool },
    /// Whether the user may sign in and use tokens.
    Disabled(bool),
    /// What tokens of the user may do at most.
    Scope(Scope),
}

/// A token to be kept.
pub(crate) struct TokenEntry<'a> {
    pub(crate) token_id: &'a str,
    pub(crate) hash: &'a LogHash,
    pub(crate) username: &'a str,
    pub(crate) label: &'a str,
    /// Never more than the user may.
    pub(crate) scope: Scope,
    pub(crate) expires_at: Option<Timestamp>,
    /// The password hash that was checked, when it is a sign-in: it must still be the user's.
    pub(crate) signed_in_with: Option<&'a str>,
}

/// Where accounts are kept. User names are found whatever their case.
pub(crate) trait AccountStore: Send + Sync {
    /// Whose token has this SHA-256, when it is valid at `now`. Notes that it was used, at most once a minute, when
    /// that needs no waiting.
    fn identity(&self, token_hash: &LogHash, now: Timestamp) -> Result<Option<Identity>>;
    /// The secret of a name; keeps what `make` makes when there is none.
    fn secret(&self, name: &str, make: &mut dyn FnMut() -> Result<Vec<u8>>) -> Result<Vec<u8>>;
    /// Adds a user, or changes nothing when there is one of that name.
    fn add_user(&self, user: &UserSecret, actor: &Actor, now: Timestamp) -> Result<()>;
    /// A user.
    fn user(&self, username: &str) -> Result<Option<UserSecret>>;
    /// All users, by name.
    fn users(&self, now: Timestamp) -> Result<Vec<UserRow>>;
    /// Changes a user. False: nothing changed.
    fn change_user(
        &self,
        username: &str,
        change: &UserChange<'_>,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<bool>;
    /// Keeps a token of a user who is not disabled. `None`: there is no such user any more, or with another password.
    fn add_token(&self, token: &TokenEntry<'_>, actor: &Actor, now: Timestamp) -> Result<Option<TokenRow>>;
    /// Tokens, of one user or of all, newest first.
    fn tokens(&self, username: Option<&str>) -> Result<Vec<TokenRow>>;
    /// Revokes a token, of one user or whoever's. False: it was revoked already.
    fn revoke_token(
        &self,
        token_id: &str,
        username: Option<&str>,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<bool>;
    /// Notes a sign-in that failed, unless too many were noted lately.
    fn note_failed_sign_in(&self, username: &str, actor: &Actor, now: Timestamp) -> Result<()>;
}
