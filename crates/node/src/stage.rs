//! Steps that the node starts itself, each in a process of its own.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Subcommand;
use oz0_sandbox::backend;
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
}

/// Do the step.
pub fn main(stage: Stage) -> ExitCode {
    match stage {
        Stage::Run => match perform(&backend::host(), std::io::stdin()) {
            Ok(status) => ExitCode::from(status),
            Err(error) => {
                crate::cli::complain(&error.to_string(), None);
                Status::Sandbox.into()
            }
        },
        Stage::Subject { acts } => match subject::main(acts) {
            Ok(()) => ExitCode::SUCCESS,
            // Nobody reads the answers any more.
            Err(_) => ExitCode::FAILURE,
        },
    }
}
