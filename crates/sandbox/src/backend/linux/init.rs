//! The first process of a run's pid namespace: it makes the rest of the sandbox around itself, starts the
//! command as the second process, reaps, and passes on how the command stops, goes on and ends. When it ends the
//! kernel ends every process of the run.
//!
//! It is a fork of the node without exec, from before the run's token was made, so the node's memory is in it: before
//! any of the run's code starts it is made unreadable, and it holds no capability.

use std::ffi::{CString, OsStr};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use rustix::process::{Pid, Signal, WaitOptions};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::begin::Groundwork;
use super::landlock::InheritedFile;
use super::orders::{self, Membership, Ordered};
use super::plan::Plan;
use super::seccomp;
use super::stage::{self, Call, Failure};
use super::wire::{FromInit, GO, Start, ToInit};
use crate::environ::Environment;
use crate::sys::linux::network;
use crate::sys::linux::process::{self, CStrings};
use crate::sys::linux::second::{Second, SecondStep};
use crate::sys::linux::signals::Signals;

fn failure(call: Call) -> impl Fn(Errno) -> Failure {
    move |errno| Failure { step: None, call, errno }
}

fn io_failure(call: Call) -> impl Fn(std::io::Error) -> Failure {
    move |error| Failure { step: None, call, errno: Errno::from_io_error(&error).unwrap_or(Errno::IO) }
}

/// Be the init. Does not return.
pub fn main(groundwork: &Groundwork, control: BorrowedFd<'_>) -> ! {
    let outcome = std::panic::catch_unwind(|| confine_and_run(groundwork, control));
    match outcome {
        Ok(Ok(())) => {}
        Ok(Err(failure)) => {
            let _ = say(control, FromInit::Failed(failure));
        }
        Err(_) => {
            let failure = Failure { step: None, call: Call::Spawn, errno: Errno::CANCELED };
            let _ = say(control, FromInit::Failed(failure));
        }
    }
    process::exit_now(0)
}

/// The privileged sequence, each step with why it comes now.
fn confine_and_run(groundwork: &Groundwork, control: BorrowedFd<'_>) -> Result<(), Failure> {
    process::schedule_fairly().map_err(failure(Call::Schedule))?;
    // First what no plan decides, while the node makes one. The user and pid namespaces came with the fork; these
    // belong to that user namespace.
    process::unshare(libc::CLONE_NEWNS | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS)
        .map_err(failure(Call::Unshare))?;
    if groundwork.port.is_some() {
        process::unshare(libc::CLONE_NEWNET).map_err(failure(Call::Unshare))?;
    }
    // Before the tree: files made in it must have an owner. The caller's own ids, nothing else: git and others
    // compare owners with the host's.
    map_ids(groundwork)?;
    let umask = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::system::sethostname(b"sandbox").map_err(failure(Call::Unshare))?;
    if let Some(port) = groundwork.port {
        hand_out_network(port, control)?;
    }
    if groundwork.drop_privileges {
        empty_bounding_set().map_err(failure(Call::Capabilities))?;
    }
    let orders = orders::take(control).map_err(failure(Call::Hand))?;
    let Some((Ordered { plan, environment }, _)) = orders else { return Ok(()) };
    stage::enter(&plan, || join_cgroup(control))?;
    rustix::process::umask(umask);

    let terminal = if plan.terminal { Some(hand_out_terminal(control)?) } else { None };

    // Needs the tree as the run sees it; before capabilities go, since it opens paths of it.
    let inherited = inherited_files();
    let ruleset = match &plan.landlock {
        Some(landlock) => Some(super::landlock::ruleset(landlock, &inherited).map_err(|_| Failure {
            step: None,
            call: Call::Landlock,
            errno: Errno::INVAL,
        })?),
        None => None,
    };
    let program = Program::find(&plan.command, &environment);

    if plan.drop_privileges {
        drop_capabilities().map_err(failure(Call::Capabilities))?;
    }
    // After the last change of credentials, which clears it. The node's end of the socket says whether the node
    // was gone before this took hold.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(failure(Call::ParentGone))?;
    if hung_up(control) {
        return Err(Failure { step: None, call: Call::ParentGone, errno: Errno::SRCH });
    }

    // A session of its own: no terminal of the caller's is its controlling terminal. The command gets a process
    // group of its own in it, so that it can be stopped and continued.
    rustix::process::setsid().map_err(failure(Call::Setsid))?;
    if let Some(terminal) = &terminal {
        rustix::process::ioctl_tiocsctty(terminal).map_err(failure(Call::Terminal))?;
    }
    let command = spawn(&plan, control, &program, ruleset.as_ref(), terminal.as_ref())?;
    let Some(command) = command else { return Ok(()) };
    // The terminal: while nothing inside has it open it would look hung up from outside.
    drop(ruleset);
    close_standard_descriptors();
    watch(control, command)
}

