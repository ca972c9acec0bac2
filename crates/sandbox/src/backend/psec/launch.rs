//! The launch: one straight function, each step with why it comes now. Whatever fails, nothing has run and nothing
//! stays: what was made is given back in reverse.

use std::ffi::OsString;
use std::fs;
use std::os::windows::io::{AsHandle, BorrowedHandle, OwnedHandle};
use std::path::{Path, PathBuf};
use std::time::Duration;

use oz0_egress::Listener;

use super::block::{Block, BlockError};
use super::cmdline::{self, CommandLineError};
use super::folder::{FolderError, RunFolder};
use super::job::JobNumbers;
use super::plan::Plan;
use super::program::candidates;
use super::relay::{Relay, RelayError};
use super::route::Route;
use super::running::Running;
use super::spec::{Network, Proxied, encode};
use super::verdict::{Lacking, Stage};
use super::verify::{Mechanism, Mismatch, verify};
use crate::environ::Environment;
use crate::report::NotStarted;
use crate::sys::windows::attributes::{Attribute, Container};
use crate::sys::windows::error::CallError;
use crate::sys::windows::job::events::Events;
use crate::sys::windows::job::{Job, JobError, Limits};
use crate::sys::windows::process::{self, Process, ResumeError, Start, StartError};
use crate::sys::windows::processmodel::{LoadError, ProcessModel, SecurityEnvironment};

/// A folder that nobody has touched since the machine started may be answered so once; the second try succeeds
/// (measured on 26200.9457).
const COLD: [u32; 2] = [0x8007_0003, 0xc000_003a];
const COLD_PAUSE: Duration = Duration::from_millis(50);

