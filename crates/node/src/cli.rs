//! The command line: what was typed, verb by verb.

mod check;
mod completions;
#[cfg(target_os = "linux")]
mod delegate;
mod explain;
mod man;
mod node_run;
mod relay;
mod run;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use oz0_sandbox::backend::{self, Backend, Refusal};
use oz0_sandbox::report::Status;

/// Orchestrator Zero's node: runs other people's commands confined on this machine.
#[derive(Parser)]
#[command(name = "oz0-node", version, propagate_version = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Run commands confined, and see what confines them.
    #[command(subcommand)]
    Sandbox(Sandbox),
    /// Run the node: self-test at start and on a timer, and jobs where there is an edge.
    Run(node_run::NodeRunArguments),
    /// The node itself.
    #[command(subcommand)]
    Node(NodeVerb),
    /// Print what a shell completes.
    Completions(completions::CompletionsArguments),
    /// Write a manual page for each verb.
    Man(man::ManArguments),
    /// Steps that the node starts itself.
    #[command(hide = true, subcommand)]
    Stage(crate::stage::Stage),
}

#[derive(Subcommand)]
enum Sandbox {
    /// Run a command confined.
    Run(Box<run::RunArguments>),
    /// Say what confines runs on this machine; with --self-test, whether it holds.
    Check(check::CheckArguments),
    /// Windows alone: forward a run's connections to its proxy from outside its container.
    Relay(relay::RelayArguments),
    /// Say what a run may do, what is protected, and which rule decides.
    Explain(Box<explain::ExplainArguments>),
    #[cfg(target_os = "linux")]
    /// Give an ordinary user a cgroup, so that their runs can be limited (as root, once).
    Delegate(delegate::DelegateArguments),
}

#[derive(Subcommand)]
enum NodeVerb {
    /// The same as `oz0-node run`.
    Run(node_run::NodeRunArguments),
}

/// Options of every verb that concerns this node.
#[derive(Args)]
struct NodeArguments {
    /// The node's data directory, which no run may reach.
    #[arg(long, value_name = "DIR", help_heading = "Node")]
    data_dir: Option<PathBuf>,
}

/// Read the command line and do what it says.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            // Wrong usage is the sandbox's own failure, not a command's.
            let failed = error.use_stderr();
            return if failed { Status::Sandbox.into() } else { ExitCode::SUCCESS };
        }
    };
    match cli.verb {
        Verb::Sandbox(Sandbox::Run(arguments)) => run::main(*arguments),
        Verb::Sandbox(Sandbox::Check(arguments)) => check::main(arguments),
        Verb::Sandbox(Sandbox::Relay(arguments)) => relay::main(arguments),
        Verb::Sandbox(Sandbox::Explain(arguments)) => explain::main(*arguments),
        #[cfg(target_os = "linux")]
        Verb::Sandbox(Sandbox::Delegate(arguments)) => delegate::main(&arguments),
        Verb::Run(arguments) | Verb::Node(NodeVerb::Run(arguments)) => node_run::main(arguments),
        Verb::Completions(arguments) => completions::main(&arguments),
        Verb::Man(arguments) => man::main(&arguments),
        Verb::Stage(stage) => crate::stage::main(stage),
    }
}

/// This system's backend, with what the environment hands down.
pub fn host() -> Result<impl Backend, Refusal> {
    crate::env::psec_route().map(backend::host).map_err(bad_route)
}

/// What the environment hands down is no route.
fn bad_route(reason: String) -> Refusal {
    Refusal { code: "route", reason, fix: None }
}

/// End as a command ended: a status of Windows has 32 bits, which no `ExitCode` holds.
pub fn end_with(status: i32) -> ! {
    std::process::exit(status)
}

/// One line on stderr, and one with the fix.
#[allow(clippy::print_stderr, reason = "this is where a person is told")]
pub fn complain(reason: &str, fix: Option<&str>) {
    eprintln!("oz0-node: {reason}");
    if let Some(fix) = fix {
        eprintln!("oz0-node: fix: {fix}");
    }
}

/// A line of the answer, on stdout. A reader that has gone away is no error of ours.
fn answer(line: &str) -> ExitCode {
    let _ = writeln!(std::io::stdout(), "{line}");
    ExitCode::SUCCESS
}

/// The answer as JSON.
fn answer_json<T: serde::Serialize>(value: &T) -> ExitCode {
    match serde_json::to_string_pretty(value) {
        Ok(text) => answer(&text),
        Err(error) => {
            complain(&format!("printing JSON: {error}"), None);
            Status::Sandbox.into()
        }
    }
}

/// A refusal, told.
fn refuse(refusal: &Refusal, json: bool) -> ExitCode {
    if json && let Ok(text) = serde_json::to_string(&serde_json::json!({ "refusal": refusal })) {
        #[allow(clippy::print_stderr, reason = "this is where a program is told")]
        {
            eprintln!("{text}");
        }
    } else {
        complain(&refusal.reason, refusal.fix.as_deref());
    }
    Status::Sandbox.into()
}
