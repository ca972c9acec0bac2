//! Protected paths on real repositories, made with git: what a launch would mount, and what the look says.
//!
//! Git runs here to make the repositories; the code under test never runs it.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a panic in a test is its report")]

use oz0_sandbox::protected::{
    self, Bounds, Kind, Left, PinKind, ProblemKind, Protected, Request, What, after, before, find,
};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder of its own, with a home folder beside the workspace, and no configuration of this machine.
struct Place {
    _folder: tempfile::TempDir,
    root: PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir(root.join("home")).unwrap();
        fs::create_dir(root.join("w")).unwrap();
        Self { _folder: folder, root }
    }

    /// With a repository as workspace.
    fn repository() -> Self {
        let place = Self::new();
        place.git("w", &["init", "-q", "-b", "main"]);
        place
    }

    fn work(&self) -> PathBuf {
        self.root.join("w")
    }

    fn path(&self, below: &str) -> PathBuf {
        self.root.join(below)
    }

    fn git(&self, folder: &str, arguments: &[&str]) -> String {
        let output = Command::new("/usr/bin/git")
            .current_dir(self.root.join(folder))
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.root.join("home"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .args(["-c", "user.name=n", "-c", "user.email=e@example.com", "-c", "protocol.file.allow=always"])
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn request(&self) -> Request {
        Request {
            home: Some(self.root.join("home")),
            system_config: self.root.join("no-such-gitconfig"),
            bounds: Bounds { entries: 1_000_000, time: std::time::Duration::from_secs(60) },
            ..Request::new(self.work())
        }
    }

    fn find(&self) -> Protected {
        let protected = find(&self.request()).unwrap();
        hold_together(&protected);
        protected
    }

    /// What the look says about `act`.
    fn left(&self, act: impl FnOnce()) -> Vec<Left> {
        let protected = self.find();
        let snapshot = before(&protected);
        act();
        let look = after(&protected, &snapshot, Bounds::LOOK);
        assert!(!look.cut);
        look.left
    }
}

/// What every answer must hold to, whatever the repository looks like.
fn hold_together(protected: &Protected) {
    for entry in &protected.read_only {
        let metadata = fs::symlink_metadata(&entry.path).unwrap();
        assert_eq!(entry.path.canonicalize().unwrap(), entry.path, "free of links");
        match entry.kind {
            Kind::File => assert!(metadata.is_file()),
            Kind::Folder => assert!(metadata.is_dir()),
        }
        assert!(protected.roots.iter().any(|root| entry.path.starts_with(root) && entry.path != *root));
        let above =
            |other: &&protected::Entry| entry.path != other.path && entry.path.starts_with(&other.path);
        assert_eq!(protected.read_only.iter().find(above), None, "{entry:?}");
        // Every folder between the writable one and the entry is pinned.
        let outermost = protected.roots.iter().filter(|root| entry.path.starts_with(root)).min().unwrap();
        for folder in entry.path.ancestors().skip(1).take_while(|folder| folder != outermost) {
            assert!(
                protected.pins.iter().any(|pin| pin.path == folder),
                "{} is not pinned",
                folder.display()
            );
        }
    }
    for pin in &protected.pins {
        let metadata = fs::symlink_metadata(&pin.path).unwrap();
        assert_eq!(metadata.is_symlink(), pin.kind == PinKind::Link);
        assert_eq!(metadata.is_dir(), pin.kind == PinKind::Folder);
        assert!(protected.read_only.iter().all(|entry| !pin.path.starts_with(&entry.path)), "{pin:?}");
        assert!(protected.roots.iter().any(|root| pin.path.starts_with(root) && pin.path != *root));
    }
    for absent in &protected.absent {
        assert!(protected.roots.iter().any(|root| absent.path.starts_with(root)), "{absent:?}");
    }
    serde_json::to_string(protected).unwrap();
}

fn entry<'a>(protected: &'a Protected, path: &Path) -> Option<(&'a Kind, &'a str)> {
    protected.read_only.iter().find(|entry| entry.path == path).map(|entry| (&entry.kind, entry.rule))
}

fn pinned(protected: &Protected, path: &Path) -> Option<PinKind> {
    protected.pins.iter().find(|pin| pin.path == path).map(|pin| pin.kind)
}

fn absent<'a>(protected: &'a Protected, path: &Path) -> Option<&'a str> {
    protected.absent.iter().find(|absent| absent.path == path).map(|absent| absent.rule)
}

fn rules(left: &[Left]) -> Vec<(&Path, What, &str)> {
    left.iter().map(|left| (left.path.as_path(), left.what, left.rule)).collect()
}

fn kinds(protected: &Protected) -> Vec<ProblemKind> {
    protected.problems.iter().map(|problem| problem.kind).collect()
}

/// Every name below a folder, with what a run must not change.
fn tree(folder: &Path) -> Vec<(PathBuf, u32, std::time::SystemTime)> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let metadata = entry.metadata().unwrap();
        names.push((entry.path(), metadata.permissions().mode(), metadata.modified().unwrap()));
        // The metadata of a listing is the link's own.
        if metadata.is_dir() {
            names.extend(tree(&entry.path()));
        }
    }
    names.sort();
    names
}

