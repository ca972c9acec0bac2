//! The agent of a test: the built binary, as the test's user, with a data directory and job folders of the test's.

use std::fs;
use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use oz0_fleet::Tier;
use rustix::process::{Pid, Signal, kill_process};

use crate::edge::{Edge, TOKEN};
use crate::support::Place;

/// A started agent; killed with the test, also when that fails.
pub struct Agent {
    pub child: Child,
    said: Arc<Mutex<String>>,
}

/// Where its data and its jobs are.
pub fn data(place: &Place) -> PathBuf {
    place.beside("data")
}

pub fn jobs(place: &Place) -> PathBuf {
    place.beside("jobs")
}

/// The command, to be added to.
pub fn command(place: &Place, edge: &Edge, more: &[&str]) -> Command {
    let mut command = place.node();
    command.args(["run", "--edge", &edge.url, "--verbose", "--data-dir"]).arg(data(place));
    command.arg("--jobs-dir").arg(jobs(place)).args(more);
    command.env("TMPDIR", place.make_folder("tmp"));
    command
}

impl Agent {
    /// Enrolled with a token in a file, and reported.
    pub fn reported(place: &Place, edge: &Edge, more: &[&str]) -> Agent {
        Agent::with_token(place, edge, more, |_| true)
    }

    /// The same with tier 1 earned: a machine that is busy may need some self-tests until it can tell.
    pub fn start(place: &Place, edge: &Edge, more: &[&str]) -> Agent {
        Agent::with_token(place, edge, more, |tier| tier == Tier::One)
    }

    fn with_token(place: &Place, edge: &Edge, more: &[&str], enough: fn(Tier) -> bool) -> Agent {
        let token = place.write("token", TOKEN);
        let token = format!("@{}", token.display());
        let before = edge.known().reports.len();
        let agent = Agent::of(command(place, edge, &[&["--enrol", &token], more].concat()));
        edge.wait_for("a report", Duration::from_secs(240), |known| {
            known.reports[before..].iter().any(|report| enough(report.facts().tier)).then_some(())
        });
        agent
    }

    pub fn of(mut command: Command) -> Agent {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = child.stderr.take().unwrap();
        let said = Arc::new(Mutex::new(String::new()));
        let heard = Arc::clone(&said);
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read) = stderr.read(&mut bytes) {
                if read == 0 {
                    break;
                }
                heard.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..read]));
            }
        });
        Agent { child, said }
    }

    pub fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    #[track_caller]
    pub fn wait_said(&self, words: &str) {
        crate::support::wait_for(words, Duration::from_secs(60), || {
            self.said().contains(words).then_some(())
        });
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Wait for its end: its status.
    #[track_caller]
    pub fn ends(&mut self, limit: Duration) -> Option<i32> {
        let until = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < until, "the agent does not end: {}", self.said());
            thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            std::io::Write::write_all(&mut std::io::stderr(), self.said().as_bytes()).unwrap();
        }
    }
}

/// What lies in the folders of jobs.
pub fn left(place: &Place) -> Vec<String> {
    let entries = fs::read_dir(jobs(place)).into_iter().flatten();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// What the journal still holds.
pub fn journal(place: &Place) -> Vec<String> {
    let entries = fs::read_dir(data(place).join("jobs")).into_iter().flatten();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}
