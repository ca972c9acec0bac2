//! What a policy names, as it is on this machine, and what of it cannot be granted.

use std::path::{Path, PathBuf};

use super::super::survey::{FailureKind, Kind, Place, Survey};
use super::tree::DEVICES;
use crate::policy::{Access, Policy};
use crate::text;

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
pub(super) struct Grant {
    pub(super) option: &'static str,
    pub(super) access: Access,
    pub(super) real: PathBuf,
    pub(super) kind: Kind,
}

/// Can everything that the policy names be granted here?
pub fn check(policy: &Policy, survey: &Survey) -> Result<(), PlanError> {
    granted(policy, survey).map(drop)
}

pub(super) fn granted(policy: &Policy, survey: &Survey) -> Result<(Vec<Grant>, Vec<PathBuf>), PlanError> {
    let grants = grants(policy, survey)?;
    check_data_directory(policy, survey, &grants)?;
    let sockets = sockets(policy, survey, &grants)?;
    Ok((grants, sockets))
}

/// Folders of the system: no grant opens them, or what contains them, for writing.
/// `/bin` and its kind are links into `/usr` on most systems, so both names are here.
const SYSTEM: [&str; 13] = [
    "/",
    "/usr",
    "/usr/bin",
    "/usr/sbin",
    "/usr/lib",
    "/usr/lib64",
    "/bin",
    "/sbin",
    "/lib",
    "/lib64",
    "/etc",
    "/boot",
    "/var",
];

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
pub(super) fn data_directory(policy: &Policy, survey: &Survey) -> PathBuf {
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
