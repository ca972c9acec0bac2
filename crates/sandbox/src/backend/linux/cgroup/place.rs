//! The folders in which this caller may make runs' cgroups: found, used, and swept of what dead runs left.

use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::process::getpid;

use super::base::{self, Caller};
use super::folder::{Folder, os, read_from_start};
use super::group::Group;
use super::settings::cap_of;
use super::{CgroupError, CgroupRefusal, Controller, Hierarchy, Layout, Version};
use crate::limits::{Cpu, Limits};

/// The folder of this program's own, below whatever folder the caller may use.
pub(super) const OWN_FOLDER: &str = "oz0";

/// One tree's folder for runs.
#[derive(Debug)]
pub(super) struct Branch {
    pub folder: Folder,
    pub controllers: Vec<Controller>,
    /// Under which name below `/sys/fs/cgroup` a run sees its folder in this tree.
    pub view: PathBuf,
}

/// Where runs' cgroups go. Finding it is once for each process; making a group in it is the cheap part.
#[derive(Debug)]
pub struct Place {
    version: Version,
    /// The first has the memory controller.
    branches: Arc<[Branch]>,
    /// The smallest cap on CPU around the place, on version 1, where the kernel refuses a larger one inside.
    ceiling: Option<Cpu>,
}

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Folders of dead runs that were removed.
    pub removed: usize,
    /// Folders of live runs, left alone.
    pub live: usize,
    /// Folders of dead runs whose processes have not ended yet, or that could not be removed.
    pub left: usize,
}

/// Numbers the groups of this process.
static NEXT: AtomicU32 = AtomicU32::new(0);

impl Place {
    /// Finds where this caller may make runs' cgroups, and makes the folder for them where it is missing.
    ///
    /// Root's lie below the nearest cgroup around it that holds a limit, so that no limit on the node is
    /// escaped, and else at the top of the tree, so that they are the same folder from every login session. An
    /// ordinary user's lie in a folder delegated by root or by systemd. On version 2 a cgroup with processes in
    /// it cannot hold others with limits: in a delegated one, those processes are moved to a leaf `oz0-node`.
    pub fn find() -> Result<Place, CgroupRefusal> {
        let (layout, caller) = (&layout()?, Caller::this());
        let mut branches = Vec::new();
        let mut ceiling = None;
        for tree in &layout.hierarchies {
            let base = base::find(layout.version, tree, caller)?;
            let folder = match base.open_child(OWN_FOLDER) {
                Ok(folder) => folder,
                Err(_) => {
                    base.make_child(OWN_FOLDER)?;
                    base.open_child(OWN_FOLDER)?
                }
            };
            match layout.version {
                Version::V2 => base::enable(&folder, caller)?,
                Version::V1 if tree.controllers.contains(&Controller::Cpu) => {
                    ceiling = ceiling_of(&tree.point, folder.path());
                }
                Version::V1 => {}
            }
            if !folder.is_writable() {
                return Err(folder.failed("write in", "", Errno::ACCESS).into());
            }
            branches.push(Branch { folder, controllers: tree.controllers.clone(), view: view(layout, tree) });
        }
        Ok(Place { version: layout.version, branches: branches.into(), ceiling })
    }

    /// Which version holds the limits.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The folders, one for each tree.
    pub fn paths(&self) -> Vec<&Path> {
        self.branches.iter().map(|branch| branch.folder.path()).collect()
    }

    /// Makes a group with limits and removes it: what a probe tries, so that what it says is what a run meets.
    pub fn prove(&self, limits: &Limits) -> Result<(), CgroupRefusal> {
        Ok(self.create("probe", limits)?.remove()?)
    }

