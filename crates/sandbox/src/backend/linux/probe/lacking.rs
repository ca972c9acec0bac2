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

/// The steps, each with its words; their numbers start at 1.
macro_rules! steps {
    ($($(#[$meta:meta])* $Step:ident => $words:literal,)+) => {
        /// A part of making the namespaces or of loading the filter.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Step {
            $($(#[$meta])* $Step,)+
        }

        impl Step {
            const ALL: &[Step] = &[$(Step::$Step),+];

            /// What was tried, in words.
            pub const fn words(self) -> &'static str {
                match self {
                    $(Step::$Step => $words,)+
                }
            }
        }
    };
}

steps! {
    /// The user namespace; in a run the pid namespace with it.
    User => "making a user namespace (clone3)",
    /// The pid namespace.
    Pid => "making a pid namespace (clone3)",
    /// The mount namespace.
    Mount => "making a mount namespace (unshare)",
    /// The IPC namespace.
    Ipc => "making an IPC namespace (unshare)",
    /// The UTS namespace, and a host name in it.
    Uts => "making a UTS namespace (unshare, sethostname)",
    /// The cgroup namespace.
    Cgroup => "making a cgroup namespace (unshare)",
    /// The network namespace.
    Network => "making a network namespace (unshare)",
    /// All of a run's that come after the user namespace.
    Others => "making the namespaces (unshare)",
    /// The caller's own id in the user namespace.
    IdMap => "mapping the caller's own id (/proc/self/uid_map)",
    /// A copy of the host's tree with attributes of its own.
    Bind => "taking a copy of the tree (open_tree, mount_setattr)",
    /// A tmpfs over the root.
    Tmpfs => "mounting a tmpfs (fsopen, fsmount, move_mount)",
    /// A proc of the new pid namespace.
    Proc => "mounting a proc (fsopen, fsmount, move_mount)",
    /// The new network namespace's loopback.
    Loopback => "bringing up the loopback",
    /// No new privileges, without which there is no filter.
    NoNewPrivileges => "setting no_new_privs (prctl)",
    /// The filter.
    Filter => "loading the system-call filter (seccomp)",
    /// A call that the loaded filter must deny.
    Denied => "making a call that the loaded filter denies (umount2)",
}

impl Step {
    /// For the way through a pipe; never 0.
    pub(super) const fn number(self) -> u8 {
        self as u8 + 1
    }

    pub(super) fn from_number(number: u8) -> Option<Step> {
        Step::ALL.get(usize::from(number.checked_sub(1)?)).copied()
    }

    /// Is it the making of a namespace itself?
    pub(super) const fn makes(self) -> bool {
        use Step::{Cgroup, Ipc, Mount, Network, Others, Pid, User, Uts};
        matches!(self, User | Pid | Mount | Ipc | Uts | Cgroup | Network | Others)
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
        answer: Option<(Step, Errno)>,
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
        Lacking::Seccomp { finding, answer: Some((step, errno)) }
    }

    /// What a failed call of a run stands for, if for a mechanism that is missing. `of_proc`: it was about the
    /// run's own proc; `of_frame`: it was about no single step of the plan.
    pub fn in_run(call: Call, of_proc: bool, of_frame: bool, errno: Errno) -> Option<Lacking> {
        let step = match call {
            Call::JoinCgroup => {
                let (path, code) = ("cgroup.procs".into(), errno.raw_os_error());
                let failed = CgroupError::Os { call: "write in", path, code };
                return Some(Lacking::Cgroup(failed.into()));
            }
            Call::Unshare => Step::Others,
            Call::IdMap => Step::IdMap,
            Call::Loopback => Step::Loopback,
            Call::FsOpen | Call::FsMount | Call::MoveMount if of_proc => Step::Proc,
            Call::FsOpen | Call::FsMount | Call::MoveMount if of_frame => Step::Tmpfs,
            Call::OpenTree | Call::MountSetattr => Step::Bind,
            Call::Second(SecondStep::NoNewPrivileges) => Step::NoNewPrivileges,
            Call::Second(SecondStep::Filter) => Step::Filter,
            _ => return None,
        };
        Lacking::in_step(step, errno)
    }

    /// The same for a step. Whatever else may fail in one (a full disk, a path that is gone) is not a machine
    /// that lacks something.
    pub fn in_step(step: Step, errno: Errno) -> Option<Lacking> {
        if matches!(step, Step::NoNewPrivileges | Step::Filter | Step::Denied) {
            return Some(Lacking::filter(step, errno));
        }
        let closed = match errno {
            Errno::PERM | Errno::ACCESS => true,
            Errno::NOSPC | Errno::USERS | Errno::INVAL | Errno::NOSYS => step.makes(),
            Errno::NODEV => matches!(step, Step::Tmpfs | Step::Proc),
            _ => false,
        };
        let found = closed.then(|| Lacking::namespaces(step, errno))?;
        // A single copy that is refused, with nothing on the machine that closes them all, is that path's own.
        let one_path = step == Step::Bind && found.namespaces_fact() == Some(Namespaces::Refused);
        (!one_path).then_some(found)
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
        let tried = |(step, errno): (Step, Errno)| format!("{}: {}", step.words(), io::Error::from(errno));
        match self {
            Lacking::Namespaces { finding, step, errno } => {
                write!(f, "namespaces {}: {}", finding.finding(), tried((*step, *errno)))
            }
            Lacking::Cgroup(refusal) => {
                write!(f, "cgroup {}: {refusal}", self.cgroup_fact().map_or("", Cgroup::finding))
            }
            Lacking::Seccomp { finding, answer: None } => write!(f, "seccomp {}", finding.finding()),
            Lacking::Seccomp { finding, answer: Some(answer) } => {
                write!(f, "seccomp {}: {}", finding.finding(), tried(*answer))
            }
            Lacking::Untried { what, why } => write!(f, "{what} not tried: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_comes_back_from_its_number() {
        for step in Step::ALL {
            assert_eq!(Step::from_number(step.number()), Some(*step));
        }
        assert_eq!(Step::from_number(0), None);
        assert_eq!(Step::from_number(u8::MAX), None);
    }

    /// What a run meets is a machine's lack only where it is one.
    #[test]
    fn other_failures_of_a_run_are_not_a_lack() {
        for (step, errno) in [
            (Step::Bind, Errno::NOENT),
            (Step::Bind, Errno::PERM),
            (Step::Tmpfs, Errno::NOMEM),
            (Step::Tmpfs, Errno::NOSPC),
            (Step::Proc, Errno::NOMEM),
            (Step::User, Errno::AGAIN),
            (Step::User, Errno::NOMEM),
            (Step::IdMap, Errno::INVAL),
            (Step::Loopback, Errno::NOBUFS),
        ] {
            assert_eq!(Lacking::in_step(step, errno), None, "{step:?} {errno:?}");
        }
        for call in [Call::Open, Call::Mkdir, Call::Chdir, Call::Listen, Call::Spawn, Call::Hand] {
            assert_eq!(Lacking::in_run(call, false, true, Errno::PERM), None, "{call:?}");
        }
        assert_eq!(Lacking::in_run(Call::MoveMount, false, false, Errno::PERM), None);
        for step in Step::ALL.iter().filter(|step| **step != Step::Bind) {
            assert!(Lacking::in_step(*step, Errno::PERM).is_some(), "{step:?}");
        }
        for errno in [Errno::NOSPC, Errno::USERS, Errno::INVAL, Errno::NOSYS] {
            assert!(Lacking::in_step(Step::User, errno).is_some(), "{errno:?}");
            assert!(Lacking::in_step(Step::Others, errno).is_some(), "{errno:?}");
        }
    }

    #[test]
    fn calls_of_a_run_are_steps() {
        let step = |call, of_proc, of_frame| match Lacking::in_run(call, of_proc, of_frame, Errno::PERM) {
            Some(Lacking::Namespaces { step, .. } | Lacking::Seccomp { answer: Some((step, _)), .. }) => step,
            other => panic!("{other:?}"),
        };
        assert_eq!(step(Call::Unshare, false, true), Step::Others);
        assert_eq!(step(Call::IdMap, false, true), Step::IdMap);
        assert_eq!(step(Call::FsOpen, false, true), Step::Tmpfs);
        assert_eq!(step(Call::FsMount, true, false), Step::Proc);
        assert_eq!(step(Call::Loopback, false, true), Step::Loopback);
        assert_eq!(step(Call::Second(SecondStep::Filter), false, true), Step::Filter);
        let join = Lacking::in_run(Call::JoinCgroup, false, true, Errno::ROFS).unwrap();
        assert_eq!(join.refusal().code, "cgroup-read-only");
    }

    /// Every refusal of the cgroup has a fact of its own kind, and one fix.
    #[test]
    fn cgroup_refusals_have_their_facts() {
        let undelegated = |version, systemd, lacking: &[crate::backend::linux::cgroup::Controller]| {
            CgroupRefusal::NotDelegated { version, uid: 1000, lacking: lacking.to_vec(), systemd }
        };
        let holds = |systemd| CgroupRefusal::HoldsProcesses { path: "/sys/fs/cgroup".into(), systemd };
        let failed = |code| {
            CgroupRefusal::Failed(CgroupError::Os { call: "make", path: "/sys/fs/cgroup/x".into(), code })
        };
        let cpu = [crate::backend::linux::cgroup::Controller::Cpu];
        for (refusal, fact) in [
            (CgroupRefusal::NotMounted, Cgroup::NotMounted),
            (CgroupRefusal::NoControllers { v2: vec![], v1: vec![] }, Cgroup::NoControllers),
            (undelegated(Version::V1, false, &[]), Cgroup::V1NotDelegated),
            (undelegated(Version::V2, false, &[]), Cgroup::V2NotDelegated),
            (undelegated(Version::V2, true, &[]), Cgroup::SystemdNotDelegated),
            (undelegated(Version::V2, true, &cpu), Cgroup::SystemdLacksControllers),
            (holds(false), Cgroup::HoldsProcesses),
            (holds(true), Cgroup::SystemdHoldsProcesses),
            (failed(30), Cgroup::ReadOnly),
            (failed(1), Cgroup::NotPermitted),
            (failed(13), Cgroup::NotPermitted),
            (failed(5), Cgroup::Failed),
            (CgroupRefusal::Failed(CgroupError::Name("x".into())), Cgroup::Failed),
        ] {
            let why = refusal.to_string();
            let lacking = Lacking::Cgroup(refusal);
            assert_eq!(lacking.cgroup_fact(), Some(fact), "{why}");
            let refused = lacking.refusal();
            assert_eq!(refused.code, fact.word());
            assert_eq!(refused.reason, format!("cgroup {}: {why}", fact.finding()));
            assert_eq!(refused.fix, Some(lacking.fix().sentence()));
        }
    }

    #[test]
    fn a_refusal_says_what_was_found_what_was_tried_and_what_to_do() {
        let lacking =
            Lacking::Namespaces { finding: Namespaces::AppArmor, step: Step::IdMap, errno: Errno::ACCESS };
        let refusal = lacking.refusal();
        assert_eq!(refusal.code, "namespaces-closed-by-apparmor");
        assert_eq!(
            refusal.reason,
            "namespaces closed by AppArmor: mapping the caller's own id (/proc/self/uid_map): \
             Permission denied (os error 13)"
        );
        assert_eq!(refusal.fix, Some(Fix::Namespaces(Namespaces::AppArmor).sentence()));
        assert_eq!(Lacking::filter(Step::Filter, Errno::INVAL).refusal().code, "seccomp-not-in-kernel");
        assert_eq!(Lacking::filter(Step::Filter, Errno::PERM).refusal().code, "seccomp-refused");
        assert_eq!(Lacking::filter(Step::Denied, Errno::INVAL).refusal().code, "seccomp-refused");
        let untried = Lacking::Untried { what: "namespaces", why: "another thread is running".into() };
        assert_eq!(untried.to_string(), "namespaces not tried: another thread is running");
    }
}
