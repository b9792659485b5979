//! Answers to browsers: redirections, errors as pages, and the headers that keep a page to itself.

use axum::http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, LOCATION, REFERRER_POLICY,
    VARY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, request};
use axum::response::{Html, IntoResponse as _, Response};
use ct_pages::{Query, page};

use super::visitor;
use crate::app::App;

/// Pages take style, script and images from here alone, and nothing else from anywhere. What makes HTML of text in a
/// script has to go through the one policy of `base.js`.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types ct";
/// Whatever else a browser comes by is no page.
const POLICY_OF_DATA: &str = "default-src 'none'; frame-ancestors 'none'; sandbox";

/// 303: look there now.
pub(crate) fn to(address: &str) -> Response {
    (StatusCode::SEE_OTHER, [(LOCATION, address)]).into_response()
}

/// Someone at a browser who asks for something that is a page, or would be.
pub(crate) struct Reader {
    parts: request::Parts,
}

impl Reader {
    /// None for programs, and for addresses of the API.
    pub(crate) fn of(request: &axum::extract::Request) -> Option<Self> {
        let path = request.uri().path();
        let is_data = ["/api", "/objects", "/metrics", "/assets"]
            .iter()
            .any(|data| path.strip_prefix(data).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')));
        let accept = request.headers().get(ACCEPT).and_then(|accept| accept.to_str().ok());
        if is_data || !accept.is_some_and(|accept| accept.contains("text/html")) {
            return None;
        }
        let (mut parts, ()) = axum::http::Request::new(()).into_parts();
        parts.method = request.method().clone();
        parts.uri = request.uri().clone();
        parts.headers = request.headers().clone();
        Some(Self { parts })
    }

    /// What the API would tell, as a page. Who has to sign in is sent to where that is done.
    pub(crate) async fn told(&self, app: &App, status: StatusCode, sentence: &str) -> Response {
        let visit = visitor::visit_of(app, &self.parts).await;
        if status == StatusCode::UNAUTHORIZED {
            let next = if self.parts.method == Method::GET { visit.address } else { String::new() };
            return to(&Query::new([("next".to_owned(), next)]).on("/login"));
        }
        (status, Html(page::error::page(&visit, status.as_u16(), sentence))).into_response()
    }
}

/// Sets what every answer tells a browser about how to treat it.
pub(crate) async fn guard(mut response: Response) -> Response {
    let headers = response.headers_mut();
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let is_page = kind.starts_with("text/html");
    set(headers, X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(headers, X_FRAME_OPTIONS, "DENY");
    set(headers, REFERRER_POLICY, "same-origin");
    set(headers, CONTENT_SECURITY_POLICY, if is_page { POLICY } else { POLICY_OF_DATA });
    if is_page {
        set(headers, HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
        set(headers, HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
        set(headers, CACHE_CONTROL, "private, no-cache");
        set(headers, VARY, "Cookie, Accept");
    }
    response
}

/// Unless the handler said otherwise.
fn set(headers: &mut HeaderMap, name: HeaderName, value: &'static str) {
    headers.entry(name).or_insert(HeaderValue::from_static(value));
}
