//! What a launch has to protect: the repositories that the run can reach, and what the list names in them.
//!
//! The order is the order of certainty: the enclosing repository, the writable folders' roots, what the caller
//! named, and last what a bounded walk meets. Mounting is not known here.

use super::collect::{Collector, MOUNTS};
use super::git::{self, DotGit};
use super::rules::{self, Anchor, Treatment};
use super::settings::{self, Named, Setting};
use super::walk::{Seen, walk};
use super::{Enclosing, How, ProblemKind, Protected, ProtectedError, Repository, Request, real_folder};
use crate::resolve::{End, resolve};
use crate::text::escape;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Submodules or worktrees of one repository that are protected one by one; beyond it the folder of all of them
/// becomes read-only as one.
const ONE_BY_ONE: usize = 24;
/// How deep submodules of submodules are followed.
const DEPTH: usize = 4;

/// Finds the protected paths of a run. Only reads; takes time by what is protected, not by what the folders hold.
pub fn find(request: &Request) -> Result<Protected, ProtectedError> {
    let mut roots = vec![real_folder(&request.work)?];
    for folder in &request.writable {
        let real = real_folder(folder)?;
        if !roots.contains(&real) {
            roots.push(real);
        }
    }
    let searched = roots.len();
    let (enclosing, broken) = enclosing(request, &mut roots);

    let mut finder = Finder {
        collector: Collector::new(&roots, request.git_hooks),
        home: request.home.as_deref().and_then(|home| home.canonicalize().ok()),
        global: Vec::new(),
        configs: BTreeMap::new(),
        known: BTreeSet::new(),
        repositories: Vec::new(),
    };
    finder.global(request);
    for (path, reason) in broken {
        finder.collector.problem(ProblemKind::Broken, &path, reason);
    }
    if let Some(found) = &enclosing {
        finder.tell(request, found);
        finder.git_dir(found.root.as_deref(), &found.git_dir, How::Enclosing, 0);
    }
    for root in &roots[..searched] {
        finder.repository(root, How::Root);
        finder.settings_of_tools(root);
    }
    for folder in &request.repositories {
        let root = real_folder(folder)?;
        let known = finder.repositories.len();
        finder.repository(&root, How::Asked);
        let met =
            |repository: &Repository| repository.root.as_ref() == Some(&root) || repository.git_dir == root;
        if finder.repositories.len() == known && !finder.repositories.iter().any(met) {
            return Err(ProtectedError::NotARepository { path: folder.clone() });
        }
    }
    let cut = finder.nested(&roots[..searched], request);

    let collected = finder.collector.finish();
    Ok(Protected {
        version: rules::VERSION,
        roots,
        read_only: collected.read_only,
        pins: collected.pins,
        absent: collected.absent,
        repositories: finder.repositories,
        enclosing,
        problems: collected.problems,
        cut,
        git_hooks: request.git_hooks,
        home: finder.home,
    })
}

/// The repository that the work directory is in, as git finds it, and every `.git` passed over as broken. With
/// `--git` its folders are added to the writable ones.
fn enclosing(request: &Request, roots: &mut Vec<PathBuf>) -> (Option<Enclosing>, Vec<(PathBuf, String)>) {
    let work = roots[0].clone();
    let mut broken = Vec::new();
    for folder in work.ancestors() {
        let (root, git_dir, by_link) = match git::dot_git(folder) {
            DotGit::Folder(git_dir) => {
                let by_link = git_dir != folder.join(".git");
                (Some(folder.to_owned()), git_dir, by_link)
            }
            DotGit::File(git_dir) => (Some(folder.to_owned()), git_dir, true),
            DotGit::Broken(reason) => {
                broken.push((folder.join(".git"), format!("git cannot use it: {reason}")));
                continue;
            }
            DotGit::None if git::broken(folder).is_none() => (None, folder.to_owned(), false),
            DotGit::None => continue,
        };
        let common_dir = git::common_dir(&git_dir);
        let inside = |path: &Path| roots.iter().any(|root| path.starts_with(root));
        let mut outside = Vec::new();
        for needed in [&common_dir, &git_dir] {
            if !inside(needed) && !outside.iter().any(|above: &PathBuf| needed.starts_with(above)) {
                outside.push(needed.clone());
            }
        }
        // What the run could have written itself proves nothing: a link, a gitfile and a commondir in the
        // workspace open no folder outside it unless the git folder out there names this root.
        let own = if by_link {
            let worktree = worktree_of(&git_dir);
            !inside(&git_dir) && root.is_some() && git::worktree(&git_dir, worktree.as_deref()) == root
        } else {
            !inside(&git_dir) || common_dir == git_dir
        };
        let granted = request.git && own && !outside.is_empty();
        if granted {
            roots.extend(outside.iter().cloned());
        }
        return (Some(Enclosing { root, git_dir, common_dir, outside, granted }), broken);
    }
    (None, broken)
}

