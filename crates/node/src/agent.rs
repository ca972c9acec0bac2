//! The node's agent: at start, and again on a timer, it has the self-test run and reports what it showed; with an
//! edge it also takes jobs and sees each to its end. It launches nothing itself: a self-test, and whoever stands by a
//! job, are processes of their own, which have one thread to begin with and end with the agent.
//!
//! Where what is known: `edge` how to ask, `standing` what the edge lets this start do, `table` which jobs there are
//! and until when, `job` how one goes, `journal` what outlives a kill.

mod alone;
mod check;
mod child;
mod edge;
pub mod enrol;
mod fetch;
mod finish;
mod folder;
mod job;
mod journal;
mod lease;
mod log;
mod mask;
mod order;
mod os;
mod pace;
pub mod plain;
mod report;
mod room;
mod signal;
mod standing;
pub mod step;
mod table;
mod work;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use oz0_fleet::protocol::signature::Signer;
use oz0_sandbox::backend::{self, Backend as _};
use oz0_sandbox::policy::Caller;

use self::check::{CheckError, Checks, Tiers};
use self::edge::{Edge, EdgeError, Trouble, Way};
use self::enrol::{EnrolError, TokenFrom};
use self::finish::Endings;
use self::folder::{FolderError, Folders};
use self::journal::Journal;
use self::room::Room;
use self::signal::Ending;
use self::standing::Standing;
use self::table::Table;
use crate::identity;

/// What the agent is told.
pub struct Settings {
    /// The node's own program.
    pub binary: PathBuf,
    /// The node's data directory.
    pub data_directory: PathBuf,
    /// From one self-test to the next.
    pub every: Duration,
    /// Started with `--sandbox psec`.
    pub psec: bool,
    /// The edge, when there is one.
    pub fleet: Option<Fleet>,
}

/// What it is told of its part in a fleet.
pub struct Fleet {
    /// The edge's URL.
    pub edge: String,
    /// The authorities that are trusted, instead of the machine's.
    pub authorities: Option<PathBuf>,
    /// Plain HTTP may leave this machine.
    pub in_the_clear: bool,
    /// Where the token is, for the first start.
    pub token: Option<TokenFrom>,
    /// The most jobs at once.
    pub jobs: Option<u16>,
    /// The memory that they may use together, in bytes.
    pub memory: Option<u64>,
    /// Where their folders are.
    pub folders: PathBuf,
    /// Keep a job's folder after its end.
    pub keep: bool,
    /// How long jobs may take to end once the node was told to.
    pub drain: Duration,
    /// Who the node runs as, as far as that decides what is protected.
    pub caller: Caller,
}

/// Why the agent ended, or did not start.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The self-test.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// Nobody reads what the agent reports.
    #[error("writing the report: {0}")]
    Report(io::Error),
    /// Another agent uses the data directory.
    #[error("{}: another agent uses this data directory", oz0_sandbox::text::escape(.0))]
    Taken(PathBuf),
    /// The data directory.
    #[error("{what}: {error}")]
    Data {
        /// What was tried.
        what: &'static str,
        /// What the OS answered.
        error: io::Error,
    },
    /// The key.
    #[error("the node's key: {0}")]
    Key(String),
    /// The jobs' folders.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The edge.
    #[error(transparent)]
    Edge(#[from] EdgeError),
    /// Enrolment.
    #[error(transparent)]
    Enrol(#[from] EnrolError),
    /// Signals.
    #[error("listening for signals: {0}")]
    Signals(ctrlc::Error),
    /// The edge does not know this node any more.
    #[error(
        "the edge no longer knows {0} as a node ({1}): make a new token there and start once with `--enrol @FILE`{2}"
    )]
    Shut(String, &'static str, &'static str),
}

/// All that the agent's threads share.
struct Agent {
    binary: PathBuf,
    data_directory: PathBuf,
    machine_memory: u64,
    caller: Caller,
    room: Room,
    every: Duration,
    edge: Edge,
    ending: Ending,
    folders: Folders,
    journal: Journal,
    standing: Standing,
    table: Table,
    tiers: Tiers,
    endings: Endings,
}

