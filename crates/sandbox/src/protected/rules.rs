//! The list of protected paths, as data: one table, each line with its reason.
//!
//! Two treatments. What a program outside runs by itself, because the path exists (a hook, a setting that names
//! a program), is read-only; an absent one cannot be forbidden by a mount and is named by the look. What people
//! write every day and run on purpose (a Makefile, `package.json`) stays writable and is named after the run.
//! How a path is found, mounted or looked at is not known here.

use serde::Serialize;

/// Raised by one whenever a line is added, removed or changes its treatment.
pub const VERSION: u32 = 1;

/// What a rule's path is relative to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Anchor {
    /// A repository's own git folder: `.git`, `.git/worktrees/NAME`, `.git/modules/NAME`.
    GitDir,
    /// The git folder that all worktrees of a repository share.
    CommonDir,
    /// A repository's root, and each writable folder of the run.
    Root,
    /// The caller's home folder, when it is writable in the run.
    Home,
    /// Where git's configuration, a gitfile or another rule leads.
    Configured,
}

/// What becomes of a path that a rule names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Treatment {
    /// Read-only while the run lasts; named by the look when the run made it.
    ReadOnly,
    /// Writable; named by the look when the run made or changed it.
    Report,
}

/// One line of the list.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// A stable name, printed with every finding.
    pub id: &'static str,
    /// What `path` is relative to.
    pub anchor: Anchor,
    /// The path, with `/` between its parts; empty where the path comes from a configuration.
    pub path: &'static str,
    /// What becomes of it.
    pub treatment: Treatment,
    /// Whether `--git-hooks` leaves it writable.
    pub hooks: bool,
    /// Which program acts on it, and how.
    pub why: &'static str,
}

const fn rule(
    id: &'static str,
    anchor: Anchor,
    path: &'static str,
    treatment: Treatment,
    why: &'static str,
) -> Rule {
    Rule { id, anchor, path, treatment, hooks: false, why }
}

const fn hooks(id: &'static str, anchor: Anchor, path: &'static str, why: &'static str) -> Rule {
    Rule { id, anchor, path, treatment: ReadOnly, hooks: true, why }
}

use Anchor::{CommonDir, Configured, GitDir, Home, Root};
use Treatment::{ReadOnly, Report};

/// A hook of a repository.
pub const HOOKS: &Rule = &RULES[0];
/// A repository's configuration.
pub const CONFIG: &Rule = &RULES[1];
/// The configuration of one worktree.
pub const CONFIG_WORKTREE: &Rule = &RULES[2];
/// The file that moves the shared git folder elsewhere.
pub const COMMONDIR: &Rule = &RULES[3];
/// The file `.git` of a worktree or submodule.
pub const GITFILE: &Rule = &RULES[4];
/// The hooks folder that `core.hooksPath` names.
pub const HOOKS_PATH: &Rule = &RULES[5];
/// A file that `include.path` or `includeIf` names.
pub const INCLUDE: &Rule = &RULES[6];
/// A program or script that a key of git's configuration names.
pub const PROGRAM: &Rule = &RULES[7];
/// Any other file or folder that git's configuration names and acts on.
pub const ATTRIBUTES_FILE: &Rule = &RULES[8];
/// All submodules' git folders at once, where they are too many to protect one by one.
pub const MODULES: &Rule = &RULES[9];
/// All worktrees' git folders at once, where they are too many to protect one by one.
pub const WORKTREES: &Rule = &RULES[10];
/// A git folder that git no longer takes for one.
pub const HEAD: &Rule = &RULES[11];
/// A folder that git takes for a repository without a worktree.
pub const BARE: &Rule = &RULES[12];
/// A repository that was not there before, with something to run in it.
pub const NESTED: &Rule = &RULES[13];
/// A symlink on the way to a protected path.
pub const LINK: &Rule = &RULES[14];

