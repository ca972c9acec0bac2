//! What a policy names, as it is on this machine, and what of it cannot be granted in a container.

use std::path::Path;

use crate::backend::psec::cmdline::CommandLineError;
use crate::backend::psec::contract::Unsupported;
use crate::backend::psec::paths::{PathError, WindowsPath};
use crate::backend::psec::survey::{Kind, Place, Survey};
use crate::policy::{Access, Network, Policy};
use crate::text;

/// Why there is no plan.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum PlanError {
    /// `--share-net`.
    #[error(
        "--share-net: a container of PSEC has no way to the node's own network; leave it out and name the hosts with \
         --allow"
    )]
    SharedNetwork,
    /// `--allow-socket`.
    #[error("--allow-socket {0}: sockets of the node are not handed into a container of PSEC")]
    Socket(String),
    /// A path is no path that PSEC takes.
    #[error("{option} {error}")]
    Path {
        /// The option that names it.
        option: &'static str,
        /// Why.
        error: PathError,
    },
    /// A protected path is none that PSEC takes, so it could not be held.
    #[error("protected path {path}: {error}")]
    Protected {
        /// The path, escaped.
        path: String,
        /// Why.
        error: PathError,
    },
    /// A path is not there.
    #[error("{option} {path}: no such file or folder")]
    Missing {
        /// The option that names it.
        option: &'static str,
        /// The path as typed, escaped.
        path: String,
    },
    /// A path cannot be opened by this user.
    #[error("{option} {path}: {why}")]
    Unreachable {
        /// The option that names it.
        option: &'static str,
        /// The path as typed, escaped.
        path: String,
        /// What Windows answered.
        why: String,
    },
    /// The working directory is not a folder.
    #[error("--work {path}: not a folder; give a folder")]
    WorkNotAFolder {
        /// The path, escaped.
        path: String,
    },
    /// A grant of something that cannot be granted.
    #[error("{option} {path}: {why}")]
    NotGranted {
        /// The option that names it.
        option: &'static str,
        /// The path, escaped.
        path: String,
        /// Why, and what to do.
        why: &'static str,
    },
    /// The grant would show the node's data directory.
    #[error(
        "{option} {path} and the node's data directory {at} lie in one another: give a folder that does not contain \
         it, or move the data directory with --data-dir"
    )]
    ReachesData {
        /// The option that names it.
        option: &'static str,
        /// The path, escaped.
        path: String,
        /// The data directory, escaped.
        at: String,
    },
    /// The grant would show the folders of other runs.
    #[error(
        "{option} {path} contains {at}, where other runs have their sockets: give a folder that does not"
    )]
    ReachesRuns {
        /// The option that names it.
        option: &'static str,
        /// The path, escaped.
        path: String,
        /// Where they are, escaped.
        at: String,
    },
    /// Two grants of one place disagree.
    #[error("{first} and {second} both name {path}: keep one")]
    Contradiction {
        /// One option.
        first: &'static str,
        /// The other.
        second: &'static str,
        /// The final path, escaped.
        path: String,
    },
    /// A word of the command is not Unicode.
    #[error("argument {0} of the command is not Unicode")]
    NotUnicode(usize),
    /// The command cannot be given to a program word for word.
    #[error(transparent)]
    CommandLine(#[from] CommandLineError),
    /// This Windows does not take the specification.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The proxy's socket would have too long a path.
    #[error(
        "{path}: a socket in it would have a path of {length} bytes, and Windows takes 107; shorten LOCALAPPDATA"
    )]
    SocketTooLong {
        /// The folder, escaped.
        path: String,
        /// The bytes.
        length: usize,
    },
}

impl PlanError {
    /// A stable word for programs; where Linux has the same reason it is the same.
    pub fn code(&self) -> &'static str {
        match self {
            PlanError::SharedNetwork => "share_net",
            PlanError::Socket(_) => "allow_socket",
            PlanError::Path { .. } => "path_form",
            PlanError::Protected { .. } => "protected",
            PlanError::Missing { .. } => "path_missing",
            PlanError::Unreachable { .. } => "path_unreachable",
            PlanError::WorkNotAFolder { .. } => "work_not_a_folder",
            PlanError::NotGranted { .. } => "not_granted",
            PlanError::ReachesData { .. } => "reaches_data_directory",
            PlanError::ReachesRuns { .. } => "reaches_runs",
            PlanError::Contradiction { .. } => "contradiction",
            PlanError::NotUnicode(_) | PlanError::CommandLine(_) => "command_line",
            PlanError::Unsupported(_) => "psec_unsupported",
            PlanError::SocketTooLong { .. } => "socket_too_long",
        }
    }
}

/// One grant, found on this machine.
pub(super) struct Grant {
    option: &'static str,
    pub(super) access: Access,
    pub(super) real: WindowsPath,
}

