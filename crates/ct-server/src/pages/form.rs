//! Forms that write. Each carries a proof that it came from a page of this session; without it nothing is done.

use axum::extract::{FromRequest, FromRequestParts as _, Request};
use axum::http::{HeaderMap, StatusCode};

use super::visitor::{Guest, Visitor};
use crate::app::App;
use crate::auth::{self, Caller};
use crate::error::ApiError;
use crate::extract::{Filters, whole};

/// The fields of a form sent by someone who may write.
pub(crate) struct Form {
    /// Who sent it.
    pub(crate) caller: Caller,
    /// From where.
    pub(crate) visitor: Visitor,
    /// What it says, but for the proof.
    pub(crate) fields: Filters,
}

/// The fields of a form sent by whoever has its page: for signing in and out.
pub(crate) struct OpenForm {
    /// Who sent it.
    pub(crate) visitor: Visitor,
    /// Who, for the record.
    pub(crate) origin: String,
    /// What it says, but for the proof.
    pub(crate) fields: Filters,
}

/// Tells one guest from another.
pub(super) fn guest() -> Result<String, ApiError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| ApiError::internal(&error))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// What the forms of a session, or of a guest, carry.
pub(super) fn proof(app: &App, whose: &str) -> String {
    app.signer.proof(&format!("form\n{whose}"))
}

impl FromRequest<App> for Form {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let OpenForm { visitor, origin, fields } = OpenForm::from_request(request, app).await?;
        let identity = visitor.identity.clone().ok_or_else(auth::missing)?;
        if !visitor.visit.may_write() {
            return Err(ApiError::forbidden("this session may only read"));
        }
        Ok(Self { caller: Caller::new(identity, origin), visitor, fields })
    }
}

impl FromRequest<App> for OpenForm {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let (mut parts, body) = request.into_parts();
        if !is_same_site(&parts.headers) {
            return Err(refused());
        }
        let origin = auth::origin(&parts);
        let Guest(visitor) = Guest::from_request_parts(&mut parts, app).await?;
        let bytes = whole(body, |_| ()).await?;
        let text = std::str::from_utf8(&bytes)
            .map_err(|_| ApiError::new(StatusCode::BAD_REQUEST, "the form is not UTF-8"))?;
        let mut fields = Filters::parse(text);
        let given = fields.text("csrf").unwrap_or_default();
        let expected = &visitor.visit.csrf;
        if expected.is_empty() || !same(given.as_bytes(), expected.as_bytes()) {
            return Err(refused());
        }
        Ok(Self { visitor, origin, fields })
    }
}

fn refused() -> ApiError {
    ApiError::forbidden("the form did not come from a page of this session: load the page again and repeat")
}

/// What browsers say of themselves; others say nothing.
fn is_same_site(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-site").is_none_or(|site| site == "same-origin" || site == "none")
}

/// Takes the same time wherever the two differ.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}
