//! All that a run on Windows will do, as plain data. Pure: from a policy, what this machine looks like, and what is
//! to be protected. Touches nothing.

mod grants;
mod show;
#[cfg(test)]
mod tests;

pub use grants::{PlanError, check};

use std::ffi::OsString;
use std::path::Path;

use oz0_fleet::Contract;
use serde::{Deserialize, Serialize};

use super::block::WindowsDefaults;
use super::cmdline;
use super::paths::WindowsPath;
use super::route::Route;
use super::spec::{Network, Specification};
use super::survey::{Place, Survey};
use super::ui::Ui;
use crate::limits::{Cpu, Limits};
use crate::policy::{Access, Policy};
use crate::protected::Protected;
use crate::protected::rules::{self, Treatment};
use crate::text;

/// Everything that will be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The contract that the specification is sent in.
    pub version: Contract,
    /// The job object that every process of the run is in.
    pub job: JobPlan,
    /// What of the desktop is closed.
    pub ui: Ui,
    /// Which files it touches.
    pub files: Files,
    /// How it reaches the proxy.
    pub route: Route,
    /// The folder of the run's own in which the proxy's socket lies.
    pub sockets: WindowsPath,
    /// The node's program, which is the bridge inside or the relay outside.
    pub node_binary: WindowsPath,
    /// What programs need to know of this machine.
    pub defaults: WindowsDefaults,
    /// The names of the variables that it gets; TEMP and TMP come from Windows besides.
    pub variables: Vec<String>,
    /// Where the command starts.
    pub start: WindowsPath,
    /// The program and its arguments.
    #[serde(with = "text::words")]
    pub command: Vec<OsString>,
    /// What a person should know about this plan.
    pub notes: Vec<String>,
}

/// What all processes of a run together may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobPlan {
    /// Bytes that are committed.
    pub memory: u64,
    /// Processes; the bridge is one.
    pub processes: u32,
    /// CPU time.
    pub cpu: Cpu,
    /// Of how many logical processors the cap is a share.
    pub processors: u32,
}

impl JobPlan {
    /// The limits to set.
    pub fn limits(&self) -> Limits {
        Limits { memory: self.memory, processes: self.processes, cpu: self.cpu, timeout: None }
    }
}

/// The lists of a specification.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Files {
    /// Read and written.
    pub read_write: Vec<WindowsPath>,
    /// Read.
    pub read_only: Vec<WindowsPath>,
    /// Closed, there or not.
    pub deny: Vec<WindowsPath>,
}

/// The socket's name in the run's folder: short, since the whole path of a socket has at most 107 bytes.
const SOCKET: &str = "proxy";

/// The most bytes of a socket's path (Microsoft Learn, SOCKADDR_UN: 108 with its end).
const LONGEST_SOCKET: usize = 107;

impl Plan {
    /// The specification, with this way to the network.
    pub fn specification(&self, network: Network) -> Specification {
        Specification {
            ui: self.ui,
            read_write: self.files.read_write.clone(),
            read_only: self.files.read_only.clone(),
            deny: self.files.deny.clone(),
            ..Specification::new(network)
        }
    }

    /// The proxy's socket.
    pub fn socket(&self) -> String {
        format!("{}\\{SOCKET}", self.sockets)
    }

    fn socket_shown(&self) -> String {
        format!("{}\\{SOCKET}", self.sockets.shown())
    }

    /// What is started in the container: the command, or the bridge that starts it.
    pub fn started(&self) -> Vec<OsString> {
        match self.route {
            Route::Relay => self.command.clone(),
            Route::Bridge => {
                let mut words = vec![self.node_binary.to_path().into_os_string()];
                words.extend(["stage", "bridge", &self.socket(), "--"].map(OsString::from));
                words.extend(self.command.iter().cloned());
                words
            }
        }
    }
}

