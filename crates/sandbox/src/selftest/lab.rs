//! What the checks share: a temporary folder that is removed afterwards, plain policies, and subjects inside and
//! outside. It judges nothing.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use oz0_egress::Allowlist;

use super::act::{Act, Answer};
use super::evidence::{Fault, Tried};
use super::launcher::{Launcher, Order, Particulars, Unattainable};
use super::session::{Ended, Silence, Started, Told};
use crate::backend::Refusal;
use crate::environ::Environment;
use crate::limits::{Kind, Limits, Usage};
use crate::links::Links;
use crate::policy::{Caller, GitAccess, Network, Policy};
use crate::private;

/// How long a run of a check may take, by its own limit.
const TIMEOUT: Duration = Duration::from_secs(20);

/// How long its end is waited for.
pub const PATIENCE: Duration = Duration::from_secs(25);

/// Time in which all processes of a run are gone, once it has ended or was killed.
pub const ENDING: Duration = Duration::from_secs(3);

/// How a lab's folder is called.
const PREFIX: &str = "oz0-self-test-";

/// What of the node is used and looked at.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its binary, which is every subject.
    pub binary: PathBuf,
    /// Its data directory, there or not.
    pub data_directory: PathBuf,
    /// Where a temporary folder may be made.
    pub temporary: PathBuf,
}

/// A lab that cannot be set up.
#[derive(Debug, thiserror::Error)]
#[error("making a temporary folder in {}: {error}", crate::text::escape(.below))]
pub struct LabError {
    below: PathBuf,
    error: io::Error,
}

/// The lab of one self-test.
pub struct Lab<'a> {
    /// Held as long as the folder is in use.
    _claim: File,
    launcher: &'a dyn Launcher,
    node: &'a Node,
    folder: PathBuf,
    mark: String,
    runs: AtomicU32,
}

impl<'a> Lab<'a> {
    /// Set it up.
    pub fn new(launcher: &'a dyn Launcher, node: &'a Node) -> Result<Lab<'a>, LabError> {
        let failed = |error| LabError { below: node.temporary.clone(), error };
        let mut random = [0u8; 8];
        getrandom::fill(&mut random).map_err(|error| failed(io::Error::other(error)))?;
        let mark = format!("{:016x}", u64::from_ne_bytes(random));
        // No links on the way: a working directory is given as what it is.
        let folder = node.temporary.canonicalize().map_err(failed)?.join(format!("{PREFIX}{mark}"));
        private::make_folder(&folder).map_err(failed)?;
        let claim = claim(&folder).map_err(failed)?;
        sweep(&folder);
        Ok(Lab { _claim: claim, launcher, node, folder, mark, runs: AtomicU32::new(0) })
    }

    /// A word that nobody else knows.
    pub fn mark(&self) -> &str {
        &self.mark
    }

    /// The node.
    pub fn node(&self) -> &Node {
        self.node
    }

    /// Limits that no process can be put under.
    pub fn unattainable(&self, limits: &Limits) -> Vec<Unattainable> {
        self.launcher.unattainable(limits)
    }

    /// What there is to know of the sandbox.
    pub fn particulars(&self) -> Particulars {
        self.launcher.particulars()
    }

    /// A folder for one check, made.
    pub fn folder(&self, name: &str) -> Result<PathBuf, Fault> {
        let folder = self.folder.join(name);
        private::make_folder(&folder).map_err(|error| cannot_set_up(&folder, &error))?;
        Ok(folder)
    }

    /// A plain run in `work`: no hosts, the usual limits, nothing passed.
    pub fn policy(&self, work: &Path) -> Policy {
        Policy {
            work: work.to_path_buf(),
            read: Vec::new(),
            write: Vec::new(),
            protect: Vec::new(),
            sockets: Vec::new(),
            git: GitAccess::default(),
            network: Network::Proxy { allow: Allowlist::default(), forward: Vec::new() },
            limits: Limits { timeout: Some(TIMEOUT), ..Limits::of(Kind::Command) },
            environment: Environment::default(),
            links: Links::Off,
            caller: Caller { detached: true, ..Caller::default() },
            data_directory: self.node.data_directory.clone(),
            node_binary: self.node.binary.clone(),
            command: Vec::new(),
        }
    }

    /// Start a subject inside. `own` are variables of the launching process.
    pub fn start(&self, policy: &Policy, own: &[(&str, &str)], acts: &[Act]) -> Result<Started, Refusal> {
        let mut policy = policy.clone();
        policy.command = vec![self.node.binary.clone().into(), "stage".into(), "subject".into()];
        policy.command.extend(acts.iter().filter_map(|act| serde_json::to_string(act).ok()).map(Into::into));
        let number = self.runs.fetch_add(1, Ordering::Relaxed);
        let report = self.folder.join(format!("report-{number}.json"));
        self.launcher.start(&Order { policy: &policy, own, report: &report })
    }

    /// Start a subject outside, with one variable of the lab's own.
    pub fn start_outside(&self, acts: &[Act]) -> Result<Started, Fault> {
        let mut command = Command::new(&self.node.binary);
        command.args(["stage", "subject"]).current_dir(&self.folder);
        command.env_clear().env("SELF_TEST", &self.mark);
        command.args(acts.iter().filter_map(|act| serde_json::to_string(act).ok()));
        Started::new(command, b"", |status, _| Told::Command { status: status.code(), usage: None })
            .map_err(|error| Fault::undecided(format!("starting a subject outside: {error}")))
    }

    /// What came of the acts inside, in a run of their own.
    pub fn inside(&self, policy: &Policy, acts: &[Act]) -> Result<Vec<Answer>, Fault> {
        self.inside_with(policy, &[], acts)
    }

    /// The same with variables of the launching process.
    pub fn inside_with(
        &self,
        policy: &Policy,
        own: &[(&str, &str)],
        acts: &[Act],
    ) -> Result<Vec<Answer>, Fault> {
        answers(acts, &self.ended(policy, own, acts)?)
    }

    /// What came of one act inside, and what the run used, where the launcher says so.
    pub fn measured(&self, policy: &Policy, act: &Act) -> Result<(Answer, Option<Usage>), Fault> {
        let acts = std::slice::from_ref(act);
        let ended = self.ended(policy, &[], acts)?;
        let answer = answers(acts, &ended)?.pop();
        let usage = match ended.told {
            Told::Command { usage, .. } => usage,
            Told::Sandbox { .. } => None,
        };
        answer.map(|answer| (answer, usage)).ok_or_else(|| Fault::undecided("the subject did not answer"))
    }

    fn ended(&self, policy: &Policy, own: &[(&str, &str)], acts: &[Act]) -> Result<Ended, Fault> {
        let started = self.start(policy, own, acts).map_err(|refusal| not_started(&refusal.reason))?;
        started.end(PATIENCE).map_err(|_| Fault::undecided("the subject did not end in time"))
    }

    /// What came of the acts outside.
    pub fn outside(&self, acts: &[Act]) -> Result<Vec<Answer>, Fault> {
        let ended = self.start_outside(acts)?.end(PATIENCE);
        answers(acts, &ended.map_err(|_| Fault::undecided("the subject outside did not end in time"))?)
    }

    /// The same acts outside and inside, at the same time.
    pub fn both(&self, policy: &Policy, acts: Vec<Act>) -> Result<Vec<Tried>, Fault> {
        let (outside, inside) = together(|| self.outside(&acts), || self.inside(policy, &acts));
        let (outside, inside) = (outside?, inside?);
        let tried = acts.into_iter().zip(outside).zip(inside);
        Ok(tried.map(|((act, outside), inside)| Tried { act, outside, inside }).collect())
    }
}

