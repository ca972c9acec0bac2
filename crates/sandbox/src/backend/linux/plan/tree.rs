//! The steps that make the run's tree, in their order.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::super::survey::{EtcEntry, Kind, Place, Root, Survey};
use super::grants::data_directory;
use super::{CLOSED_FILE, CLOSED_FOLDER, HIDDEN, Step};
use crate::policy::{Access, Policy};
use crate::protected::{self, Protected};

/// The devices a program may open.
pub(super) const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

pub(super) fn depth(path: &Path) -> usize {
    path.components().count()
}

/// The node's own program, unless the system's folders show it anyway.
pub(super) fn node_binary(policy: &Policy, survey: &Survey) -> Option<PathBuf> {
    let Some(Place::Found { real, kind: Kind::File, .. }) = survey.places.get(&policy.node_binary) else {
        return None;
    };
    (!survey.roots.iter().any(|(root, _)| real.starts_with(root))).then(|| real.clone())
}

/// A data directory below one of the system's own folders is covered, under whichever name it is seen.
pub(super) fn hidden_data_directory(policy: &Policy, survey: &Survey) -> Vec<Step> {
    let data = data_directory(policy, survey);
    if !matches!(survey.places.get(&policy.data_directory), Some(Place::Found { .. })) {
        return Vec::new();
    }
    let folders = survey.roots.iter().filter(|(_, root)| *root == Root::Folder);
    folders
        .filter_map(|(path, _)| survey.reaches(path, &data))
        .map(|path| Step::Hide { path, folder: true })
        .collect()
}

/// The empty tree in the run's own memory.
pub(super) fn skeleton(survey: &Survey, temp: &Path, home: &Path) -> Vec<Step> {
    let folder = |path: &str, mode| Step::Folder { path: path.into(), mode };
    let mut steps = vec![
        folder("/etc", 0o755),
        folder("/dev", 0o755),
        folder("/proc", 0o555),
        folder("/sys", 0o755),
        folder("/sys/fs", 0o755),
        folder("/sys/fs/cgroup", 0o755),
        folder("/run", 0o755),
        folder("/var", 0o755),
        folder("/dev/pts", 0o755),
        folder("/dev/shm", 0o1777),
    ];
    steps.push(Step::Folder { path: temp.into(), mode: 0o1777 });
    steps.push(Step::Folder { path: home.into(), mode: 0o700 });
    steps.push(Step::Link { path: "/var/tmp".into(), target: temp.into() });
    steps.push(Step::Link { path: "/var/run".into(), target: "/run".into() });
    for (path, root) in &survey.roots {
        if let Root::Link(target) = root {
            steps.push(Step::Link { path: path.clone(), target: target.clone() });
        }
    }
    steps
}

/// The steps in the run's own memory first, with the folders and files that everything else is mounted on; then
/// the mounts, in their order. A mount point inside something bound is there already: nothing is ever made in
/// the host's folders.
pub(super) fn with_mount_points(steps: Vec<Step>) -> Vec<Step> {
    let (own, mounts): (Vec<Step>, Vec<Step>) = steps.into_iter().partition(Step::is_in_memory);
    let bound: Vec<PathBuf> = mounts
        .iter()
        .filter_map(|step| match step {
            Step::Bind { target, folder: true, .. } => Some(target.clone()),
            _ => None,
        })
        .collect();
    let mut memory = OwnMemory { bound, made: HashSet::from(["/".into()]), steps: Vec::new() };
    // A link of our own (/var/tmp, /var/run) gives way to what is granted below that name.
    let target = |step: &Step| match step {
        Step::Bind { target, .. } => Some(target.clone()),
        _ => None,
    };
    let targets: Vec<PathBuf> = mounts.iter().filter_map(target).collect();
    let gives_way = |step: &Step| match step {
        Step::Link { path, .. } => targets.iter().any(|target| target == path || is_below(target, path)),
        _ => false,
    };
    for step in own.into_iter().filter(|step| !gives_way(step)) {
        memory.make(step);
    }
    if mounts.iter().any(|step| matches!(step, Step::Hide { .. })) {
        let hidden = Path::new(HIDDEN);
        memory.make(Step::Folder { path: hidden.join(CLOSED_FOLDER), mode: 0o000 });
        memory.make(Step::File { path: hidden.join(CLOSED_FILE), contents: Vec::new() });
    }
    for step in &mounts {
        match step {
            Step::Bind { target: path, folder: true, .. } | Step::Pin { hidden: path, .. } => {
                memory.make(Step::Folder { path: path.clone(), mode: 0o755 });
            }
            Step::Bind { target: path, folder: false, .. } => {
                memory.make(Step::File { path: path.clone(), contents: Vec::new() });
            }
            _ => {}
        }
    }
    let mut steps = memory.steps;
    steps.extend(mounts);
    steps
}

/// What has been made in the run's own memory so far.
struct OwnMemory {
    /// Folders of the host that are bound: what lies below them is not made.
    bound: Vec<PathBuf>,
    made: HashSet<OsString>,
    steps: Vec<Step>,
}

impl OwnMemory {
    /// Make one thing, after the folders that it lies in; nothing twice.
    fn make(&mut self, step: Step) {
        let (Step::Folder { path, .. }
        | Step::File { path, .. }
        | Step::Copy { path, .. }
        | Step::Link { path, .. }) = &step
        else {
            return;
        };
        if self.made.contains(path.as_os_str()) || self.bound.iter().any(|outer| is_below(path, outer)) {
            return;
        }
        if let Some(parent) = path.parent().filter(|parent| !self.made.contains(parent.as_os_str())) {
            self.make(Step::Folder { path: parent.to_path_buf(), mode: 0o755 });
        }
        self.made.insert(path.as_os_str().to_os_string());
        self.steps.push(step);
    }
}

