//! What a Linux node found: each mechanism that tier 1 needs, as it answered when it was tried.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::Unknown;
use crate::word::{Admitted, exact_text, number, words};

/// What the probe found on Linux. None is a field that a report left out or that matched nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Linux {
    /// The kernel's version.
    pub kernel: Option<Kernel>,
    /// Whom the node runs as, for the commands in a fix.
    pub user: Option<User>,
    /// The user, mount, pid and network namespaces.
    pub namespaces: Option<Namespaces>,
    /// The cgroup for the limits.
    pub cgroup: Option<Cgroup>,
    /// Landlock.
    pub landlock: Option<Landlock>,
    /// The system-call filter.
    pub seccomp: Option<Seccomp>,
}

impl Linux {
    /// Is everything here that a run needs? Landlock is used where the kernel has it.
    pub fn is_complete(&self) -> bool {
        self.namespaces == Some(Namespaces::Open)
            && self.cgroup.is_some_and(Cgroup::is_usable)
            && self.seccomp == Some(Seccomp::Works)
    }
}

/// A kernel's version: `6.18.44`. What a distribution adds to it stays on the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kernel {
    /// 6.
    pub major: u16,
    /// 18.
    pub minor: u16,
    /// 44.
    pub patch: u16,
}

impl Kernel {
    /// The version at the start of what `uname -r` says.
    pub fn of_release(release: &str) -> Option<Kernel> {
        let end =
            release.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(release.len());
        let version = release[..end].trim_end_matches('.');
        let mut parts = version.split('.').map(|part| number(part, 4));
        let (major, minor) = (parts.next()??, parts.next()??);
        Some(Kernel { major, minor, patch: parts.next().flatten().unwrap_or(0) })
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl FromStr for Kernel {
    type Err = Unknown;

    fn from_str(text: &str) -> Result<Self, Unknown> {
        let unknown = Unknown { expected: "a kernel's version" };
        let mut parts = text.splitn(3, '.').map(|part| number(part, 4));
        let mut next = || parts.next().flatten().ok_or(unknown);
        Ok(Kernel { major: next()?, minor: next()?, patch: next()? })
    }
}

exact_text!(Kernel);

/// A user's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User(u32);

impl User {
    /// None for the number that stands for no user.
    pub const fn new(number: u32) -> Option<User> {
        if number == u32::MAX { None } else { Some(User(number)) }
    }
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Serialize for User {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(self.0)
    }
}

impl Admitted for User {
    fn from_number(number: u64) -> Option<Self> {
        u32::try_from(number).ok().and_then(User::new)
    }
}

/// Landlock's ABI; 0 where the kernel has none or it is switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Landlock(u8);

impl Landlock {
    /// None for a number that no kernel gives.
    pub const fn new(abi: u64) -> Option<Landlock> {
        if abi < 100 { Some(Landlock(abi as u8)) } else { None }
    }
}

impl fmt::Display for Landlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("none"),
            abi => fmt::Display::fmt(&abi, f),
        }
    }
}

impl Serialize for Landlock {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(self.0)
    }
}

impl Admitted for Landlock {
    fn from_number(number: u64) -> Option<Self> {
        Landlock::new(number)
    }
}

words! {
    /// The namespaces: open, or why not. The word is the code of the refusal too.
    pub enum Namespaces, "a finding about namespaces" {
        /// All four are made and give what they should.
        Open = "open",
        /// `kernel.unprivileged_userns_clone` is 0 (Debian's kernels).
        UsernsClone = "namespaces-closed-by-userns-clone",
        /// `user.max_user_namespaces` is 0.
        MaxUser = "namespaces-closed-by-max-user",
        /// `user.max_mnt_namespaces` is 0.
        MaxMount = "namespaces-closed-by-max-mnt",
        /// `user.max_pid_namespaces` is 0.
        MaxPid = "namespaces-closed-by-max-pid",
        /// `user.max_net_namespaces` is 0.
        MaxNetwork = "namespaces-closed-by-max-net",
        /// `user.max_ipc_namespaces` is 0.
        MaxIpc = "namespaces-closed-by-max-ipc",
        /// `user.max_uts_namespaces` is 0.
        MaxUts = "namespaces-closed-by-max-uts",
        /// `user.max_cgroup_namespaces` is 0.
        MaxCgroup = "namespaces-closed-by-max-cgroup",
        /// The limits are not 0 and are reached, here or further out, or the nesting is too deep.
        AtLimit = "namespaces-at-limit",
        /// `kernel.apparmor_restrict_unprivileged_userns` is 1: a namespace is made and gives nothing.
        AppArmor = "namespaces-closed-by-apparmor",
        /// A system-call filter or a security profile is around the node, as containers have.
        Container = "namespaces-closed-by-container",
        /// Parts of /proc are covered here, so the kernel gives no proc of one's own.
        ProcMasked = "namespaces-proc-masked",
        /// The node runs in a chroot.
        Chroot = "namespaces-closed-in-chroot",
        /// The node's user may not be mapped.
        IdMap = "namespaces-no-id-map",
        /// The kernel was built or started without them.
        NotBuilt = "namespaces-not-in-kernel",
        /// Refused, and nothing on the machine says why.
        Refused = "namespaces-refused",
    }
}

