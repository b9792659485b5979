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
use hyper_util::rt::TokioTimer;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tower::ServiceExt as _;

use crate::app::{App, ServerConfig};
use crate::connection::Connection;
use crate::crowd::Crowd;
use crate::{limits, proxies, refusal, routes};

/// Files that the store has open at a time.
#[cfg(unix)]
const FILES_OF_STORE: usize = 64;

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

/// How many connections there may be: each may need a file as well, and others work with files too.
#[cfg(unix)]
fn connections_max() -> usize {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut files = getrlimit(Resource::Nofile);
    // The lower limit is for programs that know no more of files than their number.
    files.current = files.maximum;
    let _ = setrlimit(Resource::Nofile, files);
    let files_max = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let connections_max = usize::try_from(files_max / 2).unwrap_or(usize::MAX).saturating_sub(FILES_OF_STORE);
    connections_max.clamp(1, limits::CONNECTIONS_MAX)
}

#[cfg(not(unix))]
fn connections_max() -> usize {
    limits::CONNECTIONS_MAX
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
    let (stopping, _) = watch::channel(());
    let places = Arc::new(Semaphore::new(connections_max()));
    let strangers = Crowd::new(0);
    let mut stop = pin!(stop);
    loop {
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
        let place = match Arc::clone(&places).try_acquire_owned() {
            Ok(place) => Ok(place),
            Err(_) => {
                strangers.make_way();
                tokio::select! {
                    () = &mut stop => break,
                    place = Arc::clone(&places).acquire_owned() => place,
                }
            }
        };
        let _ = stream.set_nodelay(true);
        let visitor = Arc::new(strangers.join());
        let router = router.clone();
        let (asked, who) = (app.clone(), Arc::clone(&visitor));
        let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
            let trusted = &asked.config.trusted_proxies;
            // The port still tells connections apart.
            let client = SocketAddr::new(proxies::client(peer.ip(), request.headers(), trusted), peer.port());
            request.extensions_mut().insert(ConnectInfo(client));
            request.extensions_mut().insert(Arc::clone(&who));
            router.clone().oneshot(request.map(axum::body::Body::new))
        });
        let (server, connection) = (server.clone(), Connection::new(stream, app.clone()));
        let mut told = stopping.subscribe();
        tokio::spawn(async move {
            let _place = place;
            let served = tokio::select! {
                served = refusal::serve(&server, connection, service, told.changed()) => served,
                () = visitor.gives_way() => return tracing::info!(%peer, "a connection made way for others"),
            };
            if let Err(error) = served {
                tracing::debug!(%error, %peer, "a connection ended early");
            }
        });
    }
    drop(listener);
    collector.abort();
    stopping.send_replace(());
    tokio::select! {
        // Each connection holds the other end.
        () = stopping.closed() => {}
        () = tokio::time::sleep(limits::SHUTDOWN_GRACE) => tracing::warn!("transfers were cut off"),
    }
    Ok(())
}
