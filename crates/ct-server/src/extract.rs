//! What handlers take from a request, with errors in the envelope of the contract.

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use crate::app::App;
use crate::auth;
use crate::error::ApiError;

/// A JSON body, whatever its `content-type` says.
pub(crate) struct Body<T>(pub(crate) T);

/// The query, each field a parameter.
pub(crate) struct Params<T>(pub(crate) T);

/// Where a request comes from, for the record.
pub(crate) struct Origin(pub(crate) String);

impl<T: DeserializeOwned> FromRequest<App> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(mut request: Request, app: &App) -> Result<Self, ApiError> {
        // Clients that send JSON without saying so are understood.
        let json = axum::http::HeaderValue::from_static("application/json");
        request.headers_mut().insert(axum::http::header::CONTENT_TYPE, json);
        match Json::<T>::from_request(request, app).await {
            Ok(Json(value)) => Ok(Self(value)),
            Err(JsonRejection::JsonDataError(error)) => Err(ApiError::invalid(last_cause(&error))),
            Err(JsonRejection::JsonSyntaxError(error)) => {
                Err(ApiError::invalid(format!("the body is not JSON: {}", last_cause(&error))))
            }
            Err(error) if error.status() == StatusCode::PAYLOAD_TOO_LARGE => Err(ApiError::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("the body has more than {} bytes", crate::limits::JSON_BYTES_MAX),
            )),
            Err(_) => Err(ApiError::invalid("the body did not arrive whole")),
        }
    }
}

impl<T: DeserializeOwned> FromRequestParts<App> for Params<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        match Query::<T>::from_request_parts(parts, app).await {
            Ok(Query(value)) => Ok(Self(value)),
            Err(QueryRejection::FailedToDeserializeQueryString(error)) => {
                Err(ApiError::invalid(format!("the query makes no sense: {}", last_cause(&error))))
            }
            Err(_) => Err(ApiError::invalid("the query makes no sense")),
        }
    }
}

impl FromRequestParts<App> for Origin {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, ApiError> {
        Ok(Self(auth::origin(parts)))
    }
}

/// The sentence that says what is wrong; those around it say where that was noticed.
fn last_cause(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}
