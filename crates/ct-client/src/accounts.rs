//! Signing in and out.

use ct_model::{LoggedIn, Login, WhoAmI};
use serde_json::json;

use crate::http::{Call, accepts_json};
use crate::{BaseUrl, Client, ClientError, Result, Token};

impl Client {
    /// A new token for a name and a password.
    pub fn login(base: &BaseUrl, login: &Login) -> Result<Token> {
        let client = Self::new(base.clone(), None)?;
        let mut call =
            accepts_json(Call::new(reqwest::Method::POST, client.url(&["auth", "login"])).anonymous());
        // A server that slows guessing down says so, and the person is told rather than kept waiting.
        call.once = true;
        let answer: LoggedIn = client.http().json(&call.json(&json!(login)))?;
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
        let Some(who) = self.whoami()? else { return Ok(false) };
        let call = Call::new(reqwest::Method::DELETE, self.url(&["tokens", &who.token_id]));
        match self.http().done(&call) {
            Ok(()) => Ok(true),
            Err(ClientError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Fails when the token is not valid; asks for one run.
    pub fn check_token(&self) -> Result<()> {
        let url = crate::pages::with_query(self.url(&["runs"]), &[("limit", "1".to_owned())]);
        self.http().json::<serde_json::Value>(&accepts_json(Call::get(url))).map(drop)
    }

    /// Fails when the token may not write; asks for a log that is not there.
    pub fn check_write_access(&self) -> Result<()> {
        self.stored_object("0.eval").map(drop)
    }
}
