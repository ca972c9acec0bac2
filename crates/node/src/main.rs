//! Orchestrator Zero's node: runs other people's commands confined, and proves that it does.

mod agent;
mod cli;
mod env;
mod identity;
mod stage;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
