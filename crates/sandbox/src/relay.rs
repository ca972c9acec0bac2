//! The relay, for builds of Windows that close a container's own loopback: outside the container it listens on one
//! loopback port, as the container's one network peer, and forwards each connection to the run's proxy. It reads no
//! byte: the proxy behind it still wants the run's token.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use oz0_egress::{BindError, Destination, Forwarder, Listener};

use crate::backend::psec::route::PORTS;
use crate::sys::port;

/// Connections of one run at once, as many as its proxy takes.
const CONNECTIONS: usize = 256;

/// A relay at work; dropping it cuts every connection.
pub struct Relay {
    address: SocketAddr,
    _forwarder: Forwarder,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// No port is free, or none can be had.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// It listens and cannot say where.
    #[error("the relay's own address is not known")]
    Address,
    /// Forwarding could not be begun.
    #[error("forwarding: {0}")]
    Forward(io::Error),
}

impl Relay {
    /// Listens on the first free port of the relays' and forwards to the proxy at `socket`.
    pub fn start(socket: &Path) -> Result<Relay, RelayError> {
        let listener = Listener::first_by(IpAddr::V4(Ipv4Addr::LOCALHOST), PORTS, |address| {
            port::exclusive(address).map(Listener::from)
        })?;
        let address = listener.local_addr().ok_or(RelayError::Address)?;
        let forwarder = Forwarder::start(listener, Destination::Unix(socket.to_owned()), CONNECTIONS)
            .map_err(RelayError::Forward)?;
        Ok(Relay { address, _forwarder: forwarder })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;
    use std::os::unix::net::UnixListener;

    /// C145: two at once each reach their own proxy, and one more than there are ports is told clearly.
    #[test]
    fn c145_each_relay_reaches_its_own_proxy_and_the_33rd_is_told() {
        let place = tempfile::tempdir().unwrap();
        let proxy = |name: &str| {
            let path = place.path().join(name);
            let listener = UnixListener::bind(&path).unwrap();
            let name = name.to_owned();
            std::thread::spawn(move || {
                while let Ok((mut client, _)) = listener.accept() {
                    let mut asked = [0; 4];
                    client.read_exact(&mut asked).unwrap();
                    client.write_all(name.as_bytes()).unwrap();
                }
            });
            path
        };
        let (first, second) = (proxy("first"), proxy("second"));
        let mut relays = vec![Relay::start(&first).unwrap(), Relay::start(&second).unwrap()];
        for (relay, name) in relays.iter().zip(["first", "second"]) {
            assert!(PORTS.contains(&relay.address().port()));
            let mut client = TcpStream::connect(relay.address()).unwrap();
            client.write_all(b"who?").unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).unwrap();
            assert_eq!(answer, name);
        }
        let refused = loop {
            match Relay::start(&first) {
                Ok(relay) => relays.push(relay),
                Err(error) => break error.to_string(),
            }
            assert!(relays.len() <= 32, "never more than there are ports");
        };
        assert!(refused.starts_with("all 32 relays are in use"), "{refused}");
    }
}
