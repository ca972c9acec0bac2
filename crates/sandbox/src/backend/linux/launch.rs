//! Starting a run on Linux: the node's side of the sequence, as one straight function.

use std::fs::File;
use std::mem::MaybeUninit;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags};

use super::begin::{self, Begun, First, Held};
use super::cgroup::Group;
use super::guard::Guard;
use super::orders::{self, Membership, Orders, View};
use super::plan::{Plan, Step};
use super::probe::Lacking;
use super::stage::Failure;
use super::supervise;
use super::verify::{Mechanism, Mismatch, Ours, verify};
use super::wire::{FromInit, GO, LENGTH, Start, ToInit};
use crate::environ::Environment;
use crate::sys::linux::signals::Signals;
use crate::text;

/// A run that has been started. Dropping it ends every process of the run.
pub struct Running {
    /// The init. Its field stands before the cgroup's: what is dropped first has ended when that is removed.
    pub(super) first: First,
    /// The proxy's listener, on the loopback inside.
    pub listener: Option<TcpListener>,
    /// Where programs inside ask for names.
    pub resolver: Option<UdpSocket>,
    /// The run's terminal, from outside.
    pub(super) terminal: Option<OwnedFd>,
    /// What confines it, as read from /proc.
    pub mechanism: Option<Mechanism>,
    /// Its cgroup, and where that lies.
    pub(super) group: Option<Held>,
    /// The watch over its protected paths.
    pub(super) guard: Option<Guard>,
    /// It did not start, for this reason.
    pub(super) not_started: Option<Start>,
    /// How long it may take to end after a first signal.
    pub(super) patience: Duration,
}

/// Why a run was not started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// A standard descriptor that would open the host's tree.
    #[error("{name} is {what}, which would open the host's files to the run: {fix}")]
    Descriptor {
        /// Which.
        name: &'static str,
        /// What it is.
        what: &'static str,
        /// What to do.
        fix: &'static str,
    },
    /// The node's side failed.
    #[error("{what}: {error}")]
    Node {
        /// What was tried.
        what: &'static str,
        /// What the OS answered.
        error: std::io::Error,
    },
    /// This machine lacks something that every run needs.
    #[error("{0}")]
    Lacking(Lacking),
    /// A step inside failed.
    #[error("{words}{on}: {errno}")]
    Inside {
        /// What was tried.
        words: &'static str,
        /// On what.
        on: String,
        /// What the kernel answered.
        errno: Errno,
    },
    /// The init ended without a word.
    #[error("the run's first process ended before the command started")]
    InitGone,
    /// The process is not confined as planned.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
}

/// Start the command of `plan` with these variables, in what was begun for it.
///
/// Every signal is blocked from here on and read by whoever supervises the run. `meanwhile` runs here while the
/// container is being made.
pub fn launch(
    begun: Begun,
    plan: &Plan,
    environment: &Environment,
    meanwhile: impl FnOnce(),
) -> Result<Running, LaunchError> {
    check_descriptors(plan)?;
    let (first, born) = begun.fitting(plan)?;
    // From here on dropping `running` ends the init and with it all, before the cgroup goes.
    let mut running = Running {
        first,
        listener: None,
        resolver: None,
        terminal: None,
        mechanism: None,
        group: born,
        guard: None,
        not_started: None,
        patience: supervise::GRACE,
    };
    let node = |what| move |errno: Errno| LaunchError::Node { what, error: errno.into() };
    let failed = |error| LaunchError::Node { what: "handing the plan to the run's first process", error };
    // Before anything of the run's is there for a signal to reach.
    Signals::all().block();
    orders::give(running.first.control.as_fd(), &Orders { plan, environment }, &[]).map_err(failed)?;
    // The init makes the tree meanwhile. Without its place in the cgroup it does not go on to the command.
    let is_born = running.group.is_some();
    if let (false, Some(cgroup)) = (is_born, &plan.cgroup) {
        running.group = Some(begin::make(&cgroup.limits())?);
    }
    let group = running.group.as_ref().map(|(_, group)| group);
    let views = group.iter().flat_map(|group| group.views());
    let membership = Membership(views.map(|(folder, name)| View { folder, name }).collect());
    let joins = group.filter(|_| !is_born).map(Group::joins).unwrap_or_default();
    orders::give(running.first.control.as_fd(), &membership, joins).map_err(failed)?;
    running.guard = Guard::over(plan).map_err(node("watching protected paths"))?;
    // The container is being made on another processor.
    meanwhile();
    let own_namespaces = Ours::read();
    loop {
        let (message, descriptors, sender) = running.receive()?;
        match message {
            FromInit::Network => {
                let [listener, resolver] = descriptors.try_into().map_err(|_| LaunchError::InitGone)?;
                (running.listener, running.resolver) = (Some(listener.into()), Some(resolver.into()));
            }
            FromInit::Terminal => {
                running.terminal = Some(descriptors.into_iter().next().ok_or(LaunchError::InitGone)?);
            }
            FromInit::Ready => {
                let group = running.group.as_ref().map(|(_, group)| group.name());
                running.mechanism = Some(verify(sender, &own_namespaces, plan, group)?);
                if let Some(guard) = &mut running.guard {
                    guard.enter(sender).map_err(|error| LaunchError::Node {
                        what: "keeping a way to protect paths again",
                        error,
                    })?;
                }
                // Now, while an ordinary user's node may still look.
                let tree = File::open(format!("/proc/{sender}/ns/mnt"));
                rustix::net::send(&running.first.control, &[GO], SendFlags::NOSIGNAL)
                    .map_err(node("letting the command start"))?;
                if let Ok(tree) = tree {
                    running.first.take_down_beside(tree);
                }
                return Ok(running);
            }
            FromInit::NotStarted(start) => {
                running.not_started = Some(start);
                return Ok(running);
            }
            FromInit::Failed(failure) => return Err(inside(plan, failure)),
            FromInit::Ended { .. } | FromInit::Stopped(_) | FromInit::Continued => {
                return Err(LaunchError::InitGone);
            }
        }
    }
}

