//! What this machine has of what a run needs, each tried in a process of its own that ends at once: user, mount,
//! pid and network namespaces, a cgroup, Landlock, the system-call filter. Nothing is inferred from a version,
//! and no administrator is needed.
//!
//! What is missing is a [`Lacking`], which a run that meets the same makes too: so what a check says is what a
//! run does, in the same words. It knows no policy, and it does not run the self-test.

mod lacking;
mod surroundings;
#[cfg(test)]
mod tests;

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use oz0_fleet::{Cgroup, Facts, Kernel, Landlock, Linux, Namespaces, Seccomp, System, Tier, User};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags};
use rustix::process::{Signal, WaitId, WaitIdOptions};

pub use lacking::{Lacking, Step};

use super::cgroup::{CgroupRefusal, Place, Version};
use super::seccomp::{Architecture, program};
use crate::limits::{Kind, Limits};
use crate::sys::linux::process::{self, Cloned};
use crate::sys::linux::tree::{MountAttributes, set_attributes};
use crate::sys::linux::{filter, network, tree};

/// No call of a probe waits for anything; one that takes longer than this hangs.
const LONGEST: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

/// What was found, and what of it stays on the node.
#[derive(Debug)]
pub struct Probe {
    /// What the node reports.
    pub facts: Facts,
    /// What is missing, in the order in which it was tried, with the calls and the system's answers. Never sent.
    pub lacking: Vec<Lacking>,
}

/// Try everything. The process must have one thread: what is tried is tried in forks of it.
pub fn probe() -> Probe {
    let namespaces = try_namespaces();
    let cgroup = try_cgroup().map_err(Lacking::Cgroup);
    let landlock = Landlock::new(tree::landlock_abi().unwrap_or(0).into());
    let seccomp = try_filter();
    let linux = Linux {
        kernel: Kernel::of_release(&rustix::system::uname().release().to_string_lossy()),
        user: User::new(rustix::process::getuid().as_raw()),
        namespaces: fact(&namespaces, |()| Namespaces::Open, Lacking::namespaces_fact),
        cgroup: fact(&cgroup, of_version, Lacking::cgroup_fact),
        landlock,
        seccomp: fact(&seccomp, |()| Seccomp::Works, Lacking::seccomp_fact),
    };
    let lacking = [namespaces.err(), cgroup.err(), seccomp.err()].into_iter().flatten().collect();
    // A Linux node is always asked for tier 1.
    Probe { facts: Facts::probed(Tier::One, System::Linux(linux)), lacking }
}

fn fact<T: Copy, F>(
    tried: &Result<T, Lacking>,
    works: impl FnOnce(T) -> F,
    lacks: impl FnOnce(&Lacking) -> Option<F>,
) -> Option<F> {
    match tried {
        Ok(found) => Some(works(*found)),
        Err(lacking) => lacks(lacking),
    }
}

fn of_version(version: Version) -> Cgroup {
    match version {
        Version::V1 => Cgroup::V1,
        Version::V2 => Cgroup::V2,
    }
}

/// The namespaces as a run makes them, one call at a time so that the one that fails is known, with what they
/// are for: AppArmor lets a user namespace be made and then gives nothing in it.
fn try_namespaces() -> Result<(), Lacking> {
    let ids = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    match in_fork(libc::CLONE_NEWUSER | libc::CLONE_NEWPID, || enter(ids)) {
        Ok(()) => Ok(()),
        Err(Trouble::Step(step, errno)) => Err(Lacking::namespaces(step, errno)),
        Err(Trouble::Fork(error)) => match Errno::from_io_error(&error) {
            // Two come with one call, as in a run: which of them it was is asked by the first alone.
            Some(errno) => {
                let alone = in_fork(libc::CLONE_NEWUSER, || Ok(()));
                let step = if alone.is_ok() { Step::Pid } else { Step::User };
                Err(Lacking::namespaces(step, errno))
            }
            None => Err(Lacking::Untried { what: "namespaces", why: error.to_string() }),
        },
        Err(Trouble::Lost(why)) => Err(Lacking::Untried { what: "namespaces", why: why.to_owned() }),
    }
}

