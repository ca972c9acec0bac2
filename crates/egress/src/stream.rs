//! One end of a connection that never blocks, the bytes read from it and not yet used, and waiting with a
//! deadline. It refuses to know what the bytes mean.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Socket, TcpKeepalive};

use crate::readiness::{self, SLICE};

/// What one try to move bytes gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moved {
    /// So many bytes, at least one.
    Bytes(usize),
    /// None now.
    Blocked,
    /// None ever again: the peer has ended its side.
    Ended,
}

/// A socket in non-blocking mode. Clones are the same socket: the registry of connections holds one to cut it.
#[derive(Debug, Clone)]
pub(crate) struct Stream(Arc<Socket>);

/// After this long without a byte, a peer is asked whether it is still there.
const KEEPALIVE: TcpKeepalive =
    TcpKeepalive::new().with_time(Duration::from_secs(60)).with_interval(Duration::from_secs(15));

impl Stream {
    /// Takes a socket that is non-blocking already. Bytes are sent at once; on AF_UNIX that is no option, and so
    /// no error.
    pub(crate) fn new(socket: Socket) -> Stream {
        let _ = socket.set_tcp_nodelay(true);
        Stream(Arc::new(socket))
    }

    /// Watches for a peer that vanished: there is no idle limit that would.
    pub(crate) fn keep_alive(&self) {
        let _ = self.0.set_tcp_keepalive(&KEEPALIVE);
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.0
    }

    pub(crate) fn read(&self, into: &mut [u8]) -> io::Result<Moved> {
        moved((&*self.0).read(into), Moved::Ended)
    }

    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<Moved> {
        moved((&*self.0).write(bytes), Moved::Blocked)
    }

    /// Writes all of it, waiting as needed until the deadline.
    pub(crate) fn write_all(&self, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write(bytes)? {
                Moved::Bytes(count) => bytes = &bytes[count..],
                _ => {
                    if !wait(&mut [self.when(PollFlags::OUT)], Some(deadline))? {
                        return Err(ErrorKind::TimedOut.into());
                    }
                }
            }
        }
        Ok(())
    }

    /// Tells the peer that nothing more comes.
    pub(crate) fn end(&self) {
        let _ = self.0.shutdown(Shutdown::Write);
    }

    /// Cuts both ways; whoever waits on this socket wakes.
    pub(crate) fn cut(&self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }

    /// Makes the coming close a reset, so that a cut answer is not taken for a whole one.
    pub(crate) fn reset_on_close(&self) {
        let _ = self.0.set_linger(Some(Duration::ZERO));
    }

    /// True when the peer has ended its side and nothing is left to read.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.0.peek(&mut [std::mem::MaybeUninit::uninit()]), Ok(0))
    }

    pub(crate) fn when(&self, flags: PollFlags) -> PollFd<'_> {
        PollFd::new(&*self.0, flags)
    }
}

pub(crate) fn moved(result: io::Result<usize>, zero: Moved) -> io::Result<Moved> {
    match result {
        Ok(0) => Ok(zero),
        Ok(count) => Ok(Moved::Bytes(count)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Ok(Moved::Blocked)
        }
        Err(error) => Err(error),
    }
}

/// Waits until one of them is ready; false when the deadline passed first. A signal counts as ready, and so does
/// the end of a slice: callers look at the flags and come back.
pub(crate) fn wait(fds: &mut [PollFd<'_>], deadline: Option<Instant>) -> io::Result<bool> {
    let slice = SLICE.map(|slice| Instant::now() + slice);
    let slice = slice.filter(|slice| deadline.is_none_or(|deadline| *slice < deadline));
    let timeout = match slice.or(deadline) {
        None => None,
        Some(deadline) => {
            let left = deadline.saturating_duration_since(Instant::now());
            Some(Timespec::try_from(left).map_err(|_| io::Error::from(ErrorKind::InvalidInput))?)
        }
    };
    match poll(fds, timeout.as_ref()) {
        Ok(0) => Ok(slice.is_some()),
        Ok(_) => {
            readiness::pause(fds);
            Ok(true)
        }
        Err(error) if error == rustix::io::Errno::INTR => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Bytes that were read and are not yet used.
#[derive(Debug)]
pub(crate) struct Buffer {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Buffer {
    pub(crate) fn new(size: usize) -> Buffer {
        Buffer { bytes: vec![0; size].into_boxed_slice(), start: 0, end: 0 }
    }

    pub(crate) fn filled(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    pub(crate) fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
    }

    pub(crate) fn consume(&mut self, count: usize) {
        self.start += count.min(self.end - self.start);
        if self.is_empty() {
            self.clear();
        }
    }

    /// Appends as much of `bytes` as fits; says how much that was.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.bytes.len() - self.end);
        self.bytes[self.end..self.end + count].copy_from_slice(&bytes[..count]);
        self.end += count;
        count
    }

    /// Reads once from `stream` behind what is there. A full buffer is the caller's to avoid.
    pub(crate) fn fill(&mut self, stream: &Stream) -> io::Result<Moved> {
        if self.end == self.bytes.len() && self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.bytes.len() {
            return Ok(Moved::Blocked);
        }
        let moved = stream.read(&mut self.bytes[self.end..])?;
        if let Moved::Bytes(count) = moved {
            self.end += count;
        }
        Ok(moved)
    }
}

/// Bytes on their way out.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    pub(crate) bytes: Vec<u8>,
    sent: usize,
    /// All bytes that were sent since it was last asked.
    total: u64,
}

impl Outgoing {
    pub(crate) fn is_empty(&self) -> bool {
        self.sent == self.bytes.len()
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.sent = 0;
    }

    /// Starts the same bytes over, on another stream.
    pub(crate) fn rewind(&mut self) {
        self.sent = 0;
    }

    pub(crate) fn take_total(&mut self) -> u64 {
        std::mem::take(&mut self.total)
    }

    /// Writes what it can. Once all is out the bytes stay until more are added, see [`Outgoing::next`].
    pub(crate) fn flush(&mut self, stream: &Stream) -> io::Result<()> {
        while !self.is_empty() {
            match stream.write(&self.bytes[self.sent..])? {
                Moved::Bytes(count) => {
                    self.sent += count;
                    self.total += count as u64;
                }
                _ => break,
            }
        }
        Ok(())
    }

    /// The place to append the next bytes to, once the last ones are out.
    pub(crate) fn next(&mut self) -> &mut Vec<u8> {
        debug_assert!(self.is_empty());
        self.clear();
        &mut self.bytes
    }
}