/// The whole list.
pub const RULES: &[Rule] = &[
    // Named above by their place; a test keeps the two together.
    hooks("git.hooks", CommonDir, "hooks", "git runs the programs in it at commit, checkout, merge, push, …"),
    rule(
        "git.config",
        CommonDir,
        "config",
        ReadOnly,
        "its keys name programs that git runs: core.fsmonitor at every status, filters, aliases, pagers",
    ),
    rule(
        "git.config_worktree",
        GitDir,
        "config.worktree",
        ReadOnly,
        "read like config when extensions.worktreeConfig is set",
    ),
    rule(
        "git.commondir",
        GitDir,
        "commondir",
        ReadOnly,
        "planted or rewritten it makes git read config and hooks from a folder of the run's choice",
    ),
    rule(
        "git.gitfile",
        Configured,
        "",
        ReadOnly,
        "a .git file names the git folder, and so the config and hooks that git uses",
    ),
    hooks("git.hooks_path", Configured, "", "core.hooksPath makes it the folder that git runs hooks from"),
    rule("git.include", Configured, "", ReadOnly, "include.path and includeIf read it as configuration"),
    rule("git.program", Configured, "", ReadOnly, "a key of git's configuration runs it"),
    rule(
        "git.attributes_file",
        Configured,
        "",
        ReadOnly,
        "it switches on filters and diff programs, or is copied into new repositories",
    ),
    rule(
        "git.modules",
        Configured,
        "modules",
        ReadOnly,
        "git folders of submodules, each with its config and hooks",
    ),
    rule(
        "git.worktrees",
        Configured,
        "worktrees",
        ReadOnly,
        "git folders of worktrees, each with its commondir",
    ),
    rule(
        "git.head",
        Configured,
        "HEAD",
        Report,
        "when HEAD, objects or refs are broken git passes over .git and takes the next repository it finds",
    ),
    rule(
        "git.bare",
        Configured,
        "",
        Report,
        "git takes a folder with HEAD, objects and refs for a repository and runs what its config names",
    ),
    rule(
        "git.nested",
        Configured,
        "",
        Report,
        "git and editors that enter the folder run its hooks and what its config names",
    ),
    rule("link", Configured, "", ReadOnly, "the protected path leads through this link"),
    // The rest of git.
    rule(
        "git.attributes",
        CommonDir,
        "info/attributes",
        ReadOnly,
        "switches on filters and diff programs that the configuration already names",
    ),
    rule("git.gitdir", GitDir, "gitdir", ReadOnly, "ties a worktree to its .git file"),
    rule(
        "git.alternates",
        CommonDir,
        "objects/info/alternates",
        Report,
        "git reads objects from the folders it names",
    ),
    rule(
        "git.submodules",
        Root,
        ".gitmodules",
        Report,
        "names what the next submodule update fetches, and where to",
    ),
    rule(
        "git.attributes_root",
        Root,
        ".gitattributes",
        Report,
        "switches on filters and diff programs that the configuration already names",
    ),
    rule(
        "git.rebase",
        GitDir,
        "rebase-merge",
        Report,
        "git rebase --continue runs the exec lines of a rebase that seems to be under way",
    ),
    // Agents: settings that name commands, hooks and servers to start, or what may run without a question.
    rule(
        "agent.claude",
        Root,
        ".claude",
        ReadOnly,
        "Claude Code: settings with hooks and permissions, commands, agents, skills",
    ),
    rule(
        "agent.codex",
        Root,
        ".codex",
        ReadOnly,
        "Codex: config.toml with servers to start and the sandbox's own switches",
    ),
    rule("agent.cursor", Root, ".cursor", ReadOnly, "Cursor: mcp.json, hooks.json, rules and permissions"),
    rule(
        "agent.gemini",
        Root,
        ".gemini",
        ReadOnly,
        "Gemini CLI: settings.json with servers and hooks to start",
    ),
    rule("agent.mcp", Root, ".mcp.json", ReadOnly, "agents start the servers that it names"),
    rule("agent.agents", Root, ".agents", ReadOnly, "skills and plugins that several agents load"),
    rule(
        "agent.opencode",
        Root,
        ".opencode",
        ReadOnly,
        "opencode: plugins, commands and agents that it loads",
    ),
    rule(
        "agent.opencode_file",
        Root,
        "opencode.json",
        ReadOnly,
        "opencode: servers to start and permissions",
    ),
    rule("agent.windsurf", Root, ".windsurf", ReadOnly, "Windsurf: workflows, hooks and rules"),
    rule("agent.roo", Root, ".roo", ReadOnly, "Roo Code: mcp.json and modes"),
    rule("agent.kiro", Root, ".kiro", ReadOnly, "Kiro: hooks and servers to start"),
    rule("agent.amazonq", Root, ".amazonq", ReadOnly, "Amazon Q: servers to start and rules"),
    rule("agent.continue", Root, ".continue", ReadOnly, "Continue: servers to start and rules"),
    rule("agent.aider", Root, ".aider.conf.yml", ReadOnly, "aider: lint and test commands that it runs"),
    // Editors and shells that act when a folder is opened or entered.
    rule(
        "editor.vscode",
        Root,
        ".vscode",
        ReadOnly,
        "VS Code: tasks that run when the folder is opened, settings that name programs",
    ),
    rule("editor.idea", Root, ".idea", ReadOnly, "JetBrains: run configurations, watchers and startup tasks"),
    rule("editor.zed", Root, ".zed", ReadOnly, "Zed: tasks and settings that name programs"),
    rule("editor.fleet", Root, ".fleet", ReadOnly, "Fleet: run configurations"),
    rule("editor.devcontainer", Root, ".devcontainer", ReadOnly, "initializeCommand runs on the host"),
    rule(
        "editor.devcontainer_file",
        Root,
        ".devcontainer.json",
        ReadOnly,
        "initializeCommand runs on the host",
    ),
    rule("shell.envrc", Root, ".envrc", ReadOnly, "direnv runs it when a shell enters the folder"),
    hooks("hooks.husky", Root, ".husky", "husky points core.hooksPath here: git runs its files"),
    // In a home folder: read by every shell, login or ssh.
    rule(
        "home.gitconfig",
        Home,
        ".gitconfig",
        ReadOnly,
        "the caller's git configuration: its keys name programs",
    ),
    rule("home.git", Home, ".config/git", ReadOnly, "the caller's git configuration, attributes and hooks"),
    rule("home.ssh", Home, ".ssh", ReadOnly, "keys, authorized_keys, and config with ProxyCommand"),
    rule("home.bashrc", Home, ".bashrc", ReadOnly, "every interactive bash runs it"),
    rule("home.bash_profile", Home, ".bash_profile", ReadOnly, "a login bash runs it"),
    rule("home.bash_login", Home, ".bash_login", ReadOnly, "a login bash runs it"),
    rule("home.bash_logout", Home, ".bash_logout", ReadOnly, "a login bash runs it when it ends"),
    rule("home.profile", Home, ".profile", ReadOnly, "login shells and desktop sessions run it"),
    rule("home.zshrc", Home, ".zshrc", ReadOnly, "every interactive zsh runs it"),
    rule("home.zshenv", Home, ".zshenv", ReadOnly, "every zsh runs it"),
    rule("home.zprofile", Home, ".zprofile", ReadOnly, "a login zsh runs it"),
    rule("home.fish", Home, ".config/fish", ReadOnly, "every fish runs it"),
    rule("home.systemd", Home, ".config/systemd", ReadOnly, "units that the user's systemd starts"),
    rule("home.autostart", Home, ".config/autostart", ReadOnly, "programs that the desktop starts"),
    rule("home.local_bin", Home, ".local/bin", Report, "usually on PATH"),
    // Written every day, run on purpose: named, not refused.
    rule("instructions.agents", Root, "AGENTS.md", Report, "agents take it as instructions"),
    rule("instructions.claude", Root, "CLAUDE.md", Report, "Claude Code takes it as instructions"),
    rule("instructions.gemini", Root, "GEMINI.md", Report, "Gemini CLI takes it as instructions"),
    rule("instructions.cursor", Root, ".cursorrules", Report, "Cursor takes it as instructions"),
    rule("instructions.windsurf", Root, ".windsurfrules", Report, "Windsurf takes it as instructions"),
    rule("ci.github", Root, ".github", Report, "workflows that GitHub runs, instructions for agents"),
    rule("ci.gitlab", Root, ".gitlab-ci.yml", Report, "GitLab runs it"),
    rule("ci.circle", Root, ".circleci", Report, "CircleCI runs it"),
    rule("ci.jenkins", Root, "Jenkinsfile", Report, "Jenkins runs it"),
    rule("build.npm", Root, "package.json", Report, "npm, pnpm and yarn run its scripts, some at install"),
    rule("build.npmrc", Root, ".npmrc", Report, "names the shell and the registry that npm uses"),
    rule("build.yarn", Root, ".yarnrc.yml", Report, "names plugins and the yarn that runs"),
    rule("build.pnpm", Root, ".pnpmfile.cjs", Report, "pnpm runs it at install"),
    rule("build.make", Root, "Makefile", Report, "make runs it"),
    rule("build.make_lower", Root, "makefile", Report, "make runs it, before Makefile"),
    rule("build.make_gnu", Root, "GNUmakefile", Report, "make runs it, before both others"),
    rule("build.just", Root, "justfile", Report, "just runs it"),
    rule("build.task", Root, "Taskfile.yml", Report, "task runs it"),
    rule("build.cargo", Root, ".cargo", Report, "cargo runs the wrappers, linkers and runners that it names"),
    rule("build.cargo_script", Root, "build.rs", Report, "cargo runs it at build, editors on opening"),
    rule("build.python", Root, "setup.py", Report, "pip runs it"),
    rule("build.pytest", Root, "conftest.py", Report, "pytest runs it"),
    rule("build.gradle", Root, "gradlew", Report, "the build's entry point"),
    rule("build.msbuild", Root, "Directory.Build.props", Report, "MSBuild and editors run it"),
    rule("build.msbuild_targets", Root, "Directory.Build.targets", Report, "MSBuild and editors run it"),
    rule("build.bazel", Root, ".bazelrc", Report, "names programs that bazel runs"),
    rule("build.mise", Root, "mise.toml", Report, "mise runs its hooks and tasks"),
    rule("build.mise_hidden", Root, ".mise.toml", Report, "mise runs its hooks and tasks"),
    rule(
        "hooks.pre_commit",
        Root,
        ".pre-commit-config.yaml",
        Report,
        "an installed pre-commit runs what it names",
    ),
    rule("hooks.lefthook", Root, "lefthook.yml", Report, "an installed lefthook runs what it names"),
    rule("editor.gdb", Root, ".gdbinit", Report, "gdb runs it where the folder is trusted"),
    rule("editor.vim", Root, ".exrc", Report, "vim runs it when exrc is set"),
    rule("editor.nvim", Root, ".nvim.lua", Report, "nvim runs it when exrc is set"),
    rule("editor.emacs", Root, ".dir-locals.el", Report, "emacs evaluates it after a question"),
];

