//! What every request goes through: a place to be worked on, a time in which its answer begins, the envelope of errors,
//! and the numbers about it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use axum::body::to_bytes;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::app::App;
use crate::auth;
use crate::error::{ApiError, Told};
use crate::extract::whole;
use crate::limits;
use crate::pages::answer::Reader;

/// Bytes of an error's text that are told.
const SENTENCE_BYTES_MAX: usize = 4096;

/// Places for requests to be worked on, and a queue before them.
pub(crate) struct Gate {
    places: Semaphore,
    /// For those of [`Kind::Open`].
    open: Semaphore,
    /// For bytes that come in.
    transfers: Semaphore,
    waiting: AtomicUsize,
}

struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self {
            places: Semaphore::new(limits::REQUESTS_MAX),
            open: Semaphore::new(limits::OPEN_REQUESTS_MAX),
            transfers: Semaphore::new(limits::TRANSFERS_MAX),
            waiting: AtomicUsize::new(0),
        }
    }

    /// A place for an upload.
    pub(crate) async fn enter_transfer(&self) -> Result<SemaphorePermit<'_>, ApiError> {
        self.wait_for(&self.transfers).await
    }

    async fn enter(&self, kind: Kind) -> Result<SemaphorePermit<'_>, ApiError> {
        self.wait_for(if kind == Kind::Open { &self.open } else { &self.places }).await
    }

    async fn wait_for<'a>(&'a self, places: &'a Semaphore) -> Result<SemaphorePermit<'a>, ApiError> {
        if let Ok(place) = places.try_acquire() {
            return Ok(place);
        }
        let busy = || ApiError::unavailable("the server has too much to do").retry_after(2);
        let waiting = Waiting(&self.waiting);
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= limits::QUEUE_MAX {
            return Err(busy());
        }
        let place = tokio::time::timeout(limits::QUEUE_TIMEOUT, places.acquire()).await;
        drop(waiting);
        place.map_err(|_| busy())?.map_err(|error| ApiError::internal(&error))
    }
}

/// How a request is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Answered whatever else goes on.
    Always,
    /// Bytes come in for as long as it takes: such requests are limited by what takes them.
    Transfer,
    /// Much is done before the answer begins.
    Long,
    Short,
    /// As short, and strangers may send a body: sign-ins, forms, and lists of what to export.
    Open,
}

fn kind(method: &Method, path: &str) -> Kind {
    match path {
        "/api/health" | "/api/ready" | "/metrics" => Kind::Always,
        _ if path.starts_with("/objects/") => Kind::Transfer,
        _ if *method == Method::PUT && path.starts_with("/api/uploads/") => Kind::Transfer,
        "/api/trajectories/register" => Kind::Long,
        _ if path.starts_with("/api/uploads") => Kind::Long,
        "/api/auth/login" | "/api/trajectories/zip" if *method == Method::POST => Kind::Open,
        _ if *method == Method::POST && !path.starts_with("/api/") => Kind::Open,
        _ => Kind::Short,
    }
}

/// Lets a request in, and sees to it that it is answered in time.
pub(crate) async fn pass(State(app): State<App>, request: Request, next: Next) -> Response {
    let kind = match kind(request.method(), request.uri().path()) {
        Kind::Open if auth::is_known(&app, request.headers()).await => Kind::Short,
        kind => kind,
    };
    let passed = match kind {
        Kind::Always | Kind::Transfer => return next.run(request).await,
        Kind::Open => pass_stranger(&app, request, next).await,
        Kind::Long | Kind::Short => match app.gate.enter(kind).await {
            Ok(_place) if kind == Kind::Short => in_time(request, next).await,
            Ok(_place) => Ok(next.run(request).await),
            Err(error) => Err(error),
        },
    };
    passed.unwrap_or_else(ApiError::into_response)
}

async fn in_time(request: Request, next: Next) -> Result<Response, ApiError> {
    let answer = tokio::time::timeout(limits::ANSWER_TIMEOUT, next.run(request)).await;
    answer.map_err(|_| ApiError::unavailable("the answer took too long").retry_after(10))
}

