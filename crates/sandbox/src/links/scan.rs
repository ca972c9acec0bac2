//! The scan on Linux: names by getdents, one statx for each regular file, one readlink for each symlink.
//!
//! A folder is opened by its path below the root with openat2, which refuses symlinks on the way: what the
//! running command moves or replaces meanwhile cannot lead the scan outside. Depth costs no descriptors.

use super::tally::Tally;
use super::{Findings, Leaving, Look, Shared};
use crate::resolve::resolve;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, ResolveFlags, StatxFlags};
use std::collections::HashMap;
use std::ffi::{CStr, OsStr};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

/// Files with several names that are kept in mind (about 150 bytes each).
const KEPT: usize = 500_000;

pub(super) fn take(roots: &[&Path], look: &Look, cancel: &AtomicBool) -> Findings {
    let mut scan = Scan { roots, look, tally: Tally::new(look, cancel), shared: HashMap::new() };
    for root in roots {
        scan.root(root);
        if scan.tally.is_cut() {
            break;
        }
    }
    let outside = |file: &Shared| file.inside < file.names;
    scan.tally.finish(scan.shared.into_values().filter(outside).collect())
}

struct Scan<'a> {
    roots: &'a [&'a Path],
    look: &'a Look,
    tally: Tally<'a>,
    /// Files with several names, by device and inode.
    shared: HashMap<(u32, u32, u64), Shared>,
}

impl Scan<'_> {
    fn root(&mut self, root: &Path) {
        let folder_flags =
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let Ok(top) = rustix::fs::open(root, folder_flags, Mode::empty()) else {
            self.tally.unreadable(root);
            return;
        };
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let mut buffer = vec![MaybeUninit::uninit(); 64 * 1024];
        let mut folders = vec![PathBuf::from(".")];
        while let Some(below) = folders.pop() {
            let folder = match rustix::fs::openat2(&top, &below, folder_flags, Mode::empty(), within) {
                Ok(folder) => folder,
                // Removed or replaced since its name was read: what stands there now was made in the run.
                Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP) => {
                    continue;
                }
                Err(_) => {
                    self.tally.unreadable(&root.join(&below));
                    continue;
                }
            };
            let from = folders.len();
            if !self.folder(root, &below, &folder, &mut buffer, &mut folders) {
                return;
            }
            // In the order of the listing, for the eye of whoever reads the first findings.
            folders[from..].reverse();
        }
    }

    /// One folder; false when the scan is to end.
    fn folder(
        &mut self,
        root: &Path,
        below: &Path,
        folder: &OwnedFd,
        buffer: &mut [MaybeUninit<u8>],
        folders: &mut Vec<PathBuf>,
    ) -> bool {
        let mut names = RawDir::new(folder, buffer);
        while let Some(entry) = names.next() {
            let Ok(entry) = entry else {
                self.tally.unreadable(&root.join(below));
                return true;
            };
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            if self.tally.looked_at(256) && self.tally.is_over() {
                return false;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => kind_of(folder.as_fd(), name),
                kind => kind,
            };
            let path = || below.strip_prefix(".").unwrap_or(below).join(OsStr::from_bytes(name.to_bytes()));
            match kind {
                FileType::Directory => folders.push(path()),
                FileType::Symlink => self.symlink(&root.join(path()), folder.as_fd(), name),
                FileType::RegularFile if self.look.hard_links => {
                    self.file(|| root.join(path()), folder.as_fd(), name);
                }
                _ => {}
            }
        }
        !self.tally.is_over()
    }

    fn symlink(&mut self, path: &Path, folder: BorrowedFd<'_>, name: &CStr) {
        let Some(parent) = path.parent() else { return };
        let Ok(target) = rustix::fs::readlinkat(folder, name, Vec::new()) else { return };
        let target = resolve(parent, Path::new(OsStr::from_bytes(target.to_bytes()))).real;
        if self.roots.iter().any(|root| target.starts_with(root)) {
            return;
        }
        if let Some(since) = &self.look.since {
            let unseen = since.known.as_ref().is_some_and(|known| !known.contains(path));
            if !unseen && !changed_since(folder, name, since.time) {
                return;
            }
        }
        self.tally.leaves(Leaving { path: path.to_owned(), target });
    }

    fn file(&mut self, path: impl Fn() -> PathBuf, folder: BorrowedFd<'_>, name: &CStr) {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
        let wanted = StatxFlags::NLINK | StatxFlags::INO;
        let Ok(status) = rustix::fs::statx(folder, name, flags, wanted) else { return };
        if status.stx_nlink < 2 {
            return;
        }
        if self.shared.len() == KEPT {
            self.tally.too_many();
            return;
        }
        let identity = (status.stx_dev_major, status.stx_dev_minor, status.stx_ino);
        let names = u64::from(status.stx_nlink);
        let shared = self.shared.entry(identity).or_insert_with(|| Shared { path: path(), names, inside: 0 });
        shared.inside += 1;
    }
}

/// The type of a name on a file system whose listing does not say.
fn kind_of(folder: BorrowedFd<'_>, name: &CStr) -> FileType {
    rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
        .map_or(FileType::Unknown, |status| FileType::from_raw_mode(status.st_mode))
}

/// Whether the link was made, moved or linked since then: the change time, which no program can set. Coarse
/// clocks stamp files up to a tick (10 ms) early; naming one link too many is the better error.
fn changed_since(folder: BorrowedFd<'_>, name: &CStr, since: SystemTime) -> bool {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let Ok(status) = rustix::fs::statx(folder, name, flags, StatxFlags::CTIME) else { return true };
    let (seconds, nanoseconds) = (status.stx_ctime.tv_sec, status.stx_ctime.tv_nsec);
    let seconds = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    let changed = SystemTime::UNIX_EPOCH + seconds + Duration::from_nanos(u64::from(nanoseconds));
    changed + Duration::from_millis(10) >= since
}