/// `core.worktree` of a submodule's git folder.
fn worktree_of(git_dir: &Path) -> Option<PathBuf> {
    let settings = settings::read(&git_dir.join("config"), None).settings;
    settings.into_iter().rev().find_map(|setting| match setting.named {
        Named::Worktree(path) => Some(path),
        _ => None,
    })
}

struct Finder {
    collector: Collector,
    home: Option<PathBuf>,
    /// What the system's and the caller's configuration name.
    global: Vec<Setting>,
    /// Configurations already read.
    configs: BTreeMap<PathBuf, Vec<Setting>>,
    /// Git folders already dealt with.
    known: BTreeSet<PathBuf>,
    repositories: Vec<Repository>,
}

impl Finder {
    /// Says what git cannot write, and which flag would let it.
    fn tell(&mut self, request: &Request, enclosing: &Enclosing) {
        if enclosing.outside.is_empty() || enclosing.granted {
            return;
        }
        let places: Vec<String> = enclosing.outside.iter().map(escape).collect();
        let places = places.join(" and ");
        let work_is_root = enclosing.root.as_deref().is_some_and(|root| self.collector.is_root(root));
        let (kind, sentence) = if request.git {
            let sentence = format!(
                ".git leads to {places}, which does not name this folder as its own, so it stays read-only; add it with --write if it is right"
            );
            (ProblemKind::NotItsOwn, sentence)
        } else if work_is_root {
            let sentence = format!(
                "git writes to {places}, outside the writable folders; add --git to let it, with config and hooks read-only"
            );
            (ProblemKind::GitDirOutside, sentence)
        } else {
            let sentence = format!(
                "the work directory lies below a repository whose git folder {places} is read-only; add --git to let git write, with config and hooks read-only"
            );
            (ProblemKind::EnclosingReadOnly, sentence)
        };
        self.collector.problem(kind, &enclosing.git_dir, sentence);
    }

    /// The system's and the caller's own configuration, and the files of the home folder.
    fn global(&mut self, request: &Request) {
        let mut files = vec![request.system_config.clone()];
        if let Some(home) = self.home.clone() {
            for rule in rules::of(Anchor::Home, Treatment::ReadOnly) {
                self.collector.protect(&home, rule.path, rule);
            }
            files.push(home.join(".gitconfig"));
            files
                .push(request.config_home.clone().unwrap_or_else(|| home.join(".config")).join("git/config"));
        }
        for file in files {
            let settings = self.config(&file);
            self.global.extend(settings);
        }
    }

    /// What a configuration and its includes name; the includes are protected on the way.
    fn config(&mut self, file: &Path) -> Vec<Setting> {
        if let Some(settings) = self.configs.get(file) {
            return settings.clone();
        }
        let read = settings::read(file, self.home.as_deref());
        for (path, reason) in read.unread {
            let sentence =
                format!("what it names is not known ({}); it is protected as a file", escape(reason));
            self.collector.problem(ProblemKind::Config, &path, sentence);
        }
        for setting in &read.settings {
            if let Named::Include(path) = &setting.named {
                self.collector.protect(Path::new("/"), path, rules::INCLUDE);
            }
        }
        self.configs.insert(file.to_owned(), read.settings.clone());
        read.settings
    }

    /// The repository whose root, or whose bare git folder, is the real folder `root`; if there is one.
    fn repository(&mut self, root: &Path, how: How) {
        self.collector.dot_git(root);
        match git::dot_git(root) {
            DotGit::Folder(git_dir) | DotGit::File(git_dir) => self.git_dir(Some(root), &git_dir, how, 0),
            DotGit::Broken(reason) => {
                self.collector.problem(
                    ProblemKind::Broken,
                    &root.join(".git"),
                    format!("git cannot use it: {reason}"),
                );
            }
            DotGit::None if git::broken(root).is_none() => self.git_dir(None, root, how, 0),
            DotGit::None => {}
        }
    }

    /// One git folder, with the submodules and worktrees in it.
    fn git_dir(&mut self, root: Option<&Path>, git_dir: &Path, how: How, depth: usize) {
        if !self.known.insert(git_dir.to_owned()) {
            return;
        }
        let common_dir = git::common_dir(git_dir);
        self.collector.keep(git_dir);
        self.collector.keep(&common_dir);
        if let Some(reason) = git::broken(git_dir) {
            let sentence = format!("git passes over it: {reason}");
            self.collector.problem(ProblemKind::Broken, git_dir, sentence);
        }
        for rule in rules::of(Anchor::GitDir, Treatment::ReadOnly) {
            // Only a worktree's git folder has a gitdir; elsewhere the name means nothing to git.
            if rule.path != "gitdir" || common_dir != git_dir {
                self.collector.protect(git_dir, rule.path, rule);
            }
        }
        for rule in rules::of(Anchor::CommonDir, Treatment::ReadOnly) {
            self.collector.protect(&common_dir, rule.path, rule);
        }
        let mut settings = self.global.clone();
        settings.extend(self.config(&common_dir.join("config")));
        settings.extend(self.config(&git_dir.join("config.worktree")));
        let hooks = self.configured(&settings, root.unwrap_or(git_dir), &common_dir);
        if let Some(root) = root {
            self.settings_of_tools(root);
        }
        self.repositories.push(Repository {
            how,
            root: root.map(Path::to_owned),
            git_dir: git_dir.to_owned(),
            common_dir: common_dir.clone(),
            hooks,
        });
        if depth < DEPTH {
            self.below(&common_dir, rules::MODULES, How::Submodule, depth);
            self.below(&common_dir, rules::WORKTREES, How::Worktree, depth);
        }
    }

