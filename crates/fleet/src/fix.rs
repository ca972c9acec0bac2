//! What to do on a machine that has no tier 1: each kind with its sentence, made from facts alone, so that the
//! node and the Nodes page say the same. Knows no way to try anything.

use crate::facts::{
    Build, Cgroup, Contract, Edition, Facts, Linux, Namespaces, Psec, Seccomp, System, User, Windows,
};
use crate::{Platform, Property, Tier};

/// Builds on which PSEC has really been seen, one a release.
const SEEN_WITH_PSEC: [Build; 2] =
    [Build { number: 26200, revision: 9457 }, Build { number: 26300, revision: 9711 }];

/// A kind of fix, with what its sentence needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fix {
    /// Linux: the namespaces are closed, in this way.
    Namespaces(Namespaces),
    /// Linux: there is no usable cgroup, for this reason; whom the node runs as.
    Cgroup(Cgroup, Option<User>),
    /// Linux: the system-call filter does not work.
    Seccomp(Seccomp),
    /// Everything was found and the self-test has not run.
    SelfTest,
    /// This property failed on this platform.
    Property(Property, Platform),
    /// Windows: PSEC is here and the node was not started with it.
    StartWithPsec(Contract),
    /// Windows: no PSEC on this build.
    NoPsec(Option<Build>),
    /// Windows: PSEC is on the disk and switched off.
    PsecOff,
    /// Windows: a policy forbids PSEC.
    PsecForbidden,
    /// Windows: PSEC is there and does not work.
    PsecFailed,
    /// Windows Server.
    Server,
    /// Windows, of no known edition.
    EditionUnknown,
    /// A platform that has no tier 1 yet.
    NoTierOne(Platform),
    /// A report without the findings.
    Unsaid,
}

impl Fix {
    /// What to do for a node with these facts; none at tier 1.
    pub fn of(facts: &Facts) -> Option<Fix> {
        let facts = facts.rechecked();
        if facts.tier == Tier::One {
            return None;
        }
        let lacking = match facts.system {
            System::Linux(linux) => Fix::of_linux(&linux),
            System::Windows(windows) => Fix::of_windows(facts.asked, &windows),
            System::Macos | System::Other => Some(Fix::NoTierOne(facts.platform())),
        };
        let failed = facts.failed.map(|property| Fix::Property(property, facts.platform()));
        Some(lacking.or(failed).unwrap_or(Fix::SelfTest))
    }

    fn of_linux(linux: &Linux) -> Option<Fix> {
        match (linux.namespaces, linux.cgroup, linux.seccomp) {
            (Some(closed), _, _) if closed != Namespaces::Open => Some(Fix::Namespaces(closed)),
            (_, Some(cgroup), _) if !cgroup.is_usable() => Some(Fix::Cgroup(cgroup, linux.user)),
            (_, _, Some(seccomp)) if seccomp != Seccomp::Works => Some(Fix::Seccomp(seccomp)),
            _ if linux.is_complete() => None,
            _ => Some(Fix::Unsaid),
        }
    }

    fn of_windows(asked: Tier, windows: &Windows) -> Option<Fix> {
        Some(match (windows.edition, windows.psec) {
            (Edition::Server, _) => Fix::Server,
            (Edition::Unknown, _) => Fix::EditionUnknown,
            (Edition::Client, Psec::NotProbed) => Fix::Unsaid,
            (Edition::Client, Psec::Absent) => Fix::NoPsec(windows.build),
            (Edition::Client, Psec::Off) => Fix::PsecOff,
            (Edition::Client, Psec::Forbidden) => Fix::PsecForbidden,
            (Edition::Client, Psec::Failed) => Fix::PsecFailed,
            (Edition::Client, Psec::Usable) => match (asked, windows.contract) {
                (_, None) => Fix::Unsaid,
                (Tier::Zero, Some(contract)) => Fix::StartWithPsec(contract),
                (Tier::One, Some(_)) => return None,
            },
        })
    }

