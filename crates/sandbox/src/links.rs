//! Links in a workspace that lead out of it: the scan before or beside a run, and what a run left behind.
//!
//! A supplement: the system's own policy decides what a run can write, and a mount cannot tell that a file has a
//! second name outside (a hard link made before the run writes through to it), nor hold what a symlink left
//! behind makes of the next program that follows it. So both are looked for and named. Nothing is followed: a
//! folder is opened below its root without symlinks, a link is read and its target asked for part by part.
//! What becomes of the findings, and how the workspace is mounted, is not known here.

#[cfg(target_os = "linux")]
mod scan;
#[cfg(any(target_os = "linux", windows))]
mod tally;
#[cfg(windows)]
mod windows;

use crate::text::escape;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

/// What is done about links that lead out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Links {
    /// Looked for beside the running command and named at the end.
    #[default]
    Report,
    /// Looked for before the launch, which is refused when there are any or when the scan is not complete.
    Refuse,
    /// Not looked for: a folder that was made for this run alone.
    Off,
}

/// A symlink that leads out of the writable folders.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Leaving {
    /// The link.
    #[serde(with = "crate::text::path")]
    pub path: PathBuf,
    /// Where it really leads, there or not.
    #[serde(with = "crate::text::path")]
    pub target: PathBuf,
}

/// A file with more names than were met in the writable folders.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Shared {
    /// The name that was met first.
    #[serde(with = "crate::text::path")]
    pub path: PathBuf,
    /// How many names the file has.
    pub names: u64,
    /// How many of them were met.
    pub inside: u64,
}

/// Why a scan did not see everything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cut {
    /// The run ended, or was cancelled.
    Cancelled,
    /// It took longer than it may.
    Time,
    /// A folder that could not be opened or read.
    Unreadable(#[serde(with = "crate::text::path")] PathBuf),
    /// More files with several names than are kept in mind.
    Entries,
    /// There is no scan for this system here.
    NotHere,
}

/// What a scan found. The lists are bounded, the numbers count everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Findings {
    /// Symlinks that lead out, the first of them by name.
    pub symlinks: Vec<Leaving>,
    /// How many there are.
    pub symlinks_in_all: u64,
    /// Files with names outside, the first of them by name.
    pub hard_links: Vec<Shared>,
    /// How many there are.
    pub hard_links_in_all: u64,
    /// Names that were looked at.
    pub looked_at: u64,
    /// Why there may be more; none when the scan is complete.
    pub cut: Option<Cut>,
}

/// Why a launch is refused for its links.
#[derive(Debug, thiserror::Error)]
pub enum LinksError {
    /// There are some.
    #[error(
        "{hard_links} files in the workspace have other names outside and {symlinks} links lead out of it, the first \
         is {}; remove them, put the workspace on a volume of its own, or run with --links report", escape(.first)
    )]
    Leaving {
        /// Files with names outside.
        hard_links: u64,
        /// Symlinks that lead out.
        symlinks: u64,
        /// One of them.
        first: PathBuf,
    },
    /// The scan is not complete, so nothing is known.
    #[error("the workspace's links are not known: {}; run with --links report to go on without", .0.sentence())]
    Incomplete(Cut),
}

impl Cut {
    /// The reason in words.
    pub fn sentence(&self) -> String {
        match self {
            Self::Cancelled => "the scan was ended with the run".to_owned(),
            Self::Time => "the scan took too long".to_owned(),
            Self::Unreadable(folder) => format!("{} cannot be read", escape(folder)),
            Self::Entries => "too many files have several names".to_owned(),
            Self::NotHere => "this system has no scan for links here".to_owned(),
        }
    }
}

