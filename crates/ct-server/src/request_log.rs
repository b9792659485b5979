//! One line in the log for each request, and an id that answer and log have in common.
//!
//! Of an address only the path is logged, and of headers nothing: neither tokens nor signatures of addresses.

use std::net::SocketAddr;
use std::time::Instant;

use axum::extract::{ConnectInfo, Request};
use axum::http::HeaderValue;
use axum::middleware::Next;
use axum::response::Response;
use tracing::Instrument as _;

/// Characters of a path that are logged, at most.
const PATH_MAX: usize = 300;

/// Logs what was asked and answered; the time is that until the answer began.
pub(crate) async fn log(request: Request, next: Next) -> Response {
    let start = Instant::now();
    let id = request_id();
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|peer| peer.0.ip());
    let method = request.method().clone();
    let path: String = request.uri().path().chars().take(PATH_MAX).collect();
    let span = tracing::info_span!("request", %id);
    let mut response = next.run(request).instrument(span.clone()).await;
    tracing::info!(
        parent: &span,
        %method,
        path,
        status = response.status().as_u16(),
        duration_ms = start.elapsed().as_millis() as u64,
        peer = peer.map(tracing::field::display),
        "answered"
    );
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert("x-request-id", value);
    }
    response
}

/// Tells one request from another.
pub(crate) fn request_id() -> String {
    let mut bytes = [0; 8];
    // Without random bytes the id is of no use, and nothing worse.
    let _ = getrandom::fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
