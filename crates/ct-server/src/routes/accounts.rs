//! Signing in, and tokens.

use std::time::Instant;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use ct_model::{CreatedToken, LoggedIn, Login, NewToken, Scope, TokenRow, WhoAmI};
use ct_store::Actor;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::auth::{Caller, Writer};
use crate::error::{ApiError, ErrorEnvelope};
use crate::extract::{Body, Origin, Params, Path};

/// What a token is labelled with when the client does not say.
const LABEL_DEFAULT: &str = "created via cli";

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(login))
        .routes(routes!(whoami))
        .routes(routes!(tokens, create_token))
        .routes(routes!(revoke_token))
}

/// A token for who knows a user's password.
#[utoipa::path(post, path = "/api/auth/login", tag = "accounts",
    request_body = Login, responses(
    (status = 200, description = "The token. It is not shown again.", body = LoggedIn),
    (status = 400, description = "The body is not what is expected.", body = ErrorEnvelope),
    (status = 401, description = "A wrong pair.", body = ErrorEnvelope),
    (status = 408, description = "The body did not arrive in time.", body = ErrorEnvelope),
    (status = 429, description = "Too many failures lately; Retry-After says when to try again.", body = ErrorEnvelope),
    (status = 503, description = "Too many at once; Retry-After says when to try again.", body = ErrorEnvelope)))]
async fn login(
    State(app): State<App>,
    Origin(origin): Origin,
    Body(login): Body<Login>,
) -> Result<Json<LoggedIn>, ApiError> {
    let created = sign_in(&app, login, None, origin).await?;
    Ok(Json(LoggedIn { token: created.token }))
}

/// Makes a token for who knows the password, and slows down who guesses.
pub(crate) async fn sign_in(
    app: &App,
    login: Login,
    expires_at: Option<Timestamp>,
    origin: String,
) -> Result<CreatedToken, ApiError> {
    let address = origin.parse().ok();
    let Some(_turn) = app.throttle.turn().await else {
        let busy = "too many are signing in at once";
        return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, busy).retry_after(5));
    };
    if let Err(wait) = app.throttle.attempt(&login.username, address, Instant::now()) {
        let sentence = "too many sign-ins failed lately: wait before the next";
        return Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, sentence).retry_after(wait.as_secs() + 1));
    }
    let username = login.username.clone();
    let created = app
        .blocking(move |app| {
            let actor = Actor { user: None, token_id: None, origin };
            let label = login.description.as_deref().unwrap_or(LABEL_DEFAULT);
            Ok(app.store.sign_in(&login.username, &login.password, label, expires_at, &actor)?)
        })
        .await?;
    match created {
        Some(created) => {
            app.throttle.succeeded(&username, address);
            Ok(created)
        }
        None => Err(ApiError::unauthorized("there is no user with this name and password")),
    }
}

/// Whose token it is.
#[utoipa::path(get, path = "/api/whoami", tag = "accounts",
    responses(
    (status = 200, description = "User, scope and expiry.", body = WhoAmI),
    (status = 401, description = "A token is needed.", body = ErrorEnvelope)))]
async fn whoami(caller: Caller) -> Json<WhoAmI> {
    let identity = caller.identity;
    Json(WhoAmI {
        username: identity.username,
        scope: identity.scope,
        token_id: identity.token_id,
        expires_at: identity.expires_at,
    })
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct TokensQuery {
    /// The tokens of all users, for who may administer.
    #[serde(default)]
    everyone: bool,
}

/// A list of tokens.
#[derive(Debug, Serialize, ToSchema)]
struct Tokens {
    items: Vec<TokenRow>,
}

/// The caller's tokens, newest first; those that expired or were revoked too.
#[utoipa::path(get, path = "/api/tokens", tag = "accounts", params(TokensQuery),
    responses(
    (status = 200, description = "The tokens, without what was shown once.", body = Tokens),
    (status = 400, description = "A parameter cannot be understood.", body = ErrorEnvelope),
    (status = 401, description = "A token is needed.", body = ErrorEnvelope),
    (status = 403, description = "The tokens of everyone are for administrators.", body = ErrorEnvelope)))]
