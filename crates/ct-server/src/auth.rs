//! Who may do what. A handler says what it needs by the extractor it takes: [`Reader`], [`Writer`] or [`Admin`].

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, Method};
use ct_model::Scope;
use ct_store::{Actor, Identity};

use crate::app::{App, Mode};
use crate::crowd::Member;
use crate::error::ApiError;
use crate::pages::visitor::session;

/// Someone who may read: anyone on a public server, else who has a token or is signed in on the pages.
pub(crate) struct Reader(pub(crate) Option<Identity>);

/// Someone whose token may write.
pub(crate) struct Writer(pub(crate) Caller);

/// Someone whose token may administer.
pub(crate) struct Admin;

/// Who calls, and from where.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) identity: Identity,
    origin: String,
}

impl Caller {
    pub(crate) fn new(identity: Identity, origin: String) -> Self {
        Self { identity, origin }
    }

    /// For the record.
    pub(crate) fn actor(&self) -> Actor {
        Actor {
            user: Some(self.identity.username.clone()),
            token_id: Some(self.identity.token_id.clone()),
            origin: self.origin.clone(),
        }
    }
}

impl FromRequestParts<App> for Reader {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        // Links on pages lead to reads of the API. What writes takes no session: a browser sends its cookie unasked.
        let reads = matches!(parts.method, Method::GET | Method::HEAD);
        let token = bearer(&parts.headers).or_else(|| reads.then(|| session(app, &parts.headers)).flatten());
        let Some(token) = token else {
            return if app.config.mode == Mode::Public { Ok(Self(None)) } else { Err(missing()) };
        };
        match (identify(app, token).await, app.config.mode) {
            (Ok(identity), _) => {
                stays(&parts.extensions);
                Ok(Self(Some(identity)))
            }
            // A public server does not mind a stale token of who only reads.
            (Err(_), Mode::Public) => Ok(Self(None)),
            (Err(error), Mode::Private) => Err(error),
        }
    }
}

impl FromRequestParts<App> for Writer {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        Ok(Self(caller(parts, app, Scope::Write).await?))
    }
}

impl FromRequestParts<App> for Admin {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        caller(parts, app, Scope::Admin).await.map(|_| Self)
    }
}

impl FromRequestParts<App> for Caller {
    type Rejection = ApiError;

    /// Anyone with a token, whatever it may do.
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        caller(parts, app, Scope::Read).await
    }
}

async fn caller(parts: &Parts, app: &App, needed: Scope) -> Result<Caller, ApiError> {
    let token = bearer(&parts.headers).ok_or_else(missing)?;
    let identity = identify(app, token).await?;
    stays(&parts.extensions);
    if identity.scope < needed {
        let sentence = format!("this token may {}, and {needed} is needed", identity.scope);
        return Err(ApiError::forbidden(sentence));
    }
    Ok(Caller { identity, origin: origin(parts) })
}

/// The connection of this request is that of someone known: it does not give way to others.
pub(crate) fn stays(request: &Extensions) {
    if let Some(connection) = request.get::<Arc<Member>>() {
        connection.stay();
    }
}

/// Where a request comes from.
pub(crate) fn origin(parts: &Parts) -> String {
    let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
    peer.map_or_else(|| "unknown".to_owned(), |peer| peer.0.ip().to_string())
}

pub(crate) fn missing() -> ApiError {
    ApiError::unauthorized("a token is needed: sign in, or send `Authorization: Bearer <token>`")
}

fn bearer(headers: &HeaderMap) -> Option<String> {
    let header = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
}

/// Whether it is someone with a token, or who is signed in on the pages.
pub(crate) async fn is_known(app: &App, headers: &HeaderMap) -> bool {
    match bearer(headers).or_else(|| session(app, headers)) {
        Some(token) => identify(app, token).await.is_ok(),
        None => false,
    }
}

/// Whose token it is.
pub(crate) async fn identify(app: &App, token: String) -> Result<Identity, ApiError> {
    let found = app.blocking(move |app| Ok(app.store.authenticate(&token)?)).await?;
    found.ok_or_else(|| {
        ApiError::unauthorized("the token is not valid here: it is unknown, expired or revoked")
    })
}
