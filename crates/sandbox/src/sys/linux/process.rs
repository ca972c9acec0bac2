//! Making processes: into new namespaces, and sharing memory until exec.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// From the kernel's linux/sched.h; libc's constant of that name is too narrow for it.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Which side of [`clone_into`] this is.
pub enum Cloned {
    /// The new process.
    Child,
    /// The caller, with the child's pidfd.
    Parent(OwnedFd),
}

/// Fork into the namespaces named by `flags` (`CLONE_NEW*`), and into the cgroup behind `cgroup` where one is
/// given (version 2).
///
/// The caller must have one thread: what other threads hold (the allocator's locks, say) would stay held in the
/// child for ever. This is checked, since a forgotten thread would otherwise be a rare hang. Without /proc it cannot
/// be; no run starts there anyway, and the probe, which has one thread, then says what is missing.
pub fn clone_into(flags: i32, cgroup: Option<BorrowedFd<'_>>) -> io::Result<Cloned> {
    // The folder of threads has two links of its own.
    if rustix::fs::stat(c"/proc/self/task").is_ok_and(|tasks| tasks.st_nlink != 3) {
        return Err(io::Error::other("another thread is running"));
    }
    let mut pidfd: c_int = -1;
    // SAFETY: all-zero is a valid clone_args: it holds numbers only.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.flags = (flags | libc::CLONE_PIDFD) as u64;
    arguments.pidfd = (&raw mut pidfd) as u64;
    arguments.exit_signal = libc::SIGCHLD as u64;
    if let Some(cgroup) = cgroup {
        arguments.flags |= CLONE_INTO_CGROUP;
        arguments.cgroup = cgroup.as_raw_fd() as u64;
    }
    // SAFETY: `arguments` and the pidfd's place live across the call and its true size is passed. Without
    // CLONE_VM and with no new stack this is a fork of a single-threaded process.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw const arguments, size_of::<libc::clone_args>()) };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Cloned::Child),
        // SAFETY: the kernel just gave this descriptor to us alone.
        _ => Ok(Cloned::Parent(unsafe { OwnedFd::from_raw_fd(pidfd) })),
    }
}

/// Run `body` in a new process that shares this one's memory, and wait until it has called exec or ended.
/// Gives the child's process id.
///
/// # Safety
/// `body` must only do what is async-signal-safe, must not unwind and must not return memory ownership across:
/// it runs in the caller's memory while the caller is stopped.
pub(super) unsafe fn spawn_sharing<F: FnMut() -> c_int>(body: &mut F) -> io::Result<i32> {
    extern "C" fn enter<F: FnMut() -> c_int>(argument: *mut c_void) -> c_int {
        // SAFETY: the argument is the `body` below, which outlives the child's use of it: the caller is
        // stopped until the child has called exec or ended.
        let body = unsafe { &mut *argument.cast::<F>() };
        body()
    }
    let mut stack = vec![0u128; 4096];
    // SAFETY: one past the end of the vector, which is alive until the child has left it; 16-byte aligned.
    let top = unsafe { stack.as_mut_ptr().add(stack.len()) };
    // SAFETY: `top` is the end of a stack of 64 KiB; `body` is alive as said above; with CLONE_VFORK the caller
    // does not run until the child no longer uses this memory.
    let pid = unsafe {
        libc::clone(
            enter::<F>,
            top.cast(),
            libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
            std::ptr::from_mut(body).cast(),
        )
    };
    if pid < 0 { Err(io::Error::last_os_error()) } else { Ok(pid) }
}

/// Mark every descriptor from 3 up to be closed by exec. Async-signal-safe.
pub fn close_from_three_on_exec() -> Result<(), rustix::io::Errno> {
    // SAFETY: no pointer is passed; descriptors are only marked, not closed, so no owner is surprised.
    let result = unsafe {
        libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC as libc::c_uint)
    };
    if result == 0 { Ok(()) } else { Err(errno()) }
}

/// A NULL-terminated array of C strings, kept alive together with the strings.
pub struct CStrings {
    pointers: Vec<*const c_char>,
    _strings: Vec<std::ffi::CString>,
}

impl CStrings {
    /// Take the strings over.
    pub fn new(strings: Vec<std::ffi::CString>) -> CStrings {
        let mut pointers: Vec<*const c_char> = strings.iter().map(|string| string.as_ptr()).collect();
        pointers.push(std::ptr::null());
        CStrings { pointers, _strings: strings }
    }
}

/// Replace this process's program. Returns only on failure. Async-signal-safe.
pub fn exec(program: &CStr, arguments: &CStrings, environment: &CStrings) -> rustix::io::Errno {
    // SAFETY: all three are NUL-terminated (arrays by a null pointer) and outlive the call.
    unsafe { libc::execve(program.as_ptr(), arguments.pointers.as_ptr(), environment.pointers.as_ptr()) };
    errno()
}

/// End this process at once, without running anything of the caller's.
pub fn exit_now(status: c_int) -> ! {
    // SAFETY: no pointer is passed, and the call does not return.
    unsafe { libc::_exit(status) }
}

fn errno() -> rustix::io::Errno {
    rustix::io::Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(rustix::io::Errno::IO)
}

/// End every process that this one sees but itself, at once. For the first process of a pid namespace those are all
/// of it, nested namespaces included; `SRCH` says that there is none.
pub fn kill_all() -> Result<(), rustix::io::Errno> {
    // SAFETY: no pointer is passed.
    if unsafe { libc::kill(-1, libc::SIGKILL) } == 0 { Ok(()) } else { Err(errno()) }
}

/// Be scheduled like any program where the caller is not: no cap on CPU time holds a real-time process, and version 1
/// of cgroups takes none.
pub fn schedule_fairly() -> Result<(), rustix::io::Errno> {
    // SAFETY: no pointer is passed; 0 is this process.
    let class = unsafe { libc::sched_getscheduler(0) };
    if matches!(class & !libc::SCHED_RESET_ON_FORK, libc::SCHED_OTHER | libc::SCHED_BATCH | libc::SCHED_IDLE)
    {
        return Ok(());
    }
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: `parameters` is ours and alive across the call; 0 is this process.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const parameters) } == 0 {
        Ok(())
    } else {
        Err(errno())
    }
}

/// Put this process into new namespaces of these kinds (`CLONE_NEW*`, never the descriptor table).
pub fn unshare(flags: c_int) -> Result<(), rustix::io::Errno> {
    debug_assert!(flags & libc::CLONE_FILES == 0);
    // SAFETY: no pointer is passed. Descriptors stay shared with nobody new: CLONE_FILES is not among the flags.
    if unsafe { libc::unshare(flags) } == 0 { Ok(()) } else { Err(errno()) }
}
