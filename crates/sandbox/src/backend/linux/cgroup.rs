//! The cgroup of a run: memory, tasks and CPU of all its processes together, on version 2 or 1.
//!
//! The pure half decides from texts of `/proc` where runs' cgroups go (`layout`), which files hold the limits
//! (`settings`) and what the counters say (`counters`). The acting half finds the folder this caller may use
//! (`base`, [`Place`]), makes one cgroup a run in it ([`Group`]) and lets root hand such a folder to an
//! ordinary user ([`delegate()`]). It does not know what a run is: it is given a name and limits.
//!
//! A run's folder is locked (flock) by the process that made it for as long as that lives, so that a leftover
//! of a dead run is told from a live run's by the kernel, without a guess about pids.

mod counters;
mod layout;
mod settings;

pub use layout::{Hierarchy, Layout};

#[cfg(target_os = "linux")]
mod base;
#[cfg(target_os = "linux")]
mod delegate;
#[cfg(target_os = "linux")]
mod folder;
#[cfg(target_os = "linux")]
mod group;
#[cfg(target_os = "linux")]
mod place;

#[cfg(target_os = "linux")]
pub use delegate::{Delegation, DelegationError, delegate, undo};
#[cfg(target_os = "linux")]
pub use group::Group;
#[cfg(target_os = "linux")]
pub use place::{Place, Swept};

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The two versions of cgroups. A run's limits are held by one of them, never by both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Version {
    /// A tree for each controller.
    V1,
    /// One tree.
    V2,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Version::V1 => "v1",
            Version::V2 => "v2",
        })
    }
}

/// A controller that a run needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Controller {
    /// Resident memory.
    Memory,
    /// Tasks: processes and threads.
    Pids,
    /// CPU time.
    Cpu,
}

impl Controller {
    /// All three; the first one's folder carries the lock of a run.
    pub const ALL: [Controller; 3] = [Controller::Memory, Controller::Pids, Controller::Cpu];

    /// The kernel's name.
    pub const fn name(self) -> &'static str {
        match self {
            Controller::Memory => "memory",
            Controller::Pids => "pids",
            Controller::Cpu => "cpu",
        }
    }
}

impl fmt::Display for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

fn listed(controllers: &[Controller]) -> String {
    controllers.iter().map(|controller| controller.name()).collect::<Vec<_>>().join(", ")
}

/// Why this caller has no usable cgroup: a stable code, and what to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CgroupRefusal {
    /// No cgroup file system at all.
    #[error("no cgroup file system is mounted")]
    NotMounted,
    /// Neither version has all three.
    #[error(
        "neither cgroup v2 nor v1 has memory, pids and cpu together (v2 lacks {}, v1 lacks {})",
        listed(v2),
        listed(v1)
    )]
    NoControllers {
        /// What v2 lacks.
        v2: Vec<Controller>,
        /// What v1 lacks.
        v1: Vec<Controller>,
    },
    /// An ordinary user to whom no folder was handed.
    #[error("no cgroup {version} folder is delegated to user {uid}{}", lacking_words(lacking))]
    NotDelegated {
        /// Which version this system has.
        version: Version,
        /// The user.
        uid: u32,
        /// Controllers that the user's own part of the tree lacks, where there is such a part.
        lacking: Vec<Controller>,
        /// Whether systemd manages the tree.
        systemd: bool,
    },
    /// The folder that would hold the runs' cgroups holds processes, and nobody said that it is ours to arrange.
    #[error("the cgroup {} holds processes, so no cgroup with limits can be made below it", path.display())]
    HoldsProcesses {
        /// That folder.
        path: PathBuf,
        /// Whether systemd manages the tree.
        systemd: bool,
    },
    /// The system answered a call with an error.
    #[error(transparent)]
    Failed(#[from] CgroupError),
}

fn lacking_words(lacking: &[Controller]) -> String {
    if lacking.is_empty() { String::new() } else { format!(" with {}", listed(lacking)) }
}

