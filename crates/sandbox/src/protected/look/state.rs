//! The state of one watched path, and how two states differ.
//!
//! Stamps decide first: as long as inode, size and change time stand, the bytes do (the change time cannot be set
//! by a program). When they moved, the bytes of small files decide; where every time can be set, they always do. What a path means is not known here.

use super::super::regular;
use crate::sys::stamps;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Files up to this size are kept and compared by their bytes.
const SMALL: u64 = 32 * 1024;
/// Names in one watched folder, with all that lies below it.
const NAMES: usize = 512;
/// The same where the system holds the folder, so that this is a second look at what cannot have happened.
const HELD: usize = 128;
const DEPTH: usize = 6;

/// What is looked at in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Watch {
    /// Everything below it.
    Tree,
    /// What comes first below it: a mount holds the rest as well.
    Held,
    /// The files in it, without the samples that git puts there and never runs.
    Hooks,
}

#[derive(Debug)]
pub(super) enum State {
    Absent,
    Link(PathBuf),
    File(FileState),
    Folder {
        states: BTreeMap<PathBuf, State>,
        /// Whether all names are there; if not, a name that is missing says nothing.
        whole: bool,
    },
    /// A socket, FIFO or device, or what cannot be asked about.
    Other,
}

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(super) enum Change {
    New,
    Changed,
    Removed,
}

pub(super) struct FileState {
    stamp: Stamp,
    executable: bool,
    bytes: Option<Vec<u8>>,
}

/// Bytes of a configuration may hold a password.
impl fmt::Debug for FileState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("FileState").field("stamp", &self.stamp).finish_non_exhaustive()
    }
}

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
struct Stamp {
    length: u64,
    modified: Option<SystemTime>,
    /// Device, inode and change time, where the system has them.
    identity: [i64; 4],
}

impl State {
    /// The state of `path` now; sets `cut` when a folder holds more than is looked at.
    pub(super) fn of(path: &Path, watch: Watch, cut: &mut bool) -> Self {
        let mut names = if watch == Watch::Held { HELD } else { NAMES };
        let state = Self::take(path, watch, 0, &mut names);
        *cut |= names == 0 && watch != Watch::Held;
        state
    }

    fn take(path: &Path, watch: Watch, depth: usize, names: &mut usize) -> Self {
        let metadata = match std::fs::symlink_metadata(path) {
            Ok(metadata) => metadata,
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
                ) =>
            {
                return Self::Absent;
            }
            Err(_) => return Self::Other,
        };
        if metadata.is_symlink() {
            return std::fs::read_link(path).map_or(Self::Other, Self::Link);
        }
        if metadata.is_file() {
            return Self::File(FileState::of(path, &metadata, depth == 0 || watch == Watch::Hooks));
        }
        if !metadata.is_dir() {
            return Self::Other;
        }
        let mut states = BTreeMap::new();
        if depth == DEPTH {
            *names = 0;
            return Self::Folder { states, whole: false };
        }
        for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
            if *names == 0 {
                return Self::Folder { states, whole: false };
            }
            *names -= 1;
            let name = PathBuf::from(entry.file_name());
            if watch == Watch::Hooks && name.extension().is_some_and(|end| end == "sample") {
                continue;
            }
            let state = Self::take(&entry.path(), watch, depth + 1, names);
            states.insert(name, state);
        }
        Self::Folder { states, whole: true }
    }

    /// What is different now, each by its path below this one; empty for the path itself.
    pub(super) fn changes(&self, now: &Self) -> Vec<(PathBuf, Change)> {
        let mut changes = Vec::new();
        self.compare(now, Path::new(""), &mut changes);
        changes
    }

    fn compare(&self, now: &Self, at: &Path, changes: &mut Vec<(PathBuf, Change)>) {
        let change = match (self, now) {
            (Self::Absent, Self::Absent) | (Self::Other, Self::Other) => return,
            // An empty folder runs nothing; what is in it is named one by one.
            (Self::Absent, Self::Folder { states, .. }) => {
                for (name, state) in states {
                    Self::Absent.compare(state, &at.join(name), changes);
                }
                return;
            }
            (Self::Folder { states: before, whole: was_whole }, Self::Folder { states: now, whole }) => {
                for (name, state) in now {
                    match before.get(name) {
                        Some(before) => before.compare(state, &at.join(name), changes),
                        None if *was_whole => Self::Absent.compare(state, &at.join(name), changes),
                        None => {}
                    }
                }
                for (name, state) in before.iter().filter(|(name, _)| *whole && !now.contains_key(*name)) {
                    state.compare(&Self::Absent, &at.join(name), changes);
                }
                return;
            }
            (Self::Absent, _) => Change::New,
            (_, Self::Absent) => Change::Removed,
            (Self::Link(before), Self::Link(now)) if before == now => return,
            (Self::File(before), Self::File(now)) if before.same(now) => return,
            _ => Change::Changed,
        };
        changes.push((at.to_owned(), change));
    }
}

