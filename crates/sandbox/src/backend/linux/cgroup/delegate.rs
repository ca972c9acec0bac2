//! Root hands a folder of each tree to an ordinary user, once; and takes it back. What it did is returned as
//! data: somebody else prints it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::io::Errno;
use serde::Serialize;

use super::base::{self, Caller, LEAF};
use super::folder::Folder;
use super::place::{OWN_FOLDER, is_of_a_run, layout};
use super::{CgroupError, CgroupRefusal, Hierarchy, Version};

/// What was handed to whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Delegation {
    /// The user's number.
    pub uid: u32,
    /// Which version this system has.
    pub version: Version,
    /// The user's folders, one for each tree.
    pub folders: Vec<PathBuf>,
    /// Those of them that this call made; none when all were there.
    pub made: Vec<PathBuf>,
    /// The process that was moved into it.
    pub moved: Option<u32>,
    /// How the user's shell gets in, where it must: version 2 lets an ordinary user move processes only within
    /// the delegated folder.
    pub enter: Option<String>,
    /// The command that takes it back.
    pub undo: String,
}

/// Why nothing was handed over, or not taken back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DelegationError {
    /// Only root may.
    #[error("only root can hand a cgroup folder to a user")]
    NotRoot,
    /// There is no such user.
    #[error("there is no user {0:?}")]
    NoUser(String),
    /// Root has its own.
    #[error("root needs no delegated folder")]
    Root,
    /// The process to move is somebody else's, or gone.
    #[error("process {pid} is not one of user {uid}")]
    NotTheirs {
        /// The process.
        pid: u32,
        /// The user.
        uid: u32,
    },
    /// This system has no usable cgroups.
    #[error(transparent)]
    Refused(#[from] CgroupRefusal),
    /// A call failed.
    #[error(transparent)]
    Failed(#[from] CgroupError),
}

/// Hands a folder of each tree to `user` (a name or a number), and moves the process `pid` of theirs into it
/// where that is needed. Doing it again changes nothing.
///
/// The folders lie below the nearest cgroup around root's own that holds a limit, else at the top: a
/// container's limits hold for what it hands on. The folders' own limits stay root's to set.
pub fn delegate(user: &str, pid: Option<u32>) -> Result<Delegation, DelegationError> {
    let (caller, (uid, gid)) = (root()?, account(user)?);
    if let Some(pid) = pid
        && fs::metadata(format!("/proc/{pid}")).map(|process| process.uid()).ok() != Some(uid)
    {
        return Err(DelegationError::NotTheirs { pid, uid });
    }
    let layout = layout()?;
    let (mut folders, mut made) = (Vec::new(), Vec::new());
    let name = base::delegated_name(uid);
    for tree in &layout.hierarchies {
        let base = match layout.version {
            Version::V1 => base::limit_holder(layout.version, tree)?,
            Version::V2 => base::find(layout.version, tree, caller)?,
        };
        if base.make_child(&name)? {
            made.push(base.path().join(&name));
        }
        let folder = base.open_child(&name)?;
        folder.give(".", uid, gid)?;
        if layout.version == Version::V2 {
            prepare_2(&folder, caller, uid, gid)?;
        }
        folders.push(folder.path().to_owned());
    }
    let needs_entry = layout.version == Version::V2;
    if let (Some(pid), true) = (pid, needs_entry) {
        for folder in &folders {
            Folder::open(&folder.join(LEAF))?.write("cgroup.procs", &pid.to_string())?;
        }
    }
    let enter =
        format!("oz0-node sandbox delegate --user {uid} --pid PID, with the pid of that user's shell");
    Ok(Delegation {
        uid,
        version: layout.version,
        folders,
        made,
        moved: pid.filter(|_| needs_entry),
        enter: needs_entry.then_some(enter),
        undo: format!("oz0-node sandbox delegate --user {uid} --undo"),
    })
}

/// Version 2: the files that the kernel lists in /sys/kernel/cgroup/delegate as the new owner's, the
/// controllers switched on, and a leaf for the user's own processes.
fn prepare_2(folder: &Folder, caller: Caller, uid: u32, gid: u32) -> Result<(), DelegationError> {
    let give = |folder: &Folder| {
        [".", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"]
            .iter()
            .try_for_each(|file| folder.give(file, uid, gid))
    };
    give(folder)?;
    base::enable(folder, caller)?;
    folder.make_child(LEAF)?;
    give(&folder.open_child(LEAF)?)?;
    Ok(())
}

/// Takes back what [`delegate`] handed over, and returns what was removed. Folders of runs that ended are
/// removed with it; a run that still goes on is an error.
pub fn undo(user: &str) -> Result<Vec<PathBuf>, DelegationError> {
    root()?;
    let (uid, _) = account(user)?;
    let mut removed = Vec::new();
    for tree in &layout()?.hierarchies {
        take_back(tree, &base::delegated_name(uid), &mut removed)?;
    }
    Ok(removed)
}

fn take_back(tree: &Hierarchy, name: &str, removed: &mut Vec<PathBuf>) -> Result<(), CgroupError> {
    for base in base::around(tree) {
        let folder = match base.open_child(name) {
            Err(error) if error.errno() == Some(Errno::NOENT) => continue,
            folder => folder?,
        };
        if let Ok(own) = folder.open_child(OWN_FOLDER) {
            for run in own.children()?.iter().filter(|name| is_of_a_run(name)) {
                remove(&own, run)?;
            }
            remove(&folder, OWN_FOLDER)?;
        }
        remove(&folder, LEAF)?;
        remove(&base, name)?;
        removed.push(folder.path().to_owned());
    }
    Ok(())
}

/// Removes a cgroup, and names the processes that keep it.
fn remove(parent: &Folder, name: &str) -> Result<(), CgroupError> {
    match parent.remove_child(name) {
        Err(error) if error.errno() == Some(Errno::BUSY) => {
            let members = parent.open_child(name).and_then(|folder| folder.members()).unwrap_or_default();
            Err(CgroupError::Busy { path: parent.path().join(name), members })
        }
        done => done,
    }
}

fn root() -> Result<Caller, DelegationError> {
    let caller = Caller::this();
    if caller.uid == 0 { Ok(caller) } else { Err(DelegationError::NotRoot) }
}

/// The number and group of a user. Users may come from anywhere the system looks (files, LDAP), so the
/// system's own `getent` is asked; a machine without it has its users in /etc/passwd.
fn account(user: &str) -> Result<(u32, u32), DelegationError> {
    let unknown = || DelegationError::NoUser(user.to_owned());
    if user.is_empty() || user.starts_with('-') || user.contains([':', '\n']) {
        return Err(unknown());
    }
    let asked = Command::new("/usr/bin/getent")
        .args(["passwd", "--", user])
        .env_clear()
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let text = match asked {
        Ok(answer) => String::from_utf8_lossy(&answer.stdout).into_owned(),
        Err(_) => fs::read_to_string("/etc/passwd").unwrap_or_default(),
    };
    match text.lines().find_map(|line| entry(line, user)) {
        Some((0, _)) => Err(DelegationError::Root),
        Some(account) => Ok(account),
        None => nameless(user).ok_or_else(unknown),
    }
}

/// Containers run as numbers that no list of users knows.
fn nameless(user: &str) -> Option<(u32, u32)> {
    let uid: u32 = user.parse().ok()?;
    (uid != 0 && uid != u32::MAX).then_some((uid, uid))
}

/// `name:x:uid:gid:…` of that name or number.
fn entry(line: &str, user: &str) -> Option<(u32, u32)> {
    let fields: Vec<&str> = line.split(':').collect();
    let [name, _, uid, gid, ..] = fields[..] else { return None };
    (name == user || uid == user).then_some(())?;
    Some((uid.parse().ok()?, gid.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_number() {
        assert_eq!(account("nobody"), account("65534"));
        assert_eq!(account("nobody").unwrap().0, 65534);
        assert_eq!(account("root"), Err(DelegationError::Root));
        assert_eq!(account("1234567"), Ok((1_234_567, 1_234_567)));
        for absent in ["no-such-user-here", "", "--version", "4294967295", "a:b", "-1"] {
            assert_eq!(account(absent), Err(DelegationError::NoUser(absent.to_owned())), "{absent}");
        }
    }

    #[test]
    fn an_entry_is_taken_whole_or_not() {
        assert_eq!(entry("ann:x:1000:100:Ann:/home/ann:/bin/sh", "ann"), Some((1000, 100)));
        assert_eq!(entry("ann:x:1000:100:Ann:/home/ann:/bin/sh", "1000"), Some((1000, 100)));
        for (line, user) in [("ann:x:1000:100::", "an"), ("ann:x:-1:100::", "ann"), ("ann:x:1000", "ann")] {
            assert_eq!(entry(line, user), None, "{line}");
        }
    }
}