/// Why nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// A standard handle opens a folder.
    #[error("{0} is a folder, which would be open inside whatever is granted; give a file or leave it out")]
    Handle(&'static str),
    /// This machine lacks what every run needs.
    #[error("{}: {}", .0.stage.call(), .0.answer)]
    Lacking(Box<Lacking>),
    /// The library went away since the probe.
    #[error("loading PSEC: {0}")]
    Load(#[from] LoadError),
    /// No job object with these limits.
    #[error("the run's job object: {0}")]
    Job(#[from] JobError),
    /// The run's folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The proxy's socket.
    #[error("listening on {}: {error}", crate::text::escape(.path))]
    Socket {
        /// Where.
        path: PathBuf,
        /// What the system answered.
        error: std::io::Error,
    },
    /// The relay.
    #[error(transparent)]
    Relay(#[from] RelayError),
    /// The environment block.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// The command line.
    #[error(transparent)]
    CommandLine(#[from] CommandLineError),
    /// Making the container.
    #[error("making the container: {0}")]
    Create(CallError),
    /// Starting the process, which did not run.
    #[error("starting the process in the container: {0}")]
    Start(#[from] StartError),
    /// It is not confined as planned, and did not run.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
    /// It could not be put in its job, and did not run.
    #[error("putting the process in its job object: {0}")]
    Assign(CallError),
    /// It could not be let run.
    #[error("letting the process run: {0}")]
    Resume(#[from] ResumeError),
    /// A call of the node's own.
    #[error("{what}: {error}")]
    Call {
        /// What for.
        what: &'static str,
        /// What Windows answered.
        error: CallError,
    },
}

/// Start the command of `plan` with these variables.
pub fn launch(
    plan: &Plan,
    environment: &Environment,
    meanwhile: impl FnOnce(),
) -> Result<Running, LaunchError> {
    let standard = process::standard_handles().map_err(call("the standard handles"))?;
    refuse_folders(&standard)?;
    let Some(program) = find(plan, environment)? else {
        return Ok(Running::not_started(NotStarted::NotFound));
    };
    // The job object first: a process that cannot be put in it never runs.
    let job = job(plan)?;
    let folder = RunFolder::make(&plan.sockets.to_path())?;
    let socket = PathBuf::from(plan.socket());
    let listener = Listener::unix(&socket).map_err(|error| LaunchError::Socket { path: socket, error })?;
    // The relay listens before the container is made, and is there until it is gone.
    let relay = match plan.route {
        Route::Bridge => None,
        Route::Relay => Some(Relay::start(plan, &folder)?),
    };
    let mut environment = environment.clone();
    let network = match &relay {
        None => Network::Closed,
        Some(relay) => {
            environment.set_proxy_port(relay.port());
            Network::Proxied(Proxied { port: relay.port(), peer: relay.peer() })
        }
    };
    let (application, words) = match plan.route {
        Route::Relay => (program, plan.started()),
        Route::Bridge => (plan.node_binary.to_path(), plan.started()),
    };
    let contained = Contained {
        plan,
        application: &application,
        words: &words,
        network,
        environment: &environment,
        standard: [standard[0].as_handle(), standard[1].as_handle(), standard[2].as_handle()],
    };
    let Confined { container, process, mechanism, events } = contained.start(&job, meanwhile)?;
    Ok(Running {
        not_started: None,
        process: Some(process),
        events: Some(events),
        job: Some(job),
        mechanism: Some(mechanism),
        listener: Some(listener),
        limits: plan.job.limits(),
        consoles: standard.iter().any(|handle| process::is_console(handle.as_handle())),
        container: Some(container),
        relay,
        folder: Some(folder),
    })
}

/// What is started, and in what.
pub(super) struct Contained<'a> {
    pub(super) plan: &'a Plan,
    pub(super) application: &'a Path,
    pub(super) words: &'a [OsString],
    pub(super) network: Network,
    pub(super) environment: &'a Environment,
    pub(super) standard: [BorrowedHandle<'a>; 3],
}

/// A process that runs confined.
pub(super) struct Confined {
    pub(super) process: Process,
    pub(super) mechanism: Mechanism,
    pub(super) events: Events,
    /// Closed last: it holds the filters and the file rules of everything in it.
    pub(super) container: SecurityEnvironment,
}

impl Contained<'_> {
    /// Make the container, start the process suspended in it, ask its token, put it in the job, and only then let
    /// it run. `meanwhile` is done before that.
    pub(super) fn start(self, job: &Job, meanwhile: impl FnOnce()) -> Result<Confined, LaunchError> {
        let words: Vec<&str> = self.words.iter().filter_map(|word| word.to_str()).collect();
        let command_line = OsString::from(cmdline::join(&words)?);
        let block = Block::of(self.environment)?;
        let specification = self.plan.specification(self.network.clone());
        let bytes = encode(&specification, self.plan.version);
        let model = ProcessModel::load()?;
        // Touched first, so that the service finds them (measured on 26200.9457).
        for path in specification.read_write.iter().chain(&specification.read_only) {
            let _ = fs::metadata(path.to_path());
        }
        let container = create(&model, &bytes)?;
        let directory = self.plan.start.to_path();
        let suspended = process::start(&Start {
            application: self.application,
            command_line: &command_line,
            environment: block.units(),
            directory: &directory,
            standard: self.standard,
            container: Container::SecurityEnvironment(&container),
        })
        .map_err(start_error)?;
        // From here on dropping `suspended` ends a process that has not run.
        let mechanism = verify(suspended.as_handle(), self.plan, &self.network)?;
        let events = job.events().map_err(call("the job's events"))?;
        job.assign(suspended.as_handle()).map_err(LaunchError::Assign)?;
        if !job.contains(suspended.as_handle()).map_err(call("asking for the process's job"))? {
            return Err(Mismatch::NoJob.into());
        }
        meanwhile();
        let process = suspended.resume()?;
        Ok(Confined { process, mechanism, events, container })
    }
}

/// The run's job object, with its limits held before anything is in it.
pub(super) fn job(plan: &Plan) -> Result<Job, LaunchError> {
    let numbers = JobNumbers::of(&plan.job.limits(), plan.job.processors);
    Ok(Job::new(&Limits {
        processes: Some(numbers.processes),
        memory: Some(numbers.memory),
        cpu: Some(numbers.cpu_rate),
        // Closed by the specification: Windows nests a job of its own for it.
        ui: 0,
    })?)
}

fn create(model: &ProcessModel, bytes: &[u8]) -> Result<SecurityEnvironment, LaunchError> {
    let cold = |error: &CallError| COLD.contains(&error.as_hresult().cast_unsigned());
    let made = match model.create(bytes) {
        Err(error) if cold(&error) => {
            std::thread::sleep(COLD_PAUSE);
            model.create(bytes)
        }
        made => made,
    };
    made.map_err(|error| match cold(&error) {
        true => LaunchError::Create(error),
        false => lacking(Stage::Create, error),
    })
}

/// A call that says something of PSEC itself: the same is said of the machine as by a probe.
fn lacking(stage: Stage, error: CallError) -> LaunchError {
    let windows = super::probe::verdict().windows;
    LaunchError::Lacking(Box::new(Lacking::in_run(windows, stage, error.into())))
}

fn start_error(error: StartError) -> LaunchError {
    match error {
        StartError::Attribute(failed) if failed.attribute == Attribute::SecurityEnvironment => {
            lacking(Stage::Attribute, failed.error)
        }
        error => LaunchError::Start(error),
    }
}

fn call(what: &'static str) -> impl FnOnce(CallError) -> LaunchError {
    move |error| LaunchError::Call { what, error }
}

/// The program's own file; none where there is no such command.
fn find(plan: &Plan, environment: &Environment) -> Result<Option<PathBuf>, LaunchError> {
    let program = plan.command.first().and_then(|program| program.to_str()).unwrap_or_default();
    let path = environment.variables().find(|(name, _)| name.eq_ignore_ascii_case("PATH"));
    let path = path.and_then(|(_, value)| value.to_str()).unwrap_or_default();
    let found = candidates(program, path, &plan.start.to_string());
    let found = found.into_iter().find(|candidate| Path::new(candidate).is_file());
    match found {
        Some(batch) if cmdline::is_batch(&batch) => {
            Err(CommandLineError::Batch(crate::text::escape(batch)).into())
        }
        found => Ok(found.map(PathBuf::from)),
    }
}

/// A handle of a folder lists it whatever the container may open.
fn refuse_folders(standard: &[OwnedHandle; 3]) -> Result<(), LaunchError> {
    const DIRECTORY: u32 = 0x10;
    for (name, handle) in ["standard input", "standard output", "standard error"].into_iter().zip(standard) {
        let Ok(copy) = handle.try_clone() else { continue };
        let looked = crate::sys::windows::files::look(&copy.into());
        if looked.is_ok_and(|meta| meta.attributes & DIRECTORY != 0) {
            return Err(LaunchError::Handle(name));
        }
    }
    Ok(())
}