/// The rules of one anchor with one treatment.
pub fn of(anchor: Anchor, treatment: Treatment) -> impl Iterator<Item = &'static Rule> {
    RULES
        .iter()
        .filter(move |rule| rule.anchor == anchor && rule.treatment == treatment && !rule.path.is_empty())
}

/// The rule of that name.
pub fn by_id(id: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_and_places_agree() {
        for (rule, id) in [
            (HOOKS, "git.hooks"),
            (CONFIG, "git.config"),
            (CONFIG_WORKTREE, "git.config_worktree"),
            (COMMONDIR, "git.commondir"),
            (GITFILE, "git.gitfile"),
            (HOOKS_PATH, "git.hooks_path"),
            (INCLUDE, "git.include"),
            (PROGRAM, "git.program"),
            (ATTRIBUTES_FILE, "git.attributes_file"),
            (MODULES, "git.modules"),
            (WORKTREES, "git.worktrees"),
            (HEAD, "git.head"),
            (BARE, "git.bare"),
            (NESTED, "git.nested"),
            (LINK, "link"),
        ] {
            assert_eq!(rule.id, id);
        }
    }

    #[test]
    fn each_line_stands_once_and_stays_below_its_anchor() {
        let ids: BTreeSet<_> = RULES.iter().map(|rule| rule.id).collect();
        assert_eq!(ids.len(), RULES.len());
        let places: BTreeSet<_> =
            RULES.iter().filter(|rule| !rule.path.is_empty()).map(|rule| (rule.anchor, rule.path)).collect();
        assert_eq!(places.len(), RULES.iter().filter(|rule| !rule.path.is_empty()).count());
        for rule in RULES {
            assert!(!rule.why.is_empty() && !rule.why.ends_with('.'), "{}", rule.id);
            assert!(
                rule.path.split('/').all(|part| part != "..") && !rule.path.starts_with('/'),
                "{}",
                rule.id
            );
        }
    }

    /// C035: each name of the case is on one of the two lists, and on which is part of the product.
    #[test]
    fn c035_every_path_of_the_case_is_on_a_list() {
        let treatment = |path: &str| {
            RULES.iter().find(|rule| rule.path == path && rule.anchor == Root).map(|rule| rule.treatment)
        };
        for path in [".claude", ".codex", ".mcp.json", ".vscode", ".idea", ".envrc", ".husky"] {
            assert_eq!(treatment(path), Some(ReadOnly), "{path}");
        }
        for path in ["AGENTS.md", ".github", "package.json", "Makefile"] {
            assert_eq!(treatment(path), Some(Report), "{path}");
        }
        assert_eq!(HOOKS.treatment, ReadOnly);
    }
}
