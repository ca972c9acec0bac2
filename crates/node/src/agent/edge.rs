//! The way to the edge: one request at a time, signed, and what came of it. When something is sent again, and what
//! a refusal means for jobs, is for the callers.

use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use oz0_fleet::protocol::signature::{Head, Signer, Skew};
use oz0_fleet::protocol::{
    Code, LONGEST_ANSWER, Milliseconds, NodeId, Refusal, StartId, Timestamp, Version, Versions,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use ureq::http::Uri;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem};

/// How long making a connection may take.
const CONNECT: Duration = Duration::from_secs(10);

/// An edge that cannot be used as it was named.
#[derive(Debug, thiserror::Error)]
pub enum EdgeError {
    /// Not a URL of an edge.
    #[error("--edge {0:?}: give a URL such as https://edge.example.com, without a path, a user or a query")]
    Url(String),
    /// In the clear, to another machine.
    #[error("--edge {0}: plain HTTP leads to this machine alone; use https, or say --edge-in-the-clear")]
    Clear(String),
    /// The file of authorities.
    #[error("--edge-ca {path}: {error}")]
    Authority {
        /// As named.
        path: String,
        /// What is wrong with it.
        error: String,
    },
    /// No randomness.
    #[error("making this start's id: {0}")]
    Random(io::Error),
}

/// Why a request got no answer of the kind that was asked for.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// The edge is not there, or what answers is no edge.
    #[error("{0}")]
    Away(String),
    /// It does not do what was asked.
    #[error("{} ({})", .0.reason, .0.code)]
    Refused(Box<Refusal>),
}

impl Trouble {
    /// The refusal's code.
    pub fn code(&self) -> Option<Code> {
        match self {
            Trouble::Away(_) => None,
            Trouble::Refused(refusal) => Some(refusal.code),
        }
    }

    /// May the same succeed later, without anyone doing anything?
    pub fn passes(&self) -> bool {
        self.code().is_none_or(Code::passes)
    }
}

/// One edge, and this start of this node.
pub struct Edge {
    agent: ureq::Agent,
    /// Without a slash at its end.
    base: String,
    signer: Signer,
    start: StartId,
    speak: AtomicU16,
}

/// How the edge is reached.
pub struct Way<'a> {
    /// Its URL.
    pub url: &'a str,
    /// A file of the authorities that are trusted, instead of the machine's.
    pub authorities: Option<&'a Path>,
    /// Plain HTTP may leave this machine.
    pub in_the_clear: bool,
}

