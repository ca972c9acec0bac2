//! The look: what a run left that other programs may execute.
//!
//! [`before`] notes the state of everything that is watched, [`after`] compares and looks for what is new. Both
//! only read: names, types, stamps, and the bytes of small files, which are kept to tell touched from changed
//! and never shown. Nothing of a repository is executed, and what is not certain is named rather than passed
//! over. Bounded in names and time, and says when it was cut. How the paths were mounted is not known here.

mod state;

use self::state::{Change, State, Watch};
use super::git::{self, DotGit};
use super::rules::{self, Anchor, Rule, Treatment};
use super::settings::{self, Named};
use super::walk::{Seen, walk};
use super::{Bounds, Protected};
use crate::text::escape;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// As many findings as one report names; more are said to be more.
const FINDINGS: usize = 200;
/// New git folders in `modules` or `worktrees` that are looked into.
const GIT_DIRS: usize = 256;

/// What happened to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// It was not there before, or not known before.
    New,
    /// It is not what it was.
    Changed,
    /// It is gone.
    Removed,
}

/// One thing that the run left.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Left {
    /// Where it is.
    #[serde(with = "crate::text::path")]
    pub path: PathBuf,
    /// What happened to it.
    pub what: What,
    /// The rule that it falls under.
    pub rule: &'static str,
    /// What it means, in one sentence; paths in it are escaped.
    pub sentence: String,
}

/// The answer of the look.
#[derive(Debug, Clone, Serialize)]
pub struct Look {
    /// What was left, by path.
    pub left: Vec<Left>,
    /// Whether a bound was reached, so that there may be more.
    pub cut: bool,
}

/// The state before the run.
#[derive(Debug)]
pub struct Snapshot {
    watched: BTreeMap<PathBuf, Watched>,
    broken: BTreeMap<PathBuf, Option<&'static str>>,
    cut: bool,
}

#[derive(Debug)]
struct Watched {
    rule: &'static Rule,
    watch: Watch,
    state: State,
}

/// Notes the state of all that is watched.
pub fn before(protected: &Protected) -> Snapshot {
    let mut cut = false;
    let states = watched(protected).into_iter().map(|(path, rule)| {
        let watch = watch(protected, &path, rule);
        let state = State::of(&path, watch, &mut cut);
        (path, Watched { rule, watch, state })
    });
    let watched = states.collect();
    let git_dirs = protected.repositories.iter().map(|repository| &repository.git_dir);
    let broken = git_dirs.map(|git_dir| (git_dir.clone(), git::broken(git_dir))).collect();
    Snapshot { watched, broken, cut }
}

/// Compares with the state before, and looks for what is new.
pub fn after(protected: &Protected, snapshot: &Snapshot, bounds: Bounds) -> Look {
    let mut look = Looking { protected, left: BTreeMap::new(), cut: snapshot.cut };
    for (path, watched) in &snapshot.watched {
        look.compare(path, watched);
    }
    for (git_dir, before) in &snapshot.broken {
        if let Some(reason) = git::broken(git_dir).filter(|_| before.is_none()) {
            let sentence =
                format!("{reason}, so git passes over this git folder and takes another that it finds");
            look.name(&git_dir.join("HEAD"), What::Changed, rules::HEAD, sentence);
        }
    }
    look.new_git_dirs();
    look.new_repositories(bounds);
    Look { left: look.left.into_values().collect(), cut: look.cut }
}

/// How closely a path is watched.
fn watch(protected: &Protected, path: &Path, rule: &Rule) -> Watch {
    if rule == rules::HOOKS || rule == rules::HOOKS_PATH {
        Watch::Hooks
    } else if protected.read_only.iter().any(|entry| entry.path == path) {
        Watch::Held
    } else {
        Watch::Tree
    }
}

