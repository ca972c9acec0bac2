//! A listener from outside, TCP or AF_UNIX behind one type. It refuses to know who connects and why.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::ops::RangeInclusive;
use std::path::Path;

use socket2::{Domain, SockAddr, Socket, Type};

/// How many connections may wait to be accepted.
const BACKLOG: i32 = 512;

/// A socket that accepts connections.
#[derive(Debug)]
pub struct Listener(Socket);

/// Every port of a range is in use.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Other processes hold all of them.
    #[error("all {count} relays are in use: no port from {first} to {last} on {ip} is free")]
    AllInUse {
        /// Where.
        ip: IpAddr,
        /// The first port tried.
        first: u16,
        /// The last port tried.
        last: u16,
        /// How many were tried.
        count: usize,
    },
    /// Something else is in the way.
    #[error("listening on {address}: {source}")]
    Bind {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}

impl Listener {
    /// Listens on the first free port of a range.
    pub fn first_of(ip: IpAddr, ports: RangeInclusive<u16>) -> Result<Listener, BindError> {
        Listener::first_by(ip, ports, Listener::bind)
    }

    /// The same, with a way of one's own to listen on one of them.
    pub fn first_by(
        ip: IpAddr,
        ports: RangeInclusive<u16>,
        listen: impl Fn(SocketAddr) -> io::Result<Listener>,
    ) -> Result<Listener, BindError> {
        for port in ports.clone() {
            let address = SocketAddr::new(ip, port);
            match listen(address) {
                Ok(listener) => return Ok(listener),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                Err(source) => return Err(BindError::Bind { address, source }),
            }
        }
        Err(BindError::AllInUse { ip, first: *ports.start(), last: *ports.end(), count: ports.len() })
    }

    /// SO_REUSEADDR skips over connections that have just ended, on Unix. On Windows it would let two processes share
    /// the port.
    fn bind(address: SocketAddr) -> io::Result<Listener> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        #[cfg(unix)]
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(Listener(socket))
    }

    /// Listens on an AF_UNIX path, on Windows as well.
    pub fn unix(path: &Path) -> io::Result<Listener> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.bind(&SockAddr::unix(path)?)?;
        socket.listen(BACKLOG)?;
        Ok(Listener(socket))
    }

    /// Where it listens, when that is an IP address.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.0.local_addr().ok()?.as_socket()
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.0
    }

    /// Accepts one connection that does not block and is not inherited, if one waits.
    pub(crate) fn accept(&self) -> io::Result<Option<Socket>> {
        match accept(&self.0) {
            Ok(socket) => Ok(Some(socket)),
            // The peer gave up before it was accepted; that ends nothing here.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock
                        | io::ErrorKind::Interrupted
                        | io::ErrorKind::ConnectionAborted
                        | io::ErrorKind::ConnectionReset
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(target_os = "linux")]
fn accept(socket: &Socket) -> io::Result<Socket> {
    use rustix::net::{SocketFlags, accept_with};
    // One call instead of an accept and two fcntl.
    Ok(Socket::from(accept_with(socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?))
}

#[cfg(not(target_os = "linux"))]
fn accept(socket: &Socket) -> io::Result<Socket> {
    let (socket, _) = socket.accept()?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Listener {
        Listener(listener.into())
    }
}

#[cfg(unix)]
impl From<std::os::unix::net::UnixListener> for Listener {
    fn from(listener: std::os::unix::net::UnixListener) -> Listener {
        Listener(std::os::fd::OwnedFd::from(listener).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c145_one_port_too_many_is_a_clear_error() {
        let ip = IpAddr::from([127, 0, 0, 1]);
        // A range of two ports that are free right now; others may take them meanwhile, so a few are tried.
        for start in (12_000..32_000).step_by(997) {
            let range = start..=start + 1;
            let (Ok(first), Ok(second)) =
                (Listener::first_of(ip, range.clone()), Listener::first_of(ip, range.clone()))
            else {
                continue;
            };
            assert_ne!(first.local_addr(), second.local_addr());
            let error = Listener::first_of(ip, range).unwrap_err();
            assert!(error.to_string().starts_with("all 2 relays are in use"), "{error}");
            return;
        }
        panic!("no two free ports");
    }
}
