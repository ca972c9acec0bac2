//! The folder below which a caller's runs may go in one tree: root's, or one that was handed to a user.

use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::geteuid;

use super::folder::Folder;
use super::layout::lacking;
use super::settings::{holds_a_limit, unset};
use super::{CgroupError, CgroupRefusal, Controller, Hierarchy, Version};

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller {
    pub uid: u32,
    /// Whether systemd manages the trees: the fix differs.
    pub systemd: bool,
}

impl Caller {
    /// This process.
    pub fn this() -> Caller {
        Caller { uid: geteuid().as_raw(), systemd: Path::new("/run/systemd/system").exists() }
    }
}

/// The leaf to which the processes of a delegated version-2 cgroup move, since one with processes cannot hold
/// others with limits.
pub(super) const LEAF: &str = "oz0-node";

/// The name of the folder that root hands to a user.
pub(super) fn delegated_name(uid: u32) -> String {
    format!("oz0-u{uid}")
}

/// The folder in which [`super::place::OWN_FOLDER`] is made.
pub(super) fn find(version: Version, tree: &Hierarchy, caller: Caller) -> Result<Folder, CgroupRefusal> {
    match (version, caller.uid) {
        (Version::V1, 0) => Ok(limit_holder(version, tree)?),
        (Version::V1, _) => delegated_1(tree, caller),
        (Version::V2, 0) => of_root_2(tree, caller),
        (Version::V2, _) => delegated_2(tree, caller),
    }
}

/// This process's own cgroup and those around it, nearest first, up to the top of what is mounted. A cgroup
/// that is gone (a process may outlive its own on version 1) is passed over.
pub(super) fn around(tree: &Hierarchy) -> impl Iterator<Item = Folder> {
    let whole = tree.own.components().fold(tree.point.clone(), |path, part| path.join(part));
    let paths: Vec<PathBuf> =
        whole.ancestors().take_while(|path| path.starts_with(&tree.point)).map(Path::to_owned).collect();
    paths.into_iter().filter_map(|path| Folder::open(&path).ok())
}

fn top(tree: &Hierarchy) -> Result<Folder, CgroupError> {
    Folder::open(&tree.point)
}

/// The nearest cgroup around this process that holds a limit, else the top. Below it no limit on this process
/// is escaped; and unlike the process's own cgroup it is the same one from every login session, so that what a
/// dead run left in it is found again.
pub(super) fn limit_holder(version: Version, tree: &Hierarchy) -> Result<Folder, CgroupError> {
    let unset = unset(version, &tree.controllers);
    let holds = |folder: &Folder| {
        unset.iter().any(|(file, unset)| folder.read(file).is_ok_and(|text| holds_a_limit(&text, unset)))
    };
    match around(tree).find(holds) {
        Some(folder) => Ok(folder),
        None => top(tree),
    }
}

/// Version 1: a folder made by `sandbox delegate` at or around this user's own cgroup. Its owner may move
/// processes of its own into it from anywhere. A limit on the user's own cgroup does not hold there: root, who
/// handed it over, can set limits on the folder itself.
fn delegated_1(tree: &Hierarchy, caller: Caller) -> Result<Folder, CgroupRefusal> {
    let name = delegated_name(caller.uid);
    let usable = |folder: &Folder| folder.is_writable();
    around(tree)
        .filter_map(|folder| folder.open_child(&name).ok())
        .find(usable)
        .ok_or_else(|| not_delegated(Version::V1, caller, Vec::new()))
}

