//! The relay of one run: the node's own program outside the container, in the AppContainer profile that the container
//! is told to expect, without a capability, in a job of its own that ends with the run. It says which port it has.

use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::os::windows::io::AsHandle as _;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::block::{self, Block, BlockError};
use super::cmdline::{self, CommandLineError};
use super::folder::RunFolder;
use super::plan::Plan;
use super::profile;
use super::route::{PORTS, PROFILE};
use super::spec::{Peer, PeerError};
use crate::environ::Environment;
use crate::sys::windows::attributes::Container;
use crate::sys::windows::error::CallError;
use crate::sys::windows::job::{Job, JobError, Limits};
use crate::sys::windows::process::{self, Process, ResumeError, Start, StartError};
use crate::text::escape;

/// A first start on a cold machine takes seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// The most of what a relay complains that is repeated.
const LONGEST: u64 = 2048;

/// Why there is no relay.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// The profile, or what it needs to be granted.
    #[error("the relay's profile: {0}")]
    Profile(String),
    /// Its name.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// Its command line.
    #[error("the relay: {0}")]
    CommandLine(#[from] CommandLineError),
    /// Its variables.
    #[error("the relay: {0}")]
    Block(#[from] BlockError),
    /// Its job object.
    #[error("the relay's job object: {0}")]
    Job(#[from] JobError),
    /// Its pipes.
    #[error("the relay's pipes: {0}")]
    Pipe(#[from] io::Error),
    /// Starting it.
    #[error("starting the relay: {0}")]
    Start(#[from] StartError),
    /// Letting it run.
    #[error("starting the relay: {0}")]
    Resume(#[from] ResumeError),
    /// Another call.
    #[error("starting the relay: {0}")]
    Call(#[from] CallError),
    /// It ended, or said nothing that is a port of its own.
    #[error("the relay did not say where it listens: {0}")]
    NoPort(String),
}

/// A relay that listens. Dropping it ends it.
pub struct Relay {
    port: u16,
    peer: Peer,
    /// Its end is the relay's.
    _job: Job,
    _process: Process,
}

impl Relay {
    /// Start it, and wait until it listens.
    pub fn start(plan: &Plan, folder: &RunFolder) -> Result<Relay, RelayError> {
        let peer = Peer::try_from(PROFILE.to_owned())?;
        let binary = plan.node_binary.to_path();
        let sid = profile::ready(&binary).map_err(|error| RelayError::Profile(error.to_string()))?;
        profile::open_folder(folder.path(), &sid).map_err(|error| RelayError::Profile(error.to_string()))?;

        let binary_word = plan.node_binary.to_string();
        let words = [binary_word.as_str(), "sandbox", "relay", "--socket", &plan.socket()];
        let command_line = OsString::from(cmdline::join(&words)?);
        let mut environment = Environment::default();
        block::set_defaults(&mut environment, &plan.defaults);
        let block = Block::of(&environment)?;

        let job = Job::new(&Limits::default())?;
        let nothing = process::null_input()?;
        let (output, own_output) = io::pipe()?;
        let (complaints, own_complaints) = io::pipe()?;
        let directory = plan.defaults.system_root.clone();
        let suspended = process::start(&Start {
            application: &binary,
            command_line: &command_line,
            environment: block.units(),
            directory: &directory,
            standard: [nothing.as_handle(), own_output.as_handle(), own_complaints.as_handle()],
            container: Container::Profile(&sid),
        })?;
        // The relay's ends are the relay's alone, so that its end is seen here.
        drop((own_output, own_complaints));
        job.assign(suspended.as_handle())?;
        let process = suspended.resume()?;
        let port = match said_port(output) {
            Ok(port) => port,
            Err(why) => {
                drop(job);
                let mut complaint = String::new();
                let _ = complaints.take(LONGEST).read_to_string(&mut complaint);
                let last = complaint.lines().last().map(escape);
                return Err(RelayError::NoPort(last.unwrap_or(why)));
            }
        };
        Ok(Relay { port, peer, _job: job, _process: process })
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The name that a container knows it by.
    pub fn peer(&self) -> Peer {
        self.peer.clone()
    }
}

/// The relay's one line. The thread ends with the relay's output at the latest.
fn said_port(output: io::PipeReader) -> Result<u16, String> {
    let (say, said) = mpsc::channel();
    let reader = move || {
        let mut line = String::new();
        let read = BufReader::new(output.take(LONGEST)).read_line(&mut line);
        let _ = say.send(read.map(|_| line));
    };
    thread::Builder::new().spawn(reader).map_err(|error| error.to_string())?;
    let line = match said.recv_timeout(PATIENCE) {
        Ok(Ok(line)) => line,
        Ok(Err(error)) => return Err(error.to_string()),
        Err(_) => return Err("no word in 30 s".to_owned()),
    };
    let address = line.trim_end().parse::<SocketAddr>().ok();
    let port = address.filter(|address| address.ip().is_loopback()).map(|address| address.port());
    match port {
        Some(port) if PORTS.contains(&port) => Ok(port),
        _ if line.is_empty() => Err("it ended without a word".to_owned()),
        _ => Err(format!("it said {}", escape(line.trim_end()))),
    }
}
