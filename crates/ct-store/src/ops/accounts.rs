//! Users and their tokens.
//!
//! Passwords are kept as argon2id hashes, tokens as SHA-256 (they are random, so nothing slower is needed). A token is
//! shown once, when it is made.

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _};
use argon2::{Algorithm, Argon2, Params, Version};
use ct_model::{CreatedToken, LogHash, Scope, TokenRow, UserRow};
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use crate::actor::Actor;
use crate::error::{Conflict, Result, StoreError};
use crate::meta::{TokenEntry, UserChange, UserSecret};
use crate::store::Store;

/// Characters of a user name, at most.
const USERNAME_MAX: usize = 64;
/// Characters of a password, at least.
const PASSWORD_MIN: usize = 8;
/// Bytes of a password, at most.
const PASSWORD_BYTES_MAX: usize = 1024;
/// Characters of a token's label, at most.
const LABEL_MAX: usize = 200;
/// What every token begins with, so that one that went astray is recognised.
const TOKEN_PREFIX: &str = "ct_";
const TOKEN_BYTES: usize = 32;
const TOKEN_ID_BYTES: usize = 8;

/// argon2id takes this much memory for one password, in KiB, …
const ARGON2_MEMORY_KIB: u32 = 19 * 1024;
/// … goes over it so often, …
const ARGON2_PASSES: u32 = 2;
/// … in so many lanes.
const ARGON2_LANES: u32 = 1;
const SALT_BYTES: usize = 16;

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

    /// Adds a user.
    pub fn add_user(&self, username: &str, password: &str, scope: Scope, actor: &Actor) -> Result<()> {
        // Before the slow part; the database decides.
        self.check_new_user(username)?;
        let password_hash = hash_password(password)?;
        let user = UserSecret { username: username.to_owned(), password_hash, scope, disabled: false };
        self.meta().add_user(&user, actor, self.now())
    }

    /// Whether a user of this name could be added: before a password is asked for.
    pub fn check_new_user(&self, username: &str) -> Result<()> {
        check_username(username)?;
        match self.meta().user(username)? {
            Some(user) => Err(Conflict::UserTaken { username: user.username }.into()),
            None => Ok(()),
        }
    }

    /// Whether there is a user of this name: before a password is asked for.
    pub fn check_user(&self, username: &str) -> Result<()> {
        self.known_user(username).map(drop)
    }

    /// All users, by name.
    pub fn users(&self) -> Result<Vec<UserRow>> {
        self.meta().users(self.now())
    }

    /// Gives a user another password. Tokens stay good unless they are to be revoked.
    pub fn set_password(
        &self,
        username: &str,
        password: &str,
        revoke_tokens: bool,
        actor: &Actor,
    ) -> Result<()> {
        self.known_user(username)?;
        let hash = hash_password(password)?;
        let change = UserChange::Password { hash: &hash, revoke_tokens };
        self.meta().change_user(username, &change, actor, self.now()).map(drop)
    }

    /// Stops a user from signing in and from using tokens, or lets them again. False: nothing changed.
    pub fn set_user_disabled(&self, username: &str, disabled: bool, actor: &Actor) -> Result<bool> {
        self.meta().change_user(username, &UserChange::Disabled(disabled), actor, self.now())
    }

    /// Changes what a user may do; tokens made earlier may do no more from now on. False: nothing changed.
    pub fn set_user_scope(&self, username: &str, scope: Scope, actor: &Actor) -> Result<bool> {
        self.meta().change_user(username, &UserChange::Scope(scope), actor, self.now())
    }

    /// Makes a token for who knows the password. `None`: no user and password like these. It takes the same time
    /// whether there is such a user or not.
    pub fn sign_in(
        &self,
        username: &str,
        password: &str,
        label: &str,
        expires_at: Option<Timestamp>,
        actor: &Actor,
    ) -> Result<Option<CreatedToken>> {
        check_label(label)?;
        let user = self.meta().user(username)?;
        let right = match &user {
            Some(user) => verify_password(password, &user.password_hash)?,
            None => {
                // The same work for nothing.
                argon2().hash_password_with_salt(bounded(password), &[0; SALT_BYTES]).is_err()
            }
        };
        let user = user.filter(|user| right && !user.disabled);
        if let Some(user) = user {
            let actor = Actor { user: Some(user.username.clone()), ..actor.clone() };
            let hash = Some(user.password_hash.as_str());
            let created = self.add_token(&user.username, label, user.scope, expires_at, hash, &actor)?;
            if created.is_some() {
                return Ok(created);
            }
        }
        let shown: String = username.chars().take(USERNAME_MAX).collect();
        self.meta().note_failed_sign_in(&shown, actor, self.now())?;
        Ok(None)
    }

    /// Makes a token of a user. What it may do is at most what the user may, which is the default.
    pub fn create_token(
        &self,
        username: &str,
        label: &str,
        scope: Option<Scope>,
        expires_at: Option<Timestamp>,
        actor: &Actor,
    ) -> Result<CreatedToken> {
        check_label(label)?;
        let user = self.known_user(username)?;
        let scope = scope.unwrap_or(user.scope);
        if scope > user.scope {
            let what = format!(
                "user {} may {}, so no token of it can have scope {scope}",
                user.username, user.scope
            );
            return Err(StoreError::invalid(what));
        }
        if expires_at.is_some_and(|at| at <= self.now()) {
            return Err(StoreError::invalid("a token cannot expire before it is made"));
        }
        let created = self.add_token(&user.username, label, scope, expires_at, None, actor)?;
        created.ok_or_else(|| Conflict::UserDisabled { username: user.username }.into())
    }

    /// Tokens, of one user or of all, newest first; those that expired or were revoked too.
    pub fn tokens(&self, username: Option<&str>) -> Result<Vec<TokenRow>> {
        if let Some(username) = username {
            self.known_user(username)?;
        }
        self.meta().tokens(username)
    }

    /// Makes a token worthless at once: one of `username`, or whoever's it is. False: it was already.
    pub fn revoke_token(&self, token_id: &str, username: Option<&str>, actor: &Actor) -> Result<bool> {
        self.meta().revoke_token(token_id, username, actor, self.now())
    }

    fn known_user(&self, username: &str) -> Result<UserSecret> {
        self.meta().user(username)?.ok_or_else(|| StoreError::user_not_found(username))
    }

    fn add_token(
        &self,
        username: &str,
        label: &str,
        scope: Scope,
        expires_at: Option<Timestamp>,
        signed_in_with: Option<&str>,
        actor: &Actor,
    ) -> Result<Option<CreatedToken>> {
        let token = format!("{TOKEN_PREFIX}{}", random_hex(TOKEN_BYTES)?);
        let token_id = random_hex(TOKEN_ID_BYTES)?;
        let hash = token_hash(&token);
        let entry = TokenEntry {
            token_id: &token_id,
            hash: &hash,
            username,
            label: label.trim(),
            scope,
            expires_at,
            signed_in_with,
        };
        let details = self.meta().add_token(&entry, actor, self.now())?;
        Ok(details.map(|details| CreatedToken { token, details }))
    }
}

