//! What a job runs. Every field changes what happens, so a reader that does not know one refuses the job.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Base64, Milliseconds, Secret};
use crate::Tier;
use crate::word::words;

words! {
    /// What a job is; its kind sets its limits.
    pub enum Kind, "a kind of job" {
        /// An agent's session that the runtime runs.
        HarnessSession = "harness-session",
        /// A long-lived process that a session talks to.
        PluginServer = "plugin-server",
        /// A plain command.
        Command = "command",
    }
}

/// A job's work: with its folder as the working directory, fetch the repository, write the files, run the command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Work {
    /// What it is.
    pub kind: Kind,
    /// The tier it runs at. A node that does not hold it does not start it.
    pub tier: Tier,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// What lies in the job's folder before it starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<Repository>,
    /// Files that are written there, after the repository.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<File>,
    /// Variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// Variables whose values are secrets: the node masks them in the log, and nobody shows them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, Secret>,
    /// Hosts that it may reach, as `sandbox run --allow` takes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Ports of the node that it may reach through the proxy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forward: Vec<u16>,
    /// Limits; what is not said is the kind's.
    #[serde(default)]
    pub limits: Limits,
    /// What came in: the command's standard input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Input>,
}

/// A git repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Repository {
    /// An https URL without a user or a password.
    pub url: String,
    /// A branch, a tag or a commit.
    pub revision: String,
    /// For the fetch alone: the job does not see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<Credential>,
}

/// What a repository's host asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credential {
    /// The user; many hosts take any.
    pub user: String,
    /// A token, or a password.
    pub password: Secret,
}

/// A file in the job's folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Relative to the folder, with `/` between its parts, none of which is `..` or `.git`.
    pub path: String,
    /// What is in it.
    pub contents: Base64,
    /// May it be executed?
    #[serde(default)]
    pub executable: bool,
}

/// What a job may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Memory of all processes together, in MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u32>,
    /// Processes (Linux: threads too).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u32>,
    /// CPU, in hundredths of one core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_hundredths: Option<u32>,
    /// How long the command may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_ms: Option<Milliseconds>,
}

/// What an outside sender sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Its bytes, never looked into on the way.
    pub body: Base64,
}