    /// A stable word for programs.
    pub const fn code(self) -> &'static str {
        match self {
            Fix::Namespaces(closed) => closed.word(),
            Fix::Cgroup(cgroup, _) => cgroup.word(),
            Fix::Seccomp(seccomp) => seccomp.word(),
            Fix::SelfTest => "self-test-not-run",
            Fix::Property(..) => "self-test-failed",
            Fix::StartWithPsec(_) => "psec-not-started",
            Fix::NoPsec(_) => "psec-absent",
            Fix::PsecOff => "psec-off",
            Fix::PsecForbidden => "psec-forbidden",
            Fix::PsecFailed => "psec-failed",
            Fix::Server => "windows-server",
            Fix::EditionUnknown => "windows-edition-unknown",
            Fix::NoTierOne(_) => "no-tier-1-here",
            Fix::Unsaid => "not-reported",
        }
    }

    /// What to do, in words.
    pub fn sentence(self) -> String {
        match self {
            Fix::Namespaces(closed) => namespaces(closed),
            Fix::Cgroup(reason, user) => cgroup(reason, user),
            Fix::Seccomp(reason) => seccomp(reason).to_owned(),
            Fix::SelfTest => {
                "everything that tier 1 needs is here; `oz0-node sandbox check --self-test` shows whether the \
                 eight properties hold"
                    .to_owned()
            }
            Fix::Property(failed, Platform::Windows) => {
                format!("the self-test failed at {failed}; `sandbox check --psec` on the node says which check and how")
            }
            Fix::Property(failed, _) => {
                format!(
                    "the self-test failed at {failed}: {}; `oz0-node sandbox check --self-test` on the node says \
                     which check and how",
                    what_to_change(failed)
                )
            }
            Fix::StartWithPsec(contract) => format!(
                "PSEC (contract {contract}) is here, this node runs no work in it, started with --sandbox psec it \
                 reports tier 1 when its self-test passes; meanwhile tier-1 work runs on Linux or macOS nodes"
            ),
            Fix::NoPsec(build) => {
                let seen = build.and_then(|build| SEEN_WITH_PSEC.iter().find(|seen| seen.number == build.number));
                let seen = match seen {
                    Some(seen) => format!("{seen} has been seen with it: update Windows"),
                    None => "a later release of Windows 11 may have it".to_owned(),
                };
                format!(
                    "this build has no PSEC, which Windows tier 1 runs in; {seen}; tier-0 work goes on here, \
                     tier-1 work runs on Linux or macOS nodes"
                )
            }
            Fix::PsecOff => "PSEC is on the disk and switched off; a Windows update turns it on".to_owned(),
            Fix::PsecForbidden => {
                "the administrator's policy forbids PSEC; it is not tried again until the node restarts".to_owned()
            }
            Fix::PsecFailed => {
                "PSEC is here and does not work; `sandbox check` on the node names the call and what Windows answered"
                    .to_owned()
            }
            Fix::Server => {
                "Windows Server has no tier-1 sandbox; add a Linux or macOS node for tier-1 work".to_owned()
            }
            Fix::EditionUnknown => {
                "whether this is Windows Server could not be determined; it is asked again at the next start"
                    .to_owned()
            }
            Fix::NoTierOne(platform) => format!(
                "there is no tier-1 sandbox for {} yet; add a Linux node for tier-1 work",
                platform.name()
            ),
            Fix::Unsaid => {
                "the report lacks what tier 1 is decided by; bring the node up to date and restart it".to_owned()
            }
        }
    }
}

impl std::fmt::Display for Fix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.sentence())
    }
}

fn namespaces(closed: Namespaces) -> String {
    let elsewhere = "or run the node on the host";
    match closed {
        Namespaces::Open => "nothing: namespaces are open".to_owned(),
        Namespaces::UsernsClone => {
            "as root, `sysctl -w kernel.unprivileged_userns_clone=1`, and the same line in \
             /etc/sysctl.d/60-oz0-node.conf so that it stays"
                .to_owned()
        }
        Namespaces::MaxUser
        | Namespaces::MaxMount
        | Namespaces::MaxPid
        | Namespaces::MaxNetwork
        | Namespaces::MaxIpc
        | Namespaces::MaxUts
        | Namespaces::MaxCgroup => {
            let setting = closed.setting().unwrap_or_default();
            format!(
                "as root, `sysctl -w {setting}=15000`, and the same line in /etc/sysctl.d/60-oz0-node.conf so that \
                 it stays"
            )
        }
        Namespaces::AtLimit => {
            "as root, raise the limits of namespaces (`sysctl user` lists them), or end programs that hold many; \
             the kernel nests at most 32 deep"
                .to_owned()
        }
        Namespaces::AppArmor => {
            "as root, give the node's program a profile of its own in /etc/apparmor.d (`abi <abi/4.0>, profile \
             oz0-node /PATH/TO/oz0-node flags=(unconfined) { userns, }`, then `apparmor_parser -r FILE`), or open \
             them to every program with `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`"
                .to_owned()
        }
        Namespaces::Container => format!(
            "start the container around the node with namespaces allowed (docker and podman: `--security-opt \
             seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined`), \
             {elsewhere}"
        ),
        Namespaces::ProcMasked => format!(
            "start the container around the node with an uncovered /proc (docker: `--security-opt \
             systempaths=unconfined`, podman: `--security-opt unmask=ALL`, Kubernetes: `procMount: Unmasked`), \
             {elsewhere}"
        ),
        Namespaces::Chroot => {
            "start the node outside the chroot, or enter it with pivot_root, which leaves namespaces open".to_owned()
        }
        Namespaces::IdMap => format!(
            "run the node as a user that the namespace around it maps (`cat /proc/self/uid_map`), {elsewhere}"
        ),
        Namespaces::NotBuilt => {
            "start a kernel with user, mount, pid and network namespaces (CONFIG_USER_NS=y and its peers; on older \
             Red Hat kernels user_namespace.enable=1 on its command line)"
                .to_owned()
        }
        Namespaces::Refused => {
            "the kernel refuses a namespace and no setting says why; `oz0-node sandbox check` on the node names the \
             call and its answer; look for a security module's denial in the kernel's log"
                .to_owned()
        }
    }
}

