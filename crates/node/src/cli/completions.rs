//! `oz0-node completions`: what a shell completes, derived from the command line's own definition.

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Args, Command, CommandFactory as _};
use clap_complete::Shell;

const EXAMPLES: &str = "\
Examples:
  oz0-node completions bash > ~/.local/share/bash-completion/completions/oz0-node
  oz0-node completions fish > ~/.config/fish/completions/oz0-node.fish";

/// What may be typed.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct CompletionsArguments {
    /// The shell.
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Print them.
pub fn main(arguments: &CompletionsArguments) -> ExitCode {
    let whole = super::Cli::command();
    // Without the steps that the node starts itself: shells would offer what is hidden, too.
    let shown = whole.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned();
    let mut command = Command::new("oz0-node").version(env!("CARGO_PKG_VERSION")).subcommands(shown);
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "oz0-node", &mut script);
    // A reader that has gone away is no error of ours.
    let _ = std::io::stdout().write_all(&script);
    ExitCode::SUCCESS
}