#[test]
fn a_plain_repository() {
    let place = Place::repository();
    let protected = place.find();
    let git = place.path("w/.git");
    assert_eq!(entry(&protected, &git.join("hooks")), Some((&Kind::Folder, "git.hooks")));
    assert_eq!(entry(&protected, &git.join("config")), Some((&Kind::File, "git.config")));
    assert_eq!(protected.read_only.len(), 2, "{:?}", protected.read_only);
    assert_eq!(protected.pins.len(), 1);
    assert_eq!(pinned(&protected, &git), Some(PinKind::Folder));
    assert_eq!(absent(&protected, &git.join("commondir")), Some("git.commondir"));
    assert_eq!(absent(&protected, &git.join("info/attributes")), Some("git.attributes"));
    assert_eq!(kinds(&protected), []);
    assert!(!protected.cut);
    assert!(protected.enclosing.unwrap().outside.is_empty());
}

/// C029, C031: nothing is needed to be there, nothing is made, and what is made in the run is named.
#[test]
fn c029_c031_an_empty_folder_stays_empty_and_planted_settings_are_named() {
    let place = Place::new();
    let protected = place.find();
    assert_eq!((&protected.read_only[..], &protected.pins[..]), (&[][..], &[][..]));
    assert_eq!(absent(&protected, &place.path("w/.claude")), Some("agent.claude"));
    let names = tree(&place.root);
    assert_eq!(place.left(|| {}), []);
    assert_eq!(tree(&place.root), names);
    let left = place.left(|| place.write("w/.claude/commands/a.md", "x"));
    assert_eq!(rules(&left), [(&*place.path("w/.claude/commands/a.md"), What::New, "agent.claude")]);
    assert!(left[0].sentence.starts_with("new: Claude Code"), "{}", left[0].sentence);
}

/// C031: the tree is the same after a find and a look.
#[test]
fn c031_looking_changes_nothing() {
    let place = Place::repository();
    place.write("w/.vscode/tasks.json", "{}");
    place.write("w/a/b", "");
    let names = tree(&place.root);
    assert_eq!(place.left(|| {}), []);
    assert_eq!(tree(&place.root), names);
}

/// C032: several repositories below a folder that is none and cannot be written.
#[test]
fn c032_nested_repositories_are_protected_like_one_at_the_top() {
    let place = Place::new();
    for name in ["a", "b", "deep/er"] {
        fs::create_dir_all(place.work().join(name)).unwrap();
        place.git(&format!("w/{name}"), &["init", "-q"]);
        place.write(&format!("w/{name}/.mcp.json"), "{}");
    }
    fs::set_permissions(place.work(), fs::Permissions::from_mode(0o555)).unwrap();
    let protected = place.find();
    for name in ["a", "b", "deep/er"] {
        let root = place.work().join(name);
        assert_eq!(entry(&protected, &root.join(".git/hooks")), Some((&Kind::Folder, "git.hooks")));
        assert_eq!(entry(&protected, &root.join(".git/config")), Some((&Kind::File, "git.config")));
        assert_eq!(entry(&protected, &root.join(".mcp.json")), Some((&Kind::File, "agent.mcp")));
        for folder in [root.join(".git"), root.clone()] {
            assert_eq!(pinned(&protected, &folder), Some(PinKind::Folder), "{}", folder.display());
        }
    }
    assert_eq!(pinned(&protected, &place.path("w/deep")), Some(PinKind::Folder));
    assert_eq!(fs::read_dir(place.work()).unwrap().count(), 3);
}

/// C035: the first list is an entry when there and named when planted; the second is named.
#[test]
fn c035_both_lists() {
    let first = [".claude/settings.json", ".codex/config.toml", ".mcp.json", ".vscode/tasks.json"];
    let first = first.into_iter().chain([".idea/workspace.xml", ".envrc", ".husky/pre-commit"]);
    let second = ["AGENTS.md", ".github/workflows/x.yml", "package.json", "Makefile", "CLAUDE.md"];
    let all: Vec<String> = first.clone().chain(second).map(|name| format!("w/{name}")).collect();
    let place = Place::repository();
    let left = place.left(|| {
        for name in &all {
            place.write(name, "x");
        }
        place.write("w/.git/hooks/post-merge", "x");
        place.write("w/src/main.rs", "");
    });
    let named: Vec<&Path> = left.iter().map(|left| left.path.as_path()).collect();
    let mut expected: Vec<PathBuf> = all.iter().map(|name| place.path(name)).collect();
    expected.push(place.path("w/.git/hooks/post-merge"));
    expected.sort();
    assert_eq!(named, expected);

    // Now they are there: the first list is read-only, the second is not.
    let protected = place.find();
    for name in first {
        let top = place.work().join(name.split('/').next().unwrap());
        assert!(entry(&protected, &top).is_some(), "{name}");
    }
    for name in second {
        assert!(protected.over(&place.work().join(name)).is_none(), "{name}");
    }
    // A change of the second list is named, its removal is not.
    let left = place.left(|| {
        place.write("w/Makefile", "y");
        fs::remove_file(place.path("w/package.json")).unwrap();
    });
    assert_eq!(rules(&left), [(&*place.path("w/Makefile"), What::Changed, "build.make")]);
}

