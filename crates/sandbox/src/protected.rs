//! Protected paths: what other programs execute later, so a run may read it and never write it.
//!
//! Three steps. [`find()`] says before a launch what is to be mounted read-only, what must not be moved, and what
//! is absent. [`before`] notes the state of what a mount cannot hold, and [`after`] tells what the run left that
//! another program may execute. The list itself is data: [`rules::RULES`].
//!
//! Nothing of a repository is ever executed: git is not run, its configuration is read with a library, and files
//! are opened so that a FIFO cannot hold the launch up. How the paths are mounted is a backend's business: this
//! module knows no `sys`. It hands out real paths only, free of links and below a writable folder at the time of
//! asking; whoever mounts them opens them below that folder without following links, since the host may have
//! changed them meanwhile.

mod collect;
mod find;
mod git;
mod look;
mod regular;
pub mod rules;
mod settings;
mod walk;

pub use find::find;
pub use look::{Left, Look, Snapshot, What, after, before};
pub use walk::Bounds;

use serde::Serialize;
use std::io;
use std::path::{Path, PathBuf};

/// What the run may write and what it asked for.
#[derive(Debug, Clone)]
pub struct Request {
    /// The working directory.
    pub work: PathBuf,
    /// Other writable folders (`--write`).
    pub writable: Vec<PathBuf>,
    /// Repositories to protect wherever they lie in the writable folders (`--protect`).
    pub repositories: Vec<PathBuf>,
    /// The caller's home folder, for git's global configuration and `~/`.
    pub home: Option<PathBuf>,
    /// The caller's `XDG_CONFIG_HOME`, when it is set.
    pub config_home: Option<PathBuf>,
    /// Git's system-wide configuration.
    pub system_config: PathBuf,
    /// `--git`: the enclosing repository's git folder is writable, with its protections.
    pub git: bool,
    /// `--git-hooks`: hooks folders stay writable in this run.
    pub git_hooks: bool,
    /// How far nested repositories are searched for.
    pub bounds: Bounds,
}

impl Request {
    /// A run in `work`, with nothing else asked for.
    pub fn new(work: impl Into<PathBuf>) -> Self {
        Self {
            work: work.into(),
            writable: Vec::new(),
            repositories: Vec::new(),
            home: None,
            config_home: None,
            system_config: PathBuf::from("/etc/gitconfig"),
            git: false,
            git_hooks: false,
            bounds: Bounds::LAUNCH,
        }
    }
}

/// The type of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder with all that lies below it.
    Folder,
}

/// What is read-only while the run lasts: it exists, lies in a writable folder, and is not below another entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// The real path.
    #[serde(with = "crate::text::path")]
    pub path: PathBuf,
    /// What it is.
    pub kind: Kind,
    /// The rule that names it.
    pub rule: &'static str,
}

/// The type of a pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PinKind {
    /// A folder, to be bound onto itself.
    Folder,
    /// A symlink, to be covered without following it.
    Link,
}

/// What may not be renamed, removed or replaced, while what lies in it stays writable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pin {
    /// The real path.
    #[serde(with = "crate::text::path")]
    pub path: PathBuf,
    /// What it is.
    pub kind: PinKind,
}

/// A protected path that does not exist, so that no mount can forbid it: the look names it when it appears.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Absent {
    /// The path that would be made.
    #[serde(with = "crate::text::path")]
    pub path: PathBuf,
    /// The rule that names it.
    pub rule: &'static str,
}

/// How a repository was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// The work directory is in it.
    Enclosing,
    /// A writable folder's root is its root.
    Root,
    /// A submodule's git folder in `.git/modules`.
    Submodule,
    /// A worktree's git folder in `.git/worktrees`.
    Worktree,
    /// The walk met it.
    Nested,
    /// The caller named it.
    Asked,
}

/// A repository and where its parts are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Repository {
    /// How it was found.
    pub how: How,
    /// Where its files are; none for a bare one.
    #[serde(with = "crate::text::paths")]
    pub root: Option<PathBuf>,
    /// Its own git folder.
    #[serde(with = "crate::text::path")]
    pub git_dir: PathBuf,
    /// The git folder that it shares with its worktrees.
    #[serde(with = "crate::text::path")]
    pub common_dir: PathBuf,
    /// The folders that git may run hooks from, there or not.
    #[serde(with = "crate::text::paths")]
    pub hooks: Vec<PathBuf>,
}