async fn tokens(
    State(app): State<App>,
    caller: Caller,
    Params(query): Params<TokensQuery>,
) -> Result<Json<Tokens>, ApiError> {
    if query.everyone && caller.identity.scope < Scope::Admin {
        return Err(ApiError::forbidden("the tokens of everyone are for administrators"));
    }
    let username = (!query.everyone).then_some(caller.identity.username);
    app.blocking(move |app| Ok(Json(Tokens { items: app.store.tokens(username.as_deref())? }))).await
}

/// A new token of the caller. It may do no more, and lasts no longer, than the token that makes it.
#[utoipa::path(post, path = "/api/tokens", tag = "accounts",
    request_body = NewToken, responses(
    (status = 200, description = "The token. It is not shown again.", body = CreatedToken),
    (status = 400, description = "The body is not what is expected.", body = ErrorEnvelope),
    (status = 401, description = "A token is needed.", body = ErrorEnvelope),
    (status = 403, description = "The token may not write, or may do less than the new one.", body = ErrorEnvelope),
    (status = 409, description = "The user was disabled meanwhile.", body = ErrorEnvelope)))]
async fn create_token(
    State(app): State<App>,
    Writer(caller): Writer,
    Body(new): Body<NewToken>,
) -> Result<Json<CreatedToken>, ApiError> {
    create(&app, caller, new).await.map(Json)
}

/// Makes a token that may do no more, and lasts no longer, than that of the caller.
pub(crate) async fn create(app: &App, caller: Caller, new: NewToken) -> Result<CreatedToken, ApiError> {
    let maker = caller.identity.clone();
    let scope = new.scope.unwrap_or(maker.scope);
    if scope > maker.scope {
        let sentence = format!("this token may {}, so it cannot make one that may {scope}", maker.scope);
        return Err(ApiError::forbidden(sentence));
    }
    app.blocking(move |app| {
        let asked = new.expires_in_seconds.map(|seconds| expiry(app.store.now(), seconds)).transpose()?;
        let expires_at = match (asked, maker.expires_at) {
            (Some(asked), Some(limit)) if asked > limit => {
                return Err(ApiError::forbidden(format!(
                    "a token cannot outlast the one that makes it ({limit})"
                )));
            }
            (asked, limit) => asked.or(limit),
        };
        let label = new.label.as_deref().unwrap_or(LABEL_DEFAULT);
        let created =
            app.store.create_token(&maker.username, label, Some(scope), expires_at, &caller.actor())?;
        Ok(created)
    })
    .await
}

fn expiry(now: Timestamp, seconds: u64) -> Result<Timestamp, ApiError> {
    let far = || ApiError::invalid("expires_in_seconds is out of range");
    let duration = SignedDuration::from_secs(i64::try_from(seconds).map_err(|_| far())?);
    now.checked_add(duration).map_err(|_| far())
}

/// Whether something was there to be done.
#[derive(Debug, Serialize, ToSchema)]
struct Revoked {
    was_valid: bool,
}

/// Makes a token worthless at once. Any token revokes itself; one that may write, all of its user; an administrator's,
/// all.
#[utoipa::path(delete, path = "/api/tokens/{token_id}", tag = "accounts", params(("token_id" = String, Path)),
    responses(
    (status = 200, description = "It is worth nothing now.", body = Revoked),
    (status = 401, description = "A token is needed.", body = ErrorEnvelope),
    (status = 403, description = "A token that may read revokes itself only.", body = ErrorEnvelope),
    (status = 404, description = "The user has no such token.", body = ErrorEnvelope)))]
async fn revoke_token(
    State(app): State<App>,
    caller: Caller,
    Path(token_id): Path<String>,
) -> Result<Json<Revoked>, ApiError> {
    let was_valid = revoke(&app, &caller, token_id).await?;
    Ok(Json(Revoked { was_valid }))
}

/// Makes a token worthless that the caller may revoke. False: it was already.
pub(crate) async fn revoke(app: &App, caller: &Caller, token_id: String) -> Result<bool, ApiError> {
    let identity = &caller.identity;
    if identity.scope < Scope::Write && identity.token_id != token_id {
        return Err(ApiError::forbidden("this token may read, so it can revoke itself only"));
    }
    let caller = caller.clone();
    app.blocking(move |app| {
        let identity = &caller.identity;
        let username = (identity.scope < Scope::Admin).then_some(identity.username.as_str());
        Ok(app.store.revoke_token(&token_id, username, &caller.actor())?)
    })
    .await
}
