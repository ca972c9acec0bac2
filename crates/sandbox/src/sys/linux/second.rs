//! The command's process, from its start to exec. It shares the init's memory until then, so nothing here
//! allocates, locks or unwinds: system calls on what was prepared, and one place to leave an answer.

use std::ffi::CString;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use super::process::{self, CStrings};
use super::signals::{self, Signals};
use super::{filter, tree};
use crate::backend::linux::seccomp::SockFilter;

/// What the process is given.
pub struct Second<'a> {
    /// The socket to the node.
    pub control: BorrowedFd<'a>,
    /// What is said on it once the process is confined.
    pub ready: [u8; 12],
    /// The byte that lets it start the command.
    pub go: u8,
    /// The Landlock ruleset.
    pub ruleset: Option<BorrowedFd<'a>>,
    /// The run's terminal.
    pub terminal: Option<BorrowedFd<'a>>,
    /// The system-call filter.
    pub filter: Option<&'static [SockFilter]>,
    /// Is the memory it shares with the init closed to every other process?
    pub unreadable: bool,
    /// Where the program may be, in order.
    pub candidates: &'a [CString],
    /// Its arguments.
    pub arguments: &'a CStrings,
    /// The arguments of a shell for a file that is a script without `#!`.
    pub as_script: &'a CStrings,
    /// Its variables.
    pub environment: &'a CStrings,
}

/// The steps, as a failure names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum SecondStep {
    Spawn,
    ProcessGroup,
    Terminal,
    CloseDescriptors,
    Limits,
    NoNewPrivileges,
    Landlock,
    Filter,
    Hand,
    Unreadable,
    Exec,
}

impl SecondStep {
    const ALL: [SecondStep; 11] = [
        SecondStep::Spawn,
        SecondStep::ProcessGroup,
        SecondStep::Terminal,
        SecondStep::CloseDescriptors,
        SecondStep::Limits,
        SecondStep::NoNewPrivileges,
        SecondStep::Landlock,
        SecondStep::Filter,
        SecondStep::Hand,
        SecondStep::Unreadable,
        SecondStep::Exec,
    ];

    /// The step with this number.
    pub fn from_number(number: u8) -> Option<SecondStep> {
        SecondStep::ALL.get(usize::from(number)).copied()
    }

    /// What was tried, in words.
    pub fn words(self) -> &'static str {
        match self {
            SecondStep::Spawn => "starting the command's process (clone)",
            SecondStep::ProcessGroup => "making a process group (setpgid)",
            SecondStep::Terminal => "taking the terminal",
            SecondStep::CloseDescriptors => "closing descriptors (close_range)",
            SecondStep::Limits => "switching core files and real-time classes off (setrlimit)",
            SecondStep::NoNewPrivileges => "setting no_new_privs",
            SecondStep::Landlock => "restricting itself with Landlock",
            SecondStep::Filter => "loading the system-call filter (seccomp)",
            SecondStep::Hand => "waiting for the node's word",
            SecondStep::Unreadable => "making the init unreadable (prctl)",
            SecondStep::Exec => "starting the command (execve)",
        }
    }
}

impl Second<'_> {
    /// Start the process and wait until it has become the command. Gives its number in this pid namespace, or
    /// the step that failed.
    pub fn start(&self) -> Result<i32, (SecondStep, Errno)> {
        let mut met: Option<(SecondStep, Errno)> = None;
        let mut body = || {
            met = Some(self.become_command());
            127
        };
        // SAFETY: `become_command` makes system calls on what `self` holds, which outlives the child's use of
        // it; it allocates nothing, takes no lock and does not unwind. `met` is written before the child ends,
        // while this process is stopped.
        let pid = unsafe { process::spawn_sharing(&mut body) };
        match (met, pid) {
            (Some(failure), _) => Err(failure),
            (None, Ok(pid)) => Ok(pid),
            (None, Err(error)) => Err((SecondStep::Spawn, Errno::from_io_error(&error).unwrap_or(Errno::IO))),
        }
    }

    /// Returns only when something failed.
    fn become_command(&self) -> (SecondStep, Errno) {
        if let Err(failure) = self.confine() {
            return failure;
        }
        let mut last = Errno::NOENT;
        for candidate in self.candidates {
            last = process::exec(candidate, self.arguments, self.environment);
            if last == Errno::NOEXEC {
                last = process::exec(c"/bin/sh", self.as_script, self.environment);
            }
        }
        (SecondStep::Exec, last)
    }

    fn confine(&self) -> Result<(), (SecondStep, Errno)> {
        let at = |step| move |errno| (step, errno);
        rustix::process::setpgid(None, None).map_err(at(SecondStep::ProcessGroup))?;
        if let Some(terminal) = self.terminal {
            let terminal_step = at(SecondStep::Terminal);
            rustix::termios::tcsetpgrp(terminal, rustix::process::getpid()).map_err(&terminal_step)?;
            rustix::stdio::dup2_stdin(terminal).map_err(&terminal_step)?;
            rustix::stdio::dup2_stdout(terminal).map_err(&terminal_step)?;
            rustix::stdio::dup2_stderr(terminal).map_err(&terminal_step)?;
        }
        process::close_from_three_on_exec().map_err(at(SecondStep::CloseDescriptors))?;
        // One byte: no core file, and no helper that the host's core_pattern names either (zero would still
        // start that).
        let no_core = rustix::process::Rlimit { current: Some(1), maximum: Some(1) };
        rustix::process::setrlimit(rustix::process::Resource::Core, no_core)
            .map_err(at(SecondStep::Limits))?;
        // No cap on CPU time holds a real-time process, and some callers may become one.
        let no_real_time = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
        rustix::process::setrlimit(rustix::process::Resource::Rtprio, no_real_time)
            .map_err(at(SecondStep::Limits))?;
        rustix::thread::set_no_new_privs(true).map_err(at(SecondStep::NoNewPrivileges))?;
        if let Some(ruleset) = self.ruleset {
            tree::landlock_restrict(ruleset).map_err(at(SecondStep::Landlock))?;
        }
        if let Some(filter) = self.filter {
            filter::load_filter(filter)
                .map_err(|error| (SecondStep::Filter, Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
        }
        // Confined. The node looks at this very process before it may go on.
        let hand = at(SecondStep::Hand);
        rustix::net::send(self.control, &self.ready, SendFlags::NOSIGNAL).map_err(&hand)?;
        let mut go = [0u8; 1];
        let (read, _) = rustix::net::recv(self.control, &mut go, RecvFlags::empty()).map_err(&hand)?;
        if read != 1 || go[0] != self.go {
            return Err((SecondStep::Hand, Errno::PIPE));
        }
        if self.unreadable {
            // Of the memory that this process and the init share: the init stays unreadable, exec gives this
            // process memory of its own. Only now, since the node had to read /proc of it.
            rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
                .map_err(at(SecondStep::Unreadable))?;
        }
        signals::default_pipe_action();
        Signals::of(&[]).block_only();
        Ok(())
    }
}
