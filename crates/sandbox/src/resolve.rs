//! A path taken step by step: which symlinks it leads through, where it really ends, and what is there.
//!
//! Nothing is opened and no link is followed by the system: each part is asked for by its own name, so the
//! answer holds no name that was not seen. Which places matter is not known here.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::sys::stamps;

/// As many links as Linux itself follows in one path.
const LINKS: usize = 40;

/// What stands at the end of a path.
#[derive(Debug)]
pub(crate) enum End {
    File(Metadata),
    Folder,
    /// A socket, a FIFO or a device.
    Special,
    /// Nothing; `real` is the path that would be made.
    Absent,
    /// Links in a circle, a part that may not be searched, or an error of the disk.
    Unknown(io::ErrorKind),
}

/// A path and what was met on it.
#[derive(Debug)]
pub(crate) struct Resolved {
    /// The symlinks met, each at its real place, in order.
    pub(crate) links: Vec<PathBuf>,
    /// The end of the path, free of symlinks and of `..`.
    pub(crate) real: PathBuf,
    pub(crate) end: End,
}

/// Follows `path` from `from`, which must be real already.
pub(crate) fn resolve(from: &Path, path: &Path) -> Resolved {
    let resolved = follow(from, path);
    // The parts were taken as they were written; two spellings of one place must not be taken for two.
    Resolved { real: stamps::spelled(&resolved.real), ..resolved }
}

fn follow(from: &Path, path: &Path) -> Resolved {
    let mut real = from.to_path_buf();
    let mut links = Vec::new();
    let mut rest = VecDeque::new();
    prepend(&mut rest, path);
    let mut end = End::Folder;
    while let Some(step) = rest.pop_front() {
        match step {
            Step::Root(root) => {
                real = root;
                end = End::Folder;
            }
            Step::Parent => {
                real.pop();
                end = End::Folder;
            }
            Step::Name(name) => {
                if !matches!(end, End::Folder) {
                    // A part below a file: it cannot be made as long as the file stands.
                    end = End::Absent;
                    real.push(name);
                    continue;
                }
                real.push(&name);
                match std::fs::symlink_metadata(&real) {
                    Ok(metadata) if metadata.is_symlink() => {
                        if links.len() == LINKS {
                            return Resolved { links, real, end: End::Unknown(io::ErrorKind::TooManyLinks) };
                        }
                        let target = match std::fs::read_link(&real) {
                            Ok(target) => target,
                            Err(error) => return Resolved { links, real, end: End::Unknown(error.kind()) },
                        };
                        links.push(stamps::spelled(&real));
                        real.pop();
                        prepend(&mut rest, &target);
                    }
                    Ok(metadata) if metadata.is_dir() => {}
                    Ok(metadata) if metadata.is_file() => end = End::File(metadata),
                    Ok(_) => end = End::Special,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => end = End::Absent,
                    Err(error) => {
                        real.extend(rest.into_iter().filter_map(Step::into_name));
                        return Resolved { links, real, end: End::Unknown(error.kind()) };
                    }
                }
            }
        }
    }
    Resolved { links, real, end }
}

enum Step {
    Root(PathBuf),
    Parent,
    Name(OsString),
}

impl Step {
    fn into_name(self) -> Option<OsString> {
        match self {
            Self::Name(name) => Some(name),
            Self::Root(_) | Self::Parent => None,
        }
    }
}

/// Puts the parts of `path` before those still to be taken.
fn prepend(rest: &mut VecDeque<Step>, path: &Path) {
    let mut root = PathBuf::new();
    let mut steps = Vec::new();
    for component in path.components() {
        match component {
            Component::Prefix(_) | Component::RootDir => root.push(component),
            Component::CurDir => {}
            Component::ParentDir => steps.push(Step::Parent),
            Component::Normal(name) => steps.push(Step::Name(name.to_owned())),
        }
    }
    for step in steps.into_iter().rev() {
        rest.push_front(step);
    }
    if !root.as_os_str().is_empty() {
        rest.push_front(Step::Root(root));
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn real(folder: &tempfile::TempDir) -> PathBuf {
        folder.path().canonicalize().unwrap()
    }

    #[test]
    fn every_link_on_the_way_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let root = real(&folder);
        std::fs::create_dir_all(root.join("tools/hooks")).unwrap();
        symlink("tools", root.join("one")).unwrap();
        symlink("../one/hooks", root.join("tools/two")).unwrap();
        let resolved = resolve(&root, Path::new("tools/two"));
        assert_eq!(resolved.links, [root.join("tools/two"), root.join("one")]);
        assert_eq!(resolved.real, root.join("tools/hooks"));
        assert!(matches!(resolved.end, End::Folder));
    }

    #[test]
    fn a_circle_ends_and_a_gap_is_the_path_that_would_be_made() {
        let folder = tempfile::tempdir().unwrap();
        let root = real(&folder);
        symlink("b", root.join("a")).unwrap();
        symlink("a", root.join("b")).unwrap();
        assert!(matches!(resolve(&root, Path::new("a")).end, End::Unknown(_)));
        symlink("gone/deep", root.join("dangling")).unwrap();
        let resolved = resolve(&root, Path::new("dangling/hooks"));
        assert_eq!(resolved.real, root.join("gone/deep/hooks"));
        assert!(matches!(resolved.end, End::Absent));
        std::fs::write(root.join("file"), "").unwrap();
        assert!(matches!(resolve(&root, Path::new("file/below")).end, End::Absent));
    }

    #[test]
    fn absolute_targets_and_parents_are_taken_from_where_the_link_really_lies() {
        let folder = tempfile::tempdir().unwrap();
        let root = real(&folder);
        std::fs::create_dir_all(root.join("x/y")).unwrap();
        std::fs::write(root.join("x/file"), "").unwrap();
        symlink(root.join("x/y"), root.join("link")).unwrap();
        let resolved = resolve(&root, Path::new("link/../file"));
        assert_eq!(resolved.real, root.join("x/file"));
        assert!(matches!(resolved.end, End::File(_)));
    }
}
