//! `/login` and `/logout`.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{LOCATION, SET_COOKIE};
use axum::response::{Html, IntoResponse as _, Response};
use axum::routing::{get, post};
use ct_model::Login;
use ct_pages::page;
use ct_store::Actor;

use super::form::{self, OpenForm};
use super::visitor::{GUEST_COOKIE, Guest, Visitor, session_cookie};
use super::{answer, cookies, own_address};
use crate::app::App;
use crate::error::ApiError;
use crate::extract::Filters;
use crate::limits;
use crate::routes::sign_in;

/// What a session is called in the list of tokens.
const LABEL: &str = "browser session";

pub(super) fn routes() -> Router<App> {
    Router::new().route("/login", get(form_page).post(login)).route("/logout", post(logout))
}

async fn form_page(
    State(app): State<App>,
    Guest(mut visitor): Guest,
    mut params: Filters,
) -> Result<Response, ApiError> {
    let next = next(&mut params);
    if visitor.identity.is_some() {
        return Ok(answer::to(&next));
    }
    // A form in another window stays good.
    let is_known = !visitor.visit.csrf.is_empty();
    let guest = form::guest()?;
    if !is_known {
        visitor.visit.csrf = form::proof(&app, &guest);
    }
    let mut response = Html(page::login::page(&visitor.visit, &next, "", None)).into_response();
    if !is_known {
        let cookie = cookies::set(GUEST_COOKIE, &guest, None, visitor.secure);
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    Ok(response)
}

async fn login(
    State(app): State<App>,
    OpenForm { visitor, origin, mut fields }: OpenForm,
) -> Result<Response, ApiError> {
    let next = next(&mut fields);
    let username = fields.text("username").unwrap_or_default();
    let password = fields.text("password").unwrap_or_default();
    let expires_at = app.store.now().checked_add(limits::SESSION_LIFETIME).ok();
    let login = Login { username: username.clone(), password, description: Some(LABEL.to_owned()) };
    match sign_in(&app, login, expires_at, origin).await {
        Ok(created) => {
            let age = Some(limits::SESSION_LIFETIME.as_secs());
            let cookie = cookies::set(session_cookie(visitor.secure), &created.token, age, visitor.secure);
            Ok(([(SET_COOKIE, cookie)], answer::to(&next)).into_response())
        }
        Err(error) => {
            let page = page::login::page(&visitor.visit, &next, &username, Some(error.sentence()));
            Ok((error.status(), Html(page)).into_response())
        }
    }
}

async fn logout(
    State(app): State<App>,
    OpenForm { visitor, origin, .. }: OpenForm,
) -> Result<Response, ApiError> {
    let Visitor { identity, secure, .. } = visitor;
    if let Some(identity) = identity {
        app.blocking(move |app| {
            let actor = Actor {
                user: Some(identity.username.clone()),
                token_id: Some(identity.token_id.clone()),
                origin,
            };
            app.store.revoke_token(&identity.token_id, Some(&identity.username), &actor)?;
            Ok(())
        })
        .await?;
    }
    let cookie = cookies::set(session_cookie(secure), "", Some(0), secure);
    Ok((StatusCode::SEE_OTHER, [(LOCATION, "/login"), (SET_COOKIE, cookie.to_str().unwrap_or_default())])
        .into_response())
}

/// Where to go afterwards: an address of ours, whatever was asked for.
fn next(params: &mut Filters) -> String {
    own_address(params, "next").unwrap_or_else(|| "/".to_owned())
}