/// Run until something is in the way, or until it was told to end and has ended.
pub fn run(settings: Settings) -> Result<(), AgentError> {
    let Settings { binary, data_directory, every, psec, fleet } = settings;
    let checks = Checks::new(binary.clone(), data_directory.clone(), psec);
    let Some(fleet) = fleet else { return Err(alone::run(&checks, every)) };

    let ending = Ending::hear().map_err(AgentError::Signals)?;
    // For as long as this process lives.
    let _lock = only_one(&data_directory)?;
    let data = |what| move |error| AgentError::Data { what, error };
    let seed = identity::seed(&data_directory).map_err(|error| AgentError::Key(error.to_string()))?;
    let signer = Signer::from_seed(&seed).map_err(|error| AgentError::Key(error.to_string()))?;
    drop(seed);
    let way =
        Way { url: &fleet.edge, authorities: fleet.authorities.as_deref(), in_the_clear: fleet.in_the_clear };
    let edge = Edge::new(&way, signer)?;
    tracing::info!(node = %edge.node(), edge = edge.base(), "starting");
    let folders = Folders::in_folder(&fleet.folders, &data_directory, fleet.keep)?;
    let journal = Journal::open(&data_directory).map_err(data("opening the journal"))?;
    let left = journal.recover(Duration::from_secs(10)).map_err(data("reading the journal"))?;
    folders.clear_all();
    enrol::ensure(&data_directory, &edge, fleet.token, &ending)?;

    let machine_memory = backend::host(None).machine_memory();
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let agent = Arc::new(Agent {
        room: Room::of(processors, machine_memory, fleet.jobs, fleet.memory),
        tiers: Tiers::new(checks, every),
        caller: fleet.caller,
        machine_memory,
        binary,
        data_directory,
        every,
        edge,
        ending,
        folders,
        journal,
        standing: Standing::default(),
        table: Table::default(),
        endings: Endings::default(),
    });
    for ending in left {
        let taking = journal::Taking { job: ending.job, fence: ending.fence };
        tracing::warn!(job = %taking.job, outcome = ?ending.outcome, "left by an earlier start");
        if let Ok(log) = log::Log::left(&agent.journal.path(taking, "log")) {
            job::send(&agent, taking, &Arc::new(log));
        }
        agent.endings.push(ending);
    }
    let result = report::run(&agent, fleet.drain);
    if let Err(AgentError::Shut(..)) = &result {
        enrol::forget(&agent.data_directory);
    }
    result
}

/// Two agents would both hold the same jobs.
fn only_one(data_directory: &std::path::Path) -> Result<std::fs::File, AgentError> {
    let path = data_directory.join("agent.lock");
    let lock = std::fs::File::create(&path).map_err(|error| AgentError::Data { what: "locking", error })?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(std::fs::TryLockError::WouldBlock) => Err(AgentError::Taken(data_directory.to_owned())),
        Err(std::fs::TryLockError::Error(error)) => Err(AgentError::Data { what: "locking", error }),
    }
}

impl Agent {
    /// A request failed: told, and what it says about this start is heeded.
    fn meet(&self, trouble: &Trouble, doing: &str, failures: u32) {
        tell(trouble, doing, failures);
        if let Some(code) = trouble.code()
            && self.standing.refused(code)
        {
            self.table.wake();
        }
    }
}

/// Tell of a request that failed: the first time, and then now and again.
fn tell(trouble: &Trouble, doing: &str, failures: u32) {
    if failures != 0 && !failures.is_power_of_two() {
        return;
    }
    let Trouble::Refused(refusal) = trouble else {
        return tracing::warn!(doing, reason = %trouble, failures, "the edge is away");
    };
    let fix = refusal.fix.as_deref().unwrap_or_default();
    if let Some(skew) = edge::skew(refusal) {
        return tracing::error!(doing, "this machine's clock is {skew}, by the edge's: set it right");
    }
    tracing::warn!(doing, code = %refusal.code, reason = %refusal.reason, fix, failures, "the edge refused");
}