impl Drop for Lab<'_> {
    fn drop(&mut self) {
        // What stays is in a temporary folder, and its name says whose it is.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Do both at the same time.
pub fn together<A: Send, B: Send>(one: impl FnOnce() -> A + Send, other: impl FnOnce() -> B) -> (A, B) {
    thread::scope(|scope| {
        let one = scope.spawn(one);
        let other = other();
        match one.join() {
            Ok(one) => (one, other),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// The answers to all acts, or why there are fewer.
fn answers(acts: &[Act], ended: &Ended) -> Result<Vec<Answer>, Fault> {
    if let Told::Sandbox { reason, .. } = &ended.told {
        return Err(not_started(reason));
    }
    let answers: Vec<Answer> = ended.lines.iter().map(|line| answer(line)).collect::<Result<_, _>>()?;
    match acts.get(answers.len()) {
        None => Ok(answers),
        Some(unanswered) => Err(Fault::undecided(format!("the subject ended at {unanswered}"))),
    }
}

/// One line of a subject.
pub fn answer(line: &str) -> Result<Answer, Fault> {
    serde_json::from_str(line)
        .map_err(|_| Fault::undecided(format!("the subject said {}", crate::text::escape(line))))
}

/// A line that did not come.
pub fn silent(silence: Silence) -> Fault {
    Fault::undecided(match silence {
        Silence::Ended => "the subject ended without an answer",
        Silence::TimedOut => "the subject did not answer in time",
    })
}

fn not_started(reason: &str) -> Fault {
    Fault::undecided(format!("no subject was started: {reason}"))
}

/// A file of a lab, with these contents.
pub fn put(path: &Path, contents: &str) -> Result<(), Fault> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| cannot_set_up(folder, &error))?;
    }
    fs::write(path, contents).map_err(|error| cannot_set_up(path, &error))
}

/// The lab itself failed.
pub fn cannot_set_up(path: &Path, error: &io::Error) -> Fault {
    Fault::undecided(format!("setting up {}: {error}", crate::text::escape(path)))
}

/// The lock of a lab's folder, by which one in use is told from one that a killed self-test left.
fn claim(folder: &Path) -> io::Result<File> {
    let file = File::create(folder.join("lock"))?;
    file.try_lock().map_err(io::Error::from)?;
    Ok(file)
}

/// Remove what killed self-tests of this user left beside `own`.
fn sweep(own: &Path) {
    let Some(entries) = own.parent().and_then(|above| fs::read_dir(above).ok()) else { return };
    for entry in entries.flatten() {
        let (name, folder) = (entry.file_name(), entry.path());
        let is_lab = name.to_str().is_some_and(|name| name.starts_with(PREFIX)) && folder != own;
        // Anybody may make a folder of that name; only this user's own are opened, and none while it is made.
        if is_lab
            && private::is_own_folder(&folder)
            && let Ok(lock) = File::open(folder.join("lock"))
            && lock.try_lock().is_ok()
        {
            let _ = fs::remove_dir_all(&folder);
        }
    }
}