/// C037: `.git/hooks` is a link to a folder of the workspace: both are held.
#[test]
fn c037_a_link_and_its_target() {
    let place = Place::repository();
    place.write("w/tools/hooks/keep", "");
    fs::remove_dir_all(place.path("w/.git/hooks")).unwrap();
    symlink("../tools/hooks", place.path("w/.git/hooks")).unwrap();
    let protected = place.find();
    assert_eq!(entry(&protected, &place.path("w/tools/hooks")), Some((&Kind::Folder, "git.hooks")));
    assert_eq!(pinned(&protected, &place.path("w/.git/hooks")), Some(PinKind::Link));
    assert_eq!(pinned(&protected, &place.path("w/tools")), Some(PinKind::Folder));
    // What the mounts cannot hold, the look names.
    let left = place.left(|| {
        place.write("w/tools/hooks/pre-commit", "x");
        fs::remove_file(place.path("w/.git/hooks")).unwrap();
        symlink("../other", place.path("w/.git/hooks")).unwrap();
    });
    assert_eq!(
        rules(&left),
        [
            (&*place.path("w/.git/hooks"), What::Changed, "link"),
            (&*place.path("w/tools/hooks/pre-commit"), What::New, "git.hooks"),
        ]
    );
}

/// C038: a dot-file in the home folder that leads into a store outside: the link is held, nothing is mounted.
#[test]
fn c038_a_link_into_a_store() {
    let place = Place::new();
    place.write("store/bashrc", "x");
    symlink("../store/bashrc", place.path("home/.bashrc")).unwrap();
    place.write("home/.profile", "x");
    let mut request = place.request();
    request.work = place.path("home");
    let protected = find(&request).unwrap();
    hold_together(&protected);
    assert_eq!(pinned(&protected, &place.path("home/.bashrc")), Some(PinKind::Link));
    assert_eq!(entry(&protected, &place.path("home/.profile")), Some((&Kind::File, "home.profile")));
    assert!(protected.read_only.iter().all(|entry| !entry.path.starts_with(place.path("store"))));
}

/// A dot-file whose real place is the workspace (a folder of dot-files) is protected there.
#[test]
fn a_dot_file_kept_in_the_workspace() {
    let place = Place::repository();
    place.write("w/gitconfig", "[user]\nname = x\n");
    symlink("../w/gitconfig", place.path("home/.gitconfig")).unwrap();
    assert_eq!(entry(&place.find(), &place.path("w/gitconfig")), Some((&Kind::File, "home.gitconfig")));
}

/// C040: links that leave the workspace take nothing down.
#[test]
fn c040_a_link_into_a_read_only_tree() {
    let place = Place::repository();
    place.write("store/h-source/.env.example", "x");
    fs::create_dir_all(place.path("w/.direnv/in")).unwrap();
    symlink(place.path("store/h-source"), place.path("w/.direnv/in/h-source")).unwrap();
    symlink(place.path("store/h-source"), place.path("w/.vscode")).unwrap();
    symlink("nowhere/at/all", place.path("w/.envrc")).unwrap();
    symlink(".idea", place.path("w/.idea")).unwrap();
    let protected = place.find();
    assert_eq!(pinned(&protected, &place.path("w/.vscode")), Some(PinKind::Link));
    assert_eq!(absent(&protected, &place.path("w/nowhere/at/all")), Some("shell.envrc"));
    assert_eq!(kinds(&protected), [ProblemKind::Unreadable], "the circle is named");
    assert_eq!(protected.problems[0].path, place.path("w/.idea"));
}

/// C041: a protected name that leads to the workspace itself does not make all of it read-only.
#[test]
fn c041_a_link_to_a_shared_folder_holds_the_link() {
    let place = Place::repository();
    symlink("..", place.path("w/.claude")).unwrap();
    symlink(".", place.path("w/.cursor")).unwrap();
    let protected = place.find();
    assert_eq!(pinned(&protected, &place.path("w/.claude")), Some(PinKind::Link));
    assert_eq!(kinds(&protected), [ProblemKind::TooWide, ProblemKind::TooWide]);
    assert!(protected.read_only.iter().all(|entry| entry.path.starts_with(place.path("w/.git"))));
}

