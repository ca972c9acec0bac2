//! A subject that has been started, seen from outside: its lines as they come, and its end. Everything is waited
//! for in bounded time, and dropping it ends its process.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::limits::Usage;

/// The most of what a launcher complains that is kept.
const LONGEST_COMPLAINT: u64 = 16 * 1024;

/// What a launcher's process told in the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// The command ran, and ended so.
    Command {
        /// The exit status of the launcher's process; none when a signal ended it.
        status: Option<i32>,
        /// What it used, where the launcher says so.
        usage: Option<Usage>,
    },
    /// The sandbox failed or refused.
    Sandbox {
        /// The exit status of the launcher's process; none when a signal ended it.
        status: Option<i32>,
        /// Why.
        reason: String,
    },
}

/// Why there is no line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silence {
    /// No process holds the output any more.
    Ended,
    /// The time is up.
    TimedOut,
}

/// How it ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// What was told.
    pub told: Told,
    /// Lines that nobody had asked for yet.
    pub lines: Vec<String>,
}

type Tell = Box<dyn FnOnce(ExitStatus, String) -> Told + Send>;

/// A launcher's process.
pub struct Started {
    child: Child,
    lines: Receiver<String>,
    complaint: Receiver<String>,
    tell: Option<Tell>,
}

impl Started {
    /// Start `command` with this input. `tell` says, from its exit status and what it complained, what it told.
    pub fn new(
        mut command: Command,
        input: &[u8],
        tell: impl FnOnce(ExitStatus, String) -> Told + Send + 'static,
    ) -> io::Result<Started> {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let (output, error) = (child.stdout.take(), child.stderr.take());
        let (line, lines) = mpsc::channel();
        let (complain, complaint) = mpsc::channel();
        let stdin = child.stdin.take();
        // Whatever fails from here on, dropping this ends the process.
        let started = Started { child, lines, complaint, tell: Some(Box::new(tell)) };
        if let Some(mut stdin) = stdin {
            stdin.write_all(input)?;
        }
        thread::Builder::new().spawn(move || {
            for text in output.into_iter().flat_map(|output| BufReader::new(output).split(b'\n')) {
                let Ok(text) = text else { break };
                if line.send(String::from_utf8_lossy(&text).into_owned()).is_err() {
                    break;
                }
            }
        })?;
        thread::Builder::new().spawn(move || {
            let mut text = Vec::new();
            if let Some(mut error) = error {
                let _ = (&mut error).take(LONGEST_COMPLAINT).read_to_end(&mut text);
                // The rest is read and dropped: a full pipe would hold the run up.
                let _ = io::copy(&mut error, &mut io::sink());
            }
            let _ = complain.send(String::from_utf8_lossy(&text).into_owned());
        })?;
        Ok(started)
    }

    /// The number of the launcher's process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next line that the subject says.
    pub fn line(&mut self, patience: Duration) -> Result<String, Silence> {
        self.lines.recv_timeout(patience).map_err(|error| match error {
            RecvTimeoutError::Disconnected => Silence::Ended,
            RecvTimeoutError::Timeout => Silence::TimedOut,
        })
    }

    /// End the launcher's process at once, as nothing can prevent.
    pub fn kill(&mut self) -> io::Result<()> {
        self.child.kill()
    }

    /// Wait for the launcher's process alone, whatever still holds the output.
    pub fn first_ended(&mut self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        loop {
            match self.child.try_wait() {
                Ok(Some(_)) => return true,
                Ok(None) if Instant::now() < deadline => thread::sleep(Duration::from_micros(200)),
                _ => return false,
            }
        }
    }

    /// Wait until no process holds the output any more, and for the launcher's process itself.
    pub fn end(mut self, patience: Duration) -> Result<Ended, Silence> {
        let deadline = Instant::now() + patience;
        let left = || deadline.saturating_duration_since(Instant::now());
        let mut lines = Vec::new();
        loop {
            match self.line(left()) {
                Ok(line) => lines.push(line),
                Err(Silence::Ended) => break,
                Err(Silence::TimedOut) => return Err(Silence::TimedOut),
            }
        }
        // Standard error is the launcher's until it has ended, so its end says that waiting does not take long.
        let complaint = self.complaint.recv_timeout(left()).map_err(|_| Silence::TimedOut)?;
        let status = self.child.wait().map_err(|_| Silence::TimedOut)?;
        let tell = self.tell.take();
        let told =
            tell.map_or(Told::Command { status: status.code(), usage: None }, |tell| tell(status, complaint));
        Ok(Ended { told, lines })
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    /// By the shell of this system, each with a script of its own.
    fn shell(unix: &str, windows: &str) -> Started {
        let (shell, script) = if cfg!(windows) { ("cmd.exe", windows) } else { ("/bin/sh", unix) };
        let mut command = Command::new(shell);
        command.args([if cfg!(windows) { "/d/c" } else { "-c" }, script]);
        let tell = |status: ExitStatus, reason| Told::Sandbox { status: status.code(), reason };
        Started::new(command, b"", tell).unwrap()
    }

    #[test]
    fn lines_come_as_they_are_said_and_the_end_tells_the_rest() {
        let mut started =
            shell("echo one; echo two; echo why >&2; exit 3", "echo one&echo two&echo why>&2&exit 3");
        assert_eq!(started.line(PATIENCE).unwrap().trim_end(), "one");
        let ended = started.end(PATIENCE).unwrap();
        assert_eq!(ended.lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>(), ["two"]);
        let Told::Sandbox { status, reason } = ended.told else { panic!("{:?}", ended.told) };
        assert_eq!((status, reason.trim_end()), (Some(3), "why"));
    }

    /// By a shell that says its child's number.
    #[cfg(unix)]
    #[test]
    fn a_process_that_holds_the_output_is_seen_after_the_first_one_ended() {
        let mut started = shell("sleep 5 & echo $!", "");
        let sleeper: i32 = started.line(PATIENCE).unwrap().parse().unwrap();
        let begun = Instant::now();
        assert_eq!(started.end(Duration::from_millis(50)).unwrap_err(), Silence::TimedOut);
        assert!(begun.elapsed() < Duration::from_secs(4));
        crate::sys::attempt::end(sleeper);
    }

    #[test]
    fn much_on_standard_error_does_not_hold_the_run_up() {
        let long = "x".repeat(1000);
        let windows = format!("(for /L %i in (1,1,300) do @echo {long}>&2)&echo done");
        let ended = shell("head -c 300000 /dev/zero >&2; echo done", &windows).end(PATIENCE).unwrap();
        assert_eq!(ended.lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>(), ["done"]);
    }
}