/// Before anything of the run's runs, so that all of it is counted; and before the cgroup namespace, whose root is the
/// group that its first process is in.
fn join_cgroup(control: BorrowedFd<'_>) -> Result<Membership, Failure> {
    let given = orders::take(control).map_err(failure(Call::Hand))?;
    let gone = Failure { step: None, call: Call::ParentGone, errno: Errno::SRCH };
    let (membership, joins) = given.ok_or(gone)?;
    for join in joins {
        rustix::io::write(join, b"0").map_err(failure(Call::JoinCgroup))?;
    }
    process::unshare(libc::CLONE_NEWCGROUP).map_err(failure(Call::Unshare))?;
    Ok(membership)
}

/// `/proc/self` here is still the host's, where this process has another number.
fn map_ids(groundwork: &Groundwork) -> Result<(), Failure> {
    let write = |file: &str, text: String| std::fs::write(file, text).map_err(io_failure(Call::IdMap));
    write("/proc/self/setgroups", "deny".into())?;
    write("/proc/self/uid_map", format!("{0} {0} 1", groundwork.uid))?;
    write("/proc/self/gid_map", format!("{0} {0} 1", groundwork.gid))
}

/// The listener and the resolver's socket, made inside and used outside.
fn hand_out_network(port: u16, control: BorrowedFd<'_>) -> Result<(), Failure> {
    network::loopback_up().map_err(failure(Call::Loopback))?;
    let listener = TcpListener::bind(("127.0.0.1", port)).map_err(io_failure(Call::Listen))?;
    let resolver = UdpSocket::bind(("127.0.0.1", 53)).map_err(io_failure(Call::Resolver))?;
    hand_out(control, FromInit::Network, &[listener.as_fd(), resolver.as_fd()])
}

/// A terminal's two ends: the outer one goes to the node.
fn hand_out_terminal(control: BorrowedFd<'_>) -> Result<OwnedFd, Failure> {
    use rustix::pty::OpenptFlags;
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
    let outside = rustix::fs::open(c"/dev/pts/ptmx", flags, rustix::fs::Mode::empty())
        .map_err(failure(Call::Terminal))?;
    rustix::pty::unlockpt(&outside).map_err(failure(Call::Terminal))?;
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let inside = rustix::pty::ioctl_tiocgptpeer(&outside, flags).map_err(failure(Call::Terminal))?;
    hand_out(control, FromInit::Terminal, &[outside.as_fd()])?;
    Ok(inside)
}

fn hand_out(
    control: BorrowedFd<'_>,
    message: FromInit,
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), Failure> {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Failure { step: None, call: Call::Hand, errno: Errno::NOBUFS });
    }
    let bytes = message.encode();
    rustix::net::sendmsg(control, &[std::io::IoSlice::new(&bytes)], &mut ancillary, SendFlags::NOSIGNAL)
        .map_err(failure(Call::Hand))?;
    Ok(())
}

fn say(control: BorrowedFd<'_>, message: FromInit) -> Result<(), Errno> {
    rustix::net::send(control, &message.encode(), SendFlags::NOSIGNAL).map(drop)
}

fn hung_up(control: BorrowedFd<'_>) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(control, PollFlags::IN)];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut polled, Some(&now)).is_ok()
        && polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
}

