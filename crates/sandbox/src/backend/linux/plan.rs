//! All that a run on Linux will do, as plain data. Pure: from a policy, what this machine looks like, and what
//! is to be protected. Touches nothing.

mod grants;
mod show;
mod tree;

pub use grants::{PlanError, check};

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::survey::{Kind, Survey};
use crate::limits::{Cpu, Limits};
use crate::policy::{Access, Network, Policy};
use crate::protected::Protected;
use crate::text;

/// Where the run's proxy listens, on the loopback of its own network namespace: any port would do there, and a
/// fixed one keeps plans comparable.
pub const PROXY_PORT: u16 = 47320;

/// Where the second, hidden copies of writable folders lie that keep protected folders in place.
pub(super) const HIDDEN: &str = "/.oz0";

/// What is laid over a folder that must not be seen.
pub(super) const CLOSED_FOLDER: &str = "folder";

/// What is laid over anything else that must not be seen.
pub(super) const CLOSED_FILE: &str = "file";

/// Everything that will be done, in the order in which it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The caller's ids, which stay the same inside.
    pub identity: Identity,
    /// The cgroup that every process of the run is in.
    pub cgroup: Option<CgroupPlan>,
    /// The network it sees.
    pub network: NetworkPlan,
    /// The most that the run's own memory (TEMP, HOME, /dev/shm) may hold, in bytes.
    pub memory_files: u64,
    /// The file tree, step by step.
    pub tree: Vec<Step>,
    /// What Landlock lets through, where this kernel has it.
    pub landlock: Option<LandlockPlan>,
    /// Is the system-call filter loaded?
    pub filter: bool,
    /// Are capabilities dropped and the init made unreadable?
    pub drop_privileges: bool,
    /// Does it get a terminal of its own?
    pub terminal: bool,
    /// Where the command starts.
    #[serde(with = "text::path")]
    pub start: PathBuf,
    /// The run's TEMP.
    #[serde(with = "text::path")]
    pub temp: PathBuf,
    /// The run's own home, inside TEMP.
    #[serde(with = "text::path")]
    pub home: PathBuf,
    /// The program and its arguments.
    #[serde(with = "text::words")]
    pub command: Vec<OsString>,
    /// What a person should know about this plan.
    pub notes: Vec<String>,
}

/// The caller's ids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Identity {
    pub uid: u32,
    pub gid: u32,
    pub user: String,
}

/// The cgroup of a run: what all its processes together may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupPlan {
    /// Bytes.
    pub memory: u64,
    /// Tasks: the kernel counts threads, and the run's own init is one.
    pub processes: u32,
    /// CPU time.
    pub cpu: Cpu,
}

impl CgroupPlan {
    /// The limits to set.
    pub fn limits(&self) -> Limits {
        Limits { memory: self.memory, processes: self.processes, cpu: self.cpu, timeout: None }
    }
}

/// The network of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkPlan {
    /// A network namespace with nothing but a loopback, on which the egress proxy listens.
    Proxy {
        /// The proxy's port on 127.0.0.1.
        port: u16,
    },
    /// The node's own network.
    Host,
}

/// One step in making the tree. Paths are those inside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// A folder in the run's own memory.
    Folder {
        /// Where.
        #[serde(with = "text::path")]
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// A small file in the run's own memory.
    File {
        /// Where.
        #[serde(with = "text::path")]
        path: PathBuf,
        /// What it says.
        #[serde(with = "text::bytes")]
        contents: Vec<u8>,
    },
    /// A copy in the run's own memory of a small file of the host that everyone may read.
    Copy {
        /// Where it is on the host, without links.
        #[serde(with = "text::path")]
        source: PathBuf,
        /// Where the copy goes.
        #[serde(with = "text::path")]
        path: PathBuf,
    },
    /// A symbolic link.
    Link {
        /// Where.
        #[serde(with = "text::path")]
        path: PathBuf,
        /// What it says.
        #[serde(with = "text::path")]
        target: PathBuf,
    },
    /// Part of the host's tree, at the same path or another.
    Bind {
        /// Where it is on the host, without links.
        #[serde(with = "text::path")]
        source: PathBuf,
        /// Where it goes.
        #[serde(with = "text::path")]
        target: PathBuf,
        /// May it be written?
        access: Access,
        /// A folder with all that is mounted below it, or one inode.
        folder: bool,
        /// Do device nodes open?
        devices: bool,
    },
    /// A folder made earlier, writable when the rest of the run's own memory no longer is.
    Writable {
        /// Which.
        #[serde(with = "text::path")]
        path: PathBuf,
    },
    /// The process file system of the run's own pid namespace.
    Proc {
        /// For a root caller: its files belong to the host's root, which the caller is.
        read_only: bool,
    },
    /// Terminals of the run's own.
    Terminals,
    /// The run's own cgroup, read-only, so that programs size themselves by it.
    CgroupView,
    /// Read-only, as it stands: a protected path inside something writable.
    Protect {
        /// Which, at the same path on the host.
        #[serde(with = "text::path")]
        path: PathBuf,
        /// A folder or one inode.
        folder: bool,
    },
    /// Folders and links that cannot be renamed or removed while the run lasts: a second copy of the writable folder, out
    /// of sight, in which each is a mount point.
    Pin {
        /// The writable folder.
        #[serde(with = "text::path")]
        root: PathBuf,
        /// Where its second copy goes.
        #[serde(with = "text::path")]
        hidden: PathBuf,
        /// The folders, below `root`.
        #[serde(with = "text::paths")]
        folders: Vec<PathBuf>,
    },
    /// Something empty and closed over what must not be seen.
    Hide {
        /// Which.
        #[serde(with = "text::path")]
        path: PathBuf,
        /// A folder or one inode.
        folder: bool,
    },
    /// The run's own memory becomes read-only, but for what [`Step::Writable`] named.
    Seal,
}

