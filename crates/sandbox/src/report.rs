//! How a run ended: exit, limit, denials, what was left; as text, JSON and an exit status.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use oz0_egress::Denial;
use serde::Serialize;

use crate::limits::{LimitHit, Usage, show_duration};
use crate::links::{Cut, Findings};
use crate::protected::{Left, Problem};
use crate::text;

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// By itself, with this status.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
    /// It did not start.
    NotStarted(NotStarted),
}

/// Why a command did not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NotStarted {
    /// No such program inside.
    NotFound,
    /// There, but not to be executed: the OS's number for it.
    NotExecutable(i32),
}

/// Why the sandbox ended the command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// `--timeout`.
    Timeout,
    /// The node was sent this signal.
    Signal(i32),
    /// A protection could not be kept, for this reason.
    Unprotected(String),
}

/// Exit statuses of the sandbox itself; every other one is the command's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The sandbox failed or refused.
    Sandbox = 125,
    /// The command is there and cannot be executed.
    NotExecutable = 126,
    /// There is no such command.
    NotFound = 127,
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> ExitCode {
        ExitCode::from(status as u8)
    }
}

/// Links that lead out of the writable folders.
#[derive(Debug, Serialize)]
pub struct LinksFound {
    /// Those that were seen while the command ran.
    pub before: Findings,
    /// Those that it left.
    pub left: Findings,
}

impl LinksFound {
    fn tell(&self, lines: &mut Vec<String>) {
        for file in &self.before.hard_links {
            lines.push(format!(
                "links: {} has other names outside, which a write to it changes too (--links refuse starts no such \
                 run)",
                text::escape(&file.path)
            ));
        }
        more(self.before.hard_links_in_all, self.before.hard_links.len(), "such files", lines);
        if let Some(cut @ (Cut::Time | Cut::Entries)) = &self.before.cut {
            lines.push(format!("links: there may be more: {}", cut.sentence()));
        }
        for link in &self.left.symlinks {
            lines.push(format!(
                "left: {} leads out of the workspace, to {}",
                text::escape(&link.path),
                text::escape(&link.target)
            ));
        }
        more(self.left.symlinks_in_all, self.left.symlinks.len(), "such links", lines);
    }
}

fn more(all: u64, named: usize, what: &str, lines: &mut Vec<String>) {
    let rest = all.saturating_sub(named as u64);
    if rest > 0 {
        lines.push(format!("links: {rest} more {what}"));
    }
}

/// Programs whose purpose is to install git hooks.
const HOOK_INSTALLERS: [&str; 5] = ["husky", "pre-commit", "lefthook", "simple-git-hooks", "overcommit"];

/// All that is said of a run when it is over.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The program and its arguments.
    #[serde(with = "crate::text::words")]
    pub command: Vec<std::ffi::OsString>,
    /// How it ended.
    pub ending: Ending,
    /// Why the sandbox ended it, when it did.
    pub cause: Option<Cause>,
    /// The time it was given.
    pub timeout: Option<Duration>,
    /// Limits that were reached.
    pub hits: Vec<LimitHit>,
    /// What was used.
    pub usage: Option<Usage>,
    /// Hosts that were denied.
    pub denials: Vec<Denial>,
    /// What the run left that other programs may execute.
    pub left: Vec<Left>,
    /// The look reached its bound.
    pub look_cut: bool,
    /// What could not be protected in full.
    pub problems: Vec<Problem>,
    /// A hooks folder that was read-only, and that `--git-hooks` would open.
    #[serde(with = "crate::text::maybe_path")]
    pub hooks: Option<PathBuf>,
    /// Links that lead out of the workspace.
    pub links: Option<LinksFound>,
    /// What really confined it.
    pub mechanism: Option<serde_json::Value>,
    /// It ran on the node's own network, which is no tier 1.
    pub shared_network: bool,
    /// Where the program lies on the node, when the run did not see it.
    #[serde(with = "crate::text::paths")]
    pub found_outside: Option<PathBuf>,
    /// How long it took.
    pub elapsed: Duration,
}

