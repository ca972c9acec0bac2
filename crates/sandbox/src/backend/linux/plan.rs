//! All that a run on Linux will do, as plain data. Pure: from a policy, what this machine looks like, and what
//! is to be protected. Touches nothing.

mod show;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::survey::{EtcEntry, FailureKind, Kind, Place, Root, Survey};
use crate::limits::{Cpu, Limits};
use crate::policy::{Access, Network, Policy};
use crate::protected::{self, Protected};
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

/// The devices a program may open.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

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
    /// How many mounts the step makes.
    pub fn mounts(&self) -> usize {
        match self {
            Step::Folder { .. } | Step::File { .. } | Step::Link { .. } | Step::Seal => 0,
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

/// Why there is no plan.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum PlanError {
    /// A path is not there.
    #[error("{option} {path}: {}", missing(.path, .at))]
    Missing {
        /// The option that names it.
        option: &'static str,
        /// The path as typed, escaped.
        path: String,
        /// The part that is missing, escaped.
        at: String,
    },
    /// A path cannot be reached by this user.
    #[error("{option} {path}: {at} is closed to this user ({why})")]
    Unreachable {
        /// The option that names it.
        option: &'static str,
        /// The path as typed, escaped.
        path: String,
        /// Where it ends, escaped.
        at: String,
        /// What the OS answered.
        why: String,
    },
    /// The working directory is not a folder.
    #[error("--work {path}: {what}; give a folder")]
    WorkNotAFolder {
        /// The path, escaped.
        path: String,
        /// What it is.
        what: String,
    },
    /// The working directory is a link.
    #[error("--work {path}: a link to {target}; give that path")]
    WorkIsALink {
        /// The path, escaped.
        path: String,
        /// Where it leads, escaped.
        target: String,
    },
    /// A grant of something that cannot be granted.
    #[error("{option} {path}: {why}")]
    NotGranted {
        /// The option that names it.
        option: &'static str,
        /// The path, escaped.
        path: String,
        /// Why, and what to do.
        why: String,
    },
    /// The grant would show the node's data directory.
    #[error(
        "{option} {path} contains the node's data directory (at {at}): give a folder that does not, or move the \
         data directory with --data-dir"
    )]
    ReachesData {
        /// The option that names it.
        option: &'static str,
        /// The path, escaped.
        path: String,
        /// Under which name it would be seen, escaped.
        at: String,
    },
    /// The grant would show a socket that is as good as no sandbox.
    #[error(
        "{option} {path} contains {socket}, {what}: give a folder that does not, or `--allow-socket {socket}` to \
         let the run connect to it"
    )]
    ReachesSocket {
        /// The option that names it.
        option: &'static str,
        /// The path, escaped.
        path: String,
        /// The socket, escaped.
        socket: String,
        /// Whose it is.
        what: &'static str,
    },
    /// Two grants of one inode disagree.
    #[error("{first} and {second} both name {path}: keep one")]
    Contradiction {
        /// One option.
        first: &'static str,
        /// The other.
        second: &'static str,
        /// The path without links, escaped.
        path: String,
    },
}

impl PlanError {
    /// A stable word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            PlanError::Missing { .. } => "path_missing",
            PlanError::Unreachable { .. } => "path_unreachable",
            PlanError::WorkNotAFolder { .. } => "work_not_a_folder",
            PlanError::WorkIsALink { .. } => "work_is_a_link",
            PlanError::NotGranted { .. } => "not_granted",
            PlanError::ReachesData { .. } => "reaches_data_directory",
            PlanError::ReachesSocket { .. } => "reaches_socket",
            PlanError::Contradiction { .. } => "contradiction",
        }
    }
}

fn missing(path: &str, at: &str) -> String {
    if path == at {
        "no such file or folder".into()
    } else {
        format!("no such file or folder ({at} is missing)")
    }
}

/// One grant, found on this machine.
struct Grant {
    option: &'static str,
    access: Access,
    real: PathBuf,
    kind: Kind,
}

/// Can everything that the policy names be granted here?
pub fn check(policy: &Policy, survey: &Survey) -> Result<(), PlanError> {
    granted(policy, survey).map(drop)
}

fn granted(policy: &Policy, survey: &Survey) -> Result<(Vec<Grant>, Vec<PathBuf>), PlanError> {
    let grants = grants(policy, survey)?;
    check_data_directory(policy, survey, &grants)?;
    let sockets = sockets(policy, survey, &grants)?;
    Ok((grants, sockets))
}