/// The repository that the work directory is in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Enclosing {
    /// Where its files begin; none for a bare one.
    #[serde(with = "crate::text::paths")]
    pub root: Option<PathBuf>,
    /// Its own git folder.
    #[serde(with = "crate::text::path")]
    pub git_dir: PathBuf,
    /// The git folder that it shares with its worktrees.
    #[serde(with = "crate::text::path")]
    pub common_dir: PathBuf,
    /// Git folders outside the writable folders that git writes to: to be shown, and with `--git` writable.
    #[serde(with = "crate::text::paths")]
    pub outside: Vec<PathBuf>,
    /// Whether `outside` is to be writable: asked for, and the git folder itself says that it belongs here.
    pub granted: bool,
}

/// What kind of trouble a [`Problem`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProblemKind {
    /// The work directory lies below a repository's root, whose git folder is read-only without `--git`.
    EnclosingReadOnly,
    /// The work directory's `.git` leads to a git folder outside the writable folders.
    GitDirOutside,
    /// `.git` leads to a git folder that does not say it belongs here, so `--git` does not open it.
    NotItsOwn,
    /// A `.git` that git cannot use.
    Broken,
    /// A configuration that could not be read: protected as a file, what it names is not known.
    Config,
    /// A file with further names.
    OtherName,
    /// A protected path that leads to a folder above the writable one.
    TooWide,
    /// A protected path that is no file and no folder.
    Special,
    /// A protected path that cannot be followed.
    Unreadable,
    /// More than is protected one by one.
    TooMany,
    /// The search for nested repositories reached its bound.
    Cut,
}

/// What stands in the way of full protection, or of git's working, in one sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// What kind it is.
    pub kind: ProblemKind,
    /// What it is about.
    #[serde(with = "crate::text::path")]
    pub path: PathBuf,
    /// What it means and what to do; paths in it are escaped.
    pub sentence: String,
}

/// All that a launch has to know.
#[derive(Debug, Clone, Serialize)]
pub struct Protected {
    /// The list's version.
    pub version: u32,
    /// The writable folders at their real places, the work directory first; with `--git`, git folders too.
    #[serde(with = "crate::text::paths")]
    pub roots: Vec<PathBuf>,
    /// To be read-only, in the order of mounts.
    pub read_only: Vec<Entry>,
    /// To be kept where it is, outer ones first.
    pub pins: Vec<Pin>,
    /// To be looked for after the run.
    pub absent: Vec<Absent>,
    /// The repositories met.
    pub repositories: Vec<Repository>,
    /// The one that the work directory is in.
    pub enclosing: Option<Enclosing>,
    /// What could not be done in full.
    pub problems: Vec<Problem>,
    /// Whether the search for nested repositories reached its bound.
    pub cut: bool,
    /// `--git-hooks`.
    pub git_hooks: bool,
    /// The caller's home folder at its real place.
    #[serde(with = "crate::text::paths")]
    pub home: Option<PathBuf>,
}

impl Protected {
    /// A hooks folder that is read-only in this run and would not be with `--git-hooks`.
    pub fn closed_hooks(&self) -> Option<&Path> {
        let lifted = |entry: &&Entry| rules::by_id(entry.rule).is_some_and(|rule| rule.hooks);
        self.read_only.iter().find(lifted).map(|entry| entry.path.as_path())
    }

    /// The read-only entry that a refused write to the real path `path` met, with its rule, so that a report can
    /// name it and the switch that would allow it.
    pub fn over(&self, path: &Path) -> Option<(&Entry, &'static rules::Rule)> {
        let entry = self.read_only.iter().find(|entry| path.starts_with(&entry.path))?;
        rules::by_id(entry.rule).map(|rule| (entry, rule))
    }
}

/// Why nothing can be said about a run's protected paths.
#[derive(Debug, thiserror::Error)]
pub enum ProtectedError {
    /// A writable folder, or one to protect, that is not there.
    #[error("cannot use {} as a folder: {source}", crate::text::escape(.path))]
    Folder {
        /// The folder as given.
        path: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
    /// `--protect` names no repository.
    #[error("{} is no git repository, so there is nothing in it to protect", crate::text::escape(.path))]
    NotARepository {
        /// The folder as given.
        path: PathBuf,
    },
}

/// The folder at its real place.
fn real_folder(path: &Path) -> Result<PathBuf, ProtectedError> {
    let failed = |source| ProtectedError::Folder { path: path.to_owned(), source };
    let real = path.canonicalize().map_err(failed)?;
    match std::fs::symlink_metadata(&real) {
        Ok(metadata) if metadata.is_dir() => Ok(real),
        Ok(_) => Err(failed(io::ErrorKind::NotADirectory.into())),
        Err(error) => Err(failed(error)),
    }
}
