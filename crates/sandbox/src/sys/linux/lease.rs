//! Whether anybody has a file open for writing: asked of the kernel, which counts descriptors on their way through
//! a socket and mappings whose descriptor is closed, too.

use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};

/// A read lease is given only where there is no writer. It needs the file's owner, or root's capability for it; a
/// file system without leases is an error as well.
pub fn has_writer(path: &Path) -> io::Result<bool> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
    // SAFETY: no pointer is passed; the descriptor is owned by `file` across the call, and closing it gives the
    // lease back.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_RDLCK) } == 0 {
        return Ok(false);
    }
    match io::Error::last_os_error() {
        error if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
        error => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_is_seen_while_there_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "x").unwrap();
        assert!(!has_writer(&path).unwrap());
        let writer = std::fs::File::options().append(true).open(&path).unwrap();
        assert!(has_writer(&path).unwrap());
        // A descriptor on its way through a socket, open nowhere.
        let (one, other) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = rustix::net::SendAncillaryBuffer::new(&mut space);
        let descriptors = [std::os::fd::AsFd::as_fd(&writer)];
        assert!(ancillary.push(rustix::net::SendAncillaryMessage::ScmRights(&descriptors)));
        let byte = [std::io::IoSlice::new(b"x")];
        rustix::net::sendmsg(&one, &byte, &mut ancillary, rustix::net::SendFlags::empty()).unwrap();
        drop(writer);
        assert!(has_writer(&path).unwrap());
        drop((one, other));
        assert!(!has_writer(&path).unwrap());
        assert!(has_writer(&folder.path().join("none")).is_err());
    }
}