/// A folder as standard input opens the host's tree through /proc/self/fd; so would the others.
fn check_descriptors(plan: &Plan) -> Result<(), LaunchError> {
    let standard = [
        ("standard input", rustix::stdio::stdin()),
        ("standard output", rustix::stdio::stdout()),
        ("standard error", rustix::stdio::stderr()),
    ];
    for (name, descriptor) in standard {
        let refuse = |what, fix| Err(LaunchError::Descriptor { name, what, fix });
        let Ok(flags) = rustix::fs::fcntl_getfl(descriptor) else {
            // Closed: whatever the run opens first must not land there by chance.
            return refuse("closed", "give it something, `</dev/null` for one");
        };
        if flags.contains(rustix::fs::OFlags::PATH) {
            return refuse("a bare path (O_PATH)", "open it for reading");
        }
        let Ok(stat) = rustix::fs::fstat(descriptor) else { continue };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => return refuse("a folder", "give a file, a pipe or /dev/null"),
            FileType::BlockDevice => return refuse("a block device", "pipe its contents in"),
            FileType::Socket if rustix::net::getpeername(descriptor).is_err() => {
                return refuse("a socket that is not connected", "give a connected one");
            }
            FileType::RegularFile if plan.landlock.is_none() => {
                // It could be opened again for writing, and only Landlock would stop that.
                return refuse(
                    "a file, and this kernel has no Landlock",
                    "use a pipe: `cat FILE |`, `| cat >FILE`",
                );
            }
            _ => {}
        }
    }
    Ok(())
}

fn inside(plan: &Plan, failure: Failure) -> LaunchError {
    let Failure { step, call, errno } = failure;
    let step = step.and_then(|step| plan.tree.get(usize::from(step)));
    let of_proc = matches!(step, Some(Step::Proc { .. }));
    if let Some(lacking) = Lacking::in_run(call, of_proc, step.is_none(), errno) {
        return LaunchError::Lacking(lacking);
    }
    let on = step.and_then(path_of).map(|path| format!(" {}", text::escape(path))).unwrap_or_default();
    LaunchError::Inside { words: call.words(), on, errno }
}

fn path_of(step: &Step) -> Option<&std::path::Path> {
    match step {
        Step::Bind { source: path, .. }
        | Step::Folder { path, .. }
        | Step::File { path, .. }
        | Step::Copy { source: path, .. }
        | Step::Link { path, .. }
        | Step::Writable { path }
        | Step::Protect { path, .. }
        | Step::Pin { root: path, .. }
        | Step::Hide { path, .. } => Some(path),
        Step::Proc { .. } => Some(std::path::Path::new("/proc")),
        Step::Terminals => Some(std::path::Path::new("/dev/pts")),
        Step::CgroupView => Some(std::path::Path::new("/sys/fs/cgroup")),
        Step::Seal => None,
    }
}

impl Running {
    /// The next message of the init, with the descriptors in it and the sender's process number.
    pub(super) fn receive(&self) -> Result<(FromInit, Vec<OwnedFd>, i32), LaunchError> {
        let mut bytes = [0u8; LENGTH];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2), ScmCredentials(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let buffer = &mut [std::io::IoSliceMut::new(&mut bytes)];
            match rustix::net::recvmsg(&self.first.control, buffer, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
                // A reset is told once, before what the init wrote ahead of its end: it had not read all that was
                // written to it.
                Err(Errno::INTR | Errno::CONNRESET) => continue,
                other => break other,
            }
        };
        let received = received.map_err(|_| LaunchError::InitGone)?;
        let mut descriptors = Vec::new();
        let mut sender = 0;
        for message in ancillary.drain() {
            match message {
                RecvAncillaryMessage::ScmRights(received) => descriptors.extend(received),
                RecvAncillaryMessage::ScmCredentials(credentials) => {
                    sender = credentials.pid.as_raw_nonzero().get();
                }
                _ => {}
            }
        }
        let message = FromInit::decode(&bytes[..received.bytes]).ok_or(LaunchError::InitGone)?;
        Ok((message, descriptors, sender))
    }

    /// Send a signal to the command's process group.
    pub(super) fn signal(&self, number: i32) {
        // The init may have just ended: then there is nobody left to tell.
        let _ = rustix::net::send(&self.first.control, &ToInit::Signal(number).encode(), SendFlags::NOSIGNAL);
    }

    /// The terminal's outer end.
    pub(super) fn terminal(&self) -> Option<BorrowedFd<'_>> {
        self.terminal.as_ref().map(AsFd::as_fd)
    }
}