/// Make the plan.
pub fn plan(policy: &Policy, survey: &Survey, protected: &Protected) -> Result<Plan, PlanError> {
    let (grants, sockets) = granted(policy, survey)?;
    let work = grants[0].real.clone();
    let is_granted = |path: &str| grants.iter().any(|grant| grant.real == Path::new(path));
    let temp = PathBuf::from(if is_granted("/tmp") { "/run/tmp" } else { "/tmp" });
    let home = temp.join("home");
    let mut notes = Vec::new();

    let mut tree = skeleton(survey, &temp, &home);
    tree.extend(etc_steps(survey, &home));
    tree.extend(system(survey));
    tree.extend(devices());
    tree.push(Step::Proc { read_only: survey.uid == 0 });
    tree.push(Step::CgroupView);
    tree.push(Step::Writable { path: temp.clone() });
    tree.push(Step::Writable { path: "/dev/shm".into() });

    let mut binds: Vec<(PathBuf, Access, bool)> = grants
        .iter()
        .map(|grant| (grant.real.clone(), grant.access, grant.kind == Kind::Folder))
        .chain(protected.enclosing.iter().flat_map(|enclosing| {
            let access = if enclosing.granted { Access::Write } else { Access::Read };
            enclosing.outside.iter().map(move |path| (path.clone(), access, true))
        }))
        .chain(node_binary(policy, survey).map(|path| (path, Access::Read, false)))
        .chain(sockets.iter().map(|path| (path.clone(), Access::Write, false)))
        .collect();
    // The most specific path wins, whatever the order in which they were given: outer ones are mounted first.
    binds.sort_by(|one, other| depth(&one.0).cmp(&depth(&other.0)).then_with(|| one.cmp(other)));
    binds.dedup_by(|later, earlier| later.0 == earlier.0 && later.1 <= earlier.1);
    for (path, access, folder) in &binds {
        tree.push(Step::Bind {
            source: path.clone(),
            target: path.clone(),
            access: *access,
            folder: *folder,
            devices: false,
        });
    }
    tree.extend(links(policy, survey));

    let writable: Vec<PathBuf> = binds
        .iter()
        .filter(|(_, access, _)| *access == Access::Write)
        .map(|(path, ..)| path.clone())
        .collect();
    tree.extend(protections(protected, &writable));
    for socket in survey.sockets.iter().filter(|socket| !sockets.contains(socket)) {
        notes.push(format!("socket {} is closed inside", text::escape(socket.as_os_str())));
        tree.push(Step::Hide { path: socket.clone(), folder: false });
    }
    tree.extend(hidden_data_directory(policy, survey));
    tree.push(Step::Seal);
    let tree = with_mount_points(tree);

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
        tree,
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

fn depth(path: &Path) -> usize {
    path.components().count()
}

/// Folders of the system: no grant opens them, or what contains them, for writing.
const SYSTEM: [&str; 9] = ["/", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/boot", "/var"];

/// Trees that the sandbox makes itself: nothing of the host's is granted there.
const OWN: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Find what each grant is here, and refuse what cannot be granted.
fn grants(policy: &Policy, survey: &Survey) -> Result<Vec<Grant>, PlanError> {
    let mut found: Vec<Grant> = Vec::new();
    for (option, access, path) in policy.grants() {
        let shown = text::escape(path.as_os_str());
        let not_granted = |why: &str| PlanError::NotGranted { option, path: shown.clone(), why: why.into() };
        let (real, kind, is_link, links) = place(option, path, survey)?;
        if option == "--work" {
            if is_link {
                let target = links.last().map_or(&real, |(_, target)| target);
                return Err(PlanError::WorkIsALink { path: shown, target: text::escape(target.as_os_str()) });
            }
            if kind != Kind::Folder {
                return Err(PlanError::WorkNotAFolder { path: shown, what: name_of(kind).into() });
            }
        }
        match kind {
            Kind::BlockDevice => return Err(not_granted("a block device; no run may open one")),
            Kind::CharacterDevice if !is_offered_device(&real) => {
                return Err(not_granted(
                    "a device; a run has null, zero, full, random, urandom and tty only",
                ));
            }
            // Every run has it.
            Kind::CharacterDevice => continue,
            Kind::Socket => {
                return Err(not_granted("a socket; to let the run connect to it say --allow-socket"));
            }
            Kind::Folder | Kind::File | Kind::Fifo => {}
        }
        if OWN.iter().any(|own| real.starts_with(own)) {
            return Err(not_granted("the sandbox makes /proc, /sys and /dev itself"));
        }
        if real == Path::new("/") {
            return Err(not_granted("the whole machine; name the folders that the command needs"));
        }
        if real == Path::new("/etc") {
            return Err(not_granted(
                "password files and keys lie there; name the file that the command needs",
            ));
        }
        if access == Access::Write && SYSTEM.iter().any(|system| Path::new(system).starts_with(&real)) {
            return Err(not_granted("part of the system; name a folder below it"));
        }
        if let Some(other) = found.iter().find(|other| other.real == real) {
            if other.access != access {
                let path = text::escape(real.as_os_str());
                return Err(PlanError::Contradiction { first: other.option, second: option, path });
            }
            continue;
        }
        found.push(Grant { option, access, real, kind });
    }
    Ok(found)
}

fn is_offered_device(real: &Path) -> bool {
    real.strip_prefix("/dev").is_ok_and(|name| DEVICES.iter().any(|device| Path::new(device) == name))
}

fn name_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Folder => "a folder",
        Kind::File => "a file",
        Kind::Fifo => "a FIFO",
        Kind::Socket => "a socket",
        Kind::CharacterDevice => "a device",
        Kind::BlockDevice => "a block device",
    }
}

