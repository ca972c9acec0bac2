//! Raw bytes both ways between two streams until both have ended. No idle limit; a half-close stays a half-close.
//! It refuses to look at the bytes.

use std::io;
use std::time::Instant;

use rustix::event::PollFlags;

use crate::exchange::Scratch;
use crate::readiness::{is_gone, is_worth_watching};
use crate::splice::Pipe;
use crate::stream::{Buffer, Moved, Stream, wait};

/// Below this many bytes a lane copies: most tunnels are short, and two pipes cost more than they save.
const SPLICE_FROM: u64 = 64 * 1024;
/// Rounds in one direction before the other has its turn.
const ROUNDS: usize = 16;
const COPY_SIZE: usize = 16 * 1024;
/// Idle pipes that one thread keeps.
const KEPT_PIPES: usize = 2;

/// Stores that a thread keeps from one tunnel to the next.
#[derive(Debug, Default)]
pub(crate) struct Stores {
    pipes: Vec<Pipe>,
    buffers: Vec<Buffer>,
    pub(crate) scratch: Option<Box<Scratch>>,
}

impl Stores {
    fn buffer(&mut self) -> Buffer {
        self.buffers.pop().unwrap_or_else(|| Buffer::new(COPY_SIZE))
    }

    fn keep(&mut self, lane: Lane<'_>) {
        let Lane { mut buffer, pipe, .. } = lane;
        buffer.clear();
        self.buffers.push(buffer);
        // A pipe with leftovers would leak one tunnel's bytes into the next.
        if let Some(pipe) = pipe
            && pipe.is_empty()
            && self.pipes.len() < KEPT_PIPES
        {
            self.pipes.push(pipe);
        }
    }
}

/// How many bytes went each way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Carried {
    pub(crate) up: u64,
    pub(crate) down: u64,
}

/// One direction.
struct Lane<'a> {
    from: &'a Stream,
    to: &'a Stream,
    buffer: Buffer,
    pipe: Option<Pipe>,
    may_splice: bool,
    /// The sender has ended its side.
    ended: bool,
    /// The end was passed on.
    closed: bool,
    carried: u64,
}

impl<'a> Lane<'a> {
    fn new(from: &'a Stream, to: &'a Stream, buffer: Buffer) -> Lane<'a> {
        Lane { from, to, buffer, pipe: None, may_splice: true, ended: false, closed: false, carried: 0 }
    }

    fn is_empty(&self) -> bool {
        self.buffer.is_empty() && self.pipe.as_ref().is_none_or(Pipe::is_empty)
    }

    /// Moves bytes until one side blocks, or its turn is over. True when its turn was over.
    fn advance(&mut self, stores: &mut Stores) -> io::Result<bool> {
        for _ in 0..ROUNDS {
            if self.is_empty() && !self.ended {
                if self.pipe.is_none() && self.may_splice && self.carried >= SPLICE_FROM {
                    self.pipe = stores.pipes.pop().or_else(Pipe::new);
                    self.may_splice = self.pipe.is_some();
                }
                let moved = match &mut self.pipe {
                    Some(pipe) => pipe.fill(self.from)?,
                    None => self.buffer.fill(self.from)?,
                };
                match moved {
                    Moved::Bytes(_) => {}
                    Moved::Blocked => return Ok(false),
                    Moved::Ended => self.ended = true,
                }
            }
            if self.is_empty() {
                if self.ended && !self.closed {
                    self.to.end();
                    self.closed = true;
                }
                return Ok(false);
            }
            let moved = match &mut self.pipe {
                Some(pipe) if self.buffer.is_empty() => pipe.drain(self.to)?,
                _ => {
                    let moved = self.to.write(self.buffer.filled())?;
                    if let Moved::Bytes(count) = moved {
                        self.buffer.consume(count);
                    }
                    moved
                }
            };
            match moved {
                Moved::Bytes(count) => self.carried += count as u64,
                _ => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// Carries bytes until both directions have ended or one side breaks; then the other is reset rather than ended.
/// `early` is what was read from `client` before the tunnel, `late` the same from `origin`.
pub(crate) fn carry(
    client: &Stream,
    origin: &Stream,
    early: &mut Buffer,
    late: &mut Buffer,
    stores: &mut Stores,
    is_cut: impl Fn() -> bool,
) -> Carried {
    let mut up = Lane::new(client, origin, stores.buffer());
    let mut down = Lane::new(origin, client, stores.buffer());
    let whole = run(&mut up, &mut down, early, late, stores, is_cut);
    if whole.is_err() {
        client.reset_on_close();
        origin.reset_on_close();
    }
    let carried = Carried { up: up.carried, down: down.carried };
    stores.keep(up);
    stores.keep(down);
    carried
}

fn run<'a>(
    up: &mut Lane<'a>,
    down: &mut Lane<'a>,
    early: &mut Buffer,
    late: &mut Buffer,
    stores: &mut Stores,
    is_cut: impl Fn() -> bool,
) -> io::Result<()> {
    let (client, origin) = (up.from, up.to);
    let (mut client_gone, mut origin_gone) = (false, false);
    loop {
        for (lane, before) in [(&mut *up, &mut *early), (&mut *down, &mut *late)] {
            if !before.is_empty() && lane.is_empty() {
                let count = lane.buffer.append(before.filled());
                before.consume(count);
            }
        }
        let up_again = up.advance(stores)?;
        let down_again = down.advance(stores)?;
        if up.closed && down.closed {
            return Ok(());
        }
        if is_cut() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let more = (!early.is_empty() && up.is_empty()) || (!late.is_empty() && down.is_empty());
        if up_again || down_again || more {
            continue;
        }
        let interest = |reads: &Lane<'_>, writes: &Lane<'_>| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, !reads.ended && reads.is_empty());
            flags.set(PollFlags::OUT, !writes.is_empty());
            flags
        };
        let (of_client, of_origin) = (interest(up, down), interest(down, up));
        // A socket that is through in both directions reports HUP for ever, and so does one whose peer is gone
        // while its last bytes wait for the other side: both are left out.
        let through = |reads: &Lane<'_>, writes: &Lane<'_>| reads.ended && writes.closed;
        let watch_client =
            is_worth_watching(of_client) && !(through(up, down) || client_gone && !up.is_empty());
        let watch_origin =
            is_worth_watching(of_origin) && !(through(down, up) || origin_gone && !down.is_empty());
        let mut fds = [client.when(of_client), origin.when(of_origin)];
        let watched = match (watch_client, watch_origin) {
            (false, true) => &mut fds[1..],
            (true, false) => &mut fds[..1],
            _ => &mut fds[..],
        };
        wait(watched, None)?;
        if fds.iter().all(|fd| fd.revents().is_empty()) {
            // Time to look after the one that was left out as well.
            wait(&mut fds, Some(Instant::now()))?;
        }
        client_gone |= is_gone(fds[0].revents());
        origin_gone |= is_gone(fds[1].revents());
        if client_gone && up.ended && !down.closed || origin_gone && down.ended && !up.closed {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
    }
}