/// C043: every part of a path counts, not only the last; nothing is ever mounted outside.
#[test]
fn c043_a_git_folder_behind_a_link_is_not_mounted_outside() {
    let place = Place::new();
    fs::create_dir(place.path("evil")).unwrap();
    place.git("evil", &["init", "-q"]);
    symlink("../evil/.git", place.path("w/.git")).unwrap();
    let protected = place.find();
    assert_eq!(protected.read_only, []);
    assert_eq!(pinned(&protected, &place.path("w/.git")), Some(PinKind::Link));
    assert_eq!(kinds(&protected), [ProblemKind::GitDirOutside]);

    // Not even when git's folders are asked for: nothing out there says that it belongs here.
    let protected = find(&Request { git: true, ..place.request() }).unwrap();
    assert_eq!(kinds(&protected), [ProblemKind::NotItsOwn]);
    assert!(!protected.enclosing.unwrap().granted);
    assert_eq!(protected.roots, [place.work()]);

    // A link higher up, inside: protected at its real place, and the link held.
    let place = Place::new();
    fs::create_dir(place.path("w/real")).unwrap();
    place.git("w/real", &["init", "-q"]);
    symlink("real/.git", place.path("w/.git")).unwrap();
    let protected = place.find();
    assert!(entry(&protected, &place.path("w/real/.git/hooks")).is_some());
    assert_eq!(pinned(&protected, &place.path("w/.git")), Some(PinKind::Link));
}

/// A hard link of the configuration made before the run: named at once, and compared after it.
#[test]
fn a_second_name_of_the_configuration() {
    let place = Place::repository();
    fs::hard_link(place.path("w/.git/config"), place.path("w/other")).unwrap();
    assert_eq!(kinds(&place.find()), [ProblemKind::OtherName]);
    let left = place.left(|| fs::write(place.path("w/other"), "[core]\nfsmonitor = ./x\n").unwrap());
    assert_eq!(rules(&left), [(&*place.path("w/.git/config"), What::Changed, "git.config")]);
}

/// C127: a worktree whose git folder lies outside: said before the command runs, with the flag that grants it.
#[test]
fn c127_a_worktree_of_a_repository_elsewhere() {
    let place = Place::new();
    fs::create_dir(place.path("main")).unwrap();
    place.git("main", &["init", "-q", "-b", "main"]);
    place.git("main", &["commit", "-q", "--allow-empty", "-m", "x"]);
    fs::remove_dir(place.work()).unwrap();
    place.git("main", &["worktree", "add", "-q", "../w"]);

    let protected = place.find();
    assert_eq!(kinds(&protected), [ProblemKind::GitDirOutside]);
    assert!(protected.problems[0].sentence.contains("--git"), "{}", protected.problems[0].sentence);
    assert_eq!(entry(&protected, &place.path("w/.git")), Some((&Kind::File, "git.gitfile")));
    assert_eq!(protected.enclosing.unwrap().outside, [place.path("main/.git")]);

    let protected = find(&Request { git: true, ..place.request() }).unwrap();
    hold_together(&protected);
    assert_eq!(kinds(&protected), []);
    assert_eq!(protected.roots, [place.work(), place.path("main/.git")]);
    for (path, rule) in [
        ("main/.git/config", "git.config"),
        ("main/.git/hooks", "git.hooks"),
        ("main/.git/worktrees/w/commondir", "git.commondir"),
        ("main/.git/worktrees/w/gitdir", "git.gitdir"),
    ] {
        assert_eq!(entry(&protected, &place.path(path)).map(|found| found.1), Some(rule), "{path}");
    }
    assert_eq!(pinned(&protected, &place.path("main/.git/worktrees/w")), Some(PinKind::Folder));
}

/// A gitfile that a run planted opens nothing: the folder it names does not name it back.
#[test]
fn c127_a_planted_gitfile_opens_nothing() {
    let place = Place::new();
    fs::create_dir(place.path("other")).unwrap();
    place.git("other", &["init", "-q"]);
    place.write("w/.git", &format!("gitdir: {}\n", place.path("other/.git").display()));
    let protected = find(&Request { git: true, ..place.request() }).unwrap();
    assert_eq!(protected.roots, [place.work()]);
    assert_eq!(kinds(&protected), [ProblemKind::NotItsOwn]);

    // Not even when a git folder in the workspace names it back and shares the one outside.
    place.write("w/.git", "gitdir: g\n");
    place.write("w/g/HEAD", "ref: refs/heads/main\n");
    place.write("w/g/gitdir", &format!("{}\n", place.path("w/.git").display()));
    place.write("w/g/commondir", &format!("{}\n", place.path("other/.git").display()));
    let protected = find(&Request { git: true, ..place.request() }).unwrap();
    assert_eq!(protected.roots, [place.work()]);
    assert_eq!(kinds(&protected), [ProblemKind::NotItsOwn]);
}

/// Nor does a `commondir` in the workspace's own git folder.
#[test]
fn a_planted_commondir_opens_nothing_and_is_held() {
    let place = Place::repository();
    fs::create_dir(place.path("other")).unwrap();
    place.git("other", &["init", "-q"]);
    place.write("w/.git/commondir", "../../other/.git\n");
    let protected = find(&Request { git: true, ..place.request() }).unwrap();
    hold_together(&protected);
    assert_eq!(protected.roots, [place.work()]);
    assert!(entry(&protected, &place.path("w/.git/commondir")).is_some());
}