/// A name is shown, typed and compared without regard to case, so it is of plain letters.
fn check_username(username: &str) -> Result<()> {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '@' | '+');
    if username.is_empty() || username.len() > USERNAME_MAX || !username.chars().all(good) {
        let what = format!("a user name is 1 to {USERNAME_MAX} of the characters a-z A-Z 0-9 . _ - @ +");
        return Err(StoreError::invalid(what));
    }
    Ok(())
}

fn check_label(label: &str) -> Result<()> {
    if label.chars().count() > LABEL_MAX {
        return Err(StoreError::invalid(format!("a token's label has at most {LABEL_MAX} characters")));
    }
    Ok(())
}

fn argon2() -> Argon2<'static> {
    let params = Params::new(ARGON2_MEMORY_KIB, ARGON2_PASSES, ARGON2_LANES, None)
        .expect("the numbers above are within the algorithm's limits");
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
}

fn hash_password(password: &str) -> Result<String> {
    if password.chars().count() < PASSWORD_MIN {
        return Err(StoreError::invalid(format!("a password has at least {PASSWORD_MIN} characters")));
    }
    if password.len() > PASSWORD_BYTES_MAX {
        return Err(StoreError::invalid(format!("a password has at most {PASSWORD_BYTES_MAX} bytes")));
    }
    let salt = random(SALT_BYTES)?;
    let hash = argon2().hash_password_with_salt(password.as_bytes(), &salt).map_err(unhashable)?;
    Ok(hash.to_string())
}

fn verify_password(password: &str, hash: &str) -> Result<bool> {
    let damaged = |error: argon2::password_hash::phc::Error| StoreError::Corrupt {
        what: "a stored password hash".to_owned(),
        detail: error.to_string(),
    };
    let hash = PasswordHash::new(hash).map_err(damaged)?;
    let right = argon2().verify_password(bounded(password), &hash).is_ok();
    Ok(right && password.len() <= PASSWORD_BYTES_MAX)
}

/// No more work for what is too long to be a password.
fn bounded(password: &str) -> &[u8] {
    &password.as_bytes()[..password.len().min(PASSWORD_BYTES_MAX)]
}

fn unhashable(error: argon2::password_hash::Error) -> StoreError {
    StoreError::Database { doing: "hash a password", source: Box::new(error) }
}

/// Random bytes of the system.
pub(super) fn random(bytes: usize) -> Result<Vec<u8>> {
    let mut random = vec![0; bytes];
    getrandom::fill(&mut random).map_err(|error| StoreError::Database {
        doing: "get random bytes from the system",
        source: Box::new(error),
    })?;
    Ok(random)
}

/// Random hex digits, for ids and tokens.
pub(super) fn random_hex(bytes: usize) -> Result<String> {
    Ok(random(bytes)?.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// What is kept of a token.
fn token_hash(token: &str) -> LogHash {
    LogHash::from_bytes(Sha256::digest(token.as_bytes()).into())
}
