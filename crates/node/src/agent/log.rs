//! One job's log: what it writes goes, masked, into a file of the node's, and from there to the edge in pieces, as
//! far as the edge keeps it. An edge that is away costs disk and no memory, and no secret reaches the disk.

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use oz0_fleet::protocol::{LONGEST_LOG_PIECE, LogPlace, LogTaken, path};

use super::edge::Edge;
use super::journal::Taking;
use super::mask::Mask;
use super::pace::Pace;

/// So much is kept on the node at most, until the edge says how much it wants.
const MOST: u64 = 64 * 1024 * 1024;
/// Between two pieces, so that a talkative job is not a request a line.
const REST: Duration = Duration::from_millis(200);
const LIMIT: Duration = Duration::from_secs(20);

/// A log.
pub struct Log {
    inner: Mutex<Inner>,
    changed: Condvar,
}

struct Inner {
    mask: Mask,
    file: File,
    /// Bytes in the file.
    length: u64,
    /// Bytes that the file may come to.
    most: u64,
    /// Bytes that had no room.
    dropped: u64,
    /// Nothing more is written.
    closed: bool,
    /// Nothing more is sent.
    settled: bool,
}

impl Log {
    /// Begin one.
    pub fn begin(file: &Path, mask: Mask) -> io::Result<Log> {
        let file = File::options().read(true).write(true).create(true).truncate(true).open(file)?;
        Ok(Log::over(file, 0, mask, false))
    }

    /// One that an earlier start has left: what is in it can still be sent.
    pub fn left(file: &Path) -> io::Result<Log> {
        let file = File::options().read(true).append(true).open(file)?;
        let length = file.metadata()?.len();
        Ok(Log::over(file, length, Mask::new([]), true))
    }

    fn over(file: File, length: u64, mask: Mask, closed: bool) -> Log {
        let inner = Inner { mask, file, length, most: MOST, dropped: 0, closed, settled: false };
        Log { inner: Mutex::new(inner), changed: Condvar::new() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Take all that comes, until nobody can write any more.
    pub fn fill(&self, mut from: impl Read) {
        let mut bytes = vec![0; 64 * 1024];
        loop {
            match from.read(&mut bytes) {
                Ok(0) => return,
                Ok(read) => self.write(&bytes[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    /// Add this.
    pub fn write(&self, bytes: &[u8]) {
        let mut inner = self.lock();
        let masked = inner.mask.piece(bytes);
        inner.keep(&masked);
        drop(inner);
        self.changed.notify_all();
    }

    /// Nothing comes any more.
    pub fn close(&self) {
        let mut inner = self.lock();
        if !inner.closed {
            let rest = inner.mask.end();
            inner.keep(&rest);
            if inner.dropped > 0 && inner.length < inner.most + 256 {
                let line =
                    format!("\noz0-node: the log was cut here: {} bytes more were not kept\n", inner.dropped);
                inner.most = inner.most.saturating_add(256);
                inner.keep(line.as_bytes());
            }
            inner.closed = true;
        }
        drop(inner);
        self.changed.notify_all();
    }

    /// Wait until all that is wanted was sent, or until then.
    pub fn wait_sent(&self, until: impl Fn() -> Option<Instant>) -> bool {
        let mut inner = self.lock();
        while !inner.settled {
            let left = until().map_or(REST, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return false;
            }
            inner =
                self.changed.wait_timeout(inner, left.min(REST)).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Give up sending.
    pub fn settle(&self) {
        self.lock().settled = true;
        self.changed.notify_all();
    }

    /// Send it while it grows, until all of it was sent or the edge wants no more.
    pub fn send(&self, edge: &Edge, taking: Taking) {
        let (mut sent, mut pace) = (0, Pace::default());
        // An earlier start may have sent some of it: an empty piece asks for the offset.
        let mut asks = self.lock().closed;
        while let Some(piece) = self.piece(sent, asks) {
            let place = LogPlace { job: taking.job, fence: taking.fence, offset: sent };
            match edge.send::<LogTaken>(path::LOG, &place.to_string(), &piece, LIMIT) {
                Ok(taken) => {
                    pace.worked();
                    let goes_on = asks || taken.next > sent || piece.is_empty();
                    (sent, asks) = (taken.next, false);
                    if !self.bound(taken) || !goes_on {
                        break;
                    }
                    self.rest();
                }
                Err(trouble) if trouble.passes() || super::lease::asks_again(&trouble) => {
                    super::tell(&trouble, "sending a log", pace.failures());
                    self.pause(pace.pause());
                }
                Err(trouble) => {
                    super::tell(&trouble, "sending a log", 0);
                    break;
                }
            }
        }
        self.settle();
    }

    /// The next piece; none when there will be none.
    fn piece(&self, sent: u64, even_empty: bool) -> Option<Vec<u8>> {
        let mut inner = self.lock();
        loop {
            if inner.settled {
                return None;
            }
            if even_empty {
                return Some(Vec::new());
            }
            if inner.length > sent {
                let length = (inner.length - sent).min(LONGEST_LOG_PIECE as u64);
                let mut piece = vec![0; length as usize];
                let read =
                    inner.file.seek(SeekFrom::Start(sent)).and_then(|_| inner.file.read_exact(&mut piece));
                let back = inner.file.seek(SeekFrom::End(0));
                return match read.and(back) {
                    Ok(_) => Some(piece),
                    Err(error) => {
                        tracing::error!(%error, "reading a log");
                        None
                    }
                };
            }
            if inner.closed {
                return None;
            }
            inner = self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The edge keeps so much; false when that is reached.
    fn bound(&self, taken: LogTaken) -> bool {
        let mut inner = self.lock();
        inner.most = inner.most.min(taken.next.saturating_add(taken.room));
        taken.room > 0 && taken.next <= inner.length
    }

    /// Wait so long; a log that is complete has nothing to rest for.
    fn rest(&self) {
        let going = |inner: &mut Inner| !inner.closed && !inner.settled;
        drop(self.changed.wait_timeout_while(self.lock(), REST, going));
    }

    /// Wait so long before the same is tried again.
    fn pause(&self, time: Duration) {
        drop(self.changed.wait_timeout_while(self.lock(), time, |inner| !inner.settled));
    }
}

impl Inner {
    fn keep(&mut self, bytes: &[u8]) {
        if self.settled {
            return;
        }
        let room = usize::try_from(self.most.saturating_sub(self.length)).unwrap_or(usize::MAX);
        let kept = &bytes[..bytes.len().min(room)];
        self.dropped += (bytes.len() - kept.len()) as u64;
        match self.file.write_all(kept) {
            Ok(()) => self.length += kept.len() as u64,
            Err(error) => {
                tracing::error!(%error, "keeping a log");
                self.dropped += kept.len() as u64;
                self.most = self.length;
                // What was written of it is beyond the length, and so never sent.
                let _ = self.file.set_len(self.length);
            }
        }
    }
}