/// The work directory lies below the repository's root.
#[test]
fn below_the_root_the_git_folder_is_read_only_until_asked_for() {
    let place = Place::repository();
    fs::create_dir_all(place.path("w/sub/dir")).unwrap();
    let mut request = place.request();
    request.work = place.path("w/sub/dir");
    let protected = find(&request).unwrap();
    hold_together(&protected);
    assert_eq!(kinds(&protected), [ProblemKind::EnclosingReadOnly]);
    assert_eq!(protected.read_only, []);
    request.git = true;
    let protected = find(&request).unwrap();
    hold_together(&protected);
    assert_eq!(protected.roots, [place.path("w/sub/dir"), place.path("w/.git")]);
    assert!(entry(&protected, &place.path("w/.git/hooks")).is_some());
    assert!(protected.enclosing.unwrap().granted);
}

/// C128: `config.worktree` is a plain read-only file, and readable.
#[test]
fn c128_the_worktree_configuration_is_an_entry_of_its_own_type() {
    let place = Place::repository();
    place.git("w", &["config", "extensions.worktreeConfig", "true"]);
    place.git("w", &["config", "--worktree", "core.sparseCheckout", "true"]);
    let protected = place.find();
    let path = place.path("w/.git/config.worktree");
    assert_eq!(entry(&protected, &path), Some((&Kind::File, "git.config_worktree")));
    assert!(fs::read_to_string(path).unwrap().contains("sparseCheckout"));
}

