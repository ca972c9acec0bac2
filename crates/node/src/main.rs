//! Orchestrator Zero's node: runs other people's commands confined, and proves that it does.

mod cli;
mod env;
mod stage;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
