//! A certificate and its key, from PEM files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use thiserror::Error;
use tokio_rustls::TlsAcceptor;

/// Why it cannot be used.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {} as PEM", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: pem::Error,
    },
    /// They do not go together.
    #[error("the certificate and the key cannot be used together")]
    Pair(#[source] rustls::Error),
}

/// What does the handshakes.
pub(super) fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor, TlsError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| TlsError::File { path, source }
    };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(failed(certificate))?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(failed(key))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Pair)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(TlsError::Pair)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
