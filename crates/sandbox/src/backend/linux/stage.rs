//! Acting on a plan's tree, inside the new namespaces: one pass that opens what comes from the host, one that
//! puts it together, then the pivot. Decides nothing.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags};

use super::etc::SMALL;
use super::orders::{Membership, View};
use super::plan::{CLOSED_FILE, CLOSED_FOLDER, HIDDEN, Plan, Step};
use crate::policy::Access;
use crate::sys::linux::second::SecondStep;
use crate::sys::linux::tree::{MountAttributes, set_attributes};

/// A step that failed: which of the plan's, which call, and what the kernel answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The step's place in the plan's tree; none for the frame around it.
    pub step: Option<u16>,
    /// The call.
    pub call: Call,
    /// What the kernel answered.
    pub errno: Errno,
}

/// The calls that a failure may name, each with its words.
macro_rules! calls {
    ($($name:ident => $words:literal,)*) => {
        /// The calls that a failure may name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)]
        pub enum Call {
            $($name,)*
            /// A step of the command's own process.
            Second(SecondStep),
        }

        impl Call {
            const LIST: &[Call] = &[$(Call::$name,)*];

            /// What was tried, in words.
            pub fn words(self) -> &'static str {
                match self {
                    $(Call::$name => $words,)*
                    Call::Second(step) => step.words(),
                }
            }
        }
    };
}

calls! {
    Schedule => "leaving the caller's real-time class (sched_setscheduler)",
    JoinCgroup => "joining the run's cgroup",
    Unshare => "making the namespaces (unshare)",
    IdMap => "mapping the caller's own id (/proc/self/uid_map)",
    Open => "opening",
    OpenTree => "taking a copy of the mount (open_tree)",
    MountSetattr => "setting the mount's attributes (mount_setattr)",
    FsOpen => "making a file system (fsopen)",
    FsMount => "making a mount (fsmount)",
    MoveMount => "putting the mount in its place (move_mount)",
    Mkdir => "making a folder (mkdir)",
    Write => "writing a file",
    Symlink => "making a link (symlink)",
    Pivot => "changing the root (pivot_root)",
    Chdir => "entering the working directory",
    Loopback => "bringing up the loopback",
    Listen => "opening the proxy's port",
    Resolver => "opening the resolver's port",
    Terminal => "making a terminal",
    Landlock => "making the Landlock ruleset",
    Capabilities => "dropping capabilities",
    Setsid => "making a session (setsid)",
    Spawn => "starting a process",
    ParentGone => "watching the node (it is gone)",
    Hand => "talking to the node",
}

/// Steps of the command's process are numbered from here.
const SECOND: u8 = 128;

impl Call {
    /// The call's number in a message.
    pub fn number(self) -> u8 {
        match self {
            Call::Second(step) => SECOND + step as u8,
            call => Call::LIST.iter().position(|other| *other == call).unwrap_or(0) as u8,
        }
    }

    /// The call with this number.
    pub fn from_number(number: u8) -> Option<Call> {
        match number.checked_sub(SECOND) {
            Some(step) => SecondStep::from_number(step).map(Call::Second),
            None => Call::LIST.get(usize::from(number)).copied(),
        }
    }
}

fn failure(step: Option<u16>, call: Call) -> impl Fn(Errno) -> Failure {
    move |errno| Failure { step, call, errno }
}

