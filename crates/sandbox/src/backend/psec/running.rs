//! A run that has been started: waiting for its end, whatever brings it, and taking everything back in reverse. It
//! returns only when every process is gone.

use std::io;
use std::os::windows::io::AsHandle as _;
use std::time::{Duration, Instant};

use oz0_egress::Listener;

use super::folder::RunFolder;
use super::relay::Relay;
use super::verify::Mechanism;
use crate::backend::{self, OnNetwork, Refusal};
use crate::limits::{Limits, Usage};
use crate::report::{Cause, Ending, NotStarted};
use crate::sys::windows::console::{Interrupt, Interrupts};
use crate::sys::windows::handle::wait_any;
use crate::sys::windows::job::events::{Event, Events};
use crate::sys::windows::job::{Ended, Job};
use crate::sys::windows::process::Process;
use crate::sys::windows::processmodel::SecurityEnvironment;

/// How long all processes may take to be gone, once they were ended.
const ENDING: Duration = Duration::from_secs(60);

/// The exit status of processes that the sandbox ends.
const ENDED: u32 = 125;

/// A run. Taken back in reverse: everything in the container first, the container after it, the way out last.
pub struct Running {
    pub(super) not_started: Option<NotStarted>,
    pub(super) process: Option<Process>,
    pub(super) events: Option<Events>,
    pub(super) job: Option<Job>,
    pub(super) mechanism: Option<Mechanism>,
    pub(super) listener: Option<Listener>,
    pub(super) limits: Limits,
    /// The command shares this process's console, and so hears Ctrl-C itself.
    pub(super) consoles: bool,
    pub(super) container: Option<SecurityEnvironment>,
    pub(super) relay: Option<Relay>,
    pub(super) folder: Option<RunFolder>,
}

impl Running {
    /// A command that was not found: nothing was made.
    pub(super) fn not_started(why: NotStarted) -> Running {
        Running {
            not_started: Some(why),
            process: None,
            events: None,
            job: None,
            mechanism: None,
            listener: None,
            limits: Limits::of(crate::limits::Kind::Command),
            consoles: false,
            container: None,
            relay: None,
            folder: None,
        }
    }

    /// End every process and wait until all are gone.
    fn end(&self) -> io::Result<()> {
        let Some(job) = &self.job else { return Ok(()) };
        match job.end(ENDED, ENDING) {
            Ok(Ended::Empty) => Ok(()),
            Ok(Ended::Left(processes)) => Err(io::Error::other(format!(
                "processes {processes:?} do not end, {ENDING:?} after they were told to"
            ))),
            Err(error) => Err(io::Error::other(error)),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Nothing in the container may outlive it: its rules end with it.
        let _ = self.end();
        drop(self.process.take());
        drop(self.job.take());
        drop(self.container.take());
        drop(self.relay.take());
        drop(self.folder.take());
    }
}

impl backend::Running for Running {
    fn mechanism(&self) -> Option<serde_json::Value> {
        self.mechanism.as_ref().and_then(|mechanism| serde_json::to_value(mechanism).ok())
    }

    fn sweep(&self) {
        if let Some(folder) = &self.folder {
            folder.sweep(64);
        }
    }

    fn wait(&mut self, timeout: Option<Duration>, on_network: OnNetwork<'_>) -> io::Result<backend::Ended> {
        if let Some(why) = self.not_started {
            return Ok((Ending::NotStarted(why), None));
        }
        if let Some(listener) = self.listener.take() {
            on_network(listener, None);
        }
        let Some(process) = &self.process else { return Err(io::Error::other("no process to wait for")) };
        let interrupts = Interrupts::listen().map_err(io::Error::other)?;
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let mut cause = None;
        let status = loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let ready = wait_any(&[process.as_handle(), interrupts.as_handle()], left);
            match ready.map_err(io::Error::other)? {
                Some(0) => break process.wait(Some(Duration::ZERO)).map_err(io::Error::other)?,
                Some(_) => {
                    let Some(interrupt) = interrupts.taken() else { continue };
                    let again = cause.replace(Cause::Signal(number(interrupt))).is_some();
                    // A program at the same console has heard it, and may take it as a word to itself.
                    let heard = self.consoles && matches!(interrupt, Interrupt::C | Interrupt::Break);
                    if again || !heard {
                        break None;
                    }
                }
                None => {
                    cause.get_or_insert(Cause::Timeout);
                    break None;
                }
            }
        };
        // When the first process ends, so does everything that it started.
        self.end()?;
        let status = match status {
            Some(status) => Some(status),
            None => process.wait(Some(ENDING)).map_err(io::Error::other)?,
        };
        let status = status.ok_or_else(|| io::Error::other("the command's status cannot be read"))?;
        Ok((Ending::Exited(status.cast_signed()), cause))
    }

    fn finish(mut self) -> Result<Option<(Usage, Limits)>, Refusal> {
        let failed = |reason: String| Refusal { code: "job", reason, fix: None };
        self.end().map_err(|error| failed(format!("ending the run: {error}")))?;
        let Some(job) = self.job.take() else { return Ok(None) };
        let counters = job.counters().map_err(|error| failed(error.to_string()))?;
        let (mut refused, mut memory) = (0, 0);
        if let Some(events) = &self.events {
            while let Ok(Some(event)) = events.next(Some(Duration::ZERO)) {
                match event {
                    Event::ProcessLimit => refused += 1,
                    Event::MemoryLimit(_) => memory += 1,
                    _ => {}
                }
            }
        }
        let usage = Usage {
            memory_peak: Some(counters.peak_memory),
            memory_limit: Some(self.limits.memory),
            memory_limit_reached: memory > 0,
            memory_kills: memory,
            processes_peak: None,
            processes_refused: refused,
            cpu_throttled: None,
            cpu_throttled_time: Duration::ZERO,
            cpu_used: Some(counters.cpu_time),
        };
        Ok(Some((usage, self.limits)))
    }
}

/// The signal of a Unix system that means the same, which is how a report tells it.
const fn number(interrupt: Interrupt) -> i32 {
    match interrupt {
        Interrupt::C => 2,
        Interrupt::Break => 3,
        Interrupt::Close | Interrupt::LogOff => 1,
        Interrupt::ShutDown => 15,
    }
}
