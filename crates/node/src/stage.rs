//! Steps that the node starts itself, each in a process of its own.

use std::process::ExitCode;

use clap::Subcommand;

/// The steps.
#[derive(Subcommand)]
pub enum Stage {
    /// Run the plan that comes on standard input.
    Run,
}

/// Do the step.
pub fn main(stage: Stage) -> ExitCode {
    match stage {
        Stage::Run => ExitCode::FAILURE,
    }
}
