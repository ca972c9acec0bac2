//! Mount attributes and Landlock's last step: the two calls that rustix and the landlock crate leave out.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// What a mount refuses; the kernel's `MOUNT_ATTR_*` bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MountAttributes {
    /// Writes fail with EROFS.
    pub read_only: bool,
    /// Programs cannot be executed from it.
    pub no_exec: bool,
    /// Device nodes in it do not open.
    pub no_devices: bool,
}

/// Set attributes on the mount behind `tree` and, when `recursive`, on every mount below it. Set-user-id bits
/// never count on any of them.
pub fn set_attributes(
    tree: impl AsFd,
    attributes: MountAttributes,
    recursive: bool,
) -> Result<(), rustix::io::Errno> {
    let mut set = libc::MOUNT_ATTR_NOSUID;
    if attributes.read_only {
        set |= libc::MOUNT_ATTR_RDONLY;
    }
    if attributes.no_exec {
        set |= libc::MOUNT_ATTR_NOEXEC;
    }
    if attributes.no_devices {
        set |= libc::MOUNT_ATTR_NODEV;
    }
    // A private mount takes no part in the host's mounts and unmounts, in either direction.
    let attribute =
        libc::mount_attr { attr_set: set, attr_clr: 0, propagation: libc::MS_PRIVATE, userns_fd: 0 };
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is a static NUL-terminated string, `attribute` lives across the call and its true size
    // is passed; the descriptor is borrowed, so it stays open.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_fd().as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attribute,
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}

/// Bind this thread to a Landlock ruleset for good. Async-signal-safe: called between vfork and exec.
pub fn landlock_restrict(ruleset: BorrowedFd<'_>) -> Result<(), rustix::io::Errno> {
    // SAFETY: no pointer is passed; the descriptor is borrowed, so it stays open.
    let result = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0u32) };
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}

/// The Landlock version of this kernel, or none where it is missing or switched off.
pub fn landlock_abi() -> Option<u32> {
    // SAFETY: with the version flag the kernel wants a null pointer and a size of zero.
    let abi = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<libc::c_void>(), 0usize, 1u32)
    };
    u32::try_from(abi).ok().filter(|abi| *abi > 0)
}

fn last_errno() -> rustix::io::Errno {
    rustix::io::Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(rustix::io::Errno::IO)
}
