//! One folder of a cgroup tree by its descriptor: its files read and written, folders made and removed in it.
//! Knows the file system and no limits.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{self, AtFlags, FileType, FlockOperation, Mode, OFlags};
use rustix::io::{self, Errno};

use super::CgroupError;

/// An open folder and the path it was opened by.
#[derive(Debug)]
pub(super) struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

const OPEN_FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Folder {
    pub fn open(path: &Path) -> Result<Folder, CgroupError> {
        match fs::open(path, OPEN_FOLDER, Mode::empty()) {
            Ok(fd) => Ok(Folder { fd, path: path.to_owned() }),
            Err(errno) => Err(os("open", path.to_owned(), errno)),
        }
    }

    pub fn open_child(&self, name: &str) -> Result<Folder, CgroupError> {
        let fd = fs::openat(&self.fd, name, OPEN_FOLDER, Mode::empty())
            .map_err(|errno| self.failed("open", name, errno))?;
        Ok(Folder { fd, path: self.path.join(name) })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes a folder; false when there is one of that name.
    pub fn make_child(&self, name: &str) -> Result<bool, CgroupError> {
        match fs::mkdirat(&self.fd, name, Mode::from_raw_mode(0o755)) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(errno) => Err(self.failed("make", name, errno)),
        }
    }

    /// Removes a cgroup (never its files: they go with it). Absent is removed.
    pub fn remove_child(&self, name: &str) -> Result<(), CgroupError> {
        match fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(self.failed("remove", name, errno)),
        }
    }

    /// The names of the cgroups below this one.
    pub fn children(&self) -> Result<Vec<String>, CgroupError> {
        let failed = |errno| os("list", self.path.clone(), errno);
        let mut names = Vec::new();
        for entry in fs::Dir::read_from(&self.fd).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_string_lossy();
            if entry.file_type() == FileType::Directory && name != "." && name != ".." {
                names.push(name.into_owned());
            }
        }
        Ok(names)
    }

    pub fn open_file(&self, name: &str, access: OFlags) -> Result<OwnedFd, Errno> {
        fs::openat(&self.fd, name, access | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
    }

    pub fn read(&self, name: &str) -> Result<String, CgroupError> {
        let file = self.open_file(name, OFlags::RDONLY).map_err(|errno| self.failed("open", name, errno))?;
        read_from_start(file.as_fd()).map_err(|errno| self.failed("read", name, errno))
    }

    pub fn write(&self, name: &str, value: &str) -> Result<(), CgroupError> {
        let file = self.open_file(name, OFlags::WRONLY).map_err(|errno| self.failed("open", name, errno))?;
        // The kernel takes a control file's value in one write or not at all.
        io::write(&file, value.as_bytes()).map_err(|errno| self.failed("write", name, errno))?;
        Ok(())
    }

    /// The pids in this cgroup, as this process's pid namespace numbers them.
    pub fn members(&self) -> Result<Vec<i32>, CgroupError> {
        Ok(self.read("cgroup.procs")?.lines().filter_map(|line| line.trim().parse().ok()).collect())
    }

    /// Locks the folder for as long as this descriptor (or a forked copy of it) is open; false when another
    /// holds it.
    pub fn lock(&self) -> Result<bool, CgroupError> {
        match fs::flock(&self.fd, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(errno) => Err(os("lock", self.path.clone(), errno)),
        }
    }

    /// Whether this caller may make cgroups in it, asked of the kernel with the rights that count.
    pub fn is_writable(&self) -> bool {
        let access = fs::Access::WRITE_OK | fs::Access::EXEC_OK;
        fs::accessat(&self.fd, ".", access, AtFlags::EACCESS).is_ok()
    }

    pub fn owner(&self) -> Result<u32, CgroupError> {
        match fs::fstat(&self.fd) {
            Ok(stat) => Ok(stat.st_uid),
            Err(errno) => Err(os("look at", self.path.clone(), errno)),
        }
    }

    /// Gives a file of this folder (`.`: the folder itself) to a user. Absent files are passed over.
    pub fn give(&self, name: &str, uid: u32, gid: u32) -> Result<(), CgroupError> {
        let owner = (fs::Uid::from_raw(uid), fs::Gid::from_raw(gid));
        match fs::chownat(&self.fd, name, Some(owner.0), Some(owner.1), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(self.failed("change the owner of", name, errno)),
        }
    }

    /// Whether whoever manages the tree marked this cgroup as handed over (systemd does for `Delegate=yes`).
    pub fn is_marked_delegated(&self) -> bool {
        ["user.delegate", "trusted.delegate"].iter().any(|mark| {
            let mut value = [0_u8; 8];
            fs::fgetxattr(&self.fd, *mark, value.as_mut_slice()).is_ok_and(|length| value[..length] == *b"1")
        })
    }

    pub fn failed(&self, call: &'static str, name: &str, errno: Errno) -> CgroupError {
        os(call, self.path.join(name), errno)
    }
}

/// Reads a kernel's file from its start, in large parts (each read of /proc/self/mountinfo is costly),
/// through a descriptor that may have been written through before.
pub(super) fn read_from_start(file: BorrowedFd<'_>) -> Result<String, Errno> {
    let mut bytes = Vec::new();
    let mut part = [0_u8; 16384];
    loop {
        match io::pread(file, part.as_mut_slice(), bytes.len() as u64)? {
            0 => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
            length => bytes.extend_from_slice(&part[..length]),
        }
    }
}

pub(super) fn os(call: &'static str, path: PathBuf, errno: Errno) -> CgroupError {
    CgroupError::Os { call, path, code: errno.raw_os_error() }
}

impl CgroupError {
    /// The system's error number, when a call failed.
    pub(super) fn errno(&self) -> Option<Errno> {
        match self {
            CgroupError::Os { code, .. } => Some(Errno::from_raw_os_error(*code)),
            _ => None,
        }
    }
}
