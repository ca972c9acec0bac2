//! `oz0-node run`, which is `oz0-node node run`: start the node's agent.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use oz0_sandbox::limits;
use oz0_sandbox::report::Status;

use super::check::NO_PSEC;
use super::{NodeArguments, complain};
use crate::agent::{self, Settings};
use crate::{env, identity};

/// What may be typed.
#[derive(Args)]
pub struct NodeRunArguments {
    /// What confines runs here, where there is a choice: `psec`, on Windows alone.
    #[arg(long, value_name = "MECHANISM", value_parser = ["psec"])]
    sandbox: Option<String>,
    /// Time from one self-test to the next.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = limits::parse_duration)]
    self_test_every: Duration,
    #[command(flatten)]
    node: NodeArguments,
}

/// Run the agent.
pub fn main(arguments: NodeRunArguments) -> ExitCode {
    let failed = |reason: &str| {
        complain(reason, None);
        Status::Sandbox.into()
    };
    if arguments.sandbox.is_some() {
        return failed(NO_PSEC);
    }
    let data_directory = env::data_directory(arguments.node.data_dir);
    if let Err(error) = identity::ensure(&data_directory) {
        return failed(&error.to_string());
    }
    let binary = match std::env::current_exe() {
        Ok(binary) => binary,
        Err(error) => return failed(&format!("this program's path: {error}")),
    };
    let settings = Settings { binary, data_directory, every: arguments.self_test_every };
    failed(&agent::run(&settings).to_string())
}
