//! What every handler shares.

use std::net::SocketAddr;
use std::sync::Arc;

use ct_model::PriceTable;
use ct_store::{Store, StoreError};

use tokio::sync::Semaphore;

use crate::crowd::Crowd;
use crate::error::ApiError;
use crate::gate::Gate;
use crate::limits;
use crate::metrics::Metrics;
use crate::pages::summaries::Summaries;
use crate::proxies::Network;
use crate::signing::Signer;
use crate::throttle::Throttle;
use crate::transcripts::Transcripts;
use crate::walks::Walks;

/// Who may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Only who has a token.
    Private,
    /// Everyone; writing needs a token.
    Public,
}

/// How a server is set up.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Where to listen; port 0 takes a free one.
    pub bind: SocketAddr,
    /// Who may read.
    pub mode: Mode,
    /// The address clients reach the server by, without a `/` at the end; absent: what their `Host` header says.
    pub public_url: Option<String>,
    /// Proxies that are believed when they say for whom they ask.
    pub trusted_proxies: Vec<Network>,
    /// The name of the bucket in `s3://<bucket>/<key>` addresses of logs.
    pub bucket: String,
    /// Logs go through this server also when they are in a bucket, for clients that do not reach that.
    pub proxy_logs: bool,
    /// Version and commit, told by the health route.
    pub version: &'static str,
    /// What `GET /api/pricing` tells.
    pub prices: PriceTable,
}

/// The state of a running server; cheap to clone.
#[derive(Clone)]
pub(crate) struct App(Arc<Parts>);

pub(crate) struct Parts {
    pub(crate) store: Arc<Store>,
    pub(crate) config: ServerConfig,
    pub(crate) signer: Signer,
    pub(crate) walks: Walks,
    pub(crate) throttle: Throttle,
    pub(crate) gate: Gate,
    /// Bodies of strangers.
    pub(crate) arrivals: Arc<Crowd>,
    pub(crate) metrics: Metrics,
    pub(crate) summaries: Summaries,
    /// Turns for making ZIP files.
    pub(crate) exports: Arc<Semaphore>,
    pub(crate) open_exports: Arc<Semaphore>,
    /// Samples that someone reads.
    pub(crate) transcripts: Transcripts,
}

impl std::ops::Deref for App {
    type Target = Parts;
    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl App {
    pub(crate) fn new(store: Arc<Store>, config: ServerConfig) -> Result<Self, StoreError> {
        let signer = Signer::new(&store.secret("sign addresses", 32)?);
        let transcripts = Transcripts::new(store.data_dir().join("tmp"));
        Ok(Self(Arc::new(Parts {
            store,
            config,
            signer,
            walks: Walks::default(),
            throttle: Throttle::new(),
            gate: Gate::new(),
            arrivals: Crowd::new(limits::OPEN_BODIES_BYTES_MAX),
            metrics: Metrics::new(),
            summaries: Summaries::default(),
            exports: Arc::new(Semaphore::new(limits::EXPORTS_MAX)),
            open_exports: Arc::new(Semaphore::new(limits::OPEN_EXPORTS_MAX)),
            transcripts,
        })))
    }

    /// Asks the store on a thread that may block.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&App) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let app = self.clone();
        let span = tracing::Span::current();
        match tokio::task::spawn_blocking(move || span.in_scope(|| work(&app))).await {
            Ok(result) => result,
            Err(error) => Err(ApiError::internal(&error)),
        }
    }
}