impl Findings {
    /// What `--links refuse` answers before the launch.
    pub fn refuse(&self) -> Result<(), LinksError> {
        if let Some(cut) = &self.cut {
            return Err(LinksError::Incomplete(cut.clone()));
        }
        let first = self.hard_links.first().map(|file| &file.path);
        match first.or(self.symlinks.first().map(|link| &link.path)) {
            None => Ok(()),
            Some(first) => Err(LinksError::Leaving {
                hard_links: self.hard_links_in_all,
                symlinks: self.symlinks_in_all,
                first: first.clone(),
            }),
        }
    }
}

/// Longest scan beside a command, and before a launch that waits for it.
const REPORT: Duration = Duration::from_secs(10);
const REFUSE: Duration = Duration::from_secs(60);
/// Longest scan on the node's way to the start, while the container is being made on another processor.
const AT_ONCE: Duration = Duration::from_micros(300);
/// As many as one list names.
const LISTED: usize = 100;

/// Looks through the writable folders, which must be real paths, until done or until `cancel` is set.
pub fn scan(roots: &[PathBuf], mode: Links, cancel: &AtomicBool) -> Findings {
    let limit = match mode {
        Links::Off => return Findings::default(),
        Links::Report => REPORT,
        Links::Refuse => REFUSE,
    };
    take(roots, Look { hard_links: true, since: None, limit, listed: LISTED }, cancel)
}

/// The same for a workspace so small that a thread for it would take longer; none when this one is not.
pub fn scan_at_once(roots: &[PathBuf]) -> Option<Findings> {
    let look = Look { hard_links: true, since: None, limit: AT_ONCE, listed: LISTED };
    let findings = take(roots, look, &AtomicBool::new(false));
    findings.cut.is_none().then_some(findings)
}

/// The symlinks leading out that the run left: made or moved since `since`, or not among those that the scan
/// beside it had seen when that scan is complete. Takes at most `limit`.
pub fn left(roots: &[PathBuf], before: &Findings, since: SystemTime, limit: Duration) -> Findings {
    let complete = before.cut.is_none() && before.symlinks_in_all == before.symlinks.len() as u64;
    let known = complete.then(|| before.symlinks.iter().map(|link| link.path.clone()).collect());
    let since = Some(Since { time: since, known });
    take(roots, Look { hard_links: false, since, limit, listed: LISTED }, &AtomicBool::new(false))
}

/// What is looked for.
#[cfg_attr(
    not(any(target_os = "linux", windows)),
    allow(dead_code, reason = "the scan of that system is not here")
)]
struct Look {
    hard_links: bool,
    /// Only symlinks that are new.
    since: Option<Since>,
    limit: Duration,
    listed: usize,
}

/// What makes a symlink new.
#[cfg_attr(
    not(any(target_os = "linux", windows)),
    allow(dead_code, reason = "the scan of that system is not here")
)]
struct Since {
    time: SystemTime,
    /// The links that were there, when all of them are known.
    known: Option<BTreeSet<PathBuf>>,
}

#[cfg(target_os = "linux")]
fn take(roots: &[PathBuf], look: Look, cancel: &AtomicBool) -> Findings {
    scan::take(&outermost(roots), &look, cancel)
}

#[cfg(windows)]
fn take(roots: &[PathBuf], look: Look, cancel: &AtomicBool) -> Findings {
    windows::take(&outermost(roots), &look, cancel)
}

#[cfg(not(any(target_os = "linux", windows)))]
fn take(_roots: &[PathBuf], _look: Look, _cancel: &AtomicBool) -> Findings {
    Findings { cut: Some(Cut::NotHere), ..Findings::default() }
}

/// The roots that lie below no other, or a name would be counted twice.
#[cfg_attr(
    not(any(target_os = "linux", windows)),
    allow(dead_code, reason = "the scan of that system is not here")
)]
fn outermost(roots: &[PathBuf]) -> Vec<&Path> {
    let paths: BTreeSet<&Path> = roots.iter().map(PathBuf::as_path).collect();
    let below = |path: &&Path| paths.iter().any(|root| root != path && path.starts_with(root));
    paths.iter().copied().filter(|path| !below(path)).collect()
}
