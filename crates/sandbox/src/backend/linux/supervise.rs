//! Standing by while a run lasts: signals in, stops and the end out, the terminal in between.

use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use oz0_egress::Listener;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::Signal;
use rustix::termios::{OptionalActions, Termios};

use super::launch::Running;
use super::wire::{FromInit, Start};
use crate::backend::{Ended, OnNetwork};
use crate::report::{Cause, Ending, NotStarted};
use crate::sys::linux::signals::{SignalDescriptor, Signals, is_ignored};

/// Signals that are the command's to answer.
const PASSED_ON: [i32; 9] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGWINCH,
    libc::SIGTSTP,
    libc::SIGCONT,
];

/// Time to end after a first word, before every process is ended at once.
pub(super) const GRACE: Duration = Duration::from_secs(5);

/// What is kept while standing by.
struct Watch<'a> {
    running: &'a Running,
    terminal: Option<TerminalRelay<'a>>,
    /// Where the network is asked for, until it first is.
    network: Option<(TcpListener, Option<UdpSocket>)>,
    cause: Option<Cause>,
    deadline: Option<Instant>,
    asked: bool,
    hard: bool,
}

/// Wait until the run has ended: every process of it but the init, which may still be on its way out.
pub fn supervise(
    running: &mut Running,
    timeout: Option<Duration>,
    on_network: OnNetwork<'_>,
) -> std::io::Result<Ended> {
    if let Some(start) = running.not_started {
        running.first.wait_gone();
        return Ok((Ending::NotStarted(not_started(start)), None));
    }
    let network = running.listener.take().map(|listener| (listener, running.resolver.take()));
    let running = &*running;
    // What the caller ignores (nohup does so with SIGHUP) neither ends the run nor reaches it.
    let heeded: Vec<i32> = PASSED_ON.into_iter().filter(|number| !is_ignored(*number)).collect();
    let signals = Signals::of(&heeded).descriptor()?;
    let terminal = running.terminal().map(TerminalRelay::start).transpose()?;
    if terminal.is_none() {
        release_descriptors();
    }
    let mut watch = Watch {
        running,
        terminal,
        network,
        cause: None,
        deadline: timeout.map(|timeout| Instant::now() + timeout),
        asked: false,
        hard: false,
    };
    let (ending, alone) = watch.until_the_end(&signals, on_network)?;
    if !alone {
        running.first.wait_gone();
    }
    if let Some(terminal) = &mut watch.terminal {
        terminal.drain();
    }
    Ok((ending, watch.cause))
}

/// The command has its own copies. With these a writer into the run would never see that nobody reads, and a
/// reader would wait for the node.
fn release_descriptors() {
    if let Ok(null) = rustix::fs::open(c"/dev/null", rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty()) {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
    }
}

fn not_started(start: Start) -> NotStarted {
    match start {
        Start::NotFound => NotStarted::NotFound,
        Start::NotExecutable(errno) => NotStarted::NotExecutable(errno.raw_os_error()),
    }
}

/// What has happened.
#[derive(Default)]
struct Ready {
    /// The init says something.
    control: bool,
    /// A signal came.
    signalled: bool,
    /// The host changed something in a protected place.
    guard: bool,
    /// A program asks for a connection or a name.
    network: bool,
}

