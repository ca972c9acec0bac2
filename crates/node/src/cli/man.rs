//! `oz0-node man`: a manual page for each verb, derived from the command line's own definition.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory as _};
use oz0_sandbox::report::Status;
use oz0_sandbox::text::escape;

use super::complain;

const EXAMPLES: &str = "\
Examples:
  oz0-node man ~/.local/share/man/man1
      Then `man oz0-node-sandbox-run` shows what a run takes.";

/// What may be typed.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ManArguments {
    /// The folder that the pages are written to; it must be there.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Write them.
pub fn main(arguments: &ManArguments) -> ExitCode {
    match clap_mangen::generate_to(super::Cli::command(), &arguments.folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("writing manual pages to {}: {error}", escape(&arguments.folder)), None);
            Status::Sandbox.into()
        }
    }
}
