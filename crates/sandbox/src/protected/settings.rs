//! Git's configuration, read: which hooks folders, further files and programs it names.
//!
//! The library parses; the files are opened here, because the library's own loader would run git to find the
//! system's configuration. Every include is followed whether its condition holds or not, and every value counts,
//! not only the last: what git would read under another branch or folder is protected too.
//! Which of the paths lie where the run can write is not known here.

use super::regular;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What a configuration names that git acts on, with paths as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Named {
    /// `core.hooksPath`.
    Hooks(PathBuf),
    /// A file read as configuration; already joined to the folder of the file that names it.
    Include(PathBuf),
    /// A file or folder that git reads and acts on: attributes, templates.
    File(PathBuf),
    /// A command line, or a program's path.
    Command(String),
    /// `core.worktree`: where a submodule's files are.
    Worktree(PathBuf),
}

/// One thing that a configuration names, and by which key.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    pub(super) key: String,
    pub(super) named: Named,
}

/// What one file and all that it includes say.
#[derive(Debug, Clone, Default)]
pub(super) struct Settings {
    pub(super) settings: Vec<Setting>,
    /// Files that were there and could not be read or understood, with the reason.
    pub(super) unread: Vec<(PathBuf, String)>,
}

/// Git itself stops at ten levels; the number of files is bounded so that a run cannot slow the next launch.
const DEPTH: usize = 10;
const FILES: usize = 64;
const BYTES: u64 = 1024 * 1024;

/// Reads `file` and what it includes. `home` stands for `~/`.
pub(super) fn read(file: &Path, home: Option<&Path>) -> Settings {
    let mut reader = Reader { home, seen: BTreeSet::new(), settings: Settings::default() };
    reader.file(file, 0);
    reader.settings
}

/// What the bytes of one file say; includes are named and not followed.
pub(super) fn parse(bytes: &[u8], file: &Path, home: Option<&Path>) -> Result<Vec<Setting>, String> {
    let parsed = gix_config::File::from_bytes_no_includes(
        bytes,
        gix_config::file::Metadata::default(),
        gix_config::file::init::Options::default(),
    )
    .map_err(|error| error.to_string())?;
    let mut settings = Vec::new();
    for section in parsed.sections() {
        let name = text(section.header().name()).to_ascii_lowercase();
        let part = section.header().subsection_name().map(|part| text(part));
        let keys: BTreeSet<String> = section.value_names().map(|key| key.to_ascii_lowercase()).collect();
        for key in keys {
            let full = match &part {
                Some(part) => format!("{name}.{part}.{key}"),
                None => format!("{name}.{key}"),
            };
            for value in section.values(&key) {
                let named = named(&name, part.as_deref(), &key, value.as_ref(), file, home);
                settings.extend(named.map(|named| Setting { key: full.clone(), named }));
            }
        }
    }
    Ok(settings)
}

struct Reader<'a> {
    home: Option<&'a Path>,
    seen: BTreeSet<PathBuf>,
    settings: Settings,
}

impl Reader<'_> {
    fn file(&mut self, file: &Path, depth: usize) {
        if self.seen.contains(file) {
            return;
        }
        if depth > DEPTH || self.seen.len() == FILES {
            self.settings.unread.push((file.to_owned(), "too many includes".to_owned()));
            return;
        }
        self.seen.insert(file.to_owned());
        let parsed = match regular::read(file, BYTES) {
            Ok(Some(bytes)) => parse(&bytes, file, self.home),
            Ok(None) => return,
            Err(error) => Err(error.to_string()),
        };
        match parsed {
            Ok(settings) => {
                let from = self.settings.settings.len();
                self.settings.settings.extend(settings);
                let includes: Vec<PathBuf> = self.settings.settings[from..]
                    .iter()
                    .filter_map(|setting| match &setting.named {
                        Named::Include(path) => Some(path.clone()),
                        _ => None,
                    })
                    .collect();
                for include in includes {
                    self.file(&include, depth + 1);
                }
            }
            Err(reason) => self.settings.unread.push((file.to_owned(), reason)),
        }
    }
}