impl Namespaces {
    /// The setting under /proc/sys that holds them closed, where it is one.
    pub const fn setting(self) -> Option<&'static str> {
        Some(match self {
            Namespaces::UsernsClone => "kernel.unprivileged_userns_clone",
            Namespaces::MaxUser => "user.max_user_namespaces",
            Namespaces::MaxMount => "user.max_mnt_namespaces",
            Namespaces::MaxPid => "user.max_pid_namespaces",
            Namespaces::MaxNetwork => "user.max_net_namespaces",
            Namespaces::MaxIpc => "user.max_ipc_namespaces",
            Namespaces::MaxUts => "user.max_uts_namespaces",
            Namespaces::MaxCgroup => "user.max_cgroup_namespaces",
            Namespaces::AppArmor => "kernel.apparmor_restrict_unprivileged_userns",
            _ => return None,
        })
    }
}

words! {
    /// The cgroup: its version, or why there is none. The word of a refusal is its code too.
    pub enum Cgroup, "a finding about cgroups" {
        /// Usable, version 1.
        V1 = "v1",
        /// Usable, version 2.
        V2 = "v2",
        /// No cgroup file system.
        NotMounted = "cgroup-not-mounted",
        /// Neither version has memory, pids and cpu together.
        NoControllers = "cgroup-no-controllers",
        /// Version 1, and no folders were handed to the node's user.
        V1NotDelegated = "cgroup-v1-not-delegated",
        /// Version 2 without systemd, and no folder was handed to the node's user.
        V2NotDelegated = "cgroup-v2-not-delegated",
        /// systemd, and the node's unit has no delegated part.
        SystemdNotDelegated = "cgroup-systemd-not-delegated",
        /// systemd, and the user's part of the tree lacks controllers.
        SystemdLacksControllers = "cgroup-systemd-lacks-controllers",
        /// Version 2, and the node's own cgroup holds other processes.
        HoldsProcesses = "cgroup-holds-processes",
        /// The same, and systemd arranges it.
        SystemdHoldsProcesses = "cgroup-systemd-holds-processes",
        /// Mounted read-only, as containers have it.
        ReadOnly = "cgroup-read-only",
        /// The node's user is root here and may not write it, as in containers.
        NotPermitted = "cgroup-not-permitted",
        /// The kernel answered a call with an error.
        Failed = "cgroup-failed",
    }
}

impl Cgroup {
    /// Can limits be held?
    pub const fn is_usable(self) -> bool {
        matches!(self, Cgroup::V1 | Cgroup::V2)
    }
}

words! {
    /// The system-call filter. The word of a refusal is its code too.
    pub enum Seccomp, "a finding about seccomp" {
        /// The run's own filter was loaded and held.
        Works = "ok",
        /// The kernel has none.
        Missing = "seccomp-not-in-kernel",
        /// The kernel did not take the filter, or it did not hold.
        Refused = "seccomp-refused",
        /// There is no filter for this processor.
        NoProcessor = "seccomp-no-processor",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernels_version_has_one_form() {
        for version in ["6.18.44", "4.18.0", "5.15.167"] {
            assert_eq!(version.parse::<Kernel>().unwrap().to_string(), version);
        }
        for other in
            ["", "6", "6.18", "6.18.44-fc", "06.1.1", "6.1.1.1", "6..1", "6.1.", "99999.1.1", "6.1.1 "]
        {
            assert!(other.parse::<Kernel>().is_err(), "{other:?}");
        }
    }

    #[test]
    fn a_release_is_cut_to_its_version() {
        for (release, version) in [
            ("6.18.44-fc-v857", "6.18.44"),
            ("6.8.0-45-generic", "6.8.0"),
            ("5.15.167.4-microsoft-standard-WSL2", "5.15.167"),
            ("4.18.0-553.el8_10.x86_64", "4.18.0"),
            ("6.1-rc3", "6.1.0"),
            ("6.1.+", "6.1.0"),
            ("6.6.0.", "6.6.0"),
        ] {
            assert_eq!(Kernel::of_release(release).unwrap().to_string(), version, "{release}");
        }
        for other in ["", "linux", "6", "-6.1", ".6.1", "6..1"] {
            assert_eq!(Kernel::of_release(other), None, "{other:?}");
        }
    }

    #[test]
    fn every_word_is_one_code() {
        let mut words: Vec<&str> = Namespaces::ALL.map(Namespaces::word).to_vec();
        words.extend(Cgroup::ALL.map(Cgroup::word));
        words.extend(Seccomp::ALL.map(Seccomp::word));
        let all = words.len();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), all);
    }
}