type Found<'a> = (PathBuf, Kind, bool, &'a [(PathBuf, PathBuf)]);

fn place<'a>(option: &'static str, path: &Path, survey: &'a Survey) -> Result<Found<'a>, PlanError> {
    let shown = text::escape(path.as_os_str());
    let failed = |error: FailureKind, at: &Path| {
        let at = text::escape(at.as_os_str());
        let path = shown.clone();
        match error {
            FailureKind::Missing => PlanError::Missing { option, path, at },
            FailureKind::Denied => {
                PlanError::Unreachable { option, path, at, why: "permission denied".into() }
            }
            FailureKind::Loop => {
                PlanError::Unreachable { option, path, at, why: "a loop of symbolic links".into() }
            }
            FailureKind::Other(code) => PlanError::Unreachable {
                option,
                path,
                at,
                why: std::io::Error::from_raw_os_error(code).to_string(),
            },
        }
    };
    match survey.places.get(path) {
        Some(Place::Found { real, kind, links, is_link, .. }) => Ok((real.clone(), *kind, *is_link, links)),
        Some(Place::Failed { error, at }) => Err(failed(*error, at)),
        None => Err(failed(FailureKind::Missing, path)),
    }
}

/// The node's data directory as it is here; one that does not exist yet is where it will be made.
fn data_directory(policy: &Policy, survey: &Survey) -> PathBuf {
    match survey.places.get(&policy.data_directory) {
        Some(Place::Found { real, .. }) => real.clone(),
        _ => policy.data_directory.clone(),
    }
}

fn check_data_directory(policy: &Policy, survey: &Survey, grants: &[Grant]) -> Result<(), PlanError> {
    let data = data_directory(policy, survey);
    for grant in grants {
        // A grant inside the data directory is no better than one around it.
        let inside = survey
            .origin(&data)
            .zip(survey.origin(&grant.real))
            .is_some_and(|((one, data), (other, grant))| one == other && grant.starts_with(data));
        let at = if inside { Some(grant.real.clone()) } else { survey.reaches(&grant.real, &data) };
        if let Some(at) = at {
            return Err(PlanError::ReachesData {
                option: grant.option,
                path: text::escape(grant.real.as_os_str()),
                at: text::escape(at.as_os_str()),
            });
        }
    }
    Ok(())
}

/// A data directory below one of the system's own folders is covered, under whichever name it is seen.
fn hidden_data_directory(policy: &Policy, survey: &Survey) -> Vec<Step> {
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

/// Sockets that stand for the whole machine or for somebody's keys.
fn power_of(socket: &Path) -> Option<&'static str> {
    let name = socket.file_name()?.to_str()?;
    let path = socket.to_str()?;
    if ["docker.sock", "containerd.sock", "crio.sock", "podman.sock", "buildkitd.sock"].contains(&name) {
        Some("a container runtime's: whoever reaches it owns the machine")
    } else if name == "system_bus_socket" || name == "bus" || path.contains("dbus-") {
        Some("D-Bus: programs outside act on what comes through it")
    } else if name.starts_with("S.gpg-agent") || name.starts_with("agent.") || name.contains("ssh-agent") {
        Some("an agent that holds keys")
    } else if path.starts_with("/run/systemd") {
        Some("the service manager's")
    } else {
        None
    }
}