/// What a key names, or nothing when git does not act on it.
///
/// The keys are those of git-config(1) whose value is a program, a command line, or a file that leads to one.
fn named(
    section: &str,
    part: Option<&str>,
    key: &str,
    value: &[u8],
    file: &Path,
    home: Option<&Path>,
) -> Option<Named> {
    let written = || expand(value, home);
    let command = || Some(Named::Command(text(value)));
    match (section, part, key) {
        _ if value.is_empty() => None,
        ("include", None, "path") | ("includeif", Some(_), "path") => {
            let folder = file.parent().unwrap_or(Path::new("/"));
            written().map(|path| Named::Include(folder.join(path)))
        }
        ("core", None, "hookspath") => written().map(Named::Hooks),
        ("core", None, "attributesfile") | ("init", None, "templatedir") => written().map(Named::File),
        ("core", None, "worktree") => written().map(Named::Worktree),
        ("core", None, "fsmonitor") if is_boolean(value) => None,
        (
            "core",
            None,
            "fsmonitor" | "sshcommand" | "pager" | "editor" | "askpass" | "gitproxy" | "alternaterefscommand",
        )
        | ("sequence", None, "editor")
        | ("interactive", None, "difffilter")
        | ("diff", None, "external")
        | ("diff", Some(_), "command" | "textconv")
        | ("merge", Some(_), "driver")
        | ("mergetool" | "difftool" | "browser" | "man" | "guitool", Some(_), "cmd" | "path")
        | ("filter", Some(_), "clean" | "smudge" | "process")
        | ("credential", _, "helper")
        | ("gpg", _, "program" | "defaultkeycommand")
        | ("trailer", Some(_), "command" | "cmd")
        | ("hook", Some(_), "command")
        | ("tar", Some(_), "command")
        | ("remote", Some(_), "uploadpack" | "receivepack")
        | ("uploadpack", None, "packobjectshook")
        | ("gc", None, "recentobjectshook")
        | ("sendemail", _, "tocmd" | "cccmd" | "headercmd" | "sendmailcmd" | "smtpserver")
        | ("imap", None, "tunnel")
        | ("instaweb", None, "httpd") => command(),
        ("pager", None, _) if !is_boolean(value) => command(),
        ("alias", _, _) if value.starts_with(b"!") => Some(Named::Command(text(&value[1..]))),
        ("submodule", Some(_), "update") if value.starts_with(b"!") => {
            Some(Named::Command(text(&value[1..])))
        }
        ("remote", Some(_), "url" | "pushurl") if value.starts_with(b"ext::") => {
            Some(Named::Command(text(&value[5..])))
        }
        _ => None,
    }
}

/// `~/` is the caller's home folder; `~user/` and `%(prefix)/` are of the system and outside any workspace.
fn expand(value: &[u8], home: Option<&Path>) -> Option<PathBuf> {
    match value {
        [b'~', b'/', rest @ ..] => home.map(|home| home.join(native(rest))),
        [b'~', ..] | [b'%', b'(', ..] => None,
        _ => Some(native(value)),
    }
}

fn is_boolean(value: &[u8]) -> bool {
    ["true", "false", "yes", "no", "on", "off", "0", "1"]
        .iter()
        .any(|word| value.eq_ignore_ascii_case(word.as_bytes()))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The bytes as the system's own path.
pub(super) fn native(bytes: &[u8]) -> PathBuf {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt as _;
        PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
    }
    #[cfg(not(unix))]
    {
        PathBuf::from(text(bytes))
    }
}

