//! `oz0 serve`.

use std::io::{IsTerminal as _, Write};
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use super::Result;
use crate::edge::Rate;
use crate::serve::{Settings, serve};
use crate::store::Place;

/// Serve.
#[derive(Debug, Args)]
pub(super) struct Serve {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7300")]
    listen: SocketAddr,
    /// A certificate chain, as a PEM file; with --key
    #[arg(long, value_name = "FILE", requires = "key")]
    certificate: Option<PathBuf>,
    /// The certificate's key, as a PEM file
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
    /// Listen beyond this machine without TLS
    #[arg(long, conflicts_with = "certificate")]
    plain: bool,
    /// Show figures for Prometheus at this address
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    /// As many deliveries and submissions of one tenant are taken a second
    #[arg(long, value_name = "NUMBER", default_value_t = Rate::default().per_second)]
    rate: u32,
    /// And so many at once, after a pause
    #[arg(long, value_name = "NUMBER", default_value_t = Rate::default().at_once)]
    burst: u32,
}

impl Serve {
    pub(super) async fn run(self, place: Place, out: &mut impl Write) -> Result<()> {
        log();
        // Before anything is begun, so that a signal that comes early ends it in good order too.
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let serving = serve(Settings {
            place,
            listen: self.listen,
            tls: self.certificate.zip(self.key),
            plain: self.plain,
            metrics: self.metrics,
            rate: Rate { per_second: self.rate, at_once: self.burst },
        })
        .await?;
        writeln!(out, "listening on {}", serving.address)?;
        if let Some(address) = serving.metrics {
            writeln!(out, "figures on {address}")?;
        }
        out.flush()?;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("ending");
        serving.stop().await;
        Ok(())
    }
}

/// To standard error: for people at a terminal, as JSON elsewhere. `RUST_LOG` says how much.
fn log() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let set = if std::io::stderr().is_terminal() { log.try_init() } else { log.json().try_init() };
    // Set before by whoever called: theirs it is.
    drop(set);
}
