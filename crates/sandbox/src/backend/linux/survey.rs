//! What this machine looks like, read once before planning, so that the plan itself is a pure function.
//! Changes nothing.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags, RawDir};

use super::etc::{self, SMALL, Treatment};
use crate::policy::Policy;
use crate::sys::linux::tree::landlock_abi;

/// The machine as the plan needs to know it.
#[derive(Clone, Debug)]
pub struct Survey {
    /// The caller's user id, kept inside.
    pub uid: u32,
    /// The caller's group id, kept inside.
    pub gid: u32,
    /// The caller's name, or its number where it has none.
    pub user: String,
    /// The group's name, or its number.
    pub group: String,
    /// `/bin`, `/lib` and their kind: what each is.
    pub roots: Vec<(PathBuf, Root)>,
    /// The entries of `/etc` that programs need and that are here.
    pub etc: Vec<(PathBuf, EtcEntry)>,
    /// Each path that the policy names, as it is on this machine.
    pub places: BTreeMap<PathBuf, Place>,
    /// Mounts, in the order of /proc/self/mountinfo.
    pub mounts: Vec<Mount>,
    /// Unix sockets below granted paths on which something on this machine listens.
    pub sockets: Vec<PathBuf>,
    /// Landlock's version, where the kernel has it.
    pub landlock: Option<u32>,
    /// Are descriptors 0, 1 and 2 all terminals?
    pub terminal: bool,
}

/// A folder at the top of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Root {
    /// A real folder: bound.
    Folder,
    /// A link (`/bin` → `usr/bin`): made again.
    Link(PathBuf),
}

/// An entry of /etc that is offered inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EtcEntry {
    /// A folder to bind.
    Folder,
    /// A file to bind (large, or read often).
    File,
    /// A small file, to copy from where it really is.
    Copy(PathBuf),
    /// A link, made again.
    Link(PathBuf),
}

/// What a named path is.
#[derive(Clone, Debug)]
pub enum Place {
    /// It is there.
    Found {
        /// The path without links.
        real: PathBuf,
        /// Its type, never a link.
        kind: Kind,
        /// The links that were followed on the way: where each lies (a path without links) and what it says.
        links: Vec<(PathBuf, PathBuf)>,
        /// Was the last part itself a link?
        is_link: bool,
        /// Device and inode, to know it again.
        identity: (u64, u64),
    },
    /// It cannot be had.
    Failed {
        /// What the OS answered.
        error: FailureKind,
        /// The part of the path at which it did.
        at: PathBuf,
    },
}

/// Why a path cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Not there.
    Missing,
    /// Not for this user.
    Denied,
    /// A loop of links.
    Loop,
    /// Anything else, as the OS numbers it.
    Other(i32),
}

/// A file's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    Folder,
    File,
    Fifo,
    Socket,
    CharacterDevice,
    BlockDevice,
}

/// One mount of this mount namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// `major:minor` of the file system.
    pub device: String,
    /// Which folder of that file system is mounted.
    pub root: PathBuf,
    /// Where.
    pub point: PathBuf,
}

impl Survey {
    /// Look at this machine for one policy.
    pub fn take(policy: &Policy) -> io::Result<Survey> {
        let uid = rustix::process::getuid().as_raw();
        let gid = rustix::process::getgid().as_raw();
        let mut places = BTreeMap::new();
        let named = policy.grants().map(|(_, _, path)| path);
        let own = [policy.data_directory.as_path(), policy.node_binary.as_path()];
        for path in named.chain(own).chain(policy.sockets.iter().map(PathBuf::as_path)) {
            places.entry(path.to_path_buf()).or_insert_with(|| resolve(path));
        }
        let standard = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
        let terminal = !policy.caller.detached && standard.iter().all(rustix::termios::isatty);
        let sockets = granted_sockets(policy, &places)?;
        Ok(Survey {
            uid,
            gid,
            user: name_of("/etc/passwd", uid).unwrap_or_else(|| format!("u{uid}")),
            group: name_of("/etc/group", gid).unwrap_or_else(|| format!("g{gid}")),
            roots: roots(),
            etc: etc_entries(terminal),
            places,
            mounts: parse_mounts(&kernel_file("/proc/self/mountinfo")?),
            sockets,
            landlock: landlock_abi(),
            terminal,
        })
    }
}