/// Does `path` lie below `outer`, and is not `outer` itself? Both are absolute and in normal form, so that bytes
/// decide; a launch asks this some hundred times.
pub(super) fn is_below(path: &Path, outer: &Path) -> bool {
    let (path, outer) = (path.as_os_str().as_encoded_bytes(), outer.as_os_str().as_encoded_bytes());
    path.len() > outer.len()
        && path.starts_with(outer)
        && (outer.ends_with(b"/") || path[outer.len()] == b'/')
}

pub(super) fn system(survey: &Survey) -> impl Iterator<Item = Step> {
    survey.roots.iter().filter(|(_, root)| *root == Root::Folder).map(|(path, _)| Step::Bind {
        source: path.clone(),
        target: path.clone(),
        access: Access::Read,
        folder: true,
        devices: false,
    })
}

/// /etc: what the table names, and the files that are made for the run.
pub(super) fn etc_steps(survey: &Survey, home: &Path) -> Vec<Step> {
    let file =
        |path: &str, contents: String| Step::File { path: path.into(), contents: contents.into_bytes() };
    let (user, uid, gid) = (&survey.user, survey.uid, survey.gid);
    let root = if uid == 0 { "" } else { "root:x:0:0:root:/root:/usr/sbin/nologin\n" };
    let root_group = if gid == 0 { "" } else { "root:x:0:\n" };
    let nobody = "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
    let nobody = if uid == 65534 { "" } else { nobody };
    let nogroup = if gid == 65534 { "" } else { "nogroup:x:65534:\n" };
    let mut steps = vec![
        file("/etc/passwd", format!("{root}{user}:x:{uid}:{gid}::{}:/bin/sh\n{nobody}", home.display())),
        file("/etc/group", format!("{root_group}{}:x:{gid}:\n{nogroup}", survey.group)),
        file("/etc/hosts", "127.0.0.1 localhost\n::1 localhost\n".into()),
        // Names that a program looks up by itself go to the proxy's resolver, which refuses at once and keeps
        // the name for the report.
        file("/etc/nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n".into()),
        file("/etc/resolv.conf", "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n".into()),
        file("/etc/hostname", "sandbox\n".into()),
    ];
    for (path, entry) in &survey.etc {
        steps.push(match entry {
            EtcEntry::Copy(source) => Step::Copy { source: source.clone(), path: path.clone() },
            EtcEntry::Link(target) => Step::Link { path: path.clone(), target: target.clone() },
            EtcEntry::Folder | EtcEntry::File => Step::Bind {
                source: path.clone(),
                target: path.clone(),
                access: Access::Read,
                folder: *entry == EtcEntry::Folder,
                devices: false,
            },
        });
    }
    steps
}

pub(super) fn devices() -> Vec<Step> {
    let mut steps: Vec<Step> = DEVICES
        .iter()
        .map(|name| Step::Bind {
            source: Path::new("/dev").join(name),
            target: Path::new("/dev").join(name),
            access: Access::Write,
            folder: false,
            devices: true,
        })
        .collect();
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
        ("ptmx", "pts/ptmx"),
    ] {
        steps.push(Step::Link { path: Path::new("/dev").join(name), target: target.into() });
    }
    steps.push(Step::Terminals);
    steps
}

/// The links on the way to a granted path, so that the path as typed works inside too. Those in folders that
/// are bound are there already.
pub(super) fn links(policy: &Policy, survey: &Survey) -> Vec<Step> {
    let mut steps = Vec::new();
    let paths = policy.grants().map(|(_, _, path)| path).chain(policy.sockets.iter().map(PathBuf::as_path));
    for path in paths {
        let Some(Place::Found { links, .. }) = survey.places.get(path) else { continue };
        for (path, target) in links {
            let step = Step::Link { path: path.clone(), target: target.clone() };
            if !steps.contains(&step) {
                steps.push(step);
            }
        }
    }
    steps
}

/// Read-only paths and pinned folders, each below the deepest writable folder that holds it.
pub(super) fn protections(protected: &Protected, writable: &[PathBuf]) -> Vec<Step> {
    let holder = |path: &Path| {
        writable.iter().filter(|root| path.starts_with(root)).max_by_key(|root| depth(root)).cloned()
    };
    let mut steps = Vec::new();
    let mut number = 0;
    for root in writable {
        let folders: Vec<PathBuf> = protected
            .pins
            .iter()
            .map(|pin| &pin.path)
            .filter(|pin| *pin != root && holder(pin).as_ref() == Some(root))
            .cloned()
            .collect();
        if !folders.is_empty() {
            let hidden = Path::new(HIDDEN).join(number.to_string());
            number += 1;
            steps.push(Step::Pin { root: root.clone(), hidden, folders });
        }
    }
    // After the pins, so that the hidden copies do not take these along.
    steps.extend(protected.read_only.iter().filter(|entry| holder(&entry.path).is_some()).map(|entry| {
        Step::Protect { path: entry.path.clone(), folder: entry.kind == protected::Kind::Folder }
    }));
    if number > 0 {
        steps.push(Step::Hide { path: HIDDEN.into(), folder: true });
    }
    steps
}
