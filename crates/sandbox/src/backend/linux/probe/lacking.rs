//! What this machine lacks: one value for the probe that tried and for the run that met it, with one refusal.

use std::fmt;
use std::io;

use oz0_fleet::{Cgroup, Fix, Namespaces, Seccomp, User};
use rustix::io::Errno;

use super::surroundings::Surroundings;
use crate::backend::Refusal;
use crate::backend::linux::cgroup::{CgroupError, CgroupRefusal, Version};
use crate::backend::linux::stage::Call;
use crate::sys::linux::second::SecondStep;

/// A part of making the namespaces or loading the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Step {
    /// The user namespace.
    User = 1,
    /// The pid namespace.
    Pid,
    /// The mount namespace.
    Mount,
    /// The IPC namespace.
    Ipc,
    /// The UTS namespace, and a host name in it.
    Uts,
    /// The cgroup namespace.
    Cgroup,
    /// The network namespace.
    Network,
    /// All of a run's that come after the user namespace, in one call.
    Others,
    /// The caller's own id in the user namespace.
    IdMap,
    /// A copy of the host's tree with attributes of its own.
    Bind,
    /// A tmpfs over the root.
    Tmpfs,
    /// A proc of the new pid namespace.
    Proc,
    /// The new network namespace's loopback.
    Loopback,
    /// No new privileges, without which there is no filter.
    NoNewPrivileges,
    /// The filter.
    Filter,
    /// A call that the loaded filter must deny.
    Denied,
}

impl Step {
    const ALL: [Step; 16] = [
        Step::User,
        Step::Pid,
        Step::Mount,
        Step::Ipc,
        Step::Uts,
        Step::Cgroup,
        Step::Network,
        Step::Others,
        Step::IdMap,
        Step::Bind,
        Step::Tmpfs,
        Step::Proc,
        Step::Loopback,
        Step::NoNewPrivileges,
        Step::Filter,
        Step::Denied,
    ];

    /// For the way through a pipe; never 0.
    pub(super) const fn number(self) -> u8 {
        self as u8
    }

    pub(super) fn from_number(number: u8) -> Option<Step> {
        Step::ALL.into_iter().find(|step| step.number() == number)
    }

    /// What was tried, in words.
    pub const fn words(self) -> &'static str {
        match self {
            Step::User => "making a user namespace (clone3)",
            Step::Pid => "making a pid namespace (clone3)",
            Step::Mount => "making a mount namespace (unshare)",
            Step::Ipc => "making an IPC namespace (unshare)",
            Step::Uts => "making a UTS namespace (unshare, sethostname)",
            Step::Cgroup => "making a cgroup namespace (unshare)",
            Step::Network => "making a network namespace (unshare)",
            Step::Others => "making the namespaces (unshare)",
            Step::IdMap => "mapping the caller's own id (/proc/self/uid_map)",
            Step::Bind => "taking a copy of the tree (open_tree, mount_setattr)",
            Step::Tmpfs => "mounting a tmpfs (fsopen, fsmount, move_mount)",
            Step::Proc => "mounting a proc (fsopen, fsmount, move_mount)",
            Step::Loopback => "bringing up the loopback",
            Step::NoNewPrivileges => "setting no_new_privs (prctl)",
            Step::Filter => "loading the system-call filter (seccomp)",
            Step::Denied => "making a call that the loaded filter denies (umount2)",
        }
    }

    /// Is it the making of a namespace itself?
    pub(super) const fn makes(self) -> bool {
        matches!(
            self,
            Step::User
                | Step::Pid
                | Step::Mount
                | Step::Ipc
                | Step::Uts
                | Step::Cgroup
                | Step::Network
                | Step::Others
        )
    }
}

/// A mechanism that this machine does not give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lacking {
    /// A namespace, or what it is for.
    Namespaces {
        /// Why, as far as the machine shows.
        finding: Namespaces,
        /// What was tried.
        step: Step,
        /// What the kernel answered.
        errno: Errno,
    },
    /// A cgroup.
    Cgroup(CgroupRefusal),
    /// The system-call filter.
    Seccomp {
        /// Why.
        finding: Seccomp,
        /// What was tried and what the kernel answered.
        errno: Option<(Step, Errno)>,
    },
    /// It could not be tried.
    Untried {
        /// What.
        what: &'static str,
        /// Why not.
        why: String,
    },
}

impl Lacking {
    /// A step of the namespaces was refused: why is read from this machine's settings.
    pub fn namespaces(step: Step, errno: Errno) -> Lacking {
        Lacking::Namespaces { finding: Surroundings::read().finding(step, errno), step, errno }
    }

    /// The filter was refused, or did not hold.
    pub fn filter(step: Step, errno: Errno) -> Lacking {
        let absent = step != Step::Denied && matches!(errno, Errno::NOSYS | Errno::INVAL);
        let finding = if absent { Seccomp::Missing } else { Seccomp::Refused };
        Lacking::Seccomp { finding, errno: Some((step, errno)) }
    }