/// Every path that is watched, with its rule.
fn watched(protected: &Protected) -> BTreeMap<PathBuf, &'static Rule> {
    let mut watched = BTreeMap::new();
    let named = protected.read_only.iter().map(|entry| (&entry.path, entry.rule));
    let named = named.chain(protected.absent.iter().map(|absent| (&absent.path, absent.rule)));
    for (path, id) in named {
        if let Some(rule) = rules::by_id(id) {
            watched.insert(path.clone(), rule);
        }
    }
    for link in protected.pins.iter().filter(|pin| pin.kind == super::PinKind::Link) {
        watched.insert(link.path.clone(), rules::LINK);
    }
    let inside = |path: &Path| protected.roots.iter().any(|root| path.starts_with(root));
    let mut folders: BTreeSet<&Path> = protected.roots.iter().map(PathBuf::as_path).collect();
    for repository in &protected.repositories {
        folders.extend(repository.root.as_deref().filter(|root| inside(root)));
        let places = [(&repository.common_dir, Anchor::CommonDir), (&repository.git_dir, Anchor::GitDir)];
        for (folder, anchor) in places.into_iter().filter(|(folder, _)| inside(folder)) {
            for rule in rules::of(anchor, Treatment::Report) {
                watched.entry(folder.join(rule.path)).or_insert(rule);
            }
        }
        for hooks in repository.hooks.iter().filter(|hooks| inside(hooks)) {
            watched.entry(hooks.clone()).or_insert(rules::HOOKS_PATH);
        }
    }
    // A git folder that --git opened holds no settings of tools.
    for repository in &protected.repositories {
        folders.remove(repository.git_dir.as_path());
        folders.remove(repository.common_dir.as_path());
    }
    // Read-only rules as well: --git-hooks takes some of them out of the entries.
    for folder in folders {
        for rule in rules::RULES.iter().filter(|rule| rule.anchor == Anchor::Root) {
            if rule.treatment == Treatment::Report || rule.hooks {
                watched.entry(folder.join(rule.path)).or_insert(rule);
            }
        }
    }
    if let Some(home) = protected.home.as_deref().filter(|home| inside(home)) {
        for rule in rules::of(Anchor::Home, Treatment::Report) {
            watched.entry(home.join(rule.path)).or_insert(rule);
        }
    }
    watched
}

struct Looking<'a> {
    protected: &'a Protected,
    left: BTreeMap<(PathBuf, What), Left>,
    cut: bool,
}

