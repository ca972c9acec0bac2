//! A loopback port, which on Unix is a process's alone anyway.

use std::io;
use std::net::{SocketAddr, TcpListener};

/// Listens on an address; one that another process holds is `AddrInUse`.
pub fn exclusive(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address)
}