    /// What the configuration names, seen from where git runs it. Answers the folders that hooks may come from.
    fn configured(&mut self, settings: &[Setting], from: &Path, common_dir: &Path) -> Vec<PathBuf> {
        let mut hooks = vec![resolve(common_dir, Path::new(rules::HOOKS.path)).real];
        for setting in settings {
            match &setting.named {
                Named::Hooks(path) => {
                    self.collector.protect(from, path, rules::HOOKS_PATH);
                    let real = resolve(from, path).real;
                    if !hooks.contains(&real) {
                        hooks.push(real);
                    }
                }
                Named::File(path) => self.collector.protect(from, path, rules::ATTRIBUTES_FILE),
                Named::Command(command) => {
                    for file in settings::files(command, self.home.as_deref()) {
                        // A folder among a command's words is what it works on, not what it runs.
                        if matches!(resolve(from, &file).end, End::File(_) | End::Absent) {
                            self.collector.protect(from, &file, rules::PROGRAM);
                        }
                    }
                }
                Named::Include(_) | Named::Worktree(_) => {}
            }
        }
        hooks
    }

    /// The git folders in `modules` or `worktrees`, one by one, or all at once where they are too many.
    fn below(&mut self, common_dir: &Path, rule: &'static rules::Rule, how: How, depth: usize) {
        let folder = common_dir.join(rule.path);
        let Some(git_dirs) = git::git_dirs_below(&folder, ONE_BY_ONE) else {
            if self.collector.root_of(&folder).is_some() {
                self.collector.protect(common_dir, rule.path, rule);
                let sentence =
                    format!("more than {ONE_BY_ONE} git folders lie in it: it is read-only as a whole");
                self.collector.problem(ProblemKind::TooMany, &folder, sentence);
            }
            return;
        };
        for path in git_dirs {
            // By its name first, so that a link in the place of a git folder is held too.
            let name = path.strip_prefix(&folder).unwrap_or(&path);
            let checked = if how == How::Submodule { rules::CONFIG } else { rules::COMMONDIR };
            self.collector.protect(&folder, name.join(checked.path), checked);
            let git_dir = resolve(&folder, name).real;
            let root = self.root_by_git_dir(&git_dir);
            if let Some(root) = &root {
                self.collector.dot_git(root);
            }
            self.git_dir(root.as_deref(), &git_dir, how, depth + 1);
        }
    }

    /// The root that a worktree's or submodule's git folder names, when its `.git` leads back.
    fn root_by_git_dir(&mut self, git_dir: &Path) -> Option<PathBuf> {
        let settings = self.config(&git_dir.join("config"));
        let worktree = settings.iter().rev().find_map(|setting| match &setting.named {
            Named::Worktree(path) => Some(path.clone()),
            _ => None,
        });
        let root = git::worktree(git_dir, worktree.as_deref())?;
        matches!(git::dot_git(&root), DotGit::File(back) | DotGit::Folder(back) if back == git_dir)
            .then_some(root)
    }

    /// Agents', editors' and shells' settings in the real folder `root`.
    fn settings_of_tools(&mut self, root: &Path) {
        if self.collector.is_root(root) || self.collector.root_of(root).is_some() {
            for rule in rules::of(Anchor::Root, Treatment::ReadOnly) {
                self.collector.protect(root, rule.path, rule);
            }
        }
    }

    /// What the walk meets. Answers whether it was cut.
    fn nested(&mut self, roots: &[PathBuf], request: &Request) -> bool {
        let walked = walk(roots.iter().map(PathBuf::as_path), request.bounds);
        let mut cut = walked.cut;
        if cut {
            let sentence = "the search for nested repositories reached its bound; --protect DIR adds one that was not met";
            self.collector.problem(ProblemKind::Cut, &roots[0], sentence);
        }
        for seen in walked.seen {
            if self.collector.is_full() {
                let sentence = format!(
                    "nested repositories need more than {MOUNTS} mounts; the rest is looked at after the run, --protect DIR comes before them"
                );
                self.collector.problem(ProblemKind::TooMany, &roots[0], sentence);
                cut = true;
                break;
            }
            match seen {
                Seen::Worktree(root) if !roots.contains(&root) => self.repository(&root, How::Nested),
                Seen::GitDir(git_dir) if git::broken(&git_dir).is_none() => {
                    self.git_dir(None, &git_dir, How::Nested, 0);
                }
                _ => {}
            }
        }
        cut
    }
}
