//! `oz0-node sandbox delegate`: a cgroup for an ordinary user, and back.

use std::process::ExitCode;

use clap::Args;
use oz0_sandbox::backend::linux::cgroup;
use oz0_sandbox::report::Status;

use super::{answer, answer_json, complain};

const EXAMPLES: &str = "\
Examples:
  oz0-node sandbox delegate --user alice
      As root, once after each boot: alice's runs can now be limited.
  oz0-node sandbox delegate --user alice --undo

Where systemd runs, a service unit's `Delegate=yes` does the same for a service.";

/// What may be typed.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct DelegateArguments {
    /// The user, by name or number.
    #[arg(long, value_name = "USER")]
    user: String,
    /// Move this process of the user's (a shell) into the folder as well; cgroup version 2 needs it.
    #[arg(long, value_name = "PID", conflicts_with = "undo")]
    pid: Option<u32>,
    /// Take it back.
    #[arg(long)]
    undo: bool,
    /// Print what was done as JSON.
    #[arg(long)]
    json: bool,
}

/// Hand over, or take back.
pub fn main(arguments: &DelegateArguments) -> ExitCode {
    let done = if arguments.undo { undo(arguments) } else { hand_over(arguments) };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let fix = match &error {
                cgroup::DelegationError::NotRoot => Some("run it as root, with sudo for one".to_owned()),
                cgroup::DelegationError::Refused(refusal) => Some(refusal.fix()),
                _ => None,
            };
            complain(&error.to_string(), fix.as_deref());
            Status::Sandbox.into()
        }
    }
}

fn hand_over(arguments: &DelegateArguments) -> Result<(), cgroup::DelegationError> {
    let done = cgroup::delegate(&arguments.user, arguments.pid)?;
    if arguments.json {
        answer_json(&done);
        return Ok(());
    }
    for folder in &done.folders {
        let how = if done.made.contains(folder) { "made and given" } else { "was there already, given" };
        answer(&format!("{}: {how} to user {}", folder.display(), done.uid));
    }
    if let Some(pid) = done.moved {
        answer(&format!("process {pid}: moved into it"));
    } else if let Some(enter) = &done.enter {
        answer(&format!("To start runs the user's shell must be inside: {enter}"));
    }
    answer(&format!("Undo: {}", done.undo));
    Ok(())
}

fn undo(arguments: &DelegateArguments) -> Result<(), cgroup::DelegationError> {
    let removed = cgroup::undo(&arguments.user)?;
    if arguments.json {
        answer_json(&removed);
    } else if removed.is_empty() {
        answer("Nothing was delegated.");
    }
    for folder in removed.iter().filter(|_| !arguments.json) {
        answer(&format!("{}: removed", folder.display()));
    }
    Ok(())
}
