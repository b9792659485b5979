//! Who looks at a page. A session is a token of the user's, with its own label and expiry, in a cookie: when it is
//! revoked, or the user disabled, it is worth nothing at once.

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use ct_model::Scope;
use ct_pages::{Theme, User, Visit};
use ct_store::Identity;
use jiff::Timestamp;

use super::{cookies, flash, form};
use crate::address::is_secure;
use crate::app::{App, Mode};
use crate::auth::{self, identify};
use crate::error::ApiError;

/// The cookie of a session; behind TLS with the prefix that keeps other hosts from setting it.
const SESSION: &str = "ct_session";
const SESSION_SECURE: &str = "__Host-ct_session";
/// What makes the form for signing in this visitor's own.
const GUEST: &str = "ct_guest";
const THEME: &str = "ct_theme";

/// Someone who may look: anyone on a public server, else who is signed in. Everyone else is sent to sign in.
pub(crate) struct Visitor {
    /// Absent: not signed in.
    pub(crate) identity: Option<Identity>,
    /// For the page.
    pub(crate) visit: Visit,
    /// Cookies go over TLS only.
    pub(crate) secure: bool,
}

/// Someone who may not be allowed to look, but can sign in.
pub(crate) struct Guest(pub(crate) Visitor);

pub(super) fn session_cookie(secure: bool) -> &'static str {
    if secure { SESSION_SECURE } else { SESSION }
}

pub(super) const GUEST_COOKIE: &str = GUEST;

/// The token of a session, if there is one.
pub(crate) fn session(app: &App, headers: &HeaderMap) -> Option<String> {
    let token = cookies::get(headers, session_cookie(is_secure(app, headers)))?;
    Some(token.to_owned())
}

impl FromRequestParts<App> for Visitor {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let visitor = of(parts, app).await?;
        if visitor.identity.is_none() && app.config.mode == Mode::Private {
            return Err(auth::missing());
        }
        Ok(visitor)
    }
}

impl FromRequestParts<App> for Guest {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        of(parts, app).await.map(Self)
    }
}

async fn of(parts: &Parts, app: &App) -> Result<Visitor, ApiError> {
    let headers = &parts.headers;
    let identity = match session(app, headers) {
        // One that is worth nothing any more is as none.
        Some(token) => identify(app, token).await.ok(),
        None => None,
    };
    if identity.is_some() {
        auth::stays(&parts.extensions);
    }
    let csrf = match &identity {
        Some(identity) => form::proof(app, &identity.token_id),
        None => cookies::get(headers, GUEST).map(|guest| form::proof(app, guest)).unwrap_or_default(),
    };
    let user = identity
        .as_ref()
        .map(|identity| User { name: identity.username.clone(), may_write: identity.scope >= Scope::Write });
    let visit = Visit { csrf, user, ..visit(parts) };
    Ok(Visitor { identity, visit, secure: is_secure(app, headers) })
}

/// For a page that anyone may see.
pub(super) async fn visit_of(app: &App, parts: &Parts) -> Visit {
    match of(parts, app).await {
        Ok(visitor) => visitor.visit,
        Err(_) => visit(parts),
    }
}

/// Of someone unknown.
fn visit(parts: &Parts) -> Visit {
    let theme = match cookies::get(&parts.headers, THEME) {
        Some("light") => Theme::Light,
        Some("dark") => Theme::Dark,
        _ => Theme::System,
    };
    let address = parts.uri.path_and_query().map_or("/", |address| address.as_str()).to_owned();
    Visit {
        theme,
        user: None,
        csrf: String::new(),
        address,
        now: Timestamp::now(),
        flash: flash::of(&parts.headers),
    }
}
