//! Steps that the node starts itself, each in a process of its own.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use oz0_sandbox::backend;
use oz0_sandbox::backend::psec::bridge;
use oz0_sandbox::report::Status;
use oz0_sandbox::selftest::{perform, subject};

/// The steps.
#[derive(Subcommand)]
pub enum Stage {
    /// Launch the job that comes on standard input.
    Run,
    /// Be the process inside: try each act, and answer it with one line.
    Subject {
        /// The acts, each a JSON text.
        acts: Vec<OsString>,
    },
    /// Inside a container of PSEC: carry connections on the loopback to the proxy's socket, and run the command.
    Bridge {
        /// The socket.
        socket: PathBuf,
        /// The program and its arguments.
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Launch the command of a lease, as ordered on standard input, and stand by it.
    Job,
    /// Become a command of tier 0.
    Enter {
        /// The process that it ends with.
        #[arg(long)]
        parent: u32,
        /// A file through which it joins what limits it.
        #[arg(long)]
        join: Vec<PathBuf>,
        /// The program and its arguments.
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
}

/// Do the step.
pub fn main(stage: Stage) -> ExitCode {
    match stage {
        // The route is in the plan that it is handed.
        Stage::Run => match perform(&backend::host(None), std::io::stdin()) {
            Ok(status) => crate::cli::end_with(status),
            Err(error) => {
                crate::cli::complain(&error.to_string(), None);
                Status::Sandbox.into()
            }
        },
        Stage::Job => crate::agent::step::main(),
        Stage::Enter { parent, join, command } => crate::agent::plain::enter(parent, &join, &command),
        Stage::Subject { acts } => match subject::main(acts) {
            Ok(()) => ExitCode::SUCCESS,
            // Nobody reads the answers any more.
            Err(_) => ExitCode::FAILURE,
        },
        Stage::Bridge { socket, command } => match bridge::run(&socket, &command, variable) {
            Ok(status) => crate::cli::end_with(status.code().unwrap_or(Status::Sandbox as i32)),
            Err(error) => {
                crate::cli::complain(&error.to_string(), None);
                error.status().into()
            }
        },
    }
}

fn variable(name: &str) -> Option<String> {
    crate::env::value(name.as_ref())?.into_string().ok()
}
