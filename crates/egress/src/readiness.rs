//! What a poll's answer means where systems differ: whether a peer is gone, or has only ended its side. It refuses
//! to wait itself.
//!
//! On Linux HUP is both sides ended, and whoever waits is woken when a socket is shut down on this side. Elsewhere
//! (WSAPoll, and poll on macOS) HUP is said already, at once and for ever, of a peer that has ended its own side
//! and may still read; and a shutdown on this side wakes nobody for certain.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags};

#[cfg(target_os = "linux")]
mod linux {
    use super::{Duration, PollFd, PollFlags};

    pub(crate) const SLICE: Option<Duration> = None;
    pub(super) const GONE: PollFlags = PollFlags::HUP.union(PollFlags::ERR);
    pub(super) const READABLE: PollFlags = PollFlags::IN;

    pub(crate) fn is_worth_watching(_: PollFlags) -> bool {
        true
    }

    pub(crate) fn pause(_: &[PollFd<'_>]) {}
}

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use super::{Duration, PollFd, PollFlags};

    /// The longest wait after which flags are looked at all the same.
    pub(crate) const SLICE: Option<Duration> = Some(Duration::from_millis(200));
    pub(super) const GONE: PollFlags = PollFlags::ERR;
    /// The end is read as well. Windows names two kinds of bytes in IN and answers with one of them.
    pub(super) const READABLE: PollFlags = PollFlags::IN.union(PollFlags::HUP);

    /// A peer of which nothing is wanted would only say for ever that it has ended its side.
    pub(crate) fn is_worth_watching(wanted: PollFlags) -> bool {
        !wanted.is_empty()
    }

    /// A little time when nothing but that was said: a peer that ended its side and takes nothing just now.
    pub(crate) fn pause(answered: &[PollFd<'_>]) {
        let ended = |fd: &PollFd<'_>| fd.revents().difference(PollFlags::HUP).is_empty();
        if answered.iter().all(ended) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::{SLICE, is_worth_watching, pause};
#[cfg(target_os = "linux")]
pub(crate) use linux::{SLICE, is_worth_watching, pause};

#[cfg(not(target_os = "linux"))]
use elsewhere::{GONE, READABLE};
#[cfg(target_os = "linux")]
use linux::{GONE, READABLE};

/// Takes the peer no more bytes, as far as the answer says?
pub(crate) fn is_gone(answer: PollFlags) -> bool {
    answer.intersects(GONE)
}

/// Is there something to read, bytes or the end, where that was asked?
pub(crate) fn is_readable(answer: PollFlags) -> bool {
    answer.intersects(READABLE)
}