/// Version 2 as root: a cgroup that was handed to this service (systemd's mark), or below the nearest limit,
/// whichever is nearer.
fn of_root_2(tree: &Hierarchy, caller: Caller) -> Result<Folder, CgroupRefusal> {
    let holder = limit_holder(Version::V2, tree)?;
    let marked = around(tree).find(Folder::is_marked_delegated);
    if let Some(marked) = &marked
        && marked.path().starts_with(holder.path())
    {
        enable_or_clear(marked, caller)?;
        return Ok(Folder::open(marked.path())?);
    }
    // Controllers are switched on from the top down.
    let mut above: Vec<Folder> =
        around(tree).filter(|folder| holder.path().starts_with(folder.path())).collect();
    above.reverse();
    for folder in &above {
        // Ours to arrange is what was handed over, and a container's own top (unlike the machine's).
        let is_handed = marked.as_ref().is_some_and(|marked| folder.path().starts_with(marked.path()));
        let is_containers = tree.own == Path::new("") && !is_the_machines_top(folder);
        if is_handed || is_containers {
            enable_or_clear(folder, caller)?;
        } else {
            enable(folder, caller)?;
        }
    }
    Ok(holder)
}

/// Version 2 as an ordinary user: the nearest cgroup around it that is the user's, without moving anything
/// where one can be had, else the nearest whose processes can be moved to a leaf. Never above a limit that
/// holds this process, though it may be one that the user set.
fn delegated_2(tree: &Hierarchy, caller: Caller) -> Result<Folder, CgroupRefusal> {
    let holder = limit_holder(Version::V2, tree)?;
    let mine: Vec<Folder> = around(tree)
        .filter(|folder| folder.path().starts_with(holder.path()))
        .filter(|folder| folder.owner().is_ok_and(|uid| uid == caller.uid))
        .collect();
    let mut lacks = Vec::new();
    for folder in &mine {
        lacks = folder.read("cgroup.controllers").map(|text| lacking(&text)).unwrap_or_default();
        if lacks.is_empty() && enable(folder, caller).is_ok() {
            return Ok(Folder::open(folder.path())?);
        }
    }
    for folder in mine {
        if enable_or_clear(&folder, caller).is_ok() {
            return Ok(folder);
        }
    }
    Err(not_delegated(Version::V2, caller, lacks))
}

fn not_delegated(version: Version, caller: Caller, lacking: Vec<Controller>) -> CgroupRefusal {
    CgroupRefusal::NotDelegated { version, uid: caller.uid, lacking, systemd: caller.systemd }
}

/// Version 2: switches on the controllers for the cgroups below `folder`.
pub(super) fn enable(folder: &Folder, caller: Caller) -> Result<(), CgroupRefusal> {
    let missing = lacking(&folder.read("cgroup.subtree_control")?);
    if missing.is_empty() {
        return Ok(());
    }
    let wanted: Vec<String> = missing.iter().map(|controller| format!("+{controller}")).collect();
    match folder.write("cgroup.subtree_control", &wanted.join(" ")) {
        Ok(()) => Ok(()),
        Err(error) if error.errno() == Some(Errno::BUSY) => {
            Err(CgroupRefusal::HoldsProcesses { path: folder.path().to_owned(), systemd: caller.systemd })
        }
        Err(error) => Err(error.into()),
    }
}

/// The same for a cgroup that is ours to arrange: its processes move to a leaf first, this one among them.
pub(super) fn enable_or_clear(folder: &Folder, caller: Caller) -> Result<(), CgroupRefusal> {
    match enable(folder, caller) {
        Err(CgroupRefusal::HoldsProcesses { .. }) => {
            clear(folder)?;
            enable(folder, caller)
        }
        other => other,
    }
}

/// Whether this is the machine's own top, the one cgroup that may hold processes beside others with limits.
fn is_the_machines_top(folder: &Folder) -> bool {
    folder.read("cgroup.type").is_err()
}

/// Moves every process to the leaf; again, since each may have forked meanwhile, a bounded number of times.
fn clear(folder: &Folder) -> Result<(), CgroupError> {
    folder.make_child(LEAF)?;
    let leaf = folder.open_child(LEAF)?;
    for _ in 0..16 {
        let members = folder.members()?;
        if members.is_empty() {
            break;
        }
        for pid in members {
            match leaf.write("cgroup.procs", &pid.to_string()) {
                Err(error) if error.errno() == Some(Errno::SRCH) => {}
                moved => moved?,
            }
        }
    }
    Ok(())
}
