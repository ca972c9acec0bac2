//! The proxy of one run: its settings, its start, its end. It refuses to know what a request looks like.

use std::io::{self, Write};
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Duration;

use crate::accept::{Acceptor, Connection, Service};
use crate::allowlist::{Allowlist, Verdict};
use crate::connection;
use crate::dial::{Dialler, Resolve, SystemResolver};
use crate::listener::Listener;
use crate::lookups;
use crate::reason::Reason;
use crate::record::{Book, Denial, Kind, Record, Summary};
use crate::reply::TOO_MANY;
use crate::token::Token;
use crate::tunnel::Stores;
use crate::upstream::Upstream;

/// Bounds on connections. An open tunnel or answer has none in time: a silent peer is found by TCP keep-alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once; one more gets 503.
    pub connections: usize,
    /// From a head's first byte to its last.
    pub head: Duration,
    /// From one request to the next.
    pub idle: Duration,
    /// To open a connection, all addresses together.
    pub connect: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 256,
            head: Duration::from_secs(10),
            idle: Duration::from_secs(300),
            connect: Duration::from_secs(20),
        }
    }
}

/// What a run's proxy is started with.
pub struct Settings {
    /// The hosts that may be reached.
    pub allowlist: Allowlist,
    /// Ports of the node's own loopback that may be reached.
    pub forward: Vec<u16>,
    /// The run's token.
    pub token: Token,
    /// The proxy that all but the node's surroundings are reached through.
    pub upstream: Option<Upstream>,
    /// Takes a line of JSON for each decision.
    pub records: Option<Box<dyn Write + Send>>,
    /// Looks names up.
    pub resolver: Box<dyn Resolve>,
    /// Bounds.
    pub limits: Limits,
}

impl Settings {
    /// The usual settings: no forwarded ports, no upstream proxy, no records, the system's resolver.
    pub fn new(allowlist: Allowlist, token: Token) -> Settings {
        Settings {
            allowlist,
            forward: Vec::new(),
            token,
            upstream: None,
            records: None,
            resolver: Box::new(SystemResolver),
            limits: Limits::default(),
        }
    }
}

/// What all connections of a run share.
pub(crate) struct Shared {
    pub(crate) dialler: Dialler,
    pub(crate) forward: Vec<u16>,
    pub(crate) token: Token,
    pub(crate) limits: Limits,
    pub(crate) book: Book,
}

impl Service for Shared {
    fn serve(&self, connection: &Connection, stores: &mut Stores) {
        connection::serve(self, connection, stores);
    }

    fn turn_away(&self) -> &'static [u8] {
        self.note_denied(Kind::Connection, "", 0, Reason::TooManyConnections);
        TOO_MANY
    }

    fn datagrams(&self, socket: &UdpSocket, most: usize) {
        lookups::refuse_waiting(socket, most, |name| {
            self.note_denied(Kind::Lookup, name, 53, Reason::NameLookup);
        });
    }
}

impl Shared {
    fn note_denied(&self, kind: Kind, host: &str, port: u16, reason: Reason) {
        self.book.note(Record {
            time_ms: 0,
            kind,
            host,
            port,
            rule: None,
            verdict: Verdict::Denied,
            reason,
            detail: None,
            address: None,
            up: 0,
            down: 0,
            duration_ms: 0,
        });
    }
}

/// A running proxy. Dropping it cuts every connection; [`Proxy::stop`] lets them end first.
pub struct Proxy {
    shared: Arc<Shared>,
    acceptor: Acceptor,
}

impl Proxy {
    /// Starts the proxy on a listener, and with a socket for DNS queries if there is one: on Linux both were made
    /// inside the sandbox's network namespace and handed out.
    ///
    /// A program that sets SIGPIPE back to its default must block it: splice(2) raises it when a peer is gone.
    pub fn start(settings: Settings, listener: Listener, dns: Option<UdpSocket>) -> io::Result<Proxy> {
        let Settings { allowlist, forward, token, upstream, records, resolver, limits } = settings;
        let shared = Arc::new(Shared {
            dialler: Dialler { allowlist, resolver, upstream, patience: limits.connect },
            forward,
            token,
            limits,
            book: Book::new(records),
        });
        let service: Arc<dyn Service> = Arc::clone(&shared) as Arc<dyn Service>;
        let acceptor = Acceptor::start(service, listener, dns, limits.connections)?;
        Ok(Proxy { shared, acceptor })
    }

    /// The denials so far, most frequent first.
    pub fn denials(&self) -> Vec<Denial> {
        self.shared.book.denials()
    }

    /// Accepts no more, lets open connections end for at most `drain`, cuts the rest and says what was done.
    pub fn stop(mut self, drain: Duration) -> Summary {
        let cut = self.acceptor.stop(drain);
        self.shared.book.summary(cut)
    }
}
