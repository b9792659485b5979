//! Signing in and out.

use serde::Deserialize;
use serde_json::json;

use crate::http::{Call, accepts_json};
use crate::{BaseUrl, Client, ClientError, Result, Token};

/// Who signs in.
#[derive(Debug, Clone)]
pub struct Login<'a> {
    /// The account.
    pub username: &'a str,
    /// Its password.
    pub password: &'a str,
    /// The label of the token.
    pub description: &'a str,
}

/// Whose token it is, as far as the server says.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct WhoAmI {
    pub username: String,
    #[serde(default)]
    pub scope: Option<String>,
    #[serde(default)]
    pub token_id: Option<String>,
    #[serde(default)]
    pub label: Option<String>,
    #[serde(default)]
    pub expires_at: Option<String>,
}

impl Client {
    /// A new token for a name and a password.
    pub fn login(base: &BaseUrl, login: &Login<'_>) -> Result<Token> {
        #[derive(Deserialize)]
        struct Answer {
            token: String,
        }
        let client = Self::new(base.clone(), None)?;
        let call = accepts_json(Call::new(reqwest::Method::POST, client.url(&["auth", "login"])).anonymous());
        let call = call.json(&json!({
            "username": login.username,
            "password": login.password,
            "description": login.description,
        }));
        let answer: Answer = client.http().json(&call)?;
        Token::new(answer.token).ok_or_else(|| ClientError::Protocol {
            server: client.server(),
            problem: "the token it gave is none".to_owned(),
        })
    }

    /// Whose token this is; `None` where the server cannot tell.
    pub fn whoami(&self) -> Result<Option<WhoAmI>> {
        match self.http().json(&accepts_json(Call::get(self.url(&["whoami"])))) {
            Ok(who) => Ok(Some(who)),
            Err(ClientError::NotFound { .. } | ClientError::Protocol { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes this client's own token worthless. False: the server knows no way.
    pub fn revoke_own_token(&self) -> Result<bool> {
        let Some(token_id) = self.whoami()?.and_then(|who| who.token_id) else { return Ok(false) };
        let call = Call::new(reqwest::Method::DELETE, self.url(&["tokens", &token_id]));
        match self.http().done(&call) {
            Ok(()) => Ok(true),
            Err(ClientError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Fails when the token may not write; asks for a log that is not there.
    pub fn check_write_access(&self) -> Result<()> {
        self.stored_object("0.eval").map(drop)
    }
}
