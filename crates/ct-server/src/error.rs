//! From what went wrong to a status and the envelope `{"error": "<one sentence>"}`. The only place that decides it.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ct_log::LogError;
use ct_s3::S3Error;
use ct_store::{Conflict, StoreError};
use serde::Serialize;
use utoipa::ToSchema;

/// What every answer that is an error says.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ErrorEnvelope {
    /// One sentence.
    error: String,
    /// Ids that an ambiguous prefix could stand for. Absent otherwise.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    candidates: Vec<String>,
    /// The run that is in the way, when it is a deleted one that can be restored. Absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    deleted_run: Option<String>,
}

/// The sentence of an error, beside the answer: pages tell it in their own way.
#[derive(Debug, Clone)]
pub(crate) struct Told(pub(crate) String);

/// An answer that is an error.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    sentence: String,
    retry_after_seconds: Option<u64>,
    candidates: Vec<String>,
    deleted_run: Option<String>,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, sentence: impl Into<String>) -> Self {
        let sentence = sentence.into();
        Self { status, sentence, retry_after_seconds: None, candidates: Vec::new(), deleted_run: None }
    }

    /// 400
    pub(crate) fn invalid(sentence: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, sentence)
    }

    /// 401
    pub(crate) fn unauthorized(sentence: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, sentence)
    }

    /// 403
    pub(crate) fn forbidden(sentence: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, sentence)
    }

    /// 404
    pub(crate) fn not_found(sentence: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, sentence)
    }

    /// 409
    pub(crate) fn conflict(sentence: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, sentence)
    }

    /// 503
    pub(crate) fn unavailable(sentence: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, sentence)
    }

    /// The status.
    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// Nobody answers at the moment, so that the next question fares no better.
    pub(crate) fn is_away(&self) -> bool {
        self.status == StatusCode::SERVICE_UNAVAILABLE
    }

    /// The sentence alone.
    pub(crate) fn sentence(&self) -> &str {
        &self.sentence
    }

    /// 500, for something stored that is not what it was.
    pub(crate) fn damaged(sentence: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, sentence)
    }

    /// Says when to try again.
    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after_seconds = Some(seconds);
        self
    }

    /// The envelope alone.
    pub(crate) fn into_json(self) -> String {
        serde_json::to_string(&self.into_envelope()).unwrap_or_default()
    }

    fn into_envelope(self) -> ErrorEnvelope {
        ErrorEnvelope { error: self.sentence, candidates: self.candidates, deleted_run: self.deleted_run }
    }

    /// 500, for what should not happen: the cause is logged and not told.
    pub(crate) fn internal(cause: &dyn std::error::Error) -> Self {
        tracing::error!(cause = causes(cause), "a request failed");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "the server failed; its log says why")
    }
}

/// An error with what caused it, in one line for the server's log.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let mut causes = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        causes.push_str(": ");
        causes.push_str(&source.to_string());
        next = source.source();
    }
    causes
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::NotFound { .. } => Self::not_found(error.to_string()),
            StoreError::Ambiguous { candidates, .. } => {
                Self { candidates: candidates.clone(), ..Self::conflict(error.to_string()) }
            }
            StoreError::Conflict(
                Conflict::RunDeleted { run } | Conflict::LogTaken { held_by: run, deleted: true, .. },
            ) => Self { deleted_run: Some(run.to_string()), ..Self::conflict(error.to_string()) },
            StoreError::Conflict(_) => Self::conflict(error.to_string()),
            StoreError::Forbidden { .. } => Self::forbidden(error.to_string()),
            StoreError::Invalid { .. } => Self::invalid(error.to_string()),
            StoreError::HashDiffers { .. } | StoreError::PartDamaged { .. } => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string())
            }
            StoreError::Busy { .. } => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()).retry_after(2)
            }
            StoreError::Bucket(bucket) => of_bucket(bucket),
            StoreError::NoRoom { .. } => Self::new(StatusCode::INSUFFICIENT_STORAGE, error.to_string()),
            StoreError::Io { source, .. } if source.kind() == std::io::ErrorKind::StorageFull => {
                tracing::error!(cause = %error, "the disk is full");
                Self::new(StatusCode::INSUFFICIENT_STORAGE, "the server's disk is full")
            }
            // The sender's connection broke, or stood still.
            StoreError::Source { source } => {
                Self::new(StatusCode::REQUEST_TIMEOUT, format!("the body did not arrive whole: {source}"))
            }
            _ => Self::internal(&error),
        }
    }
}

/// What the bucket with the logs said, when that is why something could not be read.
pub(crate) fn bucket_error(error: &(dyn std::error::Error + 'static)) -> Option<ApiError> {
    S3Error::within(error).map(of_bucket)
}

/// Where the logs are, and who asks there, is nothing to tell: the log of the server says it.
fn of_bucket(error: &S3Error) -> ApiError {
    tracing::error!(cause = causes(error), "the bucket with the logs");
    match error {
        S3Error::Full { .. } => {
            ApiError::new(StatusCode::INSUFFICIENT_STORAGE, "the server's store of logs is full")
        }
        error if error.is_passing() => {
            ApiError::unavailable("the server's store of logs is out of reach at the moment").retry_after(5)
        }
        _ => ApiError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the server's store of logs failed; its log says why",
        ),
    }
}

impl From<LogError> for ApiError {
    fn from(error: LogError) -> Self {
        Self::internal(&error)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (status, told) = (self.status, Told(self.sentence.clone()));
        let retry_after_seconds = self.retry_after_seconds;
        let mut response = (status, Json(self.into_envelope())).into_response();
        response.extensions_mut().insert(told);
        if let Some(seconds) = retry_after_seconds {
            response.headers_mut().insert("retry-after", seconds.into());
        }
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert("www-authenticate", axum::http::HeaderValue::from_static("Bearer"));
        }
        response
    }
}