/// Follow a path from the root, one part at a time, and keep the links met on the way.
pub fn resolve(path: &Path) -> Place {
    let failed = |error: &io::Error, at: &Path| Place::Failed {
        error: match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => FailureKind::Missing,
            io::ErrorKind::PermissionDenied => FailureKind::Denied,
            _ => FailureKind::Other(error.raw_os_error().unwrap_or(0)),
        },
        at: at.to_path_buf(),
    };
    let mut links = Vec::new();
    let mut real = PathBuf::from("/");
    let mut rest: Vec<OsString> = parts(path).rev().collect();
    let mut is_link = false;
    while let Some(part) = rest.pop() {
        if part == ".." {
            real.pop();
            continue;
        }
        let next = real.join(&part);
        let metadata = match std::fs::symlink_metadata(&next) {
            Ok(metadata) => metadata,
            Err(error) => return failed(&error, &next),
        };
        if !metadata.is_symlink() {
            real = next;
            continue;
        }
        if links.len() == 40 {
            return Place::Failed { error: FailureKind::Loop, at: next };
        }
        is_link |= rest.is_empty() && links.iter().all(|(link, _)| *link != next);
        let target = match std::fs::read_link(&next) {
            Ok(target) => target,
            Err(error) => return failed(&error, &next),
        };
        if target.is_absolute() {
            real = PathBuf::from("/");
        }
        rest.extend(parts(&target).rev());
        links.push((next, target));
    }
    match std::fs::symlink_metadata(&real) {
        Ok(metadata) => Place::Found {
            kind: kind_of(metadata.file_type()),
            identity: (metadata.dev(), metadata.ino()),
            real,
            links,
            is_link,
        },
        Err(error) => failed(&error, &real),
    }
}

fn parts(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(part) => Some(part.to_os_string()),
        Component::ParentDir => Some(OsString::from("..")),
        _ => None,
    })
}

fn kind_of(kind: std::fs::FileType) -> Kind {
    if kind.is_dir() {
        Kind::Folder
    } else if kind.is_fifo() {
        Kind::Fifo
    } else if kind.is_socket() {
        Kind::Socket
    } else if kind.is_char_device() {
        Kind::CharacterDevice
    } else if kind.is_block_device() {
        Kind::BlockDevice
    } else {
        Kind::File
    }
}

/// The folders that hold the system's programs.
const ROOTS: [&str; 9] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store"];

fn roots() -> Vec<(PathBuf, Root)> {
    let look = |path: &&str| -> Option<(PathBuf, Root)> {
        let path = PathBuf::from(path);
        let metadata = std::fs::symlink_metadata(&path).ok()?;
        if metadata.is_symlink() {
            let target = std::fs::read_link(&path).ok()?;
            Some((path, Root::Link(target)))
        } else if metadata.is_dir() && !is_empty(&path) {
            Some((path, Root::Folder))
        } else {
            None
        }
    };
    ROOTS.iter().filter_map(look).collect()
}

/// An empty /opt costs a mount and shows nothing.
fn is_empty(folder: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(opened) = rustix::fs::open(folder, flags, Mode::empty()) else { return false };
    // Room for a few names: more than itself and its parent is not empty.
    let mut room = [std::mem::MaybeUninit::uninit(); 1024];
    let mut entries = RawDir::new(opened, &mut room);
    while let Some(entry) = entries.next() {
        let Ok(entry) = entry else { return false };
        if ![c".", c".."].contains(&entry.file_name()) {
            return false;
        }
    }
    true
}

