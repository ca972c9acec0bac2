//! The node's agent, as far as it goes: at start, and again on a timer, it has the self-test run and reports what
//! it showed. It launches nothing itself: a self-test is a process of its own, which has one thread to begin with.
//!
//! A signal ends the agent as it ends any program: it holds nothing that must be given back.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// What the agent is told.
pub struct Settings {
    /// The node's own program.
    pub binary: PathBuf,
    /// The node's data directory.
    pub data_directory: PathBuf,
    /// From one self-test to the next.
    pub every: Duration,
}

/// Why the agent ended.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// No self-test could be started.
    #[error("starting the self-test: {0}")]
    Start(io::Error),
    /// It said nothing that can be read.
    #[error("the self-test gave no answer ({0})")]
    Answer(ExitStatus),
    /// Nobody reads what the agent reports.
    #[error("writing the report: {0}")]
    Report(io::Error),
}

/// Report, and again on the timer, until something is in the way.
pub fn run(settings: &Settings) -> AgentError {
    loop {
        let begun = Instant::now();
        if let Err(error) = self_test(settings).and_then(|report| say(&report).map_err(AgentError::Report)) {
            return error;
        }
        thread::sleep(settings.every.saturating_sub(begun.elapsed()));
    }
}

/// One self-test; each of its checks is logged on standard error as it ends.
fn self_test(settings: &Settings) -> Result<Value, AgentError> {
    let output = Command::new(&settings.binary)
        .args(["sandbox", "check", "--self-test", "--json", "--data-dir"])
        .arg(&settings.data_directory)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(AgentError::Start)?;
    let answer = serde_json::from_slice(&output.stdout).map_err(|_| AgentError::Answer(output.status))?;
    reported(answer).ok_or(AgentError::Answer(output.status))
}

/// The facts: which property failed is among them, what a check saw stays on the node.
fn reported(answer: Value) -> Option<Value> {
    let Value::Object(mut answer) = answer else { return None };
    answer.remove("self_test");
    answer.remove("lacking");
    answer.remove("lines");
    answer.remove("route");
    answer.remove("advice");
    answer.contains_key("tier").then_some(Value::Object(answer))
}

/// One line on standard output.
fn say(report: &Value) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{report}")?;
    output.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_check_saw_stays_on_the_node() {
        let answer = json!({ "tier": "tier 0", "failed": "files", "self_test": [{ "saw": "/home/x" }], "lines": [], "lacking": [] });
        assert_eq!(reported(answer), Some(json!({ "tier": "tier 0", "failed": "files" })));
        assert_eq!(reported(json!({ "refusal": {} })), None);
        assert_eq!(reported(json!([])), None);
    }
}