impl Looking<'_> {
    /// Names a path once, by the first rule that finds it.
    fn name(&mut self, path: &Path, what: What, rule: &'static Rule, sentence: String) {
        if self.left.len() == FINDINGS {
            self.cut = true;
            return;
        }
        let left = Left { path: path.to_owned(), what, rule: rule.id, sentence };
        self.left.entry((path.to_owned(), what)).or_insert(left);
    }

    fn compare(&mut self, path: &Path, watched: &Watched) {
        let Watched { rule, watch, state } = watched;
        let now = State::of(path, *watch, &mut self.cut);
        for (below, change) in state.changes(&now) {
            let what = match change {
                Change::New => What::New,
                Change::Changed => What::Changed,
                // What people may remove is no danger when it is gone.
                Change::Removed if rule.treatment == Treatment::Report => continue,
                Change::Removed => What::Removed,
            };
            let path = if below.as_os_str().is_empty() { path.to_owned() } else { path.join(below) };
            let hook = *watch == Watch::Hooks;
            let sentence = match what {
                What::New if hook => format!("new file in the effective hooks folder: {}", rule.why),
                What::New => format!("new: {}", rule.why),
                What::Changed => format!("changed: {}", rule.why),
                What::Removed => format!("removed: {}", rule.why),
            };
            self.name(&path, what, rule, sentence);
        }
    }

    fn is_known(&self, git_dir: &Path) -> bool {
        self.protected.repositories.iter().any(|known| known.git_dir == git_dir)
    }

    fn is_shared(&self, common_dir: &Path) -> bool {
        self.protected.repositories.iter().any(|known| known.common_dir == common_dir)
    }

    /// Submodules and worktrees that were added to a known repository.
    fn new_git_dirs(&mut self) {
        let common_dirs: BTreeSet<&Path> =
            self.protected.repositories.iter().map(|known| known.common_dir.as_path()).collect();
        for common_dir in common_dirs {
            for rule in [rules::MODULES, rules::WORKTREES] {
                let Some(git_dirs) = git::git_dirs_below(&common_dir.join(rule.path), GIT_DIRS) else {
                    self.cut = true;
                    continue;
                };
                for git_dir in git_dirs {
                    let git_dir = crate::resolve::resolve(common_dir, &git_dir).real;
                    if rule == rules::WORKTREES
                        && !self.is_known(&git_dir)
                        && git::common_dir(&git_dir) != common_dir
                    {
                        let sentence = format!("new, and not of this repository: {}", rules::COMMONDIR.why);
                        self.name(&git_dir.join("commondir"), What::New, rules::COMMONDIR, sentence);
                    }
                    self.look_into(&git_dir);
                }
            }
        }
    }

    /// Repositories that lie in the writable folders and were not known before.
    fn new_repositories(&mut self, bounds: Bounds) {
        let protected = self.protected;
        let git_dir = |root: &&PathBuf| protected.repositories.iter().any(|known| &&known.common_dir == root);
        let roots = protected.roots.iter().filter(|root| !git_dir(root)).map(PathBuf::as_path);
        let walked = walk(roots, bounds);
        self.cut |= walked.cut;
        for seen in walked.seen {
            match seen {
                Seen::Worktree(root) => match git::dot_git(&root) {
                    DotGit::Folder(git_dir) | DotGit::File(git_dir) => self.look_into(&git_dir),
                    DotGit::Broken(_) | DotGit::None => {}
                },
                Seen::GitDir(git_dir) => {
                    if !self.is_known(&git_dir) && git::broken(&git_dir).is_none() {
                        self.name(
                            &git_dir,
                            What::New,
                            rules::BARE,
                            format!("not known before the run: {}", rules::BARE.why),
                        );
                        self.look_into(&git_dir);
                    }
                }
            }
        }
    }

    /// Names what git would run from a git folder that was not known before.
    fn look_into(&mut self, git_dir: &Path) {
        if self.is_known(git_dir) {
            return;
        }
        let common_dir = git::common_dir(git_dir);
        let mut configs = vec![git_dir.join(rules::CONFIG_WORKTREE.path)];
        if !self.is_shared(&common_dir) {
            configs.push(common_dir.join(rules::CONFIG.path));
            let hooks = common_dir.join(rules::HOOKS.path);
            let now = State::of(&hooks, Watch::Hooks, &mut self.cut);
            for (below, _) in State::Absent.changes(&now) {
                let sentence =
                    format!("hook of a repository that was not known before the run: {}", rules::NESTED.why);
                self.name(&hooks.join(below), What::New, rules::NESTED, sentence);
            }
        }
        for config in configs {
            let read = settings::read(&config, None);
            let acts = |named: &Named| !matches!(named, Named::Worktree(_));
            let keys: BTreeSet<String> = read
                .settings
                .into_iter()
                .filter(|setting| acts(&setting.named))
                .map(|setting| setting.key)
                .collect();
            if !keys.is_empty() {
                let keys = keys.iter().map(escape).collect::<Vec<_>>().join(", ");
                let sentence = format!(
                    "configuration of a repository that was not known before the run names programs or files ({keys}): {}",
                    rules::NESTED.why
                );
                self.name(&config, What::New, rules::NESTED, sentence);
            }
            for (path, reason) in read.unread {
                let sentence = format!(
                    "configuration of a repository that was not known before the run cannot be read ({})",
                    escape(reason)
                );
                self.name(&path, What::New, rules::NESTED, sentence);
            }
        }
    }
}
