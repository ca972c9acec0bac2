//! Wakes a thread that waits in poll. It refuses to say why: the flag that was set before says that.

#[cfg(unix)]
mod unix {
    use std::io::{self, Write};
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    use rustix::event::{PollFd, PollFlags};

    /// A socket pair; ringing writes to one end, the waiting thread polls the other.
    #[derive(Debug)]
    pub(crate) struct Bell {
        ring: UnixStream,
        heard: UnixStream,
    }

    impl Bell {
        pub(crate) fn new() -> io::Result<Bell> {
            let (ring, heard) = UnixStream::pair()?;
            Ok(Bell { ring, heard })
        }

        /// It rings once, for good.
        pub(crate) fn ring(&self) {
            let _ = (&self.ring).write_all(&[1]);
        }

        pub(crate) fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
            fds.push(PollFd::new(&self.heard, PollFlags::IN));
        }

        /// The latest moment to look at the flag all the same: never needed here.
        pub(crate) fn look_by(&self) -> Option<Instant> {
            None
        }
    }
}

#[cfg(not(unix))]
mod elsewhere {
    use std::io;
    use std::time::{Duration, Instant};

    use rustix::event::PollFd;

    /// No socket pair here: the waiting thread looks at the flag now and then.
    #[derive(Debug)]
    pub(crate) struct Bell;

    impl Bell {
        pub(crate) fn new() -> io::Result<Bell> {
            Ok(Bell)
        }

        pub(crate) fn ring(&self) {}

        pub(crate) fn watch<'a>(&'a self, _: &mut Vec<PollFd<'a>>) {}

        pub(crate) fn look_by(&self) -> Option<Instant> {
            Some(Instant::now() + Duration::from_millis(100))
        }
    }
}

#[cfg(not(unix))]
pub(crate) use elsewhere::Bell;
#[cfg(unix)]
pub(crate) use unix::Bell;