    /// Makes a cgroup whose name starts with `name`, and sets its limits. A limit that was not taken is an
    /// error, and what was made is removed again.
    pub fn create(&self, name: &str, limits: &Limits) -> Result<Group, CgroupError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if name.is_empty() || name.len() > 64 || !name.bytes().all(plain) {
            return Err(CgroupError::Name(name.to_owned()));
        }
        let cpu = self.ceiling.map_or(limits.cpu, |ceiling| ceiling.min(limits.cpu));
        let held = Limits { cpu, ..*limits };
        let pid = getpid().as_raw_nonzero();
        // A name is taken when a dead process of the same pid left it; a few tries get past any such.
        for _ in 0..64 {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("{name}.{pid}.{number}");
            if let Some(group) = Group::make(self.version, &self.branches, name, &held)? {
                return Ok(group);
            }
        }
        Err(CgroupError::NamesTaken { path: self.branches[0].folder.path().to_owned() })
    }

    /// Removes the folders of at most `at_most` dead runs. A run is dead when nobody holds its lock, which the
    /// kernel releases however its maker ends. Meant for after the command has started, not before.
    pub fn sweep(&self, at_most: usize) -> Swept {
        let mut swept = Swept::default();
        let first = &self.branches[0].folder;
        for name in first.children().unwrap_or_default() {
            if swept.removed + swept.left == at_most {
                break;
            }
            if !is_of_a_run(&name) {
                continue;
            }
            let Ok(folder) = first.open_child(&name) else { continue };
            match folder.lock() {
                Ok(true) if self.unlink(&name) => swept.removed += 1,
                Ok(false) => swept.live += 1,
                Ok(true) | Err(_) => swept.left += 1,
            }
        }
        swept
    }

    /// Last the first folder, as a run's own removal does.
    fn unlink(&self, name: &str) -> bool {
        self.branches.iter().rev().all(|branch| branch.folder.remove_child(name).is_ok())
    }
}

/// `name.pid.number`, the form that [`Place::create`] gives.
pub(super) fn is_of_a_run(name: &str) -> bool {
    let mut parts = name.rsplitn(3, '.');
    let mut number = || parts.next().is_some_and(|part| part.parse::<u32>().is_ok());
    number() && number() && parts.next().is_some_and(|name| !name.is_empty())
}

/// This process's layout.
pub(super) fn layout() -> Result<Layout, CgroupRefusal> {
    Layout::choose(&text_of("/proc/self/mountinfo")?, &text_of("/proc/self/cgroup")?, |point| {
        fs::read_to_string(point.join("cgroup.controllers")).unwrap_or_default()
    })
}

/// A mount point or a cgroup may be named with any bytes: those that are no text match nothing we look for.
fn text_of(path: &str) -> Result<String, CgroupError> {
    let failed = |call, errno| os(call, PathBuf::from(path), errno);
    let file =
        open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(|errno| failed("open", errno))?;
    read_from_start(file.as_fd()).map_err(|errno| failed("read", errno))
}

/// Version 2's folder is shown as `/sys/fs/cgroup` itself, version 1's under the name of its mount.
fn view(layout: &Layout, tree: &Hierarchy) -> PathBuf {
    match layout.version {
        Version::V2 => PathBuf::new(),
        Version::V1 => tree.point.file_name().map(PathBuf::from).unwrap_or_default(),
    }
}

/// The smallest cap at or above `folder`, up to the tree's mount point.
fn ceiling_of(point: &Path, folder: &Path) -> Option<Cpu> {
    let caps = folder.ancestors().take_while(|path| path.starts_with(point)).filter_map(|path| {
        let read = |file| fs::read_to_string(path.join(file)).ok();
        cap_of(&read("cpu.cfs_quota_us")?, &read("cpu.cfs_period_us")?)
    });
    caps.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_runs_are_swept() {
        for name in ["run.12.0", "self-test.4194304.4294967295", "a.b.1.2"] {
            assert!(is_of_a_run(name), "{name}");
        }
        for name in ["oz0-node", "init.scope", "run.12", "run.12.x", ".1.2", "1.2", "run..2", ""] {
            assert!(!is_of_a_run(name), "{name}");
        }
    }
}
