//! The scan on Windows: names by listing, a handle for each file that tells how many names it has, and for each reparse
//! point one that does not follow it and one that does. What they mean is judged by [`crate::backend::psec::links`].
//!
//! A folder is entered only while a handle on it, opened without following, lies where the scan came from.

use super::tally::Tally;
use super::{Findings, Leaving, Look, Shared};
use crate::backend::psec::links::{Judgement, Seen, judge};
use crate::backend::psec::paths::WindowsPath;
use crate::sys::windows::files::{self, FileId, Follow, Meta, Reparse};
use std::collections::HashMap;
use std::fs::{DirEntry, File};
use std::os::windows::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

/// FILE_ATTRIBUTE_DIRECTORY and FILE_ATTRIBUTE_REPARSE_POINT (Microsoft Learn, File Attribute Constants).
const DIRECTORY: u32 = 0x10;
const REPARSE_POINT: u32 = 0x400;

/// Files with several names that are kept in mind.
const KEPT: usize = 100_000;

pub(super) fn take(roots: &[&Path], look: &Look, cancel: &AtomicBool) -> Findings {
    let real = |root: &&Path| files::final_path(&files::open(root, Follow::Yes).ok()?).ok();
    let mut scan = Scan {
        inside: roots.iter().filter_map(real).filter_map(|root| WindowsPath::of(&root).ok()).collect(),
        look,
        tally: Tally::new(look, cancel),
        shared: HashMap::new(),
    };
    for root in roots {
        match real(root) {
            Some(root) => scan.root(root),
            None => scan.tally.unreadable(root),
        }
        if scan.tally.is_cut() {
            break;
        }
    }
    scan.tally.finish(scan.shared.into_values().collect())
}

struct Scan<'a> {
    /// The writable folders at their real places.
    inside: Vec<WindowsPath>,
    look: &'a Look,
    tally: Tally<'a>,
    shared: HashMap<FileId, Shared>,
}

impl Scan<'_> {
    fn root(&mut self, root: PathBuf) {
        let mut folders = vec![root];
        while let Some(folder) = folders.pop() {
            // Removed or replaced since its name was read: what stands there now was made in the run.
            let Some(_held) = held(&folder) else { continue };
            let Ok(entries) = std::fs::read_dir(&folder) else {
                self.tally.unreadable(&folder);
                continue;
            };
            let from = folders.len();
            for entry in entries {
                let Ok(entry) = entry else {
                    self.tally.unreadable(&folder);
                    break;
                };
                if self.tally.looked_at(64) && self.tally.is_over() {
                    return;
                }
                self.entry(&entry, &mut folders);
            }
            folders[from..].reverse();
        }
        let _ = self.tally.is_over();
    }

    fn entry(&mut self, entry: &DirEntry, folders: &mut Vec<PathBuf>) {
        // This much comes with the listing.
        let Ok(listed) = entry.metadata() else { return };
        let attributes = listed.file_attributes();
        let path = entry.path();
        match (attributes & REPARSE_POINT != 0, attributes & DIRECTORY != 0) {
            (false, true) => folders.push(path),
            (false, false) if !self.look.hard_links => {}
            (is_link, _) => {
                let changed = listed.created().ok().max(listed.modified().ok());
                if !is_link || self.is_wanted(&path, changed) {
                    self.file(&path);
                }
            }
        }
    }

    /// Whether a link is new, or may be: its times can be set by whoever made it.
    fn is_wanted(&self, path: &Path, changed: Option<SystemTime>) -> bool {
        self.look.since.as_ref().is_none_or(|since| {
            since.known.as_ref().is_none_or(|known| !known.contains(path))
                || changed.is_none_or(|changed| changed >= since.time)
        })
    }

    fn file(&mut self, path: &Path) {
        let Ok(file) = files::open(path, Follow::No) else { return };
        let Ok(meta) = files::look(&file) else { return };
        let is_link = meta.attributes & REPARSE_POINT != 0;
        if !is_link && meta.links <= 1 {
            return;
        }
        let Ok(name) = WindowsPath::of(path) else {
            return self.unnamed(path, &meta, is_link);
        };
        let seen = Seen {
            attributes: meta.attributes,
            tag: meta.tag,
            target: is_link.then(|| said(&file)).flatten(),
            leads_to: is_link.then(|| leads_to(path)).flatten(),
            links: meta.links,
            names: (meta.links > 1).then(|| names(&name, path)).flatten(),
            path: name,
        };
        match judge(&seen, &self.inside) {
            Judgement::Nothing => {}
            Judgement::Leaves(link) => self.tally.leaves(link),
            Judgement::Shared(file) => self.share(meta.id, file),
        }
    }

    /// A name that has no normal form: what it is cannot be judged, so it is told.
    fn unnamed(&mut self, path: &Path, meta: &Meta, is_link: bool) {
        if is_link {
            self.tally.leaves(Leaving { path: path.to_owned(), target: PathBuf::new() });
        } else {
            self.share(meta.id, Shared { path: path.to_owned(), names: meta.links.into(), inside: 1 });
        }
    }

    fn share(&mut self, id: FileId, file: Shared) {
        if !self.look.hard_links {
            return;
        }
        if self.shared.len() == KEPT {
            return self.tally.too_many();
        }
        // Met by several names it is one file.
        self.shared.entry(id).or_insert(file);
    }
}