    /// What a failed call of a run stands for, if for a mechanism that is missing; `of_proc` says whether it was
    /// about the run's own proc, `of_frame` whether it was about no single step of the plan.
    ///
    /// Everything else that may fail in a run (a path that is gone, a full disk) is not a machine that lacks
    /// something.
    pub fn in_run(call: Call, of_proc: bool, of_frame: bool, errno: Errno) -> Option<Lacking> {
        let step = match call {
            Call::JoinCgroup => {
                let path = "cgroup.procs".into();
                return Some(Lacking::Cgroup(CgroupRefusal::Failed(CgroupError::Os {
                    call: "join",
                    path,
                    code: errno.raw_os_error(),
                })));
            }
            Call::Second(SecondStep::NoNewPrivileges) => {
                return Some(Lacking::filter(Step::NoNewPrivileges, errno));
            }
            Call::Second(SecondStep::Filter) => return Some(Lacking::filter(Step::Filter, errno)),
            Call::Unshare => Step::Others,
            Call::IdMap => Step::IdMap,
            Call::Loopback => Step::Loopback,
            Call::FsOpen | Call::FsMount | Call::MoveMount if of_proc => Step::Proc,
            Call::FsOpen | Call::FsMount | Call::MoveMount if of_frame => Step::Tmpfs,
            Call::OpenTree | Call::MountSetattr => Step::Bind,
            _ => return None,
        };
        let closed = match errno {
            Errno::PERM | Errno::ACCESS => true,
            Errno::NOSPC | Errno::USERS | Errno::INVAL | Errno::NOSYS => step.makes(),
            _ => false,
        };
        let found = Lacking::namespaces(step, errno);
        // A single bind that is refused, with nothing on the machine that closes them all, is that path's own.
        let one_path = step == Step::Bind && found.namespaces_fact() == Some(Namespaces::Refused);
        (closed && !one_path).then_some(found)
    }

    /// The namespaces' fact.
    pub fn namespaces_fact(&self) -> Option<Namespaces> {
        if let Lacking::Namespaces { finding, .. } = self { Some(*finding) } else { None }
    }

    /// The cgroup's fact.
    pub fn cgroup_fact(&self) -> Option<Cgroup> {
        let Lacking::Cgroup(refusal) = self else { return None };
        Some(match refusal {
            CgroupRefusal::NotMounted => Cgroup::NotMounted,
            CgroupRefusal::NoControllers { .. } => Cgroup::NoControllers,
            CgroupRefusal::NotDelegated { version: Version::V1, .. } => Cgroup::V1NotDelegated,
            CgroupRefusal::NotDelegated { version: Version::V2, systemd: false, .. } => {
                Cgroup::V2NotDelegated
            }
            CgroupRefusal::NotDelegated { version: Version::V2, systemd: true, lacking, .. } => {
                if lacking.is_empty() { Cgroup::SystemdNotDelegated } else { Cgroup::SystemdLacksControllers }
            }
            CgroupRefusal::HoldsProcesses { systemd: false, .. } => Cgroup::HoldsProcesses,
            CgroupRefusal::HoldsProcesses { systemd: true, .. } => Cgroup::SystemdHoldsProcesses,
            CgroupRefusal::Failed(CgroupError::Os { code, .. }) => match Errno::from_raw_os_error(*code) {
                Errno::ROFS => Cgroup::ReadOnly,
                Errno::PERM | Errno::ACCESS => Cgroup::NotPermitted,
                _ => Cgroup::Failed,
            },
            CgroupRefusal::Failed(_) => Cgroup::Failed,
        })
    }

    /// The filter's fact.
    pub fn seccomp_fact(&self) -> Option<Seccomp> {
        if let Lacking::Seccomp { finding, .. } = self { Some(*finding) } else { None }
    }

    /// The kind of fix, the same that the facts give.
    pub fn fix(&self) -> Fix {
        let user = User::new(rustix::process::getuid().as_raw());
        let namespaces = self.namespaces_fact().map(Fix::Namespaces);
        let cgroup = self.cgroup_fact().map(|finding| Fix::Cgroup(finding, user));
        let seccomp = self.seccomp_fact().map(Fix::Seccomp);
        namespaces.or(cgroup).or(seccomp).unwrap_or(Fix::Unsaid)
    }

    /// What a run is refused with, and what a check says.
    pub fn refusal(&self) -> Refusal {
        let fix = self.fix();
        Refusal { code: fix.code(), reason: self.to_string(), fix: Some(fix.sentence()) }
    }
}

/// The finding in the words of a check, then what was tried and what the system answered.
impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lacking::Namespaces { finding, step, errno } => {
                write!(f, "namespaces {}: {}: {}", finding.finding(), step.words(), io::Error::from(*errno))
            }
            Lacking::Cgroup(refusal) => {
                let finding = self.cgroup_fact().map_or("", Cgroup::finding);
                write!(f, "cgroup {finding}: {refusal}")
            }
            Lacking::Seccomp { finding, errno: None } => write!(f, "seccomp {}", finding.finding()),
            Lacking::Seccomp { finding, errno: Some((step, errno)) } => {
                write!(f, "seccomp {}: {}: {}", finding.finding(), step.words(), io::Error::from(*errno))
            }
            Lacking::Untried { what, why } => write!(f, "{what} not tried: {why}"),
        }
    }
}
