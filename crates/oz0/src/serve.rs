//! `oz0 serve`: one process that listens, sweeps, hears of what other oz0 queue, and ends in good order.

mod clockwork;
mod hear;
mod listen;
mod tls;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::edge::{Edge, Rate, routes};
use crate::metrics::exposition;
use crate::store::{Place, Store, StoreError};

pub use tls::TlsError;

/// What to serve, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the database is.
    pub place: Place,
    /// Where to listen.
    pub listen: SocketAddr,
    /// A certificate chain and its key, as PEM files.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Plain HTTP beyond this machine.
    pub plain: bool,
    /// Where figures are shown.
    pub metrics: Option<SocketAddr>,
    /// How much a tenant may send.
    pub rate: Rate,
}

/// Why it does not serve.
#[derive(Debug, Error)]
pub enum ServeError {
    /// Anyone on the way could read tokens and answers.
    #[error(
        "plain HTTP at {0} would show tokens and logs to the network: give --certificate and --key, listen on \
         loopback behind a proxy that has them, or say --plain"
    )]
    Plain(SocketAddr),
    /// The address cannot be had.
    #[error("cannot listen on {address}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How long requests that are being answered may take once it ends.
const DRAIN: Duration = Duration::from_secs(10);

/// A server that listens.
#[derive(Debug)]
pub struct Serving {
    /// Where.
    pub address: SocketAddr,
    /// Where its figures are.
    pub metrics: Option<SocketAddr>,
    stop: watch::Sender<bool>,
    task: tokio::task::JoinHandle<()>,
}

impl Serving {
    /// End in good order: polls are answered, requests finished, what was begun is kept.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        drop(self.task.await);
    }
}

async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServeError> {
    let failed = |source| ServeError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

/// Begin to serve.
pub async fn serve(settings: Settings) -> Result<Serving, ServeError> {
    if settings.tls.is_none() && !settings.plain && !settings.listen.ip().is_loopback() {
        return Err(ServeError::Plain(settings.listen));
    }
    let tls = settings.tls.as_ref().map(|(certificate, key)| tls::acceptor(certificate, key)).transpose()?;
    let store = Store::open(&settings.place).await?;
    let (listener, address) = bind(settings.listen).await?;
    let figures = match settings.metrics {
        Some(address) => Some(bind(address).await?),
        None => None,
    };
    let metrics = figures.as_ref().map(|(_, address)| *address);
    let (edge, announced) = Edge::new(store.clone(), settings.rate);
    let (stop, stopped) = watch::channel(false);

    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(clockwork::run(edge.clone(), stopped.clone()));
    tasks.spawn(hear::run(edge.clone(), settings.place.clone(), announced, stopped.clone()));
    if let Some((listener, _)) = figures {
        tasks.spawn(listen::run(listener, None, exposition(edge.clone()), stopped.clone()));
    }
    let main = listen::run(listener, tls, routes(edge.clone()), stopped.clone());
    let task = tokio::spawn(async move {
        let polls = async {
            let mut stopped = stopped;
            drop(stopped.wait_for(|stopped| *stopped).await);
            edge.end();
        };
        tokio::join!(main, polls);
        while tasks.join_next().await.is_some() {}
        if let Err(error) = edge.keep_seen().await {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "when nodes were seen last was not kept"
            );
        }
        store.close().await;
    });
    tracing::info!(%address, database = %settings_database(&settings.place), "serving");
    Ok(Serving { address, metrics, stop, task })
}

fn settings_database(place: &Place) -> &'static str {
    match place {
        Place::Directory(_) => "SQLite",
        Place::Url(_) => "PostgreSQL",
    }
}
