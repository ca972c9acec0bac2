//! A plain forwarder from a listener to one address: what a bridge inside a container and a relay outside it both
//! are. It reads no byte: the proxy behind it still wants the token. It refuses to know who connects.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use socket2::{Domain, SockAddr, Socket, Type};

use crate::accept::{Acceptor, Connection, Service};
use crate::dial::connect;
use crate::listener::Listener;
use crate::stream::{Buffer, Stream};
use crate::tunnel::{Stores, carry};

/// Where a forwarder leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// A TCP address.
    Tcp(SocketAddr),
    /// An AF_UNIX path.
    Unix(PathBuf),
}

/// How long opening a connection to the destination may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// A running forwarder. Dropping it cuts every connection.
pub struct Forwarder {
    acceptor: Acceptor,
}

struct Forwarding(Destination);

impl Forwarder {
    /// Forwards each connection, at most `most` at once; one more is closed.
    pub fn start(listener: Listener, to: Destination, most: usize) -> io::Result<Forwarder> {
        Ok(Forwarder { acceptor: Acceptor::start(Arc::new(Forwarding(to)), listener, None, most)? })
    }

    /// Accepts no more, lets open connections end for at most `drain`, cuts the rest. Gives how many were cut.
    pub fn stop(mut self, drain: Duration) -> usize {
        self.acceptor.stop(drain)
    }
}

impl Forwarding {
    fn open(&self, is_cut: &dyn Fn() -> bool) -> io::Result<Stream> {
        match &self.0 {
            Destination::Tcp(address) => connect(*address, Instant::now() + PATIENCE, is_cut),
            Destination::Unix(path) => {
                let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
                socket.connect(&SockAddr::unix(path)?)?;
                socket.set_nonblocking(true)?;
                Ok(Stream::new(socket))
            }
        }
    }
}

impl Service for Forwarding {
    fn serve(&self, connection: &Connection, stores: &mut Stores) {
        connection.rest(false);
        let is_cut = || connection.is_cut();
        let Ok(origin) = self.open(&is_cut) else {
            // A reset, so that a dead destination does not look like an empty answer.
            connection.client.reset_on_close();
            return;
        };
        let (mut early, mut late) = (Buffer::new(0), Buffer::new(0));
        carry(&connection.client, &origin, &mut early, &mut late, stores, is_cut);
    }

    fn turn_away(&self) -> &'static [u8] {
        b""
    }
}