impl Report {
    /// The exit status: the command's own (on Windows all of its 32 bits), 128 and the signal's number, or 126 and 127
    /// when it did not start.
    pub fn status(&self) -> i32 {
        match self.ending {
            Ending::Exited(status) => status,
            Ending::Signalled(signal) => 128 + signal,
            Ending::NotStarted(NotStarted::NotFound) if self.found_outside.is_some() => {
                Status::NotExecutable as i32
            }
            Ending::NotStarted(NotStarted::NotFound) => Status::NotFound as i32,
            Ending::NotStarted(NotStarted::NotExecutable(_)) => Status::NotExecutable as i32,
        }
    }

    /// The block for a person: empty when there is nothing to say. Each line names what happened and what would
    /// allow it.
    pub fn block(&self) -> String {
        let mut lines = Vec::new();
        self.not_started(&mut lines);
        if self.cause == Some(Cause::Timeout) {
            let limit = self.timeout.map(show_duration).unwrap_or_default();
            lines.push(format!("limit: timeout {limit} reached, the run was ended (more: --timeout)"));
        }
        if let Some(Cause::Unprotected(reason)) = &self.cause {
            lines.push(format!("ended: {reason}"));
        }
        lines.extend(self.hits.iter().map(ToString::to_string));
        if self.usage.as_ref().is_some_and(Usage::killed_by_the_machine) {
            lines.push("out of memory: the machine's, or a limit around the node; not the run's own".into());
        }
        let failed = self.status() != 0;
        if failed {
            lines.extend(self.denials.iter().map(ToString::to_string));
        }
        lines.extend(
            self.left.iter().map(|left| format!("left: {}: {}", text::escape(&left.path), left.sentence)),
        );
        if self.look_cut {
            lines.push("left: the workspace is large and the look was cut; there may be more".into());
        }
        if failed {
            lines.extend(self.problems.iter().map(|problem| format!("note: {}", problem.sentence)));
        }
        if failed && let (Some(hooks), Some(installer)) = (&self.hooks, self.hook_installer()) {
            lines.push(format!(
                "note: {} is read-only in a run, and {installer} installs hooks there: --git-hooks lets it",
                text::escape(hooks)
            ));
        }
        if let Some(links) = &self.links {
            links.tell(&mut lines);
        }
        if self.shared_network {
            lines.push("network: shared with the node (--share-net), so this run was not tier 1".into());
        }
        lines.iter().fold(String::new(), |mut block, line| {
            let _ = writeln!(block, "oz0-node: {line}");
            block
        })
    }

    /// The word of the command that names a program which installs hooks.
    fn hook_installer(&self) -> Option<&'static str> {
        let words = self
            .command
            .iter()
            .filter_map(|word| PathBuf::from(word).file_name()?.to_str().map(str::to_owned));
        let words: Vec<String> = words.collect();
        HOOK_INSTALLERS.into_iter().find(|installer| words.iter().any(|word| word == installer))
    }

    fn not_started(&self, lines: &mut Vec<String>) {
        let program = self.command.first().map(text::escape).unwrap_or_default();
        match (self.ending, &self.found_outside) {
            (Ending::NotStarted(NotStarted::NotFound), Some(path)) => {
                let folder = path.parent().unwrap_or(path);
                lines.push(format!(
                    "{program}: found at {}, which the run does not see: add --read {}",
                    text::escape(path),
                    text::escape(folder)
                ));
            }
            (Ending::NotStarted(NotStarted::NotFound), None) => {
                lines.push(format!("{program}: no such command on the run's PATH"));
            }
            (Ending::NotStarted(NotStarted::NotExecutable(code)), _) => {
                let error = std::io::Error::from_raw_os_error(code);
                lines.push(format!("{program}: cannot be executed: {error}"));
            }
            _ => {}
        }
    }
}