/// In the fork: what a run's init does, with nothing of a run in it.
fn enter((uid, gid): (u32, u32)) -> Result<(), (Step, Errno)> {
    let at = |step: Step| move |errno: Errno| (step, errno);
    for (flag, step) in [
        (libc::CLONE_NEWNS, Step::Mount),
        (libc::CLONE_NEWIPC, Step::Ipc),
        (libc::CLONE_NEWUTS, Step::Uts),
        (libc::CLONE_NEWCGROUP, Step::Cgroup),
        (libc::CLONE_NEWNET, Step::Network),
    ] {
        process::unshare(flag).map_err(at(step))?;
    }
    for (file, text) in [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("{uid} {uid} 1")),
        ("/proc/self/gid_map", format!("{gid} {gid} 1")),
    ] {
        std::fs::write(file, text)
            .map_err(|error| (Step::IdMap, Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
    }
    rustix::system::sethostname(b"probe").map_err(at(Step::Uts))?;
    // The host's tree, as a run's read-only binds take it.
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let copy = rustix::mount::open_tree(CWD, c"/", flags).map_err(at(Step::Bind))?;
    let read_only = MountAttributes { read_only: true, ..MountAttributes::default() };
    set_attributes(&copy, read_only, true).map_err(at(Step::Bind))?;

    let root = new_mount(c"tmpfs").map_err(at(Step::Tmpfs))?;
    rustix::mount::move_mount(&root, c"", CWD, c"/", MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .map_err(at(Step::Tmpfs))?;
    rustix::fs::mkdirat(&root, c"proc", Mode::RWXU).map_err(at(Step::Tmpfs))?;
    let place = rustix::fs::openat(&root, c"proc", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        .map_err(at(Step::Tmpfs))?;
    let proc = new_mount(c"proc").map_err(at(Step::Proc))?;
    let onto = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rustix::mount::move_mount(&proc, c"", &place, c"", onto).map_err(at(Step::Proc))?;
    network::loopback_up().map_err(at(Step::Loopback))
}

fn new_mount(kind: &CStr) -> Result<OwnedFd, Errno> {
    let filesystem = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_create(filesystem.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    rustix::mount::fsmount(filesystem.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// A cgroup with a command's default limits, made and removed.
fn try_cgroup() -> Result<Version, CgroupRefusal> {
    let system = rustix::system::sysinfo();
    #[allow(clippy::useless_conversion, reason = "the C library's number is 32 bits wide on some systems")]
    let memory = u64::from(system.totalram).saturating_mul(system.mem_unit.into());
    let place = Place::find()?;
    place.prove(&Limits::fitted(Kind::Command, memory))?;
    Ok(place.version())
}

/// The run's own filter, loaded; and then a call that it denies.
fn try_filter() -> Result<(), Lacking> {
    let Some(architecture) = Architecture::host() else {
        return Err(Lacking::Seccomp { finding: Seccomp::NoProcessor, answer: None });
    };
    let tried = in_fork(0, || {
        rustix::thread::set_no_new_privs(true).map_err(|errno| (Step::NoNewPrivileges, errno))?;
        filter::load_filter(program(architecture))
            .map_err(|error| (Step::Filter, Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
        // Without the filter this is "not found", for whoever may unmount.
        match rustix::mount::unmount(c"", UnmountFlags::DETACH) {
            Err(Errno::PERM) => Ok(()),
            Err(errno) => Err((Step::Denied, errno)),
            Ok(()) => Err((Step::Denied, Errno::INVAL)),
        }
    });
    tried.map_err(|trouble| match trouble {
        Trouble::Step(step, errno) => Lacking::filter(step, errno),
        Trouble::Fork(error) => Lacking::Untried { what: "seccomp", why: error.to_string() },
        Trouble::Lost(why) => Lacking::Untried { what: "seccomp", why: why.to_owned() },
    })
}

/// How an attempt in a fork ended, other than well.
enum Trouble {
    /// The fork itself, with the namespaces that came with it.
    Fork(io::Error),
    /// A step in it.
    Step(Step, Errno),
    /// It gave no answer.
    Lost(&'static str),
}

/// Do `attempt` in a fork in new namespaces. The fork is gone when this returns.
fn in_fork(namespaces: i32, attempt: impl FnOnce() -> Result<(), (Step, Errno)>) -> Result<(), Trouble> {
    let (answer, say) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .map_err(|_| Trouble::Lost("there are no descriptors left"))?;
    let child = match process::clone_into(namespaces, None).map_err(Trouble::Fork)? {
        Cloned::Child => {
            drop(answer);
            // A probe that is killed leaves nothing.
            let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(attempt));
            let (step, code) = match outcome {
                Ok(Ok(())) => (0, 0),
                Ok(Err((step, errno))) => (step.number(), errno.raw_os_error()),
                Err(_) => (u8::MAX, 0),
            };
            let [a, b, c, d] = code.to_ne_bytes();
            let _ = rustix::io::write(&say, &[step, a, b, c, d]);
            process::exit_now(0)
        }
        Cloned::Parent(child) => child,
    };
    drop(say);
    let heard = hear(&answer);
    // Whether it has ended or hangs.
    let _ = rustix::process::pidfd_send_signal(&child, Signal::KILL);
    while let Err(Errno::INTR) = rustix::process::waitid(WaitId::PidFd(child.as_fd()), WaitIdOptions::EXITED)
    {
    }
    match heard.map_err(Trouble::Lost)? {
        [0, ..] => Ok(()),
        [step, a, b, c, d] => match Step::from_number(step) {
            Some(step) => {
                Err(Trouble::Step(step, Errno::from_raw_os_error(i32::from_ne_bytes([a, b, c, d]))))
            }
            None => Err(Trouble::Lost("the attempt broke off")),
        },
    }
}

fn hear(answer: &OwnedFd) -> Result<[u8; 5], &'static str> {
    let mut polled = [PollFd::new(answer, PollFlags::IN)];
    loop {
        match rustix::event::poll(&mut polled, Some(&LONGEST)) {
            Err(Errno::INTR) => {}
            Ok(0) => return Err("the attempt did not end"),
            Ok(_) => break,
            Err(_) => return Err("the attempt could not be waited for"),
        }
    }
    let mut bytes = [0u8; 5];
    match rustix::io::read(answer, &mut bytes) {
        Ok(5) => Ok(bytes),
        _ => Err("the attempt ended without an answer"),
    }
}
