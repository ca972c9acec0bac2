//! Git folders, told by what git itself looks for: the form of HEAD, `objects`, `refs`, `commondir`, gitfiles.
//!
//! Only reads, never runs git. What is protected in a git folder is not known here.

use super::regular;
use super::settings::native;
use crate::resolve::{End, resolve};
use std::path::{Path, PathBuf};

/// Longest control file that is read; git writes one line.
const LINE: u64 = 16 * 1024;

/// What `.git` in a folder is.
#[derive(Debug)]
pub(super) enum DotGit {
    /// A git folder, at its real place.
    Folder(PathBuf),
    /// A gitfile that names a folder which is there.
    File(PathBuf),
    /// A `.git` that is neither, or a gitfile that leads nowhere; with what is wrong.
    Broken(&'static str),
    /// There is none.
    None,
}

/// Looks at `folder/.git`; `folder` must be real.
pub(super) fn dot_git(folder: &Path) -> DotGit {
    let resolved = resolve(folder, Path::new(".git"));
    match resolved.end {
        End::Folder => DotGit::Folder(resolved.real),
        End::Absent if resolved.links.is_empty() => DotGit::None,
        End::Absent => DotGit::Broken("it is a link that leads nowhere"),
        End::Special => DotGit::Broken("it is neither a file nor a folder"),
        End::Unknown(_) => DotGit::Broken("it cannot be followed"),
        End::File(_) => match regular::read(&resolved.real, LINE) {
            Ok(Some(bytes)) => match bytes.strip_prefix(b"gitdir: ") {
                // A relative path is taken from the folder that the file is found in, as git does.
                Some(path) => {
                    let target = resolve(folder, &native(path.trim_ascii_end()));
                    match target.end {
                        End::Folder => DotGit::File(target.real),
                        _ => DotGit::Broken("the folder it names is not there"),
                    }
                }
                None => DotGit::Broken("it does not begin with gitdir:"),
            },
            _ => DotGit::Broken("it cannot be read"),
        },
    }
}

/// The git folder that a git folder shares: where its `commondir` leads, or itself.
pub(super) fn common_dir(git_dir: &Path) -> PathBuf {
    let Ok(Some(bytes)) = regular::read(&git_dir.join("commondir"), LINE) else { return git_dir.to_owned() };
    let target = resolve(git_dir, &native(bytes.trim_ascii_end()));
    match target.end {
        End::Folder => target.real,
        _ => git_dir.to_owned(),
    }
}

/// Why git would not take the folder for a git folder; `None` when it would.
pub(super) fn broken(git_dir: &Path) -> Option<&'static str> {
    let head = git_dir.join("HEAD");
    match std::fs::symlink_metadata(&head) {
        Err(_) => return Some("HEAD is missing"),
        Ok(metadata) if metadata.is_symlink() => {
            if !std::fs::read_link(&head).is_ok_and(|target| target.starts_with("refs")) {
                return Some("HEAD is a link that does not lead into refs");
            }
        }
        Ok(_) => match regular::read(&head, LINE) {
            Ok(Some(bytes)) if is_head(&bytes) => {}
            _ => return Some("HEAD has no form that git accepts"),
        },
    }
    let common = common_dir(git_dir);
    if !common.join("objects").is_dir() {
        Some("objects is missing")
    } else if !common.join("refs").is_dir() {
        Some("refs is missing")
    } else {
        None
    }
}

/// `ref: refs/…`, or an object's name.
fn is_head(bytes: &[u8]) -> bool {
    if let Some(name) = bytes.strip_prefix(b"ref:") {
        return name.trim_ascii_start().starts_with(b"refs/");
    }
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    digits >= 40
}

/// The root that a git folder names as its own: a worktree's `gitdir` names the `.git` file in it, a submodule's
/// `core.worktree` the folder.
pub(super) fn worktree(git_dir: &Path, core_worktree: Option<&Path>) -> Option<PathBuf> {
    let folder = match regular::read(&git_dir.join("gitdir"), LINE) {
        Ok(Some(bytes)) => {
            let gitfile = native(bytes.trim_ascii_end());
            gitfile.file_name().filter(|name| *name == ".git")?;
            gitfile.parent()?.to_owned()
        }
        _ => core_worktree?.to_owned(),
    };
    let target = resolve(git_dir, &folder);
    matches!(target.end, End::Folder).then_some(target.real)
}

/// Folders below `folder` that hold a git folder's HEAD: submodules' names may have slashes, worktrees' have not.
pub(super) fn git_dirs_below(folder: &Path, most: usize) -> Option<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![(folder.to_owned(), 0)];
    let mut read = 0;
    while let Some((folder, depth)) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            read += 1;
            if found.len() == most || read > 16 * most || depth > 8 {
                return None;
            }
            let Ok(kind) = entry.file_type() else { continue };
            let path = entry.path();
            if kind.is_file() {
                continue;
            }
            // A link may stand for a git folder, but is not entered in search of more.
            if std::fs::symlink_metadata(path.join("HEAD")).is_ok() {
                found.push(path);
            } else if kind.is_dir() {
                folders.push((path, depth + 1));
            }
        }
    }
    found.sort();
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_that_git_accepts() {
        for head in ["ref: refs/heads/main\n", "ref:refs/x", "0123456789012345678901234567890123456789\n"] {
            assert!(is_head(head.as_bytes()), "{head}");
        }
        for head in ["", "ref: heads/main", "garbage", "0123", "ref refs/heads/main"] {
            assert!(!is_head(head.as_bytes()), "{head}");
        }
    }
}
