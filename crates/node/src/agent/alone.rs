//! Without an edge: the self-test at start and again on a timer, and a line of facts on standard output each time.
//! A signal ends it as it ends any program: it holds nothing that must be given back.

use std::io::{self, Write as _};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::AgentError;
use super::check::Checks;

/// Report, and again on the timer, until something is in the way.
pub fn run(checks: &Checks, every: Duration) -> AgentError {
    loop {
        let begun = Instant::now();
        let report = match checks.self_test() {
            Ok(report) => report,
            Err(error) => return error.into(),
        };
        if let Err(error) = say(&report) {
            return AgentError::Report(error);
        }
        while checks.once() {
            thread::park();
        }
        thread::sleep(every.saturating_sub(begun.elapsed()));
    }
}

/// One line on standard output.
fn say(report: &Value) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{report}")?;
    output.flush()
}
