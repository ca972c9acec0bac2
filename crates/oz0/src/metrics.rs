//! Figures for whoever watches, and whether the process and its database answer. Figures are served at an address of
//! their own: they are nobody's business on the network where senders and nodes are.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use oz0_fleet::protocol::{Code, Ending};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::edge::{Answer, Edge};

/// How many deliveries were taken, or why not.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Intake {
    outcome: &'static str,
}

/// In which state.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InState {
    state: String,
}

/// The figures.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    intake: Family<Intake, Counter>,
    leased: Counter,
    endings: Family<InState, Counter>,
    jobs: Family<InState, Gauge>,
    waiting: Gauge,
}

impl Default for Metrics {
    fn default() -> Metrics {
        let metrics = Metrics {
            registry: Registry::with_prefix("oz0"),
            intake: Family::default(),
            leased: Counter::default(),
            endings: Family::default(),
            jobs: Family::default(),
            waiting: Gauge::default(),
        };
        let mut registry = Registry::with_prefix("oz0");
        registry.register(
            "intake",
            "Deliveries and submissions, by what became of them",
            metrics.intake.clone(),
        );
        registry.register("leases", "Jobs handed to nodes", metrics.leased.clone());
        registry.register("endings", "Runs that ended, by the state that follows", metrics.endings.clone());
        registry.register("jobs", "Jobs that are kept, by state", metrics.jobs.clone());
        registry.register("nodes_waiting", "Nodes whose poll is held open here", metrics.waiting.clone());
        Metrics { registry, ..metrics }
    }
}

impl Metrics {
    /// One delivery was taken, or refused with this code.
    pub(crate) fn intake(&self, refused: Option<Code>) {
        let outcome = refused.map_or("taken", Code::word);
        self.intake.get_or_create(&Intake { outcome }).inc();
    }

    /// Jobs were handed out.
    pub(crate) fn leased(&self, jobs: usize) {
        self.leased.inc_by(jobs as u64);
    }

    /// Runs ended.
    pub(crate) fn finished(&self, endings: &[Ending]) {
        for ending in endings {
            let state = ending.outcome.terminal().map_or("again", |terminal| terminal.word());
            self.endings.get_or_create(&InState { state: state.to_owned() }).inc();
        }
    }
}

/// Whether it lives, and whether it can do anything.
pub(crate) fn routes() -> Router<Arc<Edge>> {
    Router::new().route("/healthz", get(async || "alive\n")).route("/readyz", get(ready))
}

/// The figures' own address.
pub fn exposition(edge: Arc<Edge>) -> Router {
    Router::new().route("/metrics", get(metrics)).with_state(edge)
}

async fn ready(State(edge): State<Arc<Edge>>) -> Result<&'static str, Answer> {
    edge.store.ping().await?;
    Ok("ready\n")
}

async fn metrics(State(edge): State<Arc<Edge>>) -> Result<Response, Answer> {
    let metrics = &edge.metrics;
    for count in edge.store.count_jobs().await? {
        let state = InState { state: count.state.to_string() };
        metrics.jobs.get_or_create(&state).set(i64::try_from(count.jobs).unwrap_or(i64::MAX));
    }
    metrics.waiting.set(i64::try_from(edge.waiting()).unwrap_or(i64::MAX));
    let mut text = String::new();
    if encode(&mut text, &metrics.registry).is_err() {
        return Ok(StatusCode::INTERNAL_SERVER_ERROR.into_response());
    }
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}