/// The words of a command line that may be files of the workspace: the first when it has a slash, and every
/// later one that is no option; a later word without a slash counts only after an interpreter.
pub(super) fn files(command: &str, home: Option<&Path>) -> Vec<PathBuf> {
    const WORDS: usize = 32;
    const INTERPRETERS: &[&str] = &[
        "sh", "bash", "dash", "zsh", "env", "exec", "python", "python3", "perl", "ruby", "node", "deno",
        "bun",
    ];
    let separators = |letter: char| letter.is_whitespace() || "'\"`;&|()<>$".contains(letter);
    let mut files = Vec::new();
    let mut interpreter = false;
    for word in command.split(separators).filter(|word| !word.is_empty()).take(WORDS) {
        if (word.contains('/') || interpreter) && !word.starts_with(['-', '%']) {
            files.extend(expand(word.as_bytes(), home));
            interpreter = false;
        }
        let program = word.rsplit('/').next().unwrap_or(word);
        interpreter |= INTERPRETERS.contains(&program);
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(config: &str) -> Vec<(String, Named)> {
        let home = Some(Path::new("/home/u"));
        let settings = parse(config.as_bytes(), Path::new("/w/.git/config"), home).unwrap();
        settings.into_iter().map(|setting| (setting.key, setting.named)).collect()
    }

    #[test]
    fn paths_are_joined_to_what_git_joins_them_to() {
        assert_eq!(
            all(
                "[core]\n\thooksPath = ~/hooks\n[include]\n\tpath = ../evil\n[includeIf \"gitdir:~/x/\"]\n\tpath=/abs"
            ),
            [
                ("core.hookspath".to_owned(), Named::Hooks("/home/u/hooks".into())),
                ("include.path".to_owned(), Named::Include("/w/.git/../evil".into())),
                ("includeif.gitdir:~/x/.path".to_owned(), Named::Include("/abs".into())),
            ]
        );
    }

    /// C130: each of these runs a program of the run's choice at the host's next git command.
    #[test]
    fn c130_every_key_that_runs_a_program_is_seen() {
        for config in [
            "[core]\nfsmonitor = ./x.sh",
            "[core]\nsshCommand = ./x.sh",
            "[CORE]\nPager = ./x.sh",
            "[filter \"a\"]\nclean = ./x.sh",
            "[filter \"a\"]\nprocess = ./x.sh %f",
            "[diff]\nexternal = ./x.sh",
            "[diff \"a\"]\ntextconv = ./x.sh",
            "[credential]\nhelper = ./x.sh",
            "[credential \"https://example.com\"]\nhelper = ./x.sh",
            "[alias]\nst = \"!./x.sh\"",
            "[gpg \"ssh\"]\nprogram = ./x.sh",
            "[merge \"a\"]\ndriver = ./x.sh %O",
            "[pager]\nlog = ./x.sh",
            "[remote \"o\"]\nurl = ext::./x.sh",
        ] {
            let settings = all(config);
            let [(_, Named::Command(command))] = &settings[..] else { panic!("{config}: {settings:?}") };
            assert_eq!(files(command, None)[0], Path::new("./x.sh"), "{config}");
        }
    }

    #[test]
    fn harmless_keys_name_nothing() {
        assert!(
            all("[core]\nfsmonitor = true\nbare = false\n[alias]\nst = status\n[pager]\nlog = false\n[user]\nname = !x")
                .is_empty()
        );
    }

    #[test]
    fn words_of_a_command_that_may_be_files() {
        let words = |command: &str| files(command, Some(Path::new("/h")));
        assert_eq!(words("sh tools/x.sh 'a b'"), [PathBuf::from("tools/x.sh")]);
        assert_eq!(words("python3 -u x.py"), [PathBuf::from("x.py")]);
        assert_eq!(words("~/bin/x --flag"), [PathBuf::from("/h/bin/x")]);
        assert_eq!(words("cd sub && ./go"), [PathBuf::from("./go")]);
        assert!(words("git-lfs clean -- %f").is_empty());
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        assert!(parse(b"[core\nfoo", Path::new("/x"), None).is_err());
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        std::fs::write(&file, "[include]\npath = config\npath = second\n").unwrap();
        std::fs::write(folder.path().join("second"), "[core\n").unwrap();
        let settings = read(&file, None);
        assert_eq!(settings.unread.len(), 1);
        assert_eq!(settings.unread[0].0, folder.path().join("second"));
        assert_eq!(settings.settings.len(), 2);
    }
}