/// Takes a place only when the body is there, which strangers may let trickle in.
async fn pass_stranger(app: &App, request: Request, next: Next) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let arrival = app.arrivals.join();
    let arrived = async {
        let body = tokio::time::timeout(limits::OPEN_BODY_TIMEOUT, whole(body, |bytes| arrival.grow(bytes)));
        let late = |_| ApiError::new(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time");
        let body = body.await.map_err(late)??;
        Ok::<_, ApiError>((body, app.gate.enter(Kind::Open).await?))
    };
    let arrived = tokio::select! {
        arrived = arrived => Some(arrived?),
        () = arrival.gives_way() => None,
    };
    match arrived {
        Some((body, _place)) if arrival.stay() => {
            in_time(Request::from_parts(parts, body.into()), next).await
        }
        _ => Err(ApiError::unavailable("too many send something at once").retry_after(5)),
    }
}

/// Puts errors that did not come from a handler into the envelope of the contract, and errors of pages on a page.
pub(crate) async fn envelope(State(app): State<App>, request: Request, next: Next) -> Response {
    let reader = Reader::of(&request);
    let response = in_envelope(next.run(request).await).await;
    match (reader, response.extensions().get::<Told>()) {
        (Some(reader), Some(told)) => {
            let mut page = reader.told(&app, response.status(), &told.0).await;
            keep(&response, &mut page);
            page
        }
        _ => response,
    }
}

async fn in_envelope(response: Response) -> Response {
    let status = response.status();
    let json = response
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    let page =
        response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
    if json || page || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let status = if status == StatusCode::UNPROCESSABLE_ENTITY { StatusCode::BAD_REQUEST } else { status };
    let (parts, body) = response.into_parts();
    let before = Response::from_parts(parts, ());
    let text =
        to_bytes(body, SENTENCE_BYTES_MAX).await.ok().and_then(|text| String::from_utf8(text.into()).ok());
    let sentence = text.filter(|text| !text.trim().is_empty());
    let sentence = sentence.unwrap_or_else(|| status.canonical_reason().unwrap_or("an error").to_lowercase());
    let mut response = ApiError::new(status, sentence).into_response();
    keep(&before, &mut response);
    response
}

/// What an error says besides its sentence.
fn keep<T, U>(before: &axum::http::Response<T>, after: &mut axum::http::Response<U>) {
    for name in ["allow", "retry-after"] {
        if let Some(value) = before.headers().get(name) {
            after.headers_mut().insert(name, value.clone());
        }
    }
}

/// Counts a request.
pub(crate) async fn count(State(app): State<App>, request: Request, next: Next) -> Response {
    let start = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let response = next.run(request).await;
    app.metrics.answered(route, &method, response.status(), start.elapsed());
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_are_not_timed() {
        for (method, path, expected) in [
            (Method::GET, "/api/health", Kind::Always),
            (Method::PUT, "/objects/logs/a.eval", Kind::Transfer),
            (Method::PUT, "/api/uploads/u/parts/0", Kind::Transfer),
            (Method::POST, "/api/uploads/u/complete", Kind::Long),
            (Method::POST, "/api/trajectories/register", Kind::Long),
            (Method::GET, "/api/runs", Kind::Short),
            (Method::PUT, "/api/datasets/a/lock", Kind::Short),
            (Method::POST, "/api/datasets/a/versions", Kind::Short),
            (Method::GET, "/api/trajectories/zip", Kind::Short),
            (Method::POST, "/api/trajectories/zip", Kind::Open),
            (Method::POST, "/api/auth/login", Kind::Open),
            (Method::GET, "/login", Kind::Short),
            (Method::POST, "/login", Kind::Open),
            (Method::POST, "/runs/r/edit", Kind::Open),
        ] {
            assert_eq!(kind(&method, path), expected, "{method} {path}");
        }
    }

    #[tokio::test]
    async fn beyond_the_queue_requests_are_refused_and_within_it_they_wait() {
        let gate = Gate::new();
        let mut places = Vec::new();
        for _ in 0..limits::REQUESTS_MAX {
            places.push(gate.enter(Kind::Short).await.unwrap());
        }
        let (waited, ()) = tokio::join!(gate.enter(Kind::Short), async {
            assert_eq!(gate.waiting.load(Ordering::Relaxed), 1);
            drop(places.pop());
        });
        places.push(waited.unwrap());
        assert_eq!(gate.waiting.load(Ordering::Relaxed), 0);
        // Whoever is in the way there is not here.
        for _ in 0..limits::OPEN_REQUESTS_MAX {
            places.push(gate.enter(Kind::Open).await.unwrap());
        }
        gate.waiting.store(limits::QUEUE_MAX, Ordering::Relaxed);
        assert!(gate.enter(Kind::Short).await.is_err() && gate.enter(Kind::Open).await.is_err());
        assert_eq!(gate.waiting.load(Ordering::Relaxed), limits::QUEUE_MAX);
    }
}