/// A file that the kernel writes as it is read and gives no length of: in large parts, since each read costs.
fn kernel_file(path: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(16 * 1024);
    File::open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn etc_entries(terminal: bool) -> Vec<(PathBuf, EtcEntry)> {
    let mut entries = Vec::new();
    for entry in etc::ENTRIES.iter().filter(|entry| terminal || entry.treatment != Treatment::AtATerminal) {
        for path in etc::matches(entry) {
            if let Some(found) = etc_entry(&path, entry.treatment) {
                entries.push((path, found));
            }
        }
    }
    entries
}

/// Only what everyone may read is offered: as root, too.
fn etc_entry(path: &Path, treatment: Treatment) -> Option<EtcEntry> {
    let metadata = std::fs::symlink_metadata(path).ok()?;
    if metadata.is_symlink() {
        let target = std::fs::read_link(path).ok()?;
        let followed = std::fs::metadata(path).ok()?;
        // A link into what is visible inside anyway stays a link; any other is read through.
        let absolute = path.parent()?.join(&target);
        if absolute.starts_with("/usr") || target.starts_with("../usr") {
            return Some(EtcEntry::Link(target));
        }
        return (readable_by_all(&followed) && is_small(&followed))
            .then(|| path.canonicalize().ok().map(EtcEntry::Copy))?;
    }
    if !readable_by_all(&metadata) {
        return None;
    }
    match treatment {
        Treatment::Bind if metadata.is_dir() => Some(EtcEntry::Folder),
        Treatment::Bind if metadata.is_file() => Some(EtcEntry::File),
        Treatment::Copy | Treatment::AtATerminal if is_small(&metadata) => Some(EtcEntry::Copy(path.into())),
        _ => None,
    }
}

fn readable_by_all(metadata: &std::fs::Metadata) -> bool {
    let needed = if metadata.is_dir() { 0o005 } else { 0o004 };
    metadata.mode() & needed == needed
}

/// A small file's place is not for a large one.
fn is_small(metadata: &std::fs::Metadata) -> bool {
    metadata.is_file() && metadata.len() <= SMALL as u64
}

fn name_of(file: &str, id: u32) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let id = id.to_string();
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let number = fields.nth(1)?;
        (number == id).then(|| name.to_owned())
    })
}

/// The lines of /proc/self/mountinfo. Fields are separated by spaces; a space in a path is written `\040`.
pub fn parse_mounts(text: &[u8]) -> Vec<Mount> {
    text.split(|byte| *byte == b'\n')
        .filter_map(|line| {
            let mut fields = line.split(|byte| *byte == b' ').skip(2);
            Some(Mount {
                device: String::from_utf8(fields.next()?.to_vec()).ok()?,
                root: unescape(fields.next()?),
                point: unescape(fields.next()?),
            })
        })
        .collect()
}

/// Undo the kernel's `\ooo`.
fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let octal = (*first == b'\\' && tail.len() >= 3)
            .then(|| {
                std::str::from_utf8(&tail[..3]).ok().and_then(|digits| u8::from_str_radix(digits, 8).ok())
            })
            .flatten();
        match octal {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

/// The live sockets that a grant would show, without walking the granted folders: the kernel lists the names
/// that sockets of this network namespace are bound to. A socket bound under a relative name, in another network
/// namespace or after the start is not in the list; a Landlock rule of version 9 could close those and is not used yet.
fn granted_sockets(policy: &Policy, places: &BTreeMap<PathBuf, Place>) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for socket in socket_paths(&kernel_file("/proc/net/unix")?) {
        let below = policy.grants().find_map(|(_, _, typed)| match places.get(typed) {
            Some(Place::Found { real, .. }) => {
                let rest = socket.strip_prefix(real).or_else(|_| socket.strip_prefix(typed)).ok()?;
                Some(real.join(rest))
            }
            _ => None,
        });
        if let Some(path) = below
            && std::fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.file_type().is_socket())
            && !found.contains(&path)
        {
            found.push(path);
        }
    }
    Ok(found)
}

/// Absolute path names in /proc/net/unix: the eighth field, to the end of the line.
pub fn socket_paths(text: &[u8]) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = text
        .split(|byte| *byte == b'\n')
        .skip(1)
        .filter_map(|line| {
            let at = line.iter().position(|byte| *byte == b'/')?;
            Some(PathBuf::from(OsStr::from_bytes(&line[at..])))
        })
        .collect();
    paths.sort();
    paths.dedup();
    paths
}

impl Survey {
    /// Where a path's inode lies: its file system and its path inside that file system, by the deepest mount
    /// that covers it. The same inode under two mounts gives the same answer.
    pub fn origin(&self, real: &Path) -> Option<(&str, PathBuf)> {
        // The last mount of the longest matching point is the visible one.
        let mount = self
            .mounts
            .iter()
            .filter(|mount| real.starts_with(&mount.point))
            .enumerate()
            .max_by_key(|(order, mount)| (mount.point.components().count(), *order))?
            .1;
        let below = real.strip_prefix(&mount.point).ok()?;
        Some((mount.device.as_str(), mount.root.join(below)))
    }

