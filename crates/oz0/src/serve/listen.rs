//! Connections: accepted, decrypted where there is a certificate, served, and let go of in good order.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

use super::DRAIN;

/// As many connections are held at once: thousands of nodes wait on one each.
const MOST_CONNECTIONS: usize = 20_000;
/// A request's head, and a handshake, have to be there by then.
const HEAD: Duration = Duration::from_secs(10);

/// Serve until it is stopped, then until what was begun is answered.
pub(super) async fn run(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    mut stopped: watch::Receiver<bool>,
) {
    let graceful = GracefulShutdown::new();
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { break };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopped.wait_for(|stopped| *stopped) => break,
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of descriptors, most likely: it passes when others end.
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        // Answers are small, and the other side waits for each.
        drop(stream.set_nodelay(true));
        let (tls, router, graceful) = (tls.clone(), router.clone(), graceful.watcher());
        tokio::spawn(async move {
            let _place = place;
            match tls {
                None => connection(stream, address, router, graceful).await,
                Some(tls) => match tokio::time::timeout(HEAD, tls.accept(stream)).await {
                    Ok(Ok(stream)) => connection(stream, address, router, graceful).await,
                    Ok(Err(error)) => tracing::debug!(%address, %error, "no TLS"),
                    Err(_) => tracing::debug!(%address, "no TLS in time"),
                },
            }
        });
    }
    drop(listener);
    drop(tokio::time::timeout(DRAIN, graceful.shutdown()).await);
}

async fn connection<S>(stream: S, address: SocketAddr, router: Router, graceful: Watcher)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(address));
        router.call(request)
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(64 * 1024)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = graceful.watch(served).await {
        tracing::debug!(%address, %error, "a connection broke");
    }
}
