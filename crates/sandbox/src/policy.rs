//! What a run may do, with no operating system in it: the meaning of what was typed.
//!
//! Paths are absolute and as typed; what they are on this machine is the plan's question. A policy travels to
//! another process as JSON when a step needs a process of its own; it is never printed, since the environment's
//! values are in it.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use oz0_egress::Allowlist;
use serde::{Deserialize, Serialize};

use crate::environ::Environment;
use crate::limits::Limits;
use crate::links::Links;
use crate::text;

/// What one run may do.
#[derive(Clone, Serialize, Deserialize)]
pub struct Policy {
    /// The working directory: readable and writable.
    #[serde(with = "text::path")]
    pub work: PathBuf,
    /// Readable.
    #[serde(with = "text::paths")]
    pub read: Vec<PathBuf>,
    /// Readable and writable.
    #[serde(with = "text::paths")]
    pub write: Vec<PathBuf>,
    /// Repositories to protect besides those that are found.
    #[serde(with = "text::paths")]
    pub protect: Vec<PathBuf>,
    /// Unix sockets of the node that the run may connect to.
    #[serde(with = "text::paths")]
    pub sockets: Vec<PathBuf>,
    /// What of git's protection is lifted for this run.
    pub git: GitAccess,
    /// How it reaches the network.
    pub network: Network,
    /// Memory, tasks, CPU, time.
    pub limits: Limits,
    /// What the caller passes.
    pub environment: Environment,
    /// What happens about links that lead out of the workspace.
    pub links: Links,
    /// Who asks: where git's settings of this user are read.
    pub caller: Caller,
    /// The node's data directory, which no run may reach.
    #[serde(with = "text::path")]
    pub data_directory: PathBuf,
    /// The node's own program, which a run may read.
    #[serde(with = "text::path")]
    pub node_binary: PathBuf,
    /// The program and its arguments.
    #[serde(with = "text::words")]
    pub command: Vec<OsString>,
}

/// The user who asks, as far as their surroundings decide what is protected.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Caller {
    /// The home folder.
    #[serde(with = "text::maybe_path")]
    pub home: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`, when it is set.
    #[serde(with = "text::maybe_path")]
    pub config_home: Option<PathBuf>,
    /// `TERM`, when it is set.
    pub terminal: Option<String>,
    /// `PATH`, to say where a program lies that is not seen inside.
    pub search: Option<String>,
    /// Another process will launch the run, with standard descriptors of its own: this one's terminal has no
    /// part in it.
    pub detached: bool,
}

/// What of git's protection is lifted, each by an option of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitAccess {
    /// `--git-hooks`: the hooks folders are writable, for hook installers.
    pub hooks: bool,
    /// `--git`: the git directory that lies outside the workspace (above it, or named by a `.git` file) is
    /// writable, with its own protections.
    pub outside: bool,
}

/// How a run reaches the network.
#[derive(Clone, Serialize, Deserialize)]
pub enum Network {
    /// Only through the egress proxy.
    Proxy {
        /// The hosts it may reach.
        allow: Allowlist,
        /// Loopback ports of the node that the proxy reaches for it.
        forward: Vec<u16>,
    },
    /// `--share-net`: the node's own network. Takes the run out of tier 1.
    Host,
}

/// A policy that cannot be meant.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PolicyError {
    /// No command.
    #[error("no command: put it after `--`, as in `oz0-node sandbox run -- ls`")]
    NoCommand,
    /// A word of the command holds a NUL byte.
    #[error("argument {0} of the command holds a NUL byte, which no program can be given")]
    NulInCommand(usize),
    /// An empty path.
    #[error("{option}: the path is empty")]
    EmptyPath {
        /// The option that named it.
        option: &'static str,
    },
    /// A NUL in a path.
    #[error("{option} {path}: a path cannot hold a NUL byte")]
    NulInPath {
        /// The option that named it.
        option: &'static str,
        /// The path, escaped.
        path: String,
    },
    /// Two options say different things of one path.
    #[error("{first} and {second} both name {path}: keep one")]
    Contradiction {
        /// The first option.
        first: &'static str,
        /// The other.
        second: &'static str,
        /// The path, escaped.
        path: String,
    },
}

impl Policy {
    /// Every path with the option that names it, the working directory first.
    pub fn grants(&self) -> impl Iterator<Item = (&'static str, Access, &Path)> {
        std::iter::once(("--work", Access::Write, self.work.as_path()))
            .chain(self.read.iter().map(|path| ("--read", Access::Read, path.as_path())))
            .chain(self.write.iter().map(|path| ("--write", Access::Write, path.as_path())))
    }

    /// Is the policy one that can be meant? Names the input that cannot.
    pub fn validate(&self) -> Result<(), PolicyError> {
        if self.command.first().is_none_or(|program| program.is_empty()) {
            return Err(PolicyError::NoCommand);
        }
        for (place, word) in self.command.iter().enumerate() {
            if word.as_encoded_bytes().contains(&0) {
                return Err(PolicyError::NulInCommand(place));
            }
        }
        let sockets = self.sockets.iter().map(|path| ("--allow-socket", path.as_path()));
        let protect = self.protect.iter().map(|path| ("--protect", path.as_path()));
        let grants = self.grants().map(|(option, _, path)| (option, path));
        for (option, path) in grants.chain(sockets).chain(protect) {
            if path.as_os_str().is_empty() {
                return Err(PolicyError::EmptyPath { option });
            }
            if path.as_os_str().as_encoded_bytes().contains(&0) {
                return Err(PolicyError::NulInPath { option, path: text::escape(path.as_os_str()) });
            }
        }
        let grants: Vec<_> = self.grants().collect();
        for (place, (first, access, path)) in grants.iter().enumerate() {
            let other = grants[place + 1..]
                .iter()
                .find(|(_, other_access, other)| other_access != access && other == path);
            if let Some((second, _, _)) = other {
                return Err(PolicyError::Contradiction {
                    first,
                    second,
                    path: text::escape(path.as_os_str()),
                });
            }
        }
        Ok(())
    }
}

/// What a grant gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Reading and executing.
    Read,
    /// That and writing.
    Write,
}

/// A path made absolute against `current`, with `.` and doubled slashes dropped. `..` is kept: what it leads to
/// depends on the links before it, which only the file system knows.
pub fn absolute(current: &Path, path: &Path) -> PathBuf {
    if path.as_os_str().is_empty() {
        return PathBuf::new();
    }
    current.join(path).components().filter(|component| *component != Component::CurDir).collect()
}