impl CgroupRefusal {
    /// A stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            CgroupRefusal::NotMounted => "cgroup-not-mounted",
            CgroupRefusal::NoControllers { .. } => "cgroup-no-controllers",
            CgroupRefusal::NotDelegated { .. } => "cgroup-not-delegated",
            CgroupRefusal::HoldsProcesses { .. } => "cgroup-holds-processes",
            CgroupRefusal::Failed(CgroupError::Os { code: EROFS, .. }) => "cgroup-read-only",
            CgroupRefusal::Failed(CgroupError::Os { code: EPERM | EACCES, .. }) => "cgroup-not-permitted",
            CgroupRefusal::Failed(_) => "cgroup-failed",
        }
    }

    /// What to change, as one sentence or two.
    pub fn fix(&self) -> String {
        match self {
            CgroupRefusal::NotMounted => {
                "Mount the cgroup file system at /sys/fs/cgroup (mount -t cgroup2 none /sys/fs/cgroup).".to_owned()
            }
            CgroupRefusal::NoControllers { .. } => {
                "Start the kernel with the missing controllers (some boards need \
                 cgroup_enable=memory on the kernel's command line), or give the container its controllers."
                    .to_owned()
            }
            CgroupRefusal::NotDelegated { version: Version::V2, systemd: true, uid, lacking } => {
                let start = "Start it with systemd-run --user --scope -p Delegate=yes -- COMMAND, \
                             or set Delegate=yes in its service unit.";
                if lacking.is_empty() {
                    return start.to_owned();
                }
                format!(
                    "As root, once, put [Service] and Delegate=cpu memory pids into \
                     /etc/systemd/system/user@.service.d/delegate.conf (user {uid} lacks {}), run systemctl \
                     daemon-reload and log in again. {start}",
                    listed(lacking)
                )
            }
            CgroupRefusal::NotDelegated { version: Version::V2, systemd: false, uid, .. } => format!(
                "Run once as root: oz0-node sandbox delegate --user {uid} --pid PID, with the pid of the shell \
                 that starts the runs."
            ),
            CgroupRefusal::NotDelegated { version: Version::V1, uid, .. } => {
                format!("Run once as root: oz0-node sandbox delegate --user {uid}.")
            }
            CgroupRefusal::HoldsProcesses { systemd: true, .. } => {
                "Set Delegate=yes in the service unit, or start it with systemd-run --scope -p Delegate=yes."
                    .to_owned()
            }
            CgroupRefusal::HoldsProcesses { systemd: false, .. } => {
                "Move those processes into a cgroup of their own below it, or start the node in one that is empty."
                    .to_owned()
            }
            CgroupRefusal::Failed(CgroupError::Os { code: EROFS | EPERM | EACCES, .. }) => {
                "Give this container cgroups of its own that it may write (docker run --privileged \
                 --cgroupns=private, or its run-time's own switch for nested containers)."
                    .to_owned()
            }
            CgroupRefusal::Failed(_) => {
                "Look up the named file and error: the kernel has the controller and did not take the limit."
                    .to_owned()
            }
        }
    }
}

// Linux's numbers, which the pure half needs on every system.
const EPERM: i32 = 1;
const EACCES: i32 = 13;
const EROFS: i32 = 30;

/// What went wrong with one run's cgroup.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CgroupError {
    /// A call failed.
    #[error("cannot {call} {}: {}", path.display(), std::io::Error::from_raw_os_error(*code))]
    Os {
        /// What was tried.
        call: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's error number.
        code: i32,
    },
    /// The kernel took a limit and then showed another one.
    #[error("the limit {asked} written to {} reads back as {read:?}", path.display())]
    NotTaken {
        /// The file of the limit.
        path: PathBuf,
        /// What was written.
        asked: String,
        /// What was read.
        read: String,
    },
    /// A name that is no plain word.
    #[error("{0:?} is no name for a cgroup: letters, digits and - only, at most 64")]
    Name(String),
    /// Every name that was tried exists.
    #[error("every name tried below {} is taken", path.display())]
    NamesTaken {
        /// The folder.
        path: PathBuf,
    },
    /// Processes in it do not end.
    #[error("the cgroup {} still holds processes {members:?}", path.display())]
    Busy {
        /// The folder.
        path: PathBuf,
        /// Their pids.
        members: Vec<i32>,
    },
    /// Version 1 as used here has no freezer.
    #[error("cgroup v1 as used for runs cannot freeze: its freezer is another tree")]
    NoFreezer,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusals() -> Vec<CgroupRefusal> {
        let undelegated =
            |version, systemd, lacking| CgroupRefusal::NotDelegated { version, uid: 1000, lacking, systemd };
        let failed = |code| {
            CgroupRefusal::Failed(CgroupError::Os { call: "make", path: "/sys/fs/cgroup/oz0".into(), code })
        };
        vec![
            CgroupRefusal::NotMounted,
            CgroupRefusal::NoControllers { v2: Controller::ALL.into(), v1: vec![Controller::Memory] },
            undelegated(Version::V1, false, vec![]),
            undelegated(Version::V2, false, vec![]),
            undelegated(Version::V2, true, vec![]),
            undelegated(Version::V2, true, vec![Controller::Cpu]),
            CgroupRefusal::HoldsProcesses { path: "/sys/fs/cgroup".into(), systemd: true },
            failed(30),
            failed(13),
            failed(22),
        ]
    }

    #[test]
    fn every_refusal_says_why_and_what_to_change() {
        let said: Vec<String> = refusals()
            .iter()
            .map(|refusal| format!("{}\n  {refusal}\n  {}", refusal.code(), refusal.fix()))
            .collect();
        insta::assert_snapshot!(said.join("\n"));
    }
}