/// Make the plan.
pub fn plan(policy: &Policy, survey: &Survey, protected: &Protected) -> Result<Plan, PlanError> {
    let granted = grants::granted(policy, survey)?;
    let command = words(&policy.command)?;
    cmdline::join(&command)?;
    let mut notes = granted.notes;
    let mut files = Files::default();
    for grant in &granted.grants {
        match grant.access {
            Access::Write => &mut files.read_write,
            Access::Read => &mut files.read_only,
        }
        .push(grant.real.clone());
    }
    files.read_write.push(granted.sockets.clone());
    files.read_only.push(granted.node_binary.clone());
    protect(&mut files, protected, survey, &mut notes)?;
    if let (Place::Found { .. }, true) = (survey.place(&policy.data_directory), survey.offered.denies_paths())
    {
        files.deny.push(granted.data_directory);
    }
    for list in [&mut files.read_write, &mut files.read_only, &mut files.deny] {
        list.sort();
        list.dedup();
    }

    let mut plan = Plan {
        version: survey.offered.contract,
        job: JobPlan {
            memory: policy.limits.memory,
            processes: policy.limits.processes,
            cpu: policy.limits.cpu,
            processors: survey.processors,
        },
        ui: Ui::DEFAULT,
        files,
        route: survey.route,
        sockets: granted.sockets,
        node_binary: granted.node_binary,
        defaults: survey.defaults.clone(),
        variables: Vec::new(),
        start: granted.work,
        command: policy.command.clone(),
        notes,
    };
    plan.variables = super::environment(policy, &plan.defaults, Some(String::new()))
        .names()
        .iter()
        .map(text::escape)
        .collect();
    plan.version = survey.offered.version_for(&plan.specification(Network::Closed))?;
    if plan.socket().len() > LONGEST_SOCKET {
        return Err(PlanError::SocketTooLong { path: plan.sockets.shown(), length: plan.socket().len() });
    }
    cmdline::join(&words(&plan.started())?)?;
    Ok(plan)
}

/// What exists is read-only, what is absent may not be made, where Windows can hold that.
fn protect(
    files: &mut Files,
    protected: &Protected,
    survey: &Survey,
    notes: &mut Vec<String>,
) -> Result<(), PlanError> {
    let normal = |path: &Path| {
        WindowsPath::of(path).map_err(|error| PlanError::Protected { path: text::escape(path), error })
    };
    for entry in &protected.read_only {
        files.read_only.push(normal(&entry.path)?);
    }
    if let Some(enclosing) = &protected.enclosing {
        for path in &enclosing.outside {
            let list = if enclosing.granted { &mut files.read_write } else { &mut files.read_only };
            list.push(normal(path)?);
        }
    }
    // Only in folders that are known to be there: a path below a missing folder may keep the container from being
    // made, and what appears is named by the look.
    let mut known: Vec<WindowsPath> = Vec::new();
    let repositories = protected.repositories.iter();
    let folders = repositories.flat_map(|found| [&found.git_dir, &found.common_dir]).chain(&protected.roots);
    for folder in folders.chain(protected.pins.iter().map(|pin| &pin.path)) {
        known.push(normal(folder)?);
    }
    for entry in &protected.read_only {
        known.extend(normal(&entry.path)?.parent());
    }
    let (mut denied, mut left) = (0u32, 0u32);
    for absent in &protected.absent {
        let read_only = rules::by_id(absent.rule).is_some_and(|rule| rule.treatment == Treatment::ReadOnly);
        if !read_only {
            continue;
        }
        let path = normal(&absent.path)?;
        if survey.offered.denies_paths() && path.parent().is_some_and(|folder| known.contains(&folder)) {
            files.deny.push(path);
            denied += 1;
        } else {
            left += 1;
        }
    }
    if denied > 0 {
        notes.push(format!("{} may not be made", absent(denied)));
    }
    if left > 0 {
        notes.push(format!("{}: named by the look after the run if it makes any", absent(left)));
    }
    Ok(())
}

fn absent(count: u32) -> String {
    match count {
        1 => "a protected path that does not exist".to_owned(),
        count => format!("{count} protected paths that do not exist"),
    }
}

/// The words of a command as text.
fn words(command: &[OsString]) -> Result<Vec<&str>, PlanError> {
    let words = command.iter().enumerate();
    words.map(|(place, word)| word.to_str().ok_or(PlanError::NotUnicode(place))).collect()
}
