//! Sockets with a path (AF_UNIX), which Windows has had since build 17063: by them a bridge or a relay reaches the
//! node's proxy. It refuses to know what is said over them.

use std::io;
use std::path::{Path, PathBuf};

use socket2::{Domain, SockAddr, Socket, Type};

/// The longest path that an address takes, in bytes of UTF-8: `sun_path` has 108, the last a NUL (afunix.h).
pub const LONGEST: usize = 107;

/// WSAEAFNOSUPPORT (winsock2.h): this system has no such sockets.
const NOT_SUPPORTED: i32 = 10047;

/// How many connections may wait to be accepted.
const BACKLOG: i32 = 512;

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The path does not fit into an address.
    #[error("{} is too long for a socket: {length} bytes, at most {LONGEST}", path.display())]
    TooLong {
        /// The path.
        path: PathBuf,
        /// Its bytes.
        length: usize,
    },
    /// The path is not text that an address can hold.
    #[error("{} is no path for a socket: not UTF-8", .0.display())]
    Text(PathBuf),
    /// This Windows has none.
    #[error("this Windows has no sockets with a path (error 10047)")]
    NotSupported,
    /// Windows refused.
    #[error("{call}: {source}")]
    Call {
        /// The call.
        call: &'static str,
        /// What it answered.
        source: io::Error,
    },
}

/// Listens at a path, which must not exist yet.
pub fn listen(path: &Path) -> Result<Socket, SocketError> {
    let (socket, address) = prepare(path)?;
    socket.bind(&address).map_err(failed("bind"))?;
    socket.listen(BACKLOG).map_err(failed("listen"))?;
    Ok(socket)
}

/// Connects to who listens at a path.
pub fn connect(path: &Path) -> Result<Socket, SocketError> {
    let (socket, address) = prepare(path)?;
    socket.connect(&address).map_err(failed("connect"))?;
    Ok(socket)
}

fn prepare(path: &Path) -> Result<(Socket, SockAddr), SocketError> {
    let length = path.to_str().ok_or_else(|| SocketError::Text(path.to_owned()))?.len();
    if length > LONGEST {
        return Err(SocketError::TooLong { path: path.to_owned(), length });
    }
    let address = SockAddr::unix(path).map_err(failed("address"))?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(failed("socket"))?;
    Ok((socket, address))
}

fn failed(call: &'static str) -> impl FnOnce(io::Error) -> SocketError {
    move |source| match source.raw_os_error() {
        Some(NOT_SUPPORTED) => SocketError::NotSupported,
        _ => SocketError::Call { call, source },
    }
}

#[cfg(test)]
mod tests {
    use super::super::lab;
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::Shutdown;

    #[test]
    fn bytes_pass_or_the_system_has_none() {
        let place = tempfile::tempdir().expect("a folder");
        let path = place.path().join("s");
        match listen(&path) {
            Ok(listener) => {
                let mut inside = connect(&path).expect("connected");
                let (mut outside, _) = listener.accept().expect("accepted");
                inside.write_all(b"to the proxy").expect("written");
                inside.shutdown(Shutdown::Write).expect("ended");
                let mut read = String::new();
                outside.read_to_string(&mut read).expect("read");
                assert_eq!(read, "to the proxy");
                assert!(path.exists() || std::fs::symlink_metadata(&path).is_ok());
                assert!(matches!(listen(&path), Err(SocketError::Call { call: "bind", .. })));
            }
            Err(error) => {
                assert!(lab::is_wine(), "{error}");
                assert!(matches!(error, SocketError::NotSupported), "{error}");
                assert!(matches!(connect(&path), Err(SocketError::NotSupported)));
            }
        }
    }

    #[test]
    fn a_path_of_107_bytes_fits_and_one_more_does_not() {
        let path = |length| PathBuf::from(format!(r"C:\{}", "a".repeat(length - 3)));
        let error = listen(&path(LONGEST + 1)).expect_err("too long");
        assert!(matches!(error, SocketError::TooLong { length: 108, .. }), "{error}");
        assert!(!matches!(connect(&path(LONGEST)), Err(SocketError::TooLong { .. })));
        // Two bytes each in UTF-8.
        let umlauts = PathBuf::from(format!(r"C:\{}", "ä".repeat(60)));
        assert!(matches!(connect(&umlauts), Err(SocketError::TooLong { length: 123, .. })));
    }
}
