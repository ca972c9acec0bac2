//! The program `oz0`: reads what was typed, does it, and turns an error into an exit status.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use oz0::cli::{Arguments, run};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    let mut out = std::io::stdout().lock();
    match runtime.block_on(run(arguments, &mut out)).and_then(|()| Ok(out.flush()?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

/// Who speaks, what failed, and why, down to the first cause.
fn failed(error: &dyn std::error::Error) -> ExitCode {
    let mut text = format!("oz0: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    // Where even this cannot be said, the status says it.
    drop(writeln!(std::io::stderr(), "{text}"));
    ExitCode::FAILURE
}
