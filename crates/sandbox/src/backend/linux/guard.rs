//! Keeping protected files protected while the host changes them.
//!
//! Git on the host writes `.git/config` by renaming a new file over it; the kernel then drops the read-only
//! mount that lay on the old one. The folders of protected paths are watched, and whatever comes to stand in a
//! protected place is covered again. What a process of the run wrote in between, or could still write to a file
//! that it opened in between, is looked for and ends the run.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

use super::plan::{Plan, Step};
use crate::sys::linux::lease::has_writer;
use crate::sys::linux::visit::{Door, protect_again};
use crate::text;

/// The watch over a run's protected paths.
pub struct Guard {
    inotify: OwnedFd,
    /// For each watch: the folder, and the protected names in it with whether each is a folder.
    watched: BTreeMap<i32, (PathBuf, Vec<(CString, bool)>)>,
    /// The way into the container, once there is one.
    door: Option<Door>,
}

/// A protected path could not be covered again: the run must end.
#[derive(Debug, Clone, thiserror::Error)]
pub enum GuardError {
    /// The bind failed.
    #[error("{path} was replaced outside and could not be protected again: {errno}")]
    Bind {
        /// The path, escaped.
        path: String,
        /// What the kernel answered.
        errno: Errno,
    },
    /// The run has it open.
    #[error("{path} was replaced outside and process {pid} of the run had opened it for writing")]
    Open {
        /// The path, escaped.
        path: String,
        /// The process.
        pid: i32,
    },
    /// Somebody goes on having it open.
    #[error(
        "{path} was replaced outside and somebody had opened it for writing before it could be protected again"
    )]
    Held {
        /// The path, escaped.
        path: String,
    },
    /// Somebody wrote to it while it was open to the run.
    #[error("{path} was replaced outside and written to before it could be protected again")]
    Written {
        /// The path, escaped.
        path: String,
    },
    /// More happened than the kernel kept.
    #[error("changes to protected paths came faster than they could be read")]
    Lost,
}

impl Guard {
    /// Watch the protected paths of a plan; none when it has none.
    pub fn over(plan: &Plan) -> Result<Option<Guard>, Errno> {
        let mut folders: BTreeMap<&Path, Vec<(CString, bool)>> = BTreeMap::new();
        for step in &plan.tree {
            if let Step::Protect { path, folder } = step
                && let (Some(parent), Some(name)) = (path.parent(), path.file_name())
                && let Ok(name) = CString::new(name.as_bytes())
            {
                folders.entry(parent).or_default().push((name, *folder));
            }
        }
        if folders.is_empty() {
            return Ok(None);
        }
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let mut watched = BTreeMap::new();
        let flags = WatchFlags::MOVED_TO
            | WatchFlags::CREATE
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::ONLYDIR
            | WatchFlags::DONT_FOLLOW;
        for (folder, names) in folders {
            let watch = inotify::add_watch(&inotify, folder, flags)?;
            watched.insert(watch, (folder.to_path_buf(), names));
        }
        Ok(Some(Guard { inotify, watched, door: None }))
    }

    /// Keep the way into the container of the process with this number, which must not have been made unreadable
    /// yet.
    pub fn enter(&mut self, process: i32) -> std::io::Result<()> {
        self.door = Some(Door::of(&Path::new("/proc").join(process.to_string()))?);
        Ok(())
    }

    /// Read what happened, and cover again what was replaced.
    ///
    /// What comes to stand there is open to the run until it is covered. The kernel keeps the order: a write to it
    /// that was finished by then is a word after the one of the replacement, and one that was not finished is
    /// found by its open descriptor. Git itself writes another name and renames that.
    pub fn act(&self, members: &[i32]) -> Result<(), GuardError> {
        let mut open: Vec<(PathBuf, bool)> = Vec::new();
        let mut written = None;
        loop {
            let mut replaced: Vec<(PathBuf, bool)> = Vec::new();
            self.read(|path, is_folder, happened| {
                let known = open.iter().chain(&replaced).any(|(other, _)| *other == path);
                if !happened.contains(ReadFlags::CLOSE_WRITE) {
                    replaced.push((path, is_folder));
                } else if known {
                    written.get_or_insert(path);
                }
            })?;
            if replaced.is_empty() {
                break;
            }
            for (path, folder) in &replaced {
                cover(self.door.as_ref(), path, *folder, members)?;
            }
            open.append(&mut replaced);
        }
        match written {
            Some(path) => Err(GuardError::Written { path: text::escape(&path) }),
            None => Ok(()),
        }
    }

    /// All that happened to protected names since the last time.
    fn read(&self, mut each: impl FnMut(PathBuf, bool, ReadFlags)) -> Result<(), GuardError> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.inotify, &mut buffer);
        while let Ok(event) = reader.next() {
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                return Err(GuardError::Lost);
            }
            let Some((folder, names)) = self.watched.get(&event.wd()) else { continue };
            let name = names.iter().find(|(name, _)| Some(name.as_c_str()) == event.file_name());
            if let Some((name, is_folder)) = name {
                each(folder.join(OsStr::from_bytes(name.as_bytes())), *is_folder, event.events());
            }
        }
        Ok(())
    }
}

impl AsFd for Guard {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

fn cover(door: Option<&Door>, path: &Path, folder: bool, members: &[i32]) -> Result<(), GuardError> {
    let shown = || text::escape(path);
    let words = CString::new(path.as_os_str().as_bytes())
        .map_err(|_| GuardError::Bind { path: shown(), errno: Errno::INVAL })?;
    let door = door.ok_or_else(|| GuardError::Bind { path: shown(), errno: Errno::SRCH })?;
    match protect_again(door, &words, folder) {
        Ok(()) => {}
        // Gone again already: whatever comes next is another event.
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(GuardError::Bind { path: shown(), errno }),
    }
    // After the cover nothing more can be opened for writing; what was opened before is found here.
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if let Some(pid) = writer_of((metadata.dev(), metadata.ino()), members) {
        return Err(GuardError::Open { path: shown(), pid });
    }
    if !folder && is_held(path) {
        return Err(GuardError::Held { path: shown() });
    }
    Ok(())
}

/// Does anybody go on having the file open for writing, a closed descriptor's mapping included? Whoever wrote it
/// outside is given a moment. Where the kernel does not say, the open descriptors were all there is to look at.
fn is_held(path: &Path) -> bool {
    const MOMENTS: u32 = 10;
    for moment in 0..MOMENTS {
        if !has_writer(path).unwrap_or(false) {
            return false;
        }
        if moment + 1 < MOMENTS {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }
    true
}

/// A process that holds a file open for writing.
fn writer_of(identity: (u64, u64), members: &[i32]) -> Option<i32> {
    members.iter().copied().find(|pid| {
        let Ok(descriptors) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
        descriptors.filter_map(Result::ok).any(|descriptor| {
            let same = std::fs::metadata(descriptor.path())
                .is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == identity);
            // The link's own permissions say how the descriptor is open.
            let writable = std::fs::symlink_metadata(descriptor.path())
                .is_ok_and(|metadata| metadata.mode() & 0o200 != 0);
            same && writable
        })
    })
}
