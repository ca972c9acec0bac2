//! protected_paths: `.git/hooks` and `.git/config` are read-only and `.git` cannot be renamed aside, while the
//! rest of `.git` stays writable.

use std::fs;
use std::path::Path;

use super::Lab;
use super::act::{Act, RefusalKind};
use super::evidence::{FORBIDDEN, Fault, Tried, done};
use super::lab::{cannot_set_up, put, together};

/// Refusals of a rename: forbidden, or held in place.
const IN_PLACE: &[RefusalKind] = &[RefusalKind::Denied, RefusalKind::ReadOnly, RefusalKind::Busy];

pub fn check(lab: &Lab<'_>) -> Result<String, Fault> {
    let (work, twin) = (lab.folder("protected_paths")?, lab.folder("protected_paths-outside")?);
    for root in [&work, &twin] {
        repository(root)?;
    }
    // The control has a repository of its own: what succeeds changes it.
    let (outside, inside) =
        together(|| lab.outside(&acts(&twin)), || lab.inside(&lab.policy(&work), &acts(&work)));
    let (outside, inside) = (outside?, inside?);
    for ((act, outside), inside) in acts(&work).into_iter().zip(outside).zip(inside) {
        match &act {
            Act::Rename { .. } => drop(Tried { act, outside, inside }.refused(IN_PLACE)?),
            Act::Write(path) if is_protected(path) => {
                drop(Tried { act, outside, inside }.refused(FORBIDDEN)?);
            }
            _ => drop(done(&act, &inside)?),
        }
    }
    unchanged(&work)?;
    Ok(".git/hooks and .git/config read-only, .git and .git/hooks held in place, the rest of .git written"
        .into())
}

/// The layout that git itself looks for, made by hand: no program of the repository is ever run.
fn repository(root: &Path) -> Result<(), Fault> {
    let git = root.join(".git");
    put(&git.join("HEAD"), "ref: refs/heads/main\n")?;
    put(&git.join("config"), CONFIG)?;
    put(&git.join("hooks/pre-commit.sample"), "#!/bin/sh\n")?;
    for folder in ["objects/info", "objects/pack", "refs/heads", "refs/tags"] {
        let folder = git.join(folder);
        fs::create_dir_all(&folder).map_err(|error| cannot_set_up(&folder, &error))?;
    }
    Ok(())
}

const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n";

fn acts(root: &Path) -> Vec<Act> {
    let git = root.join(".git");
    let rename = |from: &str, to: &str| Act::Rename { from: root.join(from), to: root.join(to) };
    vec![
        Act::Write(git.join("hooks/post-checkout")),
        Act::Write(git.join("hooks/pre-commit.sample")),
        Act::Write(git.join("config")),
        Act::Write(git.join("index")),
        Act::Write(git.join("objects/info/packs")),
        Act::Write(git.join("refs/heads/main")),
        Act::Write(root.join("README")),
        rename(".git/hooks", ".git/aside"),
        rename(".git/config", ".git/config-aside"),
        rename(".git", "aside"),
    ]
}

fn is_protected(path: &Path) -> bool {
    let ends = |name: &str| path.ends_with(name);
    ends(".git/config") || path.parent().is_some_and(|folder| folder.ends_with(".git/hooks"))
}

/// Seen from outside, the protected paths are as they were.
fn unchanged(root: &Path) -> Result<(), Fault> {
    let git = root.join(".git");
    let config = fs::read_to_string(git.join("config")).unwrap_or_default();
    let hooks = fs::read_dir(git.join("hooks")).map(Iterator::count).unwrap_or_default();
    if config == CONFIG && hooks == 1 {
        Ok(())
    } else {
        Err(Fault::broken("seen from outside, .git/config or .git/hooks was changed"))
    }
}
