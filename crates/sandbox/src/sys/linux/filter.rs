//! Loads a system-call filter into the calling thread. Knows nothing of what the filter says.

use std::io;

use crate::backend::linux::seccomp::SockFilter;

// A program is handed to the kernel as it lies in memory.
const _: () = {
    assert!(size_of::<SockFilter>() == size_of::<libc::sock_filter>());
    assert!(align_of::<SockFilter>() == align_of::<libc::sock_filter>());
    assert!(std::mem::offset_of!(SockFilter, code) == std::mem::offset_of!(libc::sock_filter, code));
    assert!(std::mem::offset_of!(SockFilter, jt) == std::mem::offset_of!(libc::sock_filter, jt));
    assert!(std::mem::offset_of!(SockFilter, jf) == std::mem::offset_of!(libc::sock_filter, jf));
    assert!(std::mem::offset_of!(SockFilter, k) == std::mem::offset_of!(libc::sock_filter, k));
};

/// Puts the filter on the calling thread and on all that it starts, for good.
///
/// The thread must have `no_new_privs` or CAP_SYS_ADMIN; else the kernel answers EACCES. Allocates
/// nothing and takes no lock, so a child that still shares its parent's memory may call it.
pub fn load_filter(program: &[SockFilter]) -> io::Result<()> {
    let length = u16::try_from(program.len()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    let program = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut().cast() };
    // SAFETY: `program` lives on this stack until the call returns and points to `len` instructions owned
    // by the caller, laid out as the kernel expects (asserted above); the kernel copies and does not write.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            0 as libc::c_ulong,
            &raw const program,
        )
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests;