/// All of them, and what belongs to them.
pub(super) struct Granted {
    pub(super) grants: Vec<Grant>,
    pub(super) work: WindowsPath,
    pub(super) sockets: WindowsPath,
    pub(super) node_binary: WindowsPath,
    pub(super) data_directory: WindowsPath,
    pub(super) notes: Vec<String>,
}

/// Can everything that the policy names be granted here?
pub fn check(policy: &Policy, survey: &Survey) -> Result<(), PlanError> {
    granted(policy, survey).map(drop)
}

pub(super) fn granted(policy: &Policy, survey: &Survey) -> Result<Granted, PlanError> {
    if matches!(policy.network, Network::Host) {
        return Err(PlanError::SharedNetwork);
    }
    if let Some(socket) = policy.sockets.first() {
        return Err(PlanError::Socket(text::escape(socket)));
    }
    let own = |path: &Path| {
        let real = match survey.place(path) {
            Place::Found { real, .. } => real.as_path(),
            _ => path,
        };
        WindowsPath::of(real).map_err(|error| PlanError::Path { option: "--data-dir", error })
    };
    let system: Vec<WindowsPath> = system(survey);
    let (runs, sockets) = (own(&survey.runs)?, own(&survey.sockets)?);
    let data_directory = own(&policy.data_directory)?;
    if data_directory.contains(&sockets) {
        return Err(PlanError::ReachesData {
            option: "LOCALAPPDATA",
            path: sockets.shown(),
            at: data_directory.shown(),
        });
    }
    let mut grants: Vec<Grant> = Vec::new();
    let mut notes = Vec::new();
    for (option, access, path) in policy.grants() {
        let real = find(option, path, survey)?;
        let not_granted = |why| Err(PlanError::NotGranted { option, path: real.shown(), why });
        if real.is_root() && (option == "--work" || access == Access::Write) {
            return not_granted(
                "a grant of a drive's root covers the root alone; name the folder that is meant",
            );
        }
        if access == Access::Write && system.iter().any(|part| part.contains(&real) || real.contains(part)) {
            return not_granted("part of the system; name a folder of your own");
        }
        let shows = |hidden: &WindowsPath| real.covers(hidden) || hidden.contains(&real);
        if shows(&data_directory) {
            return Err(PlanError::ReachesData { option, path: real.shown(), at: data_directory.shown() });
        }
        if shows(&runs) {
            return Err(PlanError::ReachesRuns { option, path: real.shown(), at: runs.shown() });
        }
        if let Some(other) = grants.iter().find(|other| other.real == real) {
            if other.access != access {
                return Err(PlanError::Contradiction {
                    first: other.option,
                    second: option,
                    path: real.shown(),
                });
            }
            continue;
        }
        // C019: what was typed and what it is.
        if WindowsPath::of(path).is_ok_and(|typed| typed != real) {
            notes.push(format!("{option} {} is {}", text::escape(path), real.shown()));
        }
        if real.is_root() {
            notes.push(format!("{option} {} covers the root alone, nothing in it", real.shown()));
        }
        grants.push(Grant { option, access, real });
    }
    let work = grants.first().map(|grant| grant.real.clone());
    let work = work.ok_or_else(|| PlanError::WorkNotAFolder { path: text::escape(&policy.work) })?;
    let node_binary = own(&policy.node_binary)?;
    Ok(Granted { grants, work, sockets, node_binary, data_directory, notes })
}

/// Folders that no grant opens for writing: Windows' own, and where programs are installed for everybody.
fn system(survey: &Survey) -> Vec<WindowsPath> {
    let root = WindowsPath::of(&survey.defaults.system_root).ok();
    let programs = survey.defaults.machine.iter().filter(|(name, _)| name.starts_with("Program"));
    root.into_iter().chain(programs.filter_map(|(_, value)| value.parse().ok())).collect()
}

fn find(option: &'static str, path: &Path, survey: &Survey) -> Result<WindowsPath, PlanError> {
    // As typed it must be a path that can be meant: the final path of `\\localhost\c$` would be one.
    let shown = || text::escape(path);
    WindowsPath::of(path).map_err(|error| PlanError::Path { option, error })?;
    match survey.place(path) {
        Place::Missing => Err(PlanError::Missing { option, path: shown() }),
        Place::Closed(why) => Err(PlanError::Unreachable { option, path: shown(), why: why.clone() }),
        Place::Found { kind: Kind::File | Kind::Other, .. } if option == "--work" => {
            Err(PlanError::WorkNotAFolder { path: shown() })
        }
        Place::Found { kind: Kind::Other, .. } => {
            Err(PlanError::NotGranted { option, path: shown(), why: "neither a file nor a folder" })
        }
        Place::Found { real, .. } => WindowsPath::of(real).map_err(|error| PlanError::Path { option, error }),
    }
}
