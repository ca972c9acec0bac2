//! Servers of the self-test on this machine's loopback: what a run is, and is not, to reach.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::evidence::Fault;

/// How long a peer's request is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// A server that answers every request with one page. Dropping it ends it.
pub struct Origin {
    address: SocketAddr,
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Origin {
    /// Serve `page` on this address; port 0 takes a free one.
    pub fn serve(ip: impl Into<IpAddr>, port: u16, page: &str) -> io::Result<Origin> {
        let listener = TcpListener::bind((ip.into(), port))?;
        let address = listener.local_addr()?;
        let ending = Arc::new(AtomicBool::new(false));
        let (stop, page) = (Arc::clone(&ending), page.to_owned());
        let thread = thread::Builder::new().spawn(move || {
            for stream in listener.incoming() {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                // A peer that only connects ends its own connection.
                let _ = stream.and_then(|stream| answer(stream, &page));
            }
        })?;
        Ok(Origin { address, ending, thread: Some(thread) })
    }

    /// Where.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its page, by its own address.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
}

/// A server is what a check sets up itself.
pub fn cannot_serve(error: io::Error) -> Fault {
    Fault::undecided(format!("listening on this machine's loopback: {error}"))
}

fn answer(mut stream: TcpStream, page: &str) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < 16 * 1024 {
        let mut byte = [0u8; 512];
        match stream.read(&mut byte)? {
            0 => return Ok(()),
            read => head.extend_from_slice(&byte[..read]),
        }
    }
    let length = page.len();
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{page}")
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
        // Wakes the thread that waits for a peer.
        let woken = TcpStream::connect_timeout(&self.address, PATIENCE);
        if let (Some(thread), Ok(_)) = (self.thread.take(), woken) {
            let _ = thread.join();
        }
    }
}
