//! `/settings/tokens`: the tokens of who is signed in.

use axum::Router;
use axum::extract::State;
use axum::http::header::CACHE_CONTROL;
use axum::response::{Html, IntoResponse as _, Response};
use axum::routing::get;
use ct_model::{CreatedToken, NewToken};
use ct_pages::page;

use super::chosen::{failed, told};
use super::flash::done;
use super::form::Form;
use super::visitor::Visitor;
use crate::address::BaseUrl;
use crate::app::App;
use crate::auth;
use crate::error::ApiError;
use crate::routes::{create_token, revoke_token};

const PATH: &str = "/settings/tokens";
const SECONDS_OF_A_DAY: u64 = 24 * 60 * 60;

pub(super) fn routes() -> Router<App> {
    Router::new().route(PATH, get(tokens).post(change))
}

async fn tokens(State(app): State<App>, visitor: Visitor, base: BaseUrl) -> Result<Response, ApiError> {
    shown(app, visitor, base, None).await
}

async fn shown(
    app: App,
    visitor: Visitor,
    base: BaseUrl,
    created: Option<CreatedToken>,
) -> Result<Response, ApiError> {
    let identity = visitor.identity.ok_or_else(auth::missing)?;
    app.blocking(move |app| {
        let tokens = app.store.tokens(Some(&identity.username))?;
        let page = page::tokens::page(
            &visitor.visit,
            &tokens,
            &identity.token_id,
            identity.scope,
            created.as_ref(),
            base.as_str(),
        );
        Ok(([(CACHE_CONTROL, "no-store")], Html(page)).into_response())
    })
    .await
}

async fn change(
    State(app): State<App>,
    base: BaseUrl,
    Form { caller, visitor, mut fields }: Form,
) -> Result<Response, ApiError> {
    let secure = visitor.secure;
    if let Some(token_id) = fields.text("token") {
        let flash = match revoke_token(&app, &caller, token_id).await {
            Ok(true) => told("The token is revoked: it is worth nothing from now on".to_owned()),
            Ok(false) => told("The token was revoked already".to_owned()),
            Err(error) => failed(error),
        };
        return Ok(done(PATH, &flash, secure));
    }
    let days = fields.value::<u64>("days")?.filter(|days| *days > 0);
    let new = NewToken {
        label: fields.text("label"),
        scope: fields.value("scope")?,
        expires_in_seconds: days.map(|days| days.saturating_mul(SECONDS_OF_A_DAY)),
    };
    match create_token(&app, caller, new).await {
        Ok(created) => shown(app, visitor, base, Some(created)).await,
        Err(error) => Ok(done(PATH, &failed(error), secure)),
    }
}
