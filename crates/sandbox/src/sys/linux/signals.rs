//! Signals as events: blocked everywhere, read from a descriptor.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// A set of signal numbers.
#[derive(Clone, Copy)]
pub struct Signals(libc::sigset_t);

impl Signals {
    /// Every signal that can be blocked.
    pub fn all() -> Signals {
        // SAFETY: all-zero is a valid sigset, and sigfillset writes the whole of it.
        let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to a whole sigset that lives across the call.
        unsafe { libc::sigfillset(&raw mut set) };
        Signals(set)
    }

    /// Just these.
    pub fn of(numbers: &[i32]) -> Signals {
        // SAFETY: as above.
        let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to a whole sigset that lives across the call.
        unsafe { libc::sigemptyset(&raw mut set) };
        for number in numbers {
            // SAFETY: the pointer is to a whole sigset that lives across the call.
            unsafe { libc::sigaddset(&raw mut set, *number) };
        }
        Signals(set)
    }

    /// Make these the blocked signals of this thread and give back what was blocked before.
    /// Async-signal-safe.
    pub fn block_only(self) -> Signals {
        let mut before = Signals::of(&[]);
        // SAFETY: both pointers are to whole sigsets that live across the call.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, &raw mut before.0) };
        before
    }

    /// Block these as well.
    pub fn block(self) {
        // SAFETY: the pointer is to a whole sigset that lives across the call; the old set is not asked for.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const self.0, std::ptr::null_mut()) };
    }

    /// A descriptor that these signals are read from. They must be blocked.
    pub fn descriptor(self) -> io::Result<SignalDescriptor> {
        // SAFETY: the set lives across the call; -1 asks for a new descriptor.
        let raw = unsafe { libc::signalfd(-1, &raw const self.0, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just gave this descriptor to us alone.
        Ok(SignalDescriptor(unsafe { OwnedFd::from_raw_fd(raw) }))
    }
}

/// Where blocked signals are read.
pub struct SignalDescriptor(OwnedFd);

impl SignalDescriptor {
    /// The next signal: its number and the sender's process id, or none when all are read.
    pub fn next(&self) -> Option<(i32, u32)> {
        // SAFETY: all-zero is a valid signalfd_siginfo: it holds numbers only.
        let mut info: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
        let size = size_of::<libc::signalfd_siginfo>();
        // SAFETY: the pointer is to a whole structure of that size; the descriptor is owned by self.
        let read = unsafe { libc::read(self.0.as_raw_fd(), (&raw mut info).cast(), size) };
        (read == size as isize).then_some((info.ssi_signo as i32, info.ssi_pid))
    }
}

impl std::os::fd::AsFd for SignalDescriptor {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Give SIGPIPE its default action again, which Rust's start-up took away. Handlers go with exec, and what the caller
/// ignores (SIGHUP under nohup, SIGINT in a script's background) the command ignores too. Async-signal-safe.
pub fn default_pipe_action() {
    // SAFETY: SIG_DFL is a valid action for every signal.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// Is this signal one that the caller of this program ignores?
pub fn is_ignored(number: i32) -> bool {
    // SAFETY: all-zero is a valid sigaction: it holds numbers and null pointers.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: no new action is given; the old one is written to a whole structure that lives across the call.
    let asked = unsafe { libc::sigaction(number, std::ptr::null(), &raw mut action) };
    asked == 0 && action.sa_sigaction == libc::SIG_IGN
}