/// The regular files among descriptors 0 to 2. Landlock would otherwise refuse to open them again, as
/// `/dev/stderr` does; and only for what they are open for already.
fn inherited_files() -> Vec<InheritedFile<'static>> {
    let descriptors = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    descriptors
        .into_iter()
        .filter_map(|descriptor| {
            let stat = rustix::fs::fstat(descriptor).ok()?;
            let kind = rustix::fs::FileType::from_raw_mode(stat.st_mode);
            let mode = rustix::fs::fcntl_getfl(descriptor).ok()? & rustix::fs::OFlags::RWMODE;
            let regular = kind == rustix::fs::FileType::RegularFile;
            regular.then_some(InheritedFile {
                descriptor,
                read: mode != rustix::fs::OFlags::WRONLY,
                write: mode != rustix::fs::OFlags::RDONLY,
            })
        })
        .collect()
}

/// With the bounding set empty a root caller's exec regains no capability.
fn empty_bounding_set() -> Result<(), Errno> {
    for number in 0..64 {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            Ok(()) => {}
            // Past the last one that this kernel knows.
            Err(Errno::INVAL) if number > 37 => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// No capability for this process, nor for any that it starts.
fn drop_capabilities() -> Result<(), Errno> {
    let none = CapabilitySet::empty();
    rustix::thread::clear_ambient_capability_set()?;
    rustix::thread::set_capabilities(
        None,
        CapabilitySets { effective: none, permitted: none, inheritable: none },
    )
}

/// The command, looked up on the run's own PATH inside the run's own tree.
struct Program {
    candidates: Vec<CString>,
    arguments: CStrings,
    /// For a file without `#!`: what a shell would do with it.
    as_script: CStrings,
    environment: CStrings,
    found: Start,
}

impl Program {
    fn find(command: &[std::ffi::OsString], environment: &Environment) -> Program {
        let name = command.first().map(|word| word.as_os_str()).unwrap_or_default();
        let mut candidates = Vec::new();
        let mut found = Start::NotFound;
        for path in places(name, environment.get("PATH")) {
            let Ok(metadata) = std::fs::metadata(&path) else { continue };
            if metadata.is_dir() {
                found = Start::NotExecutable(Errno::ISDIR);
                continue;
            }
            match rustix::fs::access(&path, rustix::fs::Access::EXEC_OK) {
                Ok(()) => candidates.extend(c_string(path.as_os_str())),
                Err(errno) => found = Start::NotExecutable(errno),
            }
        }
        let words =
            |words: &mut dyn Iterator<Item = &OsStr>| CStrings::new(words.filter_map(c_string).collect());
        let script = candidates.first().map(|path| path.as_bytes().to_vec()).unwrap_or_default();
        let rest = || command.iter().skip(1).map(|word| word.as_os_str());
        let sh = [OsStr::new("/bin/sh"), OsStr::from_bytes(&script)];
        let as_script = words(&mut sh.into_iter().chain(rest()));
        let variables: Vec<CString> = environment
            .variables()
            .filter_map(|(name, value)| {
                let mut variable = name.as_bytes().to_vec();
                variable.push(b'=');
                variable.extend_from_slice(value.as_bytes());
                CString::new(variable).ok()
            })
            .collect();
        Program {
            candidates,
            arguments: words(&mut command.iter().map(|word| word.as_os_str())),
            as_script,
            environment: CStrings::new(variables),
            found,
        }
    }
}

fn c_string(text: &OsStr) -> Option<CString> {
    CString::new(text.as_bytes()).ok()
}

/// Where a command's name may lead: itself when it has a slash, else each folder of PATH.
fn places(name: &OsStr, path: Option<&OsStr>) -> Vec<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return vec![PathBuf::from(name)];
    }
    let path = path.map(|path| path.as_bytes()).unwrap_or_default();
    path.split(|byte| *byte == b':')
        .map(|folder| Path::new(if folder.is_empty() { OsStr::new(".") } else { OsStr::from_bytes(folder) }))
        .map(|folder| folder.join(name))
        .collect()
}

