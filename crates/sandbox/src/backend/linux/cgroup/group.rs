//! One run's cgroup: made, joined, measured, removed. Given a place and limits; knows nothing of the run.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::folder::{Folder, read_from_start};
use super::place::Branch;
use super::settings::{Setting, settings};
use super::{CgroupError, Version, counters};
use crate::limits::{Limits, Usage};

/// How long a removal waits for processes that were just killed to leave the kernel.
const PATIENCE: Duration = Duration::from_secs(2);
/// The same when a group is dropped without [`Group::remove`], on the way out of an error.
const PATIENCE_OF_DROP: Duration = Duration::from_millis(20);

/// A cgroup with its limits set. It is removed when dropped; [`Group::remove`] says whether that worked.
#[derive(Debug)]
pub struct Group {
    version: Version,
    name: String,
    limits: Limits,
    branches: Arc<[Branch]>,
    /// Beside `branches`. The first is locked: that is what tells a live run's folders from a dead one's.
    folders: Vec<Folder>,
    joins: Vec<OwnedFd>,
    removed: bool,
}

impl Group {
    /// Makes the folders called `name`, locks the first and sets the limits. None when the name is taken.
    pub(super) fn make(
        version: Version,
        branches: &Arc<[Branch]>,
        name: String,
        limits: &Limits,
    ) -> Result<Option<Group>, CgroupError> {
        if !branches[0].folder.make_child(&name)? {
            return Ok(None);
        }
        let mut group = Group {
            version,
            name,
            limits: *limits,
            branches: Arc::clone(branches),
            folders: Vec::new(),
            joins: Vec::new(),
            removed: false,
        };
        let settings = settings(version, limits);
        for (position, branch) in branches.iter().enumerate() {
            if position > 0 && !branch.folder.make_child(&group.name)? {
                // A leftover whose first folder somebody removed by hand: a fresh one takes its place.
                branch.folder.remove_child(&group.name)?;
                branch.folder.make_child(&group.name)?;
            }
            let Some((folder, join)) = group.claim(position)? else { return Ok(None) };
            for setting in settings.iter().filter(|set| branch.controllers.contains(&set.controller)) {
                set(&folder, setting)?;
            }
            group.joins.push(join);
            group.folders.push(folder);
        }
        Ok(Some(group))
    }

    /// Opens a folder that was just made, the first one locked. None when a sweep came between and removes it
    /// as a leftover: another name is free.
    fn claim(&mut self, position: usize) -> Result<Option<(Folder, OwnedFd)>, CgroupError> {
        let is_first = position == 0;
        let folder = match self.branches[position].folder.open_child(&self.name) {
            Err(error) if is_first && error.errno() == Some(Errno::NOENT) => return Ok(None),
            folder => folder?,
        };
        if is_first && !folder.lock()? {
            self.removed = true;
            return Ok(None);
        }
        // After the lock: a folder that was removed before it was locked has no files any more.
        let file = self.join_file();
        match folder.open_file(file, OFlags::WRONLY) {
            Ok(join) => Ok(Some((folder, join))),
            Err(Errno::NOENT | Errno::NODEV) if is_first => Ok(None),
            Err(errno) => Err(folder.failed("open", file, errno)),
        }
    }

