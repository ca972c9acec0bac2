//! Why a namespace is refused, from what the machine shows of itself. Read only after a refusal: it never decides
//! whether something works.

use std::fs;

use oz0_fleet::Namespaces;
use rustix::io::Errno;

use super::lacking::Step;

/// The limits of namespaces, in the order in which a run meets them.
const LIMITS: [(&str, Namespaces); 7] = [
    ("/proc/sys/user/max_user_namespaces", Namespaces::MaxUser),
    ("/proc/sys/user/max_pid_namespaces", Namespaces::MaxPid),
    ("/proc/sys/user/max_mnt_namespaces", Namespaces::MaxMount),
    ("/proc/sys/user/max_ipc_namespaces", Namespaces::MaxIpc),
    ("/proc/sys/user/max_uts_namespaces", Namespaces::MaxUts),
    ("/proc/sys/user/max_cgroup_namespaces", Namespaces::MaxCgroup),
    ("/proc/sys/user/max_net_namespaces", Namespaces::MaxNetwork),
];

/// CAP_SYS_ADMIN's place in a capability set.
const SYS_ADMIN: u64 = 1 << 21;

/// What around this process may close namespaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// The first limit that is 0.
    pub zero: Option<Namespaces>,
    /// Debian's switch is off.
    pub userns_clone_off: bool,
    /// AppArmor's switch is on.
    pub apparmor_restricts: bool,
    /// A security profile is around this process: AppArmor's in enforce mode, or SELinux's for containers.
    pub confined: bool,
    /// A system-call filter is around this process.
    pub filtered: bool,
    /// The root of this process is not the root of its mounts.
    pub chrooted: bool,
    /// This process may administrate the system, which the switches do not bind.
    pub privileged: bool,
    /// Its user has no number in the user namespace it is in.
    pub unmapped: bool,
}

impl Surroundings {
    /// Look around.
    pub fn read() -> Surroundings {
        let text = |path: &str| fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).ok();
        let number = |path: &str| text(path).and_then(|text| text.trim().parse::<u64>().ok());
        let status = text("/proc/self/status").unwrap_or_default();
        let label = text("/proc/self/attr/apparmor/current").or_else(|| text("/proc/self/attr/current"));
        let user = rustix::process::geteuid().as_raw();
        Surroundings {
            zero: LIMITS.iter().find(|(path, _)| number(path) == Some(0)).map(|(_, finding)| *finding),
            userns_clone_off: number("/proc/sys/kernel/unprivileged_userns_clone") == Some(0),
            apparmor_restricts: number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == Some(1),
            confined: label.is_some_and(|label| is_confined(&label)),
            filtered: field(&status, "Seccomp:") == Some("2"),
            chrooted: text("/proc/self/mountinfo").is_some_and(|mounts| is_chrooted(&mounts)),
            privileged: field(&status, "CapEff:")
                .and_then(|set| u64::from_str_radix(set, 16).ok())
                .is_some_and(|set| set & SYS_ADMIN != 0),
            unmapped: text("/proc/self/uid_map").is_some_and(|map| !maps(&map, user)),
        }
    }

    /// Why this answer to this step.
    pub fn finding(&self, step: Step, errno: Errno) -> Namespaces {
        match errno {
            Errno::NOSPC | Errno::USERS if step.makes() => self.zero.unwrap_or(Namespaces::AtLimit),
            // Filters answer clone3 so, that programs fall back to clone.
            Errno::NOSYS if self.filtered => Namespaces::Container,
            Errno::INVAL | Errno::NOSYS if step.makes() => Namespaces::NotBuilt,
            // A file system that the kernel does not know.
            Errno::NODEV if matches!(step, Step::Tmpfs | Step::Proc) => Namespaces::NotBuilt,
            Errno::PERM | Errno::ACCESS => self.refused(step),
            _ => Namespaces::Refused,
        }
    }

    /// Not permitted: the first that would say so, in the order in which the kernel asks.
    fn refused(&self, step: Step) -> Namespaces {
        let switched = !self.privileged;
        if step == Step::User && self.userns_clone_off && switched {
            Namespaces::UsernsClone
        } else if step == Step::User && self.chrooted {
            Namespaces::Chroot
        } else if step == Step::User && self.unmapped {
            Namespaces::IdMap
        } else if self.apparmor_restricts && switched && !self.confined {
            Namespaces::AppArmor
        } else if step == Step::Proc {
            Namespaces::ProcMasked
        } else if self.confined || self.filtered {
            Namespaces::Container
        } else if step == Step::IdMap {
            Namespaces::IdMap
        } else {
            Namespaces::Refused
        }
    }
}

/// The first word after a name in `/proc/self/status`.
fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()
}

/// `docker-default (enforce)` confines; `unconfined` and `oz0-node (unconfined)` do not. SELinux' containers run
/// as the type `container_t`.
fn is_confined(label: &str) -> bool {
    let label = label.trim_end_matches(['\0', '\n']);
    label.ends_with(" (enforce)") || label.split(':').nth(2) == Some("container_t")
}

/// A list of mounts without one at the root: the root is a plain folder of a mount further out.
fn is_chrooted(mounts: &str) -> bool {
    !mounts.lines().any(|line| line.split(' ').nth(4) == Some("/"))
}

