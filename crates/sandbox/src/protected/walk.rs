//! A walk by names only, bounded in entries and time, for the repositories that lie in a folder.
//!
//! Breadth first, so that what is near the top is found first. Folders that tools fill (dependencies, build
//! output) are not skipped, since a repository there is as dangerous as elsewhere, but come last: they must not
//! eat the bound. No file is opened or asked about; a symlink is never followed.

use serde::Serialize;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How much a walk may look at.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Bounds {
    /// Names read, of all folders together.
    pub entries: usize,
    /// Wall time.
    pub time: Duration,
}

impl Bounds {
    /// Before a launch, which waits for it. So many names take about 3 ms; the time is for slow disks only: what is
    /// protected must not depend on how busy the machine is.
    pub const LAUNCH: Self = Self { entries: 4_000, time: Duration::from_millis(200) };
    /// After a run.
    pub const LOOK: Self = Self { entries: 40_000, time: Duration::from_millis(100) };
}

/// A folder that looks like a repository by its names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Seen {
    /// It holds a `.git`.
    Worktree(PathBuf),
    /// It holds what git takes for a git folder.
    GitDir(PathBuf),
}

#[derive(Debug, Default)]
pub(super) struct Walked {
    pub(super) seen: Vec<Seen>,
    pub(super) cut: bool,
}

/// Filled by tools; a list of names, so a folder of that name with sources in it only comes later.
const LAST: &[&str] = &[
    "node_modules",
    "target",
    "build",
    "dist",
    "out",
    "obj",
    "bin",
    "vendor",
    ".venv",
    "venv",
    "__pycache__",
    ".cache",
    ".gradle",
    ".tox",
    ".next",
    ".nuget",
    "packages",
];

/// Looks through `roots`, one after the other within one bound.
pub(super) fn walk<'a>(roots: impl IntoIterator<Item = &'a Path>, bounds: Bounds) -> Walked {
    let start = Instant::now();
    let mut walked = Walked::default();
    let mut first: VecDeque<PathBuf> = roots.into_iter().map(Path::to_path_buf).collect();
    let mut last = VecDeque::new();
    let mut read = 0;
    while let Some(folder) = first.pop_front().or_else(|| last.pop_front()) {
        if read >= bounds.entries || start.elapsed() >= bounds.time {
            walked.cut = true;
            break;
        }
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        let mut names = Names::default();
        let mut folders = Vec::new();
        for entry in entries {
            read += 1;
            // One folder may hold a million names.
            if read > bounds.entries {
                walked.cut = true;
                break;
            }
            let Ok(entry) = entry else { break };
            let name = entry.file_name();
            names.add(name.as_encoded_bytes());
            if name != ".git" && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(name);
            }
        }
        if names.worktree {
            walked.seen.push(Seen::Worktree(folder.clone()));
        }
        let git_dir = names.is_git_dir();
        for name in folders {
            // Three names make a git folder, so it is entered as well, or it would be a place to hide in.
            let late = git_dir || name.to_str().is_some_and(|name| LAST.contains(&name));
            let queue = if late { &mut last } else { &mut first };
            queue.push_back(folder.join(name));
        }
        if git_dir {
            walked.seen.push(Seen::GitDir(folder));
        }
    }
    walked
}

/// The names that make git take a folder for a git folder.
#[derive(Default)]
struct Names {
    worktree: bool,
    head: bool,
    objects: bool,
    refs: bool,
    commondir: bool,
}

impl Names {
    fn add(&mut self, name: &[u8]) {
        // A file system that folds case finds HEAD under head.
        match name.to_ascii_lowercase().as_slice() {
            b".git" => self.worktree = true,
            b"head" => self.head = true,
            b"objects" => self.objects = true,
            b"refs" => self.refs = true,
            b"commondir" => self.commondir = true,
            _ => {}
        }
    }

    fn is_git_dir(&self) -> bool {
        self.head && (self.commondir || (self.objects && self.refs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Bounds = Bounds { entries: 1_000_000, time: Duration::from_secs(60) };

    #[test]
    fn nested_and_bare_repositories_are_seen() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for path in
            ["a/b/.git/x/.git", "node_modules/c/.git", "bare/objects/x/.git", "bare/refs", "plain/deep"]
        {
            std::fs::create_dir_all(root.join(path)).unwrap();
        }
        std::fs::write(root.join("bare/HEAD"), "").unwrap();
        let walked = walk([root], ALL);
        assert!(!walked.cut);
        assert_eq!(
            walked.seen,
            [
                Seen::GitDir(root.join("bare")),
                Seen::Worktree(root.join("a/b")),
                Seen::Worktree(root.join("node_modules/c")),
                Seen::Worktree(root.join("bare/objects/x")),
            ]
        );
    }

    #[test]
    fn the_bound_holds_in_one_large_folder_and_is_said() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..50 {
            std::fs::write(folder.path().join(number.to_string()), "").unwrap();
        }
        assert!(walk([folder.path()], Bounds { entries: 49, ..ALL }).cut);
        assert!(!walk([folder.path()], Bounds { entries: 51, ..ALL }).cut);
        assert!(walk([folder.path()], Bounds { time: Duration::ZERO, ..ALL }).cut);
    }
}
