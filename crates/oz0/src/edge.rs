//! The edge: takes work in from whoever sends it and hands it to nodes. It decides nothing about nodes (that is
//! [`crate::route`]) and keeps nothing itself (that is [`crate::store`]).

mod answer;
mod intake;
mod queue;
mod rate;
mod session;
pub(crate) mod signed;
pub mod source;
mod wake;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use oz0_fleet::protocol::{LONGEST_LOG_PIECE, LONGEST_REQUEST, NodeId, TenantId, Timestamp, path};
use tokio::sync::watch;

use crate::metrics::Metrics;
use crate::route::Need;
use crate::store::Store;
use crate::store::nodes::Touch;

pub use answer::Answer;
pub use rate::Rate;
pub use source::Source;

/// What every request shares.
#[derive(Debug)]
pub struct Edge {
    /// What is kept.
    pub store: Store,
    /// Figures.
    pub metrics: Metrics,
    pub(crate) keys: signed::Keys,
    wake: wake::Wake,
    rates: rate::Rates,
    seen: Mutex<HashMap<NodeId, (Timestamp, String)>>,
    ending: watch::Sender<bool>,
    announce: tokio::sync::mpsc::UnboundedSender<(TenantId, Need)>,
}

/// The edge with what others announce to it.
pub type Announced = tokio::sync::mpsc::UnboundedReceiver<(TenantId, Need)>;

impl Edge {
    /// Over this store. What is queued here comes out of the second, for other oz0 to hear of.
    pub fn new(store: Store, rate: Rate) -> (Arc<Edge>, Announced) {
        let (announce, announced) = tokio::sync::mpsc::unbounded_channel();
        let edge = Edge {
            store,
            metrics: Metrics::default(),
            keys: signed::Keys::default(),
            wake: wake::Wake::default(),
            rates: rate::Rates::new(rate),
            seen: Mutex::default(),
            ending: watch::Sender::new(false),
            announce,
        };
        (Arc::new(edge), announced)
    }

    /// Jobs with this need were queued here: wake nodes that take them, and let others know.
    fn queued(&self, tenant: TenantId, need: &Need, jobs: usize) {
        self.wake.queued(tenant, need, jobs);
        // Nobody listens with a database that only one oz0 has.
        drop(self.announce.send((tenant, need.clone())));
    }

    /// Jobs with this need were queued somewhere.
    pub fn heard(&self, tenant: TenantId, need: &Need) {
        self.wake.queued(tenant, need, 1);
    }

    /// This node has something to be told.
    pub fn tell(&self, node: NodeId) {
        self.wake.tell(node);
    }

    /// A node was heard of.
    pub(crate) fn saw(&self, node: NodeId, at: Timestamp, address: &str) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert(node, (at, address.to_owned()));
    }

    /// Write down which nodes were heard of.
    pub async fn keep_seen(&self) -> crate::store::Result<()> {
        let seen = std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner));
        if seen.is_empty() {
            return Ok(());
        }
        let mut seen: Vec<_> = seen.into_iter().map(|(node, (at, address))| (node, at, address)).collect();
        // Two oz0 that write at once lock rows in the same order.
        seen.sort_unstable();
        self.store.act(Touch(seen)).await
    }

    /// As many nodes' polls are held open.
    pub fn waiting(&self) -> usize {
        self.wake.count()
    }

    /// Answer every poll now, and hold no new one.
    pub fn end(&self) {
        self.ending.send_replace(true);
    }
}

/// What is served.
pub fn routes(edge: Arc<Edge>) -> Router {
    let node = Router::new()
        .route(path::ENROL, post(crate::management::intake::enrol))
        .route(path::REPORT, post(crate::management::intake::report))
        .route(path::LEASE, post(queue::lease))
        .route(path::RENEW, post(queue::renew))
        .route(path::FINISH, post(queue::finish))
        .layer(DefaultBodyLimit::max(LONGEST_REQUEST));
    let log =
        Router::new().route(path::LOG, post(queue::log)).layer(DefaultBodyLimit::max(LONGEST_LOG_PIECE));
    let outside = Router::new()
        .route("/in/{trigger}", post(intake::take))
        .layer(DefaultBodyLimit::max(intake::LONGEST_BODY));
    let session = Router::new()
        .route("/v1/jobs", post(session::submit).get(session::list))
        .route("/v1/route", post(session::dry_run))
        .route("/v1/jobs/{job}", get(session::show))
        .route("/v1/jobs/{job}/log", get(session::log))
        .route("/v1/jobs/{job}/cancel", post(session::cancel))
        .layer(DefaultBodyLimit::max(session::LONGEST_BODY));
    node.merge(log)
        .merge(outside)
        .merge(session)
        .merge(crate::metrics::routes())
        .fallback(async || Answer::not_found("there is nothing at this address"))
        .method_not_allowed_fallback(async || Answer::bad_request("this address takes another method"))
        .with_state(edge)
}