/// Make the tree of `plan` and make it this process's root. `join` puts this process into the run's cgroup, which is
/// made meanwhile, and says where that is.
pub fn enter(plan: &Plan, join: impl FnOnce() -> Result<Membership, Failure>) -> Result<(), Failure> {
    // Everything from the host is opened before anything is laid over it.
    let mut sources = Vec::with_capacity(plan.tree.len());
    for (place, step) in numbered(plan) {
        sources.push(match step {
            Step::Bind { source, access, folder, devices, .. } => {
                Some(take(Some(place), source, *access, *folder, *devices)?)
            }
            Step::Copy { source, .. } => Some(readable(Some(place), source)?),
            _ => None,
        });
    }
    let root = own_memory(plan)?;
    rustix::mount::move_mount(&root, c"", CWD, c"/", MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .map_err(failure(None, Call::MoveMount))?;
    let mut join = Some(join);
    for ((place, step), source) in numbered(plan).zip(sources) {
        match (step, join.take_if(|_| *step == Step::CgroupView)) {
            (_, Some(join)) => show_cgroup(root.as_fd(), place, &join()?)?,
            (step, None) => act(root.as_fd(), place, step, source)?,
        }
    }
    if let Some(join) = join {
        join()?;
    }
    rustix::process::fchdir(&root).map_err(failure(None, Call::Pivot))?;
    rustix::process::pivot_root(c".", c".").map_err(failure(None, Call::Pivot))?;
    // The old root now lies over the new one; with it goes every name of the host's tree.
    rustix::mount::unmount(c".", UnmountFlags::DETACH).map_err(failure(None, Call::Pivot))?;
    rustix::process::chdir(&plan.start).map_err(failure(None, Call::Chdir))
}

fn numbered(plan: &Plan) -> impl Iterator<Item = (u16, &Step)> {
    plan.tree.iter().enumerate().map(|(place, step)| (u16::try_from(place).unwrap_or(u16::MAX), step))
}

/// The run's own memory: one tmpfs for the tree itself, TEMP, HOME and /dev/shm. Kill -9 leaves nothing of it.
fn own_memory(plan: &Plan) -> Result<OwnedFd, Failure> {
    let filesystem =
        rustix::mount::fsopen(c"tmpfs", FsOpenFlags::FSOPEN_CLOEXEC).map_err(failure(None, Call::FsOpen))?;
    let size = plan.memory_files.to_string();
    for (key, value) in [("size", size.as_str()), ("nr_inodes", "1000000"), ("mode", "0755")] {
        rustix::mount::fsconfig_set_string(filesystem.as_fd(), key, value)
            .map_err(failure(None, Call::FsOpen))?;
    }
    mounted(None, &filesystem, MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV)
}

fn mounted(step: Option<u16>, filesystem: &OwnedFd, attributes: MountAttrFlags) -> Result<OwnedFd, Failure> {
    rustix::mount::fsconfig_create(filesystem.as_fd()).map_err(failure(step, Call::FsOpen))?;
    rustix::mount::fsmount(filesystem.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
        .map_err(failure(step, Call::FsMount))
}

/// Take part of the host's tree as a mount of our own, with its attributes, unattached. The path holds no link:
/// one that has come to stand there since the plan was made is an error, and so is another type of inode.
fn take(
    step: Option<u16>,
    source: &Path,
    access: Access,
    folder: bool,
    devices: bool,
) -> Result<OwnedFd, Failure> {
    let opened = rustix::fs::openat2(
        CWD,
        source,
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS,
    )
    .map_err(failure(step, Call::Open))?;
    if folder != is_folder(opened.as_fd()).map_err(failure(step, Call::Open))? {
        return Err(Failure { step, call: Call::Open, errno: Errno::STALE });
    }
    copy(step, opened.as_fd(), folder, access == Access::Read, devices)
}

/// Open a small file of the host, which everyone may read: as root, too. The path holds no link.
fn readable(step: Option<u16>, source: &Path) -> Result<OwnedFd, Failure> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let opened = rustix::fs::openat2(CWD, source, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
        .map_err(failure(step, Call::Open))?;
    let stat = rustix::fs::fstat(&opened).map_err(failure(step, Call::Open))?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if is_file && stat.st_mode & 0o004 != 0 && stat.st_size <= SMALL as i64 {
        Ok(opened)
    } else {
        Err(Failure { step, call: Call::Open, errno: Errno::STALE })
    }
}

fn is_folder(opened: BorrowedFd<'_>) -> Result<bool, Errno> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(opened)?.st_mode) == FileType::Directory)
}

/// A copy of the mount at `opened`. Always recursive for folders: in a user namespace a plain copy of a folder
/// with mounts below it is refused, since it would uncover what they cover.
fn copy(
    step: Option<u16>,
    opened: BorrowedFd<'_>,
    folder: bool,
    read_only: bool,
    devices: bool,
) -> Result<OwnedFd, Failure> {
    let mut flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    if folder {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    let tree = rustix::mount::open_tree(opened, c"", flags).map_err(failure(step, Call::OpenTree))?;
    let attributes = MountAttributes { read_only, no_exec: false, no_devices: !devices };
    set_attributes(&tree, attributes, folder).map_err(failure(step, Call::MountSetattr))?;
    Ok(tree)
}

/// Open a path of the new tree. No link is followed: the plan's paths have none.
fn inside(root: BorrowedFd<'_>, step: Option<u16>, path: &Path) -> Result<OwnedFd, Failure> {
    rustix::fs::openat2(
        root,
        below_root(path),
        // With NOFOLLOW a link at the end is opened itself: a pinned one is held like a folder.
        OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH,
    )
    .map_err(failure(step, Call::Open))
}

fn below_root(path: &Path) -> &OsStr {
    let bytes = path.as_os_str().as_bytes();
    let below = bytes.strip_prefix(b"/").unwrap_or(bytes);
    if below.is_empty() { OsStr::new(".") } else { OsStr::from_bytes(below) }
}

fn attach(root: BorrowedFd<'_>, step: Option<u16>, tree: &OwnedFd, target: &Path) -> Result<(), Failure> {
    let target = inside(root, step, target)?;
    attach_to(step, tree, &target)
}

fn attach_to(step: Option<u16>, tree: &OwnedFd, target: &OwnedFd) -> Result<(), Failure> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rustix::mount::move_mount(tree, c"", target, c"", flags).map_err(failure(step, Call::MoveMount))
}

/// Lay a copy of `path` over itself.
fn onto_itself(root: BorrowedFd<'_>, step: Option<u16>, path: &Path, read_only: bool) -> Result<(), Failure> {
    let opened = inside(root, step, path)?;
    let folder = is_folder(opened.as_fd()).map_err(failure(step, Call::Open))?;
    let tree = copy(step, opened.as_fd(), folder, read_only, false)?;
    attach_to(step, &tree, &opened)
}

/// The folders of the run's own cgroup. Their paths are the host's: what lies over `/` is not entered from it.
fn show_cgroup(root: BorrowedFd<'_>, place: u16, Membership(views): &Membership) -> Result<(), Failure> {
    let number = Some(place);
    for View { folder, name } in views {
        let tree = take(None, folder, Access::Read, true, false)?;
        let target = Path::new("/sys/fs/cgroup").join(name);
        if !name.as_os_str().is_empty() {
            rustix::fs::mkdirat(root, below_root(&target), Mode::from_raw_mode(0o755))
                .map_err(failure(number, Call::Mkdir))?;
        }
        attach(root, number, &tree, &target)?;
    }
    Ok(())
}

fn new_file(root: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    rustix::fs::openat(root, below_root(path), flags, Mode::from_raw_mode(0o644))
}

fn write_all(file: &OwnedFd, mut rest: &[u8]) -> Result<(), Errno> {
    while !rest.is_empty() {
        rest = &rest[rustix::io::write(file, rest)?..];
    }
    Ok(())
}

fn act(root: BorrowedFd<'_>, place: u16, step: &Step, source: Option<OwnedFd>) -> Result<(), Failure> {
    let number = Some(place);
    match step {
        // The init's umask is zero here, so the plan's mode is the folder's.
        Step::Folder { path, mode } => {
            rustix::fs::mkdirat(root, below_root(path), Mode::from_raw_mode(*mode))
                .map_err(failure(number, Call::Mkdir))
        }
        Step::File { path, contents } => {
            let file = new_file(root, path).map_err(failure(number, Call::Write))?;
            write_all(&file, contents).map_err(failure(number, Call::Write))
        }
        Step::Copy { path, .. } => {
            let source = source.ok_or(Failure { step: number, call: Call::Open, errno: Errno::BADF })?;
            let file = new_file(root, path).map_err(failure(number, Call::Write))?;
            let mut part = [0u8; 16 * 1024];
            let mut length = 0;
            loop {
                let read = rustix::io::read(&source, &mut part).map_err(failure(number, Call::Open))?;
                length += read;
                if read == 0 {
                    return Ok(());
                }
                if length > SMALL {
                    return Err(Failure { step: number, call: Call::Open, errno: Errno::FBIG });
                }
                write_all(&file, &part[..read]).map_err(failure(number, Call::Write))?;
            }
        }
        Step::Link { path, target } => {
            rustix::fs::symlinkat(target, root, below_root(path)).map_err(failure(number, Call::Symlink))
        }
        Step::Bind { target, .. } => {
            let tree = source.ok_or(Failure { step: number, call: Call::OpenTree, errno: Errno::BADF })?;
            attach(root, number, &tree, target)
        }
        Step::Writable { path } => onto_itself(root, number, path, false),
        Step::Protect { path, folder } => {
            let opened = inside(root, number, path)?;
            if *folder != is_folder(opened.as_fd()).map_err(failure(number, Call::Open))? {
                return Err(Failure { step: number, call: Call::Open, errno: Errno::STALE });
            }
            let tree = copy(number, opened.as_fd(), *folder, true, false)?;
            attach_to(number, &tree, &opened)
        }
        Step::Proc { read_only } => {
            let filesystem = rustix::mount::fsopen(c"proc", FsOpenFlags::FSOPEN_CLOEXEC)
                .map_err(failure(number, Call::FsOpen))?;
            let mut attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
                | MountAttrFlags::MOUNT_ATTR_NODEV
                | MountAttrFlags::MOUNT_ATTR_NOEXEC;
            if *read_only {
                attributes |= MountAttrFlags::MOUNT_ATTR_RDONLY;
            }
            let tree = mounted(number, &filesystem, attributes)?;
            attach(root, number, &tree, Path::new("/proc"))
        }
        Step::Terminals => {
            let filesystem = rustix::mount::fsopen(c"devpts", FsOpenFlags::FSOPEN_CLOEXEC)
                .map_err(failure(number, Call::FsOpen))?;
            // Without a gid: the group `tty` is not one that this user namespace knows.
            for (key, value) in [("mode", "620"), ("ptmxmode", "666")] {
                rustix::mount::fsconfig_set_string(filesystem.as_fd(), key, value)
                    .map_err(failure(number, Call::FsOpen))?;
            }
            let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
            let tree = mounted(number, &filesystem, attributes)?;
            attach(root, number, &tree, Path::new("/dev/pts"))
        }
        // Shown when it is joined.
        Step::CgroupView => Ok(()),
        Step::Pin { root: writable, hidden, folders } => {
            let opened = inside(root, number, writable)?;
            let tree = copy(number, opened.as_fd(), true, true, false)?;
            attach(root, number, &tree, hidden)?;
            for folder in folders {
                let below = folder.strip_prefix(writable).unwrap_or(folder);
                onto_itself(root, number, &hidden.join(below), true)?;
            }
            Ok(())
        }
        Step::Hide { path, folder } => {
            let name = if *folder { CLOSED_FOLDER } else { CLOSED_FILE };
            let closed = inside(root, number, &Path::new(HIDDEN).join(name))?;
            let tree = copy(number, closed.as_fd(), *folder, true, false)?;
            attach(root, number, &tree, path)
        }
        Step::Seal => {
            let attributes = MountAttributes { read_only: true, no_exec: false, no_devices: true };
            set_attributes(root, attributes, false).map_err(failure(number, Call::MountSetattr))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn only_a_small_file_that_everyone_may_read_is_copied() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("file");
        let allow = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let refused = || readable(Some(1), &path).unwrap_err().errno;
        std::fs::write(&path, "x").unwrap();
        allow(0o644);
        assert!(readable(Some(1), &path).is_ok());
        allow(0o640);
        assert_eq!(refused(), Errno::STALE);
        std::fs::write(&path, vec![b'x'; SMALL + 1]).unwrap();
        allow(0o644);
        assert_eq!(refused(), Errno::STALE);
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", &path).unwrap();
        assert_eq!(refused(), Errno::LOOP);
    }
}
