//! An upstream proxy: the node's own configuration, never a destination that a run chose. Its address is exempt
//! from the judging of addresses; its credentials have no Debug and no Display.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use crate::host::{Authority, Host, HostError};

/// A proxy that everything goes through, except forwarded ports and names with an address of their own.
#[derive(Clone)]
pub struct Upstream {
    pub(crate) host: Host,
    pub(crate) port: u16,
    /// The value of `Proxy-Authorization`, ready to be sent.
    pub(crate) authorization: Option<Zeroizing<String>>,
}

/// Why a text is no upstream proxy. It never holds the text, which may hold a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamError {
    /// Not `http://`.
    #[error("the upstream proxy is given as http://[USER:PASSWORD@]HOST:PORT")]
    Form,
    /// A percent escape in the credentials that is none.
    #[error("the upstream proxy's credentials hold a broken percent escape")]
    Escape,
    /// The host.
    #[error("the upstream proxy: {0}")]
    Host(#[from] HostError),
}

impl Upstream {
    /// Reads `http://[user:password@]host:port`, as HTTPS_PROXY gives it.
    pub fn parse(url: &str) -> Result<Upstream, UpstreamError> {
        let rest = url
            .get(..7)
            .filter(|scheme| scheme.eq_ignore_ascii_case("http://"))
            .map(|_| &url[7..])
            .ok_or(UpstreamError::Form)?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.contains(['/', '?', '#']) {
            return Err(UpstreamError::Form);
        }
        // The last @ ends the credentials: a password may hold one that its owner did not escape.
        let (credentials, authority) = match rest.rsplit_once('@') {
            Some((credentials, authority)) => (Some(credentials), authority),
            None => (None, rest),
        };
        let Authority { host, port } = authority.parse()?;
        let authorization = match credentials {
            None => None,
            Some(credentials) => {
                let plain = decode_percent(credentials)?;
                Some(Zeroizing::new(format!("Basic {}", STANDARD.encode(plain.as_slice()))))
            }
        };
        Ok(Upstream { host, port: port.unwrap_or(80), authorization })
    }
}

fn decode_percent(text: &str) -> Result<Zeroizing<Vec<u8>>, UpstreamError> {
    let mut plain = Zeroizing::new(Vec::with_capacity(text.len()));
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            plain.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|b| char::from(b).to_digit(16)).ok_or(UpstreamError::Escape);
        let (high, low) = (digit()?, digit()?);
        plain.push(u8::try_from(high << 4 | low).map_err(|_| UpstreamError::Escape)?);
    }
    Ok(plain)
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let credentials = if self.authorization.is_some() { "credentials kept back, " } else { "" };
        write!(f, "Upstream({credentials}{})", self.host.with_port(self.port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c106_an_upstream_is_read_and_its_credentials_stay_hidden() {
        let upstream = Upstream::parse("http://us%40er:p@ss%3A@127.0.0.1:3128/").unwrap();
        assert_eq!((upstream.host.to_string(), upstream.port), ("127.0.0.1".to_owned(), 3128));
        let sent = upstream.authorization.as_ref().unwrap();
        assert_eq!(STANDARD.decode(sent.strip_prefix("Basic ").unwrap()).unwrap(), b"us@er:p@ss:");
        assert_eq!(format!("{upstream:?}"), "Upstream(credentials kept back, 127.0.0.1:3128)");
        assert!(Upstream::parse("HTTP://proxy.corp.example").unwrap().authorization.is_none());
    }

    #[test]
    fn c011_what_is_no_upstream_says_so_without_its_secret() {
        for (url, error) in [
            ("https://user:secret@proxy.example:3128", UpstreamError::Form),
            ("proxy.example:3128", UpstreamError::Form),
            ("http://proxy.example:3128/path", UpstreamError::Form),
            ("http://user:secret%4@proxy.example", UpstreamError::Escape),
            ("http://user:secret@127.1:8080", UpstreamError::Host(HostError::Number)),
            ("http://user:secret@:8080", UpstreamError::Host(HostError::Empty)),
        ] {
            let found = Upstream::parse(url).unwrap_err();
            assert_eq!(found, error);
            assert!(!found.to_string().contains("secret"));
        }
        for url in ["http://127.0.0.1:8080", "http://[::1]:8080", "http://localhost:8080"] {
            assert!(Upstream::parse(url).unwrap().host.is_own_loopback(), "{url}");
        }
    }
}
