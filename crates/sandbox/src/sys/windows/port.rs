//! A loopback port that is this process's alone. It refuses to know what is said on it.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::windows::io::AsRawSocket as _;

use socket2::{Domain, Socket, Type};
use windows::Win32::Networking::WinSock::{SO_EXCLUSIVEADDRUSE, SOCKET, SOL_SOCKET, WSAEACCES, setsockopt};

/// How many connections may wait to be accepted.
const BACKLOG: i32 = 512;

/// Listens on an address that no other process can take as well, also not one that asks to share it (Microsoft
/// Learn, Using SO_REUSEADDR and SO_EXCLUSIVEADDRUSE). One that another process holds is `AddrInUse`, in whichever of
/// its two ways Windows says so: 10048, or 10013 where the other holds it alone.
pub fn exclusive(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    let yes = 1_i32.to_ne_bytes();
    let raw = SOCKET(socket.as_raw_socket() as usize);
    // SAFETY: the socket is open, the option's value is borrowed for the call with its length.
    if unsafe { setsockopt(raw, SOL_SOCKET, SO_EXCLUSIVEADDRUSE, Some(&yes)) } != 0 {
        // Winsock's code is the thread's last error.
        return Err(io::Error::last_os_error());
    }
    socket.bind(&address.into()).map_err(|error| match error.raw_os_error() {
        Some(code) if code == WSAEACCES.0 => io::ErrorKind::AddrInUse.into(),
        _ => error,
    })?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_held_is_in_use_also_for_who_would_share_it() {
        let held = exclusive(([127, 0, 0, 1], 0).into()).expect("a free port");
        let address = held.local_addr().expect("an address");
        assert_eq!(exclusive(address).expect_err("held").kind(), io::ErrorKind::AddrInUse);
        let sharing = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        sharing.set_reuse_address(true).expect("set");
        sharing.bind(&address.into()).expect_err("it is not shared");
        std::net::TcpStream::connect(address).expect("reached");
        drop(held);
        exclusive(address).expect("free again");
    }
}