fn cgroup(reason: Cgroup, user: Option<User>) -> String {
    let user = user.map_or("USER".to_owned(), |user| user.to_string());
    let start = "start the node with `systemd-run --user --scope -p Delegate=yes -- oz0-node run`, or set \
                 Delegate=yes in its service unit";
    match reason {
        Cgroup::V1 | Cgroup::V2 => "nothing: the cgroup is usable".to_owned(),
        Cgroup::NotMounted => {
            "as root, mount the cgroup file system (`mount -t cgroup2 none /sys/fs/cgroup`)".to_owned()
        }
        Cgroup::NoControllers => {
            "start the kernel with the memory, pids and cpu controllers (some boards need cgroup_enable=memory on \
             its command line), or give the container around the node its controllers"
                .to_owned()
        }
        Cgroup::V1NotDelegated => format!("as root, once, `oz0-node sandbox delegate --user {user}`"),
        Cgroup::V2NotDelegated => format!(
            "as root, once, `oz0-node sandbox delegate --user {user} --pid PID`, PID being the shell or service \
             that starts the node"
        ),
        Cgroup::SystemdNotDelegated => start.to_owned(),
        Cgroup::SystemdLacksControllers => format!(
            "as root, once, put `[Service]` and `Delegate=cpu memory pids` into \
             /etc/systemd/system/user@.service.d/delegate.conf, run `systemctl daemon-reload` and log in again; \
             then {start}"
        ),
        Cgroup::HoldsProcesses => {
            "move the other processes of the node's cgroup into one of their own, or start the node in an empty one"
                .to_owned()
        }
        Cgroup::SystemdHoldsProcesses => {
            "set Delegate=yes in the node's service unit, or start it with `systemd-run --scope -p Delegate=yes`"
                .to_owned()
        }
        Cgroup::ReadOnly | Cgroup::NotPermitted => {
            "give the container around the node cgroups of its own that it may write (`docker run --privileged \
             --cgroupns=private`, or the runtime's own switch for nested containers), or run the node on the host"
                .to_owned()
        }
        Cgroup::Failed => {
            "look up the file and the error that `oz0-node sandbox check` on the node names: the kernel has the \
             controller and did not take the limit"
                .to_owned()
        }
    }
}

fn seccomp(reason: Seccomp) -> &'static str {
    match reason {
        Seccomp::Works => "nothing: seccomp works",
        Seccomp::Missing => "start a kernel with system-call filters (CONFIG_SECCOMP_FILTER=y)",
        Seccomp::Refused => {
            "the kernel did not take the run's system-call filter; `oz0-node sandbox check` on the node names its \
             answer; if the node runs in a container, allow it seccomp(2)"
        }
        Seccomp::NoProcessor => "there is no filter for this processor: tier 1 needs x86-64 or 64-bit Arm",
    }
}

/// Where to look first when a property fails on a machine whose mechanisms were all found.
fn what_to_change(failed: Property) -> &'static str {
    match failed {
        Property::Launch => {
            "look for what ends new processes or refuses them their folder there (a security module, a full \
             disk, a limit on the node's user)"
        }
        Property::Files => {
            "keep the data directory out of every folder that runs may read, readable by the node's user alone, \
             on a file system that keeps access rights"
        }
        Property::Egress => {
            "look for what opens other ways into the network there (a host's network shared with the \
             container, a program that takes over the node's proxy)"
        }
        Property::Ingress => {
            "look for what reaches into network namespaces there (a container network's agent, a forwarded port)"
        }
        Property::JobLimits => {
            "give the node's cgroup the memory, pids and cpu controllers with limits that can be lowered, and no \
             swap that escapes them"
        }
        Property::FailClosed => {
            "look for what moves processes between cgroups there (a daemon that sorts them): the node's part of the \
             tree must be its own"
        }
        Property::ProtectedPaths => {
            "keep workspaces on a file system that takes bind mounts and renames as Linux does (not on a FUSE or \
             network share)"
        }
        Property::Environment => {
            "look for what lets processes of one user read each other there (kernel.yama.ptrace_scope, a debugger, \
             a /proc shared with the container)"
        }
    }
}

#[cfg(test)]
mod tests;
