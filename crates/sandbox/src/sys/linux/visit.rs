//! Going into a running container for one mount: from a process of its own, since joining a user namespace
//! needs a process with one thread, and the node has many by then.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags};
use rustix::process::{Pid, WaitOptions};
use rustix::thread::LinkNameSpaceType;

use super::process;
use super::tree::{MountAttributes, set_attributes};

/// The way into a container. Taken while its first process can still be looked at: later that is unreadable, and
/// an ordinary user's node would be refused by its pidfd.
#[derive(Debug)]
pub struct Door {
    user: File,
    mount: File,
}

impl Door {
    /// The namespaces of a process, by its folder in /proc.
    pub fn of(process: &Path) -> io::Result<Door> {
        let open = |kind| File::open(process.join("ns").join(kind));
        Ok(Door { user: open("user")?, mount: open("mnt")? })
    }
}

/// Lay a read-only copy of `path` over itself, in the container behind `door`. The path holds no link; one that
/// has come to stand there is an error.
pub fn protect_again(door: &Door, path: &CStr, folder: bool) -> Result<(), Errno> {
    let mut outcome: Result<(), Errno> = Err(Errno::CANCELED);
    let mut body = || {
        outcome = bind(door, path, folder);
        0
    };
    // SAFETY: `bind` makes system calls on borrowed descriptors and a prepared path; it allocates nothing, takes
    // no lock and does not unwind. `outcome` is written while this thread is stopped.
    let pid = unsafe { process::spawn_sharing(&mut body) }
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    while let Err(Errno::INTR) = rustix::process::waitpid(Pid::from_raw(pid), WaitOptions::empty()) {}
    outcome
}

fn bind(door: &Door, path: &CStr, folder: bool) -> Result<(), Errno> {
    // The node made the user namespace, so it has every capability in it.
    rustix::thread::move_into_link_name_space(door.user.as_fd(), Some(LinkNameSpaceType::User))?;
    rustix::thread::move_into_link_name_space(door.mount.as_fd(), Some(LinkNameSpaceType::Mount))?;
    let opened = rustix::fs::openat2(
        CWD,
        path,
        OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS,
    )?;
    let mut flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    if folder {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    let tree = rustix::mount::open_tree(&opened, c"", flags)?;
    let attributes = MountAttributes { read_only: true, no_exec: false, no_devices: true };
    set_attributes(&tree, attributes, folder)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rustix::mount::move_mount(tree.as_fd(), c"", opened.as_fd(), c"", flags)
}