/// Start the command's process: confined, looked at by the node, then exec. None when the command did not start,
/// which the node has been told.
fn spawn(
    plan: &Plan,
    control: BorrowedFd<'_>,
    program: &Program,
    ruleset: Option<&OwnedFd>,
    terminal: Option<&OwnedFd>,
) -> Result<Option<Pid>, Failure> {
    if program.candidates.is_empty() {
        say(control, FromInit::NotStarted(program.found)).map_err(failure(Call::Hand))?;
        return Ok(None);
    }
    let filter = match seccomp::Architecture::host() {
        _ if !plan.filter => None,
        Some(architecture) => Some(seccomp::program(architecture)),
        None => {
            let call = Call::Second(SecondStep::Filter);
            return Err(Failure { step: None, call, errno: Errno::NOSYS });
        }
    };
    let second = Second {
        control,
        ready: FromInit::Ready.encode(),
        go: GO,
        ruleset: ruleset.map(AsFd::as_fd),
        terminal: terminal.map(AsFd::as_fd),
        filter,
        unreadable: plan.drop_privileges,
        candidates: &program.candidates,
        arguments: &program.arguments,
        as_script: &program.as_script,
        environment: &program.environment,
    };
    match second.start() {
        Ok(pid) => {
            Pid::from_raw(pid).map(Some).ok_or(Failure { step: None, call: Call::Spawn, errno: Errno::SRCH })
        }
        Err((SecondStep::Exec, errno)) => {
            say(control, FromInit::NotStarted(Start::NotExecutable(errno))).map_err(failure(Call::Hand))?;
            Ok(None)
        }
        Err((step, errno)) => Err(Failure { step: None, call: Call::Second(step), errno }),
    }
}

/// The command has its own copies; with these a reader of its output would wait for the init.
fn close_standard_descriptors() {
    if let Ok(null) = rustix::fs::open(c"/dev/null", rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty()) {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
        if null.as_raw_fd() < 3 {
            std::mem::forget(null);
        }
    }
}

/// Reap whatever ends, pass signals on, until the command itself has ended.
fn watch(control: BorrowedFd<'_>, command: Pid) -> Result<(), Failure> {
    let children = Signals::of(&[libc::SIGCHLD]).descriptor().map_err(io_failure(Call::Spawn))?;
    loop {
        while children.next().is_some() {}
        let options = WaitOptions::NOHANG | WaitOptions::UNTRACED | WaitOptions::CONTINUED;
        while let Ok(Some((pid, status))) = rustix::process::wait(options) {
            if pid != command {
                continue;
            }
            let message = if status.stopped() {
                FromInit::Stopped(status.stopping_signal().unwrap_or(libc::SIGSTOP))
            } else if status.continued() {
                FromInit::Continued
            } else {
                // Everything else ends with it. That nobody is found says that nobody is left.
                let alone = process::kill_all() == Err(Errno::SRCH);
                let _ = say(control, FromInit::Ended { status: status.as_raw(), alone });
                return Ok(());
            };
            say(control, message).map_err(failure(Call::Hand))?;
        }
        let mut polled =
            [PollFd::new(&children, PollFlags::IN), PollFd::from_borrowed_fd(control, PollFlags::IN)];
        match rustix::event::poll(&mut polled, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(failure(Call::Hand)(errno)),
        }
        if !polled[1].revents().is_empty() {
            let mut bytes = [0u8; 4];
            match rustix::net::recv(control, &mut bytes, rustix::net::RecvFlags::DONTWAIT) {
                // The node is gone: with this process every other one ends.
                Ok((0, _)) | Err(Errno::CONNRESET) => return Ok(()),
                Ok((read, _)) => {
                    if let Some(ToInit::Signal(number)) = ToInit::decode(&bytes[..read])
                        && let Some(signal) = Signal::from_named_raw(number)
                    {
                        let _ = rustix::process::kill_process_group(command, signal);
                    }
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(errno) => return Err(failure(Call::Hand)(errno)),
            }
        }
    }
}