impl Edge {
    /// Set everything up; nothing is sent.
    pub fn new(way: &Way<'_>, signer: Signer) -> Result<Edge, EdgeError> {
        let base = base(way)?;
        let roots =
            match way.authorities {
                None => RootCerts::PlatformVerifier,
                Some(path) => RootCerts::Specific(Arc::new(authorities(path).map_err(|error| {
                    EdgeError::Authority { path: oz0_sandbox::text::escape(path), error }
                })?)),
            };
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .root_certs(roots)
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .build();
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            // The caller's own proxy variables say nothing to the node.
            .proxy(None)
            .user_agent(concat!("oz0-node/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(CONNECT))
            .tls_config(tls)
            .build();
        let mut start = [0; 16];
        getrandom::fill(&mut start).map_err(|error| EdgeError::Random(io::Error::other(error)))?;
        Ok(Edge {
            agent: config.into(),
            base,
            signer,
            start: StartId::from_bytes(start),
            speak: AtomicU16::new(Versions::OURS.newest),
        })
    }

    /// Who asks.
    pub fn node(&self) -> NodeId {
        self.signer.node()
    }

    /// The public half of the key.
    pub fn public(&self) -> &[u8] {
        self.signer.public()
    }

    /// Which edge, as kept beside what it said.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Speak this from now on.
    pub fn speak(&self, version: Version) {
        self.speak.store(version, Ordering::Relaxed);
    }

    /// Ask, and read the answer.
    pub fn ask<A: DeserializeOwned>(
        &self,
        path: &str,
        question: &impl Serialize,
        limit: Duration,
    ) -> Result<A, Trouble> {
        let body = serde_json::to_vec(question).map_err(|error| Trouble::Away(error.to_string()))?;
        self.send(path, "", &body, limit)
    }

    /// Send these bytes, and read the answer. Each time signed anew: what was sent before is a replay.
    pub fn send<A: DeserializeOwned>(
        &self,
        path: &str,
        query: &str,
        body: &[u8],
        limit: Duration,
    ) -> Result<A, Trouble> {
        let away = |error: &dyn std::fmt::Display| Trouble::Away(error.to_string());
        let mut nonce = [0; 16];
        getrandom::fill(&mut nonce).map_err(|error| away(&error))?;
        let version = self.speak.load(Ordering::Relaxed);
        let head = Head { method: "POST", path, query, version, start: self.start };
        let mark = if query.is_empty() { "" } else { "?" };
        let mut request = self.agent.post(format!("{}{path}{mark}{query}", self.base));
        for (name, value) in self.signer.sign(&head, body, now(), nonce) {
            request = request.header(name, value);
        }
        let kind = if query.is_empty() { "application/json" } else { "application/octet-stream" };
        let request = request.content_type(kind).config().timeout_global(Some(limit)).build();
        let mut answer = request.send(body).map_err(|error| away(&error))?;
        let status = answer.status();
        let text = answer
            .body_mut()
            .with_config()
            .limit(LONGEST_ANSWER as u64)
            .read_to_vec()
            .map_err(|error| away(&error))?;
        if status.is_success() {
            return serde_json::from_slice(&text)
                .map_err(|error| Trouble::Away(format!("its answer is none of an edge's: {error}")));
        }
        Err(match serde_json::from_slice::<Refusal>(&text) {
            Ok(refusal) => Trouble::Refused(Box::new(refusal)),
            Err(_) => Trouble::Away(format!("it answers {status}, and not as an edge does")),
        })
    }
}

/// The time by this machine's clock.
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_milliseconds(Milliseconds::from(since).count())
}

/// How wrong this machine's clock is, by what the edge said of its own.
pub fn skew(refusal: &Refusal) -> Option<Skew> {
    let (edge, here) = (refusal.edge_time.filter(|_| refusal.code == Code::Clock)?, now());
    Some(if here > edge { Skew::Ahead(here.since(edge)) } else { Skew::Behind(edge.since(here)) })
}

fn base(way: &Way<'_>) -> Result<String, EdgeError> {
    let wrong = || EdgeError::Url(oz0_sandbox::text::escape(way.url));
    let url: Uri = way.url.trim_end_matches('/').parse().map_err(|_| wrong())?;
    let (Some(scheme), Some(authority)) = (url.scheme_str(), url.authority()) else { return Err(wrong()) };
    let bare = matches!(url.path(), "" | "/") && url.query().is_none() && !authority.as_str().contains('@');
    if !bare || url.host().is_none_or(str::is_empty) || way.url.contains('#') {
        return Err(wrong());
    }
    match scheme {
        "https" => {}
        "http" if way.in_the_clear || is_loopback(url.host().unwrap_or_default()) => {}
        "http" => return Err(EdgeError::Clear(oz0_sandbox::text::escape(way.url))),
        _ => return Err(wrong()),
    }
    Ok(format!("{scheme}://{authority}"))
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn authorities(path: &Path) -> Result<Vec<Certificate<'static>>, String> {
    let text = std::fs::read(path).map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    for item in parse_pem(&text) {
        if let PemItem::Certificate(certificate) = item.map_err(|error| error.to_string())? {
            found.push(certificate);
        }
    }
    if found.is_empty() { Err("holds no certificate in PEM".into()) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(url: &str) -> Result<String, EdgeError> {
        base(&Way { url, authorities: None, in_the_clear: false })
    }

    #[test]
    fn an_edge_is_a_host_and_nothing_more() {
        for (url, base) in [
            ("https://edge.example.com", "https://edge.example.com"),
            ("https://edge.example.com:8443/", "https://edge.example.com:8443"),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("http://[::1]:8080", "http://[::1]:8080"),
            ("http://localhost:8080/", "http://localhost:8080"),
        ] {
            assert_eq!(at(url).unwrap(), base);
        }
        for url in [
            "",
            "edge.example.com",
            "ftp://edge.example.com",
            "https://edge.example.com/oz0",
            "https://edge.example.com?x=1",
            "https://edge.example.com/#x",
            "https://user:password@edge.example.com",
            "https://",
            "unix:/run/edge",
        ] {
            assert!(matches!(at(url), Err(EdgeError::Url(_))), "{url}");
        }
    }

    #[test]
    fn nothing_leaves_this_machine_in_the_clear_unless_that_is_said() {
        for url in ["http://edge.example.com", "http://10.0.0.5:80", "http://127.0.0.1.example.com"] {
            assert!(matches!(at(url), Err(EdgeError::Clear(_))), "{url}");
            assert!(base(&Way { url, authorities: None, in_the_clear: true }).is_ok(), "{url}");
        }
    }

    #[test]
    fn a_file_without_a_certificate_is_no_authority() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(authorities(file.path()).unwrap_err().contains("no certificate"));
        assert!(authorities(Path::new("/nowhere/at/all")).is_err());
    }

    #[test]
    fn a_wrong_clock_is_measured_by_the_edges() {
        let refusal =
            |code, edge_time| Refusal { code, reason: String::new(), fix: None, edge_time, speaks: None };
        let later = now().after(Milliseconds::seconds(600));
        assert_eq!(skew(&refusal(Code::Clock, Some(later))).unwrap().to_string(), "10 min behind");
        assert_eq!(skew(&refusal(Code::Held, Some(later))), None);
        assert_eq!(skew(&refusal(Code::Clock, None)), None);
    }
}
