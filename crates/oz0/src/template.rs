//! What a trigger makes of something that comes in: a job's work, written by an operator, checked when it is written.
//! Nothing of the sender's changes any of it; what was sent becomes the command's standard input.

use std::collections::BTreeSet;

use oz0_fleet::Tier;
use oz0_fleet::protocol::{Milliseconds, Work};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::name::Label;
use crate::route::Need;

/// How long a job waits for a node when nothing else is said.
pub const WAIT: Milliseconds = Milliseconds::seconds(24 * 3600);
/// The most it may wait.
pub const LONGEST_WAIT: Milliseconds = Milliseconds::seconds(30 * 24 * 3600);
/// No template is longer than this many bytes, as JSON.
pub const LONGEST: usize = 256 * 1024;

/// A template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Template {
    /// The work, without input.
    pub work: Work,
    /// Labels that the node has to have.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub labels: BTreeSet<Label>,
    /// How long a job waits for a node before it ends as `no node`.
    #[serde(default = "wait")]
    pub wait_ms: Milliseconds,
}

const fn wait() -> Milliseconds {
    WAIT
}

/// Why a template is not taken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadTemplate {
    /// It is too long.
    #[error("longer than {LONGEST} bytes")]
    TooLong,
    /// It runs nothing.
    #[error("the command is empty")]
    NoCommand,
    /// A text holds a character that no program can take.
    #[error("{0} holds a NUL")]
    Nul(&'static str),
    /// Outside work at tier 0 (T1).
    #[error("work that comes from outside needs tier 1")]
    OutsideTier,
    /// It holds an input.
    #[error("input is what a sender sends, not part of a template")]
    Input,
    /// A file that would not lie in the job's folder.
    #[error("file {0:?} does not lie in the job's folder")]
    Path(String),
    /// A repository that is not fetched.
    #[error("a repository's URL begins with https:// and holds no user and no password")]
    Repository,
    /// A wait that is none.
    #[error("wait_ms is more than nothing and at most 30 days")]
    Wait,
}

impl Template {
    /// Is it one that can be kept? `outside`: for something that a sender outside the tenant starts.
    pub fn check(&self, outside: bool) -> Result<(), BadTemplate> {
        let work = &self.work;
        if serde_json::to_vec(self).map_or(usize::MAX, |text| text.len()) > LONGEST {
            return Err(BadTemplate::TooLong);
        }
        if outside && work.tier != Tier::One {
            return Err(BadTemplate::OutsideTier);
        }
        if work.command.first().is_none_or(String::is_empty) {
            return Err(BadTemplate::NoCommand);
        }
        if work.command.iter().any(|word| word.contains('\0')) {
            return Err(BadTemplate::Nul("the command"));
        }
        if work.environment.iter().any(|(name, value)| name.contains('\0') || value.contains('\0')) {
            return Err(BadTemplate::Nul("a variable"));
        }
        if work.input.is_some() {
            return Err(BadTemplate::Input);
        }
        if let Some(file) = work.files.iter().find(|file| !lies_inside(&file.path)) {
            return Err(BadTemplate::Path(file.path.clone()));
        }
        if work.repository.as_ref().is_some_and(|repository| !is_plain_https(&repository.url)) {
            return Err(BadTemplate::Repository);
        }
        if self.wait_ms.count() == 0 || self.wait_ms > LONGEST_WAIT {
            return Err(BadTemplate::Wait);
        }
        Ok(())
    }

    /// What its jobs ask of a node.
    pub fn need(&self) -> Need {
        Need::of(&self.work, self.labels.clone())
    }
}

/// Relative, without `.`, `..` and `.git`, and a path on Windows too.
fn lies_inside(path: &str) -> bool {
    let plain = |part: &str| {
        !matches!(part, "" | "." | "..")
            && !part.eq_ignore_ascii_case(".git")
            && !part.ends_with(['.', ' '])
            && !part.contains(|letter: char| letter.is_control() || "\\:*?\"<>|".contains(letter))
    };
    path.len() <= 1024 && path.split('/').all(plain)
}

fn is_plain_https(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("https://") else { return false };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    !host.is_empty() && !host.contains('@') && url.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn template(change: impl FnOnce(&mut serde_json::Value)) -> Template {
        let mut text = json!({"work": {"kind": "command", "tier": "tier 1", "command": ["true"]}});
        change(&mut text["work"]);
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn outside_work_needs_tier_one() {
        let zero = template(|work| work["tier"] = json!("tier 0"));
        assert_eq!((zero.check(true), zero.check(false)), (Err(BadTemplate::OutsideTier), Ok(())));
        assert_eq!(template(|_| ()).check(true), Ok(()));
    }

    #[test]
    fn a_file_lies_in_the_jobs_folder() {
        for path in ["a", "a/b.txt", ".gitignore", ".config/x"] {
            assert!(lies_inside(path), "{path}");
        }
        for path in [
            "",
            "/etc/passwd",
            "../a",
            "a/../b",
            "a//b",
            "./a",
            ".git/hooks/x",
            "a/.GIT/config",
            "C:/x",
            "a\\b",
            "nul:",
            "a./b",
            "a\nb",
        ] {
            assert!(!lies_inside(path), "{path}");
        }
    }

    #[test]
    fn a_repository_holds_no_password() {
        let with = |url: &str| {
            template(|work| work["repository"] = json!({"url": url, "revision": "main"})).check(true)
        };
        assert_eq!(with("https://git.example/a/b.git"), Ok(()));
        for url in
            ["http://git.example/a", "https://u:p@git.example/a", "https:///a", "file:///a", "https://a b/"]
        {
            assert_eq!(with(url), Err(BadTemplate::Repository), "{url}");
        }
    }

    #[test]
    fn what_is_not_known_is_refused() {
        let text =
            json!({"work": {"kind": "command", "tier": "tier 1", "command": ["true"]}, "lables": ["gpu"]});
        let error = serde_json::from_value::<Template>(text).unwrap_err().to_string();
        assert!(
            error.contains("unknown field `lables`, expected one of `work`, `labels`, `wait_ms`"),
            "{error}"
        );
        assert_eq!(template(|work| work["command"] = json!([])).check(true), Err(BadTemplate::NoCommand));
    }
}