/// Does a map of `inside outside count` lines have this number inside?
fn maps(map: &str, user: u32) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_whitespace().map(|number| number.parse::<u64>().ok());
        let (first, _, count) = (numbers.next().flatten(), numbers.next(), numbers.next().flatten());
        first.zip(count).is_some_and(|(first, count)| (first..first + count).contains(&user.into()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_closed_machine_is_told_from_the_others() {
        let nothing = Surroundings::default();
        let debian = Surroundings { userns_clone_off: true, ..nothing };
        let root = Surroundings { privileged: true, ..debian };
        let ubuntu = Surroundings { apparmor_restricts: true, ..nothing };
        let docker = Surroundings { filtered: true, confined: true, apparmor_restricts: true, ..nothing };
        let podman = Surroundings { filtered: true, ..nothing };
        let red_hat = Surroundings { zero: Some(Namespaces::MaxUser), ..nothing };
        let no_network = Surroundings { zero: Some(Namespaces::MaxNetwork), ..nothing };
        let chroot = Surroundings { chrooted: true, ..nothing };
        let unmapped = Surroundings { unmapped: true, ..nothing };
        for (name, around, step, errno, finding) in [
            ("debian", debian, Step::User, Errno::PERM, Namespaces::UsernsClone),
            ("debian, root", root, Step::User, Errno::PERM, Namespaces::Refused),
            ("ubuntu 24.04, in the namespace", ubuntu, Step::Mount, Errno::PERM, Namespaces::AppArmor),
            ("ubuntu 24.04, the run's call", ubuntu, Step::Others, Errno::PERM, Namespaces::AppArmor),
            ("ubuntu 24.04, the map", ubuntu, Step::IdMap, Errno::ACCESS, Namespaces::AppArmor),
            ("ubuntu 24.04, a mount", ubuntu, Step::Tmpfs, Errno::ACCESS, Namespaces::AppArmor),
            ("ubuntu 24.04, proc", ubuntu, Step::Proc, Errno::ACCESS, Namespaces::AppArmor),
            ("ubuntu 24.04, loopback", ubuntu, Step::Loopback, Errno::PERM, Namespaces::AppArmor),
            ("ubuntu 23.10", ubuntu, Step::User, Errno::ACCESS, Namespaces::AppArmor),
            ("docker", docker, Step::User, Errno::PERM, Namespaces::Container),
            ("docker, clone3", docker, Step::User, Errno::NOSYS, Namespaces::Container),
            ("docker, mount", docker, Step::Tmpfs, Errno::ACCESS, Namespaces::Container),
            ("podman", podman, Step::Mount, Errno::PERM, Namespaces::Container),
            ("podman, proc", podman, Step::Proc, Errno::PERM, Namespaces::ProcMasked),
            ("red hat 7", red_hat, Step::User, Errno::NOSPC, Namespaces::MaxUser),
            ("no networks", no_network, Step::Network, Errno::NOSPC, Namespaces::MaxNetwork),
            ("no networks, the run's call", no_network, Step::Others, Errno::NOSPC, Namespaces::MaxNetwork),
            ("nested too deep", nothing, Step::User, Errno::USERS, Namespaces::AtLimit),
            ("a full disk is no limit", red_hat, Step::Tmpfs, Errno::NOSPC, Namespaces::Refused),
            ("an old kernel", nothing, Step::User, Errno::NOSYS, Namespaces::NotBuilt),
            ("a small kernel", nothing, Step::Pid, Errno::INVAL, Namespaces::NotBuilt),
            ("no tmpfs", nothing, Step::Tmpfs, Errno::NODEV, Namespaces::NotBuilt),
            ("chroot", chroot, Step::User, Errno::PERM, Namespaces::Chroot),
            ("unmapped", unmapped, Step::User, Errno::PERM, Namespaces::IdMap),
            ("a map refused", nothing, Step::IdMap, Errno::PERM, Namespaces::IdMap),
            ("masked proc", nothing, Step::Proc, Errno::PERM, Namespaces::ProcMasked),
            ("no reason to be seen", nothing, Step::User, Errno::PERM, Namespaces::Refused),
            ("an odd answer", nothing, Step::IdMap, Errno::IO, Namespaces::Refused),
        ] {
            assert_eq!(around.finding(step, errno), finding, "{name}");
        }
    }

    #[test]
    fn labels_of_confined_processes() {
        for label in
            ["docker-default (enforce)\n", "a b (enforce)", "system_u:system_r:container_t:s0:c1,c2\0"]
        {
            assert!(is_confined(label), "{label}");
        }
        for label in [
            "unconfined\n",
            "oz0-node (unconfined)\n",
            "docker-default (complain)\n",
            "",
            "kernel\0",
            "unconfined_u:unconfined_r:unconfined_t:s0-s0:c0.c1023",
        ] {
            assert!(!is_confined(label), "{label}");
        }
    }

    #[test]
    fn texts_of_proc() {
        let status = "Name:\tcat\nCapEff:\t000001fffeffffff\nSeccomp:\t2\nSeccomp_filters:\t1\n";
        assert_eq!(field(status, "Seccomp:"), Some("2"));
        assert_eq!(field(status, "CapEff:"), Some("000001fffeffffff"));
        assert_eq!(field(status, "NoNewPrivs:"), None);
        assert!(!is_chrooted("22 1 0:21 / / rw - ext4 /dev/vda rw\n23 22 0:22 / /proc rw - proc proc rw\n"));
        assert!(is_chrooted("23 22 0:22 / /proc rw - proc proc rw\n"));
        let map = "         0     100000      65536\n     70000       1000          1\n";
        for (user, mapped) in [(0, true), (65535, true), (65536, false), (70000, true), (70001, false)] {
            assert_eq!(maps(map, user), mapped, "{user}");
        }
        assert!(maps("         0          0 4294967295\n", 4_294_967_294));
        assert!(!maps("", 0) && !maps("x y z\n", 0));
    }
}
