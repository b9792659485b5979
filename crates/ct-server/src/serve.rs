//! Listens, and hands connections to the router, until it is told to stop.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ConnectInfo;
use axum::http::Request;
use ct_store::{GcOptions, Store, StoreError};
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tower::ServiceExt as _;

use crate::app::{App, ServerConfig};
use crate::connection::Connection;
use crate::{limits, proxies, routes};

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be listened on.
    #[error("could not listen on {bind}")]
    Bind {
        /// The address.
        bind: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The store does not work.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Collects abandoned uploads, and logs that nothing needs, from time to time.
async fn collect(app: App) {
    let mut times = tokio::time::interval(limits::COLLECT_EVERY);
    loop {
        times.tick().await;
        let options = GcOptions { dry_run: false, purge_deleted_before: None };
        let collected = app.blocking(move |app| Ok(app.store.gc(options))).await;
        match collected {
            Ok(Ok(report)) if report.items.is_empty() => {}
            Ok(Ok(report)) => {
                let (items, size_bytes) = (report.items.len(), report.size_bytes());
                tracing::info!(items, size_bytes, "collected what nothing needs");
            }
            // Someone is adding to the store, or works on it: the next time will do.
            Ok(Err(error)) => tracing::info!(%error, "nothing was collected"),
            Err(_) => {}
        }
    }
}

/// Serves until `stop` is done, then lets transfers end for a while. `ready` is told the address once it listens.
pub async fn serve(
    store: Arc<Store>,
    config: ServerConfig,
    ready: impl FnOnce(SocketAddr),
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let bind = config.bind;
    let failed = |source| ServeError::Bind { bind, source };
    let listener = TcpListener::bind(bind).await.map_err(failed)?;
    let app = App::new(store, config)?;
    let collector = tokio::spawn(collect(app.clone()));
    let router = routes::router(app.clone());
    ready(listener.local_addr().map_err(failed)?);

    let mut server = hyper::server::conn::http1::Builder::new();
    server
        .timer(TokioTimer::new())
        .header_read_timeout(limits::HEADERS_TIMEOUT)
        .max_headers(limits::HEADERS_MAX)
        .max_buf_size(limits::HEADER_BYTES_MAX)
        .half_close(false);
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(limits::CONNECTIONS_MAX));
    let mut stop = pin!(stop);
    loop {
        let place = tokio::select! {
            () = &mut stop => break,
            place = Arc::clone(&places).acquire_owned() => place,
        };
        let (stream, peer) = tokio::select! {
            () = &mut stop => break,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of file descriptors, most likely: those in use come back when their transfers end.
                    tracing::warn!(%error, "could not accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
        };
        let _ = stream.set_nodelay(true);
        let router = router.clone();
        let asked = app.clone();
        let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
            let trusted = &asked.config.trusted_proxies;
            // The port still tells connections apart.
            let client = SocketAddr::new(proxies::client(peer.ip(), request.headers(), trusted), peer.port());
            request.extensions_mut().insert(ConnectInfo(client));
            router.clone().oneshot(request.map(axum::body::Body::new))
        });
        let connection = graceful
            .watch(server.serve_connection(TokioIo::new(Connection::new(stream, app.clone())), service));
        tokio::spawn(async move {
            let _place = place;
            if let Err(error) = connection.await {
                tracing::debug!(%error, %peer, "a connection ended early");
            }
        });
    }
    drop(listener);
    collector.abort();
    tokio::select! {
        () = graceful.shutdown() => {}
        () = tokio::time::sleep(limits::SHUTDOWN_GRACE) => tracing::warn!("transfers were cut off"),
    }
    Ok(())
}
