//! The first process of a run, begun before there is a plan: what no plan decides (the namespaces, the ids in them,
//! the loopback with its sockets) is made by it while the node still looks and plans. Nothing of the run's is in it.

use std::fs::File;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::Signal;

use super::cgroup::{Group, Place};
use super::init;
use super::launch::LaunchError;
use super::plan::{CgroupPlan, NetworkPlan, PROXY_PORT, Plan};
use super::probe::{self, Lacking};
use crate::limits::Limits;
use crate::policy::{Network, Policy};
use crate::sys::linux::process::{self, Cloned};
use crate::sys::linux::signals::Signals;

/// What the init makes before it has its plan. A policy foretells it, and a plan decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groundwork {
    /// The caller's user id, kept inside.
    pub uid: u32,
    /// The caller's group id, kept inside.
    pub gid: u32,
    /// The proxy's port, on a network of the run's own.
    pub port: Option<u16>,
    /// Is the bounding set emptied?
    pub drop_privileges: bool,
}

impl Groundwork {
    fn foretold(policy: &Policy) -> Groundwork {
        Groundwork {
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
            port: matches!(policy.network, Network::Proxy { .. }).then_some(PROXY_PORT),
            drop_privileges: true,
        }
    }

    fn of(plan: &Plan) -> Groundwork {
        Groundwork {
            uid: plan.identity.uid,
            gid: plan.identity.gid,
            port: match plan.network {
                NetworkPlan::Proxy { port } => Some(port),
                NetworkPlan::Host => None,
            },
            drop_privileges: plan.drop_privileges,
        }
    }
}

/// The init as the node holds it. Dropping it ends the init and with it every process of the run.
pub struct First {
    /// Its pidfd.
    pub init: OwnedFd,
    /// The socket to it.
    pub control: OwnedFd,
}

impl First {
    /// Fork it, into `group` where a process can be born in it.
    fn fork(groundwork: &Groundwork, group: Option<&Group>) -> Result<First, LaunchError> {
        let node = |what| move |errno: Errno| LaunchError::Node { what, error: errno.into() };
        let (ours, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .map_err(node("making a socket to the run"))?;
        // The kernel tells with each message who sent it: so the command's process is known by its number here.
        rustix::net::sockopt::set_socket_passcred(&ours, true).map_err(node("making a socket to the run"))?;
        // Blocked before the fork, so that no signal finds the init without its descriptor for them.
        let before = Signals::all().block_only();
        let cloned =
            process::clone_into(libc::CLONE_NEWUSER | libc::CLONE_NEWPID, group.and_then(Group::birthplace));
        if let Ok(Cloned::Child) = cloned {
            drop(ours);
            init::main(groundwork, theirs.as_fd());
        }
        before.block_only();
        match cloned {
            Ok(Cloned::Parent(init)) => Ok(First { init, control: ours }),
            Ok(Cloned::Child) => Err(LaunchError::InitGone),
            Err(error) => {
                let lacking =
                    Errno::from_io_error(&error).and_then(|errno| Lacking::in_step(probe::Step::User, errno));
                Err(match lacking {
                    Some(lacking) => LaunchError::Lacking(lacking),
                    None => LaunchError::Node { what: "starting the run's first process", error },
                })
            }
        }
    }

    /// Let go of the container's file tree once the init is gone, on a thread of its own. Whoever lets go of it last
    /// stands still while the kernel takes it down: like this that is not the init, whose end is waited for. The
    /// program does not end before it is done, and where it cannot be had the init does it.
    pub fn take_down_beside(&self, tree: File) {
        let Ok(init) = self.init.try_clone() else { return };
        let wait = move || {
            while rustix::event::poll(&mut [PollFd::new(&init, PollFlags::IN)], None) == Err(Errno::INTR) {}
            drop(tree);
        };
        let _ = std::thread::Builder::new().stack_size(64 * 1024).spawn(wait);
    }

    /// End every process of the run, at once.
    pub fn kill(&self) {
        let _ = rustix::process::pidfd_send_signal(&self.init, Signal::KILL);
    }

    /// Wait until the init, and so every process of the run, is gone.
    pub fn wait_gone(&self) {
        loop {
            match rustix::process::waitid(
                rustix::process::WaitId::PidFd(self.init.as_fd()),
                rustix::process::WaitIdOptions::EXITED,
            ) {
                Err(Errno::INTR) => {}
                // Gone, or waited for already.
                _ => return,
            }
        }
    }
}

impl Drop for First {
    fn drop(&mut self) {
        self.kill();
        self.wait_gone();
    }
}

/// A run's cgroup, and where that lies.
pub type Held = (Place, Group);

/// What has been begun for a run whose plan is not known yet.
pub struct Begun(Option<Ready>);

struct Ready {
    groundwork: Groundwork,
    first: First,
    /// The cgroup that it was born in, and with which limits that was made.
    born: Option<(Limits, Held)>,
}

impl Begun {
    /// Begin what this policy will need. What cannot be begun now, [`Begun::fitting`] tries again and says why: not
    /// before it is known that nothing else is wrong.
    pub fn of(policy: &Policy) -> Begun {
        Begun(
            Ready::begin(
                Groundwork::foretold(policy),
                is_unified().then_some(Limits { timeout: None, ..policy.limits }),
            )
            .ok(),
        )
    }

    /// The first process as `plan` asks for it, with the cgroup that it was born in, if it was: what was begun where
    /// that fits, else begun again.
    pub fn fitting(self, plan: &Plan) -> Result<(First, Option<Held>), LaunchError> {
        let (wanted, limits) = (Groundwork::of(plan), plan.cgroup.as_ref().map(CgroupPlan::limits));
        let fits = |ready: &Ready| {
            ready.groundwork == wanted && ready.born.as_ref().is_none_or(|(with, _)| Some(*with) == limits)
        };
        let ready = match self.0.filter(fits) {
            Some(ready) => ready,
            None => Ready::begin(wanted, limits.filter(|_| is_unified()))?,
        };
        Ok((ready.first, ready.born.map(|(_, group)| group)))
    }
}

impl Ready {
    /// The cgroup first: a process that cannot be put in it never runs.
    fn begin(groundwork: Groundwork, limits: Option<Limits>) -> Result<Ready, LaunchError> {
        let born = limits.map(|limits| Ok::<_, LaunchError>((limits, make(&limits)?))).transpose()?;
        let first = First::fork(&groundwork, born.as_ref().map(|(_, (_, group))| group))?;
        Ok(Ready { groundwork, first, born })
    }
}

/// Make a run's cgroup.
pub fn make(limits: &Limits) -> Result<Held, LaunchError> {
    let lacking = |refusal| LaunchError::Lacking(Lacking::Cgroup(refusal));
    let place = Place::find().map_err(lacking)?;
    let group = place.create("run", limits).map_err(|error| lacking(error.into()))?;
    Ok((place, group))
}

/// Is this a machine with version 2 alone? There a process is born in its cgroup, since moving one waits for every
/// processor; on version 1 moving a thread is cheap, and the cgroup is made while the init makes the tree.
fn is_unified() -> bool {
    rustix::fs::statfs(c"/sys/fs/cgroup")
        .is_ok_and(|filesystem| filesystem.f_type == libc::CGROUP2_SUPER_MAGIC)
}
