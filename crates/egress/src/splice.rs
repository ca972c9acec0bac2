//! A store between two sockets that bytes pass without being copied: a pipe and splice(2) on Linux. Elsewhere
//! there is none, and callers copy. It refuses to know which way bytes go.

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::os::fd::OwnedFd;

    use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

    use crate::stream::{Moved, Stream, moved};

    /// Asked for, not insisted on: above a user's quota the kernel gives less, and less works.
    const SIZE: usize = 512 * 1024;

    /// A pipe and what lies in it.
    #[derive(Debug)]
    pub(crate) struct Pipe {
        read: OwnedFd,
        write: OwnedFd,
        level: usize,
    }

    impl Pipe {
        pub(crate) fn new() -> Option<Pipe> {
            let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok()?;
            let _ = fcntl_setpipe_size(&write, SIZE);
            Some(Pipe { read, write, level: 0 })
        }

        pub(crate) fn is_empty(&self) -> bool {
            self.level == 0
        }

        /// Moves bytes from the socket into the empty pipe.
        pub(crate) fn fill(&mut self, from: &Stream) -> io::Result<Moved> {
            let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
            let count = splice(from.socket(), None, &self.write, None, SIZE, flags);
            let moved = moved(count.map_err(io::Error::from), Moved::Ended)?;
            if let Moved::Bytes(count) = moved {
                self.level += count;
            }
            Ok(moved)
        }

        /// Moves bytes out of the pipe into the socket.
        pub(crate) fn drain(&mut self, to: &Stream) -> io::Result<Moved> {
            let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
            let count = splice(&self.read, None, to.socket(), None, self.level, flags);
            let moved = moved(count.map_err(io::Error::from), Moved::Blocked)?;
            if let Moved::Bytes(count) = moved {
                self.level -= count;
            }
            Ok(moved)
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use std::io;

    use crate::stream::{Moved, Stream};

    /// There is none here: the type has no value.
    #[derive(Debug)]
    pub(crate) enum Pipe {}

    impl Pipe {
        pub(crate) fn new() -> Option<Pipe> {
            None
        }

        pub(crate) fn is_empty(&self) -> bool {
            match *self {}
        }

        pub(crate) fn fill(&mut self, _: &Stream) -> io::Result<Moved> {
            match *self {}
        }

        pub(crate) fn drain(&mut self, _: &Stream) -> io::Result<Moved> {
            match *self {}
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::Pipe;
#[cfg(target_os = "linux")]
pub(crate) use linux::Pipe;