impl Watch<'_> {
    /// How it ended, and whether nobody but the init is left.
    fn until_the_end(
        &mut self,
        signals: &SignalDescriptor,
        on_network: OnNetwork<'_>,
    ) -> std::io::Result<(Ending, bool)> {
        loop {
            let Ready { control, signalled, guard, network } = self.poll(signals)?;
            if network && let Some((listener, resolver)) = self.network.take() {
                on_network(Listener::from(listener), resolver);
            }
            if guard {
                self.keep_protected();
            }
            if signalled {
                while let Some((number, _)) = signals.next() {
                    self.on_signal(number)?;
                }
            }
            if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                self.on_deadline();
            }
            if control {
                match self.running.receive() {
                    Ok((FromInit::Ended { status, alone }, ..)) => return Ok((ending(status), alone)),
                    Ok((FromInit::NotStarted(start), ..)) => {
                        return Ok((Ending::NotStarted(not_started(start)), false));
                    }
                    Ok((FromInit::Stopped(_), ..)) => self.stop()?,
                    Ok((FromInit::Continued, ..)) => {}
                    // Killed, by us or by the limit of memory.
                    Ok(_) | Err(_) => return Ok((Ending::Signalled(libc::SIGKILL), false)),
                }
            }
        }
    }

    /// Something of the host's has come to stand in a protected place.
    fn keep_protected(&mut self) {
        let Some(guard) = &self.running.guard else { return };
        let members = match &self.running.group {
            Some((_, group)) => group.members().map_err(|error| error.to_string()),
            None => Ok(Vec::new()),
        };
        let kept = members.and_then(|members| guard.act(&members).map_err(|error| error.to_string()));
        if let Err(reason) = kept {
            self.cause = Some(Cause::Unprotected(reason));
            self.end_hard();
        }
    }

    /// Wait for something to happen.
    fn poll(&mut self, signals: &SignalDescriptor) -> std::io::Result<Ready> {
        let timeout = self.deadline.map(|deadline| {
            let left = deadline.saturating_duration_since(Instant::now());
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) }
        });
        let mut polled = vec![
            PollFd::new(&self.running.first.control, PollFlags::IN),
            PollFd::new(signals, PollFlags::IN),
        ];
        let guards = self.running.guard.iter().map(AsFd::as_fd);
        polled.extend(guards.map(|guard| PollFd::from_borrowed_fd(guard, PollFlags::IN)));
        let guarded = polled.len();
        if let Some((listener, resolver)) = &self.network {
            polled.push(PollFd::new(listener, PollFlags::IN));
            polled.extend(resolver.iter().map(|resolver| PollFd::new(resolver, PollFlags::IN)));
        }
        let first = polled.len();
        if let Some(terminal) = &self.terminal {
            terminal.add_to(&mut polled);
        }
        match rustix::event::poll(&mut polled, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Ready::default()),
            Err(errno) => return Err(errno.into()),
        }
        let ready: Vec<PollFlags> = polled.iter().map(PollFd::revents).collect();
        drop(polled);
        if let Some(terminal) = &mut self.terminal {
            terminal.relay(&ready[first..]);
        }
        let any = |range: &[PollFlags]| range.iter().any(|ready| !ready.is_empty());
        Ok(Ready {
            control: any(&ready[..1]),
            signalled: any(&ready[1..2]),
            guard: any(&ready[2..guarded]),
            network: any(&ready[guarded..first]),
        })
    }

    fn on_signal(&mut self, number: i32) -> std::io::Result<()> {
        match number {
            libc::SIGWINCH => {
                if let Some(terminal) = &self.terminal {
                    terminal.resize();
                } else {
                    self.running.signal(number);
                }
            }
            libc::SIGTSTP => {
                self.running.signal(number);
            }
            libc::SIGCONT => self.running.signal(number),
            libc::SIGINT | libc::SIGTERM | libc::SIGHUP | libc::SIGQUIT => {
                self.cause.get_or_insert(Cause::Signal(number));
                if self.asked {
                    self.end_hard();
                } else {
                    self.asked = true;
                    self.running.signal(number);
                    // A program may take an interrupt as a word to itself and go on; the others ask for an end.
                    if number != libc::SIGINT && number != libc::SIGQUIT {
                        self.deadline = Some(Instant::now() + self.running.patience);
                    }
                }
            }
            _ => self.running.signal(number),
        }
        Ok(())
    }

    fn on_deadline(&mut self) {
        if self.asked {
            self.end_hard();
        } else {
            self.cause.get_or_insert(Cause::Timeout);
            self.asked = true;
            self.running.signal(libc::SIGTERM);
            self.running.signal(libc::SIGCONT);
            self.deadline = Some(Instant::now() + GRACE);
        }
    }

    fn end_hard(&mut self) {
        if !self.hard {
            self.hard = true;
            self.deadline = None;
            self.running.first.kill();
        }
    }

    /// The command stopped: so does the node, as a shell expects of a job, until it is continued.
    fn stop(&mut self) -> std::io::Result<()> {
        if let Some(terminal) = &self.terminal {
            terminal.restore();
        }
        rustix::process::kill_process(rustix::process::getpid(), Signal::STOP)?;
        // Continued: SIGCONT is waiting in the descriptor too and is passed on once more, which does no harm.
        if let Some(terminal) = &self.terminal {
            terminal.take();
            terminal.resize();
        }
        self.running.signal(libc::SIGCONT);
        Ok(())
    }
}