/// C130: what the configuration names is protected too, and neither find nor look runs any of it.
#[test]
fn c130_programs_that_the_configuration_names_and_nothing_is_run() {
    let place = Place::repository();
    let canary = place.path("canary");
    let script = format!("#!/bin/sh\ntouch {}\n", canary.display());
    for name in ["w/x.sh", "w/tools/filter.sh", "w/diff.sh", "w/.git/hooks/post-index-change"] {
        place.write(name, &script);
        fs::set_permissions(place.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    place.write("w/more.inc", "[diff]\nexternal = ./diff.sh\n");
    place.write("w/.gitattributes", "*.txt filter=a\n");
    for (key, value) in [
        ("core.fsmonitor", "./x.sh"),
        ("filter.a.clean", "sh tools/filter.sh %f"),
        ("include.path", "../more.inc"),
        ("alias.s", "!./absent.sh"),
    ] {
        place.git("home", &["config", "-f", place.path("w/.git/config").to_str().unwrap(), key, value]);
    }
    let protected = place.find();
    for (path, rule) in [
        ("w/x.sh", "git.program"),
        ("w/tools/filter.sh", "git.program"),
        ("w/diff.sh", "git.program"),
        ("w/more.inc", "git.include"),
    ] {
        assert_eq!(entry(&protected, &place.path(path)), Some((&Kind::File, rule)), "{path}");
    }
    assert_eq!(absent(&protected, &place.path("w/absent.sh")), Some("git.program"));
    let left = place.left(|| place.write("w/absent.sh", &script));
    assert_eq!(rules(&left), [(&*place.path("w/absent.sh"), What::New, "git.program")]);
    assert!(!canary.exists());
    // The canary is alive: git itself does run it.
    place.git("w", &["status"]);
    assert!(canary.exists());
}

/// C131: the effective hooks folder, present and absent, relative, in the home folder, through a link.
#[test]
fn c131_the_effective_hooks_folder() {
    let hooks = |place: &Place, value: &str| place.git("w", &["config", "core.hooksPath", value]);

    let place = Place::repository();
    hooks(&place, ".githooks");
    let protected = place.find();
    assert_eq!(absent(&protected, &place.path("w/.githooks")), Some("git.hooks_path"));
    let left = place.left(|| place.write("w/.githooks/pre-commit", "x"));
    assert_eq!(rules(&left), [(&*place.path("w/.githooks/pre-commit"), What::New, "git.hooks_path")]);
    assert!(left[0].sentence.contains("new file in the effective hooks folder"));
    assert_eq!(entry(&place.find(), &place.path("w/.githooks")), Some((&Kind::Folder, "git.hooks_path")));

    // From the caller's own configuration, absolute, through a link, and out of the workspace.
    let place = Place::repository();
    place.write("w/tools/x/keep", "");
    symlink("tools", place.path("w/link")).unwrap();
    place.write("home/.gitconfig", &format!("[core]\nhooksPath = {}\n", place.path("w/link/x").display()));
    let protected = place.find();
    assert_eq!(entry(&protected, &place.path("w/tools/x")), Some((&Kind::Folder, "git.hooks_path")));
    assert_eq!(pinned(&protected, &place.path("w/link")), Some(PinKind::Link));
    for outside in ["../hooks", "~/hooks"] {
        place.write("home/hooks/keep", "");
        place.write("hooks/keep", "");
        hooks(&place, outside);
        let protected = place.find();
        assert!(protected.read_only.iter().all(|entry| entry.path.starts_with(place.work())), "{outside}");
    }
    // Home in reach of the run.
    let mut request = place.request();
    request.writable = vec![place.path("home")];
    let protected = find(&request).unwrap();
    hold_together(&protected);
    assert!(entry(&protected, &place.path("home/hooks")).is_some());
    assert!(entry(&protected, &place.path("home/.gitconfig")).is_some());
}

/// C133: one switch, for hooks alone; what is written is named all the same.
#[test]
fn c133_hooks_can_be_granted_for_one_run() {
    let place = Place::repository();
    place.write("w/.husky/pre-commit", "x");
    let over = place.find();
    let (_, rule) = over.over(&place.path("w/.git/hooks/pre-commit")).unwrap();
    assert_eq!((rule.id, rule.hooks), ("git.hooks", true), "a report can name the switch");
    let request = Request { git_hooks: true, ..place.request() };
    let protected = find(&request).unwrap();
    hold_together(&protected);
    assert_eq!(entry(&protected, &place.path("w/.git/hooks")), None);
    assert_eq!(entry(&protected, &place.path("w/.husky")), None);
    assert!(entry(&protected, &place.path("w/.git/config")).is_some());
    let snapshot = before(&protected);
    place.write("w/.git/hooks/pre-commit", "x");
    place.write("w/.husky/pre-commit", "y");
    let look = after(&protected, &snapshot, Bounds::LOOK);
    assert_eq!(
        rules(&look.left),
        [
            (&*place.path("w/.git/hooks/pre-commit"), What::New, "git.hooks_path"),
            (&*place.path("w/.husky/pre-commit"), What::Changed, "hooks.husky"),
        ]
    );
}

/// Each of these ran a planted program at the host's next `git status`.
#[test]
fn ways_around_git_hooks_and_config_are_named() {
    let evil = "[core]\nfsmonitor = ./x.sh\nrepositoryformatversion = 0\n";
    let bare = |place: &Place, at: &str| {
        place.write(&format!("{at}/HEAD"), "ref: refs/heads/main\n");
        fs::create_dir_all(place.path(at).join("objects")).unwrap();
        fs::create_dir_all(place.path(at).join("refs")).unwrap();
        place.write(&format!("{at}/config"), evil);
    };

    // `.git/commondir` planted.
    let place = Place::repository();
    let left = place.left(|| {
        bare(&place, "w/x");
        place.write("w/.git/commondir", "../x");
    });
    assert!(rules(&left).contains(&(&*place.path("w/.git/commondir"), What::New, "git.commondir")));
    assert!(rules(&left).contains(&(&*place.path("w/x"), What::New, "git.bare")));

    // HEAD removed or garbage, with a bare layout in the work root.
    for head in [None, Some("garbage")] {
        let place = Place::repository();
        let left = place.left(|| {
            match head {
                None => fs::remove_file(place.path("w/.git/HEAD")).unwrap(),
                Some(text) => place.write("w/.git/HEAD", text),
            }
            bare(&place, "w");
        });
        assert_eq!(
            rules(&left),
            [
                (&*place.path("w"), What::New, "git.bare"),
                (&*place.path("w/.git/HEAD"), What::Changed, "git.head"),
                (&*place.path("w/config"), What::New, "git.nested"),
            ]
        );
    }

    // refs removed does the same.
    let place = Place::repository();
    let left = place.left(|| fs::remove_dir_all(place.path("w/.git/refs")).unwrap());
    assert_eq!(rules(&left), [(&*place.path("w/.git/HEAD"), What::Changed, "git.head")]);

    // A bare layout in a subfolder, hidden in another.
    let place = Place::repository();
    let left = place.left(|| {
        bare(&place, "w/deep/folder");
        bare(&place, "w/deep/folder/objects/again");
    });
    assert!(rules(&left).contains(&(&*place.path("w/deep/folder"), What::New, "git.bare")));
    assert!(rules(&left).contains(&(
        &*place.path("w/deep/folder/objects/again/config"),
        What::New,
        "git.nested"
    )));

    // A repository made in the run, with a hook; one without anything to run is not worth a line.
    let place = Place::repository();
    let left = place.left(|| {
        for name in ["w/quiet", "w/loud"] {
            fs::create_dir(place.path(name)).unwrap();
            place.git(name, &["init", "-q"]);
        }
        place.write("w/loud/.git/hooks/post-checkout", "x");
    });
    assert_eq!(rules(&left), [(&*place.path("w/loud/.git/hooks/post-checkout"), What::New, "git.nested")]);

    // A rebase that seems to be under way.
    let place = Place::repository();
    let left = place.left(|| place.write("w/.git/rebase-merge/git-rebase-todo", "exec ./x.sh\n"));
    let todo = place.path("w/.git/rebase-merge/git-rebase-todo");
    assert_eq!(rules(&left), [(&*todo, What::New, "git.rebase")]);

    // A gitfile that leads to a git folder in the workspace.
    let place = Place::repository();
    let left = place.left(|| {
        bare(&place, "w/objects");
        place.write("w/sub/.git", "gitdir: ../objects\n");
    });
    assert!(rules(&left).contains(&(&*place.path("w/objects/config"), What::New, "git.nested")));
}

/// Submodules and worktrees are found from the git folder alone, whatever the walk would see.
#[test]
fn submodules_and_worktrees_are_always_protected() {
    let place = Place::repository();
    fs::create_dir(place.path("lib")).unwrap();
    place.git("lib", &["init", "-q", "-b", "main"]);
    place.git("lib", &["commit", "-q", "--allow-empty", "-m", "x"]);
    place.git("w", &["submodule", "--quiet", "add", "../lib", "libs/one"]);
    place.git("w", &["commit", "-q", "-m", "x"]);
    place.git("w", &["worktree", "add", "-q", "trees/side"]);
    let mut request = place.request();
    request.bounds = Bounds { entries: 0, time: std::time::Duration::ZERO };
    let protected = find(&request).unwrap();
    hold_together(&protected);
    assert!(protected.cut);
    assert_eq!(kinds(&protected), [ProblemKind::Cut]);
    for path in [
        "w/.git/modules/libs/one/config",
        "w/.git/modules/libs/one/hooks",
        "w/libs/one/.git",
        "w/trees/side/.git",
        "w/.git/worktrees/side/commondir",
        "w/.git/worktrees/side/gitdir",
    ] {
        assert!(entry(&protected, &place.path(path)).is_some(), "{path}");
    }
    for path in ["w/.git/modules/libs/one", "w/.git/worktrees/side", "w/libs", "w/libs/one", "w/trees/side"] {
        assert_eq!(pinned(&protected, &place.path(path)), Some(PinKind::Folder), "{path}");
    }
    // New ones are looked into.
    let left = place.left(|| {
        place.git("w", &["worktree", "add", "-q", "trees/good", "-b", "good"]);
        place.git("w", &["worktree", "add", "-q", "trees/bad", "-b", "bad"]);
        place.write("w/.git/worktrees/bad/commondir", "../../../evil\n");
        place.write("w/.git/modules/new/HEAD", "ref: refs/heads/main\n");
        place.write("w/.git/modules/new/config", "[core]\nfsmonitor = ./x\n");
    });
    let named = rules(&left);
    assert!(named.contains(&(&*place.path("w/.git/worktrees/bad/commondir"), What::New, "git.commondir")));
    assert!(named.contains(&(&*place.path("w/.git/modules/new/config"), What::New, "git.nested")));
    assert!(!named.iter().any(|(path, ..)| path.starts_with(place.path("w/.git/worktrees/good"))));
}

#[test]
fn too_many_submodules_make_their_folder_read_only_as_a_whole() {
    let place = Place::repository();
    for number in 0..30 {
        place.write(&format!("w/.git/modules/m{number}/HEAD"), "ref: refs/heads/main\n");
    }
    let protected = place.find();
    assert_eq!(entry(&protected, &place.path("w/.git/modules")), Some((&Kind::Folder, "git.modules")));
    assert_eq!(kinds(&protected), [ProblemKind::TooMany]);
}

#[test]
fn many_nested_repositories_end_at_a_bound_that_is_said() {
    let place = Place::new();
    for number in 0..100 {
        place.write(&format!("w/r{number:03}/.git/HEAD"), "ref: refs/heads/main\n");
        place.write(&format!("w/r{number:03}/.git/config"), "");
        place.write(&format!("w/r{number:03}/.git/refs/x"), "");
        place.write(&format!("w/r{number:03}/.git/objects/x"), "");
        place.write(&format!("w/r{number:03}/.git/hooks/x"), "");
    }
    let mut request = place.request();
    request.repositories = vec![place.path("w/r099")];
    let protected = find(&request).unwrap();
    hold_together(&protected);
    assert!(protected.cut);
    assert_eq!(kinds(&protected), [ProblemKind::TooMany]);
    assert!(protected.read_only.len() + protected.pins.len() <= 256);
    assert!(entry(&protected, &place.path("w/r099/.git/config")).is_some(), "asked for comes first");
}

#[test]
fn one_bad_entry_is_named_and_takes_nothing_down() {
    let place = Place::repository();
    place.write("w/.git/config", "[core\nbroken");
    Command::new("/usr/bin/mkfifo").arg(place.path("w/.mcp.json")).status().unwrap();
    let protected = place.find();
    assert_eq!(entry(&protected, &place.path("w/.git/config")), Some((&Kind::File, "git.config")));
    let mut found = kinds(&protected);
    found.sort_by_key(|kind| format!("{kind:?}"));
    assert_eq!(found, [ProblemKind::Config, ProblemKind::Special]);
    // The FIFO replaced by a file is named.
    let left = place.left(|| {
        fs::remove_file(place.path("w/.mcp.json")).unwrap();
        place.write("w/.mcp.json", "{}");
    });
    assert_eq!(rules(&left), [(&*place.path("w/.mcp.json"), What::Changed, "agent.mcp")]);
}

#[test]
fn what_cannot_be_answered_is_an_error() {
    let place = Place::new();
    let mut request = place.request();
    request.repositories = vec![place.work()];
    assert_eq!(
        find(&request).unwrap_err().to_string(),
        format!("{} is no git repository, so there is nothing in it to protect", place.work().display())
    );
    request.repositories.clear();
    request.work = place.path("gone");
    assert!(find(&request).unwrap_err().to_string().contains("cannot use"));
}

/// The work directory given through a link is taken at its real place, or everything would seem outside.
#[test]
fn a_workspace_behind_a_link() {
    let place = Place::repository();
    symlink("w", place.path("alias")).unwrap();
    let mut request = place.request();
    request.work = place.path("alias");
    let protected = find(&request).unwrap();
    hold_together(&protected);
    assert!(entry(&protected, &place.path("w/.git/hooks")).is_some());
}

/// One thing that a repository may hold; what is made may already be there in another shape, and then stays.
#[derive(Debug, Clone)]
enum Piece {
    Init(usize),
    File(usize, usize),
    Link(usize, usize, usize),
    Folder(usize, usize),
    HooksPath(usize, usize),
    Gitfile(usize, usize),
}

/// Folders, and names in them, that collide often.
const FOLDERS: &[&str] = &["", "a", "a/b", "tools", "a/.git", ".git", ".git/modules/m", ".git/worktrees/t"];
const NAMES: &[&str] = &[
    ".git",
    "hooks",
    "config",
    ".claude",
    ".vscode",
    ".envrc",
    "commondir",
    "info",
    "HEAD",
    "objects",
    "refs",
];

fn pieces() -> impl proptest::strategy::Strategy<Value = Vec<Piece>> {
    use proptest::prelude::*;
    let (folder, name) = (0..FOLDERS.len(), 0..NAMES.len());
    let piece = prop_oneof![
        folder.clone().prop_map(Piece::Init),
        (folder.clone(), name.clone()).prop_map(|(a, b)| Piece::File(a, b)),
        (folder.clone(), name.clone(), folder.clone()).prop_map(|(a, b, c)| Piece::Link(a, b, c)),
        (folder.clone(), name.clone()).prop_map(|(a, b)| Piece::Folder(a, b)),
        (folder.clone(), folder.clone()).prop_map(|(a, b)| Piece::HooksPath(a, b)),
        (folder.clone(), folder).prop_map(|(a, b)| Piece::Gitfile(a, b)),
    ];
    prop::collection::vec(piece, 0..14)
}

fn make(work: &Path, piece: &Piece) {
    let write = |path: PathBuf, text: String| {
        let _ = fs::create_dir_all(path.parent().unwrap());
        let _ = fs::write(path, text);
    };
    match *piece {
        Piece::Init(folder) => {
            let git = work.join(FOLDERS[folder]).join(".git");
            for name in ["hooks", "objects", "refs"] {
                let _ = fs::create_dir_all(git.join(name));
            }
            write(git.join("HEAD"), "ref: refs/heads/main\n".to_owned());
            write(git.join("config"), "[core]\n\tbare = false\n".to_owned());
        }
        Piece::File(folder, name) => write(work.join(FOLDERS[folder]).join(NAMES[name]), "../a\n".to_owned()),
        Piece::Link(folder, name, to) => {
            let folder = work.join(FOLDERS[folder]);
            let _ = fs::create_dir_all(&folder);
            let _ = symlink(work.join(FOLDERS[to]), folder.join(NAMES[name]));
        }
        Piece::Folder(folder, name) => {
            let _ = fs::create_dir_all(work.join(FOLDERS[folder]).join(NAMES[name]));
        }
        Piece::HooksPath(folder, to) => {
            let config = format!("[core]\n\thooksPath = {}\n", work.join(FOLDERS[to]).display());
            write(work.join(FOLDERS[folder]).join(".git/config"), config);
        }
        Piece::Gitfile(folder, to) => {
            let text = format!("gitdir: {}\n", work.join(FOLDERS[to]).display());
            write(work.join(FOLDERS[folder]).join(".git"), text);
        }
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]

    /// Whatever lies in the workspace: every entry exists, lies in a writable folder, is below no other entry and
    /// is reached through pins alone; nothing is changed by looking; and a look at an untouched place is empty.
    #[test]
    fn any_layout_gives_a_plan_that_holds_together(
        pieces in pieces(),
        git in proptest::bool::ANY,
        git_hooks in proptest::bool::ANY,
        below in proptest::bool::ANY,
    ) {
        let place = Place::new();
        for piece in &pieces {
            make(&place.work(), piece);
        }
        let mut request = Request { git, git_hooks, ..place.request() };
        if below {
            let _ = fs::create_dir_all(place.path("w/a/b"));
            request.work = place.path("w/a/b").canonicalize().unwrap_or(place.work());
            if !request.work.is_dir() || !request.work.starts_with(place.work()) {
                request.work = place.work();
            }
        }
        let names = tree(&place.root);
        let protected = find(&request).unwrap();
        hold_together(&protected);
        let snapshot = before(&protected);
        let look = after(&protected, &snapshot, Bounds::LOOK);
        proptest::prop_assert_eq!(tree(&place.root), names);
        proptest::prop_assert_eq!(look.left, []);
    }
}
