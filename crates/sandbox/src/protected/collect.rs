//! What is to be protected, gathered path by path: entries, links and gaps, brought into the order of mounts.
//!
//! Every path is taken step by step ([`crate::resolve`]); only what really lies under a writable folder becomes
//! an entry, whatever its text says. Git and agents are not known here.
//!
//! # Why each folder above an entry is pinned
//!
//! A read-only bind holds its own name: the kernel answers EBUSY to renaming or removing a mount point. It does
//! not hold the names above it: after `mv .git x` the mount sits in `x/hooks`, and a new `.git/hooks` is the
//! run's to fill. The same goes for every folder between the writable root and the entry: with `a` free,
//! `mv a b` and a new `a/.git` give the host a repository at the old path with hooks of the run's choice. So
//! all of them are pinned, `a` as well as `a/.git`. The root itself needs none: its own parent is not writable.
//!
//! A symlink on the way is pinned itself. On Linux a mount on the link in the hidden second copy of the
//! workspace (`open_tree` and `move_mount` by descriptor, both without following) makes renaming, removing and
//! replacing it EBUSY in the visible tree, where it still resolves; seen on 6.18 as root and as `nobody`.

use super::rules::{self, Rule};
use super::{Absent, Entry, Kind, Pin, PinKind, Problem, ProblemKind};
use crate::resolve::{End, Resolved, resolve};
use crate::sys::stamps;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Mounts for entries and pins together. A plain repository takes about six; beyond this a launch would wait
/// for milliseconds, and nested repositories that come after it are left to the look, which is said.
pub(super) const MOUNTS: usize = 256;

pub(super) struct Collector {
    /// Real paths of the writable folders, none below another.
    roots: Vec<PathBuf>,
    git_hooks: bool,
    entries: BTreeMap<PathBuf, (Kind, &'static Rule)>,
    links: BTreeSet<PathBuf>,
    folders: BTreeSet<PathBuf>,
    absent: BTreeMap<PathBuf, &'static Rule>,
    pub(super) problems: Vec<Problem>,
}

pub(super) struct Collected {
    pub(super) read_only: Vec<Entry>,
    pub(super) pins: Vec<Pin>,
    pub(super) absent: Vec<Absent>,
    pub(super) problems: Vec<Problem>,
}

impl Collector {
    pub(super) fn new(roots: &[PathBuf], git_hooks: bool) -> Self {
        let outermost = |path: &&PathBuf| !roots.iter().any(|root| root != *path && path.starts_with(root));
        let roots: BTreeSet<PathBuf> = roots.iter().filter(outermost).cloned().collect();
        Self {
            roots: roots.into_iter().collect(),
            git_hooks,
            entries: BTreeMap::new(),
            links: BTreeSet::new(),
            folders: BTreeSet::new(),
            absent: BTreeMap::new(),
            problems: Vec::new(),
        }
    }

    /// The writable folder that a real path lies strictly below.
    pub(super) fn root_of(&self, path: &Path) -> Option<&Path> {
        self.roots.iter().find(|root| path.starts_with(root) && path != *root).map(PathBuf::as_path)
    }