/// The sockets that are granted, and a refusal for a grant that shows one that must be asked for by name.
fn sockets(policy: &Policy, survey: &Survey, grants: &[Grant]) -> Result<Vec<PathBuf>, PlanError> {
    let mut granted = Vec::new();
    for path in &policy.sockets {
        let (real, kind, ..) = place("--allow-socket", path, survey)?;
        if kind != Kind::Socket {
            let why = format!("{}, not a socket", name_of(kind));
            let path = text::escape(path.as_os_str());
            return Err(PlanError::NotGranted { option: "--allow-socket", path, why });
        }
        granted.push(real);
    }
    for socket in survey.sockets.iter().filter(|socket| !granted.contains(socket)) {
        let grant = grants.iter().find(|grant| socket.starts_with(&grant.real));
        if let Some((grant, what)) = grant.zip(power_of(socket)) {
            return Err(PlanError::ReachesSocket {
                option: grant.option,
                path: text::escape(grant.real.as_os_str()),
                socket: text::escape(socket.as_os_str()),
                what,
            });
        }
    }
    Ok(granted)
}

/// The node's own program, unless the system's folders show it anyway.
fn node_binary(policy: &Policy, survey: &Survey) -> Option<PathBuf> {
    let Some(Place::Found { real, kind: Kind::File, .. }) = survey.places.get(&policy.node_binary) else {
        return None;
    };
    (!survey.roots.iter().any(|(root, _)| real.starts_with(root))).then(|| real.clone())
}

/// The empty tree in the run's own memory.
fn skeleton(survey: &Survey, temp: &Path, home: &Path) -> Vec<Step> {
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
fn with_mount_points(steps: Vec<Step>) -> Vec<Step> {
    let (own, mounts): (Vec<Step>, Vec<Step>) = steps
        .into_iter()
        .partition(|step| matches!(step, Step::Folder { .. } | Step::File { .. } | Step::Link { .. }));
    let bound: Vec<PathBuf> = mounts
        .iter()
        .filter_map(|step| match step {
            Step::Bind { target, folder: true, .. } => Some(target.clone()),
            _ => None,
        })
        .collect();
    let in_own_memory = |path: &Path| !bound.iter().any(|outer| path != outer && path.starts_with(outer));
    let mut made: std::collections::BTreeSet<PathBuf> = std::collections::BTreeSet::from(["/".into()]);
    let mut first = Vec::new();
    let make_parents =
        |path: &Path, first: &mut Vec<Step>, made: &mut std::collections::BTreeSet<PathBuf>| {
            let mut parents: Vec<&Path> = path.ancestors().skip(1).collect();
            parents.reverse();
            for parent in parents {
                if made.insert(parent.to_path_buf()) {
                    first.push(Step::Folder { path: parent.to_path_buf(), mode: 0o755 });
                }
            }
        };
    for step in own {
        let (Step::Folder { path, .. } | Step::File { path, .. } | Step::Link { path, .. }) = &step else {
            continue;
        };
        if in_own_memory(path) && !made.contains(path) {
            make_parents(path, &mut first, &mut made);
            made.insert(path.clone());
            first.push(step);
        }
    }
    let closed = mounts.iter().any(|step| matches!(step, Step::Hide { .. }));
    if closed {
        first.push(Step::Folder { path: HIDDEN.into(), mode: 0o755 });
        first.push(Step::Folder { path: Path::new(HIDDEN).join(CLOSED_FOLDER), mode: 0o000 });
        first.push(Step::File { path: Path::new(HIDDEN).join(CLOSED_FILE), contents: Vec::new() });
        made.insert(HIDDEN.into());
    }
    for step in &mounts {
        let (path, folder) = match step {
            Step::Bind { target, folder, .. } => (target, *folder),
            Step::Pin { hidden, .. } => (hidden, true),
            _ => continue,
        };
        if in_own_memory(path) && !made.contains(path) {
            make_parents(path, &mut first, &mut made);
            made.insert(path.clone());
            first.push(if folder {
                Step::Folder { path: path.clone(), mode: 0o755 }
            } else {
                Step::File { path: path.clone(), contents: Vec::new() }
            });
        }
    }
    first.extend(mounts);
    first
}

fn system(survey: &Survey) -> impl Iterator<Item = Step> {
    survey.roots.iter().filter(|(_, root)| *root == Root::Folder).map(|(path, _)| Step::Bind {
        source: path.clone(),
        target: path.clone(),
        access: Access::Read,
        folder: true,
        devices: false,
    })
}

/// /etc: what the table names, and the files that are made for the run.
fn etc_steps(survey: &Survey, home: &Path) -> Vec<Step> {
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
            EtcEntry::Contents(contents) => Step::File { path: path.clone(), contents: contents.clone() },
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

fn devices() -> Vec<Step> {
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
fn links(policy: &Policy, survey: &Survey) -> Vec<Step> {
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
fn protections(protected: &Protected, writable: &[PathBuf]) -> Vec<Step> {
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
