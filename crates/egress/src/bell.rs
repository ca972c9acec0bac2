//! Wakes a thread that waits in poll. It refuses to say why: the flag that was set before says that.

#[cfg(unix)]
mod unix {
    use std::io::{self, Write};
    use std::os::unix::net::UnixStream;

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
    }
}

#[cfg(not(unix))]
mod elsewhere {
    use std::io;
    use std::net::{Ipv4Addr, UdpSocket};

    use rustix::event::{PollFd, PollFlags};

    /// A datagram socket on loopback that is connected to itself, and so takes from nobody else.
    #[derive(Debug)]
    pub(crate) struct Bell(UdpSocket);

    impl Bell {
        pub(crate) fn new() -> io::Result<Bell> {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
            socket.connect(socket.local_addr()?)?;
            Ok(Bell(socket))
        }

        /// It rings once, for good.
        pub(crate) fn ring(&self) {
            let _ = self.0.send(&[1]);
        }

        pub(crate) fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
            fds.push(PollFd::new(&self.0, PollFlags::IN));
        }
    }
}

#[cfg(not(unix))]
pub(crate) use elsewhere::Bell;
#[cfg(unix)]
pub(crate) use unix::Bell;
