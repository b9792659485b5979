//! What is no request gets an error in the envelope of the contract, too.
//!
//! Before there is a request there is nothing that a handler could answer: the library below writes a bare head with the
//! status and gives the connection up. [`Connection`] keeps back whatever ends like such a head, since bytes of a log may
//! look the same; whether it is one shows right after: when the connection fails with it, ours is sent in its place, and
//! else it goes out as it is.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::Ordering;

use axum::body::Body;
use axum::http::StatusCode;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::HttpService;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use crate::connection::Connection;
use crate::error::ApiError;
use crate::{limits, request_log};

/// The statuses, as they begin a head behind the version.
const BEGINNINGS: [&str; 3] = [
    " 400 Bad Request\r\nconnection: close\r\n",
    " 414 URI Too Long\r\nconnection: close\r\n",
    " 431 Request Header Fields Too Large\r\nconnection: close\r\n",
];
const VERSION: &str = "HTTP/1.1";
const NO_BODY: &str = "content-length: 0\r\n";
const DATE: &str = "date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n";

/// Where a bare head begins that these bytes end with.
pub(crate) fn start(bytes: &[u8]) -> Option<usize> {
    if !bytes.ends_with(b"\r\n\r\n") {
        return None;
    }
    BEGINNINGS.iter().find_map(|beginning| {
        let length = VERSION.len() + beginning.len() + NO_BODY.len() + DATE.len();
        let start = bytes.len().checked_sub(length)?;
        let rest = bytes[start + VERSION.len()..].strip_prefix(beginning.as_bytes())?;
        let rest = rest.strip_prefix(NO_BODY.as_bytes())?;
        (bytes[start..].starts_with(b"HTTP/1.") && rest.starts_with(b"date: ")).then_some(start)
    })
}

/// Serves a connection to its end. Once `stop` is done, the request that is being answered is its last.
pub(crate) async fn serve<S>(
    server: &http1::Builder,
    connection: Connection,
    service: S,
    stop: impl Future,
) -> hyper::Result<()>
where
    S: HttpService<Incoming, ResBody = Body>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let is_kept = connection.is_kept();
    let mut serving = server.serve_connection(TokioIo::new(connection), service);
    let (mut stop, mut is_stopping) = (pin!(stop), false);
    let ended = poll_fn(|context| {
        if !is_stopping && stop.as_mut().poll(context).is_ready() {
            is_stopping = true;
            Pin::new(&mut serving).graceful_shutdown();
        }
        let polled = Pin::new(&mut serving).poll(context);
        if polled.is_pending() && is_kept.swap(false, Ordering::Relaxed) {
            context.waker().wake_by_ref();
        }
        polled
    })
    .await;
    let mut connection = serving.into_parts().io.into_inner();
    match &ended {
        Err(error) if error.is_parse() => refuse(&mut connection, error).await,
        // The last answer ended with what is kept.
        Ok(()) if is_kept.swap(false, Ordering::Relaxed) => {
            let _ = connection.flush().await;
            let _ = connection.shutdown().await;
        }
        _ => {}
    }
    ended
}

/// Says why something is no request, in place of the bare head that is kept.
async fn refuse(connection: &mut Connection, error: &hyper::Error) {
    let Ok(head) = String::from_utf8(connection.take_kept()) else { return };
    let (status, sentence) = match head.split(' ').nth(1) {
        Some("414") => (StatusCode::URI_TOO_LONG, format!("the address is too long: {error}")),
        Some("431") => (
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            format!(
                "more than {} headers, or {} bytes of them",
                limits::HEADERS_MAX,
                limits::HEADER_BYTES_MAX
            ),
        ),
        Some("400") => (StatusCode::BAD_REQUEST, format!("this is no request of HTTP/1.1: {error}")),
        _ => return,
    };
    let id = request_log::request_id();
    tracing::info!(id, status = status.as_u16(), "refused what is no request");
    let body = ApiError::new(status, sentence).into_json();
    let about_body =
        format!("content-type: application/json\r\ncontent-length: {}\r\nx-request-id: {id}\r\n", body.len());
    let answer = head.replace(NO_BODY, &about_body) + &body;
    if connection.write_all(answer.as_bytes()).await.is_ok() && connection.shutdown().await.is_ok() {
        // What is still to be read when a connection is closed takes the answer with it.
        let take = async {
            let (mut taken, mut buffer) = (0, [0; 4096]);
            while let Ok(bytes @ 1..) = connection.read(&mut buffer).await
                && taken < limits::REFUSED_BYTES_MAX
            {
                taken += bytes as u64;
            }
        };
        let _ = timeout(limits::REFUSED_TIMEOUT, take).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_head_is_found_at_the_end_alone() {
        for beginning in BEGINNINGS {
            for version in ["HTTP/1.0", VERSION] {
                let head = format!("{version}{beginning}{NO_BODY}{DATE}");
                assert_eq!(start(head.as_bytes()), Some(0));
                assert_eq!(start(format!("{head}{head}").as_bytes()), Some(head.len()));
                assert_eq!(start(format!("{head}x").as_bytes()), None);
                assert_eq!(start(&head.as_bytes()[1..]), None);
                assert_eq!(start(head.replace(": 0", ": 1").as_bytes()), None);
                assert_eq!(start(head.replace("close", "other").as_bytes()), None);
            }
        }
        assert_eq!(start(b"\r\n\r\n"), None);
        assert_eq!(start(b""), None);
    }
}