/// A folder, no reparse point, that lies at its path; as long as it is held, it is the one that was looked at.
fn held(folder: &Path) -> Option<File> {
    let file = files::open(folder, Follow::No).ok()?;
    let is_folder = files::look(&file).ok()?.attributes & (DIRECTORY | REPARSE_POINT) == DIRECTORY;
    (is_folder && files::final_path(&file).ok()? == folder).then_some(file)
}

/// What a link says.
fn said(file: &File) -> Option<String> {
    match files::reparse_target(file).ok()? {
        Reparse::Symlink { target, .. } | Reparse::MountPoint { target } => {
            Some(target.to_string_lossy().into_owned())
        }
        Reparse::Socket | Reparse::Other(_) => None,
    }
}

/// Where it really leads.
fn leads_to(path: &Path) -> Option<WindowsPath> {
    let file = files::open(path, Follow::Yes).ok()?;
    WindowsPath::of(&files::final_path(&file).ok()?).ok()
}

/// All names of a file, on the drive of the one that is known.
fn names(name: &WindowsPath, path: &Path) -> Option<Vec<WindowsPath>> {
    let shown = name.shown();
    let drive = shown.get(..2)?;
    let names = files::names(path).ok()?;
    names.iter().map(|name| format!("{drive}{}", name.to_str()?).parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::{Cut, Links, left, scan};
    use std::time::Duration;

    fn roots(folder: &tempfile::TempDir) -> Vec<PathBuf> {
        vec![folder.path().canonicalize().unwrap()]
    }

    /// C044. Wine makes hard links and cannot name them, so there every one may lie outside.
    #[test]
    fn c044_a_file_with_a_name_outside_is_named_once() {
        let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::create_dir(inside.path().join("deep")).unwrap();
        std::fs::write(inside.path().join("deep/own"), "").unwrap();
        std::fs::write(outside.path().join("there"), "").unwrap();
        for name in ["one", "two"] {
            std::fs::hard_link(outside.path().join("there"), inside.path().join(name)).unwrap();
        }
        let findings = scan(&roots(&inside), Links::Refuse, &AtomicBool::new(false));
        assert_eq!((findings.cut.clone(), findings.looked_at, findings.hard_links_in_all), (None, 4, 1));
        let named = &findings.hard_links[0];
        assert!(named.path.ends_with("one") && named.names == 3 && named.inside < 3, "{named:?}");
        assert!(findings.refuse().is_err());
    }

    #[test]
    fn a_scan_that_is_cancelled_or_finds_no_folder_is_not_one_that_found_nothing() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), "").unwrap();
        let findings = scan(&roots(&folder), Links::Report, &AtomicBool::new(true));
        assert_eq!(findings.cut, Some(Cut::Cancelled));
        let gone = folder.path().join("gone");
        let findings = scan(std::slice::from_ref(&gone), Links::Refuse, &AtomicBool::new(false));
        assert_eq!(findings.cut, Some(Cut::Unreadable(gone)));
    }

    #[test]
    fn a_workspace_without_links_leaves_none() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), "").unwrap();
        let before = scan(&roots(&folder), Links::Refuse, &AtomicBool::new(false));
        assert!(before.refuse().is_ok());
        let after = left(&roots(&folder), &before, SystemTime::UNIX_EPOCH, Duration::from_secs(5));
        assert_eq!((after.symlinks_in_all, after.cut), (0, None));
    }
}
