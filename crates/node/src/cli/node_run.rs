//! `oz0-node run`, which is `oz0-node node run`: start the node's agent.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use oz0_sandbox::backend::psec;
use oz0_sandbox::limits;
use oz0_sandbox::report::Status;

use super::check::NO_PSEC;
use super::{NodeArguments, complain};
use crate::agent::enrol::{TokenFrom, token_from};
use crate::agent::{self, Fleet, Settings};
use crate::{env, identity};

const EXAMPLES: &str = "\
Examples:
  oz0-node run
      Self-test, and a line of facts on standard output; again every hour.
  oz0-node run --edge https://edge.example.com --enrol @token
      Become a node of that edge with a one-use token (`oz0 node token` makes one), and take jobs. Later starts need
      no token; one that is given then is not used.
  some-secret-store | oz0-node run --edge https://edge.example.com --enrol -
      The token comes on standard input. OZ0_ENROL_TOKEN may hold it too.

A token is a secret, and every user of a machine sees the arguments of its programs: so none is taken from there.

SIGTERM lets jobs end, at most as long as --drain says; a second one ends them at once.";

/// What may be typed.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct NodeRunArguments {
    /// What confines runs here, where there is a choice: `psec`, on Windows alone.
    #[arg(long, value_name = "MECHANISM", value_parser = ["psec"])]
    sandbox: Option<String>,
    /// Time from one self-test to the next. On Windows there is one a start.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = limits::parse_duration)]
    self_test_every: Duration,
    #[command(flatten)]
    fleet: FleetArguments,
    #[command(flatten)]
    node: NodeArguments,
}

/// Its part in a fleet.
#[derive(Args)]
#[command(next_help_heading = "Fleet")]
struct FleetArguments {
    /// The edge that this node takes jobs from: https://HOST:PORT, or https://HOST for port 443.
    #[arg(long, value_name = "URL")]
    edge: Option<String>,
    /// Where the one-use token is, for the first start: a file, or `-` for standard input.
    // Read further below: what is wrong with a value is printed with the value, and this one may be a secret.
    #[arg(long, value_name = "@FILE|-", requires = "edge", allow_hyphen_values = true)]
    enrol: Option<OsString>,
    /// Trust the certificates in this file (PEM) for the edge, and no others.
    #[arg(long, value_name = "FILE", requires = "edge")]
    edge_ca: Option<PathBuf>,
    /// Let plain HTTP leave this machine: who listens on the way sees every job and its secrets.
    #[arg(long, requires = "edge")]
    edge_in_the_clear: bool,
    /// The most jobs at once [default: one for each processor].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256), requires = "edge")]
    jobs: Option<u16>,
    /// The memory that jobs may use together [default: three quarters of the machine's].
    #[arg(long, value_name = "SIZE", value_parser = limits::parse_memory, requires = "edge")]
    jobs_memory: Option<u64>,
    /// Where each job gets a folder of its own; not below the data directory.
    #[arg(long, value_name = "DIR", requires = "edge")]
    jobs_dir: Option<PathBuf>,
    /// Keep each job's folder after its end.
    #[arg(long, requires = "edge")]
    keep_jobs: bool,
    /// How long jobs may go on once the node was told to end.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = limits::parse_duration, requires = "edge")]
    drain: Duration,
    /// Log as JSON, a line each, on standard error.
    #[arg(long, requires = "edge")]
    log_json: bool,
    /// Log more.
    #[arg(long, requires = "edge")]
    verbose: bool,
}

/// Run the agent.
pub fn main(arguments: NodeRunArguments) -> ExitCode {
    let failed = |reason: &str| {
        complain(reason, None);
        Status::Sandbox.into()
    };
    let psec = arguments.sandbox.is_some();
    if psec && !psec::HERE {
        return failed(NO_PSEC);
    }
    let token = match arguments.fleet.enrol.as_deref().map(token_from).transpose() {
        Ok(token) => token,
        Err(reason) => return failed(&reason),
    };
    let data_directory = env::data_directory(arguments.node.data_dir);
    if let Err(error) = identity::ensure(&data_directory) {
        return failed(&error.to_string());
    }
    let binary = match std::env::current_exe() {
        Ok(binary) => binary,
        Err(error) => return failed(&format!("this program's path: {error}")),
    };
    let fleet = arguments.fleet.into_fleet(token);
    let settings = Settings { binary, data_directory, every: arguments.self_test_every, psec, fleet };
    match agent::run(settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error.to_string()),
    }
}

impl FleetArguments {
    fn into_fleet(self, token: Option<TokenFrom>) -> Option<Fleet> {
        let edge = self.edge?;
        log(self.log_json, self.verbose);
        Some(Fleet {
            edge,
            authorities: self.edge_ca,
            in_the_clear: self.edge_in_the_clear,
            token,
            jobs: self.jobs,
            memory: self.jobs_memory,
            folders: env::jobs_directory(self.jobs_dir),
            keep: self.keep_jobs,
            drain: self.drain,
            caller: env::caller(),
        })
    }
}

/// On standard error, for people or for programs.
fn log(json: bool, verbose: bool) {
    use tracing_subscriber::filter::LevelFilter;
    let level = if verbose { LevelFilter::DEBUG } else { LevelFilter::INFO };
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(level).with_target(false);
    if json {
        log.json().flatten_event(true).init();
    } else {
        log.with_ansi(false).init();
    }
}
