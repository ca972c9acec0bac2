//! What the init is given once there is a plan. First the plan and the command's variables, by which it makes the
//! tree; then its place in the run's cgroup, which is made meanwhile. Either may be too long for one message: it goes
//! as a file in memory, whose descriptor goes over the socket.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::plan::Plan;
use crate::environ::Environment;
use crate::text;

/// One descriptor for the text, and one for each tree of cgroups.
const DESCRIPTORS: usize = 4;

/// What is to be done, as the node writes it.
#[derive(Serialize)]
pub struct Orders<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The command's variables, with their values.
    pub environment: &'a Environment,
}

/// What is to be done, as the init reads it.
#[derive(Deserialize)]
pub struct Ordered {
    /// The plan.
    pub plan: Plan,
    /// The command's variables, with their values.
    pub environment: Environment,
}

/// The folders of the run's cgroup, one for each tree. With them go descriptors by which it is joined; none where the
/// init was born in it.
#[derive(Default, Serialize, Deserialize)]
pub struct Membership(pub Vec<View>);

/// One folder of the run's cgroup.
#[derive(Serialize, Deserialize)]
pub struct View {
    /// Where it is on the host.
    #[serde(with = "text::path")]
    pub folder: PathBuf,
    /// Under which name below /sys/fs/cgroup the run sees it.
    #[serde(with = "text::path")]
    pub name: PathBuf,
}

/// Give the init at the other end of `control` what it waits for. One that has ended meanwhile has said why.
pub fn give<T: Serialize>(
    control: BorrowedFd<'_>,
    given: &T,
    descriptors: &[OwnedFd],
) -> std::io::Result<()> {
    let bytes = serde_json::to_vec(given)?;
    let file = rustix::fs::memfd_create(c"orders", MemfdFlags::CLOEXEC)?;
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        rest = &rest[rustix::io::write(&file, rest)?..];
    }
    let descriptors: Vec<BorrowedFd<'_>> =
        std::iter::once(file.as_fd()).chain(descriptors.iter().map(OwnedFd::as_fd)).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(Errno::NOBUFS.into());
    }
    let length = bytes.len().to_le_bytes();
    let buffer = &[std::io::IoSlice::new(&length)];
    match rustix::net::sendmsg(control, buffer, &mut ancillary, SendFlags::NOSIGNAL) {
        Ok(_) | Err(Errno::PIPE | Errno::CONNRESET) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Wait for what [`give`] gives, with the descriptors; none when the node is gone or gave the run up.
pub fn take<T: DeserializeOwned>(control: BorrowedFd<'_>) -> Result<Option<(T, Vec<OwnedFd>)>, Errno> {
    let mut length = [0; size_of::<usize>()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let buffer = &mut [std::io::IoSliceMut::new(&mut length)];
    let received = match rustix::net::recvmsg(control, buffer, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
        Err(Errno::CONNRESET) => return Ok(None),
        received => received?,
    };
    if received.bytes == 0 {
        return Ok(None);
    }
    let mut descriptors = Vec::with_capacity(DESCRIPTORS);
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            descriptors.extend(received);
        }
    }
    if descriptors.is_empty() {
        return Err(Errno::BADMSG);
    }
    let file = descriptors.remove(0);
    let mut bytes = vec![0u8; usize::from_le_bytes(length)];
    let mut read = 0;
    while read < bytes.len() {
        match rustix::io::pread(&file, &mut bytes[read..], read as u64)? {
            0 => return Err(Errno::BADMSG),
            more => read += more,
        }
    }
    let given = serde_json::from_slice(&bytes).map_err(|_| Errno::BADMSG)?;
    Ok(Some((given, descriptors)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType};

    fn pair() -> (OwnedFd, OwnedFd) {
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .unwrap()
    }

    #[test]
    fn what_is_given_is_taken_with_its_descriptors() {
        let (node, init) = pair();
        // Longer than any message may be.
        let long = "x".repeat(1024 * 1024);
        let view = View { folder: "/sys/fs/cgroup/memory/oz0/run".into(), name: (&long).into() };
        let joined = tempfile::tempfile().unwrap();
        let descriptor = OwnedFd::from(joined.try_clone().unwrap());
        give(node.as_fd(), &Membership(vec![view]), &[descriptor]).unwrap();
        let (Membership(views), descriptors) = take::<Membership>(init.as_fd()).unwrap().unwrap();
        assert_eq!(views[0].name.as_os_str().len(), long.len());
        assert_eq!(descriptors.len(), 1);
        let inode = |file| rustix::fs::fstat(file).unwrap().st_ino;
        assert_eq!(inode(descriptors[0].as_fd()), inode(joined.as_fd()));
    }

    #[test]
    fn a_node_that_is_gone_gives_nothing() {
        let (node, init) = pair();
        drop(node);
        assert!(take::<Membership>(init.as_fd()).unwrap().is_none());
    }

    #[test]
    fn what_has_another_form_is_not_taken() {
        let (node, init) = pair();
        rustix::net::send(&node, b"12345678", SendFlags::NOSIGNAL).unwrap();
        assert!(take::<Membership>(init.as_fd()).is_err());
        give(node.as_fd(), &"text", &[]).unwrap();
        assert!(take::<Membership>(init.as_fd()).is_err());
    }
}
