//! What the server fills in when it shows a run or a trajectory: how logs are called on the wire, `s3://<bucket>/<key>`, and the signed address where one can be fetched.

use std::collections::HashMap;

use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, LOCATION};
use axum::response::{IntoResponse, Response};
use ct_model::{LogFormat, ObjectKey, RunHeader, RunId, TrajectoryDocument, sample_url};

use crate::address::BaseUrl;
use crate::app::App;
use crate::error::ApiError;

/// Fills in where the log of a run lies when it was made here.
pub(crate) fn complete_header(app: &App, header: &mut RunHeader, format: LogFormat) {
    if header.eval_log_url.is_none()
        && let Some(run) = &header.run_id
    {
        header.eval_log_url = Some(app.log_url(&ObjectKey::new(run.clone(), format)));
    }
}

/// Fills in where the sample of a trajectory lies when it was made here.
pub(crate) fn complete_document(app: &App, document: &mut TrajectoryDocument, format: LogFormat) {
    if document.eval_log_url.is_none()
        && let Some(run) = &document.run_id
    {
        let log = app.log_url(&ObjectKey::new(run.clone(), format));
        document.eval_log_url = Some(sample_url(&log, &document.eval_sample_id));
    }
}

/// Sends the caller to where the whole log of a run can be fetched without a token, for a short time.
pub(crate) fn redirect_to_log(app: &App, base: &BaseUrl, run: RunId, format: LogFormat) -> Response {
    redirect(&app.signed_get(base, &ObjectKey::new(run, format)))
}

/// 302 Found, which axum's own redirects are not.
pub(crate) fn redirect(location: &str) -> Response {
    (StatusCode::FOUND, [(LOCATION, location.to_owned()), (CACHE_CONTROL, "no-store".to_owned())])
        .into_response()
}

/// The forms of the logs of documents, each run looked up once.
#[derive(Default)]
pub(crate) struct Formats(HashMap<RunId, LogFormat>);

impl Formats {
    pub(crate) fn of(&mut self, app: &App, document: &TrajectoryDocument) -> Result<LogFormat, ApiError> {
        let Some(run) = &document.run_id else { return Ok(LogFormat::Eval) };
        if let Some(format) = self.0.get(run) {
            return Ok(*format);
        }
        let format = app.store.run(run)?.log.format;
        self.0.insert(run.clone(), format);
        Ok(format)
    }
}