    /// The folder's name, as the sweep and a person find it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Which version holds the limits.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The limits as they are held: the cap on CPU is never above one that a cgroup around it has.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Version 1 has a file that moves one thread. For a process with one thread that is the same, and the kernel
    /// does not wait for all processors as it does when it moves a process (that costs milliseconds).
    fn join_file(&self) -> &'static str {
        match self.version {
            Version::V1 => "tasks",
            Version::V2 => "cgroup.procs",
        }
    }

    /// Descriptors, one for each tree: a process with one thread joins by writing `0` to each of them. The
    /// opener's rights count, so a forked child may do it from a new user namespace; close-on-exec is set.
    pub fn joins(&self) -> &[OwnedFd] {
        &self.joins
    }

    /// The folder that a process can be made in (`CLONE_INTO_CGROUP`), which moves nobody and so waits for
    /// nothing. Version 2 only.
    pub fn birthplace(&self) -> Option<BorrowedFd<'_>> {
        (self.version == Version::V2).then(|| self.folders[0].as_fd())
    }

    /// Puts a process into the group from outside. For launches, [`Group::joins`] leaves no gap.
    pub fn add(&self, pid: u32) -> Result<(), CgroupError> {
        self.folders.iter().try_for_each(|folder| folder.write("cgroup.procs", &pid.to_string()))
    }

    /// What to show read-only inside the sandbox: each folder, and the name below `/sys/fs/cgroup` under which
    /// programs look for it (empty on version 2: the folder is `/sys/fs/cgroup` itself).
    pub fn views(&self) -> Vec<(PathBuf, PathBuf)> {
        let view = |(branch, folder): (&Branch, &Folder)| (folder.path().to_owned(), branch.view.clone());
        self.branches.iter().zip(&self.folders).map(view).collect()
    }

    /// What all processes used so far.
    pub fn usage(&self) -> Usage {
        counters::usage(self.version, |file| self.folders.iter().find_map(|folder| folder.read(file).ok()))
    }

    /// The pids in the group.
    pub fn members(&self) -> Result<Vec<i32>, CgroupError> {
        self.folders[0].members()
    }

    /// Stops every process in the group and returns once they stand still. Version 2 only.
    pub fn freeze(&self) -> Result<(), CgroupError> {
        self.set_frozen("1")
    }

    /// Lets them run again. Version 2 only.
    pub fn thaw(&self) -> Result<(), CgroupError> {
        self.set_frozen("0")
    }

    fn set_frozen(&self, wanted: &str) -> Result<(), CgroupError> {
        if self.version == Version::V1 {
            return Err(CgroupError::NoFreezer);
        }
        let folder = &self.folders[0];
        folder.write("cgroup.freeze", wanted)?;
        let state = format!("frozen {wanted}");
        let stands = || Ok(folder.read("cgroup.events")?.lines().any(|line| line == state));
        if patiently(PATIENCE, stands)? {
            return Ok(());
        }
        Err(folder.failed("freeze or thaw", "", Errno::TIMEDOUT))
    }

    /// Removes the folders, waiting a bounded time for processes that were just killed.
    pub fn remove(mut self) -> Result<(), CgroupError> {
        self.unlink(PATIENCE)
    }

    /// The locked folder goes last, so that what a crash leaves behind is found by its first folder.
    fn unlink(&mut self, patience: Duration) -> Result<(), CgroupError> {
        if self.removed {
            return Ok(());
        }
        for branch in self.branches.iter().rev() {
            let gone = || match branch.folder.remove_child(&self.name) {
                Ok(()) => Ok(true),
                Err(error) if error.errno() == Some(Errno::BUSY) => Ok(false),
                Err(error) => Err(error),
            };
            if !patiently(patience, gone)? {
                let path = branch.folder.path().join(&self.name);
                let members = Folder::open(&path).and_then(|folder| folder.members()).unwrap_or_default();
                return Err(CgroupError::Busy { path, members });
            }
        }
        self.removed = true;
        Ok(())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // What cannot be removed now the next sweep removes: the lock goes with this process at the latest.
        let _ = self.unlink(PATIENCE_OF_DROP);
    }
}

/// Writes a limit and reads it back through the same descriptor: a limit that was not taken is an error.
fn set(folder: &Folder, setting: &Setting) -> Result<(), CgroupError> {
    let file = match folder.open_file(setting.file, OFlags::RDWR) {
        Ok(file) => file,
        Err(Errno::NOENT) if setting.may_be_missing => return Ok(()),
        Err(errno) => return Err(folder.failed("open", setting.file, errno)),
    };
    rustix::io::write(&file, setting.value.as_bytes())
        .map_err(|errno| folder.failed("write", setting.file, errno))?;
    let read = read_from_start(file.as_fd()).map_err(|errno| folder.failed("read", setting.file, errno))?;
    if setting.taken(&read) {
        return Ok(());
    }
    Err(CgroupError::NotTaken {
        path: path_of(folder, setting.file),
        asked: setting.value.clone(),
        read: read.trim_end().to_owned(),
    })
}

fn path_of(folder: &Folder, file: &str) -> PathBuf {
    Path::join(folder.path(), file)
}

/// Asks again, after 50 µs and then ever longer, until it is so or the time is up.
fn patiently(patience: Duration, is_so: impl Fn() -> Result<bool, CgroupError>) -> Result<bool, CgroupError> {
    let end = Instant::now() + patience;
    let mut pause = Duration::from_micros(50);
    loop {
        if is_so()? {
            return Ok(true);
        }
        if Instant::now() >= end {
            return Ok(false);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}