    /// Does granting `grant` (and all that is mounted below it) make `target` reachable, under its own name or
    /// another? Gives the path under which it would be.
    pub fn reaches(&self, grant: &Path, target: &Path) -> Option<PathBuf> {
        let (device, inside) = self.origin(target)?;
        let (grant_device, grant_inside) = self.origin(grant)?;
        if device == grant_device
            && let Ok(below) = inside.strip_prefix(&grant_inside)
        {
            return Some(grant.join(below));
        }
        self.mounts
            .iter()
            .filter(|mount| mount.point.starts_with(grant) && mount.device == device)
            .find_map(|mount| inside.strip_prefix(&mount.root).ok().map(|below| mount.point.join(below)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_read_with_their_escapes() {
        let text = b"22 1 254:0 / / rw - ext4 /dev/vda rw\n30 22 254:0 /home/u /mnt/a\\040b rw shared:1 - ext4 x rw\n";
        let mounts = parse_mounts(text);
        assert_eq!(mounts.len(), 2);
        assert_eq!(mounts[1].root, Path::new("/home/u"));
        assert_eq!(mounts[1].point, Path::new("/mnt/a b"));
    }

    #[test]
    fn a_bind_alias_reaches_the_target() {
        let mount = |device: &str, root: &str, point: &str| Mount {
            device: device.into(),
            root: root.into(),
            point: point.into(),
        };
        let survey = Survey {
            uid: 0,
            gid: 0,
            user: String::new(),
            group: String::new(),
            roots: vec![],
            etc: vec![],
            places: BTreeMap::new(),
            mounts: vec![
                mount("8:1", "/", "/"),
                mount("8:1", "/home/u", "/srv/alias"),
                mount("0:5", "/", "/srv/other"),
            ],
            sockets: vec![],
            landlock: None,
            terminal: false,
        };
        let data = Path::new("/home/u/.local/data");
        assert_eq!(survey.reaches(Path::new("/home"), data), Some("/home/u/.local/data".into()));
        assert_eq!(survey.reaches(Path::new("/srv"), data), Some("/srv/alias/.local/data".into()));
        assert_eq!(
            survey.reaches(Path::new("/srv/alias/.local"), data),
            Some("/srv/alias/.local/data".into())
        );
        assert_eq!(survey.reaches(Path::new("/srv/other"), data), None);
        assert_eq!(survey.reaches(Path::new("/home/u/work"), data), None);
    }

    #[test]
    fn links_on_the_way_are_kept() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path().canonicalize().unwrap();
        std::fs::create_dir_all(top.join("real/work")).unwrap();
        std::os::unix::fs::symlink("real", top.join("short")).unwrap();
        std::os::unix::fs::symlink("work", top.join("real/last")).unwrap();
        let Place::Found { real, links, is_link, kind, .. } = resolve(&top.join("short/work")) else {
            panic!()
        };
        assert_eq!((real, kind, is_link), (top.join("real/work"), Kind::Folder, false));
        assert_eq!(links, [(top.join("short"), PathBuf::from("real"))]);
        let Place::Found { is_link, .. } = resolve(&top.join("short/last")) else { panic!() };
        assert!(is_link);
        let Place::Found { real, .. } = resolve(&top.join("short/../real/./work")) else { panic!() };
        assert_eq!(real, top.join("real/work"));
    }

    #[test]
    fn a_loop_and_a_missing_part_are_named() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path().canonicalize().unwrap();
        std::os::unix::fs::symlink("b", top.join("a")).unwrap();
        std::os::unix::fs::symlink("a", top.join("b")).unwrap();
        assert!(matches!(resolve(&top.join("a")), Place::Failed { error: FailureKind::Loop, .. }));
        let Place::Failed { error, at } = resolve(&top.join("no/such")) else { panic!() };
        assert_eq!((error, at), (FailureKind::Missing, top.join("no")));
    }

    #[test]
    fn sockets_are_read_by_their_path_names() {
        let text = b"Num       RefCount Protocol Flags    Type St Inode Path\n0000: 00000002 00000000 00010000 0001 01 1 /run/a b.sock\n0000: 00000002 00000000 00010000 0001 01 1 @abstract\n0000: 2 0 0 1 1 1\n";
        assert_eq!(socket_paths(text), [PathBuf::from("/run/a b.sock")]);
    }
}