impl FileState {
    fn of(path: &Path, metadata: &Metadata, keep: bool) -> Self {
        let small = keep && metadata.len() <= SMALL;
        let bytes = if small { regular::read(path, SMALL).ok().flatten() } else { None };
        let (identity, executable) = stamps::identity(path, metadata);
        let stamp = Stamp { length: metadata.len(), modified: metadata.modified().ok(), identity };
        Self { stamp, executable, bytes }
    }

    fn same(&self, now: &Self) -> bool {
        if self.stamp == now.stamp && (stamps::CERTAIN || self.bytes.is_none()) {
            return true;
        }
        // The executable bit makes a hook of a file.
        self.bytes.is_some() && self.bytes == now.bytes && self.executable == now.executable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(folder: &Path, act: impl FnOnce()) -> Vec<(PathBuf, Change)> {
        let mut cut = false;
        let before = State::of(folder, Watch::Tree, &mut cut);
        act();
        let now = State::of(folder, Watch::Tree, &mut cut);
        assert!(!cut);
        before.changes(&now)
    }

    #[test]
    fn new_changed_and_removed_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for name in ["stays", "changes", "goes"] {
            std::fs::write(root.join(name), name).unwrap();
        }
        let found = changes(root, || {
            std::fs::write(root.join("changes"), "CHANGES").unwrap();
            std::fs::remove_file(root.join("goes")).unwrap();
            std::fs::create_dir(root.join("empty")).unwrap();
            std::fs::create_dir(root.join("deep")).unwrap();
            std::fs::write(root.join("deep/new"), "").unwrap();
        });
        assert_eq!(
            found,
            [
                ("changes".into(), Change::Changed),
                ("deep/new".into(), Change::New),
                ("goes".into(), Change::Removed)
            ]
        );
    }

    #[test]
    fn a_touched_file_is_the_same_and_a_rewritten_one_with_old_times_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "aaaa").unwrap();
        let modified = std::fs::metadata(&file).unwrap().modified().unwrap();
        assert!(changes(&file, || std::fs::write(&file, "aaaa").unwrap()).is_empty());
        let found = changes(&file, || {
            std::fs::write(&file, "bbbb").unwrap();
            std::fs::File::options().write(true).open(&file).unwrap().set_modified(modified).unwrap();
        });
        assert_eq!(found, [(PathBuf::new(), Change::Changed)]);
    }

    #[test]
    fn a_folder_with_too_many_names_says_so() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..=NAMES {
            std::fs::write(folder.path().join(number.to_string()), "").unwrap();
        }
        let mut cut = false;
        let before = State::of(folder.path(), Watch::Tree, &mut cut);
        assert!(cut);
        // Names that fell to the bound are neither new nor removed.
        let held = State::of(folder.path(), Watch::Held, &mut cut);
        assert_eq!((before.changes(&held), held.changes(&before)), (Vec::new(), Vec::new()));
    }
}