impl Step {
    /// Does it make something in the run's own memory?
    pub fn is_in_memory(&self) -> bool {
        matches!(self, Step::Folder { .. } | Step::File { .. } | Step::Copy { .. } | Step::Link { .. })
    }

    /// How many mounts the step makes.
    pub fn mounts(&self) -> usize {
        match self {
            Step::Folder { .. } | Step::File { .. } | Step::Copy { .. } | Step::Link { .. } | Step::Seal => 0,
            Step::Pin { folders, .. } => 1 + folders.len(),
            // Three on version 1, one on version 2: counted at its worst.
            Step::CgroupView => 3,
            _ => 1,
        }
    }
}

/// What Landlock lets through.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LandlockPlan {
    /// The version asked for, all of it enforced or the run does not start.
    pub abi: u32,
    /// Paths that may be read and executed.
    #[serde(with = "text::paths")]
    pub read: Vec<PathBuf>,
    /// Paths that may be changed as well.
    #[serde(with = "text::paths")]
    pub write: Vec<PathBuf>,
    /// Device folders: files in them may be written, none made.
    #[serde(with = "text::paths")]
    pub devices: Vec<PathBuf>,
}

/// Make the plan.
pub fn plan(policy: &Policy, survey: &Survey, protected: &Protected) -> Result<Plan, PlanError> {
    let (grants, sockets) = grants::granted(policy, survey)?;
    let work = grants[0].real.clone();
    let is_granted = |path: &str| grants.iter().any(|grant| grant.real == Path::new(path));
    let temp = PathBuf::from(if is_granted("/tmp") { "/run/tmp" } else { "/tmp" });
    let home = temp.join("home");
    let mut notes = Vec::new();

    let mut steps = tree::skeleton(survey, &temp, &home);
    steps.extend(tree::etc_steps(survey, &home));
    steps.extend(tree::system(survey));
    steps.extend(tree::devices());
    steps.push(Step::Proc { read_only: survey.uid == 0 });
    steps.push(Step::Writable { path: temp.clone() });
    steps.push(Step::Writable { path: "/dev/shm".into() });

    let mut binds: Vec<(PathBuf, Access, bool)> = grants
        .iter()
        .map(|grant| (grant.real.clone(), grant.access, grant.kind == Kind::Folder))
        .chain(protected.enclosing.iter().flat_map(|enclosing| {
            let access = if enclosing.granted { Access::Write } else { Access::Read };
            enclosing.outside.iter().map(move |path| (path.clone(), access, true))
        }))
        .chain(tree::node_binary(policy, survey).map(|path| (path, Access::Read, false)))
        .chain(sockets.iter().map(|path| (path.clone(), Access::Write, false)))
        .collect();
    // The most specific path wins, whatever the order in which they were given: outer ones are mounted first.
    binds.sort_by(|one, other| tree::depth(&one.0).cmp(&tree::depth(&other.0)).then_with(|| one.cmp(other)));
    binds.dedup_by(|later, earlier| later.0 == earlier.0 && later.1 <= earlier.1);
    for (path, access, folder) in &binds {
        steps.push(Step::Bind {
            source: path.clone(),
            target: path.clone(),
            access: *access,
            folder: *folder,
            devices: false,
        });
    }
    steps.extend(tree::links(policy, survey));

    let writable: Vec<PathBuf> = binds
        .iter()
        .filter(|(_, access, _)| *access == Access::Write)
        .map(|(path, ..)| path.clone())
        .collect();
    steps.extend(tree::protections(protected, &writable));
    for socket in survey.sockets.iter().filter(|socket| !sockets.contains(socket)) {
        notes.push(format!("socket {} is closed inside", text::escape(socket.as_os_str())));
        steps.push(Step::Hide { path: socket.clone(), folder: false });
    }
    steps.extend(tree::hidden_data_directory(policy, survey));
    // Late: the cgroup is made while what comes before is done.
    steps.push(Step::CgroupView);
    steps.push(Step::Seal);
    let steps = tree::with_mount_points(steps);

    let landlock = survey.landlock.map(|abi| LandlockPlan {
        abi: abi.min(super::landlock::NEWEST),
        read: vec!["/".into()],
        write: writable.iter().cloned().chain([temp.clone(), "/dev/shm".into()]).collect(),
        devices: vec!["/dev".into(), "/proc".into()],
    });
    if landlock.is_none() {
        notes.push("this kernel has no Landlock: the mount namespace alone holds the files".into());
    }
    Ok(Plan {
        identity: Identity { uid: survey.uid, gid: survey.gid, user: survey.user.clone() },
        cgroup: Some(CgroupPlan {
            memory: policy.limits.memory,
            processes: policy.limits.processes,
            cpu: policy.limits.cpu,
        }),
        network: match policy.network {
            Network::Proxy { .. } => NetworkPlan::Proxy { port: PROXY_PORT },
            Network::Host => NetworkPlan::Host,
        },
        memory_files: policy.limits.memory,
        tree: steps,
        landlock,
        filter: true,
        drop_privileges: true,
        terminal: survey.terminal,
        start: work,
        temp,
        home,
        command: policy.command.clone(),
        notes,
    })
}

#[cfg(test)]
mod tests;
