//! `oz0-node sandbox relay`: the process that a run starts beside its container where Windows closes a container's own
//! loopback; and `--remove-profile`, which takes away what such processes need.

use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

use clap::Args;
use oz0_sandbox::backend::psec;
use oz0_sandbox::relay::Relay;
use oz0_sandbox::report::Status;

use super::{answer, complain};

/// Why it is refused here.
const NO_RELAY: &str = "relays are for PSEC, a part of Windows 11; on this system a run needs none";

const DETAILS: &str = "\
A run that needs a relay starts one itself, as the AppContainer profile oz0.egress-relay, and ends it. It prints the \
address that it listens on, one of 127.0.0.1:47330 to 47361, and forwards each connection to the run's proxy, which \
still wants the run's token. At most 32 run at once on a machine.";

/// What may be typed.
#[derive(Args)]
#[command(after_help = DETAILS)]
pub struct RelayArguments {
    /// The socket of the run's proxy.
    #[arg(long, value_name = "PATH", required_unless_present = "remove_profile")]
    socket: Option<PathBuf>,
    /// Remove the profile and what was granted to it; a later run makes it again.
    #[arg(long, conflicts_with = "socket")]
    remove_profile: bool,
}

/// Relay, or remove.
pub fn main(arguments: RelayArguments) -> ExitCode {
    let failed = |reason: &str| {
        complain(reason, None);
        Status::Sandbox.into()
    };
    if !psec::HERE {
        return failed(NO_RELAY);
    }
    let Some(socket) = arguments.socket else {
        let removed = std::env::current_exe()
            .map_err(|error| format!("this program's path: {error}"))
            .and_then(|binary| psec::remove_profile(&binary));
        return match removed {
            Ok(()) => answer("removed: the profile oz0.egress-relay and what was granted to it"),
            Err(reason) => failed(&reason),
        };
    };
    let relay = match Relay::start(&socket) {
        Ok(relay) => relay,
        Err(error) => return failed(&error.to_string()),
    };
    answer(&relay.address().to_string());
    // Its run's job ends it.
    loop {
        thread::park();
    }
}