    pub(super) fn problem(&mut self, kind: ProblemKind, path: &Path, sentence: impl Into<String>) {
        let problem = Problem { kind, path: path.to_owned(), sentence: sentence.into() };
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// Protects what `path`, seen from the real folder `from`, leads to, and the links on the way.
    pub(super) fn protect(&mut self, from: &Path, path: impl AsRef<Path>, rule: &'static Rule) {
        if rule.hooks && self.git_hooks {
            return;
        }
        let Resolved { links, real, end } = resolve(from, path.as_ref());
        self.hold(links);
        let kind = match end {
            End::Folder => Kind::Folder,
            End::File(metadata) => {
                if stamps::names(&real, &metadata) > 1 && self.root_of(&real).is_some() {
                    let sentence = "the file has another name (a hard link), which a mount does not hold: the look \
                                    after the run compares it";
                    self.problem(ProblemKind::OtherName, &real, sentence);
                }
                Kind::File
            }
            End::Absent => {
                if self.root_of(&real).is_some() {
                    self.absent.entry(real).or_insert(rule);
                }
                return;
            }
            End::Special => {
                if self.root_of(&real).is_some() {
                    self.problem(
                        ProblemKind::Special,
                        &real,
                        "it is neither a file nor a folder, so it is only looked at after the run",
                    );
                    self.absent.entry(real).or_insert(rule);
                }
                return;
            }
            End::Unknown(reason) => {
                if self.root_of(&real).is_some() {
                    self.problem(
                        ProblemKind::Unreadable,
                        &real,
                        format!("it cannot be followed ({reason}), so it is only looked at after the run"),
                    );
                    self.absent.entry(real).or_insert(rule);
                }
                return;
            }
        };
        if self.root_of(&real).is_some() {
            self.entries.entry(real).or_insert((kind, rule));
        } else if self.roots.iter().any(|root| root.starts_with(&real)) {
            // A link must not take the whole workspace from the run (C041).
            let sentence = format!(
                "it leads to {}, which holds the whole writable folder: only what is put there is named after the run",
                crate::text::escape(&real)
            );
            self.problem(ProblemKind::TooWide, &from.join(path), sentence);
        }
    }

    /// Holds `.git` in the real folder `root`: a gitfile read-only, a folder where it is, links on the way too.
    pub(super) fn dot_git(&mut self, root: &Path) {
        let resolved = resolve(root, Path::new(".git"));
        match resolved.end {
            End::Folder => {
                self.hold(resolved.links);
                self.keep(&resolved.real);
            }
            // A new one is a new repository, which the look's walk meets.
            End::Absent if resolved.links.is_empty() => {}
            _ => self.protect(root, ".git", rules::GITFILE),
        }
    }

    fn hold(&mut self, links: Vec<PathBuf>) {
        for link in links {
            if self.root_of(&link).is_some() {
                self.links.insert(link);
            }
        }
    }

    /// Whether the real folder is a writable folder itself.
    pub(super) fn is_root(&self, folder: &Path) -> bool {
        self.roots.iter().any(|root| root == folder)
    }

    /// Keeps a real folder where it is, and those above it, with nothing made read-only.
    pub(super) fn keep(&mut self, folder: &Path) {
        if self.root_of(folder).is_some() {
            self.folders.insert(folder.to_owned());
        }
    }

    /// Whether there is room for another nested repository.
    pub(super) fn is_full(&self) -> bool {
        self.entries.len() + self.folders.len() + self.links.len() >= MOUNTS / 2
    }

    pub(super) fn finish(self) -> Collected {
        let mut read_only: Vec<Entry> = Vec::new();
        // Sorted by parts, a folder stands directly before what lies below it.
        for (path, (kind, rule)) in &self.entries {
            let covered = read_only
                .last()
                .is_some_and(|last| last.kind == Kind::Folder && path.starts_with(&last.path));
            if !covered {
                read_only.push(Entry { path: path.clone(), kind: *kind, rule: rule.id });
            }
        }
        let covered = |path: &Path| {
            let before = read_only.partition_point(|entry| entry.path.as_path() <= path);
            before > 0 && path.starts_with(&read_only[before - 1].path)
        };
        let mut pins = BTreeMap::new();
        let entries = read_only.iter().map(|entry| entry.path.as_path());
        let (links, folders) =
            (self.links.iter().map(PathBuf::as_path), self.folders.iter().map(PathBuf::as_path));
        for path in entries.chain(links).chain(folders.clone()) {
            let root = self.root_of(path);
            for above in path.ancestors().skip(1).take_while(|above| Some(*above) != root) {
                if !covered(above) {
                    pins.entry(above.to_owned()).or_insert(PinKind::Folder);
                }
            }
        }
        for folder in folders.filter(|folder| !covered(folder)) {
            pins.insert(folder.to_owned(), PinKind::Folder);
        }
        for link in self.links.iter().filter(|link| !covered(link)) {
            pins.insert(link.clone(), PinKind::Link);
        }
        let pins: Vec<Pin> = pins.into_iter().map(|(path, kind)| Pin { path, kind }).collect();
        let absent = self.absent.into_iter().filter(|(path, _)| !covered(path));
        let absent = absent.map(|(path, rule)| Absent { path, rule: rule.id }).collect();
        Collected { pins, absent, problems: self.problems, read_only }
    }
}