fn ending(status: i32) -> Ending {
    if libc::WIFSIGNALED(status) {
        Ending::Signalled(libc::WTERMSIG(status))
    } else {
        Ending::Exited(libc::WEXITSTATUS(status))
    }
}

/// The caller's terminal on one side, the run's own on the other. The caller's is given back on drop.
struct TerminalRelay<'a> {
    run: BorrowedFd<'a>,
    before: Termios,
    typed: Vec<u8>,
    input_open: bool,
    output_open: bool,
}

impl<'a> TerminalRelay<'a> {
    fn start(run: BorrowedFd<'a>) -> std::io::Result<TerminalRelay<'a>> {
        let before = rustix::termios::tcgetattr(rustix::stdio::stdin())?;
        // The run's terminal behaves as the caller's does.
        rustix::termios::tcsetattr(run, OptionalActions::Now, &before)?;
        let flags = rustix::fs::fcntl_getfl(run)?;
        rustix::fs::fcntl_setfl(run, flags | rustix::fs::OFlags::NONBLOCK)?;
        let relay = TerminalRelay { run, before, typed: Vec::new(), input_open: true, output_open: true };
        relay.take();
        relay.resize();
        Ok(relay)
    }

    /// Every key goes to the run as it is.
    fn take(&self) {
        let mut raw = self.before.clone();
        raw.make_raw();
        let _ = rustix::termios::tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &raw);
    }

    fn restore(&self) {
        let _ = rustix::termios::tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &self.before);
    }

    fn resize(&self) {
        if let Ok(size) = rustix::termios::tcgetwinsize(rustix::stdio::stdin()) {
            let _ = rustix::termios::tcsetwinsize(self.run, size);
        }
    }

    fn add_to<'b>(&'b self, polled: &mut Vec<PollFd<'b>>) {
        let mut wanted = PollFlags::empty();
        if self.output_open {
            wanted |= PollFlags::IN;
        }
        if !self.typed.is_empty() {
            wanted |= PollFlags::OUT;
        }
        polled.push(PollFd::from_borrowed_fd(self.run.as_fd(), wanted));
        // Nothing more is read while what was typed has not been taken.
        if self.input_open && self.typed.is_empty() {
            polled.push(PollFd::from_borrowed_fd(rustix::stdio::stdin(), PollFlags::IN));
        }
    }

    fn relay(&mut self, ready: &[PollFlags]) {
        let run = ready.first().copied().unwrap_or(PollFlags::empty());
        if run.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            self.output();
        }
        if run.contains(PollFlags::OUT) {
            match rustix::io::write(self.run, &self.typed) {
                Ok(written) => drop(self.typed.drain(..written)),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => self.typed.clear(),
            }
        }
        if ready.get(1).is_some_and(|input| !input.is_empty()) {
            let mut bytes = [0u8; 4096];
            match rustix::io::read(rustix::stdio::stdin(), &mut bytes) {
                Ok(0) => self.input_open = false,
                Ok(read) => self.typed.extend_from_slice(&bytes[..read]),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => self.input_open = false,
            }
        }
    }

    /// Pass on what the run has written; false when there is no more.
    fn output(&mut self) -> bool {
        let mut bytes = [0u8; 16 * 1024];
        match rustix::io::read(self.run, &mut bytes) {
            Ok(0) => self.output_open = false,
            Ok(read) => {
                let mut rest = &bytes[..read];
                while !rest.is_empty() {
                    match rustix::io::write(rustix::stdio::stdout(), rest) {
                        Ok(written) => rest = &rest[written..],
                        Err(Errno::INTR) => {}
                        Err(_) => break,
                    }
                }
                return true;
            }
            Err(Errno::INTR) => return true,
            Err(Errno::AGAIN) => return false,
            // EIO: the last descriptor of the inner side is closed. A shell may open it again.
            Err(_) => self.output_open = false,
        }
        false
    }

    /// What is still in the terminal after the end.
    fn drain(&mut self) {
        while self.output() {}
    }
}

impl Drop for TerminalRelay<'_> {
    fn drop(&mut self) {
        self.restore();
    }
}
