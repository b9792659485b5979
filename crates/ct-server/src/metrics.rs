//! Numbers about the server, for Prometheus.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::app::App;
use crate::error::ApiError;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answer {
    route: String,
    method: String,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Route {
    route: String,
    method: String,
}

/// What is counted.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Answer, Counter>,
    durations: Family<Route, Histogram>,
    /// Of all connections, headers included.
    pub(crate) bytes_in: Counter,
    pub(crate) bytes_out: Counter,
    pub(crate) connections: Gauge,
    runs: Gauge,
    deleted_runs: Gauge,
    trajectories: Gauge,
    logs_bytes: Gauge,
    database_bytes: Gauge,
    walks: Gauge,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("ct");
        let requests = Family::default();
        let durations = Family::new_with_constructor(
            (|| Histogram::new(exponential_buckets(0.001, 2.0, 16))) as fn() -> Histogram,
        );
        let (bytes_in, bytes_out, connections) = (Counter::default(), Counter::default(), Gauge::default());
        registry.register("requests", "Requests answered", Family::clone(&requests));
        registry.register_with_unit(
            "request_duration",
            "Time until the answer began",
            Unit::Seconds,
            durations.clone(),
        );
        registry.register_with_unit("received", "Bytes from clients", Unit::Bytes, bytes_in.clone());
        registry.register_with_unit("sent", "Bytes to clients", Unit::Bytes, bytes_out.clone());
        registry.register("connections", "Open connections", Gauge::clone(&connections));
        let mut gauge = |name: &str, help: &str| {
            let gauge: Gauge = Gauge::default();
            registry.register(name, help, gauge.clone());
            gauge
        };
        Self {
            runs: gauge("runs", "Runs, deleted ones too"),
            deleted_runs: gauge("deleted_runs", "Runs that are deleted"),
            trajectories: gauge("trajectories", "Trajectories of all runs"),
            logs_bytes: gauge("logs_bytes", "Bytes of the present logs of all runs"),
            database_bytes: gauge("database_bytes", "Bytes of the database file"),
            walks: gauge("walks", "Clients on their way through pages of lists"),
            registry,
            requests,
            durations,
            bytes_in,
            bytes_out,
            connections,
        }
    }

    /// Counts an answer.
    pub(crate) fn answered(
        &self,
        route: Option<String>,
        method: &Method,
        status: StatusCode,
        duration: Duration,
    ) {
        // What no route knows is one thing, and so are methods that nobody has heard of: who asks cannot make labels up.
        let route = route.unwrap_or_else(|| "none".to_owned());
        let known = [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
        let method = if known.contains(method) { method.as_str() } else { "other" }.to_owned();
        let answer = Answer { route: route.clone(), method: method.clone(), status: status.as_u16() };
        self.requests.get_or_create(&answer).inc();
        self.durations.get_or_create(&Route { route, method }).observe(duration.as_secs_f64());
    }

    /// All of it as text.
    pub(crate) fn text(&self, app: &App) -> Result<String, ApiError> {
        let totals = app.store.totals()?;
        let set = |gauge: &Gauge, number: u64| {
            gauge.set(i64::try_from(number).unwrap_or(i64::MAX));
        };
        set(&self.runs, totals.runs);
        set(&self.deleted_runs, totals.deleted_runs);
        set(&self.trajectories, totals.trajectories);
        set(&self.logs_bytes, totals.logs_size_bytes);
        let database = std::fs::metadata(app.store.data_dir().join("ct.sqlite"));
        set(&self.database_bytes, database.map_or(0, |file| file.len()));
        set(&self.walks, app.walks.len() as u64);
        let mut text = String::new();
        encode(&mut text, &self.registry).map_err(|error| ApiError::internal(&error))?;
        Ok(text)
    }
}
