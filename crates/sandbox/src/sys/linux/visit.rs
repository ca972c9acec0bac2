//! Going into a running container for one mount: from a process of its own, since joining a user namespace
//! needs a process with one thread, and the node has many by then.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags};
use rustix::process::{Pid, WaitOptions};
use rustix::thread::ThreadNameSpaceType;

use super::process;
use super::tree::{MountAttributes, set_attributes};

/// Lay a read-only copy of `path` over itself, in the mount namespace of the process behind `init`. The path
/// holds no link; one that has come to stand there is an error.
pub fn protect_again(init: BorrowedFd<'_>, path: &CStr, folder: bool) -> Result<(), Errno> {
    let mut outcome: Result<(), Errno> = Err(Errno::CANCELED);
    let mut body = || {
        outcome = bind(init, path, folder);
        0
    };
    // SAFETY: `bind` makes system calls on borrowed descriptors and a prepared path; it allocates nothing, takes
    // no lock and does not unwind. `outcome` is written while this thread is stopped.
    let pid = unsafe { process::spawn_sharing(&mut body) }
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    while let Err(Errno::INTR) = rustix::process::waitpid(Pid::from_raw(pid), WaitOptions::empty()) {}
    outcome
}

fn bind(init: BorrowedFd<'_>, path: &CStr, folder: bool) -> Result<(), Errno> {
    // The node made the user namespace, so it has every capability in it.
    rustix::thread::move_into_thread_name_spaces(
        init,
        ThreadNameSpaceType::USER | ThreadNameSpaceType::MOUNT,
    )?;
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
